"""Peppers: the one that hashes of API keys are made with, and those that are accepted while it is being replaced.

    next       accepted, and nothing more: others may use it already
    in use     what is stored is made with it
    previous   accepted; a key that still hangs on it is hashed again when it is used

Two names instead of a list of peppers, because a direction belongs to it: two processes of which each took the other's
pepper for the older one would hash a key back and forth for as long as both run. They are different: a key could not
be moved from a pepper to the same one.
"""

import hmac
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from bpc.core.apikeys import ApiKey
from bpc.core.errors import Refusal

NAME_BYTES: Final = 6
IN_USE: Final = "BPC_API_KEY_PEPPER_BASE64"
NEXT, PREVIOUS = "BPC_API_KEY_PEPPER_NEXT_BASE64", "BPC_API_KEY_PEPPER_PREVIOUS_BASE64"
_DOMAIN: Final = b"BPC-PEPPER-NAME-1"


def pepper_id(pepper: bytes) -> str:
    """A short name for a pepper, to be stored beside hashes: it tells peppers apart, and nothing else about them."""
    return hmac.digest(pepper, _DOMAIN, "sha256")[:NAME_BYTES].hex()


class SamePepper(Refusal):
    """A step of replacing a pepper that was done by halves."""

    code = "CONFIG_MISSING"

    def __init__(self, one: str, other: str) -> None:
        super().__init__(
            f"`{other}` is the same pepper as `{one}`",
            fix=f"set `{other}` to another one, or leave it out; where `{IN_USE}` is not set, that pepper is the one "
            "kept in the data folder",
            details={"settings": [one, other]},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Peppers:
    """All peppers of an installation, no two of them the same."""

    in_use: bytes = field(repr=False)
    previous: bytes | None = field(default=None, repr=False)
    next: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        named = ((IN_USE, self.in_use), (NEXT, self.next), (PREVIOUS, self.previous))
        for (one, pepper), (other, another) in combinations(named, 2):
            if pepper is not None and pepper == another:
                raise SamePepper(one, other)

    @property
    def accepted(self) -> tuple[bytes, ...]:
        """Every one of them, the one in use first."""
        return tuple(pepper for pepper in (self.in_use, self.previous, self.next) if pepper is not None)

    def behind(self, key: ApiKey, stored: bytes) -> bytes | None:
        """The pepper with which `key` gives the hash `stored`; None where none does.

        All are tried, also after one has matched: how long it takes does not tell which.
        """
        matching = [pepper for pepper in self.accepted if key.matches(stored, pepper)]
        return matching[0] if matching else None
