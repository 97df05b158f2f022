"""Numbers in rules are exact: what rounds, what does not, and how large a number may get (docs/rules/language.md)."""

from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.language.evaluating.runtime import divide_half_even
from bpc.core.language.evaluation import MAGNITUDE_MESSAGE, ZERO_MESSAGE, DivisionByZero, RuleLimitExceeded
from tests.core.language.evaluating.evaluation import create_fact, evaluate, evaluate_expression, evaluate_failure

LARGEST = "9" * 36


@pytest.mark.parametrize(
    ("kind", "expression", "result"),
    [
        ("Int", "1 + 2 - 4", -1),
        ("Int", "2 * 3 * -4", -24),
        ("Int", "-(3)", -3),
        ("Int", "2 + 3 * 4", 14),
        ("Int", "(2 + 3) * 4", 20),
        ("Dec(2)", "1.50 + 0.25", "1.75"),
        ("Dec(2)", "let x = 0.25; x + 3", "3.25"),
        ("Dec(2)", "let i = 3; let x = 0.25; i - x", "2.75"),
        ("Dec(2)", "let x = 0.25; x - x", "0.00"),
        ("Dec(1)", "let x = -0.5; x", "-0.5"),
        ("Dec(0)", "toDec(0, 7)", "7"),
        ("Dec(3)", "let a = 0.5; let b = 0.25; a * b", "0.125"),
        ("Dec(1)", "let a = 0.5; a * 3", "1.5"),
        ("Dec(18)", "1 / 3", "0.333333333333333333"),
        ("Dec(18)", "-2 / 3", "-0.666666666666666667"),
        ("Dec(18)", "let a = 1.5; let b = 0.25; a / b", "6.000000000000000000"),
        ("Dec(18)", "let a = 1.5; a / 2", "0.750000000000000000"),
        ("Dec(18)", "let b = 0.5; 3 / b", "6.000000000000000000"),
        ("Dec(18)", "let b = -0.5; 3 / b", "-6.000000000000000000"),
        ("Dec(18)", "let b = 3; 2 / b", "0.666666666666666667"),
        ("Dec(18)", "let b = -3; 2 / b", "-0.666666666666666667"),
        ("Dec(18)", "let a = 0.000000000000000001; a * a / 0.1", "0.000000000000000000"),
        ("Dec(2)", "toDec(2, 1)", "1.00"),
        ("Dec(4)", "let x = 1.25; toDec(4, x)", "1.2500"),
        ("Dec(1)", "let x = 1.25; toDec(1, x)", "1.2"),
        ("Dec(1)", "let x = 1.35; toDec(1, x)", "1.4"),
        ("Dec(1)", "let x = -1.25; toDec(1, x)", "-1.2"),
        ("Dec(1)", "let x = -1.35; toDec(1, x)", "-1.4"),
        ("Dec(0)", "let x = 0.5; toDec(0, x)", "0"),
        ("Dec(0)", "let x = 1.5; toDec(0, x)", "2"),
    ],
)
def test_arithmetic(kind: str, expression: str, result: object) -> None:
    assert evaluate_expression(kind, expression) == result


def test_a_quotient_made_shorter_rounds_twice() -> None:
    assert evaluate_expression("Dec(2)", "toDec(2, 5000000000000000001 / 1000000000000000000000)") == "0.00"


@pytest.mark.parametrize(
    ("kind", "expression", "unit", "amount"),
    [
        ("Qty(kg)", "qty(1.5, kg) + qty(0.5, kg)", "kg", "2"),
        ("Qty(kg)", "qty(1.5, kg) - qty(2, kg)", "kg", "-0.5"),
        ("Qty(kg)", "-qty(1.5, kg)", "kg", "-1.5"),
        ("Qty(kg)", "qty(1.5, kg) - qty(1.5, kg)", "kg", "0"),
        ("Qty(kg)", "qty(100, kg)", "kg", "100"),
        ("Qty(kg)", "qty(1.5, kg) * 2", "kg", "3"),
        ("Qty(kg)", "2 * qty(1.5, kg)", "kg", "3"),
        ("Qty(kg)", "qty(0.000000000000000001, kg) * 0.5", "kg", "0"),
        ("Qty(kg)", "qty(0.000000000000000003, kg) * 0.5", "kg", "0.000000000000000002"),
        ("Qty(kg)", "0.5 * qty(0.000000000000000003, kg)", "kg", "0.000000000000000002"),
        ("Qty(kg)", "qty(1, kg) / 3", "kg", "0.333333333333333333"),
        ("Qty(kg)", "qty(1, kg) / 0.5", "kg", "2"),
        ("Qty(kg)", "let d = -0.5; qty(1, kg) / d", "kg", "-2"),
        ("Qty(gCO2e)", "qty(2.5, gCO2e_per_kWh) * qty(3, kWh)", "gCO2e", "7.5"),
        ("Qty(gCO2e_per_kWh)", "qty(10, gCO2e) / qty(4, kWh)", "gCO2e_per_kWh", "2.5"),
        ("Qty(kg)", 'convert("g", "kg", qty(1, g))', "kg", "0.001"),
        ("Qty(g)", 'convert("kg", "g", qty(1.5, kg))', "g", "1500"),
        ("Qty(year)", 'convert("month", "year", qty(1, month))', "year", "0.083333333333333333"),
        ("Qty(kg)", 'convert("kg", "kg", qty(1.5, kg))', "kg", "1.5"),
        ("Qty(kg)", 'toQty("kg", 2)', "kg", "2"),
        ("Qty(kg)", 'let x = 0.25; toQty("kg", x)', "kg", "0.25"),
        ("Qty(kg)", 'sumQty("kg", [qty(1, kg), qty(0.5, kg)])', "kg", "1.5"),
        ("Qty(kg)", 'sumQty("kg", filter([qty(1, kg)], fn(q) => false))', "kg", "0"),
    ],
)
def test_quantities(kind: str, expression: str, unit: str, amount: str) -> None:
    assert evaluate_expression(kind, expression) == {"unit": unit, "value": amount}


def test_a_quantity_over_one_of_its_unit_is_a_number() -> None:
    assert evaluate_expression("Dec(18)", "qty(1, kg) / qty(3, kg)") == "0.333333333333333333"
    assert evaluate_expression("Dec(18)", "amount(qty(-1.5, kg))") == "-1.500000000000000000"


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 < 2", True),
        ("2 <= 1", False),
        ("let x = 1.50; x == 1.5", True),
        ("let x = 0.01; x > 0.005", True),
        ("let a = 1.5; let b = 1.50000; a == b", True),
        ("let a = 1.5; let b = 1.50001; a < b && b > a && a != b && a <= b && b >= a", True),
        ("let x = 3.00; x == 3", True),
        ("qty(1, kg) < qty(1.000000000000000001, kg)", True),
        ('date("2027-02-18") < date("2027-10-01")', True),
        ('"a" < "b" && "Z" < "a" && "a" < "ab" && "\\uffff" < "\\ud83d\\ude00"', True),
        ("true == false", False),
        ("true != false", True),
    ],
)
def test_comparisons(expression: str, result: bool) -> None:
    assert evaluate_expression("Bool", expression) is result


def test_sums_are_exact_and_take_the_scale_asked_for() -> None:
    assert evaluate_expression("Dec(4)", "sumDec(4, [0.25, 0.50])") == "0.7500"
    assert evaluate_expression("Dec(2)", "sumDec(2, filter([1.5], fn(x) => false))") == "0.00"


def test_a_sum_may_pass_the_limit_on_its_way() -> None:
    numbers = f"[{LARGEST}.0, {LARGEST}.0, -{LARGEST}.0]"

    assert evaluate_expression("Dec(1)", f"sumDec(1, {numbers})") == f"{LARGEST}.0"


@pytest.mark.parametrize(
    ("kind", "expression", "place"),
    [
        ("Int", f"let x = {LARGEST}; x + 1", "+"),
        ("Int", f"let x = -{LARGEST}; x - 1", "-"),
        ("Int", "let x = 1000000000000000000; x * x", "*"),
        ("Dec(18)", f"let x = {LARGEST}; x / 0.1", "/"),
        ("Dec(0)", f"let x = {LARGEST}.5; toDec(0, x)", "toDec"),
        ("Qty(g)", f'convert("t", "g", qty({LARGEST}, t))', "convert"),
        ("Dec(1)", f"sumDec(1, [{LARGEST}.0, 1.0])", "sumDec"),
        ("Qty(g)", f'sumQty("g", [qty({LARGEST}, g), qty(1, g)])', "sumQty"),
        ("Qty(g)", f"qty({LARGEST}, g) * 2", "*"),
    ],
)
def test_a_result_that_is_not_below_10_to_the_36_is_refused_at_its_operator(
    kind: str, expression: str, place: str
) -> None:
    failure, text = evaluate_failure(f"field x: {kind} = {expression};")

    assert type(failure) is RuleLimitExceeded
    assert (failure.says, failure.field) == (MAGNITUDE_MESSAGE, "x")
    assert text.startswith(place)


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("Int", f"{LARGEST}"),
        ("Int", f"let x = {LARGEST}; -x"),
        ("Dec(18)", f"toDec(18, {LARGEST})"),
        ("Qty(g)", f'toQty("g", {LARGEST})'),
        ("Dec(18)", f"amount(qty(-{LARGEST}, g))"),
        ("Qty(t)", f'convert("g", "t", qty({LARGEST}, g))'),
    ],
)
def test_the_largest_numbers_are_numbers(kind: str, expression: str) -> None:
    evaluate(f"field x: {kind} = {expression};")


@pytest.mark.parametrize("zero", ["0", "0.0", "(let x = 0; x)", "(let x = 0.00; x)"])
def test_division_by_zero_is_refused_at_its_operator_before_its_size_is_looked_at(zero: str) -> None:
    failure, text = evaluate_failure(f"field a.b: Dec(18) = {LARGEST} / {zero};")

    assert type(failure) is DivisionByZero
    assert (failure.says, failure.field, text) == (ZERO_MESSAGE, "a.b", "/")


def test_dividing_by_a_quantity_of_zero_is_refused_too() -> None:
    assert type(evaluate_failure("field x: Dec(18) = qty(1, g) / qty(0, g);")[0]) is DivisionByZero


def test_zero_has_no_sign() -> None:
    battery = create_fact("Battery", "b", mass_kg="-0.0")
    rule = 'unwrapOr(recordGet(requireSome(getFact("Battery", "b"), "E", "m"), "mass_kg"), 1)'

    assert evaluate_expression("Dec(6)", rule, battery) == "0.000000"
    assert evaluate_expression("Dec(6)", f"-({rule})", battery) == "0.000000"


@given(st.integers(), st.integers().filter(bool))
def test_half_is_the_nearest_integer_and_the_even_one_between_two(numerator: int, denominator: int) -> None:
    shared = gcd(numerator, denominator)
    quotient = divide_half_even(numerator, denominator)

    distance = abs(quotient * denominator - numerator) * 2
    assert distance <= abs(denominator)
    assert distance < abs(denominator) or quotient % 2 == 0
    assert quotient == divide_half_even(numerator // shared, denominator // shared)


@given(st.integers(-(10**24), 10**24), st.integers(0, 6))
def test_every_way_to_round_rounds_alike(count: int, scale: int) -> None:
    """toDec rounds by code of its own, which the generator writes for a known divisor."""
    literal = f"{'-' if count < 0 else ''}{abs(count) // 10**9}.{abs(count) % 10**9:09}"

    text = evaluate_expression(f"Dec({scale})", f"let x = {literal}; toDec({scale}, x)")

    assert int(str(text).replace(".", "")) == divide_half_even(count, 10 ** (9 - scale))
