"""Transfers, BPC-TRANSFER-1: one operator gives a battery, another takes it; both sign the same terms.

Pure. The terms name both tenants, both operators and both records of the battery, each with the hash that it was
registered with. Each side signs a statement of its own over them, with its own key, so that neither can say later that
it was another battery, another life or another day.

    TransferTerms ── encode_unsigned_statement(side) ──► bytes ── signer ──► signed statement
    two signed statements, keys ── find_pair_faults ──► what is wrong with them
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Literal, get_args

from bpc.core.audit.signing import PinnedKey
from bpc.core.batteries.status import OtherLife
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, from_hex, to_hex
from bpc.core.formats.ids import BatteryId, TenantId, TransferId, parse_uuid
from bpc.core.formats.timestamps import format_time, parse_time
from bpc.core.status.signed_documents import DocumentSignature, read_signed

TRANSFER_VERSION: Final = "BPC-TRANSFER-1"
TransferSide = Literal["GIVES", "TAKES"]
MAX_TEXT_LENGTH: Final = 400
SIDES: Final[tuple[TransferSide, ...]] = get_args(TransferSide)
_WORDS: Final[Mapping[TransferSide, str]] = {"GIVES": "gives", "TAKES": "takes"}
_LIVES: Final[tuple[OtherLife, ...]] = get_args(OtherLife)


class BadTransfer(Invalid):
    """The bytes are not a statement of a transfer."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the statement of the transfer {reason}", fix="fetch it again from one of the two who signed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferParty:
    """One side: who it is, who answers for the battery there, and the record that it has of the battery.

    `leaf_hash` is the leaf of the registration that the record came with.
    """

    tenant_id: TenantId
    operator: str
    battery_id: BatteryId
    address: str
    leaf_hash: Digest

    def to_json(self) -> dict[str, canonical_json.Json]:
        return {
            "address": self.address,
            "battery_id": str(self.battery_id),
            "leaf_hash": to_hex(self.leaf_hash),
            "operator": self.operator,
            "tenant_id": str(self.tenant_id),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferTerms:
    """What both sides sign. The two tenants differ, and so do the two records."""

    transfer_id: TransferId
    life: OtherLife
    effective_on: date
    offered_at: datetime
    accepted_at: datetime
    gives: TransferParty
    takes: TransferParty

    def __post_init__(self) -> None:
        if self.gives.tenant_id == self.takes.tenant_id or self.gives.battery_id == self.takes.battery_id:
            raise BadTransfer("names one side twice")

    def get_party(self, side: TransferSide) -> TransferParty:
        return self.gives if side == "GIVES" else self.takes

    def to_json(self) -> dict[str, canonical_json.Json]:
        return {
            "accepted_at": format_time(self.accepted_at),
            "effective_on": self.effective_on.isoformat(),
            "gives": self.gives.to_json(),
            "life": self.life,
            "offered_at": format_time(self.offered_at),
            "takes": self.takes.to_json(),
            "transfer_id": str(self.transfer_id),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferStatement:
    """What one side says. `signature` is None until it is signed."""

    side: TransferSide
    terms: TransferTerms
    signed_at: datetime
    signing_key_id: str
    signature: DocumentSignature | None = None

    @property
    def tenant_id(self) -> TenantId:
        return self.terms.get_party(self.side).tenant_id


def encode_unsigned_statement(statement: TransferStatement) -> bytes:
    """What is signed."""
    return canonical_json.encode(
        {
            "side": statement.side,
            "signed_at": format_time(statement.signed_at),
            "signing_key_id": statement.signing_key_id,
            "tenant_id": str(statement.tenant_id),
            "terms": statement.terms.to_json(),
            "transfer_version": TRANSFER_VERSION,
        }
    )


def read_unsigned_statement(data: bytes) -> TransferStatement:
    """The statement these bytes are, before it is signed."""
    try:
        members = canonical_json.decode(data)
    except Invalid as wrong:
        raise BadTransfer(f"is not canonical: {wrong.says}") from None
    if not isinstance(members, Mapping):
        raise BadTransfer("is not an object")
    return _read_statement(members, None)


def read_transfer_statement(data: bytes) -> TransferStatement:
    """The signed statement these bytes are; its signature is still to be checked."""
    try:
        members, signature = read_signed(data)
    except Invalid as wrong:
        raise BadTransfer(f"is not signed canonical JSON: {wrong.says}") from None
    return _read_statement(members, signature)


def find_pair_faults(gives: bytes, takes: bytes, keys: Sequence[PinnedKey]) -> Iterator[str]:
    """What is wrong with the two statements of a transfer.

    Checks:
      1. each is a statement in its one form, the first of who gives and the second of who takes
      2. both are about the same terms
      3. a key that you trust signed each, under its name: the tenant's own or the installation's, valid at the time,
         and not known to others then
    """
    statements = list[TransferStatement]()
    for side, data in zip(SIDES, (gives, takes), strict=True):
        try:
            statement = read_transfer_statement(data)
        except BadTransfer as wrong:
            yield wrong.says  # 1
            continue
        if statement.side != side:  # 1
            yield f"the statement that should be of who {_WORDS[side]} is of who {_WORDS[statement.side]}"
        statements.append(statement)
    if len(statements) == len(SIDES) and statements[0].terms != statements[1].terms:
        yield "the two statements are about different terms"  # 2
    for statement in statements:
        if (fault := _find_key_fault(statement, keys)) is not None:
            yield f"the statement of who {_WORDS[statement.side]}: {fault}"  # 3


def _find_key_fault(statement: TransferStatement, keys: Sequence[PinnedKey]) -> str | None:
    signature, at = statement.signature, statement.signed_at
    if signature is None:
        return "it is not signed"
    named = [key for key in keys if key.key_id in (None, signature.key_id) and signature.is_by(key.public_key)]
    if not named:
        return f"no key that you trust signed it as `{signature.key_id[:80]}`"
    own = [key for key in named if key.tenant_id in (None, str(statement.tenant_id))]
    if not own:
        return "it is signed with the key of another tenant"
    if any(key.compromised_since is not None and key.compromised_since <= at for key in own):
        return "others had its key when it was signed"
    is_valid = any(
        (key.valid_from is None or key.valid_from <= at) and (key.valid_until is None or at <= key.valid_until)
        for key in own
    )
    return None if is_valid else "its key was not valid when it was signed"


def _read_statement(members: Mapping[str, Any], signature: DocumentSignature | None) -> TransferStatement:
    """Every member is in its one spelling: writing it again gives the same bytes."""
    try:
        statement = TransferStatement(
            side=_read_choice(members["side"], SIDES),
            terms=_read_terms(members["terms"]),
            signed_at=parse_time(members["signed_at"]),
            signing_key_id=_read_text(members["signing_key_id"]),
            signature=signature,
        )
    except BadTransfer:
        raise
    except (Invalid, LookupError, TypeError, AttributeError, ValueError) as wrong:
        says = wrong.says if isinstance(wrong, Invalid) else "a member is missing or of another kind"
        raise BadTransfer(f"is not a {TRANSFER_VERSION}: {says}") from None
    if encode_unsigned_statement(statement) != canonical_json.encode(dict(members)):
        raise BadTransfer("is not in its one form")
    return statement


def _read_terms(members: Mapping[str, Any]) -> TransferTerms:
    return TransferTerms(
        transfer_id=TransferId(parse_uuid(members["transfer_id"])),
        life=_read_choice(members["life"], _LIVES),
        effective_on=date.fromisoformat(members["effective_on"]),
        offered_at=parse_time(members["offered_at"]),
        accepted_at=parse_time(members["accepted_at"]),
        gives=_read_party(members["gives"]),
        takes=_read_party(members["takes"]),
    )


def _read_party(members: Mapping[str, Any]) -> TransferParty:
    return TransferParty(
        tenant_id=TenantId(parse_uuid(members["tenant_id"])),
        operator=_read_text(members["operator"]),
        battery_id=BatteryId(parse_uuid(members["battery_id"])),
        address=_read_text(members["address"]),
        leaf_hash=from_hex(members["leaf_hash"]),
    )


def _read_text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT_LENGTH:
        raise Invalid("a text is missing or too long")
    return value


def _read_choice(value: object, choices: Sequence[Any]) -> Any:
    if value not in choices:
        raise Invalid("a member has a value that is not known")
    return value
