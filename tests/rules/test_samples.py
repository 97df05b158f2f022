"""The public sample passports under the shipped rules: what each lacks and why, and each contradiction by its numbers.

The samples are read as an upload of them would be. They are on some machines only.
"""

from functools import cache

import pytest

from bpc.core.exports.data_points import CATEGORIES, POINTS, find_category
from tests.core.documents.public_files import read_published_file
from tests.rules.shipped_package import Passport, assess_facts, compile_facts, explain_requirement, read_facts

NAMES = ("ev", "lmt", "industrial-without-bms")
FORMS = ("source", "gefeg")
ITEMS_OF_WASTE = "these items of the information on waste batteries (Article 74(1)) are missing: "
ITEMS_OF_DISMANTLING = "these items of the dismantling information are missing: "
SUMS = "recycled shares from manufacturing and post-consumer waste do not add up to the declared ones, in %: "


@cache
def compile_sample(name: str) -> Passport:
    return compile_facts(read_facts(read_published_file(f"{name}.json")))


def get_message(name: str, code: str) -> str:
    entry = compile_sample(name).entries[code]
    assert entry["status"] in {"FAIL", "WARN"}, entry
    return str(entry["message"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "stages", "total"), [("ev", "69.3", "65"), ("lmt", "30.1", "12"), ("industrial-without-bms", "41.3", "30")]
)
def test_stages_that_do_not_add_up_are_named(name: str, form: str, stages: str, total: str) -> None:
    message = get_message(f"{name}.{form}", "FOOTPRINT_STAGES")

    assert message == f"the stages add up to {stages}, the declared total is {total} (kg CO2e per kWh)"
    assert get_message(f"{name}.{form}", "FOOTPRINT_UNIT").startswith(
        f"{total} kg CO2e per kWh is plausible only per kWh of capacity"
    )


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (
            "FOOTPRINT_STAGES",
            ["asked for by Article 7(1)(e)", "declared_kg_per_kwh is 12.000000", "a value: 30.100000"],
        ),
        (
            "POWER_LIMIT",
            ["asked for by Annex XIII(1)(i)", "its original_power_w is 7200.000", "permitted_w is 500.000"],
        ),
    ],
)
def test_the_reasons_go_back_to_what_the_document_says(code: str, lines: list[str]) -> None:
    reasons = explain_requirement(read_facts(read_published_file("lmt.source.json")), code)

    assert [line for line in lines if line not in reasons] == [], reasons


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "permitted"), [("lmt", "500"), ("industrial-without-bms", "4000")])
def test_power_that_is_not_permitted_is_named(name: str, form: str, permitted: str) -> None:
    message = get_message(f"{name}.{form}", "POWER_LIMIT")

    assert message == f"the original power is 7200 W, the permitted power {permitted} W"


@pytest.mark.parametrize(
    ("name", "sums"),
    [
        ("ev.source", "Co 0 + 6 = 6, not 10; Li 5 + 4 = 9, not 8; Ni 0 + 5 = 5, not 9"),
        ("lmt.source", "Co 0 + 0 = 0, not 8; Li 5 + 7 = 12, not 6; Ni 0 + 0 = 0, not 7"),
    ],
)
def test_recycled_shares_that_do_not_add_up_are_named(name: str, sums: str) -> None:
    assert get_message(name, "RECYCLED_SUM") == f"{SUMS}{sums}"


MISSING = {
    "ev.source": [4, 7, 12, 14, 38, 43, 45, 48, 52, 54, 56, 61],
    "ev.gefeg": [38, 43, 45, 47, 48],
    "lmt.source": [4, 7, 12, 14, 38, 43, 45, 48, 52, 54, 56, 65],
    "lmt.gefeg": [38, 43, 45, 47, 48],
    "industrial-without-bms.source": [4, 7, 12, 14, 38, 43, 48],
    "industrial-without-bms.gefeg": [9, 38, 43, 47, 48, 55, 56],
}
# This form has no word for a battery without a management system: what only one with it states is missing.
CONDITIONAL = {("industrial-without-bms.gefeg", 55), ("industrial-without-bms.gefeg", 56)}


@pytest.mark.parametrize("name", MISSING)
def test_the_mandatory_points_that_a_sample_lacks_are_those_that_fail(name: str) -> None:
    passport = compile_sample(name)
    category = find_category(
        passport.payload["battery_product"]["sku"], read_facts(read_published_file(f"{name}.json"))
    )
    assert category in CATEGORIES

    failing = sorted(int(code[2:]) for code in passport.list_codes("FAIL") if code.startswith("DP"))

    assert failing == MISSING[name]
    for number in failing:
        assert POINTS[number - 1].get_status(category) == ("C" if (name, number) in CONDITIONAL else "M"), number


def test_items_of_a_point_are_named_one_by_one() -> None:
    assert get_message("ev.source", "DP43") == f"{ITEMS_OF_WASTE}(d); (e); (f)"
    assert get_message("ev.gefeg", "DP43") == f"{ITEMS_OF_WASTE}(d); (e)"
    assert get_message("ev.source", "DP48").startswith(f"{ITEMS_OF_DISMANTLING}2; 3; 4 (")
    assert get_message("ev.gefeg", "DP48").startswith(f"{ITEMS_OF_DISMANTLING}1; 2; 3; 4; 5; 6 (")
    assert get_message("ev.source", "DP38").endswith("internal resistance are missing: 1 (1 cell, 2 pack)")
    assert get_message("ev.source", "DP45").endswith("materials are missing: 3 (1 cathode, 2 anode, 3 electrolyte)")


@pytest.mark.parametrize("name", MISSING)
def test_the_readiness_report_names_the_same_points_and_each_once(name: str) -> None:
    readiness = assess_facts(read_facts(read_published_file(f"{name}.json")))

    missing = [issue for issue in readiness.issues if issue.kind == "missing" and issue.severity == "error"]

    assert [issue.code for issue in missing] == [f"DP{number:02}" for number in MISSING[name]]
    assert not readiness.is_ready
    assert "FOOTPRINT_STAGES" in {issue.code for issue in readiness.issues if issue.severity == "error"}


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_shown_as_far_as_it_is_stated(name: str) -> None:
    passport = compile_sample(f"{name}.gefeg")

    assert passport.get_value("general.manufacturer.name")
    assert passport.get_value("footprint.declared_kg_per_kwh")
    assert passport.get_value("footprint.shown.kg_per_kwh") is None
    assert (passport.get_value("state.certified_energy_pct") is not None) == (name == "ev")
    assert (passport.get_value("state.remaining_capacity_ah") is None) == (name == "ev")
