"""Passports of level 2: a stranger follows enumerations, `match` and tables, and finds what the rules do not give."""

from functools import cache

import pytest

from bpc.core.verify.bundle import verify_bundle
from tests.core.sample_passports import KEY, BundleDraft, forge_bundle, make_bundle, make_compile_input, make_fact
from tests.core.verify.forging import Change, assert_detected

RULES = b"""language 2;
enum Category = EV "ev" | LMT "lmt" | INDUSTRIAL "industrial";
field battery.category @public: Opt(Category) =
  Category(recordGet(requireSome(getFact("Battery", "battery:SKU-1"), "E1", "no sheet"), "category"));
field battery.duty @public: Text =
  match field("battery.category") { EV | LMT => "always", INDUSTRIAL => "above 2 kWh", none => "unknown" };
table label_width(category: Category, on: Date): Int {
  EV | LMT, from date("2020-01-01"): 30;
  INDUSTRIAL, to date("2020-01-01"): 20;
}
field battery.label @public: Opt(Int) = label_width(LMT, issuedOn());
"""


@cache
def make_level_two_bundle() -> bytes:
    return make_bundle(make_compile_input(RULES, [make_fact("Battery", "battery:SKU-1", category="lmt")]))


def test_a_passport_of_level_two_verifies() -> None:
    report = verify_bundle(make_level_two_bundle(), pins=[KEY])

    assert report.ok, report


def claim_other_case(draft: BundleDraft) -> None:
    draft.find_result("battery.duty")["data"]["case"] = "INDUSTRIAL"


def claim_other_member(draft: BundleDraft) -> None:
    draft.find_result("battery.category")["data"]["value"] = "EV"
    draft.set_value("battery.category", "EV")


def claim_other_enumeration(draft: BundleDraft) -> None:
    draft.find_result("battery.category")["data"]["enum"] = "Kind"


def claim_other_row(draft: BundleDraft) -> None:
    draft.find_result("battery.label")["data"]["row"] = 1


def claim_other_value(draft: BundleDraft) -> None:
    draft.find_result("battery.label")["data"]["value"] = 20
    draft.set_value("battery.label", 20)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (claim_other_row, "the `row` of OP `table` is 0, not 1"),
        (claim_other_value, "the value of OP `table` is 30, not 20"),
        (claim_other_case, 'the `case` of OP `match` is "EV | LMT", not "INDUSTRIAL"'),
        (claim_other_member, 'the value of OP `toEnum` is "LMT", not "EV"'),
        (claim_other_enumeration, 'the `enum` of OP `toEnum` is "Category", not "Kind"'),
    ],
)
def test_a_case_that_the_rules_do_not_give_is_found(change: Change, says: str) -> None:
    report = verify_bundle(forge_bundle(make_level_two_bundle(), change), pins=[KEY])

    assert_detected(report, "proof_steps", says)
