"""What a signer signs: whole documents of a known kind in their one form, and nothing that somebody made up."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bpc.core.audit.checkpoint import (
    Checkpoint,
    add_checkpoint_signature,
    encode_unsigned_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from bpc.core.audit.signing import Signer, parse_seed
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.receipt import encode_receipt, read_receipt
from bpc.core.signing_forms import FORMS, MAX_DOCUMENT_BYTES, FormRefused, read_signing_order
from bpc.core.tlog.checkpoints import LogCheckpoint
from tests.core.sample_passports import make_small_bundle

SIGNED = read_receipt(read_bundle(make_small_bundle()).entries["receipt.json"])
RECEIPT = replace(SIGNED, signature=None)
TENANT, KEY_ID = str(RECEIPT.tenant_id), RECEIPT.signing_key_id
STATUS_LIST = {
    "credential": {},
    "signing_key_id": KEY_ID,
    "status_list_version": "BPC-STATUS-LIST-1",
    "tenant_id": TENANT,
}
SEED = parse_seed(bytes(range(32)))
AUDIT = Checkpoint(tenant_id=RECEIPT.tenant_id, taken_at=datetime(2027, 2, 18, tzinfo=UTC), heads={})
LOG = LogCheckpoint(origin="localhost/log", size=7, root=Digest(bytes(32)))


def test_each_kind_names_its_key_its_tenant_and_what_is_signed() -> None:
    status_list = canonical_json.encode(STATUS_LIST)
    audit = encode_unsigned_checkpoint(AUDIT, public_key=Signer(SEED).public_key, signing_key_id=KEY_ID)

    orders = {
        kind: read_signing_order(kind, document)
        for kind, document in (
            ("receipt", encode_receipt(RECEIPT)),
            ("status-list", status_list),
            ("audit-checkpoint", audit),
            ("log-checkpoint", LOG.text.encode()),
        )
    }

    assert {kind: (order.key_id, order.tenant_id, order.position) for kind, order in orders.items()} == {
        "receipt": (KEY_ID, TENANT, None),
        "status-list": (KEY_ID, TENANT, None),
        "audit-checkpoint": (KEY_ID, TENANT, None),
        "log-checkpoint": ("log", None, 7),
    }
    assert orders["receipt"].message == RECEIPT.hash()
    assert orders["status-list"].message == sha256(status_list)
    assert orders["log-checkpoint"].message == LOG.text.encode()
    signed = add_checkpoint_signature(audit, Signer(SEED).sign(orders["audit-checkpoint"].message))
    assert signed == write_checkpoint(AUDIT, seed=SEED, signing_key_id=KEY_ID)
    assert read_checkpoint(signed, key=Signer(SEED).public_key) == AUDIT


@pytest.mark.parametrize(
    ("kind", "document", "says"),
    [
        ("hash", bytes(32), "is not one of audit-checkpoint, item-receipt, log-checkpoint, receipt"),
        ("receipt", bytes(32), "is not canonical"),
        ("receipt", RECEIPT.hash(), "is not canonical"),
        ("receipt", encode_receipt(SIGNED), "is signed already"),
        ("receipt", encode_receipt(RECEIPT)[:-1], "is not canonical"),
        ("receipt", encode_receipt(RECEIPT) + b" ", "is not canonical"),
        ("receipt", canonical_json.encode(STATUS_LIST), "has no `"),
        ("receipt", b" " * (MAX_DOCUMENT_BYTES + 1), "more than 1,048,576 bytes"),
        ("status-list", encode_receipt(RECEIPT), "has exactly the members"),
        ("status-list", canonical_json.encode(STATUS_LIST | {"signature": ""}), "has exactly the members"),
        (
            "status-list",
            canonical_json.encode(STATUS_LIST | {"status_list_version": "X"}),
            "is not `BPC-STATUS-LIST-1`",
        ),
        ("status-list", canonical_json.encode(STATUS_LIST | {"tenant_id": "acme"}), "acme"),
        ("status-list", canonical_json.encode(STATUS_LIST | {"signing_key_id": 7}), "is not a text"),
        ("status-list", canonical_json.encode(STATUS_LIST | {"signing_key_id": "log"}), "signs checkpoints of the log"),
        ("status-list", b"[]", "is not an object"),
        ("status-statement", canonical_json.encode(STATUS_LIST), "has exactly the members"),
        ("audit-checkpoint", write_checkpoint(AUDIT, seed=SEED, signing_key_id=KEY_ID), "is not of the form"),
        ("audit-checkpoint", encode_receipt(RECEIPT), "is not of the form"),
        ("log-checkpoint", LOG.text.encode() + b"more\n", "is not in its one form"),
        ("log-checkpoint", b"\xff", "is not text"),
        ("log-checkpoint", encode_receipt(RECEIPT), "is not a checkpoint"),
    ],
)
def test_nothing_else_is_signed(kind: str, document: bytes, says: str) -> None:
    with pytest.raises(FormRefused) as refusal:
        read_signing_order(kind, document)

    assert says in refusal.value.says
    assert set(FORMS) == {
        *("audit-checkpoint", "item-receipt", "log-checkpoint", "receipt"),
        *("status-list", "status-statement", "transfer-statement"),
    }
