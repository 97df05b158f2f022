"""Signatures, BPC-SIGN-1: Ed25519 over the 32 bytes of a hash.

A public key is checked before it is ever used: some implementations accept forged signatures under keys of
small order, and implementations differ on malformed ones, so both are refused here.
"""

import base64
import binascii
from typing import Final, NamedTuple, NewType

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bpc.core.digest import Digest
from bpc.core.errors import Invalid

PublicKey = NewType("PublicKey", bytes)
Seed = NewType("Seed", bytes)


class PinnedKey(NamedTuple):
    """A public key that somebody trusts, for whatever names it; without a name, for everything."""

    public_key: PublicKey
    key_id: str | None


# RFC 8032 5.1: the field's prime and the curve's d.
P: Final = 2**255 - 19
D: Final = -121665 * pow(121666, -1, P) % P


class BadKey(Invalid):
    """Not a key that signatures can be trusted under."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the key is {reason}", fix="make one with `bpc keygen`")


class SignatureInvalid(Invalid):
    """The signature is not this key's over this hash."""

    code = "SIGNATURE_INVALID"


def seed_of(raw: bytes) -> Seed:
    """A private key as 32-byte seed, or as the 64 bytes of seed and public key."""
    if len(raw) not in {32, 64}:
        raise BadKey(f"{len(raw)} bytes long, neither 32 nor 64")
    seed = Seed(raw[:32])
    if len(raw) == 64 and raw[32:] != public_key_of(seed):
        raise BadKey("not one key: its second half is not the public key of the first")
    return seed


def public_key_of(seed: Seed) -> PublicKey:
    return PublicKey(Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw())


def checked_public_key(raw: bytes) -> PublicKey:
    """A public key that is a point of the curve, canonically written, and not of small order."""
    if len(raw) != 32:
        raise BadKey(f"{len(raw)} bytes long, not 32")
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= P:
        raise BadKey("not canonically encoded")
    x_squared = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    # Euler's criterion: x² has a root, or there is no such point (RFC 8032 5.1.3).
    if x_squared != 0 and pow(x_squared, (P - 1) >> 1, P) != 1:
        raise BadKey("not a point of the curve")
    if _is_small_order(x_squared, y):
        raise BadKey("of small order, under which anybody can sign")
    return PublicKey(raw)


class Signer:
    """A private key ready to sign: unpacking the seed takes as long as a signature, so it is done once."""

    __slots__ = ("_key", "public_key")

    def __init__(self, seed: Seed) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key = PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, digest: Digest) -> bytes:
        return self._key.sign(digest)


def sign(seed: Seed, digest: Digest) -> bytes:
    """One signature; whoever makes many keeps a `Signer`."""
    return Signer(seed).sign(digest)


def verify(key: PublicKey, digest: Digest, signature: bytes) -> None:
    """Raise `SignatureInvalid` unless `signature` is `key`'s over `digest`."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, digest)
    except InvalidSignature:
        raise SignatureInvalid("the signature does not belong to this content and key") from None


def from_base64(text: str) -> bytes:
    """Strict base64: what it decodes to encodes to the same text again."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadKey("not base64") from None
    if base64.b64encode(raw).decode() != text:
        raise BadKey("not canonical base64")
    return raw


def to_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _is_small_order(x_squared: int, y: int) -> bool:
    """Whether eight times the point is the identity; doubling needs x² and y² only.

    2(x, y) = (2xy / (1 + dx²y²), (x² + y²) / (1 − dx²y²)), with x² + … as −x² + y² = 1 + dx²y².
    """
    x2, y2 = x_squared, y * y % P
    for _ in range(3):
        product = D * x2 * y2 % P
        plus, minus = pow(1 + product, -1, P), pow(1 - product, -1, P)
        x2, y_next = 4 * x2 * y2 * plus * plus % P, (x2 + y2) * minus % P
        y2, y = y_next * y_next % P, y_next
    return x2 == 0 and y == 1
