"""What a document holds before it has types, whatever format it came in.

A number is kept as its text: nothing is computed with it before its length is known, and it never becomes a binary
fraction on its way into a fact.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from bpc.core.facts import MAX_NUMBER_TEXT

# Far above any number that fits, far below one that takes time.
MOST_EXPONENT_DIGITS: Final = 3

_NUMBER: Final = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?")
_PLAIN: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written: an optional sign, digits, perhaps a fraction and an exponent."""

    text: str


Given: TypeAlias = "bool | str | Number | list[Given] | dict[str, Given] | None"


@dataclass(frozen=True, slots=True)
class Exact:
    """`count` divided by ten to the power of `scale`."""

    count: int
    scale: int

    def at_scale(self, scale: int) -> int | None:
        """The same value counted in units of 10^-scale, or None where it has more decimals than that."""
        if self.scale <= scale:
            scaled: int = self.count * 10 ** (scale - self.scale)
            return scaled
        count, rest = divmod(self.count, 10 ** (self.scale - scale))
        return count if rest == 0 else None


def exact(text: str) -> Exact | None:
    """The value of a number's text; None where it is none, or is longer or has a larger exponent than any that fits."""
    parts = _NUMBER.fullmatch(text) if len(text) <= MAX_NUMBER_TEXT else None
    if parts is None:
        return None
    sign, whole, fraction, exponent_sign, exponent = parts.groups(default="")
    if len(exponent) > MOST_EXPONENT_DIGITS:
        return None
    shift = int(exponent_sign + exponent) if exponent else 0
    count, scale = int(sign + whole + fraction), len(fraction) - shift
    return Exact(count, scale) if scale >= 0 else Exact(count * 10**-scale, 0)


def is_plain(text: str) -> bool:
    """Whether `text` is a decimal number as people write it: no exponent, no plus sign, no blank."""
    return len(text) <= MAX_NUMBER_TEXT and _PLAIN.fullmatch(text) is not None
