"""Blinding, BPC-BLIND-1: a snapshot's secret, and salts that nobody without it can guess."""

import hashlib
import hmac
from dataclasses import replace
from uuid import UUID

import pytest

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.passport.payload import BadBlinding, Salts, find_blinding_key, make_blinding_fact

SNAPSHOT = UUID("c386bbc4-0000-4000-8000-3c5f414c343c")
OTHER = UUID("c386bbc4-0000-4000-8000-3c5f414c343d")
VERSION = UUID("7f7f7f7f-0000-4000-8000-000000000001")
KEY = bytes(range(32))
FACT = make_blinding_fact(SNAPSHOT, KEY)
BATTERY = SnapshotFact(fact_type="Battery", fact_key="battery:SKU-1", schema_version=1, payload={})


def compute_by_hand(key: bytes, purpose: str) -> str:
    """The formula of the format, written out."""
    message = b"BPC-BLIND-1" + b"\x00" + str(VERSION).encode() + b"\x00" + purpose.encode()
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def test_the_secret_is_a_fact_of_the_snapshot() -> None:
    assert (FACT.fact_type, FACT.fact_key, FACT.schema_version) == ("Blinding", f"blinding:{SNAPSHOT}", 1)
    assert FACT.payload == {"key": KEY.hex()}
    assert find_blinding_key([BATTERY, FACT], SNAPSHOT) == KEY


def test_another_snapshots_secret_does_not_count() -> None:
    assert find_blinding_key([BATTERY, FACT], OTHER) is None


def test_a_fact_of_another_type_with_that_key_does_not_count() -> None:
    assert find_blinding_key([replace(FACT, fact_type="Battery")], SNAPSHOT) is None


@pytest.mark.parametrize(
    "wrong",
    [
        replace(FACT, schema_version=2),
        replace(FACT, payload={}),
        replace(FACT, payload={"key": None}),
        replace(FACT, payload={"key": KEY.hex().upper()}),
        replace(FACT, payload={"key": KEY.hex()[:-2]}),
        replace(FACT, payload={"key": KEY.hex() + "00"}),
        replace(FACT, payload={"key": KEY.hex(), "note": "x"}),
    ],
    ids=lambda fact: f"{fact.schema_version} {fact.payload}"[:60],
)
def test_a_malformed_secret_is_refused_instead_of_ignored(wrong: SnapshotFact) -> None:
    with pytest.raises(BadBlinding) as error:
        find_blinding_key([wrong], SNAPSHOT)

    assert error.value.code == "VALIDATION_ERROR"
    assert KEY.hex() not in f"{error.value.says} {error.value.details}"


def test_a_secret_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        make_blinding_fact(SNAPSHOT, KEY[1:])


def test_salts_are_halves_of_an_hmac() -> None:
    salts = Salts(KEY, VERSION)

    assert salts.derive_payload_salt() == compute_by_hand(KEY, "payload")[:32]
    assert "".join(salts.derive_field_salts("battery.capacity_kwh")) == compute_by_hand(
        KEY, "field:battery.capacity_kwh"
    )
    assert [len(half) for half in salts.derive_field_salts("é")] == [32, 32]


def test_without_a_secret_the_key_is_zeros() -> None:
    assert Salts(None, VERSION).derive_payload_salt() == compute_by_hand(bytes(32), "payload")[:32]


def test_every_field_version_and_secret_has_salts_of_its_own() -> None:
    all_salts = [
        salt
        for key in (KEY, KEY[::-1])
        for version in (VERSION, OTHER)
        for path in ("a", "b", "a.b")
        for salt in Salts(key, version).derive_field_salts(path)
    ]

    assert len(set(all_salts)) == len(all_salts) == 24
