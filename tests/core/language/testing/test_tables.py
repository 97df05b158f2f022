"""Tests of level 2: shared fixtures, tables of cases, reasons and expected findings."""

from typing import Any

import pytest

from bpc.core.errors import Invalid
from bpc.core.language.testing.report import TestReport
from tests.core.language.testing.runs import count_cases, get_only_failure, run

RULES = """\
language 2;
field sku: Text = productSku();
field day: Date = issuedOn();
field mass: Opt(Dec(6)) =
  let sheet = getFact("Battery", "battery:1");
  if (isSome(sheet)) then recordGet(requireSome(sheet, "E1", "no sheet"), "mass_kg") else none;
field energy: Opt(Dec(6)) =
  let sheet = getFact("Battery", "battery:1");
  if (isSome(sheet)) then recordGet(requireSome(sheet, "E1", "no sheet"), "capacity_kwh") else none;
field is_stated: Bool =
  emitCompliance("DP10", if (isSome(field("mass"))) then "PASS" else "FAIL", concat("the mass of ", productSku()));
field is_heavy: Bool = if (isSome(field("mass"))) then unwrapOr(field("mass"), 0) > 25 else false;
fixture pack: {
  product("SKU-7", "Pack");
  fact sheet("Battery", "battery:1") = {"mass_kg": "30", "capacity_kwh": "4"};
};
fixture march: with pack, { issued("2027-03-01"); };
"""


def run_tests_of(tests: str, **options: Any) -> TestReport:
    return run(RULES, tests=tests, **options)


def assert_passes(tests: str) -> None:
    assert [failure.says for failure in run_tests_of(tests).failures] == []


def test_a_test_starts_from_its_fixture() -> None:
    assert_passes('example e: with pack => expect(sku, == "SKU-7"); expect(mass, == some(30)); ;')


def test_a_fixture_starts_from_another() -> None:
    assert_passes('example e: with march => expect(sku, == "SKU-7"); expect(day, == date("2027-03-01")); ;')


def test_what_a_test_states_itself_replaces_the_fixture() -> None:
    assert_passes(
        'example e: with march, { issued("2028-01-01"); product("S", "N"); } => '
        'expect(day, == date("2028-01-01")); expect(sku, == "S"); ;'
    )


def test_of_a_fact_only_the_members_that_are_stated_again_change() -> None:
    fact = 'fact again("Battery", "battery:1") = {"mass_kg": "20"};'

    assert_passes(f"example e: with pack, {{ {fact} }} => expect(mass, == some(20)); expect(energy, == some(4)); ;")


def test_null_takes_a_member_out_and_without_a_fact() -> None:
    assert_passes(
        'example e: with pack, { fact f("Battery", "battery:1") = {"mass_kg": null}; } => '
        "expect(mass, == none); expect(energy, == some(4)); ;"
    )
    assert_passes(
        'example e: with pack, { without("Battery", "battery:1"); } => '
        "expect(mass, == none); expect(energy, == none); ;"
    )


def test_the_later_of_two_fixtures_counts() -> None:
    light = 'fixture light: { fact f("Battery", "battery:1") = {"mass_kg": "1"}; };'

    assert_passes(f"{light} example e: with pack, light => expect(mass, == some(1)); expect(energy, == some(4)); ;")
    assert_passes(f"{light} example e: with light, pack => expect(mass, == some(30)); ;")


def test_a_property_starts_from_a_fixture() -> None:
    claim = 'forall x: Int . implies(x > 0, unwrapOr(field("mass"), 0) == 30)'

    assert_passes(f"property p: cases(5) seed(1) given with pack => {claim}; ;")
    assert_passes(f'property p: cases(5) seed(1) given with pack, {{ issued("2028-01-01"); }} => {claim}; ;')


TABLE = """\
cases heavy(mass_kg, sku_, heavy): with pack, {
  product(sku_, "P");
  fact sheet("Battery", "battery:1") = {"mass_kg": mass_kg};
} =>
  expect(is_heavy, == heavy) because "above 25 kg";
  expect(sku, == sku_);
{
  25.000001, "A", true;
  25, "B", false;
  none, "C", false;
  26, "D", false;
};
"""


def test_each_row_is_a_case_and_the_one_that_fails_is_named_with_its_place() -> None:
    report = run_tests_of(TABLE)

    failure = get_only_failure(report)
    assert count_cases(report) == (4, 3, 1, 0)
    assert failure.test == "heavy[4]"
    assert failure.says == "`is_heavy` is `true`, expected `== false` because above 25 kg"
    assert failure.source.text[failure.span.start : failure.span.end] == '26, "D", false'


def test_a_table_or_one_of_its_rows_can_be_run_alone() -> None:
    assert count_cases(run_tests_of(TABLE, only="heavy")) == (4, 3, 1, 0)
    assert count_cases(run_tests_of(TABLE, only="heavy[2]")) == (1, 1, 0, 0)
    with pytest.raises(Invalid, match="no test"):
        run_tests_of(TABLE, only="heavy[5]")


def test_cells_stand_for_days_keys_codes_and_parts_of_values() -> None:
    assert_passes("""\
cases days(day_, key): { issued(day_); fact f("Battery", key) = {"mass_kg": "1"}; } =>
  expect(day, == day_);
  expect(mass, == some(1));
{ date("2027-05-01"), "battery:1"; };
cases findings(status, kg): { fact f("Battery", "battery:1") = {"mass_kg": kg}; } =>
  expectFinding("DP10", status);
{ "PASS", 1; "PASS", "1.5"; "FAIL", none; };
cases masses(kg): { fact f("Battery", "battery:1") = {"mass_kg": kg}; } => expect(mass, == some(kg)); { 1.5; 2; };
""")
    lists = "language 2; field pairs: List(Record(a: Int, b: Text)) = [{a: 1, b: productSku()}];"
    table = 'cases t(x, y): { product(y, "P"); } => expect(pairs, == [{a: x, b: y}]); { 1, "A"; 1, "B"; };'
    assert run(lists, tests=table).failures == ()


def test_an_error_is_expected_by_row() -> None:
    rules = 'language 2; field a: Int = assert(productSku() == "A", "E1", "no"); assert(false, "E2", "never"); 1;'

    assert (
        run(
            rules, tests='cases t(sku, code): { product(sku, "P"); } => expectError(code); { "A", "E2"; "B", "E1"; };'
        ).failures
        == ()
    )


def test_a_finding_is_expected_with_status_and_message() -> None:
    assert_passes(
        'example e: with pack => expectFinding("DP10", "PASS"); expectFinding("DP10", "PASS", "the mass of SKU-7"); ;'
    )


@pytest.mark.parametrize(
    ("expectation", "says"),
    [
        ('expectFinding("DP10", "FAIL")', "found `DP10` PASS `the mass of SKU-7`, expected `DP10` FAIL"),
        (
            'expectFinding("DP10", "PASS", "else") because "so"',
            "found `DP10` PASS `the mass of SKU-7`, expected `DP10` PASS `else` because so",
        ),
    ],
)
def test_another_finding_is_told_apart(expectation: str, says: str) -> None:
    assert get_only_failure(run_tests_of(f"example e: with pack => {expectation}; ;")).says == says


def test_a_finding_that_is_not_there_is_missed() -> None:
    condition = 'issuedOn() > date("2030-01-01")'
    rules = f'language 2; field a: Bool = if ({condition}) then emitCompliance("X", "PASS", "m") else true;'
    tests = 'example e: {} => expectFinding("X", "PASS"); ;'

    assert get_only_failure(run(rules, tests=tests)).says == "there is no finding `X`, expected `X` PASS"


def test_a_reason_stands_behind_an_error_that_did_not_come() -> None:
    failure = get_only_failure(run_tests_of('example e: with pack => expectError("E1") because "there is no sheet"; ;'))

    assert failure.says == "expected the error `E1` because there is no sheet, but no field failed"


DEFINED = """\
language 2;
def battery = Battery for productSku() else missing("there is no data sheet");
def mass = recordGet(battery, "mass_kg") else missing("DP10", "the mass is missing");
field mass_kg: Dec(6) = mass;
"""


def test_what_is_missing_is_a_finding() -> None:
    sheet = 'fact f("Battery", "battery:SKU-1") = {"capacity_kwh": "1"};'
    tests = f"""\
example no_sheet: {{}} =>
  expectFinding("MISSING_BATTERY", "FAIL", "there is no data sheet");
  expectNoFinding("DP10");
;
example no_mass: {{ {sheet} }} =>
  expectFinding("DP10", "FAIL") because "the sheet is there";
  expectNoFinding("MISSING_BATTERY");
;
"""

    assert [failure.says for failure in run(DEFINED, tests=tests).failures] == []


def test_a_finding_that_should_not_be_there_is_told() -> None:
    tests = 'example e: {} => expectNoFinding("MISSING_BATTERY") because "a sheet is always there"; ;'

    says = get_only_failure(run(DEFINED, tests=tests)).says

    assert says == (
        "found `MISSING_BATTERY` FAIL `there is no data sheet`, expected none because a sheet is always there"
    )


def test_a_property_is_about_definitions() -> None:
    rules = "language 2; const LIMIT = 25; def double = LIMIT * 2; field a: Int = double;"
    tests = "property p: cases(20) seed(1) => forall x: Int . implies(x > double, x - LIMIT > {}); ;"

    assert run(rules, tests=tests.format("LIMIT")).failures == ()
    assert get_only_failure(run(rules, tests=tests.format("double + double"))).kind == "property"
