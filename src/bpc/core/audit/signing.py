"""Signatures, BPC-SIGN-1: Ed25519 over the 32 bytes of a hash.

A public key is checked before it is ever used: some implementations accept forged signatures under keys of
small order, and implementations differ on malformed ones, so both are refused here.
"""

import base64
import binascii
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, NewType

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import parse_uuid
from bpc.core.formats.timestamps import format_time, parse_time

PublicKey = NewType("PublicKey", bytes)
Seed = NewType("Seed", bytes)


class PinnedKey(NamedTuple):
    """A public key that somebody trusts, for whatever names it; without a name, for everything.

    A key of a tenant counts for that tenant alone. Without one it is an installation's key, which proves no tenant.
    `valid_until` is also the time when the key was retired. A None bounds nothing.
    """

    public_key: PublicKey
    key_id: str | None
    tenant_id: str | None = None
    tenant: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    compromised_since: datetime | None = None


# RFC 8032 5.1: the field's prime and the curve's d.
FIELD_PRIME: Final = 2**255 - 19
CURVE_D: Final = -121665 * pow(121666, -1, FIELD_PRIME) % FIELD_PRIME


class BadKey(Invalid):
    """Not a key that signatures can be trusted under."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the key is {reason}", fix="make a new key pair", hint="make a key pair")


class SignatureInvalid(Invalid):
    """The signature is not this key's over this hash."""

    code = "SIGNATURE_INVALID"


def parse_seed(raw: bytes) -> Seed:
    """A private key as 32-byte seed, or as the 64 bytes of seed and public key."""
    if len(raw) not in {32, 64}:
        raise BadKey(f"{len(raw)} bytes long, neither 32 nor 64")
    seed = Seed(raw[:32])
    if len(raw) == 64 and raw[32:] != derive_public_key(seed):
        raise BadKey("not one key: its second half is not the public key of the first")
    return seed


def derive_public_key(seed: Seed) -> PublicKey:
    return PublicKey(Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw())


def parse_public_key(raw: bytes) -> PublicKey:
    """A public key that is a point of the curve, canonically written, and not of small order."""
    if len(raw) != 32:
        raise BadKey(f"{len(raw)} bytes long, not 32")
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= FIELD_PRIME:
        raise BadKey("not canonically encoded")
    x_squared = (y * y - 1) * pow(CURVE_D * y * y + 1, -1, FIELD_PRIME) % FIELD_PRIME
    # Euler's criterion: x² has a root, or there is no such point (RFC 8032 5.1.3).
    if x_squared != 0 and pow(x_squared, (FIELD_PRIME - 1) >> 1, FIELD_PRIME) != 1:
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

    def sign(self, message: bytes) -> bytes:
        """The signature over these bytes, which are a hash for everything but checkpoints of the log."""
        return self._key.sign(message)


def verify_signature(key: PublicKey, digest: Digest, signature: bytes) -> None:
    """Raise `SignatureInvalid` unless `signature` is `key`'s over `digest`."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, digest)
    except InvalidSignature:
        raise SignatureInvalid("the signature does not belong to this content and key") from None


def from_base64(text: str, *, size: int | None = None) -> bytes:
    """Strict base64, of `size` bytes: what it decodes to encodes to the same text again."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadKey("not base64") from None
    if base64.b64encode(raw).decode() != text:
        raise BadKey("not canonical base64")
    if size is not None and len(raw) != size:
        raise Invalid(f"it has {len(raw)} bytes, not {size}")
    return raw


def to_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _is_small_order(x_squared: int, y: int) -> bool:
    """Whether eight times the point is the identity; doubling needs x² and y² only.

    2(x, y) = (2xy / (1 + dx²y²), (x² + y²) / (1 − dx²y²)), with x² + … as −x² + y² = 1 + dx²y².
    """
    x2, y2 = x_squared, y * y % FIELD_PRIME
    for _ in range(3):
        product = CURVE_D * x2 * y2 % FIELD_PRIME
        plus, minus = pow(1 + product, -1, FIELD_PRIME), pow(1 - product, -1, FIELD_PRIME)
        x2, y_next = 4 * x2 * y2 * plus * plus % FIELD_PRIME, (x2 + y2) * minus % FIELD_PRIME
        y2, y = y_next * y_next % FIELD_PRIME, y_next
    return x2 == 0 and y == 1


# The key set: all public keys of an installation as one file, for people who check what they signed.


class BadKeySet(Invalid):
    """Not a key set, or not one to trust."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this is not a valid key set: {reason}", fix="fetch it from the issuer again", hint="fetch the key set"
        )


def key_to_json(
    key: PinnedKey, *, status: str, created_at: datetime, retired_at: datetime | None
) -> dict[str, canonical_json.Json]:
    """One key, as a set lists it; `tenant` and `tenant_id` are null for a key of the installation."""
    return {
        "kid": key.key_id,
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "use": "sig",
        "x": _to_base64url(key.public_key),
        "key_id": key.key_id,
        "public_key": to_base64(key.public_key),
        "tenant": key.tenant,
        "tenant_id": key.tenant_id,
        "status": status,
        "created_at": format_time(created_at),
        "retired_at": _format_optional_time(retired_at),
        "valid_from": _format_optional_time(key.valid_from),
        "valid_until": _format_optional_time(key.valid_until),
        "compromised_since": _format_optional_time(key.compromised_since),
    }


def read_key_set(data: bytes) -> Sequence[PinnedKey]:
    """The keys of a set, in its order, with what it says of each: name, tenant, validity, compromise."""
    try:
        document = canonical_json.read_json(data)
    except Invalid as wrong:
        raise BadKeySet(wrong.says) from None
    keys = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(keys, list | tuple):
        raise BadKeySet("it has no list `keys`")
    return [_read_key(number, key) for number, key in enumerate(keys, 1)]


def _read_key(number: int, key: object) -> PinnedKey:
    text = key.get("public_key") if isinstance(key, Mapping) else None
    if not isinstance(key, Mapping) or not isinstance(text, str):
        raise BadKeySet(f"key {number} has no `public_key`")
    try:
        public_key = parse_public_key(from_base64(text))
    except Invalid as wrong:
        raise BadKeySet(f"key {number}: {wrong.says}") from None
    # Two ways to say which key it is that say different things: somebody has tampered with one.
    if key.get("x", _to_base64url(public_key)) != _to_base64url(public_key):
        raise BadKeySet(f"key {number}: `public_key` and `x` are different keys")
    ends = [time for name in ("valid_until", "retired_at") if (time := _read_time(number, key, name)) is not None]
    return PinnedKey(
        public_key,
        _read_key_name(number, key),
        tenant_id=_read_tenant_id(number, key),
        tenant=_read_text(number, key, "tenant"),
        valid_from=_read_time(number, key, "valid_from"),
        valid_until=min(ends, default=None),
        compromised_since=_read_compromise(number, key),
    )


def _read_key_name(number: int, key: Mapping[str, object]) -> str | None:
    names = [key[member] for member in ("key_id", "kid") if member in key]
    if not names:
        return None
    name = names[0]
    if not isinstance(name, str) or not name:
        raise BadKeySet(f"the name of key {number} is not a text")
    if names[-1] != name:
        raise BadKeySet(f"key {number}: `key_id` and `kid` differ")
    return name


def _read_text(number: int, key: Mapping[str, object], name: str) -> str | None:
    value = key.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise BadKeySet(f"`{name}` of key {number} is not a text")
    return value


def _read_tenant_id(number: int, key: Mapping[str, object]) -> str | None:
    text = _read_text(number, key, "tenant_id")
    try:
        return None if text is None else str(parse_uuid(text))
    except Invalid as wrong:
        raise BadKeySet(f"`tenant_id` of key {number}: {wrong.says}") from None


def _read_time(number: int, key: Mapping[str, object], name: str) -> datetime | None:
    text = _read_text(number, key, name)
    try:
        return None if text is None else parse_time(text)
    except Invalid as wrong:
        raise BadKeySet(f"`{name}` of key {number}: {wrong.says}") from None


def _read_compromise(number: int, key: Mapping[str, object]) -> datetime | None:
    """Since when the key is compromised. A set that says so without a time is refused, not believed."""
    since = _read_time(number, key, "compromised_since")
    if (key.get("status") == "COMPROMISED") != (since is not None):
        raise BadKeySet(f"`status` and `compromised_since` of key {number} contradict each other")
    return since


def _format_optional_time(time: datetime | None) -> str | None:
    return None if time is None else format_time(time)


def _to_base64url(key: PublicKey) -> str:
    return urlsafe_b64encode(key).decode().rstrip("=")
