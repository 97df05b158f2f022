"""Tests in the rule language: what passes, what fails and how it is told, which tests run, and how fast it goes."""

import time
from typing import Any

import pytest

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.language.package import read_program
from bpc.core.language.testing.run import run_tests
from tests.core.language.testing.runs import (
    FACTS,
    HAS_TOTAL,
    RULES,
    count_cases,
    create_example,
    create_property,
    get_only_failure,
    run,
)
from tests.measurements import RecordMeasurement, allow_seconds

# Examples


def test_an_example_is_one_case_that_holds_if_all_it_expects_does() -> None:
    report = run(
        create_example("expect(battery.capacity_kwh, == 75.5); expect(sustainability.pcf_gco2e_per_kwh, == 2);")
    )

    assert (report.status, count_cases(report), report.failures) == ("PASSED", (1, 1, 0, 0), ())


@pytest.mark.parametrize(
    "comparison", ["== 75.5", "== 75.500000000", "!= 75.51", "< 76", "<= 75.5", "> 75.4999999", ">= -1"]
)
def test_decimals_compare_by_value_at_any_scale(comparison: str) -> None:
    assert run(create_example(f"expect(battery.capacity_kwh, {comparison});")).status == "PASSED"


@pytest.mark.parametrize("comparison", ["== 75.49", "!= 75.50", "> 75.5", "< 75.5", ">= 75.50001", "<= 75"])
def test_an_expectation_that_is_not_met_says_what_the_value_is(comparison: str) -> None:
    failure = get_only_failure(run(create_example(f"expect(battery.capacity_kwh, {comparison});")))

    assert failure.says == f"`battery.capacity_kwh` is `75.500000`, expected `{comparison}`"
    assert (failure.test, failure.kind, failure.error, failure.case) == ("e", "example", None, None)


VALUES = """
field a.flag: Bool = true;
field a.count: Int = 3;
field a.name: Text = "Zoë";
field a.day: Date = date("2027-02-18");
field a.mass: Qty(kg) = qty(1.50, kg);
field a.nothing: Opt(Dec(2)) = none;
field a.something: Opt(Dec(2)) = some(1.5);
field a.list: List(Int) = [1, 2];
field a.record: Record(x: Int, y: Text) = {x: 1, y: "b"};
"""


@pytest.mark.parametrize(
    ("path", "value", "other", "shown"),
    [
        ("flag", "true", "false", "true"),
        ("count", "3", "4", "3"),
        ("name", '"Zoë"', '"Zoe"', '"Zoë"'),
        ("day", 'date("2027-02-18")', 'date("2027-02-19")', 'date("2027-02-18")'),
        ("mass", "qty(1.5, kg)", "qty(1.6, kg)", "qty(1.5, kg)"),
        ("nothing", "none", "some(1)", "none"),
        ("something", "some(1.50)", "none", "some(1.50)"),
        ("something", "some(1.5)", "some(1.51)", "some(1.50)"),
        ("list", "[1, 2]", "[2, 1]", "[1, 2]"),
        ("record", '{y: "b", x: 1}', '{x: 2, y: "b"}', '{x: 1, y: "b"}'),
    ],
)
def test_values_of_every_type_can_be_expected(path: str, value: str, other: str, shown: str) -> None:
    good = run(f"{VALUES} example e: {{}} => expect(a.{path}, == {value}); expect(a.{path}, != {other}); ;")
    bad = run(f"{VALUES} example e: {{}} => expect(a.{path}, == {other}); ;")

    assert good.status == "PASSED"
    assert get_only_failure(bad).says.startswith(f"`a.{path}` is `{shown}`, expected `== ")


def test_product_and_day_have_defaults_and_can_be_given() -> None:
    rules = "field sku: Text = productSku(); field name: Text = productName(); field day: Date = issuedOn();"
    defaults = 'expect(sku, == "SKU-1"); expect(name, == "Product"); expect(day, == date("2027-02-18"));'
    inputs = 'product("A", "B"); issued("2028-03-01");'
    chosen = 'expect(sku, == "A"); expect(name, == "B"); expect(day, == date("2028-03-01"));'

    assert run(f"{rules} example e: {{}} => {defaults} ; example f: {{ {inputs} }} => {chosen} ;").status == "PASSED"


def test_an_error_in_what_is_expected_fails_the_test_and_says_where_it_is() -> None:
    failure = get_only_failure(run(create_example("expect(sustainability.pcf_gco2e_per_kwh, == 1);", facts="")))

    assert failure.says == "`sustainability.pcf_gco2e_per_kwh` has no value: E001: battery missing"
    assert failure.error is not None
    assert failure.error.as_json() == {
        "code": "RULE_ASSERTION_FAILED",
        "rule_code": "E001",
        "message": "E001: battery missing",
        "field": "battery.capacity_kwh",
        "file": "rules.bpc",
        "line": 3,
        "column": 35,
    }


def test_a_field_that_is_not_expected_need_not_have_a_value() -> None:
    facts = 'fact b("Battery", "battery:SKU-123") = {"capacity_kwh": "75.5"};'

    assert run(create_example("expect(battery.capacity_kwh, == 75.5);", facts)).status == "PASSED"


@pytest.mark.parametrize("code", ["E001", "RULE_ASSERTION_FAILED"])
def test_an_expected_error_is_a_rule_code_or_an_error_code(code: str) -> None:
    assert run(create_example(f'expectError("{code}");', facts="")).status == "PASSED"


def test_an_expected_error_may_be_that_of_any_field_whatever_the_others_do() -> None:
    battery = 'fact b("Battery", "battery:SKU-123") = {"capacity_kwh": "0"};'
    pcf = 'fact p("PCF", "pcf:SKU-123") = {"total_gco2e": "1"};'

    assert run(create_example('expectError("E010"); expect(battery.capacity_kwh, == 0);', battery)).status == "PASSED"
    assert run(create_example('expectError("DIVISION_BY_ZERO");', battery + pcf)).status == "PASSED"


def test_an_expected_error_that_does_not_come_says_what_came_instead() -> None:
    none = get_only_failure(run(create_example('expectError("E001");')))
    other = get_only_failure(run(create_example('expectError("E999");', facts="")))

    assert none.says == "expected the error `E001`, but no field failed"
    assert other.says == (
        "expected the error `E999`, but the fields failed differently: `battery.capacity_kwh` with `E001`, "
        "`sustainability.pcf_gco2e_per_kwh` with `E001`"
    )


def test_every_expectation_that_is_not_met_is_reported_and_the_case_counts_once() -> None:
    report = run(create_example("expect(battery.capacity_kwh, == 1); expect(battery.capacity_kwh, > 80);"))

    assert [failure.test for failure in report.failures] == ["e", "e"]
    assert count_cases(report) == (1, 0, 1, 0)


# Runs


def test_the_same_seed_gives_the_same_report_and_another_seed_other_cases() -> None:
    rules = create_property('forall x: Text . implies(true, concat(x, x) != concat("aa", x) || x == "a");', cases=40)
    rules += " property q: cases(300) seed(1) => forall x: Int . implies(x > 10, x < 500000); ;"
    one, again, other = run(rules, seed=1), run(rules, seed=1), run(rules, seed=2)

    assert canonical_json.encode(one.as_json()) == canonical_json.encode(again.as_json())
    assert (one.passed, one.discarded) != (other.passed, other.discarded)


def test_a_case_counts_as_one_without_a_field_if_it_evaluates_none() -> None:
    without = create_property("forall x: Int . implies(x == x, 1 == 1);", cases=30)
    with_one = create_property(
        'forall x: Int . implies(true, field("battery.capacity_kwh") == 75.5);', test_facts=FACTS
    )
    with_some = create_property(
        'forall x: Int . implies(true, x <= 0 || field("battery.capacity_kwh") == 75.5);', test_facts=FACTS
    )

    assert run(without).without_field == 30
    assert run(with_one).without_field == 0
    assert 0 < run(with_some).without_field < 50
    assert run(create_example("expect(battery.capacity_kwh, == 75.5);")).without_field == 0
    assert run(create_example('expectError("E001");', facts="")).without_field == 0


def test_the_report_is_json_with_these_members() -> None:
    report_json = run(create_example("expect(battery.capacity_kwh, == 1);")).as_json()

    assert list(report_json) == [
        "status",
        "cases",
        "passed",
        "failed",
        "discarded",
        "cases_without_field",
        "failures",
        "coverage",
    ]
    assert report_json["failures"] == [
        {
            "test": "e",
            "kind": "example",
            "message": "`battery.capacity_kwh` is `75.500000`, expected `== 1`",
            "file": "rules.bpc",
            "line": 15,
            "column": 6,
            "end_line": 15,
            "end_column": 40,
            "error": None,
            "case": None,
        }
    ]


def test_tests_in_a_file_beside_the_rules_run_too_and_are_placed_there() -> None:
    tests = "property q: cases(5) seed(1) => forall x: Int . implies(true, x != x); ;"
    failure = get_only_failure(run(RULES, tests=tests))

    assert failure.source.name == "tests.bpc"
    assert failure.case is not None
    assert failure.case.command == "bpc rules test rules.bpc --tests tests.bpc --seed 0 --only q --case 0"


def test_one_test_can_be_run_alone() -> None:
    rules = (
        create_example("expect(battery.capacity_kwh, == 75.5);")
        + " example f: {} => expect(battery.capacity_kwh, == 1); ;"
    )

    assert count_cases(run(rules, only="e")) == (1, 1, 0, 0)
    assert count_cases(run(rules, only="f")) == (1, 0, 1, 0)


@pytest.mark.parametrize(
    ("options", "says", "fix"),
    [
        ({"only": "ee"}, "there is no test called `ee`", "did you mean `e`?"),
        ({"only": "e", "case": 0}, "`e` is an example, which is a single case", "leave out the case number"),
        ({"case": 0}, "a case number needs the name of a property", "name the property"),
        ({"only": "p", "case": 50}, "`p` has no case 50: its cases are numbered from 0 to 49", None),
    ],
)
def test_a_test_or_case_that_is_not_there_is_refused(options: dict[str, Any], says: str, fix: str | None) -> None:
    rules = create_example("expect(battery.capacity_kwh, == 75.5);")
    rules += " property p: cases(5) seed(1) => forall x: Int . implies(true, true); ;"

    with pytest.raises(Invalid) as refused:
        run(rules, **options)

    assert (refused.value.says, refused.value.fix) == (says, fix)


def test_progress_is_told_case_by_case() -> None:
    progress: list[tuple[int, int]] = []
    rules = create_example("expect(battery.capacity_kwh, == 75.5);")
    rules += " property p: cases(4) seed(1) => forall x: Int . implies(x > 0, true); ;"

    run(rules, progress=lambda done, total: progress.append((done, total)))

    assert progress == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_a_package_without_tests_passes() -> None:
    report = run(RULES)

    assert (report.status, count_cases(report)) == ("PASSED", (0, 0, 0, 0))


# Limits


ENDLESS = """
field a: Int =
  let ten = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  count(map(ten, fn(a) => map(ten, fn(b) => map(ten, fn(c) => map(ten, fn(d) => map(ten, fn(e) =>
    map(ten, fn(f) => a + b + c + d + e + f)))))));
"""


def test_every_case_has_its_own_steps() -> None:
    rules = "field a: Int = fold([1, 2, 3], 0, fn(s, x) => s + x); "
    rules += 'property p: cases(20) seed(1) => forall x: Int . implies(true, field("a") == 6); ;'

    assert run(rules, max_steps=25).status == "PASSED"
    assert "RULE_LIMIT_EXCEEDED" in str(run(rules, max_steps=3).failures[0].as_json())


def test_shrinking_a_case_that_takes_a_million_steps_ends_soon() -> None:
    started = time.monotonic()
    rules = f'{ENDLESS} property p: cases(5) seed(1) => forall x: List(List(Int)) . implies(true, field("a") == 10); ;'

    failure = get_only_failure(run(rules))

    assert failure.error is not None
    assert failure.error.code == "RULE_LIMIT_EXCEEDED"
    assert time.monotonic() - started < allow_seconds(10)


@pytest.mark.repeats
def test_five_hundred_cases_take_a_fraction_of_a_second(record_measurement: RecordMeasurement) -> None:
    pcf = 'field("sustainability.pcf_gco2e_per_kwh")'
    claim = f'forall x: Dec(2) . implies(field("battery.capacity_kwh") > 0 && {HAS_TOTAL}, {pcf} * 1 == {pcf});'
    program = read_program(create_property(claim, cases=500).encode())
    runs = []
    for _ in range(3):
        started = time.perf_counter()
        report = run_tests(program, seed=0)
        runs.append(time.perf_counter() - started)
        assert (report.status, report.cases) == ("PASSED", 500)

    record_measurement("rule-tests", cases=500, seconds=round(min(runs), 4))
    assert min(runs) < allow_seconds(1)
