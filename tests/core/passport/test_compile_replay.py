"""Replay, BPC-REPLAY-1: what was kept compiles to the same bytes again, or the first difference is named."""

import json
from typing import Any

import pytest

from bpc.core.audit.signing import Seed, derive_public_key
from bpc.core.errors import Refusal
from bpc.core.formats import canonical_json
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.package import read_program
from bpc.core.passport.bundle import build_bundle, read_bundle, write_bundle
from bpc.core.passport.compile import (
    NotReplayable,
    ReplayMismatch,
    compile_passport,
    find_difference,
    read_compile_input,
    replay_passport,
)
from bpc.core.passport.receipt import sign_receipt
from tests.core.passport.test_compile import FIRST_INPUT

SEED = Seed(bytes(range(32)))
COMPILED = compile_passport(FIRST_INPUT)
ARTIFACTS = {
    "payload.json": COMPILED.payload,
    "proof.json": COMPILED.proof,
    "receipt.json": sign_receipt(COMPILED.receipt, SEED),
    "snapshot.json": COMPILED.snapshot,
    "facts.jsonl": COMPILED.facts,
    "rules.bpc": FIRST_INPUT.rules,
    "tests.bpc": FIRST_INPUT.tests,
}


def expect_mismatch(**changed: bytes) -> ReplayMismatch:
    with pytest.raises(ReplayMismatch) as error:
        replay_passport({**ARTIFACTS, **{name.replace("_", "."): data for name, data in changed.items()}})
    return error.value


def edit_artifact(name: str, *path: str | int, to: Any) -> bytes:
    """The artifact with one value changed, canonical again."""
    value: Any = json.loads(ARTIFACTS[name])
    target = value
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = to
    return canonical_json.encode(value)


def test_what_was_kept_compiles_to_the_same_bytes() -> None:
    assert replay_passport(ARTIFACTS) == COMPILED
    assert replay_passport({**ARTIFACTS, "receipt.json": COMPILED.receipt}) == COMPILED
    assert replay_passport(ARTIFACTS, machine=Machine(read_program(FIRST_INPUT.rules))) == COMPILED


def test_a_bundle_holds_all_that_is_needed() -> None:
    bundle = build_bundle(
        payload=COMPILED.payload,
        proof=COMPILED.proof,
        receipt=ARTIFACTS["receipt.json"],
        snapshot=COMPILED.snapshot,
        facts=COMPILED.facts,
        rules=FIRST_INPUT.rules,
        tests=FIRST_INPUT.tests,
        public_key=derive_public_key(SEED),
        qr_png=b"",
    )

    assert replay_passport(read_bundle(write_bundle(bundle)).entries) == COMPILED


def test_the_compile_input_is_read_from_the_artifacts() -> None:
    assert read_compile_input(ARTIFACTS) == FIRST_INPUT


def test_another_value_is_named_by_its_path_with_both_values() -> None:
    mismatch = expect_mismatch(
        payload_json=edit_artifact("payload.json", "fields", "battery", "capacity_kwh", to="75.500001")
    )

    assert mismatch.code == "REPLAY_MISMATCH"
    assert (mismatch.artifact, mismatch.place) == ("payload", "$.fields.battery.capacity_kwh")
    assert mismatch.says == (
        'replay gives another payload: at `$.fields.battery.capacity_kwh` it was `"75.500001"`, '
        'and compiling again gives `"75.500000"`'
    )


def test_another_node_of_the_proof_is_named() -> None:
    mismatch = expect_mismatch(proof_json=edit_artifact("proof.json", "nodes", 3, "data", to={"op": "list"}))

    assert mismatch.artifact == "proof"
    assert mismatch.place.startswith("$.nodes[3].data.")


def test_another_snapshot_is_named() -> None:
    mismatch = expect_mismatch(snapshot_json=edit_artifact("snapshot.json", "facts", to=[]))

    assert (mismatch.artifact, mismatch.place) == ("snapshot", "$.facts[0]")
    assert mismatch.details["kept"] == "absent"


def test_another_receipt_is_named() -> None:
    mismatch = expect_mismatch(receipt_json=edit_artifact("receipt.json", "payload_hash", to="0" * 64))

    assert (mismatch.artifact, mismatch.place) == ("receipt", "$.payload_hash")


def test_a_payload_with_something_more_is_named() -> None:
    mismatch = expect_mismatch(payload_json=edit_artifact("payload.json", "fields", "extra", to=1))

    assert (mismatch.place, mismatch.details["again"]) == ("$.fields.extra", "absent")


def test_a_proof_that_is_no_json_is_named_by_byte() -> None:
    mismatch = expect_mismatch(proof_json=b"not a proof")

    assert mismatch.place == "byte 0"
    assert expect_mismatch(proof_json=COMPILED.proof + b"\n").place == f"byte {len(COMPILED.proof)}"


def test_other_facts_give_another_passport() -> None:
    assert expect_mismatch(facts_jsonl=COMPILED.facts.replace(b"75.5", b"75.6")).artifact == "snapshot"


def test_other_rules_give_another_passport() -> None:
    other = FIRST_INPUT.rules.replace(b"toDec(2, toDec(2, total) / cap)", b"toDec(2, toDec(2, total) * 1 / cap)")

    assert expect_mismatch(rules_bpc=other).artifact == "proof"


def test_a_comment_more_in_the_rules_shows_in_the_receipt() -> None:
    mismatch = expect_mismatch(rules_bpc=FIRST_INPUT.rules + b"-- a comment\n")

    assert (mismatch.artifact, mismatch.place) == ("receipt", "$.dsl_sha256")


@pytest.mark.parametrize(
    "payload",
    [
        b"[]",
        b"{}",
        edit_artifact("payload.json", "battery_product", to={}),
        edit_artifact("payload.json", "battery_product", "sku", to=1),
    ],
)
def test_a_payload_without_its_product_cannot_be_replayed(payload: bytes) -> None:
    with pytest.raises(NotReplayable):
        replay_passport({**ARTIFACTS, "payload.json": payload})


@pytest.mark.parametrize("name", list(ARTIFACTS))
def test_invalid_bytes_of_any_artifact_are_refused(name: str) -> None:
    with pytest.raises(Refusal):
        replay_passport({**ARTIFACTS, name: b"\xff"})


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
    difference = find_difference(before, after)

    assert difference is not None
    assert difference.place == place


@pytest.mark.parametrize("value", [None, 0, "", [], {}, {"a": [{"b": True}]}])
def test_equal_values_have_no_difference(value: Any) -> None:
    assert find_difference(value, json.loads(json.dumps(value))) is None


def test_long_values_are_cut() -> None:
    difference = find_difference("x" * 1000, "y")

    assert difference is not None
    assert len(difference.before) < 100
