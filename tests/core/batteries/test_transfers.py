"""Statements of a transfer: both sides sign the same terms, and nothing else passes for such a pair."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.audit.signing import PinnedKey, Signer, parse_seed
from bpc.core.batteries.transfer_offers import (
    NewRecord,
    TransferAcceptance,
    TransferOffer,
    decode_acceptance,
    decode_offer,
    decode_record,
    encode_acceptance,
    encode_offer,
    encode_record,
)
from bpc.core.batteries.transfers import (
    BadTransfer,
    TransferParty,
    TransferSide,
    TransferStatement,
    TransferTerms,
    encode_unsigned_statement,
    find_pair_faults,
    read_transfer_statement,
    read_unsigned_statement,
)
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import BatteryId, TenantId, TransferId
from bpc.core.signing_forms import FormRefused, read_signing_order
from bpc.core.status.signed_documents import add_signature

AT = datetime(2041, 8, 1, 12, tzinfo=UTC)
GIVER, TAKER = Signer(parse_seed(bytes(range(32)))), Signer(parse_seed(bytes(range(1, 33))))
TERMS = TransferTerms(
    transfer_id=TransferId(UUID(int=7)),
    life="repurposed",
    effective_on=date(2041, 8, 1),
    offered_at=AT - timedelta(days=2),
    accepted_at=AT - timedelta(days=1),
    gives=TransferParty(
        tenant_id=TenantId(UUID(int=1)),
        operator="GLN:9521234000006",
        battery_id=BatteryId(UUID(int=3)),
        address="/01/09521234000013/21/A1",
        leaf_hash=sha256(b"old"),
    ),
    takes=TransferParty(
        tenant_id=TenantId(UUID(int=2)),
        operator="GLN:9521234000013",
        battery_id=BatteryId(UUID(int=4)),
        address="/p/00000000-0000-0000-0000-000000000004",
        leaf_hash=sha256(b"new"),
    ),
)
KEYS = [
    PinnedKey(GIVER.public_key, "giver", tenant_id=str(UUID(int=1))),
    PinnedKey(TAKER.public_key, "taker", tenant_id=str(UUID(int=2))),
]


def sign(side: TransferSide, terms: TransferTerms = TERMS, *, signer: Signer | None = None, key: str = "") -> bytes:
    key_id = key or ("giver" if side == "GIVES" else "taker")
    unsigned = encode_unsigned_statement(TransferStatement(side=side, terms=terms, signed_at=AT, signing_key_id=key_id))
    return add_signature(unsigned, (signer or (GIVER if side == "GIVES" else TAKER)).sign(sha256(unsigned)))


def list_faults(gives: bytes, takes: bytes, keys: list[PinnedKey] = KEYS) -> list[str]:
    return list(find_pair_faults(gives, takes, keys))


def test_a_pair_that_both_sides_signed_has_no_fault_and_reads_back() -> None:
    gives, takes = sign("GIVES"), sign("TAKES")

    assert list_faults(gives, takes) == []
    statement = read_transfer_statement(gives)
    assert (statement.terms, statement.tenant_id) == (TERMS, TERMS.gives.tenant_id)
    installation = [PinnedKey(GIVER.public_key, "giver"), PinnedKey(TAKER.public_key, None)]
    assert list_faults(gives, takes, installation) == []


def test_other_terms_other_sides_and_other_keys_are_named() -> None:
    gives, takes = sign("GIVES"), sign("TAKES")
    other = replace(TERMS, life="re-used")
    late = [KEYS[0]._replace(valid_until=AT - timedelta(days=1)), KEYS[1]]
    stolen = [KEYS[0], KEYS[1]._replace(compromised_since=AT)]
    swapped = [KEYS[0]._replace(tenant_id=str(UUID(int=2))), KEYS[1]]

    assert list_faults(gives, sign("TAKES", other)) == ["the two statements are about different terms"]
    assert "is of who takes" in list_faults(takes, takes)[0]
    assert "is of who takes" in list_faults(takes, gives)[0]
    assert "no key that you trust" in list_faults(gives, sign("TAKES", signer=GIVER))[0]
    assert "no key that you trust" in list_faults(gives, sign("TAKES", key="giver"))[0]
    assert "key of another tenant" in list_faults(gives, takes, swapped)[0]
    assert "was not valid" in list_faults(gives, takes, late)[0]
    assert "others had its key" in list_faults(gives, takes, stolen)[0]
    assert len(list_faults(gives, takes, [])) == 2
    assert "is not signed" in list_faults(encode_unsigned_statement(read_transfer_statement(gives)), takes)[0]


@given(st.data())
def test_no_flipped_bit_of_a_statement_passes(data: st.DataObject) -> None:
    gives, takes = sign("GIVES"), sign("TAKES")
    place = data.draw(st.integers(0, 8 * len(gives) - 1))
    changed = bytearray(gives)
    changed[place // 8] ^= 1 << place % 8

    assert list_faults(bytes(changed), takes) != []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("side",), "WATCHES"),
        (("tenant_id",), str(UUID(int=2))),
        (("transfer_version",), "BPC-TRANSFER-2"),
        (("signed_at",), "2041-08-01"),
        (("signing_key_id",), ""),
        (("signing_key_id",), 7),
        (("terms",), []),
        (("terms", "life"), "waste"),
        (("terms", "effective_on"), "20410801"),
        (("terms", "transfer_id"), "x"),
        (("terms", "more"), "x"),
        (("terms", "gives", "operator"), "x" * 401),
        (("terms", "gives", "leaf_hash"), "AA" * 32),
        (("terms", "gives", "battery_id"), str(UUID(int=4))),
        (("terms", "gives", "address"), None),
        (("terms", "takes", "tenant_id"), str(UUID(int=1))),
        (("more",), 1),
    ],
)
def test_the_signer_signs_nothing_but_statements_in_their_one_form(path: tuple[str, ...], value: object) -> None:
    unsigned = encode_unsigned_statement(
        TransferStatement(side="GIVES", terms=TERMS, signed_at=AT, signing_key_id="giver")
    )
    order = read_signing_order("transfer-statement", unsigned)
    document = json.loads(unsigned)
    target = document
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value

    assert (order.key_id, order.tenant_id, order.message) == ("giver", str(UUID(int=1)), sha256(unsigned))
    with pytest.raises(FormRefused):
        read_signing_order("transfer-statement", canonical_json.encode(document))


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"{}", b" {}", bytes(32), b'{"side":"GIVES"}', sign("GIVES")])
def test_other_bytes_are_no_statement(data: bytes) -> None:
    with pytest.raises(BadTransfer):
        read_unsigned_statement(data)
    with pytest.raises(FormRefused):
        read_signing_order("transfer-statement", data)


def test_the_key_of_the_log_signs_no_transfer() -> None:
    unsigned = encode_unsigned_statement(
        TransferStatement(side="TAKES", terms=TERMS, signed_at=AT, signing_key_id="log")
    )

    with pytest.raises(FormRefused, match="the log alone"):
        read_signing_order("transfer-statement", unsigned)


def test_a_receipt_or_a_status_is_no_transfer_and_a_transfer_neither() -> None:
    unsigned = encode_unsigned_statement(
        TransferStatement(side="TAKES", terms=TERMS, signed_at=AT, signing_key_id="taker")
    )

    for kind in ("receipt", "status-list", "status-statement", "audit-checkpoint", "log-checkpoint"):
        with pytest.raises(FormRefused):
            read_signing_order(kind, unsigned)


def test_offers_acceptances_and_records_read_back() -> None:
    offer = TransferOffer(
        transfer_id=TERMS.transfer_id,
        tenant_id=TERMS.gives.tenant_id,
        to_tenant_id=TERMS.takes.tenant_id,
        operator=TERMS.gives.operator,
        battery_id=TERMS.gives.battery_id,
        address=TERMS.gives.address,
        leaf_hash=TERMS.gives.leaf_hash,
        serial_number="A1",
        manufactured_on=date(2027, 1, 2),
        placed_on=None,
        life=None,
        remark="cell 4 was replaced",
        offered_at=AT,
        expires_at=AT + timedelta(days=30),
    )
    acceptance = TransferAcceptance(
        tenant_id=TERMS.takes.tenant_id,
        operator=TERMS.takes.operator,
        battery_id=TERMS.takes.battery_id,
        life="re-used",
        effective_on=date(2041, 8, 1),
        accepted_at=AT,
    )
    record = NewRecord(sku="S", serial_number="S1")

    assert decode_offer(encode_offer(offer)) == offer
    assert decode_acceptance(encode_acceptance(acceptance)) == acceptance
    assert decode_record(encode_record(record)) == record
    assert record.to_cells() == {"sku": "S", "serial_number": "S1"}
    with pytest.raises(TypeError):
        decode_offer(b"[]")
