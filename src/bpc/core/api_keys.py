"""API keys, `bpc_<prefix>_<secret><checksum>`, and the peppers that their stored hashes are made with.

Pure: entropy is an argument. The prefix finds the key, the secret proves it, and the checksum (CRC-32 of all before it,
in base62) tells a typing mistake from a key that was revoked. Stored is the SHA-256 of the whole key and the pepper, a
secret of the installation. While a pepper is replaced, the previous and the next one are accepted too.
"""

import hmac
import re
import zlib
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar, Final, Self

from bpc.core.errors import Refusal
from bpc.core.formats.hashes import Digest, sha256

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PREFIX_LENGTH: Final = 10
SECRET_LENGTH: Final = 43  # 256 bits
CHECKSUM_LENGTH: Final = 6
ENTROPY_BYTES: Final = 8 + 32
PEPPER_ID_BYTES: Final = 6
_PEPPER_ID_DOMAIN: Final = b"BPC-PEPPER-NAME-1"
_KEY_PATTERN: Final = re.compile(
    rf"(?P<body>(?P<mark>[a-z]{{3}})_(?P<prefix>[0-9A-Za-z]{{{PREFIX_LENGTH}}})_[0-9A-Za-z]{{{SECRET_LENGTH}}})"
    rf"(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_LENGTH}}})"
)


class Unauthorized(Refusal):
    """The request has no key, a malformed key, or a key without access."""

    code = "UNAUTHORIZED"


@dataclass(frozen=True, slots=True)
class ApiKeySecret:
    """A well-formed key with a right checksum. Printing it does not show the key.

    `MARK` is what a key begins with. Other secrets of this form have another one.
    """

    MARK: ClassVar[str] = "bpc"
    LABEL: ClassVar[str] = "an API key"

    prefix: str
    text: str = field(repr=False)

    @classmethod
    def generate(cls, entropy: bytes) -> Self:
        """A new key out of 40 random bytes."""
        if len(entropy) != ENTROPY_BYTES:
            raise ValueError(f"a key takes {ENTROPY_BYTES} random bytes")
        prefix = _encode_base62(int.from_bytes(entropy[:8], "big"), PREFIX_LENGTH)
        secret = _encode_base62(int.from_bytes(entropy[8:], "big"), SECRET_LENGTH)
        body = f"{cls.MARK}_{prefix}_{secret}"
        return cls(prefix, body + _compute_checksum(body))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a key that somebody sent."""
        match = _KEY_PATTERN.fullmatch(text)
        if match is None or match["mark"] != cls.MARK:
            fix = f"send `{cls.MARK}_…` exactly as it was shown when it was created"
            raise Unauthorized(f"this is not {cls.LABEL}", fix=fix)
        if match["checksum"] != _compute_checksum(match["body"]):
            label = cls.LABEL.partition(" ")[2]
            raise Unauthorized(
                f"this {label} has a typing mistake", fix=f"copy it again, from `{cls.MARK}_` to its end"
            )
        return cls(match["prefix"], text)

    def hash(self, pepper: bytes) -> Digest:
        return sha256(self.text.encode() + pepper)

    def matches(self, stored_hash: bytes, pepper: bytes) -> bool:
        """Whether this is the key whose hash is `stored_hash`; takes the same time for every key."""
        return hmac.compare_digest(self.hash(pepper), stored_hash)


def _compute_checksum(body: str) -> str:
    return _encode_base62(zlib.crc32(body.encode()), CHECKSUM_LENGTH)


def _encode_base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def compute_pepper_id(pepper: bytes) -> str:
    """A short name for a pepper, stored beside hashes. It tells peppers apart and reveals nothing else."""
    return hmac.digest(pepper, _PEPPER_ID_DOMAIN, "sha256")[:PEPPER_ID_BYTES].hex()


class SamePepper(Refusal):
    """Two of an installation's peppers are equal: somebody stopped in the middle of replacing one."""

    code = "CONFIG_MISSING"

    def __init__(self, one: str, other: str) -> None:
        super().__init__(
            f"the {other} pepper is the same as the {one} pepper",
            hint=f"replace the {other} pepper",
            details={"peppers": [one, other]},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Peppers:
    """All peppers of an installation, no two of them the same."""

    in_use: bytes = field(repr=False)
    previous: bytes | None = field(default=None, repr=False)
    next: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        peppers = (("current", self.in_use), ("next", self.next), ("previous", self.previous))
        for (one, pepper), (other, another) in combinations(peppers, 2):
            if pepper is not None and pepper == another:
                raise SamePepper(one, other)

    @property
    def accepted(self) -> tuple[bytes, ...]:
        """Every one of them, the one in use first."""
        return tuple(pepper for pepper in (self.in_use, self.previous, self.next) if pepper is not None)

    def find_matching(self, key: ApiKeySecret, stored_hash: bytes) -> bytes | None:
        """The pepper with which `key` has the hash `stored_hash`; None if there is none.

        All are tried, also after one has matched, so the time it takes does not show which one matched.
        """
        matching = [pepper for pepper in self.accepted if key.matches(stored_hash, pepper)]
        return matching[0] if matching else None
