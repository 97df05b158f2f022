"""Digests: bytes in, their SHA-256 out, and the two ways a digest is written.

Pure. In JSON a digest is 64 lower-case hex digits, in a QR code 52 characters of Base32, in the database its
32 bytes. Reading is strict: each digest has one spelling, and every other one is refused, because a decoder
that forgives lets a changed text pass for an unchanged one.
"""

import base64
import hashlib
from contextlib import suppress
from typing import Final, NewType

from bpc.core.errors import Invalid

Digest = NewType("Digest", bytes)
"""The 32 bytes of a SHA-256."""

DIGEST_BYTES: Final = 32


def sha256(data: bytes) -> Digest:
    return Digest(hashlib.sha256(data).digest())


def to_hex(digest: Digest) -> str:
    return digest.hex()


def from_hex(text: str) -> Digest:
    """The digest written as `text`; refused unless it is exactly 64 lower-case hex digits."""
    # `fromhex` also takes upper case and blanks between the digits.
    with suppress(ValueError):
        raw = bytes.fromhex(text)
        if len(raw) == DIGEST_BYTES and raw.hex() == text:
            return Digest(raw)
    raise Invalid(f"`{text[:80]}` is not a hash; write it as 64 lower-case hex digits")


def to_base32(data: bytes) -> str:
    """RFC 4648 section 6: the upper-case alphabet, here without padding."""
    return base64.b32encode(data).rstrip(b"=").decode()


def from_base32(text: str) -> bytes:
    """The bytes written as `text`; refused unless `to_base32` writes them exactly so."""
    # The last character has bits that stand for nothing, and `b32decode` does not look at them.
    with suppress(ValueError):  # of which `binascii.Error` is one
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
        if to_base32(raw) == text:
            return raw
    raise Invalid(f"`{text[:80]}` is not base32 in upper case without padding")
