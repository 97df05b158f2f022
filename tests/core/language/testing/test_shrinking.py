"""Shrinking: what comes out fails like what went in, is as simple as can be found, and was found in few tries."""

from collections.abc import Callable
from typing import Any

import pytest

from bpc.core.language.source import Source, Span
from bpc.core.language.testing.generation import Case, CaseGenerator
from bpc.core.language.testing.shrinking import MAX_TRIES, get_simplest, shrink_case, shrink_value
from bpc.core.language.typed import Const, FixtureFact, Fixtures, TypedClaim, TypedProperty
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Map, Opt, Qty, Record, Type
from tests.measurements import choose_effort

HERE = Span(0, 0)
ANYTHING = Const(BOOL, True, HERE)
BATTERY, PCF = FactRecordType("Battery", 1), FactRecordType("PCF", 1)
PART = Record((("mass", Dec(2)), ("name", Opt(TEXT))))


def create_property(*types: Type, facts: tuple[FactRecordType, ...] = ()) -> TypedProperty:
    inputs = Fixtures(
        "SKU-1", "Product", "2027-02-18", tuple(FixtureFact(fact, f"key:{fact}", None, HERE) for fact in facts)
    )
    claims = tuple(TypedClaim(f"x{number}", kind, ANYTHING, ANYTHING, HERE) for number, kind in enumerate(types))
    return TypedProperty("p", 100, 0, inputs, claims, Source("rules.bpc", ""), HERE)


@pytest.mark.parametrize(
    ("kind", "value", "fails", "least"),
    [
        (INT, 734_512, lambda n: n > 99, 100),
        (INT, -734_512, lambda n: abs(n) > 99, 100),
        (INT, -734_512, lambda n: n < -99, -100),
        (INT, 734_512, lambda n: True, 0),
        (Dec(2), 734_512, lambda n: n > 250, 300),
        (Dec(2), 731, lambda n: 250 < n < 800, 300),
        (Dec(2), 731, lambda n: 720 < n < 800, 730),
        (Dec(2), 731, lambda n: n % 100 == 31, 731),
        (Qty("kg"), 5 * 10**29 + 7, lambda n: n > 10**18, 2 * 10**18),
        (Qty("kg"), 123456789012345678, lambda n: 12 * 10**16 < n < 10**18, 121 * 10**15),
        (BOOL, True, lambda b: b, True),
        (BOOL, True, lambda b: True, False),
        (TEXT, "what a long text", lambda t: "l" in t, "l"),
        (TEXT, "zoé", lambda t: len(t) == 3, "aaa"),
        (TEXT, "zoé", lambda t: t.endswith("é") and len(t) > 1, "aé"),
        (DATE, "2077-11-23", lambda d: d > "2027-02-18", "2027-02-19"),
        (DATE, "1931-11-23", lambda d: d != "2000-01-01", "2000-01-02"),
        (DATE, "1931-11-23", lambda d: d < "1999-12-31", "1999-12-30"),
        (Opt(INT), 12, lambda o: True, None),
        (Opt(INT), 12, lambda o: o is not None, 0),
        (List(INT), [5, 8, 13, 21], lambda xs: sum(xs) > 12, [13]),
        (List(INT), [5, 8, 13, 21], lambda xs: len(xs) > 2, [0, 0, 0]),
        (Map(INT), {"a": 5, "b": 8, "c": 13}, lambda m: m.get("b", 0) > 3, {"b": 4}),
        (PART, {"mass": 512, "name": "bolt"}, lambda r: r["mass"] > 7, {"mass": 100, "name": None}),
        (
            List(PART),
            [{"mass": 5, "name": "bolt"}] * 3,
            lambda xs: any(x["name"] for x in xs),
            [{"mass": 0, "name": "a"}],
        ),
    ],
)
def test_a_value_becomes_the_simplest_that_still_fails(
    kind: Type, value: Any, fails: Callable[[Any], bool], least: Any
) -> None:
    # Once more, as `shrunk_case` does it: what was found in one round may allow more in the next.
    shrunk_value = shrink_value(kind, shrink_value(kind, value, fails), fails)

    assert shrunk_value == least


@pytest.mark.parametrize(
    "kind", [BOOL, INT, TEXT, DATE, Dec(2), Qty("kg"), Opt(INT), List(INT), Map(INT), PART], ids=str
)
def test_the_simplest_value_is_found_at_once_where_every_value_fails(kind: Type) -> None:
    cases = CaseGenerator(create_property(kind), 1)
    value = next(
        candidate_value
        for i in range(100)
        if (candidate_value := cases.draw_case(i).variables[0]) != get_simplest(kind)
    )
    tried_values: list[Any] = []

    def fails(candidate: Any) -> bool:
        tried_values.append(candidate)
        return True

    assert shrink_value(kind, value, fails) == get_simplest(kind)
    assert len(tried_values) == 1


def test_members_that_do_not_matter_are_absent_in_the_end() -> None:
    of = create_property(INT, facts=(BATTERY, PCF))
    case = next(case for i in range(200) if is_heavy(case := CaseGenerator(of, 0).draw_case(i)))

    smallest_case = shrink_case(of, case, 0, is_heavy)

    assert smallest_case == Case(case.number, ({"mass_kg": 1_000_000}, {"total_gco2e": 100}), (0,))


def is_heavy(case: Case) -> bool:
    battery, pcf = case.facts
    mass, total = battery.get("mass_kg"), pcf.get("total_gco2e")
    return isinstance(mass, int) and isinstance(total, int) and mass > 10_000 and total > 0


def test_only_the_variable_of_the_claim_that_failed_is_shrunk() -> None:
    of = create_property(TEXT, INT)
    case = Case(3, (), ("something", 500))

    assert shrink_case(of, case, 1, lambda candidate: True) == Case(3, (), ("something", 0))


def get_number(case: Case) -> int:
    return sum(value for members in case.facts for value in members.values() if isinstance(value, int))


AWKWARD: list[Callable[[Case], bool]] = [
    lambda case: True,
    lambda case: get_number(case) % 3 == 0,
    lambda case: len(repr(case)) % 2 == 0,
    lambda case: sum(map(ord, repr(case))) % 5 < 2,
    lambda case: len(repr(case.variables)) > 60,
]


@pytest.mark.parametrize("fails", AWKWARD)
def test_the_result_fails_and_takes_a_bounded_number_of_tries(fails: Callable[[Case], bool]) -> None:
    of = create_property(List(PART), facts=(BATTERY, PCF))
    cases = CaseGenerator(of, 9)
    for case in [
        case for i in range(choose_effort(test=15, shown=100, campaign=1000)) if fails(case := cases.draw_case(i))
    ]:
        tried: list[Case] = []

        def record_try(candidate: Case, tried: list[Case] = tried) -> bool:
            tried.append(candidate)
            return fails(candidate)

        smallest_case = shrink_case(of, case, 0, record_try)

        assert fails(smallest_case)
        assert len(tried) <= MAX_TRIES
        assert len({repr(candidate) for candidate in tried}) == len(tried), "no case is tried twice"
        assert shrink_case(of, case, 0, fails) == smallest_case, "the same case shrinks to the same"
