"""What the functions of level 2 give, cost and prove, by hand, in both evaluators; days against Python's calendar."""

from datetime import date, timedelta
from random import Random  # noqa: TID251 (seeded)

import pytest

from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluation import CALENDAR_MESSAGE, MAGNITUDE_MESSAGE, RuleLimitExceeded
from tests.core.language.evaluating.evaluation import count_steps, evaluate, evaluate_failure
from tests.core.language.reference.derivation import catch_failure, create_component, derive_rules, format_steps

LONG = '"' + "x" * 64 + '"'
PARTS = [create_component("a", mass_g="1"), create_component("b", mass_g="2.5"), create_component("c")]
GROUPS = 'groupBy(PARTS, fn(c) => isSome(recordGet(c, "mass_g")))'
MASSES = 'map(PARTS, fn(c) => recordGet(c, "mass_g"))'


def compute(kind: str, expression: str) -> Json:
    """What both evaluators give, as the payload writes it."""
    expression = expression.replace("PARTS", 'getFactsByPrefix("Component", "component:")')
    rules = f"language 2; field f: {kind} = {expression};"
    derivation = derive_rules(rules, PARTS)
    evaluated = evaluate(rules, *PARTS)
    assert evaluated.to_json() == derivation.fields
    assert evaluated.steps == derivation.steps
    return derivation.fields["f"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0"),
        ("-100", "-100"),
        ("69.30", "69.3"),
        ("65.00", "65"),
        ("-0.50", "-0.5"),
        ("toDec(0, 100)", "100"),
        ("1.5 * 0.0000000001 * 0.1", "0.000000000015"),
        ("qty(75.50, kWh)", "75.5 kWh"),
        ("qty(-100, kg)", "-100 kg"),
        ("true", "true"),
        ("1 == 2", "false"),
        ('date("0027-02-18")', "0027-02-18"),
        ('"a b"', "a b"),
    ],
)
def test_a_value_is_written_as_people_write_it(value: str, text: str) -> None:
    assert compute("Text", f"text({value})") == text


@pytest.mark.parametrize(
    ("kind", "expression", "result"),
    [
        ("Bool", 'startsWith("abc", "ab")', True),
        ("Bool", 'startsWith("abc", "")', True),
        ("Bool", 'startsWith("abc", "abcd")', False),
        ("Bool", 'startsWith("Abc", "a")', False),
        ("Bool", 'endsWith("abc", "bc")', True),
        ("Bool", 'endsWith("abc", "")', True),
        ("Bool", 'endsWith("bc", "abc")', False),
        ("Bool", 'contains("abc", "b")', True),
        ("Bool", 'contains("", "")', True),
        ("Bool", 'contains("abc", "ac")', False),
        ("List(Text)", 'split("a,b,,c,", ",")', ["a", "b", "", "c", ""]),
        ("List(Text)", 'split("", ",")', [""]),
        ("List(Text)", 'split("aaa", "aa")', ["", "a"]),
        ("List(Text)", 'split("abc", "")', ["abc"]),
        ("Text", 'trim(" \\t a b \\r\\n")', "a b"),
        ("Text", 'trim("\u00a0a\u00a0")', "\u00a0a\u00a0"),
        ("Text", 'trim("  ")', ""),
        ("Int", 'length("Größe😀")', 6),
    ],
)
def test_texts(kind: str, expression: str, result: Json) -> None:
    assert compute(kind, expression) == result


@pytest.mark.parametrize(
    ("kind", "expression", "result"),
    [
        ("Int", 'daysBetween(date("2027-02-18"), date("2028-02-18"))', 365),
        ("Int", 'daysBetween(date("2028-02-18"), date("2027-02-18"))', -365),
        ("Int", 'daysBetween(date("2028-02-18"), date("2029-02-18"))', 366),
        ("Int", 'daysBetween(date("0001-01-01"), date("9999-12-31"))', 3652058),
        ("Date", 'addDays(date("2028-02-28"), 2)', "2028-03-01"),
        ("Date", 'addDays(date("2027-01-01"), -1)', "2026-12-31"),
        ("Date", 'addMonths(date("2027-01-31"), 1)', "2027-02-28"),
        ("Date", 'addMonths(date("2028-01-31"), 1)', "2028-02-29"),
        ("Date", 'addMonths(date("2027-01-31"), -2)', "2026-11-30"),
        ("Date", 'addMonths(date("2025-02-18"), 24)', "2027-02-18"),
        ("Date", 'addYears(date("2028-02-29"), 1)', "2029-02-28"),
        ("Date", 'addYears(date("1896-02-29"), 4)', "1900-02-28"),
        ("Date", 'addYears(date("0001-01-01"), 9998)', "9999-01-01"),
        ("Int", 'year(date("0027-02-18"))', 27),
        ("Int", 'month(date("0027-02-18"))', 2),
        ("Int", 'day(date("0027-02-18"))', 18),
        ("Date", 'laterOf(date("2027-02-18"), date("2027-02-19"))', "2027-02-19"),
        ("Date", 'latestOf(date("2027-02-19"), date("2027-02-18"))', "2027-02-19"),
        ("Date", 'earlierOf(date("2027-02-19"), date("2027-02-18"))', "2027-02-18"),
        ("Opt(Date)", 'laterOf(date("2027-02-18"), addMonths(some(date("2026-02-18")), 13))', "2027-03-18"),
        (
            "Opt(Date)",
            'let act = if (true) then none else some(issuedOn()); laterOf(date("2027-02-18"), addMonths(act, 24))',
            None,
        ),
    ],
)
def test_days(kind: str, expression: str, result: Json) -> None:
    assert compute(kind, expression) == result


@pytest.mark.parametrize(
    ("kind", "expression", "result"),
    [
        ("Int", "max(0, 3 - 5)", 0),
        ("Int", "min(2, 10)", 2),
        ("Dec(3)", "max(1.5, 1.125)", "1.500"),
        ("Dec(3)", "min(1.5, 1.125)", "1.125"),
        ("Dec(2)", "let x = toDec(2, -1); max(x, 0)", "0.00"),
        ("Qty(kg)", "max(qty(1, kg), qty(1.5, kg))", {"unit": "kg", "value": "1.5"}),
        ("Text", 'max("B", "a")', "a"),
        ("Opt(Dec(2))", "max(some(1.25), 0)", "1.25"),
        ("Opt(Int)", "min(some(1), none)", None),
        ("Opt(Int)", "max([1, 5, 3])", 5),
        ("Opt(Int)", "min(filter([1], fn(x) => x > 1))", None),
        ("Opt(Dec(6))", f"max(present({MASSES}))", "2.500000"),
        ("Int", "abs(-5) + abs(5)", 10),
        ("Dec(1)", "abs(69.3 - 80.0)", "10.7"),
        ("Dec(2)", "round(2, 1.005)", "1.00"),
        ("Dec(2)", "round(2, 7)", "7.00"),
        ("Qty(kg)", "round(1, qty(12.25, kg))", {"unit": "kg", "value": "12.2"}),
        ("Qty(kg)", "round(1, qty(-12.35, kg))", {"unit": "kg", "value": "-12.4"}),
        ("Qty(kg)", "round(18, qty(0.000000000000000001, kg))", {"unit": "kg", "value": "0.000000000000000001"}),
        ("Int", "sum([1, 2, 3])", 6),
        ("Int", "sum(filter([1], fn(x) => x > 1))", 0),
        ("Dec(1)", "sum([40.5, 28.8])", "69.3"),
        ("Dec(6)", f"sum(present({MASSES}))", "3.500000"),
        ("Qty(g)", "sum([qty(1, g), qty(0.5, g)])", {"unit": "g", "value": "1.5"}),
    ],
)
def test_numbers_and_what_has_an_order(kind: str, expression: str, result: Json) -> None:
    assert compute(kind, expression) == result


@pytest.mark.parametrize(
    ("kind", "expression", "result"),
    [
        ("Opt(Int)", "first([1, 2])", 1),
        ("Opt(Int)", "last([1, 2])", 2),
        ("Opt(Int)", "first(filter([1], fn(x) => x > 1))", None),
        ("Opt(Dec(6))", f"last({MASSES})", None),
        ("Opt(Dec(6))", f"first({MASSES})", "1.000000"),
        (
            "Opt(Dec(6))",
            'recordGet(requireSome(last(filter(PARTS, fn(c) => isSome(recordGet(c, "mass_g")))), "E", "m"), "mass_g")',
            "2.500000",
        ),
        ("List(Text)", 'distinct(["b", "a", "b"])', ["b", "a"]),
        ("List(Opt(Int))", "distinct([some(1), none, some(1), none])", [1, None]),
        ("List(Record(a: List(Int)))", "distinct([{ a: [1] }, { a: [2] }, { a: [1] }])", [{"a": [1]}, {"a": [2]}]),
        ("List(Dec(6))", f"present({MASSES})", ["1.000000", "2.500000"]),
        ("Bool", "isEmpty([1])", False),
        ("Bool", 'isEmpty(getFactsByPrefix("Component", "nobody"))', True),
    ],
)
def test_lists(kind: str, expression: str, result: Json) -> None:
    assert compute(kind, expression) == result


@pytest.mark.parametrize(
    ("kind", "expression", "result"),
    [
        ("Bool", "any([1, 2, 3], fn(x) => x > 1)", True),
        ("Bool", "any([1, 2, 3], fn(x) => x > 3)", False),
        ("Bool", "all([1, 2, 3], fn(x) => x > 0)", True),
        ("Bool", "all([1, 2, 3], fn(x) => x > 1)", False),
        ("Bool", "any(filter([1], fn(x) => x > 1), fn(x) => true)", False),
        ("Bool", "all(filter([1], fn(x) => x > 1), fn(x) => false)", True),
        # What is decided looks no further.
        ("Bool", "any([0, 1], fn(x) => x == 0 || 1 / (x - 1) > 0)", True),
        ("Bool", "all([0, 1], fn(x) => x != 0 && 1 / (x - 1) > 0)", False),
        ("List(Int)", "sortBy([3, 1, 2], fn(x) => x)", [1, 2, 3]),
        ("List(Int)", "sortBy([3, 1, 2], fn(x) => -x)", [3, 2, 1]),
        ("List(Text)", 'sortBy(["bb", "a", "ab"], fn(x) => length(x))', ["a", "bb", "ab"]),
        ("List(Text)", 'sortBy(["b", "B", "ä", "a"], fn(x) => x)', ["B", "a", "b", "ä"]),
        ("List(Opt(Int))", "sortBy([some(2), none, some(1)], fn(x) => x)", [None, 1, 2]),
        ("Opt(Text)", 'latestBy(["bb", "a", "ab"], fn(x) => length(x))', "ab"),
        ("Opt(Int)", "latestBy(filter([1], fn(x) => x > 1), fn(x) => x)", None),
        ("Opt(Int)", "latestBy([1, 2], fn(x) => if (x == 2) then none else some(x))", 1),
        ("Bool", "let absent = if (true) then none else some(1); isSome(latestBy([1, 2], fn(x) => absent))", False),
        (
            "List(Record(key: Bool, items: List(Int)))",
            "groupBy([3, 1, 2], fn(x) => x == 1)",
            [{"items": [3, 2], "key": False}, {"items": [1], "key": True}],
        ),
        (
            "List(Record(key: List(Int), items: List(Int)))",
            "groupBy([3, 4, 3], fn(x) => [x])",
            [{"items": [3, 3], "key": [3]}, {"items": [4], "key": [4]}],
        ),
        ("List(Int)", f'map({GROUPS}, fn(g) => count(unwrapOr(recordGet(g, "items"), [])))', [2, 1]),
    ],
)
def test_conditions_orders_and_groups(kind: str, expression: str, result: Json) -> None:
    assert compute(kind, expression) == result


def test_days_are_counted_as_python_counts_them() -> None:
    rng = Random(1)
    for _ in range(300):
        start, end = (date.fromordinal(rng.randint(1, date.max.toordinal())) for _ in range(2))
        days = (end - start).days

        assert compute("Int", f'daysBetween(date("{start}"), date("{end}"))') == days
        assert compute("Date", f'addDays(date("{start}"), {days})') == str(start + timedelta(days))


@pytest.mark.parametrize(
    "call",
    [
        'addDays(date("9999-12-31"), 1)',
        'addDays(date("0001-01-01"), -1)',
        'addDays(date("2027-02-18"), 999999999999999999999999999999999999)',
        'addDays(some(date("2027-02-18")), -999999999999999999999999999999999999)',
        'addMonths(date("9999-12-01"), 1)',
        'addMonths(date("0001-01-31"), -1)',
        'addYears(some(date("2027-02-18")), 7973)',
    ],
)
def test_a_day_that_no_calendar_has_ends_the_evaluation_at_the_call(call: str) -> None:
    rules = f'language 2; field f: Text = text(unwrapOr(first([{call}]), date("2027-02-18")));'

    failure, place = evaluate_failure(rules)
    assert isinstance(failure, RuleLimitExceeded)
    assert failure.says == CALENDAR_MESSAGE
    assert place == call
    assert catch_failure(rules).span == failure.span


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("Int", f"sum([{'9' * 36}, 1])"),
        ("Qty(kg)", f"round(0, qty({'9' * 36}.5, kg))"),
        ("Dec(0)", f"round(0, {'9' * 36}.5)"),
    ],
)
def test_a_sum_or_rounding_stays_below_the_limit(kind: str, expression: str) -> None:
    rules = f"language 2; field f: {kind} = {expression};"

    failure, place = evaluate_failure(rules)
    assert (failure.says, place) == (MAGNITUDE_MESSAGE, expression)
    assert catch_failure(rules).says == MAGNITUDE_MESSAGE


@pytest.mark.parametrize(
    ("kind", "expression", "steps"),
    [
        ("Text", "text(1)", 1),
        ("Bool", f"startsWith({LONG}, {LONG})", 1),
        ("Bool", f"contains({LONG}, {LONG})", 1 + 1),
        ("Text", f"trim({LONG})", 1 + 1 + 1),
        ("Int", f'count(split({LONG}, ","))', 2 + 3),
        ("Int", 'count(split("a,b", ","))', 2 + 3),
        ("Int", 'daysBetween(issuedOn(), date("2027-02-18"))', 2),
        ("Int", "max(1, 2)", 1),
        ("Opt(Int)", "max([1, 2, 3])", 2 + 3),
        ("Int", "sum([1, 2, 3])", 2 + 3),
        ("Int", "count(present([some(1), none]))", 4 + 2),
        ("Int", f"count(distinct([{LONG}, {LONG}]))", 3 + 2 + 5),
        ("Bool", "isEmpty([1, 2])", 2),
        ("Opt(Text)", f"first([{LONG}])", 2 + 1 + 1),
        # All elements are charged for, although the first decides.
        ("Bool", "any([1, 2, 3], fn(x) => x + 1 > 0)", 2 + 3 * 2),
        ("Bool", "all([1, 2, 3], fn(x) => x < 0)", 2 + 3),
        ("Int", f"count(sortBy([1, 2], fn(x) => {LONG}))", 3 + 2 + 2),
        ("Bool", f"isSome(latestBy([1, 2], fn(x) => {LONG}))", 3 + 2 + 2),
        ("Int", "count(groupBy([1, 2], fn(x) => 1))", 3 + 2 + (1 + (1 + 1 + 3))),
        ("Int", f"count(groupBy([1, 2], fn(x) => {LONG}))", 3 + 2 + 2 + (1 + (1 + 2 + 3))),
    ],
)
def test_what_a_call_costs(kind: str, expression: str, steps: int) -> None:
    rules = f"language 2; field x: {kind} = {expression};"

    assert derive_rules(rules).steps == steps
    assert evaluate(rules).steps == steps


def test_the_nodes_say_what_a_reader_needs() -> None:
    rules = 'language 2; field a: Text = concat(text(1.50), text(max(some(date("2027-02-18")), none) == none));'

    assert format_steps(rules) == [
        '2 CONST type="Dec(2)" value="1.50"',
        '3 OP op="text" of="Dec" value="1.5" <- 2',
        '4 CONST type="Date" value="2027-02-18"',
        '5 OP op="some" <- 4',
        '6 CONST type="Opt(Date)" value=null',
        '7 OP op="max" of="Date" value=null <- 5, 6',
        '8 OP op="==" of="Opt(Date)" value=true <- 7, 6',
        '9 OP op="text" of="Bool" value="true" <- 8',
        '10 OP op="concat" value="1.5true" <- 3, 9',
    ]


def test_the_node_of_a_loop_says_positions() -> None:
    rules = """language 2;
field a: Bool = any([1, 2], fn(x) => x == 2);
field b: Bool = all([1, 2], fn(x) => x < 5);
field c: List(Int) = sortBy([2, 1], fn(x) => x);
field d: Opt(Int) = latestBy([2, 1], fn(x) => x);
field e: Int = count(groupBy([2, 1, 2], fn(x) => x));
"""

    loops = [step.split("fn=")[1].split("] ", 1)[1].split(" <-")[0] for step in format_steps(rules) if "fn=" in step]
    assert loops == [
        "position=1",
        "position=null",
        "order=[1, 0]",
        "position=0",
        'groups=[{"key": 2, "positions": [0, 2]}, {"key": 1, "positions": [1]}]',
    ]


def test_level_1_has_none_of_them() -> None:
    with pytest.raises(Exception, match="there is no function `sum`"):
        count_steps("Int", "sum([1])")
