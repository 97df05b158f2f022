"""Upper and lower case of A to Z alone. `str.lower` and `str.upper` know more letters with each Unicode."""

from string import ascii_lowercase, ascii_uppercase
from typing import Final

_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_UPPER: Final = str.maketrans(ascii_lowercase, ascii_uppercase)


def lower_ascii(text: str) -> str:
    """The text with A to Z in lower case; other characters do not change."""
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """The text with a to z in upper case; other characters do not change."""
    return text.translate(_UPPER)
