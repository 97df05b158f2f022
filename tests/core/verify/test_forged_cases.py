"""Passports of level 2: a stranger follows enumerations, `match` and tables, and finds what the rules do not give."""

from functools import cache

import pytest

from bpc.core.verify.bundle import verify_bundle
from tests.core.sample_passports import KEY, forge_bundle, make_bundle, make_compile_input, make_fact
from tests.core.verify.forging import assert_detected

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


@pytest.mark.parametrize(
    ("path", "claim", "says"),
    [
        ("battery.label", 20, "the value of OP `field` is 30, not 20"),
        ("battery.label", None, "the value of OP `field` is 30, not null"),
        ("battery.duty", "above 2 kWh", 'the value of OP `field` is "always", not "above 2 kWh"'),
        ("battery.category", "EV", 'the value of OP `field` is "LMT", not "EV"'),
    ],
)
def test_a_case_that_the_rules_do_not_give_is_found(path: str, claim: object, says: str) -> None:
    forged = forge_bundle(make_level_two_bundle(), lambda draft: draft.set_value(path, claim))

    assert_detected(verify_bundle(forged, pins=[KEY]), "proof_steps", says)
