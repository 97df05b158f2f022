"""What lists and statements have in common: canonical JSON, a version member, the name of a key and its signature.

Pure. The signature is BPC-SIGN-1: Ed25519 over the SHA-256 of the canonical document without its member `signature`.
Whoever holds the key is told the whole unsigned document, never a bare hash.

    members ── encode_unsigned ──► bytes ── a signer ──► signature ── add_signature ──► signed bytes
    signed bytes ── read_signed ──► members, signature, digest
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bpc.core.audit.signing import PublicKey, SignatureInvalid, from_base64, to_base64, verify_signature
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, sha256

SIGNATURE_BYTES: Final = 64
MAX_DOCUMENT_BYTES: Final = 1 << 20


class BadStatusDocument(Invalid):
    """The bytes are not a status list or a statement."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the status document {reason}", fix="fetch it from the issuer again")


class DocumentSignature(NamedTuple):
    """A signature, the name of its key, and what was signed."""

    key_id: str
    value: bytes
    digest: Digest

    def is_by(self, key: PublicKey) -> bool:
        try:
            verify_signature(key, self.digest, self.value)
        except SignatureInvalid:
            return False
        return True


def add_signature(unsigned_document: bytes, signature: bytes) -> bytes:
    """The document with its signature."""
    members = canonical_json.decode(unsigned_document)
    if not isinstance(members, dict):
        raise BadStatusDocument("is not an object")
    return canonical_json.encode({**members, "signature": to_base64(signature)})


def read_signed(data: bytes) -> tuple[Mapping[str, Any], DocumentSignature]:
    """The members of a signed document without its signature, and the signature, which is still to be checked."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise BadStatusDocument(f"has more than {MAX_DOCUMENT_BYTES:,} bytes")
    try:
        members = canonical_json.decode(data)
    except Invalid as wrong:
        raise BadStatusDocument(f"is not canonical: {wrong.says}") from None
    if not isinstance(members, dict):
        raise BadStatusDocument("is not an object")
    text, key_id = members.get("signature"), members.get("signing_key_id")
    if not isinstance(text, str) or not isinstance(key_id, str):
        raise BadStatusDocument("is not signed")
    try:
        value = from_base64(text, size=SIGNATURE_BYTES)
    except Invalid as wrong:
        raise BadStatusDocument(f"has no valid signature: {wrong.says}") from None
    unsigned_document = {name: member for name, member in members.items() if name != "signature"}
    return unsigned_document, DocumentSignature(key_id, value, sha256(canonical_json.encode(unsigned_document)))
