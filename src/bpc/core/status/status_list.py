"""Status lists, BPC-STATUS-LIST-1: the status of many passport versions as two bits each, signed for a day.

Pure. The member `credential` is a W3C Bitstring Status List credential without a proof of its own, so that verifiable
credentials can use the same list. Index 0 is in the leftmost bits. An index that no version has reads as 0, as most
versions do, so a list does not tell how many there are. Compressing is the caller's: its bytes are not the same with
every build of the library, and what was signed is stored.

    states by index ── pack_states ──► bits ── gzip ──► encode_unsigned_list ── signer ──► signed list
    signed list ── read_status_list ──► StatusList ── get_state(index)
"""

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import TenantId, parse_uuid
from bpc.core.formats.timestamps import format_time, parse_time
from bpc.core.status.signed_documents import BadStatusDocument, DocumentSignature, read_signed

LIST_VERSION: Final = "BPC-STATUS-LIST-1"
LIST_ENTRIES: Final = 1 << 17  # 131,072: what W3C asks for at least
STATE_BITS: Final = 2
LIST_BYTES: Final = LIST_ENTRIES * STATE_BITS // 8
MAX_LIST_BYTES: Final = 1 << 22
LONGEST_VALIDITY: Final = timedelta(hours=24)
CACHE_SECONDS: Final = 300
GZIP: Final = 31  # of zlib: 2**15 bytes of window, with the header of gzip

CONTEXT: Final = "https://www.w3.org/ns/credentials/v2"
CREDENTIAL_TYPES: Final = ("VerifiableCredential", "BitstringStatusListCredential")
LIST_TYPE: Final = "BitstringStatusList"
PURPOSE: Final = "message"
_MEMBERS: Final = ("credential", "signing_key_id", "status_list_version", "tenant_id")
_CREDENTIAL_MEMBERS: Final = ("@context", "credentialSubject", "id", "issuer", "type", "validFrom", "validUntil")
_SUBJECT_MEMBERS: Final = ("encodedList", "id", "statusPurpose", "ttl", "type")


class PassportState(IntEnum):
    """What a list says of a version. 0 is said of unused indices too."""

    IN_FORCE = 0
    SUPERSEDED = 1
    REVOKED = 2
    CEASED = 3


STATE_WORDS: Final[Mapping[PassportState, str]] = {
    PassportState.IN_FORCE: "in force",
    PassportState.SUPERSEDED: "superseded",
    PassportState.REVOKED: "revoked",
    PassportState.CEASED: "ceased",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListHead:
    """What a list is, besides its bits: where it is, whose, by which key, and for how long.

    It is valid for a day at most.
    """

    url: str
    issuer: str
    tenant_id: TenantId
    signing_key_id: str
    valid_from: datetime
    valid_until: datetime

    def __post_init__(self) -> None:
        if not timedelta() < self.valid_until - self.valid_from <= LONGEST_VALIDITY:
            raise BadStatusDocument("is not valid for a time of at most 24 hours")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusList:
    """A list as it was read; its signature is still to be checked."""

    head: ListHead
    bits: bytes
    signature: DocumentSignature

    def get_state(self, index: int) -> PassportState:
        """The state at an index; `Invalid` if the list is shorter."""
        if not 0 <= index < len(self.bits) * 8 // STATE_BITS:
            raise Invalid(f"the status list has no index {index}")
        return read_state(self.bits, index)


def read_state(bits: bytes, index: int) -> PassportState:
    byte, place = divmod(index * STATE_BITS, 8)
    return PassportState(bits[byte] >> (8 - STATE_BITS - place) & 0b11)


def pack_states(states: Iterable[tuple[int, PassportState]], *, entries: int = LIST_ENTRIES) -> bytes:
    """The bits of a list in which these indices have these states, and all others 0."""
    bits = bytearray(entries * STATE_BITS // 8)
    for index, state in states:
        byte, place = divmod(index * STATE_BITS, 8)
        bits[byte] |= state << (8 - STATE_BITS - place)
    return bytes(bits)


def encode_unsigned_list(head: ListHead, gzip_bits: bytes) -> bytes:
    """What is signed: the canonical document of these bits, which are compressed."""
    return canonical_json.encode(
        {
            "credential": {
                "@context": [CONTEXT],
                "credentialSubject": {
                    "encodedList": "u" + base64.urlsafe_b64encode(gzip_bits).decode().rstrip("="),
                    "id": f"{head.url}#list",
                    "statusPurpose": PURPOSE,
                    "ttl": CACHE_SECONDS * 1000,
                    "type": LIST_TYPE,
                },
                "id": head.url,
                "issuer": head.issuer,
                "type": list(CREDENTIAL_TYPES),
                "validFrom": format_time(head.valid_from),
                "validUntil": format_time(head.valid_until),
            },
            "signing_key_id": head.signing_key_id,
            "status_list_version": LIST_VERSION,
            "tenant_id": str(head.tenant_id),
        }
    )


def read_status_list(data: bytes) -> StatusList:
    """The list these bytes are.

    Checks:
      1. canonical, signed, and of exactly the members of this version
      2. the credential is a bitstring status list in its one form, valid for a day at most
      3. its bits are whole, at least 131,072 entries and not too many
    """
    members, signature = read_signed(data)  # 1
    if tuple(sorted(members)) != _MEMBERS or members["status_list_version"] != LIST_VERSION:
        raise BadStatusDocument(f"is not a {LIST_VERSION}")
    try:
        head, encoded_bits = _read_credential(members)  # 2
    except (Invalid, LookupError, TypeError, AttributeError, ValueError) as wrong:
        says = wrong.says if isinstance(wrong, Invalid) else "a member is missing or not a text"
        raise BadStatusDocument(f"has a credential in another form: {says}") from None
    return StatusList(head=head, bits=_unpack_bits(encoded_bits), signature=signature)


def _read_credential(members: Mapping[str, Any]) -> tuple[ListHead, str]:
    credential = members["credential"]
    subject = credential["credentialSubject"]
    head = ListHead(
        url=_require_text(credential["id"]),
        issuer=_require_text(credential["issuer"]),
        tenant_id=TenantId(parse_uuid(members["tenant_id"])),
        signing_key_id=_require_text(members["signing_key_id"]),
        valid_from=parse_time(credential["validFrom"]),
        valid_until=parse_time(credential["validUntil"]),
    )
    has_form = (
        tuple(sorted(credential)) == _CREDENTIAL_MEMBERS
        and tuple(sorted(subject)) == _SUBJECT_MEMBERS
        and credential["@context"] == [CONTEXT]
        and credential["type"] == list(CREDENTIAL_TYPES)
        and subject["type"] == LIST_TYPE
        and subject["statusPurpose"] == PURPOSE
        and subject["id"] == f"{head.url}#list"
    )
    if not has_form:
        raise Invalid("its members are not those of a bitstring status list")
    return head, _require_text(subject["encodedList"])


def _require_text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise Invalid("a member is not a text")
    return value


def _unpack_bits(encoded_bits: str) -> bytes:
    text = encoded_bits.removeprefix("u")
    try:
        packed_bits = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj(GZIP)
        bits = unpacker.decompress(packed_bits, MAX_LIST_BYTES + 1)
    except (binascii.Error, ValueError, zlib.error):
        raise BadStatusDocument("has a list that is not compressed as gzip, in base64url") from None
    if not encoded_bits.startswith("u") or not unpacker.eof or unpacker.unused_data:  # 3
        raise BadStatusDocument("has a list that is not whole")
    if not LIST_BYTES <= len(bits) <= MAX_LIST_BYTES:
        raise BadStatusDocument(f"has a list of {len(bits):,} bytes, and at least {LIST_BYTES:,} are needed")
    return bits
