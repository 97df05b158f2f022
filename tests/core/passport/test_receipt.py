"""Receipts, BPC-RECEIPT-1: exactly the seed's members, one spelling, one hash before and after signing."""

import base64
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from bpc.core.audit.signing import Seed, SignatureInvalid, Signer, derive_public_key
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import (
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.passport.receipt import (
    SIGNATURE_MEMBER_BYTES,
    BadReceipt,
    Receipt,
    encode_receipt,
    read_receipt,
    remove_signature,
    sign_receipt,
)

SEED = Seed(bytes(range(32)))
KEY = derive_public_key(SEED)
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
UNSIGNED = encode_receipt(RECEIPT)
SIGNED = sign_receipt(UNSIGNED, SEED)
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


def change_members(**members: Any) -> bytes:
    return canonical_json.encode({**json.loads(SIGNED), **members})


def expect_refusal(data: bytes) -> BadReceipt:
    with pytest.raises(BadReceipt) as error:
        read_receipt(data)
    return error.value


def test_it_has_exactly_the_members_of_its_schema() -> None:
    assert sorted(json.loads(SIGNED)) == sorted(MEMBERS)
    assert sorted(json.loads(UNSIGNED)) == sorted({*MEMBERS} - {"signature"})


def test_its_texts_are_written_in_their_one_spelling() -> None:
    members = json.loads(UNSIGNED)

    assert members["receipt_version"] == "BPC-RECEIPT-1"
    assert members["signature_alg"] == "ED25519"
    assert members["issued_at"] == "2027-02-18T00:00:00.000000Z"
    assert members["tenant_id"] == "00000000-0000-0000-0000-000000000001"
    assert members["payload_hash"] == hashlib.sha256(b"payload").hexdigest()


def test_the_hash_is_over_the_receipt_without_its_signature() -> None:
    assert read_receipt(UNSIGNED).hash() == read_receipt(SIGNED).hash() == hashlib.sha256(UNSIGNED).digest()
    assert remove_signature(SIGNED) == UNSIGNED == remove_signature(UNSIGNED)


def test_the_signature_is_over_the_32_bytes_of_the_hash() -> None:
    signature = base64.b64decode(json.loads(SIGNED)["signature"])

    assert signature == Signer(SEED).sign(read_receipt(UNSIGNED).hash())
    read_receipt(SIGNED).verify(KEY)


def test_signing_again_gives_equal_bytes() -> None:
    assert sign_receipt(SIGNED, SEED) == SIGNED == sign_receipt(UNSIGNED, Signer(SEED))
    assert len(SIGNED) - len(UNSIGNED) == SIGNATURE_MEMBER_BYTES


def test_what_was_written_reads_as_it_was() -> None:
    assert read_receipt(UNSIGNED) == RECEIPT
    assert encode_receipt(read_receipt(SIGNED)) == SIGNED


def test_the_moment_is_the_same_from_whatever_time_zone() -> None:
    elsewhere = RECEIPT.issued_at.astimezone(timezone(timedelta(hours=9, minutes=30)))

    assert encode_receipt(replace(RECEIPT, issued_at=elsewhere)) == UNSIGNED


def test_a_receipt_without_signature_does_not_verify() -> None:
    with pytest.raises(SignatureInvalid, match="not signed"):
        RECEIPT.verify(KEY)


def test_another_keys_signature_does_not_verify() -> None:
    other = sign_receipt(UNSIGNED, Seed(bytes(32)))

    with pytest.raises(SignatureInvalid):
        read_receipt(other).verify(KEY)


@pytest.mark.parametrize("name", [name for name in MEMBERS if name != "signature"])
def test_a_missing_member_is_named(name: str) -> None:
    members = json.loads(SIGNED)
    del members[name]

    assert expect_refusal(canonical_json.encode(members)).details == {"member": name}


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("value", [None, 1, True, ["x"], "", "x\0", "A" * 201])
def test_a_wrong_member_is_named(name: str, value: Any) -> None:
    assert expect_refusal(change_members(**{name: value})).details == {"member": name}


def test_a_member_that_receipts_do_not_have_is_named() -> None:
    assert expect_refusal(change_members(note="x")).says == "the receipt has an unknown member `note`"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"null", UNSIGNED + b"\n", b" " + UNSIGNED, UNSIGNED.replace(b":", b": ")]
)
def test_other_bytes_are_no_receipt(data: bytes) -> None:
    assert expect_refusal(data).code == "VALIDATION_ERROR"


@pytest.mark.slow
def test_every_flipped_bit_changes_the_receipt_or_is_refused() -> None:
    for at in range(len(SIGNED)):
        for bit in range(8):
            flipped = bytearray(SIGNED)
            flipped[at] ^= 1 << bit
            try:
                parsed = read_receipt(bytes(flipped))
            except BadReceipt:
                continue
            with pytest.raises(SignatureInvalid):
                parsed.verify(KEY)
