"""What a signer signs: whole documents of a known kind, never a hash that somebody names.

Pure. Each kind has one function that reads the document in its one form. It tells which key signs it, for which tenant,
and the bytes that the key signs. A document of one kind never gives the bytes of another: those of a receipt, an audit
checkpoint, a status list and both kinds of statements are hashes of canonical JSON whose members differ, and a log
checkpoint is a text, signed by a key that signs nothing else. Receipts of batteries are a kind of their own;
many are signed with one request, each read by itself.

    kind, document ─► read_signing_order ─► SigningOrder(key_id, tenant_id, message), or FormRefused

To add a kind that is a canonical JSON object: a row in DOCUMENT_FORMS. Any other: a function in FORMS.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from bpc.core.audit.checkpoint import read_unsigned_checkpoint
from bpc.core.batteries.transfers import read_unsigned_statement
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import parse_uuid
from bpc.core.items.receipt import read_item_receipt
from bpc.core.passport.receipt import read_receipt
from bpc.core.tlog.checkpoints import read_checkpoint_text

RECEIPT: Final = "receipt"
ITEM_RECEIPT: Final = "item-receipt"  # of a battery or a batch
STATUS_LIST: Final = "status-list"
STATUS_STATEMENT: Final = "status-statement"
TRANSFER_STATEMENT: Final = "transfer-statement"
AUDIT_CHECKPOINT: Final = "audit-checkpoint"
LOG_CHECKPOINT: Final = "log-checkpoint"
LOG_KEY_ID: Final = "log"  # the key of the transparency log, which no other kind may name
MAX_DOCUMENT_BYTES: Final = 1 << 20


class FormRefused(Invalid):
    """The document does not have the form of its kind, so it is not signed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"this is not signed: {reason}", fix="send the whole document, in its one form")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningOrder:
    """What one document asks for. Without a tenant, only a key of the installation may sign it.

    `position` is the size of a log: of one size, the same message is signed for ever.
    """

    kind: str
    key_id: str
    tenant_id: str | None
    message: bytes
    position: int | None = None


class DocumentForm(NamedTuple):
    """A kind of canonical JSON object that names its tenant and its key: its members, and its version."""

    kind: str
    version_member: str
    version: str
    members: frozenset[str]


DOCUMENT_FORMS: Final = (
    DocumentForm(
        STATUS_LIST,
        "status_list_version",
        "BPC-STATUS-LIST-1",
        frozenset({"credential", "signing_key_id", "status_list_version", "tenant_id"}),
    ),
    DocumentForm(
        STATUS_STATEMENT,
        "status_version",
        "BPC-STATUS-1",
        frozenset(
            {
                *("entry", "passport_version_id", "reason", "receipt_hash", "signed_at", "signing_key_id", "since"),
                *("status", "status_version", "successor", "tenant_id"),
            }
        ),
    ),
)


def read_signing_order(kind: str, document: bytes) -> SigningOrder:
    """The order of a document; `FormRefused` if its kind is not known or its form is wrong."""
    form = FORMS.get(kind)
    if form is None:
        raise FormRefused(f"the kind `{kind[:40]}` is not one of {', '.join(sorted(FORMS))}")
    if len(document) > MAX_DOCUMENT_BYTES:
        raise FormRefused(f"the document has more than {MAX_DOCUMENT_BYTES:,} bytes")
    try:
        return form(document)
    except FormRefused:
        raise
    except Invalid as wrong:
        raise FormRefused(wrong.says) from None


def _read_receipt_order(document: bytes) -> SigningOrder:
    receipt = read_receipt(document)
    if receipt.signature is not None:
        raise FormRefused("the receipt is signed already")
    tenant_id = str(receipt.tenant_id)
    return SigningOrder(kind=RECEIPT, key_id=receipt.signing_key_id, tenant_id=tenant_id, message=receipt.hash())


def _read_item_receipt_order(document: bytes) -> SigningOrder:
    receipt = read_item_receipt(document)
    if receipt.signature is not None:
        raise FormRefused("the receipt is signed already")
    tenant_id = str(receipt.tenant_id)
    return SigningOrder(kind=ITEM_RECEIPT, key_id=receipt.signing_key_id, tenant_id=tenant_id, message=sha256(document))


def _read_document_order(form: "DocumentForm", document: bytes) -> SigningOrder:
    members = _read_object(document)
    if members.keys() != form.members:
        raise FormRefused(f"a {form.kind} has exactly the members {', '.join(sorted(form.members))}")
    if members[form.version_member] != form.version:
        raise FormRefused(f"`{form.version_member}` is not `{form.version}`")
    tenant_id = str(parse_uuid(_read_text(members, "tenant_id")))
    return SigningOrder(kind=form.kind, key_id=_read_key_id(members), tenant_id=tenant_id, message=sha256(document))


def _read_transfer_order(document: bytes) -> SigningOrder:
    """A side signs for its own tenant: the one that the terms name on that side."""
    statement = read_unsigned_statement(document)
    if statement.signing_key_id == LOG_KEY_ID:
        raise FormRefused("the key of the log signs checkpoints of the log alone")
    return SigningOrder(
        kind=TRANSFER_STATEMENT,
        key_id=statement.signing_key_id,
        tenant_id=str(statement.tenant_id),
        message=sha256(document),
    )


def _read_audit_checkpoint_order(document: bytes) -> SigningOrder:
    unsigned_checkpoint = read_unsigned_checkpoint(document)
    return SigningOrder(
        kind=AUDIT_CHECKPOINT,
        key_id=unsigned_checkpoint.signing_key_id,
        tenant_id=unsigned_checkpoint.tenant_id,
        message=sha256(document),
    )


def _read_log_checkpoint_order(document: bytes) -> SigningOrder:
    try:
        text = document.decode()
    except UnicodeDecodeError:
        raise FormRefused("the checkpoint is not text") from None
    checkpoint = read_checkpoint_text(text)
    if checkpoint.text != text:
        raise FormRefused("the checkpoint is not in its one form")
    return SigningOrder(
        kind=LOG_CHECKPOINT, key_id=LOG_KEY_ID, tenant_id=None, message=document, position=checkpoint.size
    )


def _read_object(document: bytes) -> Mapping[str, canonical_json.Json]:
    value = canonical_json.decode(document)
    if not isinstance(value, Mapping):
        raise FormRefused("the document is not an object")
    return value


def _read_text(members: Mapping[str, canonical_json.Json], name: str) -> str:
    text = members[name]
    if not isinstance(text, str) or not text:
        raise FormRefused(f"`{name}` is not a text")
    return text


def _read_key_id(members: Mapping[str, canonical_json.Json]) -> str:
    key_id = _read_text(members, "signing_key_id")
    if key_id == LOG_KEY_ID:
        raise FormRefused("the key of the log signs checkpoints of the log alone")
    return key_id


FORMS: Final[Mapping[str, Callable[[bytes], SigningOrder]]] = {
    RECEIPT: _read_receipt_order,
    ITEM_RECEIPT: _read_item_receipt_order,
    **{form.kind: partial(_read_document_order, form) for form in DOCUMENT_FORMS},
    TRANSFER_STATEMENT: _read_transfer_order,
    AUDIT_CHECKPOINT: _read_audit_checkpoint_order,
    LOG_CHECKPOINT: _read_log_checkpoint_order,
}
