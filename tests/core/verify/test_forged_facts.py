"""Computations over other facts than those of the snapshot are found."""

import pytest

from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.verify.bundle import verify_bundle
from tests.core.sample_passports import (
    KEY,
    BundleDraft,
    forge_bundle,
    make_rich_bundle,
    make_small_bundle,
)
from tests.core.verify.forging import Change, assert_detected, get_step, list_failed_steps


def read_other_fact(draft: BundleDraft) -> None:
    spare = next(line for line in draft.facts if line["fact_key"] == "battery:SKU-2")
    node = draft.find_node("FACT_GET", fact_type="Battery")
    node["data"]["payload_hash"] = to_hex(sha256(canonical_json.encode(spare["payload"])))


def change_capacity(draft: BundleDraft) -> None:
    next(line for line in draft.facts if line["fact_key"] == "battery:SKU-1")["payload"]["capacity_kwh"] = "76.0"


def exchange_payloads(draft: BundleDraft) -> None:
    one, other = [line for line in draft.facts if line["fact_type"] == "Battery"]
    one["payload"], other["payload"] = other["payload"], one["payload"]


def exchange_version(draft: BundleDraft) -> None:
    draft.find_node("FACT_GET", fact_type="Battery")["data"]["schema_version"] = 2


def drop_element(draft: BundleDraft) -> None:
    draft.facts.remove(next(line for line in draft.facts if line["fact_key"] == "component:SKU-1:foil"))


def reorder_results(draft: BundleDraft) -> None:
    draft.find_node(op="map")["data"]["values"].reverse()


def drop_result(draft: BundleDraft) -> None:
    draft.find_node(op="map")["data"]["values"].pop()


def keep_other_elements(draft: BundleDraft) -> None:
    draft.find_node(op="filter")["data"]["kept"] = [0, 2]


def remove_fact_type(draft: BundleDraft) -> None:
    next(line for line in draft.facts if line["fact_key"] == "pcf:SKU-1")["payload"]["total_gco2e"] = "much"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (read_other_fact, "the `payload_hash` of FACT_GET"),
        (change_capacity, "the `payload_hash` of FACT_GET"),
        (exchange_payloads, "the `payload_hash` of FACT_GET"),
        (exchange_version, "the `schema_version` of FACT_GET is 1, not 2"),
        (drop_element, "the `count` of FACT_GET is 2, not 3"),
        (reorder_results, "the `values` of OP `map`"),
        (drop_result, "the `values` of OP `map`"),
        (keep_other_elements, "the `kept` of OP `filter` is [0,1], not [0,2]"),
        (remove_fact_type, "fact `pcf:SKU-1` (PCF): `total_gco2e` is `much`"),
    ],
)
def test_a_computation_over_other_facts_is_found(change: Change, says: str) -> None:
    assert_detected(verify_bundle(forge_bundle(make_rich_bundle(), change), pins=[KEY]), "proof_steps", says)


def test_a_fact_that_is_not_the_snapshots_is_found() -> None:
    report = verify_bundle(forge_bundle(make_small_bundle(), change_capacity, keep={"snapshot"}))

    assert "facts" in list_failed_steps(report)
    assert "`battery:SKU-1` does not have the hash" in get_step(report, "facts").detail


def test_a_fact_left_out_of_the_file_is_found() -> None:
    report = verify_bundle(forge_bundle(make_rich_bundle(), drop_element, keep={"snapshot"}))

    assert "facts" in list_failed_steps(report)


def test_facts_in_another_order_are_found_though_everything_is_signed_anew() -> None:
    report = verify_bundle(forge_bundle(make_rich_bundle(), lambda draft: draft.facts.reverse()))

    assert "snapshot" in list_failed_steps(report)
    assert "is not in order" in get_step(report, "snapshot").detail


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda draft: draft.facts.insert(0, draft.facts.pop(1)),
            "facts.jsonl line 1 is `battery:SKU-2`, and the snapshot has `battery:SKU-1` there",
        ),
        (
            lambda draft: draft.facts[1].update(fact_type="Cell"),
            "facts.jsonl line 2 is `battery:SKU-2`, and the snapshot has `battery:SKU-2` there",
        ),
        (
            lambda draft: draft.facts[1]["payload"].update(sku="SKU-3"),
            "facts.jsonl line 2: `battery:SKU-2` does not have the hash the snapshot names",
        ),
        (lambda draft: draft.facts.pop(), "facts.jsonl holds 7 facts, and the snapshot names 8"),
        (lambda draft: draft.facts.append(draft.facts[0]), "facts.jsonl holds 9 facts, and the snapshot names 8"),
        (lambda draft: draft.snapshot["facts"][1].update(note=1), "snapshot.json: fact 1 has an unknown member `note`"),
    ],
)
def test_facts_that_are_not_those_of_the_snapshot_are_found(change: Change, says: str) -> None:
    report = verify_bundle(forge_bundle(make_rich_bundle(), change, keep={"snapshot"}))

    assert "facts" in list_failed_steps(report)
    assert says in get_step(report, "facts").detail


def test_facts_that_are_not_in_order_are_named() -> None:
    report = verify_bundle(forge_bundle(make_rich_bundle(), lambda draft: draft.facts.insert(0, draft.facts.pop(1))))

    assert_detected(report, "snapshot", "snapshot.json is not in order: `battery:SKU-1` comes after `battery:SKU-2`")


def test_two_facts_of_one_name_are_found() -> None:
    report = verify_bundle(
        forge_bundle(make_rich_bundle(), lambda draft: draft.facts.insert(1, {**draft.facts[0], "payload": {}}))
    )

    assert "snapshot" in list_failed_steps(report)
    assert "two facts `battery:SKU-1` of type `Battery`" in get_step(report, "snapshot").detail


def test_the_schema_version_of_a_fact_that_no_rule_reads_is_pinned_by_the_proof() -> None:
    def change(draft: BundleDraft) -> None:
        next(line for line in draft.facts if line["fact_type"] == "Invoice")["schema_version"] = 2

    report = verify_bundle(forge_bundle(make_rich_bundle(), change, keep={"facts_hash"}))

    assert list_failed_steps(report) == ["proof_structure", "proof_steps"]
    assert (
        "facts.jsonl does not have the hash that the proof's root names" in get_step(report, "proof_structure").detail
    )


def test_a_malformed_secret_is_reported() -> None:
    def change(draft: BundleDraft) -> None:
        next(line for line in draft.facts if line["fact_type"] == "Blinding")["payload"] = {"key": "short"}

    assert_detected(
        verify_bundle(forge_bundle(make_rich_bundle(), change)), "proof_steps", "is not a valid snapshot secret"
    )
