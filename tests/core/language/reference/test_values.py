"""The reference evaluator's numbers are exact: every result is the true fraction, rounded half-even once."""

from fractions import Fraction
from random import Random  # noqa: TID251 (seeded)

import pytest

from bpc.core.language.reference.values import (
    calculate,
    compare,
    divide_half_even,
    format_decimal,
    get_scale,
    is_below_limit,
    value_to_json,
)
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, List, Map, Opt, Qty, Record, Type
from tests.core.language.reference.derivation import derive_value


def to_fraction(kind: Type, count: int) -> Fraction:
    return Fraction(count, 10 ** get_scale(kind))


def round_exactly(exact: Fraction, kind: Type) -> int:
    # Python rounds fractions half-even too.
    scale: int = 10 ** get_scale(kind)
    return round(exact * scale)


@pytest.mark.parametrize(
    ("numerator", "denominator", "nearest"),
    [(5, 2, 2), (7, 2, 4), (-5, 2, -2), (-7, 2, -4), (5, -2, -2), (1, 3, 0), (2, 3, 1), (-2, 3, -1), (0, -7, 0)],
)
def test_a_half_goes_to_the_even_neighbour(numerator: int, denominator: int, nearest: int) -> None:
    assert divide_half_even(numerator, denominator) == nearest


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("+", INT, INT, INT),
        ("+", Dec(3), INT, Dec(3)),
        ("-", INT, Dec(3), Dec(3)),
        ("-", Qty("kg"), Qty("kg"), Qty("kg")),
        ("*", INT, INT, INT),
        ("*", Dec(2), Dec(3), Dec(5)),
        ("*", Dec(18), Dec(18), Dec(36)),
        ("*", Qty("kg"), Dec(6), Qty("kg")),
        ("*", INT, Qty("kg"), Qty("kg")),
        ("*", Qty("V"), Qty("A"), Qty("W")),
        ("/", INT, INT, Dec(18)),
        ("/", Dec(36), Dec(2), Dec(18)),
        ("/", Dec(2), Dec(36), Dec(18)),
        ("/", Qty("kg"), Dec(4), Qty("kg")),
        ("/", Qty("kg"), Qty("kg"), Dec(18)),
        ("/", Qty("W"), Qty("V"), Qty("A")),
    ],
    ids=str,
)
def test_arithmetic_is_the_exact_fraction_rounded_once(op: str, left: Type, right: Type, result: Type) -> None:
    rng = Random(f"{op} {left} {right}")
    for _ in range(300):
        one = rng.randint(-(10 ** rng.randint(0, 40)), 10 ** rng.randint(0, 40))
        other = rng.randint(1, 10 ** rng.randint(0, 40)) * rng.choice([1, -1])

        count = calculate(op, (left, one), (right, other), result)

        a, b = to_fraction(left, one), to_fraction(right, other)
        exact = a + b if op == "+" else a - b if op == "-" else a * b if op == "*" else a / b
        assert count == round_exactly(exact, result)


def test_the_limit_is_of_the_number_and_not_of_its_count() -> None:
    for kind in (INT, Dec(2), Dec(36), Qty("kg")):
        limit = 10 ** (36 + get_scale(kind))
        assert is_below_limit(kind, limit - 1)
        assert is_below_limit(kind, 1 - limit)
        assert not is_below_limit(kind, limit)
        assert not is_below_limit(kind, -limit)


def test_decs_compare_by_value_at_any_scales() -> None:
    assert compare("==", (Dec(1), 15), (Dec(3), 1500))
    assert compare("<", (Dec(36), 1), (Dec(0), 1))
    assert not compare(">=", (Dec(0), -1), (Dec(2), -99))


def test_texts_compare_by_code_point() -> None:
    # In UTF-16 the order of these two is the other one.
    assert compare("<", (TEXT, "\uffff"), (TEXT, "\U00010000"))
    assert compare("!=", (TEXT, "é"), (TEXT, "e\u0301"))


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (BOOL, True, True),
        (INT, -7, -7),
        (DATE, "2027-02-18", "2027-02-18"),
        (Dec(0), -5, "-5"),
        (Dec(2), 0, "0.00"),
        (Dec(2), -5, "-0.05"),
        (Dec(6), 75500000, "75.500000"),
        (Qty("kg"), 0, {"unit": "kg", "value": "0"}),
        (Qty("kg"), -(5 * 10**17), {"unit": "kg", "value": "-0.5"}),
        (Qty("kg"), 100 * 10**18, {"unit": "kg", "value": "100"}),
        (Qty("kg"), 1, {"unit": "kg", "value": "0.000000000000000001"}),
        (Opt(Dec(1)), None, None),
        (Opt(Dec(1)), 15, "1.5"),
        (List(Opt(INT)), [1, None], [1, None]),
        (Map(Dec(1)), {"b": 1}, {"b": "0.1"}),
        (Record((("b", INT), ("a", Opt(Dec(0))))), {"a": 3, "b": 4}, {"a": "3", "b": 4}),
    ],
)
def test_a_value_is_written_as_passports_show_it(kind: Type, value: object, shown: object) -> None:
    assert value_to_json(kind, value) == shown


def test_a_decimal_has_all_its_decimals() -> None:
    assert [format_decimal(count, 3) for count in (0, 1, -1, 12345, -1000)] == [
        "0.000",
        "0.001",
        "-0.001",
        "12.345",
        "-1.000",
    ]


@pytest.mark.parametrize(
    ("type_text", "expression", "shown"),
    [
        ("Dec(2)", "toDec(2, 0.125)", "0.12"),
        ("Dec(2)", "toDec(2, 0.135)", "0.14"),
        # Rounded twice, as the language says: 5000000000000000001 / 10^21 is a little more than 0.005.
        ("Dec(2)", "toDec(2, 5000000000000000001 / 1000000000000000000000)", "0.00"),
        ("Dec(18)", "1 / 3", "0.333333333333333333"),
        ("Dec(18)", "-2 / 3", "-0.666666666666666667"),
        ("Qty(Wh)", "qty(3.7, V) * qty(2.5, Ah)", {"unit": "Wh", "value": "9.25"}),
        ("Qty(kg)", 'convert("g", "kg", qty(1, g))', {"unit": "kg", "value": "0.001"}),
        ("Qty(h)", 'convert("min", "h", qty(1, min))', {"unit": "h", "value": "0.016666666666666667"}),
        ("Dec(18)", "amount(qty(2.5, kg))", "2.500000000000000000"),
        ("Qty(kg)", 'sumQty("kg", [qty(1, kg), qty(-0.5, kg)])', {"unit": "kg", "value": "0.5"}),
        ("Dec(3)", "sumDec(3, [1.5, -0.5])", "1.000"),
        ("Dec(2)", "-toDec(2, 0)", "0.00"),
        ("Text", 'concat("a", productSku(), productName())', "aSKU-1Cell"),
        ("Date", "issuedOn()", "2027-02-18"),
        ("Opt(Int)", 'recordGet({ a: 1 }, "a")', 1),
        ("Bool", '"1.0" == "1.00"', False),
        ("Bool", "1.0 == 1.00", True),
    ],
)
def test_an_expression_gives(type_text: str, expression: str, shown: object) -> None:
    assert derive_value(type_text, expression) == shown
