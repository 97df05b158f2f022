"""Receipt, BPC-RECEIPT-1: what a passport version was made from and what came out, by hash, in one small object.

Pure. The receipt is what gets signed: its hash, taken without `signature`, is the 32 bytes under the signature, so
it is the same before and after signing.

    Receipt ── written ──► canonical bytes ── signed ──► canonical bytes with `signature`
    canonical bytes ── read_receipt ──► Receipt      (exactly its members, each in its one spelling)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from bpc.core import canon
from bpc.core.canon import NotCanonical
from bpc.core.digest import Digest, from_hex, sha256, to_hex
from bpc.core.errors import Invalid
from bpc.core.ids import (
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
    parse_uuid,
)
from bpc.core.signing import PublicKey, Seed, SignatureInvalid, Signer, from_base64, to_base64, verify
from bpc.core.timestamps import format_time, parse_time

VERSION: Final = "BPC-RECEIPT-1"
ALGORITHM: Final = "ED25519"
SIGNATURE_BYTES: Final = 64
# `,"signature":""` and the base64 of 64 bytes.
SIGNATURE_MEMBER_BYTES: Final = 15 + 88
MAX_NAME: Final = 200
MEMBERS: Final = frozenset(
    {
        "battery_product_id",
        "compiler_build_id",
        "dsl_sha256",
        "issued_at",
        "passport_id",
        "passport_version_id",
        "payload_hash",
        "proof_root_hash",
        "receipt_version",
        "rule_package_version_id",
        "signature_alg",
        "signing_key_id",
        "snapshot_hash",
        "snapshot_id",
        "tenant_id",
        "tests_sha256",
    }
)

T = TypeVar("T")


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
        """The 32 bytes that are signed; the signature is no part of them."""
        return sha256(canon.encode_typed(unsigned_receipt(self)))

    def verify(self, key: PublicKey) -> None:
        """Raise `SignatureInvalid` unless `key` signed this receipt."""
        if self.signature is None:
            raise SignatureInvalid("the receipt is not signed")
        verify(key, self.hash(), self.signature)


def is_name(text: str) -> bool:
    """Whether a build or a key may be called so: 1 to 200 characters, none of them U+0000."""
    return 0 < len(text) <= MAX_NAME and "\0" not in text


def unsigned_receipt(receipt: Receipt) -> dict[str, str]:
    """The members that are hashed and signed."""
    return {
        "battery_product_id": str(receipt.battery_product_id),
        "compiler_build_id": receipt.compiler_build_id,
        "dsl_sha256": to_hex(receipt.dsl_sha256),
        "issued_at": format_time(receipt.issued_at),
        "passport_id": str(receipt.passport_id),
        "passport_version_id": str(receipt.passport_version_id),
        "payload_hash": to_hex(receipt.payload_hash),
        "proof_root_hash": to_hex(receipt.proof_root_hash),
        "receipt_version": VERSION,
        "rule_package_version_id": str(receipt.rule_package_version_id),
        "signature_alg": ALGORITHM,
        "signing_key_id": receipt.signing_key_id,
        "snapshot_hash": to_hex(receipt.snapshot_hash),
        "snapshot_id": str(receipt.snapshot_id),
        "tenant_id": str(receipt.tenant_id),
        "tests_sha256": to_hex(receipt.tests_sha256),
    }


def written(receipt: Receipt) -> bytes:
    """The canonical bytes, with `signature` if the receipt has one."""
    members = unsigned_receipt(receipt)
    if receipt.signature is not None:
        members["signature"] = to_base64(receipt.signature)
    return canon.encode_typed(members)


def signed(receipt: bytes, key: Seed | Signer) -> bytes:
    """The receipt with the signature of `key`; an earlier one is replaced. Signing again gives equal bytes."""
    known = read_receipt(receipt)
    signer = key if isinstance(key, Signer) else Signer(key)
    return written(replace(known, signature=signer.sign(known.hash())))


def unsigned(receipt: bytes) -> bytes:
    """The receipt as it was before it was signed."""
    return written(replace(read_receipt(receipt), signature=None))


def receipt_hash(receipt: bytes) -> Digest:
    """The hash a signature is over, of a receipt with or without one."""
    return read_receipt(receipt).hash()


def read_receipt(data: bytes) -> Receipt:
    """The receipt these bytes are, signed or not; `BadReceipt` names the member that is wrong.

    Checks:
      1. the bytes are canonical, an object of exactly our members
      2. version and algorithm are ours
      3. every member is a text in the one spelling that `written` gives it
    """
    try:
        found = canon.decode(data)  # 1
    except NotCanonical as wrong:
        raise BadReceipt(f"is not canonical: {wrong.says}") from None
    if not isinstance(found, Mapping):
        raise BadReceipt("is not an object")
    _check_members(found)
    read = _Reader(found)
    read.constant("receipt_version", VERSION)  # 2
    read.constant("signature_alg", ALGORITHM)
    return _receipt(read)  # 3


def _check_members(found: Mapping[str, object]) -> None:
    for name in sorted(MEMBERS):
        if name not in found:
            raise BadReceipt(f"has no `{name}`", member=name)
    unknown = sorted(found.keys() - MEMBERS - {"signature"})
    if unknown:
        raise BadReceipt(f"has a member `{unknown[0][:80]}` that receipts do not have", member=unknown[0])


def _receipt(read: "_Reader") -> Receipt:
    return Receipt(
        issued_at=read.member("issued_at", parse_time),
        tenant_id=TenantId(read.member("tenant_id", parse_uuid)),
        passport_version_id=PassportVersionId(read.member("passport_version_id", parse_uuid)),
        passport_id=PassportId(read.member("passport_id", parse_uuid)),
        battery_product_id=BatteryProductId(read.member("battery_product_id", parse_uuid)),
        snapshot_id=SnapshotId(read.member("snapshot_id", parse_uuid)),
        snapshot_hash=read.member("snapshot_hash", from_hex),
        rule_package_version_id=RulePackageVersionId(read.member("rule_package_version_id", parse_uuid)),
        dsl_sha256=read.member("dsl_sha256", from_hex),
        tests_sha256=read.member("tests_sha256", from_hex),
        compiler_build_id=read.member("compiler_build_id", _name),
        payload_hash=read.member("payload_hash", from_hex),
        proof_root_hash=read.member("proof_root_hash", from_hex),
        signing_key_id=read.member("signing_key_id", _name),
        signature=read.member("signature", _signature) if read.has("signature") else None,
    )


class _Reader:
    """The members of an object that should be a receipt."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found

    def has(self, name: str) -> bool:
        return name in self._found

    def constant(self, name: str, wanted: str) -> None:
        if self._found[name] != wanted:
            raise BadReceipt(f"does not say `{wanted}` in `{name}`", member=name)

    def member(self, name: str, read: Callable[[str], T]) -> T:
        given = self._found[name]
        if not isinstance(given, str):
            raise BadReceipt(f"has a `{name}` that is not a text", member=name)
        try:
            return read(given)
        except Invalid as wrong:
            raise BadReceipt(f"has a wrong `{name}`: {wrong.says}", member=name) from None


def _name(text: str) -> str:
    if not is_name(text):
        raise Invalid(f"a name has 1 to {MAX_NAME} characters and no U+0000")
    return text


def _signature(text: str) -> bytes:
    raw = from_base64(text)
    if len(raw) != SIGNATURE_BYTES:
        raise Invalid(f"it has {len(raw)} bytes, not {SIGNATURE_BYTES}")
    return raw
