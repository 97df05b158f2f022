"""JSON values of every kind, and the format page in twenty lines of Python to compare the encoders with."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from bpc.core.formats.canonical_json import NotCanonical, encode
from tests.measurements import choose_examples

repeatable = settings(derandomize=True, max_examples=choose_examples(250))

SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def encode_reference(value: object) -> str:
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case int():
            return str(value)
        case str():
            inner = (SHORT.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in value)
            return f'"{"".join(inner)}"'
        case list() | tuple():
            return f"[{','.join(map(encode_reference, value))}]"
        case dict():
            keys = sorted(value, key=lambda key: key.encode())
            return f"{{{','.join(f'{encode_reference(key)}:{encode_reference(value[key])}' for key in keys)}}}"
        case _:
            raise AssertionError(type(value))


# Characters where encodings and sort orders part ways, and then all others.
texts = st.text(
    st.one_of(
        st.sampled_from('\0\x1f"\\/\n aZ\x7f\x80é\u07ff\u2028\ue000\uffff\U00010000😀'),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=8,
)
integers = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**599, 10**600 - 1, 1 - 10**600]),
)
leaves = st.one_of(st.none(), st.booleans(), integers, texts)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(texts, inner, max_size=6),
    ),
    max_leaves=25,
)


class Colour(enum.IntEnum):
    RED = 1


class Name(str):
    __slots__ = ()


@dataclasses.dataclass
class Pair:
    left: int = 1


def nest_value(depth: int, core: object = None) -> object:
    """`depth` lists and objects around `core`, by turns; `core` None means that the innermost is empty."""
    value: object = [] if core is None else [core]
    for level in range(depth - 1):
        value = [value] if level % 2 else {"a": value}
    return value


def tuples_to_lists(value: Any) -> Any:
    """What reading gives back for `value`: JSON has no tuples."""
    if isinstance(value, (list, tuple)):
        return [tuples_to_lists(child) for child in value]
    return {key: tuples_to_lists(child) for key, child in value.items()} if isinstance(value, dict) else value


def expect_refusal(value: Any, function: Any = encode) -> NotCanonical:
    with pytest.raises(NotCanonical) as error:
        function(value)
    return error.value


def get_outcome(function: Callable[[object], object], value: object) -> object:
    """What `by` returns, or the words it refuses with."""
    try:
        return function(value)
    except NotCanonical as refused:
        return refused.says
