"""Statements, BPC-STATUS-1: what the issuer says of the status of one passport version, signed.

Pure. The first one, `issued`, binds the version to its index in a status list: bundles and views carry it, and only its
signature says which index is to be read. Later ones say since when and why the version does not count any more, and
what succeeds it. A statement has no end: none of these states is ever taken back.

    StatusStatement ── encode_unsigned_statement ──► bytes ── signer ──► signed statement
    signed statement ── read_statement ──► StatusStatement with its signature
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, from_hex, to_hex
from bpc.core.formats.ids import PassportVersionId, TenantId, parse_uuid
from bpc.core.formats.timestamps import format_time, parse_time
from bpc.core.passport.receipt import Receipt
from bpc.core.status.signed_documents import BadStatusDocument, DocumentSignature, read_signed
from bpc.core.status.status_list import PURPOSE, STATE_BITS, STATE_WORDS, PassportState

STATEMENT_VERSION: Final = "BPC-STATUS-1"
ENTRY_TYPE: Final = "BitstringStatusListEntry"
MAX_REASON_LENGTH: Final = 2000
StatementStatus = Literal["issued", "superseded", "revoked", "ceased"]
STATEMENT_STATUSES: Final[tuple[StatementStatus, ...]] = get_args(StatementStatus)
STATES: Final[Mapping[StatementStatus, PassportState]] = dict(zip(STATEMENT_STATUSES, PassportState, strict=True))
_MEMBERS: Final = (
    "entry",
    "passport_version_id",
    "reason",
    "receipt_hash",
    "signed_at",
    "signing_key_id",
    "since",
    "status",
    "status_version",
    "successor",
    "tenant_id",
)
_ADDRESS: Final = re.compile(r"(https?://[^/?#@\s]+(?:/[^?#\s]*)?)/status/lists/[0-9a-f-]{36}")
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class StatusPlace:
    """Where the status of a version is: the address of a list, and an index in it."""

    list_url: str
    index: int

    def to_entry(self) -> dict[str, canonical_json.Json]:
        """As W3C writes it: the `credentialStatus` of a credential about this passport."""
        return {
            "id": f"{self.list_url}#{self.index}",
            "statusListCredential": self.list_url,
            "statusListIndex": str(self.index),
            "statusMessage": [{"message": STATE_WORDS[state], "status": f"0x{state:x}"} for state in PassportState],
            "statusPurpose": PURPOSE,
            "statusSize": STATE_BITS,
            "type": ENTRY_TYPE,
        }

    @property
    def base_url(self) -> str:
        """The address of the installation."""
        address = _ADDRESS.fullmatch(self.list_url)
        return address[1] if address else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusStatement:
    """What is said of one version. `signature` is None until it is signed."""

    passport_version_id: PassportVersionId
    receipt_hash: Digest
    tenant_id: TenantId
    place: StatusPlace
    status: StatementStatus
    since: datetime
    reason: str | None
    successor: PassportVersionId | None
    signed_at: datetime
    signing_key_id: str
    signature: DocumentSignature | None = None

    @property
    def state(self) -> PassportState:
        return STATES[self.status]

    def is_about(self, receipt: Receipt) -> bool:
        """Whether it is about the version with this receipt, by the same tenant."""
        return (self.passport_version_id, self.receipt_hash, self.tenant_id) == (
            receipt.passport_version_id,
            receipt.hash(),
            receipt.tenant_id,
        )


def format_list_url(base_url: str, list_id: object) -> str:
    return f"{base_url}/status/lists/{list_id}"


def format_statement_url(base_url: str, version: PassportVersionId) -> str:
    return f"{base_url}/status/statements/{version}"


def encode_unsigned_statement(statement: StatusStatement) -> bytes:
    """What is signed."""
    return canonical_json.encode(
        {
            "entry": statement.place.to_entry(),
            "passport_version_id": str(statement.passport_version_id),
            "reason": statement.reason,
            "receipt_hash": to_hex(statement.receipt_hash),
            "signed_at": format_time(statement.signed_at),
            "signing_key_id": statement.signing_key_id,
            "since": format_time(statement.since),
            "status": statement.status,
            "status_version": STATEMENT_VERSION,
            "successor": None if statement.successor is None else str(statement.successor),
            "tenant_id": str(statement.tenant_id),
        }
    )


def read_statement(data: bytes) -> StatusStatement:
    """The statement these bytes are; its signature is still to be checked.

    Checks:
      1. canonical, signed, and of exactly the members of this version
      2. every member is in its one spelling: writing it again gives the same bytes
      3. the address is one of a status list
    """
    members, signature = read_signed(data)  # 1
    if tuple(sorted(members)) != _MEMBERS or members["status_version"] != STATEMENT_VERSION:
        raise BadStatusDocument(f"is not a {STATEMENT_VERSION}")
    try:
        statement = _read_members(members, signature)
    except (Invalid, LookupError, TypeError, AttributeError, ValueError) as wrong:
        says = wrong.says if isinstance(wrong, Invalid) else "a member is missing or of another kind"
        raise BadStatusDocument(f"is not a statement: {says}") from None
    if encode_unsigned_statement(statement) != canonical_json.encode(dict(members)):  # 2
        raise BadStatusDocument("is a statement that is not in its one form")
    return statement


def _read_members(members: Mapping[str, Any], signature: DocumentSignature) -> StatusStatement:
    entry, reason, successor = members["entry"], members["reason"], members["successor"]
    if members["status"] not in STATEMENT_STATUSES:
        raise Invalid("its status is unknown")
    if reason is not None and (not isinstance(reason, str) or len(reason) > MAX_REASON_LENGTH):
        raise Invalid("its reason is not a text, or too long")
    if not _INDEX.fullmatch(entry["statusListIndex"]) or not _ADDRESS.fullmatch(entry["statusListCredential"]):  # 3
        raise Invalid("its entry does not name a status list and an index")
    return StatusStatement(
        passport_version_id=PassportVersionId(parse_uuid(members["passport_version_id"])),
        receipt_hash=from_hex(members["receipt_hash"]),
        tenant_id=TenantId(parse_uuid(members["tenant_id"])),
        place=StatusPlace(entry["statusListCredential"], int(entry["statusListIndex"])),
        status=members["status"],
        since=parse_time(members["since"]),
        reason=reason,
        successor=None if successor is None else PassportVersionId(parse_uuid(successor)),
        signed_at=parse_time(members["signed_at"]),
        signing_key_id=members["signing_key_id"],
        signature=signature,
    )
