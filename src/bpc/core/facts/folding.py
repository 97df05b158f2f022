"""Words that differ only in writing, made equal: capitals, accents, hyphens and spaces do not count.

Pure, by a table of our own: what Unicode's tables say depends on their version, and the core gives the same answer
everywhere. The table has the Latin letters of European languages; any other character stays as it is.
"""

import re
import string
from collections.abc import Mapping
from typing import Final

_BASE_LETTERS: Final[Mapping[str, str]] = {
    "a": "àáâãäåāăąÀÁÂÃÄÅĀĂĄ",
    "ae": "æÆ",
    "c": "çćĉċčÇĆĈĊČ",
    "d": "ďđðĎĐÐ",
    "e": "èéêëēĕėęěÈÉÊËĒĔĖĘĚ",
    "g": "ĝğġģĜĞĠĢ",
    "h": "ĥħĤĦ",
    "i": "ìíîïĩīĭįıÌÍÎÏĨĪĬĮİ",
    "j": "ĵĴ",
    "k": "ķĶ",
    "l": "ĺļľŀłĹĻĽĿŁ",
    "n": "ñńņňÑŃŅŇ",
    "o": "òóôõöøōŏőÒÓÔÕÖØŌŎŐ",
    "oe": "œŒ",
    "r": "ŕŗřŔŖŘ",
    "s": "śŝşšșŚŜŞŠȘ",
    "ss": "ßẞ",
    "t": "ţťŧțŢŤŦȚ",
    "th": "þÞ",
    "u": "ùúûüũūŭůűųÙÚÛÜŨŪŬŮŰŲ",
    "w": "ŵŴ",
    "y": "ýÿŷÝŸŶ",
    "z": "źżžŹŻŽ",
}
# An accent that was written as a character of its own: U+0300 to U+036F.
_COMBINING_MARKS: Final = dict.fromkeys(range(0x300, 0x370))
_FOLDS: Final = str.maketrans(
    dict(zip(string.ascii_uppercase, string.ascii_lowercase, strict=True))
    | {letter: base for base, letters in _BASE_LETTERS.items() for letter in letters}
)
_SEPARATORS: Final = re.compile("[\\s.,;:_/()'’`\"\u00ad\u2010-\u2015-]+")


def fold_text(text: str) -> str:
    """`text` in small letters without accents, its words apart by one space: `Réutilisée ` is `reutilisee`."""
    return _SEPARATORS.sub(" ", text.translate(_COMBINING_MARKS).translate(_FOLDS)).strip(" ")
