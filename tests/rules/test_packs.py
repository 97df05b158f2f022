"""New LFP packs without readings: each category is issued, nothing passes without evidence, and proofs stay small."""

import json
from collections.abc import Iterator
from functools import cache

import pytest

from bpc.core.exports.disclosure import Audience
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.plausibility import find_implausible
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.passport.compile import DEFAULT_LIMITS
from bpc.core.readiness.rule_reads import RuleReads
from tests.measurements import RecordMeasurement
from tests.rules.shipped_package import (
    EXAMPLES,
    Passport,
    assess_facts,
    compile_facts,
    export_points,
    make_fact,
    make_machine,
    read_facts,
)

NAMES = sorted(path.stem for path in (EXAMPLES / "eu-battery").glob("*.json"))
# What a battery is, and on which day; without it, other rules apply or none.
DECIDING = {"category", "has_bms", "external_storage", "vehicle_category", "capacity_kwh", "placed_on_market_on"}


@cache
def read_pack(name: str) -> tuple[SnapshotFact, ...]:
    return tuple(read_facts((EXAMPLES / "eu-battery" / f"{name}.json").read_bytes()))


@cache
def compile_pack(name: str) -> Passport:
    return compile_facts(read_pack(name))


def test_there_is_a_pack_for_each_category() -> None:
    assert NAMES == ["ev", "industrial", "industrial-without-bms", "lmt", "stationary"]


@pytest.mark.parametrize("name", NAMES)
def test_a_complete_new_pack_passes_the_gate(name: str) -> None:
    passport = compile_pack(name)

    assert passport.list_codes("FAIL") == passport.list_codes("WARN") == []
    assert passport.get_value("requirements.met") is True
    assert [finding.says for finding in find_implausible(read_pack(name)) if finding.severity == "error"] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_complete_new_pack_is_ready(name: str) -> None:
    readiness = assess_facts(read_pack(name))

    assert readiness.is_ready
    assert {issue.code for issue in readiness.issues} <= {"URL_EXAMPLE"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("audience", ["public", "tenant"])
def test_the_export_of_data_points_misses_none(name: str, audience: Audience) -> None:
    points = export_points(read_pack(name), audience)

    assert points["missing"] == []
    assert points["category"] == name.removesuffix("-without-bms").replace("stationary", "industrial")
    assert [row["number"] for row in points["points"] if row["filled"] and row["status"] in {"X", "P"}] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_carbon_footprint_is_needed_in_february_2027(name: str) -> None:
    entry = compile_pack(name).entries["FOOTPRINT_DECLARATION"]

    assert (entry["status"], entry["verdict"]) == ("NOT_APPLICABLE", "undetermined")


@pytest.mark.parametrize("name", NAMES)
def test_a_metal_that_lfp_lacks_is_not_asked_for_and_lithium_is(name: str) -> None:
    entries = compile_pack(name).entries

    assert [entries[f"DP{number}"]["status"] for number in (20, 21, 22, 23)] == [
        "NOT_APPLICABLE",
        "PASS",
        "NOT_APPLICABLE",
        "NOT_APPLICABLE",
    ]
    assert "LFP" in entries["DP20"]["message"]


def take_away(name: str) -> Iterator[tuple[str, list[SnapshotFact]]]:
    """The facts of a pack without one member, for each member."""
    (battery,) = read_pack(name)
    for member in battery.payload:
        if member not in DECIDING:
            rest = {key: value for key, value in battery.payload.items() if key != member}
            yield member, [make_fact(battery.fact_type, battery.fact_key, rest)]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_passes_that_did_not_pass_with_all_the_evidence(name: str) -> None:
    passed = set(compile_pack(name).list_codes("PASS"))

    for member, facts in take_away(name):
        without = compile_facts(facts)
        assert set(without.list_codes("PASS")) <= passed, member


@pytest.mark.parametrize("name", ["ev", "stationary"])
def test_no_requirement_passes_without_what_it_reads(name: str) -> None:
    reads, (battery,) = RuleReads(make_machine().program), read_pack(name)
    codes = compile_pack(name).list_codes("PASS")
    assert len(codes) > 55

    for code in codes:
        members = {each.member for each in reads.get_entry_members(REQUIREMENTS_PATH, code)}
        rest = {member: value for member, value in battery.payload.items() if member not in members}
        entry = compile_facts([make_fact(battery.fact_type, battery.fact_key, rest)]).entries[code]
        assert entry["status"] != "PASS", entry


def test_a_battery_of_which_nobody_says_anything_passes_nothing() -> None:
    for name in NAMES:
        category = str(read_pack(name)[0].payload["category"])
        silent = compile_facts([make_fact("Battery", "battery:S", {"category": category})])
        assert set(silent.list_codes("PASS")) == {"DP06", "CATEGORY"}
    assert compile_facts([], sku="S").list_codes("PASS") == []


def test_a_battery_with_300_parts_has_a_proof_within_the_limit(record_measurement: RecordMeasurement) -> None:
    source = json.loads((EXAMPLES / "reference" / "input.json").read_bytes())
    facts = [
        make_fact(fact["fact_type"], fact["fact_key"], fact["payload"])
        for fact in source["facts"]
        if fact["fact_type"] != "Blinding"
    ]
    assert sum(fact.fact_type == "Component" for fact in facts) == 300

    passport = compile_facts(facts, sku=source["battery_product"]["sku"], issued_on="2027-09-01")

    record_measurement("eu-battery-proof", parts=300, bytes=passport.proof_bytes)
    assert passport.proof_bytes <= DEFAULT_LIMITS.proof
    assert passport.list_codes("FAIL") == []
