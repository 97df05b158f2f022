"""Receipts of lower layers, BPC-ITEM-RECEIPT-1 and BPC-BATCH-RECEIPT-1: inputs and outputs of one compile, by hash.

Pure. As BPC-RECEIPT-1, with the id of the battery or the batch and the hash of the receipt of the layer above. The
signature is over the receipt's hash, which leaves `signature` out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from bpc.core.audit.signing import PublicKey, SignatureInvalid, Signer, from_base64, to_base64, verify_signature
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import NotCanonical
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import (
    BatteryId,
    BatteryProductId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.items.compile_order import ItemRun, LowerLayer
from bpc.core.passport.receipt import HASH, ID, NAME, SIGNATURE_ALGORITHM, SIGNATURE_BYTES, TIME, MemberForm

RECEIPT_VERSIONS: Final[Mapping[LowerLayer, str]] = {"batch": "BPC-BATCH-RECEIPT-1", "item": "BPC-ITEM-RECEIPT-1"}
LAYERS_BY_RECEIPT: Final[Mapping[str, LowerLayer]] = {version: layer for layer, version in RECEIPT_VERSIONS.items()}
ITEM_RECEIPT_FORMAT: Final[Mapping[str, MemberForm]] = {
    "above_receipt_hash": HASH,
    "battery_product_id": ID,
    "compiler_build_id": NAME,
    "dsl_sha256": HASH,
    "issued_at": TIME,
    "passport_version_id": ID,
    "payload_hash": HASH,
    "proof_root_hash": HASH,
    "rule_package_version_id": ID,
    "signing_key_id": NAME,
    "snapshot_hash": HASH,
    "snapshot_id": ID,
    "subject_id": ID,
    "tenant_id": ID,
    "tests_sha256": HASH,
}
_MEMBERS: Final = frozenset({*ITEM_RECEIPT_FORMAT, "receipt_version", "signature_alg"})


class BadItemReceipt(Invalid):
    """The bytes are not a receipt of a battery or a batch."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the receipt {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemReceipt:
    """The inputs and outputs of one compile. `subject_id` is the battery or the batch."""

    layer: LowerLayer
    above_receipt_hash: Digest
    battery_product_id: BatteryProductId
    compiler_build_id: str
    dsl_sha256: Digest
    issued_at: datetime
    passport_version_id: PassportVersionId
    payload_hash: Digest
    proof_root_hash: Digest
    rule_package_version_id: RulePackageVersionId
    signing_key_id: str
    snapshot_hash: Digest
    snapshot_id: SnapshotId
    subject_id: BatteryId
    tenant_id: TenantId
    tests_sha256: Digest
    signature: bytes | None = None

    def encode(self) -> bytes:
        """The canonical bytes, with `signature` if it has one."""
        members = {name: form.write(getattr(self, name)) for name, form in ITEM_RECEIPT_FORMAT.items()}
        members |= {"receipt_version": RECEIPT_VERSIONS[self.layer], "signature_alg": SIGNATURE_ALGORITHM}
        if self.signature is not None:
            members["signature"] = to_base64(self.signature)
        return canonical_json.encode_typed(members)

    def hash(self) -> Digest:
        """The 32 bytes that are signed."""
        return sha256(replace(self, signature=None).encode())

    def verify(self, key: PublicKey) -> None:
        """Raise `SignatureInvalid` unless `key` signed this receipt."""
        if self.signature is None:
            raise SignatureInvalid("the receipt is not signed")
        verify_signature(key, self.hash(), self.signature)


def sign_item_receipt(receipt: bytes, signer: Signer) -> bytes:
    """The receipt with a signature; an earlier one is replaced."""
    parsed_receipt = read_item_receipt(receipt)
    return replace(parsed_receipt, signature=signer.sign(parsed_receipt.hash())).encode()


def read_item_receipt(data: bytes) -> ItemReceipt:
    """The receipt these bytes are, signed or not; each member must have the one spelling that `encode` gives it."""
    try:
        document: Any = canonical_json.decode(data)
    except NotCanonical as wrong:
        raise BadItemReceipt(f"is not canonical: {wrong.says}") from None
    if not isinstance(document, Mapping) or document.keys() - {"signature"} != _MEMBERS:
        raise BadItemReceipt(f"is not an object of {', '.join(sorted(_MEMBERS))}")
    version = document["receipt_version"]
    if not isinstance(version, str) or version not in LAYERS_BY_RECEIPT:
        raise BadItemReceipt(f"must have {' or '.join(LAYERS_BY_RECEIPT)} as its `receipt_version`")
    if document["signature_alg"] != SIGNATURE_ALGORITHM:
        raise BadItemReceipt(f"must have `{SIGNATURE_ALGORITHM}` as its `signature_alg`")
    values = {name: _parse_member(document, name, form) for name, form in ITEM_RECEIPT_FORMAT.items()}
    signature = None
    if "signature" in document:
        signature = _parse_member(document, "signature", _SIGNATURE)
    return ItemReceipt(layer=LAYERS_BY_RECEIPT[version], **values, signature=signature)


_SIGNATURE: Final = MemberForm(to_base64, partial(from_base64, size=SIGNATURE_BYTES))


def _parse_member(document: Mapping[str, object], name: str, form: MemberForm) -> Any:
    value = document[name]
    if not isinstance(value, str):
        raise BadItemReceipt(f"has a `{name}` that is not a text")
    try:
        return form.parse(value)
    except Invalid as wrong:
        raise BadItemReceipt(f"has an invalid `{name}`: {wrong.says}") from None


def read_run(receipt: ItemReceipt) -> ItemRun:
    """What a receipt says of the run that it comes from."""
    return ItemRun(
        tenant_id=receipt.tenant_id,
        rule_package_version_id=receipt.rule_package_version_id,
        compiler_build_id=receipt.compiler_build_id,
        signing_key_id=receipt.signing_key_id,
    )
