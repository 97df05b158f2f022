"""Passports of rules of level 2: a BPC-PROOF-2, checked in lockstep and replayed like those of level 1."""

import json

import pytest

from bpc.core.exports.disclosure import disclose
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.compile import replay_passport
from bpc.core.passport.gate import read_compliance
from bpc.core.verify.bundle import verify_bundle
from tests.core.sample_passports import (
    BATTERY,
    BLINDING_FACT,
    KEY,
    BundleDraft,
    forge_bundle,
    make_bundle,
    make_compile_input,
)
from tests.core.verify.forging import assert_detected, list_failed_steps

RULES = b"""language 2;
const LIMIT: Dec(6) = 2;
def battery = Battery for productSku() else missing("there is no data sheet");
def study = PCF for productSku() else missing("there is no footprint study");
def energy = recordGet(battery, "capacity_kwh") else missing("DP11", "no capacity");
require DP11 "the capacity is above {LIMIT} kWh": energy > LIMIT else "the capacity is {energy} kWh";
require STUDY "the study is of this year" in force from none: study.year is present;
require FUTURE "later" in force from date("2031-08-18"): false;
require YEAR "the study has a year": study.year is present;
field large @public: Bool = energy > LIMIT;
field energy @public: Dec(6) = energy;
field study.year @authority: Int = unwrapOr(recordGet(study, "year"), 2000);
"""


def make_level_two_bundle() -> bytes:
    return make_bundle(make_compile_input(RULES, [BATTERY, BLINDING_FACT]))


def test_a_passport_of_level_2_verifies_and_replays() -> None:
    data = make_level_two_bundle()
    entries = read_bundle(data).entries

    assert [step for step in verify_bundle(data, pins=[KEY]).steps if not step.ok] == []
    replay_passport(entries)
    proof, payload = (json.loads(entries[name]) for name in ("proof.json", "payload.json"))
    assert proof["proof_version"] == "BPC-PROOF-2"
    assert payload["fields"]["study"] == {"year": None}
    assert payload["payload_version"] == "BPC-PASSPORT-2"
    assert [(entry["code"], entry["status"], entry["verdict"], entry["args"]) for entry in payload["compliance"]] == [
        ("DP11", "PASS", "assessed", {"LIMIT": "2"}),
        ("STUDY", "NOT_APPLICABLE", "undetermined", {}),
        ("FUTURE", "NOT_APPLICABLE", "not_yet_in_force", {}),
        ("YEAR", "FAIL", "assessed", {}),
        ("MISSING_STUDY", "FAIL", "assessed", {}),
    ]
    assert [entry.code for entry in read_compliance(entries["payload.json"]) if entry.status == "FAIL"] == [
        "YEAR",
        "MISSING_STUDY",
    ]


def test_a_proof_that_calls_itself_level_1_is_refused() -> None:
    def claim_level_one(draft: BundleDraft) -> None:
        draft.proof["proof_version"] = "BPC-PROOF-1"

    report = verify_bundle(forge_bundle(make_level_two_bundle(), claim_level_one), pins=[KEY])

    assert_detected(report, "proof_steps", "rules of level 2 have a BPC-PROOF-2")


@pytest.mark.parametrize("member", ["verdict", "args", "message", "status"])
def test_a_forged_entry_is_found(member: str) -> None:
    def forge_entry(draft: BundleDraft) -> None:
        entry = draft.payload["compliance"][2]
        entry[member] = {"verdict": "assessed", "args": {"a": "b"}, "message": "now", "status": "PASS"}[member]

    report = verify_bundle(forge_bundle(make_level_two_bundle(), forge_entry), pins=[KEY])

    assert_detected(report, "proof_steps", "compliance entry 2, `FUTURE` of field `requirements.met`")


def test_a_payload_that_calls_itself_level_1_is_refused() -> None:
    def claim_level_one(draft: BundleDraft) -> None:
        draft.payload["payload_version"] = "BPC-PASSPORT-1"

    report = verify_bundle(forge_bundle(make_level_two_bundle(), claim_level_one), pins=[KEY])

    assert_detected(report, "proof_steps", "which rules of level 2 do not give")


def test_the_owner_sees_the_entries_of_requirements_and_the_public_does_not() -> None:
    bundle = read_bundle(make_level_two_bundle())

    assert len(disclose(bundle, "tenant").compliance) == 5
    assert disclose(bundle, "public").compliance == []


def test_a_missing_value_that_is_claimed_to_be_there_is_found() -> None:
    def claim_year(draft: BundleDraft) -> None:
        draft.payload["fields"]["study"]["year"] = 2026
        draft.find_field("study.year")["data"]["value"] = 2026

    report = verify_bundle(forge_bundle(make_level_two_bundle(), claim_year), pins=[KEY])

    assert "proof_steps" in list_failed_steps(report)


FUNCTIONS = b"""language 2;
def parts = getFactsByPrefix("Component", "");
field says: Text = concat("mass ", text(max(1.5, 2.25)), ", ", text(addMonths(issuedOn(), 25)));
field heaviest: Opt(Text) = recordGet(requireSome(latestBy(parts, fn(p) => recordGet(p, "mass_g")), "E", "m"), "part");
field order: List(Opt(Text)) = map(sortBy(parts, fn(p) => recordGet(p, "part")), fn(p) => recordGet(p, "part"));
field materials: Int = count(groupBy(parts, fn(p) => recordGet(p, "material")));
field known: Bool = any(parts, fn(p) => isSome(recordGet(p, "mass_g"))) && !isEmpty(distinct(split("a,a", ",")));
field total: Dec(6) = sum(present(map(parts, fn(p) => recordGet(p, "mass_g"))));
"""


def make_functions_bundle() -> bytes:
    parts = [
        SnapshotFact(fact_type="Component", fact_key=f"component:{part}", schema_version=1, payload=payload)
        for part, payload in {
            "a": {"part": "lid", "mass_g": "2"},
            "b": {"part": "case", "mass_g": "3.5", "material": "steel"},
        }.items()
    ]
    return make_bundle(make_compile_input(FUNCTIONS, [*parts, BLINDING_FACT]))


def test_a_passport_made_with_functions_of_level_2_verifies() -> None:
    data = make_functions_bundle()

    assert [step for step in verify_bundle(data, pins=[KEY]).steps if not step.ok] == []
    fields = json.loads(read_bundle(data).entries["payload.json"])["fields"]
    assert (fields["heaviest"], fields["order"]) == ("case", ["case", "lid"])
    assert (fields["materials"], fields["known"], fields["total"]) == (2, True, "5.500000")


@pytest.mark.parametrize(
    ("path", "claim"),
    [
        ("heaviest", "lid"),
        ("order", ["lid", "case"]),
        ("materials", 1),
        ("known", False),
        ("total", "6.500000"),
        ("says", "mass 2.5, 2029-03-18"),
    ],
)
def test_another_result_of_a_function_is_found(path: str, claim: object) -> None:
    report = verify_bundle(
        forge_bundle(make_functions_bundle(), lambda draft: draft.set_value(path, claim)), pins=[KEY]
    )

    assert_detected(report, "proof_steps", f"field `{path}`, node")
    assert_detected(report, "proof_steps", "the value of OP `field` is")
