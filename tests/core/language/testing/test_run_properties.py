"""Properties in the rule language: which cases count, what fails, and how a failing case is told."""

import pytest

from tests.core.language.testing.runs import HAS_TOTAL, count_cases, create_property, get_only_failure, run
from tests.measurements import choose_effort


def test_a_property_runs_as_many_cases_as_it_asks_for() -> None:
    report = run(create_property("forall x: Dec(2) . implies(true, x + x - x == x);", cases=200))

    assert (report.status, count_cases(report)) == ("PASSED", (200, 200, 0, 0))


def test_a_case_whose_premise_is_false_or_gives_no_value_is_discarded() -> None:
    false = run(create_property("forall x: Int . implies(x > 0, x + 1 > 1);"))
    missing = run(
        create_property(
            'forall x: Int . implies(field("battery.capacity_kwh") == field("battery.capacity_kwh"), true);'
        )
    )

    for report in (false, missing):
        assert (report.status, report.cases) == ("PASSED", 50)
        assert report.discarded > 0


def test_the_claims_of_a_property_share_the_facts_of_a_case_and_one_is_enough_to_count() -> None:
    claims = """
      forall x: Int . implies(field("battery.capacity_kwh") >= 0, true);
      forall y: Int . implies(field("battery.capacity_kwh") < 0, true);
    """
    gaps = run(create_property(claims, cases=200))

    # Whatever the capacity is, one premise holds; only a case without capacity is discarded.
    only_present = run(
        create_property(
            'forall x: Int . implies(field("battery.capacity_kwh") == field("battery.capacity_kwh"), true);', cases=200
        )
    )
    assert count_cases(gaps) == count_cases(only_present)


def test_any_other_error_of_a_premise_fails_the_case() -> None:
    failure = get_only_failure(run(create_property("forall x: Int . implies(1 / x == 1, true);")))

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
    failure = get_only_failure(run(create_property(claim)))

    assert failure.says.endswith(": the conclusion has no value: E002: no capacity")
    assert failure.error is not None
    assert (failure.error.rule_code, failure.error.field) == ("E002", "battery.capacity_kwh")


def test_a_property_stops_at_its_first_failing_case() -> None:
    report = run(create_property("forall x: Int . implies(true, x < 1000);", cases=500))
    failure = get_only_failure(report)

    assert failure.case is not None
    assert report.failed == 1
    assert report.passed == failure.case.number


def test_a_failing_case_is_shrunk_and_says_how_to_run_it_alone() -> None:
    claim = f'forall x: Dec(2) . implies(field("battery.capacity_kwh") > 0 && {HAS_TOTAL}, x < 10);'
    rules = create_property(claim, cases=300)
    failure = get_only_failure(run(rules, seed=3))
    assert failure.case is not None
    case_json = failure.case.as_json()

    assert case_json == {
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
    assert count_cases(alone) == (1, 0, 1, 0)


def test_a_property_whose_premise_hardly_ever_holds_fails_and_says_how_often_it_did() -> None:
    report = run(create_property("forall x: Dec(2) . implies(x == 1234.56, true);", cases=20))
    failure = get_only_failure(report)

    assert failure.says == (
        "the premises held in 0 of 200 tries, but the property needs 20 cases: write a premise that holds more often"
    )
    assert count_cases(report) == (1, 0, 1, 200)


def test_a_property_needs_no_facts() -> None:
    assert run("property p: cases(30) seed(1) => forall x: Int . implies(x > 0, x * x > 0); ;").cases == 30


def test_a_property_may_look_at_facts_no_rule_names() -> None:
    test_facts = 'fact d("DueDiligence", "dd:1") = any; fact e("DueDiligence", "dd:2") = {"supplier": "Acme"};'
    supplier = 'recordGet(requireSome(getFact("DueDiligence", "dd:2"), "E", "e"), "supplier")'
    claim = f'forall x: Int . implies(isSome({supplier}), unwrapOr({supplier}, "") == "Acme");'

    assert run(create_property(claim, test_facts=test_facts, rules="field a: Int = 1;")).status == "PASSED"


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
        run(f"property p: cases({choose_effort(test=300, shown=3000, campaign=30_000)}) seed(1) => {claims} ;").status
        == "PASSED"
    )


DEFINED = """language 2;
enum Metal = COBALT "co" | LEAD "pb";
table least(metal: Metal): Int { COBALT: 16; LEAD: 85; };
def sheet = Battery for productSku() else missing("E1", "no sheet");
def mass = sheet.mass_kg else missing("E2", "no mass");
const LIMIT = 5;
fn share(part: Dec(2), whole: Dec(2)): Dec(2) = if whole > 0 then toDec(2, part * 100 / whole) else 0;
fn low(metal: Metal): Int = (least(metal) ?? 0) - 10;
field f: Dec(6) = mass;
field g: Dec(2) = share(1, 2);
field h: Int = low(LEAD);
"""


@pytest.mark.parametrize(
    "claim",
    [
        "forall x: Dec(2) . implies(x > 0, share(x, x) == 100)",
        "forall m: Metal . implies(true, low(m) > LIMIT)",
        "forall m: Metal . implies(least(m) is present, low(m) < (least(m) ?? 0))",
        "forall x: Dec(6) . implies(mass > x, mass >= x)",
    ],
)
def test_claims_are_about_definitions_functions_and_tables_themselves(claim: str) -> None:
    fixture_text = 'given { fact b("Battery", "battery:SKU-1") = any; }'
    report = run(DEFINED, tests=f"property p: cases(30) seed(3) {fixture_text} => {claim}; ;")

    assert (report.failures, report.cases, report.without_field) == ((), 30, 0)


def test_a_claim_about_a_function_that_is_wrong_is_made_simple() -> None:
    tests = "property p: cases(100) seed(1) => forall x: Dec(2) . implies(true, share(x, 1) >= 0); ;"

    failure = get_only_failure(run(DEFINED, tests=tests))

    assert failure.says.endswith("the conclusion is false")
    assert failure.case is not None
    assert str(failure.case.variable) == "x = -1.00"


def test_a_claim_over_its_variable_alone_is_about_no_field() -> None:
    report = run(DEFINED, tests="property p: cases(10) seed(1) => forall x: Int . implies(x > 0, x > 0); ;")

    assert (report.cases, report.without_field) == (10, 10)
