"""Tests in the rule language: what passes, what fails and how it is told, which cases count, and how fast it goes."""

import time
from typing import Any

import pytest

from bpc.core import canon
from bpc.core.errors import Invalid
from bpc.core.rules.package import checked_program
from bpc.core.rules.testing.run import run_tests
from bpc.core.rules.testing.verdict import TestFailure, TestReport
from tests.measuring import Measured, allowed, effort

# The two rules of the seed's own example.
RULES = """\
field battery.capacity_kwh: Dec(6) =
  let b = getFact("Battery", "battery:SKU-123");
  let cap = requireSome(recordGet(requireSome(b, "E001", "battery missing"), "capacity_kwh"), "E002", "no capacity");
  toDec(6, cap);

field sustainability.pcf_gco2e_per_kwh: Dec(2) =
  let p = getFact("PCF", "pcf:SKU-123");
  let total = requireSome(recordGet(requireSome(p, "E010", "pcf missing"), "total_gco2e"), "E011", "missing total");
  let cap = field("battery.capacity_kwh");
  toDec(2, toDec(2, total) / cap);
"""
FACTS = """\
  fact b("Battery", "battery:SKU-123") = {"capacity_kwh": "75.5"};
  fact p("PCF", "pcf:SKU-123") = {"total_gco2e": "151.00"};
"""
ANY_FACTS = """\
  fact b("Battery", "battery:SKU-123") = any;
  fact p("PCF", "pcf:SKU-123") = any;
"""
HAS_TOTAL = """isSome(recordGet(requireSome(getFact("PCF", "pcf:SKU-123"), "E", "no pcf"), "total_gco2e"))"""


def run(rules: str, *, tests: str = "", seed: int = 0, **options: Any) -> TestReport:
    return run_tests(checked_program(rules.encode(), tests.encode()), seed=seed, **options)


def counts(report: TestReport) -> tuple[int, int, int, int]:
    return report.cases, report.passed, report.failed, report.discarded


def only_failure(report: TestReport) -> TestFailure:
    assert report.status == "FAILED"
    assert len(report.failures) == 1, report.failures
    return report.failures[0]


def example(expectations: str, facts: str = FACTS) -> str:
    return f"{RULES}\nexample e: {{\n{facts}}} => {expectations} ;"


def prop(claims: str, *, cases: int = 50, given: str = ANY_FACTS, rules: str = RULES) -> str:
    return f"{rules}\nproperty p: cases({cases}) seed(42) given {{\n{given}}} => {claims} ;"


# Examples


def test_an_example_is_one_case_that_holds_if_all_it_expects_does() -> None:
    report = run(example("expect(battery.capacity_kwh, == 75.5); expect(sustainability.pcf_gco2e_per_kwh, == 2);"))

    assert (report.status, counts(report), report.failures) == ("PASSED", (1, 1, 0, 0), ())


@pytest.mark.parametrize(
    "comparison", ["== 75.5", "== 75.500000000", "!= 75.51", "< 76", "<= 75.5", "> 75.4999999", ">= -1"]
)
def test_decimals_compare_by_value_at_any_scale(comparison: str) -> None:
    assert run(example(f"expect(battery.capacity_kwh, {comparison});")).status == "PASSED"


@pytest.mark.parametrize("comparison", ["== 75.49", "!= 75.50", "> 75.5", "< 75.5", ">= 75.50001", "<= 75"])
def test_an_expectation_that_is_not_met_says_what_the_value_is(comparison: str) -> None:
    failure = only_failure(run(example(f"expect(battery.capacity_kwh, {comparison});")))

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
    assert only_failure(bad).says.startswith(f"`a.{path}` is `{shown}`, expected `== ")


def test_product_and_day_have_defaults_and_can_be_given() -> None:
    rules = "field sku: Text = productSku(); field name: Text = productName(); field day: Date = issuedOn();"
    defaults = 'expect(sku, == "SKU-1"); expect(name, == "Product"); expect(day, == date("2027-02-18"));'
    given = 'product("A", "B"); issued("2028-03-01");'
    chosen = 'expect(sku, == "A"); expect(name, == "B"); expect(day, == date("2028-03-01"));'

    assert run(f"{rules} example e: {{}} => {defaults} ; example f: {{ {given} }} => {chosen} ;").status == "PASSED"


def test_an_error_in_what_is_expected_fails_the_test_and_says_where_it_is() -> None:
    failure = only_failure(run(example("expect(sustainability.pcf_gco2e_per_kwh, == 1);", facts="")))

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

    assert run(example("expect(battery.capacity_kwh, == 75.5);", facts)).status == "PASSED"


@pytest.mark.parametrize("code", ["E001", "RULE_ASSERTION_FAILED"])
def test_an_expected_error_is_a_rule_code_or_an_error_code(code: str) -> None:
    assert run(example(f'expectError("{code}");', facts="")).status == "PASSED"


def test_an_expected_error_may_be_that_of_any_field_whatever_the_others_do() -> None:
    battery = 'fact b("Battery", "battery:SKU-123") = {"capacity_kwh": "0"};'
    pcf = 'fact p("PCF", "pcf:SKU-123") = {"total_gco2e": "1"};'

    assert run(example('expectError("E010"); expect(battery.capacity_kwh, == 0);', battery)).status == "PASSED"
    assert run(example('expectError("DIVISION_BY_ZERO");', battery + pcf)).status == "PASSED"


def test_an_expected_error_that_does_not_come_says_what_came_instead() -> None:
    none = only_failure(run(example('expectError("E001");')))
    other = only_failure(run(example('expectError("E999");', facts="")))

    assert none.says == "no field fails with `E001`, and none fails at all"
    assert other.says == (
        "no field fails with `E999`; what fails is `battery.capacity_kwh` with `E001`, "
        "`sustainability.pcf_gco2e_per_kwh` with `E001`"
    )


def test_every_expectation_that_is_not_met_is_reported_and_the_case_counts_once() -> None:
    report = run(example("expect(battery.capacity_kwh, == 1); expect(battery.capacity_kwh, > 80);"))

    assert [failure.test for failure in report.failures] == ["e", "e"]
    assert counts(report) == (1, 0, 1, 0)


# Properties


def test_a_property_runs_as_many_cases_as_it_asks_for() -> None:
    report = run(prop("forall x: Dec(2) . implies(true, x + x - x == x);", cases=200))

    assert (report.status, counts(report)) == ("PASSED", (200, 200, 0, 0))


def test_a_case_whose_premise_is_false_or_gives_no_value_is_discarded() -> None:
    false = run(prop("forall x: Int . implies(x > 0, x + 1 > 1);"))
    missing = run(
        prop('forall x: Int . implies(field("battery.capacity_kwh") == field("battery.capacity_kwh"), true);')
    )

    for report in (false, missing):
        assert (report.status, report.cases) == ("PASSED", 50)
        assert report.discarded > 0


def test_the_claims_of_a_property_share_the_facts_of_a_case_and_one_is_enough_to_count() -> None:
    claims = """
      forall x: Int . implies(field("battery.capacity_kwh") >= 0, true);
      forall y: Int . implies(field("battery.capacity_kwh") < 0, true);
    """
    gaps = run(prop(claims, cases=200))

    # Whatever the capacity is, one premise holds; only a case without capacity is discarded.
    only_present = run(
        prop(
            'forall x: Int . implies(field("battery.capacity_kwh") == field("battery.capacity_kwh"), true);', cases=200
        )
    )
    assert counts(gaps) == counts(only_present)


def test_any_other_error_of_a_premise_fails_the_case() -> None:
    failure = only_failure(run(prop("forall x: Int . implies(1 / x == 1, true);")))

    assert failure.says.endswith(": the premise has no value: division by zero")
    assert failure.error is not None
    assert (failure.error.code, failure.error.field, failure.error.source.name) == (
        "DIVISION_BY_ZERO",
        None,
        "rules.bpc",
    )
    assert failure.case is not None
    assert str(failure.case.variable) == "x = 0"


def test_every_error_of_a_conclusion_fails_the_case() -> None:
    claim = 'forall x: Int . implies(true, field("battery.capacity_kwh") == field("battery.capacity_kwh"));'
    failure = only_failure(run(prop(claim)))

    assert failure.says.endswith(": the conclusion has no value: E002: no capacity")
    assert failure.error is not None
    assert (failure.error.rule_code, failure.error.field) == ("E002", "battery.capacity_kwh")


def test_a_property_stops_at_its_first_failing_case() -> None:
    report = run(prop("forall x: Int . implies(true, x < 1000);", cases=500))
    failure = only_failure(report)

    assert failure.case is not None
    assert report.failed == 1
    assert report.passed == failure.case.number


def test_a_failing_case_is_shrunk_and_says_how_to_run_it_alone() -> None:
    claim = f'forall x: Dec(2) . implies(field("battery.capacity_kwh") > 0 && {HAS_TOTAL}, x < 10);'
    rules = prop(claim, cases=300)
    failure = only_failure(run(rules, seed=3))
    assert failure.case is not None
    said = failure.case.as_json()

    assert said == {
        "number": failure.case.number,
        "facts": [
            {
                "fact_type": "Battery",
                "fact_key": "battery:SKU-123",
                "schema_version": 1,
                "payload": {"capacity_kwh": "1.000000"},
            },
            {"fact_type": "PCF", "fact_key": "pcf:SKU-123", "schema_version": 1, "payload": {"total_gco2e": "0.00"}},
        ],
        "variables": {"x": "10.00"},
        "command": f"bpc rules test rules.bpc --seed 3 --only p --case {failure.case.number}",
    }
    alone = run(rules, seed=3, only="p", case=failure.case.number)
    assert alone.failures[0].as_json() == failure.as_json()
    assert counts(alone) == (1, 0, 1, 0)


def test_a_property_whose_premise_hardly_ever_holds_fails_and_says_how_often_it_did() -> None:
    report = run(prop("forall x: Dec(2) . implies(x == 1234.56, true);", cases=20))
    failure = only_failure(report)

    assert failure.says == (
        "the premises held in 0 of 200 tries, and the property asks for 20 cases: write a premise that holds more often"
    )
    assert counts(report) == (1, 0, 1, 200)


def test_a_property_needs_no_facts() -> None:
    assert run("property p: cases(30) seed(1) => forall x: Int . implies(x > 0, x * x > 0); ;").cases == 30


def test_a_property_may_look_at_facts_no_rule_names() -> None:
    given = 'fact d("DueDiligence", "dd:1") = any; fact e("DueDiligence", "dd:2") = {"supplier": "Acme"};'
    supplier = 'recordGet(requireSome(getFact("DueDiligence", "dd:2"), "E", "e"), "supplier")'
    claim = f'forall x: Int . implies(isSome({supplier}), unwrapOr({supplier}, "") == "Acme");'

    assert run(prop(claim, given=given, rules="field a: Int = 1;")).status == "PASSED"


@pytest.mark.parametrize(
    "kind",
    [
        "Bool",
        "Int",
        "Text",
        "Date",
        "Dec(18)",
        "Qty(kg)",
        "Opt(Text)",
        "List(Dec(2))",
        "Map(Text, Int)",
        "Record(a: Int, b: List(Opt(Date)))",
    ],
)
def test_a_variable_may_be_of_any_type(kind: str) -> None:
    report = run(f"property p: cases(60) seed(1) => forall x: {kind} . implies(true, x == x); ;")

    assert (report.status, report.cases) == ("PASSED", 60)


def test_numbers_that_are_drawn_can_be_added_and_multiplied() -> None:
    claims = "forall x: Dec(18) . implies(true, x + x == x * 2 && x * x >= 0); "
    claims += "forall q: Qty(kg) . implies(true, q + q == q * 2);"

    assert (
        run(f"property p: cases({effort(test=300, shown=3000, campaign=30_000)}) seed(1) => {claims} ;").status
        == "PASSED"
    )


# Runs


def test_the_same_seed_gives_the_same_report_and_another_seed_other_cases() -> None:
    rules = prop('forall x: Text . implies(true, concat(x, x) != concat("aa", x) || x == "a");', cases=40)
    rules += " property q: cases(300) seed(1) => forall x: Int . implies(x > 10, x < 500000); ;"
    one, again, other = run(rules, seed=1), run(rules, seed=1), run(rules, seed=2)

    assert canon.encode(one.as_json()) == canon.encode(again.as_json())
    assert (one.passed, one.discarded) != (other.passed, other.discarded)


def test_the_report_is_json_with_these_members() -> None:
    said = run(example("expect(battery.capacity_kwh, == 1);")).as_json()

    assert list(said) == ["status", "cases", "passed", "failed", "discarded", "failures", "coverage"]
    assert said["failures"] == [
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
    failure = only_failure(run(RULES, tests=tests))

    assert failure.source.name == "tests.bpc"
    assert failure.case is not None
    assert failure.case.command == "bpc rules test rules.bpc --tests tests.bpc --seed 0 --only q --case 0"


def test_one_test_can_be_run_alone() -> None:
    rules = (
        example("expect(battery.capacity_kwh, == 75.5);") + " example f: {} => expect(battery.capacity_kwh, == 1); ;"
    )

    assert counts(run(rules, only="e")) == (1, 1, 0, 0)
    assert counts(run(rules, only="f")) == (1, 0, 1, 0)


@pytest.mark.parametrize(
    ("options", "says", "fix"),
    [
        ({"only": "ee"}, "there is no test called `ee`", "did you mean `e`?"),
        ({"only": "e", "case": 0}, "`e` is an example, which is a single case", "leave out --case"),
        ({"case": 0}, "a case belongs to a property", "name the property with --only"),
        ({"only": "p", "case": 50}, "`p` has no case 50: its cases are numbered from 0 to 49", None),
    ],
)
def test_a_test_or_case_that_is_not_there_is_refused(options: dict[str, Any], says: str, fix: str | None) -> None:
    rules = example("expect(battery.capacity_kwh, == 75.5);")
    rules += " property p: cases(5) seed(1) => forall x: Int . implies(true, true); ;"

    with pytest.raises(Invalid) as refused:
        run(rules, **options)

    assert (refused.value.says, refused.value.fix) == (says, fix)


def test_progress_is_told_case_by_case() -> None:
    told: list[tuple[int, int]] = []
    rules = example("expect(battery.capacity_kwh, == 75.5);")
    rules += " property p: cases(4) seed(1) => forall x: Int . implies(x > 0, true); ;"

    run(rules, progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_a_package_without_tests_passes() -> None:
    report = run(RULES)

    assert (report.status, counts(report)) == ("PASSED", (0, 0, 0, 0))


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

    failure = only_failure(run(rules))

    assert failure.error is not None
    assert failure.error.code == "RULE_LIMIT_EXCEEDED"
    assert time.monotonic() - started < allowed(10)


@pytest.mark.repeats
def test_five_hundred_cases_take_a_fraction_of_a_second(measured: Measured) -> None:
    pcf = 'field("sustainability.pcf_gco2e_per_kwh")'
    claim = f'forall x: Dec(2) . implies(field("battery.capacity_kwh") > 0 && {HAS_TOTAL}, {pcf} * 1 == {pcf});'
    program = checked_program(prop(claim, cases=500).encode())
    runs = []
    for _ in range(3):
        started = time.perf_counter()
        report = run_tests(program, seed=0)
        runs.append(time.perf_counter() - started)
        assert (report.status, report.cases) == ("PASSED", 500)

    measured("rule-tests", cases=500, seconds=round(min(runs), 4))
    assert min(runs) < allowed(1)
