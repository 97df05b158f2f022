"""BPC-COST-1 in the reference evaluator: what each construct costs, counted by hand, and where that ends a run."""

import time

import pytest

from bpc.core.language.evaluation import MAX_STEPS, STEPS_MESSAGE, TEXT_LENGTH_MESSAGE, RuleLimitExceeded
from bpc.core.language.reference.accounting import measure_size
from tests.core.language.reference.derivation import (
    catch_failure,
    create_component,
    derive_rules,
    read_program_and_facts,
)
from tests.measurements import allow_seconds

PARTS = [create_component(str(number)) for number in range(3)]
LONG = '"' + "x" * 64 + '"'


@pytest.mark.parametrize(
    ("type_text", "expression", "steps"),
    [
        # A block weighs what it holds, at least 1; literals, variables, lets and parentheses weigh nothing.
        ("Int", "1", 1),
        ("Int", "let a = 1; let b = (2); a", 1),
        ("Int", "let a = 1; a + 2 - 3", 2),
        ("Date", 'date("2027-02-18")', 1),
        ("Int", 'assert(true, "E", "m"); 1', 1),
        ("Int", 'let a = 1; assert(a < 2, "E", "m"); a + 1', 3),
        ("Bool", "!true", 1),
        ("Dec(2)", "toDec(2, 1.5)", 1),
        ("Bool", 'isSome(getFact("Battery", "x"))', 2),
        ("Int", 'requireSome(some(1), "E", "m")', 2),
        # A branch is a block of its own; so is all behind an `else`.
        ("Int", "if (true) then 1 else 2", 2),
        ("Int", "if (false) then 1 else if (false) then 2 else 3", 3),
        ("Int", "let a = 1; if (a == 2) then a else if (a == 1) then a + 1 else a", 5),
        ("Bool", 'emitCompliance("C", if (true) then "PASS" else "FAIL", "m")', 3),
        # So is the right side of `&&` and `||`.
        ("Bool", "true && false && true", 3),
        ("Bool", "false && true && true", 2),
        ("Bool", "false || true", 2),
        ("Bool", "true || true", 1),
        # What goes into something larger is charged its size less one.
        ("List(Int)", "[1, 2, 3]", 1 + 3),
        ("Int", "count([[1], [2, 3]])", 4 + 3),
        ("Opt(Int)", "some(1)", 1),
        ("Opt(List(Int))", "some([1, 2])", 2 + 2 + 2),
        ("Record(a: Int, b: List(Int))", "{ b: [1], a: 2 }", 2 + 1 + 3),
        ("Text", LONG, 1 + 1),
        ("Text", f"let t = {LONG}; concat(t, t)", 1 + 2 + 2),
        # A loop is charged for all its elements when it starts, and for its results when it ends.
        ("Int", 'count(map(getFactsByPrefix("Component", "component:"), fn(c) => 1))', 3 + 3 + 3),
        ("Int", "fold([1, 2, 3], 0, fn(a, x) => a + x)", 2 + 3),
        ("Int", f'count([fold([1, 2], "", fn(a, x) => concat(a, {LONG}))])', 4 + 2 + (1 + 2) + (1 + 2) + 2),
        ("Int", "count(map([1, 2], fn(x) => [x, x]))", 3 + 2 + 4),
        ("Int", "count(filter([[1], [2]], fn(x) => true))", 5 + 2 + 2),
        ("Int", "count(map([1, 2], fn(x) => count(map([1], fn(y) => x + y))))", 3 + 2 * 3 + 2),
        ("Int", "count(map([1, 2], fn(x) => if (x == 1) then x + 1 else x))", 3 + 2 * 2 + 1 + 1),
        # What looks at every element is charged for it.
        ("Dec(1)", "sumDec(1, [1.5, 2.5])", 2 + 2),
        ("Qty(kg)", 'sumQty("kg", [qty(1, kg)])', 2 + 1),
        ("Bool", "[1, 2] == [1, 2]", 3 + 3),
        ("Bool", "some([1]) != none", 3 + 1 + 2),
        ("Bool", "none == some([1])", 3 + 1 + 1),
        ("Bool", "{ a: [1], b: 2 } == { b: 2, a: [1] }", 5 + 2 + 4),
        ("Bool", f"{LONG} == {LONG}", 1),
    ],
)
def test_an_expression_costs(type_text: str, expression: str, steps: int) -> None:
    assert derive_rules(f"field f: {type_text} = {expression};", PARTS).steps == steps


def test_fields_are_computed_once_and_share_one_counter() -> None:
    derivation = derive_rules(
        'field a: List(Int) = [1, 2]; field b: Bool = field("a") == field("a"); field c: Int = 1;'
    )

    assert derivation.steps == (1 + 2) + (3 + 3) + 1


def test_a_run_may_take_exactly_as_many_steps_as_there_are() -> None:
    rules = "field f: Int = fold([1, 2, 3], 0, fn(a, x) => a + x);"
    total = derive_rules(rules).steps

    assert derive_rules(rules, max_steps=total).fields == {"f": 6}
    for less in range(total):
        assert catch_failure(rules, max_steps=less).says == STEPS_MESSAGE


@pytest.mark.parametrize(
    ("max_steps", "rules", "where"),
    [
        (0, "field f: Int = 1 + 1;", "f"),
        (2, "field f: List(Int) = [1, 2];", "f"),
        (3, "field f: Int = count(map([1], fn(x) => x));", "map([1], fn(x) => x)"),
        (1, "field f: Bool = true && false;", "&&"),
        (1, "field f: Bool = [1] == [1];", None),
        (4, "field f: Bool = [1] == [1];", "=="),
    ],
)
def test_the_charge_that_passes_the_limit_says_where(max_steps: int, rules: str, where: str | None) -> None:
    failure = catch_failure(rules, max_steps=max_steps)

    assert isinstance(failure, RuleLimitExceeded)
    assert (failure.field, failure.says) == ("f", STEPS_MESSAGE)
    assert rules[failure.span.start : failure.span.end] == (where or "f")


def test_a_text_may_have_65536_characters_and_no_more() -> None:
    doubled = "".join(f"let t{step + 1} = concat(t{step}, t{step}); " for step in range(10))
    rules = f"field f: Int = let t0 = {LONG}; {doubled}"

    assert derive_rules(f"{rules} count([t10]);").fields == {"f": 1}
    failure = catch_failure(f'{rules} count([concat(t10, "x")]);')

    assert isinstance(failure, RuleLimitExceeded)
    assert failure.says == TEXT_LENGTH_MESSAGE


@pytest.mark.parametrize(
    "expression",
    [
        "count(map(xs, fn(a) => map(xs, fn(b) => map(xs, fn(c) => map(xs, fn(d) => xs)))))",
        "count([map(xs, fn(a) => ys)]) + count([map(ys, fn(b) => map(ys, fn(a) => ys))])",
        f"count([fold(xs, {LONG}, fn(a, b) => concat(a, a))])",
        "count([v12, v12]) + count([v12, v12, v12])",
        "fold(xs, 1, fn(a, b) => a + fold(xs, 1, fn(c, d) => c + fold(xs, 1, fn(e, f) => e)))",
    ],
)
@pytest.mark.slow
def test_a_rule_that_would_build_or_do_too_much_ends_soon(expression: str) -> None:
    facts = [create_component(f"{number:04}") for number in range(1000)]
    lets = 'let xs = getFactsByPrefix("Component", ""); let ys = map(xs, fn(x) => xs); let v0 = map(xs, fn(x) => 1); '
    lets += "".join(f"let v{step + 1} = [v{step}, v{step}]; " for step in range(12)) if "v12" in expression else ""
    start = time.process_time()

    failure = catch_failure(f"field f: Int = {lets}{expression};", facts)

    assert isinstance(failure, RuleLimitExceeded)
    assert time.process_time() - start < allow_seconds(10)


def test_measuring_a_value_ends_when_the_room_does() -> None:
    value: list[object] = []
    for _ in range(100):
        value = [value, value]

    assert MAX_STEPS < measure_size(value, MAX_STEPS) <= MAX_STEPS + 65


def test_a_size_counts_parts_and_every_64_characters() -> None:
    program, world = read_program_and_facts('field f: Bool = isSome(getFact("Component", "component:0"));', PARTS)
    record = world.facts.get(program.facts[0], "component:0")

    assert [measure_size(value, 99) for value in (1, None, True, record, "x" * 63, "x" * 64)] == [1, 1, 1, 1, 1, 2]
    assert measure_size([[1, 2], {"a": "x" * 128, "b": []}, None], 99) == 1 + 3 + (1 + 3 + 1) + 1
