"""Batteries below their model: what they read, what they inherit, and that the same input gives the same bytes."""

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from bpc.core.errors import Refusal
from bpc.core.facts.fact_table import FactInvalid
from bpc.core.facts.snapshot import DuplicateFact, encode_fact_line, order_facts
from bpc.core.formats.ids import RulePackageVersionId
from bpc.core.formats.timestamps import format_time
from bpc.core.items.compile import MAX_CONTENT_BYTES, ItemCompiler, ItemTooLarge, WrongLayerFact, open_batch
from bpc.core.items.compile_order import derive_item_key
from bpc.core.items.content import read_row, restore_item
from bpc.core.items.layer_facts import write_layer_facts
from bpc.core.items.layer_pins import LayerMismatch
from bpc.core.items.row_batches import CompilerParts, SourceRow, compile_rows
from bpc.core.items.row_batches import get_compiler as open_compiler
from bpc.core.items.upper_layers import open_model
from bpc.core.language.evaluation import RuleFailure
from bpc.core.passport.payload import make_blinding_fact
from tests.core.items import sample_layers as sample


def get_payload(content: bytes) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(restore_item(content).payload)
    return payload


def test_a_battery_reads_its_model_and_its_batch() -> None:
    alone = get_payload(sample.get_compiler().compile(sample.make_item_row(1)).content)
    below_batch = get_payload(sample.get_compiler(batch=90).compile(sample.make_item_row(1)).content)

    # Without a batch its fields are the battery's; with one they are in the batch's passport.
    assert sorted(alone["fields"]) == ["batch", "item", "requirements"]
    assert alone["fields"]["item"]["mass_note"] == "SN-1 of 2001.5 g, P48"
    assert alone["fields"]["item"]["plant_note"] == "SN-1 made in PLANT-0 by PLANT-0"
    assert alone["fields"]["item"]["health_pct"] == "95.00"
    assert sorted(below_batch["fields"]) == ["item", "requirements"]
    batch = json.loads(sample.compile_batch().payload)
    assert batch["fields"]["batch"] == {"made_on": "2027-02-19", "plant": "PLANT-90"}
    assert below_batch["fields"]["item"]["plant_note"] == "SN-1 made in PLANT-90 by PLANT-90"
    assert [pin["layer"] for pin in below_batch["above"]] == ["model", "batch"]


def test_the_day_of_a_verdict_is_the_battery_s_and_never_the_model_s() -> None:
    compiler = sample.get_compiler()
    row = sample.make_item_row(1, remaining_capacity_ah="5", placed_on_market_on="2027-01-31")

    early, late = compiler.compile(row), compiler.compile(sample.make_item_row(1, remaining_capacity_ah="5"))

    verdicts = [
        next(each["verdict"] for each in get_payload(item.content)["compliance"] if each["code"] == "HEALTH")
        for item in (early, late)
    ]
    assert verdicts == ["not_yet_in_force", "assessed"]
    assert (early.compliance.fail, late.compliance.fail) == (0, 1)
    assert [get_payload(item.content)["verdict"] for item in (early, late)] == ["PASS", "FAIL"]


def test_what_the_model_lacks_is_missing_in_its_batteries_and_fails_their_verdict() -> None:
    upper = open_model(sample.issue_model(rated_ah=None).entries)

    item = ItemCompiler(upper, sample.RUN).compile(sample.make_item_row(1))

    payload = get_payload(item.content)
    assert payload["fields"]["item"]["health_pct"] is None
    assert {entry["code"]: entry["status"] for entry in payload["compliance"]}["DP11"] == "FAIL"
    assert payload["verdict"] == "FAIL"
    assert payload["fields"]["requirements"]["met"] is False
    assert upper.counts.fail == 1, "the field model.rated_ah of the model itself"


def test_all_artifacts_come_out_of_what_is_kept_without_the_rules() -> None:
    compiler = sample.get_compiler(batch=90)
    items = [compiler.compile(sample.make_item_row(number)) for number in range(20)]

    for item in items:
        artifacts = restore_item(item.content, sample.SIGNER.sign(item.receipt_hash))
        again, _, _, _ = compiler.prove(read_row(artifacts))
        assert (again.payload, again.snapshot) == (artifacts.payload, artifacts.snapshot)
        assert again.receipt == item.receipt == restore_item(item.content).receipt
        assert artifacts.receipt_hash == item.receipt_hash == again.receipt_hash
    content = items[0].content
    for broken in (content[:-20], content.replace(b"\n\n", b"\n", 1), content.replace(b"Blinding", b"Winding1")):
        with pytest.raises(Refusal):
            restore_item(broken)


def test_every_engine_gives_the_same_bytes_and_one_bad_row_spoils_no_other() -> None:
    rows = [sample.make_item_row(number) for number in range(4)]
    sources: list[SourceRow] = [
        {
            "battery_id": str(row.subject_id),
            "passport_version_id": str(row.passport_version_id),
            "snapshot_id": str(row.snapshot_id),
            "issued_at": format_time(row.issued_at),
            "blinding_key": row.blinding_key,
            "facts": b"".join(map(encode_fact_line, row.facts)),
        }
        for row in rows
    ]
    sources[2] = {**sources[2], "facts": sources[2]["facts"].replace(b'"9.5"', b'"nine"')}
    parts = CompilerParts(tuple(sample.issue_model().entries.items()), sample.RUN, sample.compile_batch())

    results = compile_rows(open_compiler(pickle.loads(pickle.dumps(parts))), sources)

    expected = [sample.get_compiler(batch=90).compile(row) for row in rows]
    for at in (0, 1, 3):
        assert results[at]["content"] == expected[at].content
        assert results[at]["receipt_hash"] == expected[at].receipt_hash
    assert results[2]["content"] is None
    assert results[2]["error_code"] == "VALIDATION_ERROR"
    assert "remaining_capacity_ah" in str(results[2]["error"])


def test_the_facts_of_a_battery_are_written_as_those_of_a_product() -> None:
    row = sample.make_item_row(7, serial_number='Ünï"\\ 7')
    secret = make_blinding_fact(row.snapshot_id, row.blinding_key)

    ordered = write_layer_facts(row)

    expected = order_facts([*row.facts, secret])
    assert (ordered.lines, ordered.refs) == (expected.lines, expected.refs)


def test_wrong_rows_are_refused() -> None:
    compiler = sample.get_compiler()
    row = sample.make_item_row(1)
    battery = sample.make_fact("Battery", f"battery:{sample.SKU}", {"mass_kg": "1"})
    unread = sample.make_fact("Item", "item:another", {"status": 5})
    wrong_version = replace(row.facts[0], schema_version=9)

    for facts, error in (
        ((*row.facts, battery), WrongLayerFact),
        ((*row.facts, sample.make_fact("Blinding", "blinding:x", {})), WrongLayerFact),
        ((*row.facts, row.facts[0]), DuplicateFact),
        ((row.facts[0], unread), FactInvalid),
        ((wrong_version,), FactInvalid),
        ((sample.make_fact("Item", "item:x", {"serial_number": "\ud800"}),), Refusal),
        ((sample.make_fact("Item", f"item:{sample.SKU}", {"serial_number": "x" * MAX_CONTENT_BYTES}),), RuleFailure),
    ):
        with pytest.raises(error):
            compiler.compile(replace(row, facts=facts))
    too_long = tuple(
        sample.make_fact("Reading", f"reading:{sample.SKU}:{at}", {"text": "x" * 60_000}) for at in range(20)
    )
    with pytest.raises(ItemTooLarge):
        compiler.compile(replace(row, facts=(*row.facts, *too_long)))


def test_layers_that_do_not_belong_together_are_refused() -> None:
    model = sample.issue_model()
    level_1 = sample.issue_model(rules="field a: Int = 1;")
    other_run = replace(sample.RUN, rule_package_version_id=RulePackageVersionId(sample.make_id(9)))
    upper = sample.open_sample_model()

    with pytest.raises(LayerMismatch, match="level 1"):
        open_model(level_1.entries)
    with pytest.raises(LayerMismatch, match="payload"):
        open_model({**model.entries, "payload.json": model["payload.json"].replace(b"P48", b"P49")})
    with pytest.raises(LayerMismatch, match="rules"):
        open_model({**model.entries, "rules.bpc": model["rules.bpc"] + b"\n"})
    with pytest.raises(LayerMismatch, match="another value"):
        open_model({**model.entries, "proof.json": model["proof.json"].replace(b'"P48"', b'"P49"')})
    with pytest.raises(LayerMismatch, match="other rules"):
        ItemCompiler(upper, other_run)
    with pytest.raises(LayerMismatch, match="batch is not"):
        open_batch(sample.open_sample_model(2), sample.RUN, sample.compile_batch())
    with pytest.raises(LayerMismatch, match="directly below"):
        ItemCompiler(open_batch(upper, sample.RUN, sample.compile_batch()), sample.RUN, layer="batch")


def test_the_secret_of_a_battery_follows_from_the_run_s_and_tells_nothing_of_it() -> None:
    keys = {derive_item_key(sample.RUN_SECRET, sample.make_id(number)) for number in range(100)}

    assert len(keys) == 100
    bundle = sample.bundle_item(1, batch=90)
    assert sample.RUN_SECRET not in bundle
    assert sample.RUN_SECRET.hex().encode() not in bundle
    own_key = sample.make_item_row(1).blinding_key
    assert own_key.hex().encode() in bundle
    assert sample.make_item_row(2).blinding_key.hex().encode() not in bundle
