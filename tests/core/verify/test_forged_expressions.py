"""Forgeries of a BPC-PROOF-2, in which a node stands for a whole expression: each is found, at the right step.

Every forgery is hash-consistent and signed with the right key, unless it says otherwise.
"""

from functools import cache

import pytest

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.verify.bundle import verify_bundle
from tests.core.sample_passports import (
    BATTERY,
    BLINDING_FACT,
    KEY,
    BundleDraft,
    Node,
    forge_bundle,
    make_bundle,
    make_compile_input,
)
from tests.core.verify.forging import Change, assert_detected

RULES = b"""language 2;
const LIMIT: Dec(6) = 2;
def sheet = Battery for productSku() else missing("there is no data sheet");
def study = PCF for productSku() else missing("there is no footprint study");
def energy = sheet.capacity_kwh else missing("DP11", "no capacity");
def parts = getFactsByPrefix("Component", "component:");
def masses = map(parts, fn(p) => p.mass_g ?? 0);
def names = map(parts, fn(p) => "part {count(parts)} of the pack, as the bill of materials lists it");
require DP11 "the capacity is above {LIMIT} kWh": energy > LIMIT else "the capacity is {energy} kWh";
require MASS "the parts weigh something": sum(masses) > 0;
field arithmetic.four @authority: Int = 2 + 2;
field battery.energy @public: Dec(6) = energy;
field battery.large: Bool = field("battery.energy") > LIMIT;
field parts.count: Int = count(names);
field parts.mass @interest: Dec(6) = sum(masses);
field study.year: Int = study.year ?? 2000;
"""


@cache
def make_honest_bundle() -> bytes:
    parts = [
        SnapshotFact(fact_type="Component", fact_key=f"component:{part}", schema_version=1, payload=payload)
        for part, payload in {
            "a": {"part": "lid", "mass_g": "2"},
            "b": {"part": "case", "mass_g": "3.5"},
            "c": {"part": "busbar", "mass_g": "1"},
            "d": {"part": "cell", "mass_g": "40"},
            "e": {"part": "frame", "mass_g": "7"},
        }.items()
    ]
    return make_bundle(make_compile_input(RULES, [BATTERY, *parts, BLINDING_FACT]))


def test_the_honest_passport_verifies() -> None:
    assert [step for step in verify_bundle(make_honest_bundle(), pins=[KEY]).steps if not step.ok] == []
    assert forge_bundle(make_honest_bundle(), lambda draft: None) == make_honest_bundle()


def find_derivation(draft: BundleDraft, path: str) -> Node:
    derivation: int = draft.find_field(path)["children"][0]
    return draft.nodes[derivation]


def claim_other_value(draft: BundleDraft) -> None:
    draft.set_value("arithmetic.four", 5)


def claim_other_value_of_a_definition(draft: BundleDraft) -> None:
    """Consistently better: the definition and all fields that repeat it."""
    draft.find_node(name="energy")["data"]["value"] = "80.000000"
    draft.set_value("battery.energy", "80.000000")


def claim_other_element(draft: BundleDraft) -> None:
    draft.find_node(name="masses")["data"]["value"][0] = "9.000000"


def claim_other_long_value(draft: BundleDraft) -> None:
    draft.find_node(name="names")["data"]["value_hash"] = "0" * 64


def show_a_long_value(draft: BundleDraft) -> None:
    data = draft.find_node(name="names")["data"]
    data["value"] = data.pop("value_hash")


def swap_the_key(draft: BundleDraft) -> None:
    draft.find_node("FACT_GET", fact_type="Battery")["data"]["key"] = "battery:SKU-2"


def swap_the_fact(draft: BundleDraft) -> None:
    draft.find_node("FACT_GET", fact_type="Battery")["data"]["payload_hash"] = "0" * 64


def claim_a_fact(draft: BundleDraft) -> None:
    draft.find_node("FACT_GET", fact_type="PCF")["data"]["payload_hash"] = "0" * 64


def claim_other_version(draft: BundleDraft) -> None:
    draft.find_node("FACT_GET", fact_type="Battery")["data"]["schema_version"] = 2


def drop_an_element(draft: BundleDraft) -> None:
    draft.find_node("FACT_GET", fact_type="Component")["data"]["count"] = 4


def reorder_elements(draft: BundleDraft) -> None:
    draft.find_node("FACT_GET", fact_type="Component")["data"]["list_hash"] = "0" * 64


def move_the_expression(draft: BundleDraft) -> None:
    find_derivation(draft, "arithmetic.four")["data"]["at"][0] += 1


def move_a_requirement(draft: BundleDraft) -> None:
    draft.find_node("COMPLIANCE_EMIT", code="MASS")["data"]["at"][1] -= 1


def hide_the_place(draft: BundleDraft) -> None:
    del find_derivation(draft, "arithmetic.four")["data"]["at"]


def replace_reads_by_constant(draft: BundleDraft) -> None:
    constant = draft.add_node("CONST", {"type": "Dec(6)", "value": "75.500000"}, [])
    find_derivation(draft, "battery.energy")["children"] = [constant]
    draft.sort_nodes()


def drop_reads(draft: BundleDraft) -> None:
    find_derivation(draft, "battery.large")["children"] = []
    draft.sort_nodes()


def add_a_read(draft: BundleDraft) -> None:
    find_derivation(draft, "study.year")["children"].append(draft.find_node(name="energy")["id"])


def read_another_definition(draft: BundleDraft) -> None:
    find_derivation(draft, "battery.energy")["children"] = [draft.find_node(name="sheet")["id"]]


def rename_a_definition(draft: BundleDraft) -> None:
    draft.find_node(name="energy")["data"]["name"] = "power"


def claim_that_nothing_is_missing(draft: BundleDraft) -> None:
    del draft.find_node(name="study")["data"]["missing"]


def claim_that_a_field_is_not_missing(draft: BundleDraft) -> None:
    del find_derivation(draft, "study.year")["data"]["missing"]
    draft.set_value("study.year", 2027)


def give_another_reason(draft: BundleDraft) -> None:
    find_derivation(draft, "study.year")["data"]["missing"]["message"] = "on its way"


def improve_an_entry(draft: BundleDraft) -> None:
    draft.find_node("COMPLIANCE_EMIT", code="DP11")["data"]["status"] = "WARN"
    draft.payload["compliance"][0]["status"] = "WARN"


def change_an_argument(draft: BundleDraft) -> None:
    draft.find_node("COMPLIANCE_EMIT", code="DP11")["data"]["args"] = {"LIMIT": "1"}


def drop_a_requirement(draft: BundleDraft) -> None:
    met = find_derivation(draft, "requirements.met")
    met["children"] = met["children"][:1]
    del draft.payload["compliance"][1]
    draft.sort_nodes()


def add_data(draft: BundleDraft) -> None:
    draft.find_node(name="energy")["data"]["note"] = "trust me"


def change_type_of_node(draft: BundleDraft) -> None:
    draft.find_node(name="energy")["type"] = "ASSERT"


def change_derivation_salt(draft: BundleDraft) -> None:
    find_derivation(draft, "arithmetic.four")["data"]["salt"] = "0" * 32


def change_type(draft: BundleDraft) -> None:
    draft.find_field("arithmetic.four")["data"]["type"] = "Dec(0)"


def open_to_everybody(draft: BundleDraft) -> None:
    draft.find_field("arithmetic.four")["data"]["access"] = ["public"]
    draft.payload["access"]["arithmetic.four"] = ["public"]
    draft.sort_nodes()


def relabel_path(draft: BundleDraft) -> None:
    draft.find_field("arithmetic.four")["data"]["path"] = "arithmetic.vier"
    draft.payload["fields"]["arithmetic"]["vier"] = draft.payload["fields"]["arithmetic"].pop("four")
    draft.payload["access"]["arithmetic.vier"] = draft.payload["access"].pop("arithmetic.four")
    draft.sort_nodes()


def omit_a_field(draft: BundleDraft) -> None:
    omitted = draft.find_field("parts.count")
    at = omitted["id"]
    draft.nodes.remove(omitted)
    for place, node in enumerate(draft.nodes):
        node["children"] = [child - (child > at) for child in node["children"] if child != at]
        node["id"] = place
    del draft.payload["fields"]["parts"]["count"]
    del draft.payload["access"]["parts.count"]
    draft.sort_nodes()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (claim_other_value, "the value of OP `field` is 4, not 5"),
        (claim_other_value_of_a_definition, 'the value of OP `definition` is "75.500000", not "80.000000"'),
        (claim_other_element, "the value of OP `definition` is"),
        (claim_other_long_value, "the `value_hash` of OP `definition` is"),
        (show_a_long_value, "OP `definition` has a `value` in the proof, which the rules do not give"),
        (swap_the_key, 'the `key` of FACT_GET is "battery:SKU-1", not "battery:SKU-2"'),
        (swap_the_fact, "the `payload_hash` of FACT_GET is"),
        (claim_a_fact, "the `payload_hash` of FACT_GET is null"),
        (claim_other_version, "the `schema_version` of FACT_GET is 1, not 2"),
        (drop_an_element, "the `count` of FACT_GET is 5, not 4"),
        (reorder_elements, "the `list_hash` of FACT_GET is"),
        (move_the_expression, "the `at` of OP `derivation` is"),
        (move_a_requirement, "the `at` of COMPLIANCE_EMIT is"),
        (hide_the_place, "OP `derivation` has no `at` in the proof"),
        (replace_reads_by_constant, "field `battery.energy`"),
        (drop_reads, "field `battery.large`"),
        (add_a_read, "OP `derivation` is made from nodes"),
        (read_another_definition, "OP `derivation` is made from nodes"),
        (rename_a_definition, 'the `name` of OP `definition` is "energy", not "power"'),
        (claim_that_nothing_is_missing, "OP `definition` has no `missing` in the proof"),
        (claim_that_a_field_is_not_missing, "OP `derivation` has no `missing` in the proof"),
        (give_another_reason, "the `missing` of OP `derivation` is"),
        (improve_an_entry, 'the `status` of COMPLIANCE_EMIT is "PASS", not "WARN"'),
        (change_an_argument, "the `args` of COMPLIANCE_EMIT is"),
        (drop_a_requirement, "field `requirements.met`"),
        (add_data, "OP `definition` has a `note` in the proof, which the rules do not give"),
        (change_type_of_node, "expected OP `definition`, but the proof has ASSERT `definition`"),
        (change_derivation_salt, "the `salt` of OP `derivation`"),
        (change_type, 'the `type` of OP `field` is "Int", not "Dec(0)"'),
        (open_to_everybody, 'the `access` of OP `field` is ["authority"], not ["public"]'),
        (relabel_path, "field `arithmetic.four` is in the rules and not in the proof"),
        (omit_a_field, "field `parts.count` is in the rules and not in the proof"),
    ],
)
def test_an_expression_that_the_rules_do_not_give_is_found(change: Change, says: str) -> None:
    report = verify_bundle(forge_bundle(make_honest_bundle(), change), pins=[KEY])

    assert_detected(report, "proof_steps", says)


def add_unreachable_node(draft: BundleDraft) -> None:
    draft.add_node("CONST", {"type": "Int", "value": 12345}, [])


def store_twice(draft: BundleDraft) -> None:
    node = draft.find_node(name="energy")
    copy = draft.add_node(node["type"], node["data"], node["children"])
    derivation = draft.add_node("OP", {"op": "derivation", "salt": "0" * 32}, [copy])
    draft.find_field("arithmetic.four")["children"] = [derivation]


def point_forward(draft: BundleDraft) -> None:
    draft.find_node(name="energy")["children"] = [len(draft.nodes) - 1]


def share_a_derivation(draft: BundleDraft) -> None:
    draft.find_field("arithmetic.four")["children"] = draft.find_field("battery.large")["children"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (add_unreachable_node, "is not used by any other node"),
        (store_twice, "equal nodes must be stored once"),
        (point_forward, "has a child that does not stand between the root and itself"),
        (share_a_derivation, "share a derivation"),
    ],
)
def test_a_proof_that_is_not_laid_out_is_refused(change: Change, says: str) -> None:
    report = verify_bundle(forge_bundle(make_honest_bundle(), change), pins=[KEY])

    step = next(step for step in report.steps if step.name == "proof_structure")
    assert not step.ok
    assert says in step.detail
