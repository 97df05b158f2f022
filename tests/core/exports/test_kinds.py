"""Types are read back exactly as they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.exports.kinds import NotAType, read_type
from bpc.core.rules.types import BOOL, DATE, INT, TEXT, Dec, List, Map, Opt, Qty, Record, Type

SCALARS: st.SearchStrategy[Type] = st.sampled_from([BOOL, INT, TEXT, DATE, Dec(0), Dec(18), Qty("kWh"), Qty("pct")])
NAMES = st.sampled_from(["a", "b2", "c_d"])
TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.filter(lambda kind: not isinstance(kind, Opt)).map(Opt),
        inner.map(List),
        inner.map(Map),
        st.dictionaries(NAMES, inner, min_size=1).map(lambda members: Record(tuple(members.items()))),
    ),
    max_leaves=8,
)


@given(TYPES)
def test_a_type_is_read_as_it_is_written(kind: Type) -> None:
    assert read_type(str(kind)) == kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Txt",
        "Text ",
        "Dec()",
        "Dec(x)",
        "Dec(123)",
        "Dec(02)",
        "Opt",
        "Opt(Text",
        "List(Text))",
        "Map(Int, Text)",
        "Map(Text,Int)",
        "Record()",
        "Record(a:Text)",
        "Record(b: Text, a: Text)",
        "Battery@1",
        "List(" * 40 + "Text" + ")" * 40,
    ],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(NotAType):
        read_type(text)
