"""Replay, BPC-REPLAY-1: what was kept compiles to the same bytes again, or the first difference is named."""

import json
from typing import Any

import pytest

from bpc.core import canon
from bpc.core.bundle import bundle_of, read_bundle, write_bundle
from bpc.core.compile import compile_passport
from bpc.core.errors import Refusal
from bpc.core.receipt import signed
from bpc.core.replay import NotReplayable, ReplayMismatch, first_difference, input_of, replay
from bpc.core.rules.evaluating.evaluate import Machine
from bpc.core.rules.package import checked_program
from bpc.core.signing import Seed, public_key_of
from tests.core.test_compile import GIVEN

SEED = Seed(bytes(range(32)))
MADE = compile_passport(GIVEN)
KEPT = {
    "payload.json": MADE.payload,
    "proof.json": MADE.proof,
    "receipt.json": signed(MADE.receipt, SEED),
    "snapshot.json": MADE.snapshot,
    "facts.jsonl": MADE.facts,
    "rules.bpc": GIVEN.rules,
    "tests.bpc": GIVEN.tests,
}


def mismatch(**changed: bytes) -> ReplayMismatch:
    with pytest.raises(ReplayMismatch) as refused:
        replay({**KEPT, **{name.replace("_", "."): data for name, data in changed.items()}})
    return refused.value


def edited(name: str, *path: str | int, to: Any) -> bytes:
    """The artifact with one value changed, canonical again."""
    value: Any = json.loads(KEPT[name])
    inside = value
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = to
    return canon.encode(value)


def test_what_was_kept_compiles_to_the_same_bytes() -> None:
    assert replay(KEPT) == MADE
    assert replay({**KEPT, "receipt.json": MADE.receipt}) == MADE
    assert replay(KEPT, machine=Machine(checked_program(GIVEN.rules))) == MADE


def test_a_bundle_holds_all_that_is_needed() -> None:
    bundle = bundle_of(
        payload=MADE.payload,
        proof=MADE.proof,
        receipt=KEPT["receipt.json"],
        snapshot=MADE.snapshot,
        facts=MADE.facts,
        rules=GIVEN.rules,
        tests=GIVEN.tests,
        public_key=public_key_of(SEED),
        qr_png=b"",
    )

    assert replay(read_bundle(write_bundle(bundle)).entries) == MADE


def test_the_input_is_found_again() -> None:
    assert input_of(KEPT) == GIVEN


def test_another_value_is_named_by_its_path_with_both_values() -> None:
    found = mismatch(payload_json=edited("payload.json", "fields", "battery", "capacity_kwh", to="75.500001"))

    assert found.code == "REPLAY_MISMATCH"
    assert (found.artifact, found.place) == ("payload", "$.fields.battery.capacity_kwh")
    assert found.says == (
        'replay gives another payload: at `$.fields.battery.capacity_kwh` it was `"75.500001"`, '
        'and compiling again gives `"75.500000"`'
    )


def test_another_node_of_the_proof_is_named() -> None:
    found = mismatch(proof_json=edited("proof.json", "nodes", 3, "data", to={"op": "list"}))

    assert found.artifact == "proof"
    assert found.place.startswith("$.nodes[3].data.")


def test_another_snapshot_is_named() -> None:
    found = mismatch(snapshot_json=edited("snapshot.json", "facts", to=[]))

    assert (found.artifact, found.place) == ("snapshot", "$.facts[0]")
    assert found.details["kept"] == "absent"


def test_another_receipt_is_named() -> None:
    found = mismatch(receipt_json=edited("receipt.json", "payload_hash", to="0" * 64))

    assert (found.artifact, found.place) == ("receipt", "$.payload_hash")


def test_a_payload_with_something_more_is_named() -> None:
    found = mismatch(payload_json=edited("payload.json", "fields", "extra", to=1))

    assert (found.place, found.details["again"]) == ("$.fields.extra", "absent")


def test_a_proof_that_is_no_json_is_named_by_byte() -> None:
    found = mismatch(proof_json=b"not a proof")

    assert found.place == "byte 0"
    assert mismatch(proof_json=MADE.proof + b"\n").place == f"byte {len(MADE.proof)}"


def test_other_facts_give_another_passport() -> None:
    assert mismatch(facts_jsonl=MADE.facts.replace(b"75.5", b"75.6")).artifact == "snapshot"


def test_other_rules_give_another_passport() -> None:
    other = GIVEN.rules.replace(b"toDec(2, toDec(2, total) / cap)", b"toDec(2, toDec(2, total) * 1 / cap)")

    assert mismatch(rules_bpc=other).artifact == "proof"


def test_a_comment_more_in_the_rules_shows_in_the_receipt() -> None:
    found = mismatch(rules_bpc=GIVEN.rules + b"-- a comment\n")

    assert (found.artifact, found.place) == ("receipt", "$.dsl_sha256")


@pytest.mark.parametrize(
    "payload",
    [
        b"[]",
        b"{}",
        edited("payload.json", "battery_product", to={}),
        edited("payload.json", "battery_product", "sku", to=1),
    ],
)
def test_a_payload_without_its_product_cannot_be_replayed(payload: bytes) -> None:
    with pytest.raises(NotReplayable):
        replay({**KEPT, "payload.json": payload})


@pytest.mark.parametrize("name", list(KEPT))
def test_rubbish_is_refused_whatever_it_stands_for(name: str) -> None:
    with pytest.raises(Refusal):
        replay({**KEPT, name: b"\xff"})


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        (True, 1, "$"),
        ([1, 2], [1], "$[1]"),
        ({"a": {"b": [0, {"c": None}]}}, {"a": {"b": [0, {"c": False}]}}, "$.a.b[1].c"),
        ({"b": 1}, {"a": 1}, "$.a"),
        ("x", ["x"], "$"),
    ],
)
def test_the_first_difference_is_found_by_path(before: Any, after: Any, place: str) -> None:
    found = first_difference(before, after)

    assert found is not None
    assert found.place == place


@pytest.mark.parametrize("value", [None, 0, "", [], {}, {"a": [{"b": True}]}])
def test_equal_values_have_no_difference(value: Any) -> None:
    assert first_difference(value, json.loads(json.dumps(value))) is None


def test_long_values_are_cut() -> None:
    found = first_difference("x" * 1000, "y")

    assert found is not None
    assert len(found.before) < 100
