"""API keys: `bpc_<prefix>_<secret><checksum>`.

The prefix finds the key, the secret proves it, and the checksum (CRC-32 of all before it, in base62) tells a
typing mistake from a key that was revoked. What is stored is the SHA-256 of the whole key and the pepper.
"""

import hmac
import re
import zlib
from dataclasses import dataclass, field
from typing import Final, Self

from bpc.core.digest import Digest, sha256
from bpc.core.errors import Refusal

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PREFIX_LENGTH: Final = 10
SECRET_LENGTH: Final = 43  # 256 bits
CHECKSUM_LENGTH: Final = 6
ENTROPY_BYTES: Final = 8 + 32
_FORM: Final = re.compile(
    rf"(?P<body>bpc_(?P<prefix>[0-9A-Za-z]{{{PREFIX_LENGTH}}})_[0-9A-Za-z]{{{SECRET_LENGTH}}})"
    rf"(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_LENGTH}}})"
)


class Unauthorized(Refusal):
    """No key, a key that is none, or one that opens nothing."""

    code = "UNAUTHORIZED"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A well-formed key with a right checksum. Its text never appears in what is printed of it."""

    prefix: str
    text: str = field(repr=False)

    @classmethod
    def generate(cls, entropy: bytes) -> Self:
        """A new key out of 40 random bytes."""
        if len(entropy) != ENTROPY_BYTES:
            raise ValueError(f"a key takes {ENTROPY_BYTES} random bytes")
        prefix = _base62(int.from_bytes(entropy[:8], "big"), PREFIX_LENGTH)
        secret = _base62(int.from_bytes(entropy[8:], "big"), SECRET_LENGTH)
        body = f"bpc_{prefix}_{secret}"
        return cls(prefix, body + _checksum(body))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a key that somebody sent."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise Unauthorized("this is not an API key", fix="send `bpc_…` exactly as it was shown when it was made")
        if match["checksum"] != _checksum(match["body"]):
            raise Unauthorized("this API key has a typing mistake", fix="copy it again, from `bpc_` to its end")
        return cls(match["prefix"], text)

    def hash(self, pepper: bytes) -> Digest:
        return sha256(self.text.encode() + pepper)

    def matches(self, stored: bytes, pepper: bytes) -> bool:
        """Whether this is the key whose hash is `stored`, in a time that tells nothing."""
        return hmac.compare_digest(self.hash(pepper), stored)


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), CHECKSUM_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
