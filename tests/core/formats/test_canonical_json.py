"""Canonical JSON, BPC-CJSON-1: what is written, what is refused, and that nothing else happens.

`encode_reference` is the format page in twenty lines of Python. Everything quick is compared with it.
"""

import json
import math
import re
import uuid
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal  # noqa: TID251 (to see it refused)
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.errors import CODES, Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import NotCanonical, canonicalize, decode, encode, encode_typed
from tests.core.formats.json_values import (
    Colour,
    Name,
    Pair,
    encode_reference,
    expect_refusal,
    get_outcome,
    leaves,
    nest_value,
    repeatable,
    texts,
    values,
)

PAGE = Path(__file__).parents[3] / "docs" / "formats" / "canonical-json.md"

# Writing


@repeatable
@given(values)
def test_both_encoders_write_what_the_page_says(value: Any) -> None:
    expected = encode_reference(value).encode()

    assert encode(value) == expected
    assert encode_typed(value) == expected
    # Otherwise the slow path would do all the work, unnoticed but for the time it takes.
    assert canonical_json._is_well_typed(value)


@repeatable
@given(st.dictionaries(texts, st.just(0), min_size=2, max_size=12))
def test_keys_are_sorted_by_their_utf_8_bytes_whoever_sorts(value: dict[str, int]) -> None:
    by_orjson = encode(value)
    by_the_standard_library = encode({**value, "": 10**30})

    assert list(json.loads(by_orjson)) == sorted(value, key=str.encode)
    assert list(json.loads(by_the_standard_library)) == sorted({**value, "": 0}, key=str.encode)


def test_every_type_may_stand_in_one_list() -> None:
    value = [{}, [], (), "", 0, True, None]

    assert canonical_json._is_well_typed(value)
    assert encode(value) == b'[{},[],[],"",0,true,null]'


def test_key_order_is_not_that_of_rfc_8785() -> None:
    assert encode({"😀": 1, "\ue000": 2}) == '{"\ue000":2,"😀":1}'.encode()


def test_every_character_below_space_has_its_own_escape() -> None:
    every = "".join(map(chr, range(0x21)))

    assert encode(every) == (
        rb'"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f'
        rb"\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f "
        rb'"'
    )
    assert encode([every, 10**30]) == b"[" + encode(every) + b"," + str(10**30).encode() + b"]"


@pytest.mark.parametrize("edge", [2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**600 - 1, 1 - 10**600])
def test_integers_are_exact_up_to_600_digits(edge: int) -> None:
    assert encode([edge]) == encode_typed([edge]) == f"[{edge}]".encode()
    assert decode(f"[{edge}]".encode()) == [edge]


def test_600_digits_of_text_beside_a_large_integer_are_only_text() -> None:
    assert encode(["7" * 700, 10**30]) == f'["{"7" * 700}",{10**30}]'.encode()


def test_a_value_used_twice_is_written_twice() -> None:
    shared = {"a": [1]}

    assert encode([shared, shared, {"b": shared}]) == b'[{"a":[1]},{"a":[1]},{"b":{"a":[1]}}]'


# What has no canonical form


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (1.0, "float"),
        (math.nan, "float"),
        (math.inf, "float"),
        (Decimal(1), "Decimal"),
        (b"a", "bytes"),
        (bytearray(b"a"), "bytearray"),
        ({1}, "set"),
        (Colour.RED, "Colour"),
        (Name("a"), "Name"),
        (OrderedDict(a=1), "OrderedDict"),
        (MappingProxyType({"a": 1}), "mappingproxy"),
        (range(3), "range"),
        (uuid.UUID(int=0), "UUID"),
        (datetime(2027, 2, 18, tzinfo=UTC), "datetime"),
        (Pair(), "Pair"),
        (object(), "object"),
    ],
)
def test_a_type_without_canonical_form_is_refused_with_its_path(wrong: object, kind: str) -> None:
    refused = expect_refusal({"a": ["b", {"c": wrong}]})

    assert refused.says == f"`$.a[1].c` has the type `{kind}`, which has no canonical form"
    assert refused.path == "$.a[1].c"
    assert refused.details == {"path": "$.a[1].c"}
    assert refused.fix == ("write it as a string" if kind in {"float", "Decimal"} else None)


@pytest.mark.parametrize("key", [1, True, None, Name("a"), Colour.RED, ("a",), b"a", 1.5])
def test_a_key_that_is_no_string_is_refused(key: object) -> None:
    refused = expect_refusal([{"x": {"a": 1, key: 2}}] if key != "a" else [{"x": {key: 2}}])

    assert refused.says == f"`$[0].x` has a key of type `{type(key).__name__}`; keys are strings"


@pytest.mark.parametrize("alone", ["\ud800", "a\udfffb", "\udc00\ud800"], ids=ascii)
@pytest.mark.parametrize("by", [encode, encode_typed])
def test_a_lone_surrogate_is_refused_in_texts_and_keys(alone: str, by: Any) -> None:
    escaped = json.dumps(alone)

    assert expect_refusal(["a", alone], by).says == "`$[1]` has a lone surrogate"
    assert expect_refusal({"a": {alone: 1}}, by).says == f"`$.a[{escaped}]` has a lone surrogate in its key"
    assert expect_refusal([10**30, alone], by).path == "$[1]"


@pytest.mark.parametrize("digits", [601, 5_001, 1_000_001])
@pytest.mark.parametrize("by", [encode, encode_typed])
def test_more_than_600_digits_are_refused(digits: int, by: Any) -> None:
    for number in (10 ** (digits - 1), -(10 ** (digits - 1))):
        assert expect_refusal({"a": number}, by).says == "`$.a` has more than 600 digits"


def test_128_levels_are_written_and_129_refused() -> None:
    for core in (None, 1, 10**30):
        assert encode(nest_value(128, core)) == encode_reference(nest_value(128, core)).encode()
        assert canonical_json._is_well_typed(nest_value(128, core))
        assert not canonical_json._is_well_typed(nest_value(129, core))
        assert expect_refusal(nest_value(129, core)).says.endswith("is nested deeper than 128")
    assert expect_refusal([1, nest_value(128)]).path == "$[1]" + ".a[0]" * 63 + ".a"


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.extend([endless, endless, {"a": endless}])

    assert expect_refusal(endless).says.endswith("is nested deeper than 128")


def test_a_mistake_behind_many_shared_values_is_found_quickly() -> None:
    thicket: object = 1
    for _ in range(100):
        thicket = [thicket, thicket]

    assert expect_refusal([thicket, 1.5]).path == "$[1]"


def test_a_path_shows_plain_names_plainly_and_escapes_the_others() -> None:
    assert expect_refusal({"_a1": {"two words": {"é": {"": {"9": {"`": 1.5}}}}}}).path == (
        '$._a1["two words"]["\\u00e9"][""]["9"]["`"]'
    )
    assert expect_refusal({"a\n": 1.5}).path == '$["a\\n"]'
    assert expect_refusal({"k" * 64: 1.5}).path == "$." + "k" * 64
    assert expect_refusal({"k" * 65: 1.5}).path == f'$["{"k" * 64}"]'


def test_a_long_path_is_shortened_in_the_sentence_and_whole_in_the_details() -> None:
    refused = expect_refusal(nest_value(70, 1.5))

    assert refused.path is not None
    assert len(refused.path) > 160
    assert refused.says.startswith(f"`{refused.path[:80]}…{refused.path[-60:]}` has the type")
    assert refused.details == {"path": refused.path}


def test_a_path_is_shown_whole_up_to_160_characters() -> None:
    outer, inner = "a" * 64, "b" * 64

    for length in (160, 161):
        refused = expect_refusal({outer: {inner: {"c" * (length - 132): 1.5}}})
        assert refused.path is not None
        assert len(refused.path) == length
        assert refused.says.startswith(f"`{refused.path}` has") == (length == 160)


def test_a_refusal_is_a_validation_error() -> None:
    assert issubclass(NotCanonical, Invalid)
    assert CODES[NotCanonical.code].http == 422


@repeatable
@given(
    st.recursive(
        st.one_of(leaves, st.floats(), st.text(max_size=3), st.sampled_from([b"", 10**600, Colour.RED, Name("a")])),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(st.one_of(st.text(max_size=3), st.sampled_from([1, None, Name("b")])), inner, max_size=4),
            inner.map(lambda core: nest_value(126, core)),
        ),
        max_leaves=12,
    )
)
def test_the_quick_check_accepts_nothing_the_slow_one_refuses_and_the_other_way_round(value: object) -> None:
    slow = get_outcome(canonical_json._refuse_first_wrong, value)

    assert get_outcome(encode, value) == (encode_reference(value).encode() if slow is None else slow)


@repeatable
@given(st.lists(st.one_of(values, st.floats(), values.map(lambda core: nest_value(126, core))), max_size=4))
def test_parts_are_written_together_as_they_are_one_by_one_or_left_to_that(parts: list[object]) -> None:
    texts = canonical_json.encode_parts(parts)

    if texts is not None:
        assert texts == [encode(part) for part in parts]
        assert canonical_json.decode_parts(texts) == [decode(text) for text in texts]


def test_a_part_that_needs_a_closer_look_is_left_to_it() -> None:
    for part in (1.5, 2**64, "\ud800", {1: 2}, nest_value(128)):
        assert canonical_json.encode_parts([part]) is None


@pytest.mark.parametrize(
    "texts",
    [
        [b"[1", b"2]", b"3,4"],  # as many values as texts, cut elsewhere
        [b"1,2"],
        [b""],
        [b"1 "],
        [b'{"b":1,"a":2}'],
        [b'{"a":1,"a":1}'],
        [b"1.0"],
        [b"18446744073709551616"],
    ],
)
def test_texts_that_are_not_canonical_each_by_itself_are_not_read_together(texts: list[bytes]) -> None:
    assert canonical_json.decode_parts(texts) is None


# The page


def load_examples() -> list[dict[str, str]]:
    blocks = re.findall(r"```text\n(.*?)\n```", PAGE.read_bytes().decode(), re.DOTALL)
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


@pytest.mark.parametrize("example", load_examples(), ids=lambda example: example["in"])
def test_the_examples_of_the_page_are_true(example: dict[str, str]) -> None:
    from bpc.core.formats.hashes import sha256, to_hex

    text = example["in"].encode()
    if "refused" in example:
        assert expect_refusal(text, canonicalize).says == example["refused"]
    else:
        assert canonicalize(text) == example["out"].encode()
        assert to_hex(sha256(canonicalize(text))) == example["sha256"]
