"""Texts of headers, compared as people read them: without case, accents and punctuation.

Unicode tables differ between builds of Python, so the letters of European languages are listed here.
"""

import re
from typing import Final

MAX_HEADER_LENGTH: Final = 200

_ACCENTS: Final = {
    "a": "ÀÁÂÃÄÅĀĂĄàáâãäåāăą",
    "c": "ÇĆČçćč",
    "d": "ĎĐďđ",
    "e": "ÈÉÊËĒĖĘĚèéêëēėęě",
    "g": "Ğğ",
    "i": "ÌÍÎÏĪĮİìíîïīįı",
    "l": "ŁĽłľ",
    "n": "ÑŃŇñńň",
    "o": "ÒÓÔÕÖØŌŐòóôõöøōő",
    "r": "Řř",
    "s": "ŚŞŠśşš",
    "t": "ŤŢťţ",
    "u": "ÙÚÛÜŪŮŰùúûüūůű",
    "y": "ÝŸýÿ",
    "z": "ŹŻŽźżž",
    "ss": "ß",
    "ae": "Ææ",
    "oe": "Œœ",
    "2": "₂²",
}
_FOLD: Final = str.maketrans(
    {
        **{letter: plain for plain, letters in _ACCENTS.items() for letter in letters},
        **dict.fromkeys(map(chr, range(0x300, 0x370)), ""),  # accents that are written as characters of their own
        **dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", strict=True)),
    }
)
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "ae", "Ö": "oe", "Ü": "ue"})
_WORD: Final = re.compile("[a-z0-9]+")
# Articles and prepositions, which do not tell one member from another.
_FILLERS: Final = frozenset(
    """
    a al alla alle and au aux con d da das de dei del dell della delle dem den der des di die do du e ed el en et for
    from fur i im in la las le les los na nel nella o of pour para the und van vom von w y z za zur zum
    """.split()  # noqa: SIM905
)


def fold_text(text: str) -> str:
    """A text in small letters without accents."""
    return text.translate(_FOLD)


def spell_umlauts(text: str) -> str:
    """The other German spelling: `Kapazitaet` of `Kapazität`."""
    return text.translate(_UMLAUTS)


def build_name_key(text: str) -> str:
    """What two names have in common that mean the same: their words, in any order, without articles."""
    words = _WORD.findall(fold_text(text[:MAX_HEADER_LENGTH]))
    return " ".join(sorted({word for word in words if word not in _FILLERS} or words))
