"""When an act is adopted, its row gets its day: points are shown from then on, and duties begin."""

from functools import cache

import pytest

from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.package import read_program
from tests.rules.shipped_package import Passport, compile_facts, make_fact, read_rules

SHOWN = {
    17: ["footprint.shown.kg_per_kwh", "footprint.shown.study"],
    18: ["footprint.shown.label"],
    19: ["sourcing.shown.report"],
    44: ["instructions.shown.document"],
}
FACTS = [
    make_fact("Battery", "battery:S", {"category": "ev", "instructions_url": "i", "placed_on_market_on": "2029-03-01"}),
    make_fact("PCF", "pcf:S", {"gco2e_per_kwh": "100", "study_url": "s", "label_url": "l"}),
    make_fact("DueDiligence", "dd:S", {"report_url": "r"}),
]


@cache
def change_rows(*rows: str) -> Machine:
    """The rules of a release in which these rows of `acts.bpc` have a day, 2028-02-29."""
    rules = read_rules().decode()
    for row in rows:
        assert rules.count(f"  {row}: none cite") == 1, row
        rules = rules.replace(f"  {row}: none cite", f'  {row}: date("2028-02-29") cite')
    return Machine(read_program(rules.encode()))


def compile_with(*rows: str, issued_on: str = "2028-02-29") -> Passport:
    return compile_facts(FACTS, issued_on=issued_on, machine=change_rows(*rows))


@pytest.mark.parametrize("number", SHOWN)
def test_a_row_of_the_table_shows_its_point_from_its_day_on_and_no_other_point(number: int) -> None:
    before, after = (compile_with(str(number), issued_on=day) for day in ("2028-02-28", "2028-02-29"))

    for point, paths in SHOWN.items():
        for path in paths:
            assert before.get_value(path) is None
            assert (after.get_value(path) is not None) == (point == number), path


def test_a_duty_begins_so_many_months_after_its_last_act() -> None:
    passport = compile_with("FOOTPRINT_METHOD", "FOOTPRINT_FORMAT", "LABEL_FORMAT", "RECYCLED_METHOD")

    assert passport.get_value("duties.carbon_footprint_from") == "2029-02-28"
    assert passport.get_value("duties.label_from") == "2029-08-29"
    assert passport.get_value("duties.recycled_content_from") == "2030-02-28"
    assert passport.entries["FOOTPRINT_DECLARATION"]["status"] == "PASS"
    assert passport.entries["RECYCLED_DECLARATION"]["verdict"] == "not_yet_in_force"


def test_a_duty_that_waits_for_two_acts_does_not_begin_with_the_first() -> None:
    passport = compile_with("FOOTPRINT_METHOD")

    assert passport.get_value("duties.carbon_footprint_from") is None
    assert passport.entries["FOOTPRINT_DECLARATION"]["verdict"] == "undetermined"
