"""Cosignatures, C2SP tlog-cosignature: a witness says that at a time it saw this tree, grown from all before it.

Pure. The witness's private key and its clock are arguments. An Ed25519 cosignature signs the whole text of the
checkpoint, an ML-DSA-44 one its origin, size and root and the name of the witness.

    checkpoint text, key, sign, time ─► make_cosignature ─► a line of signature
    note, key ─► read_cosignature_time ─► the time, if the signature is valid; None if there is none
"""

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

from bpc.core.tlog.checkpoints import read_checkpoint_text
from bpc.core.tlog.notes import (
    BadNote,
    BadVerifierKey,
    NoteSignature,
    SignatureType,
    SignedNote,
    VerifierKey,
    verify_ed25519,
)

Sign: TypeAlias = Callable[[bytes], bytes]

_TIME: Final = struct.Struct(">Q")
_ML_DSA_LABEL: Final = b"subtree/v1\n\x00"
MAX_TIME: Final = (1 << 63) - 1
SIGNATURE_BYTES: Final = {
    SignatureType.COSIGNATURE_ED25519: 64,
    SignatureType.COSIGNATURE_ML_DSA_44: 2420,
}


def make_cosignature(text: str, key: VerifierKey, sign: Sign, *, seconds: int) -> NoteSignature:
    """The cosignature of `key` under a checkpoint, at a POSIX time; `sign` is its private half."""
    signature = sign(_build_message(text, key, seconds))
    return NoteSignature(key.name, key.key_id, _TIME.pack(seconds) + signature)


def read_cosignature_time(note: SignedNote, key: VerifierKey) -> int | None:
    """When `key` cosigned the checkpoint; None if it did not. A signature that names the key must be valid."""
    times = [_check_cosignature(note.text, key, signature) for signature in note.find(key)]
    return min(times, default=None)


def _check_cosignature(text: str, key: VerifierKey, signature: NoteSignature) -> int:
    if len(signature.signature) != _TIME.size + _require_signature_bytes(key):
        raise BadNote(f"has a cosignature of `{key.name}` that does not have the right length")
    (seconds,) = _TIME.unpack_from(signature.signature)
    if not 0 < seconds <= MAX_TIME:
        raise BadNote(f"has a cosignature of `{key.name}` without a time")
    message = _build_message(text, key, seconds)
    if not _is_valid(key, message, signature.signature[_TIME.size :]):
        raise BadNote(f"has a wrong cosignature of `{key.name}`")
    return int(seconds)


def _is_valid(key: VerifierKey, message: bytes, signature: bytes) -> bool:
    if key.type == SignatureType.COSIGNATURE_ED25519:
        return verify_ed25519(key, message, signature)
    try:
        MLDSA44PublicKey.from_public_bytes(key.public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _build_message(text: str, key: VerifierKey, seconds: int) -> bytes:
    _require_signature_bytes(key)
    if key.type == SignatureType.COSIGNATURE_ED25519:
        return f"cosignature/v1\ntime {seconds}\n{text}".encode()
    checkpoint = read_checkpoint_text(text)
    parts = (
        _ML_DSA_LABEL,
        _prefix_length(key.name),
        _TIME.pack(seconds),
        _prefix_length(checkpoint.origin),
        _TIME.pack(0),  # the subtree begins at the first leaf: it is the whole tree
        _TIME.pack(checkpoint.size),
        checkpoint.root,
    )
    return b"".join(parts)


def _prefix_length(text: str) -> bytes:
    raw = text.encode()
    if not 1 <= len(raw) <= 255:
        raise BadNote("has an origin of more than 255 bytes")
    return bytes([len(raw)]) + raw


def _require_signature_bytes(key: VerifierKey) -> int:
    if key.type not in SIGNATURE_BYTES:
        raise BadVerifierKey("of a witness must be of type 4 or 6: a log's key does not cosign")
    return SIGNATURE_BYTES[key.type]
