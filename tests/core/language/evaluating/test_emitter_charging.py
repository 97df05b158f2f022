"""BPC-COST-1: what evaluation costs is a matter of the rules and the values, and the same in every mode.

Each number here can be counted by hand from docs/formats/cost.md.
"""

import pytest

from bpc.core.language.evaluating.values import create_size_measure
from bpc.core.language.evaluation import MAX_STEPS, STEPS_MESSAGE, RuleLimitExceeded
from bpc.core.language.types import BOOL, INT, TEXT, List, Map, Opt, Record, Type
from tests.core.language.evaluating.evaluation import count_steps, create_fact, evaluate, evaluate_failure

LONG = "x" * 64
PARTS = [create_fact("Component", f"component:{number}", part="p" * 128) for number in range(5)]


@pytest.mark.parametrize(
    ("kind", "expression", "cost"),
    [
        ("Int", "1", 1),
        ("Int", "let x = 1; x", 1),
        ("Int", "1 + 2", 1),
        ("Int", "1 + 2 * (3 - 4)", 3),
        ("Int", "-(1)", 1),
        ("Int", "let x = 1; -x + 1", 2),
        ("Bool", "!(1 < 2)", 2),
        ("Int", "unwrapOr(some(1), count([1, 2]))", 4),
        ("Int", 'let a = some(1); assert(isSome(a), "E", "m"); requireSome(a, "E", "m")', 4),
        ("Text", "productSku()", 1),
    ],
)
def test_operators_calls_and_literals_with_parts_weigh_one(kind: str, expression: str, cost: int) -> None:
    assert count_steps(kind, expression) == cost


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        # The outer block: the operators and the left side; each right side that is entered: at least 1.
        ("true && true", 1 + 1),
        ("false && (1 < 2)", 1),
        ("true && (1 < 2) && (2 < 1) && (3 < 4)", 3 + 1 + 1),
        ("true || (1 < 2)", 1),
        ("false || (1 < 2) || (2 < 1)", 2 + 1),
        # The `if` and its condition; then the branch.
        ("if (1 < 2) then true else false", 2 + 1),
        ("if (1 < 2) then !true else !!false", 2 + 1),
        ("if (1 > 2) then !true else !!!false", 2 + 3),
        # An `else if` is an `if` inside the `else`.
        ("if (1 > 2) then true else if (1 + 1 > 1) then !true else false", 2 + 3 + 1),
        ("if (1 > 2) then true else if (1 + 1 > 9) then !true else false", 2 + 3 + 1),
    ],
)
def test_blocks_are_charged_when_they_are_entered(expression: str, cost: int) -> None:
    assert count_steps("Bool", expression) == cost


@pytest.mark.parametrize(
    ("kind", "expression", "cost"),
    [
        # 1 for the loop, 1 for the list, n times the lambda; a list of n as a field's value costs n.
        ("List(Int)", "map([1, 2, 3], fn(x) => x + x + x)", 2 + 3 * 2 + 3),
        ("List(Int)", "map([1, 2, 3], fn(x) => x)", 2 + 3 + 3),
        ("Int", "count(filter([1, 2, 3], fn(x) => x > 1))", 3 + 3),
        ("Int", "fold([1, 2, 3], 1 + 1, fn(a, x) => a + x * 2)", 3 + 3 * 2),
        # Nested blocks of a lambda are charged when they are entered.
        ("Int", "fold([1, 2, 3], 0, fn(a, x) => if (x > 1) then a + x else a)", 2 + 3 * 2 + 3),
        ("Int", "count(map([1, 2], fn(x) => map([1, 2, 3], fn(y) => y)))", 3 + 2 * 2 + 2 * 3 + 2 * 3),
    ],
)
def test_loops_are_charged_at_once_for_all_their_elements(kind: str, expression: str, cost: int) -> None:
    assert count_steps(kind, expression) == cost


@pytest.mark.parametrize(
    ("kind", "expression", "cost"),
    [
        ("List(Int)", "[1, 2, 3]", 1 + 3),
        ("List(Text)", f'["{LONG}", "", "{LONG}{LONG}"]', 1 + (1 + 0 + 2) + (2 + 1 + 3)),
        ("Text", f'"{LONG}"', 1 + 1),
        ("Opt(Text)", f'some("{LONG}")', 1 + 1 + 1),
        ("Opt(Text)", "none", 1),
        ("Opt(List(Int))", "some([1, 2])", 2 + 2 + 2),
        ("Record(a: Int, b: List(Int))", "{ a: 1, b: [1, 2] }", 2 + 2 + 4),
        ("Record(a: Opt(Text), b: Text)", f'{{ a: none, b: "{LONG}" }}', 1 + 1 + 3),
        ("List(List(Int))", "[[1], [2, 3]]", 3 + (1 + 2) + 5),
        ("Text", f'concat("{LONG}", "x")', 1 + 1 + 1),
        ("Bool", "[1, 2] == [1]", 3 + 3),
        ("Bool", "some([1, 2]) != none", 3 + 2 + 3),
        ("Bool", "none == some([1, 2])", 3 + 2 + 1),
        ("Bool", f'{{ a: "{LONG}" }} == {{ a: "x" }}', 3 + 1 + 3),
        ("Bool", f'"{LONG}" == "{LONG}"', 1),
        ("Dec(1)", "sumDec(1, [1.5, 2.5])", 2 + 2),
        ("Int", f'count(map([1, 2], fn(x) => "{LONG}"))', 3 + 2 + 2),
        ("Text", f'fold([1, 2], "", fn(a, x) => "{LONG}")', 2 + 2 + 2 + 1),
        ("Int", "count(fold([1, 2], [1], fn(a, x) => [x, x, x]))", 4 + 2 + 6),
        ("Int", "count([some([1, 2])])", 4 + 2 + 2),
    ],
)
def test_values_that_become_part_of_something_are_charged_for_their_size(kind: str, expression: str, cost: int) -> None:
    assert count_steps(kind, expression) == cost


def test_facts_by_prefix_cost_their_number() -> None:
    assert count_steps("Int", 'count(getFactsByPrefix("Component", "component:"))', *PARTS) == 2 + 5
    assert count_steps(
        "Int", 'count(map(getFactsByPrefix("Component", ""), fn(c) => recordGet(c, "part")))', *PARTS
    ) == (3 + 5 + 5 + 5 * 2)


def test_a_field_read_costs_one_whatever_its_size() -> None:
    assert evaluate('field a: List(Int) = [1, 2, 3]; field b: Int = count(field("a"));').steps == 4 + 2


@pytest.mark.parametrize(
    ("expression", "most", "place"),
    [
        ("1 + 2 + 3", 1, "x"),
        ("if (true) then 1 + 1 else 2", 1, "if"),
        ("if (false) then 1 else if (1 < 2) then 2 else 3", 2, "if (1 < 2)"),
        ("count(map([1, 2, 3], fn(x) => x))", 5, "map"),
        ("count([[1, 2, 3]])", 5, "[[1"),
        ('count(getFactsByPrefix("Component", ""))', 4, "getFactsByPrefix"),
        ("if ([1, 2] == [1, 2]) then 1 else 2", 6, "=="),
        ("if (true && true) then 1 else 2", 2, "&&"),
        (f'count([concat("{LONG}", "{LONG}")])', 4, "concat"),
    ],
)
def test_the_charge_that_passes_the_limit_is_refused_at_its_place(expression: str, most: int, place: str) -> None:
    failure, text = evaluate_failure(f"field x: Int = {expression};", *PARTS, max_steps=most)

    assert type(failure) is RuleLimitExceeded
    assert (failure.says, failure.field) == (STEPS_MESSAGE, "x")
    assert text.startswith(place) or place.startswith(text)


def test_exactly_the_limit_is_enough() -> None:
    rules = "field x: List(Int) = map([1, 2, 3], fn(x) => x + x + x);"

    assert evaluate(rules, max_steps=11).steps == 11
    assert evaluate_failure(rules, max_steps=10)[1] == "x"


def test_a_failure_before_the_charge_comes_first() -> None:
    """The size of a loop's results is charged when the loop ends, and that of a list when its parts are there."""
    rule = f'field x: Int = count(map([1, 2], fn(n) => assert(n < 2, "E", "m"); "{LONG}"));'

    assert evaluate_failure(rule, max_steps=8)[0].code == "RULE_ASSERTION_FAILED"
    assert (
        evaluate_failure("field x: Int = count([[1 / 2, 1 / 2], [1 / 0]]);", max_steps=7)[0].code == "DIVISION_BY_ZERO"
    )


def test_values_that_share_parts_are_charged_as_if_they_did_not() -> None:
    """Without that, a few maps would build a value of 10^12 elements."""
    nested = "fold([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [0], fn(a, x) => map(xs, fn(y) => x))"
    rules = f"""
    field x: Int =
      let xs = {"[" + ", ".join(["1"] * 1000) + "]"};
      let two = map(xs, fn(x) => xs);
      count(map(xs, fn(x) => two)) + count({nested});
    """

    failure, text = evaluate_failure(rules)

    assert (failure.says, text[:3]) == (STEPS_MESSAGE, "map")


@pytest.mark.parametrize(
    ("kind", "value", "size"),
    [
        (INT, 5, 1),
        (BOOL, True, 1),
        (TEXT, "x" * 63, 1),
        (TEXT, "x" * 64, 2),
        (Opt(TEXT), None, 1),
        (Opt(TEXT), "x" * 130, 3),
        (List(INT), [1, 2], 3),
        (List(TEXT), ["", "x" * 64], 4),
        (List(Opt(TEXT)), [None, "x" * 64], 4),
        (Map(INT), {"a": 1, "b": 2}, 3),
        (Map(List(INT)), {"a": [1, 2], "b": []}, 5),
        (Record((("a", INT), ("b", TEXT), ("c", List(INT)))), {"a": 1, "b": "x" * 64, "c": [1]}, 6),
    ],
)
def test_sizes(kind: Type, value: object, size: int) -> None:
    assert create_size_measure(kind)(value, MAX_STEPS) == size


def test_measuring_stops_when_the_limit_is_passed() -> None:
    kind: Type = INT
    value: object = 1
    for _ in range(12):
        kind, value = List(kind), [value] * 100

    assert create_size_measure(kind)(value, 1000) > 1000
    record = Record((("a", List(List(INT))), ("b", List(List(INT)))))
    assert 10 < create_size_measure(record)({"a": [[1] * 50] * 10**6, "b": []}, 10) < 100
