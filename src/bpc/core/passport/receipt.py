"""Receipt, BPC-RECEIPT-1: the inputs and outputs of one compile, by hash, in one small object.

Pure. The signature is over the receipt's hash. The hash leaves `signature` out, so it is the same before and after
signing. `RECEIPT_FORMAT` is the one list of the members; whatever else names them derives from it or is tested
against it.

    Receipt ── encode_receipt ──► canonical bytes ── sign_receipt ──► canonical bytes with `signature`
    canonical bytes ── read_receipt ──► Receipt      (exactly its members, each in its one spelling)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from bpc.core.audit.signing import PublicKey, Seed, SignatureInvalid, Signer, from_base64, to_base64, verify_signature
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import NotCanonical
from bpc.core.formats.hashes import Digest, from_hex, sha256, to_hex
from bpc.core.formats.ids import (
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
    parse_uuid,
)
from bpc.core.formats.timestamps import format_time, parse_time

RECEIPT_VERSION: Final = "BPC-RECEIPT-1"
SIGNATURE_ALGORITHM: Final = "ED25519"
SIGNATURE_BYTES: Final = 64
# `,"signature":""` and the base64 of 64 bytes.
SIGNATURE_MEMBER_BYTES: Final = 15 + 88
MAX_NAME_LENGTH: Final = 200
MAX_RECEIPT_BYTES: Final = 500_000


class MemberForm(NamedTuple):
    """How the value of a member is written as text, and how the text is read again."""

    write: Callable[[Any], str]
    parse: Callable[[str], Any]


def require_name(text: str) -> str:
    """`text`, if a build or a key may have it as a name."""
    if not 0 < len(text) <= MAX_NAME_LENGTH or "\0" in text:
        raise Invalid(f"a name must have 1 to {MAX_NAME_LENGTH} characters and no U+0000")
    return text


ID: Final = MemberForm(str, parse_uuid)
HASH: Final = MemberForm(to_hex, from_hex)
TIME: Final = MemberForm(format_time, parse_time)
NAME: Final = MemberForm(str, require_name)

RECEIPT_FORMAT: Final[Mapping[str, MemberForm]] = {
    "issued_at": TIME,
    "tenant_id": ID,
    "passport_version_id": ID,
    "passport_id": ID,
    "battery_product_id": ID,
    "snapshot_id": ID,
    "snapshot_hash": HASH,
    "rule_package_version_id": ID,
    "dsl_sha256": HASH,
    "tests_sha256": HASH,
    "compiler_build_id": NAME,
    "payload_hash": HASH,
    "proof_root_hash": HASH,
    "signing_key_id": NAME,
}
RECEIPT_CONSTANTS: Final = {"receipt_version": RECEIPT_VERSION, "signature_alg": SIGNATURE_ALGORITHM}
RECEIPT_MEMBERS: Final = frozenset({*RECEIPT_FORMAT, *RECEIPT_CONSTANTS})


class BadReceipt(Invalid):
    """The bytes are not a receipt."""

    def __init__(self, reason: str, *, member: str | None = None) -> None:
        super().__init__(f"the receipt {reason}", details={} if member is None else {"member": member})


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The inputs and outputs of one compile. `signature` is None until it is signed."""

    issued_at: datetime
    tenant_id: TenantId
    passport_version_id: PassportVersionId
    passport_id: PassportId
    battery_product_id: BatteryProductId
    snapshot_id: SnapshotId
    snapshot_hash: Digest
    rule_package_version_id: RulePackageVersionId
    dsl_sha256: Digest
    tests_sha256: Digest
    compiler_build_id: str
    payload_hash: Digest
    proof_root_hash: Digest
    signing_key_id: str
    signature: bytes | None = None

    def hash(self) -> Digest:
        """The 32 bytes that are signed; the signature is not part of them."""
        return sha256(canonical_json.encode_typed(unsigned_members(self)))

    def verify(self, key: PublicKey) -> None:
        """Raise `SignatureInvalid` unless `key` signed this receipt."""
        if self.signature is None:
            raise SignatureInvalid("the receipt is not signed")
        verify_signature(key, self.hash(), self.signature)


def unsigned_members(receipt: Receipt) -> dict[str, str]:
    """The members that are hashed and signed, each as text."""
    values = {name: form.write(getattr(receipt, name)) for name, form in RECEIPT_FORMAT.items()}
    return {**values, **RECEIPT_CONSTANTS}


def encode_receipt(receipt: Receipt) -> bytes:
    """The canonical bytes, with `signature` if the receipt has one."""
    members = unsigned_members(receipt)
    if receipt.signature is not None:
        members["signature"] = to_base64(receipt.signature)
    return canonical_json.encode_typed(members)


def sign_receipt(receipt: bytes, key: Seed | Signer) -> bytes:
    """The receipt with the signature of `key`; an earlier one is replaced. Signing again gives equal bytes."""
    parsed_receipt = read_receipt(receipt)
    signer = key if isinstance(key, Signer) else Signer(key)
    return encode_receipt(replace(parsed_receipt, signature=signer.sign(parsed_receipt.hash())))


def remove_signature(receipt: bytes) -> bytes:
    """The receipt as it was before it was signed."""
    return encode_receipt(replace(read_receipt(receipt), signature=None))


def read_receipt(data: bytes) -> Receipt:
    """The receipt these bytes are, signed or not; `BadReceipt` names the member that is wrong.

    Checks:
      1. the bytes are canonical, an object of exactly our members
      2. version and algorithm are ours
      3. every member is a text in the one spelling that `encode_receipt` gives it
    """
    try:
        document = canonical_json.decode(data)  # 1
    except NotCanonical as wrong:
        raise BadReceipt(f"is not canonical: {wrong.says}") from None
    if not isinstance(document, Mapping):
        raise BadReceipt("is not an object")
    _check_members(document)
    for name, constant in RECEIPT_CONSTANTS.items():  # 2
        if document[name] != constant:
            raise BadReceipt(f"must have `{constant}` as its `{name}`", member=name)
    values = {name: _parse_member(document, name, form.parse) for name, form in RECEIPT_FORMAT.items()}  # 3
    signature = (
        _parse_member(document, "signature", partial(from_base64, size=SIGNATURE_BYTES))
        if "signature" in document
        else None
    )
    return Receipt(**values, signature=signature)


def _check_members(document: Mapping[str, object]) -> None:
    for name in sorted(RECEIPT_MEMBERS):
        if name not in document:
            raise BadReceipt(f"has no `{name}`", member=name)
    unknown = sorted(document.keys() - RECEIPT_MEMBERS - {"signature"})
    if unknown:
        raise BadReceipt(f"has an unknown member `{unknown[0][:80]}`", member=unknown[0])


def _parse_member(document: Mapping[str, object], name: str, parse: Callable[[str], Any]) -> Any:
    value = document[name]
    if not isinstance(value, str):
        raise BadReceipt(f"has a `{name}` that is not a text", member=name)
    try:
        return parse(value)
    except Invalid as wrong:
        raise BadReceipt(f"has an invalid `{name}`: {wrong.says}", member=name) from None
