"""Values as they are written: the quick writers give exactly what canonical JSON makes of the plain ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.formats import canonical_json
from bpc.core.language.evaluating.values import create_writer, value_to_json
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Map, Opt, Qty, Record, Type

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
COUNTS = st.one_of(st.integers(-(10**40), 10**40), st.integers(-100, 100), st.sampled_from([10**18, -(10**18)]))


def draw_typed_values() -> st.SearchStrategy[tuple[Type, Any]]:
    plain: list[Type] = [BOOL, INT, TEXT, DATE, Dec(0), Dec(1), Dec(18), Qty("kg")]
    types = st.recursive(st.sampled_from(plain), _nest_types, max_leaves=5)
    return types.flatmap(lambda kind: st.tuples(st.just(kind), draw_values(kind)))


def _nest_types(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.text("ab_C", min_size=1, max_size=3)
    members = st.dictionaries(names, inner, min_size=1, max_size=3).map(
        lambda types_by_name: Record(tuple(types_by_name.items()))
    )
    options = inner.filter(lambda kind: not isinstance(kind, Opt)).map(Opt)
    return st.one_of(inner.map(List), inner.map(Map), options, members)


def draw_values(kind: Type) -> st.SearchStrategy[Any]:
    match kind:
        case Dec() | Qty():
            return COUNTS
        case Opt(item):
            return st.one_of(st.none(), draw_values(item))
        case List(item):
            return st.lists(draw_values(item), max_size=3)
        case Map(item):
            return st.dictionaries(TEXTS, draw_values(item), max_size=3)
        case Record(members):
            return st.fixed_dictionaries({name: draw_values(item) for name, item in members})
        case _:
            scalars = {BOOL: st.booleans(), INT: COUNTS, TEXT: TEXTS, DATE: st.dates().map(str)}
            return scalars[kind]  # type: ignore[index]


@given(draw_typed_values())
def test_a_writer_writes_what_canonical_json_makes_of_the_value(typed: tuple[Type, Any]) -> None:
    kind, value = typed

    assert create_writer(kind)(value).encode() == canonical_json.encode(value_to_json(kind, value))


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        (Dec(0), -7, "-7"),
        (Dec(2), 5, "0.05"),
        (Dec(2), -5, "-0.05"),
        (Dec(2), 0, "0.00"),
        (Dec(2), 12345, "123.45"),
        (Qty("kg"), 0, {"unit": "kg", "value": "0"}),
        (Qty("kg"), 10 * 10**18, {"unit": "kg", "value": "10"}),
        (Qty("kg"), -(10**18) // 2, {"unit": "kg", "value": "-0.5"}),
        (Opt(INT), None, None),
        (Opt(INT), 0, 0),
        (Map(INT), {"b": 1, "a": 2}, {"a": 2, "b": 1}),
    ],
)
def test_values(kind: Type, value: object, result: object) -> None:
    assert value_to_json(kind, value) == result


def test_a_fact_record_is_never_written() -> None:
    for write in (
        lambda: value_to_json(FactRecordType("Battery", 1), None),
        lambda: create_writer(FactRecordType("Battery", 1)),
    ):
        with pytest.raises(TypeError):
            write()
