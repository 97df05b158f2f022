"""Lists that a sender wrote as one text: each substance, material or number by itself.

    Lead (CAS 7439-92-1); nickel            lead, nickel
    Critical raw materials: Co, Li, Ni      Co, Li, Ni
    Co,Li,Ni                                Co, Li, Ni
    1,2-dimethoxyethane                     one name: a comma between two digits belongs to it

A comma separates only where the parts are names, not words of a sentence: none has more than four words. One between
two digits, or before a letter that says where a group of atoms is (`N,N-dimethylaniline`), is part of a name or number.
"""

import re
from typing import Final

from bpc.core.formats.ascii_case import lower_ascii

MAX_WORDS_OF_A_NAME: Final = 4
MAX_NOTHING_LENGTH: Final = 8
CAS_NUMBER: Final = re.compile(r"(?<![0-9-])([0-9]{2,7}-[0-9]{2}-[0-9])(?![0-9-])")

_SEPARATORS: Final = re.compile(r"\s*(?:;|\||\n|\u2022)\s*")
_HEADING: Final = re.compile(
    r"[^:;,]*\b(?:materials?|substances?|numbers?|components?|CAS)\b[^:;,]{0,30}:\s+(?=\S)", re.IGNORECASE
)
_CAS_REMARK: Final = re.compile(
    r"\s*[(\[]?\s*(?:CAS(?:[- ]?(?:No|Nr|number))?[.:]?\s*)?[0-9]{2,7}-[0-9]{2}-[0-9]\s*[)\]]?"
)
_COMMA: Final = re.compile(
    r",\s+|(?:(?<![0-9]),|,(?![0-9]))(?![NOSPC]['\u2032]?[-,])|(?<=[0-9]-[0-9]),(?=[0-9]{2,7}-[0-9]{2}-[0-9])"
)
# What people write into a list that has no items, in six languages; the others do not say that there are none.
_NONE: Final = frozenset(
    "none keine keiner keines kein aucun aucune ninguno ninguna nessuno nessuna nessun brak".split()  # noqa: SIM905
)
_NO_ITEM: Final = frozenset({"", "-", "n/a", "not applicable", *_NONE})
# What people write into a cell of which they know nothing, without blanks. `KA` without dots may be a model.
_NOTHING: Final = frozenset(
    "- -- --- – — / ? ?? ??? n/a n.a. n.a n/d n.d. n/v k/a k.a. k.a s/o s.o. b.d. tbd t.b.d. tbc tba xxx #".split()  # noqa: SIM905
)


def split_list(text: str) -> list[str]:
    """The items of a list that is written as one text; a sentence is one item, `none` is an empty list."""
    parts = [part.strip(" .") for part in _SEPARATORS.split(_HEADING.sub("", text.strip(), count=1))]
    items = [part for part in parts if lower_ascii(part) not in _NO_ITEM]
    return [item for part in items for item in _split_at_commas(part)]


def _split_at_commas(text: str) -> list[str]:
    parts: list[str] = []
    for part in _COMMA.split(text):
        is_inside = parts and parts[-1].count("(") > parts[-1].count(")")
        if is_inside:
            parts[-1] += f", {part}"
        else:
            parts.append(part)
    is_list = all(len(part.split()) <= MAX_WORDS_OF_A_NAME for part in parts)
    return [part.strip() for part in parts if part.strip()] if is_list else [text]


def split_cas_number(text: str) -> tuple[str | None, str | None]:
    """The name and the CAS number in an item such as `Lead (CAS 7439-92-1)`."""
    number = CAS_NUMBER.search(text)
    if number is None:
        return text, None
    name = _CAS_REMARK.sub("", text, count=1).strip(" ,-:")
    return name or None, number[1]


def says_none(text: str) -> bool:
    """Whether a text says that there is nothing to list. A dash or `n/a` does not say that."""
    return lower_ascii(text.strip(" .")) in _NONE


def says_nothing(text: str) -> bool:
    """Whether a text only stands for a missing one, such as a dash, `n/a` or `k. A.`."""
    return not text or (len(text) <= MAX_NOTHING_LENGTH and "".join(lower_ascii(text).split()) in _NOTHING)


def is_address(text: str) -> bool:
    """Whether a text is a web address and nothing else."""
    return "://" in text and not re.search(r"\s", text)
