"""Receipts, BPC-RECEIPT-1: exactly the seed's members, one spelling, one hash before and after signing."""

import base64
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from bpc.core import canon
from bpc.core.digest import sha256
from bpc.core.ids import (
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.receipt import (
    SIGNATURE_MEMBER_BYTES,
    BadReceipt,
    Receipt,
    read_receipt,
    receipt_hash,
    signed,
    unsigned,
    written,
)
from bpc.core.signing import Seed, SignatureInvalid, Signer, public_key_of

SEED = Seed(bytes(range(32)))
KEY = public_key_of(SEED)
RECEIPT = Receipt(
    issued_at=datetime(2027, 2, 18, tzinfo=UTC),
    tenant_id=TenantId(UUID(int=1)),
    passport_version_id=PassportVersionId(UUID(int=2)),
    passport_id=PassportId(UUID(int=3)),
    battery_product_id=BatteryProductId(UUID(int=4)),
    snapshot_id=SnapshotId(UUID(int=5)),
    snapshot_hash=sha256(b"snapshot"),
    rule_package_version_id=RulePackageVersionId(UUID(int=6)),
    dsl_sha256=sha256(b"rules"),
    tests_sha256=sha256(b"tests"),
    compiler_build_id="bpc-test",
    payload_hash=sha256(b"payload"),
    proof_root_hash=sha256(b"root"),
    signing_key_id="key-1",
)
PLAIN = written(RECEIPT)
SIGNED = signed(PLAIN, SEED)
# The seed's schema: all required, the signature only once there is one.
MEMBERS = [
    "receipt_version",
    "issued_at",
    "tenant_id",
    "passport_version_id",
    "passport_id",
    "battery_product_id",
    "snapshot_id",
    "snapshot_hash",
    "rule_package_version_id",
    "dsl_sha256",
    "tests_sha256",
    "compiler_build_id",
    "payload_hash",
    "proof_root_hash",
    "signature_alg",
    "signing_key_id",
    "signature",
]


def changed(**members: Any) -> bytes:
    return canon.encode({**json.loads(SIGNED), **members})


def refusal(data: bytes) -> BadReceipt:
    with pytest.raises(BadReceipt) as refused:
        read_receipt(data)
    return refused.value


def test_it_has_exactly_the_members_of_its_schema() -> None:
    assert sorted(json.loads(SIGNED)) == sorted(MEMBERS)
    assert sorted(json.loads(PLAIN)) == sorted({*MEMBERS} - {"signature"})


def test_its_texts_are_written_in_their_one_spelling() -> None:
    made = json.loads(PLAIN)

    assert made["receipt_version"] == "BPC-RECEIPT-1"
    assert made["signature_alg"] == "ED25519"
    assert made["issued_at"] == "2027-02-18T00:00:00.000000Z"
    assert made["tenant_id"] == "00000000-0000-0000-0000-000000000001"
    assert made["payload_hash"] == hashlib.sha256(b"payload").hexdigest()


def test_the_hash_is_over_the_receipt_without_its_signature() -> None:
    assert receipt_hash(PLAIN) == receipt_hash(SIGNED) == hashlib.sha256(PLAIN).digest()
    assert unsigned(SIGNED) == PLAIN == unsigned(PLAIN)


def test_the_signature_is_over_the_32_bytes_of_the_hash() -> None:
    signature = base64.b64decode(json.loads(SIGNED)["signature"])

    assert signature == Signer(SEED).sign(receipt_hash(PLAIN))
    read_receipt(SIGNED).verify(KEY)


def test_signing_again_gives_equal_bytes() -> None:
    assert signed(SIGNED, SEED) == SIGNED == signed(PLAIN, Signer(SEED))
    assert len(SIGNED) - len(PLAIN) == SIGNATURE_MEMBER_BYTES


def test_what_was_written_reads_as_it_was() -> None:
    assert read_receipt(PLAIN) == RECEIPT
    assert written(read_receipt(SIGNED)) == SIGNED


def test_the_moment_is_the_same_from_whatever_time_zone() -> None:
    elsewhere = RECEIPT.issued_at.astimezone(timezone(timedelta(hours=9, minutes=30)))

    assert written(replace(RECEIPT, issued_at=elsewhere)) == PLAIN


def test_a_receipt_without_signature_does_not_verify() -> None:
    with pytest.raises(SignatureInvalid, match="not signed"):
        RECEIPT.verify(KEY)


def test_another_keys_signature_does_not_verify() -> None:
    other = signed(PLAIN, Seed(bytes(32)))

    with pytest.raises(SignatureInvalid):
        read_receipt(other).verify(KEY)


@pytest.mark.parametrize("name", [name for name in MEMBERS if name != "signature"])
def test_a_missing_member_is_named(name: str) -> None:
    members = json.loads(SIGNED)
    del members[name]

    assert refusal(canon.encode(members)).details == {"member": name}


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("value", [None, 1, True, ["x"], "", "x\0", "A" * 201])
def test_a_wrong_member_is_named(name: str, value: Any) -> None:
    assert refusal(changed(**{name: value})).details == {"member": name}


def test_a_member_that_receipts_do_not_have_is_named() -> None:
    assert refusal(changed(note="x")).says == "the receipt has a member `note` that receipts do not have"


@pytest.mark.parametrize("data", [b"", b"[]", b"null", PLAIN + b"\n", b" " + PLAIN, PLAIN.replace(b":", b": ")])
def test_other_bytes_are_no_receipt(data: bytes) -> None:
    assert refusal(data).code == "VALIDATION_ERROR"


def test_every_flipped_bit_changes_the_receipt_or_is_refused() -> None:
    for at in range(len(SIGNED)):
        for bit in range(8):
            flipped = bytearray(SIGNED)
            flipped[at] ^= 1 << bit
            try:
                found = read_receipt(bytes(flipped))
            except BadReceipt:
                continue
            with pytest.raises(SignatureInvalid):
                found.verify(KEY)
