"""Key material as text: base64 in, bytes out, or a sentence that says what it should have been.

The `ValueError`s raised here finish the sentence "`BPC_…` …" and never repeat the text they were given.
"""

from base64 import b64decode, b64encode
from binascii import Error
from hmac import compare_digest
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SEED_BYTES: Final = 32
PEPPER_LEAST_BYTES: Final = 16


def seed_from(text: str) -> bytes:
    """The 32 bytes an Ed25519 key grows from, given as they are or followed by their public key."""
    raw = _decoded(text)
    seed, public = raw[:SEED_BYTES], raw[SEED_BYTES:]
    if len(seed) != SEED_BYTES or len(public) not in (0, SEED_BYTES):
        raise ValueError(f"must hold 32 bytes (a seed) or 64 bytes (seed and public key), and holds {len(raw)}")
    if public and not compare_digest(public, _public_key_of(seed)):
        raise ValueError("holds 64 bytes whose second half is not the public key of the first")
    return seed


def pepper_from(text: str) -> bytes:
    """The bytes mixed into every stored hash of an API key."""
    raw = _decoded(text)
    if len(raw) < PEPPER_LEAST_BYTES:
        raise ValueError(f"must hold at least {PEPPER_LEAST_BYTES} bytes, and holds {len(raw)}")
    return raw


def _public_key_of(seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def _decoded(text: str) -> bytes:
    try:
        raw = b64decode(text, validate=True)
    except (Error, ValueError):
        raw = b""
    # Several texts decode to the same bytes; only the one that encoding gives back is the key as it was made.
    if not raw or b64encode(raw).decode("ascii") != text:
        raise ValueError("must be standard base64 with its padding")
    return raw
