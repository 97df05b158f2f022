"""Article numbers: what a product is called in its tenant, in its facts and on its passport.

Two that look the same are the same: a SKU has nothing in it that nobody sees.
"""

import re
from typing import Final

# Control characters, blanks without width, marks that turn the direction of what follows, and what is no character.
_UNSEEN: Final = re.compile("[\0-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]")
_BLANK: Final = re.compile("[ \xa0\u2000-\u200a\u202f\u205f\u3000]*")


def fault_of(sku: str) -> str | None:
    """What keeps a text from being a SKU, or from being part of the key of a fact."""
    if _BLANK.fullmatch(sku):
        return "is blank"
    if _UNSEEN.search(sku):
        return "has a character that nobody sees"
    return None
