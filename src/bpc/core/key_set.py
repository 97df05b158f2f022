"""The key set: all public keys of an installation as one file, for whoever checks what they signed.

    {"keys": [{"kid": "key-2027", "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "x": "…",
               "key_id": "key-2027", "public_key": "…", "status": "ACTIVE", "created_at": "…", "retired_at": null}]}

The first line of each is a JSON Web Key (RFC 7517, RFC 8037 2), for programs that know those; `x` and `public_key` are
the same 32 bytes, in base64url without padding and in base64, and so are `kid` and `key_id` one name. A retired key
stays: what it signed is checked with it.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence

from bpc.core import canon
from bpc.core.errors import Invalid
from bpc.core.signing import PinnedKey, PublicKey, checked_public_key, from_base64, to_base64


class BadKeySet(Invalid):
    """Not a key set, or not one to trust."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this is no set of keys: {reason}", fix="fetch /.well-known/bpc-keys.json from the issuer again"
        )


def key_of(
    key_id: str, public_key: PublicKey, *, status: str, created_at: str, retired_at: str | None
) -> dict[str, canon.Json]:
    """One key, as a set lists it."""
    return {
        "kid": key_id,
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "use": "sig",
        "x": _base64url(public_key),
        "key_id": key_id,
        "public_key": to_base64(public_key),
        "status": status,
        "created_at": created_at,
        "retired_at": retired_at,
    }


def read_key_set(data: bytes) -> Sequence[PinnedKey]:
    """The keys of a set, in its order, with their names where it has any. The rest is not needed to check with them."""
    try:
        document = canon.read_json(data)
    except Invalid as wrong:
        raise BadKeySet(wrong.says) from None
    keys = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(keys, list | tuple):
        raise BadKeySet("it has no list `keys`")
    return [_read(number, key) for number, key in enumerate(keys, 1)]


def _read(number: int, key: object) -> PinnedKey:
    text = key.get("public_key") if isinstance(key, Mapping) else None
    if not isinstance(key, Mapping) or not isinstance(text, str):
        raise BadKeySet(f"its key {number} has no `public_key`")
    try:
        public_key = checked_public_key(from_base64(text))
    except Invalid as wrong:
        raise BadKeySet(f"its key {number}: {wrong.says}") from None
    # Two ways to say which key it is that say different things: somebody has tampered with one.
    if key.get("x", _base64url(public_key)) != _base64url(public_key):
        raise BadKeySet(f"its key {number} is one in `public_key` and another in `x`")
    return PinnedKey(public_key, _name(number, key))


def _name(number: int, key: Mapping[str, object]) -> str | None:
    names = [key[member] for member in ("key_id", "kid") if member in key]
    if not names:
        return None
    name = names[0]
    if not isinstance(name, str) or not name:
        raise BadKeySet(f"the name of its key {number} is not a text")
    if names[-1] != name:
        raise BadKeySet(f"its key {number} has one name in `key_id` and another in `kid`")
    return name


def _base64url(key: PublicKey) -> str:
    return urlsafe_b64encode(key).decode().rstrip("=")
