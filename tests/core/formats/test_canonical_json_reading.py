"""Canonical JSON, BPC-CJSON-1: what is written, what is read, what is refused, and that nothing else happens.

`reference` below is the format page in twenty lines of Python. Everything quick is compared with it.
"""

import dataclasses
import enum
import json
import math
import re
import sys
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal  # noqa: TID251 (to see it refused)
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core import canon
from bpc.core.canon import NotCanonical, canonicalize, decode, encode, encode_typed, read_json
from bpc.core.errors import CODES, Invalid

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "canonical-json.md"
repeatable = settings(derandomize=True, max_examples=250)

SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def reference(value: object) -> str:
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case int():
            return str(value)
        case str():
            inner = (SHORT.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in value)
            return f'"{"".join(inner)}"'
        case list() | tuple():
            return f"[{','.join(map(reference, value))}]"
        case dict():
            keys = sorted(value, key=lambda key: key.encode())
            return f"{{{','.join(f'{reference(key)}:{reference(value[key])}' for key in keys)}}}"
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


def nested(depth: int, core: object = None) -> object:
    """`depth` lists and objects around `core`, by turns; `core` None means that the innermost is empty."""
    made: object = [] if core is None else [core]
    for level in range(depth - 1):
        made = [made] if level % 2 else {"a": made}
    return made


def as_lists(value: Any) -> Any:
    """What reading gives back for `value`: JSON has no tuples."""
    if isinstance(value, (list, tuple)):
        return [as_lists(child) for child in value]
    return {key: as_lists(child) for key, child in value.items()} if isinstance(value, dict) else value


def refusal(of: Any, by: Any = encode) -> NotCanonical:
    with pytest.raises(NotCanonical) as caught:
        by(of)
    return caught.value


def outcome(by: Callable[[object], object], value: object) -> object:
    """What `by` returns, or the words it refuses with."""
    try:
        return by(value)
    except NotCanonical as refused:
        return refused.says


# Writing


@repeatable
@given(values)
def test_both_encoders_write_what_the_page_says(value: Any) -> None:
    expected = reference(value).encode()

    assert encode(value) == expected
    assert encode_typed(value) == expected
    # Otherwise the slow path would do all the work, unnoticed but for the time it takes.
    assert canon._well_typed(value)


@repeatable
@given(st.dictionaries(texts, st.just(0), min_size=2, max_size=12))
def test_keys_are_sorted_by_their_utf_8_bytes_whoever_sorts(value: dict[str, int]) -> None:
    by_orjson = encode(value)
    by_the_standard_library = encode({**value, "": 10**30})

    assert list(json.loads(by_orjson)) == sorted(value, key=str.encode)
    assert list(json.loads(by_the_standard_library)) == sorted({**value, "": 0}, key=str.encode)


def test_every_type_may_stand_in_one_list() -> None:
    value = [{}, [], (), "", 0, True, None]

    assert canon._well_typed(value)
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
    refused = refusal({"a": ["b", {"c": wrong}]})

    assert refused.says == f"`$.a[1].c` has the type `{kind}`, which has no canonical form"
    assert refused.path == "$.a[1].c"
    assert refused.details == {"path": "$.a[1].c"}
    assert refused.fix == ("write it as a string" if kind in {"float", "Decimal"} else None)


@pytest.mark.parametrize("key", [1, True, None, Name("a"), Colour.RED, ("a",), b"a", 1.5])
def test_a_key_that_is_no_string_is_refused(key: object) -> None:
    refused = refusal([{"x": {"a": 1, key: 2}}] if key != "a" else [{"x": {key: 2}}])

    assert refused.says == f"`$[0].x` has a key of type `{type(key).__name__}`; keys are strings"


@pytest.mark.parametrize("alone", ["\ud800", "a\udfffb", "\udc00\ud800"], ids=ascii)
@pytest.mark.parametrize("by", [encode, encode_typed])
def test_a_lone_surrogate_is_refused_in_texts_and_keys(alone: str, by: Any) -> None:
    escaped = json.dumps(alone)

    assert refusal(["a", alone], by).says == "`$[1]` has a lone surrogate"
    assert refusal({"a": {alone: 1}}, by).says == f"`$.a[{escaped}]` has a lone surrogate in its key"
    assert refusal([10**30, alone], by).path == "$[1]"


@pytest.mark.parametrize("digits", [601, 5_001, 1_000_001])
@pytest.mark.parametrize("by", [encode, encode_typed])
def test_more_than_600_digits_are_refused(digits: int, by: Any) -> None:
    for number in (10 ** (digits - 1), -(10 ** (digits - 1))):
        assert refusal({"a": number}, by).says == "`$.a` has more than 600 digits"


def test_128_levels_are_written_and_129_refused() -> None:
    for core in (None, 1, 10**30):
        assert encode(nested(128, core)) == reference(nested(128, core)).encode()
        assert canon._well_typed(nested(128, core))
        assert not canon._well_typed(nested(129, core))
        assert refusal(nested(129, core)).says.endswith("is nested deeper than 128")
    assert refusal([1, nested(128)]).path == "$[1]" + ".a[0]" * 63 + ".a"


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.extend([endless, endless, {"a": endless}])

    assert refusal(endless).says.endswith("is nested deeper than 128")


def test_a_mistake_behind_a_thicket_of_shared_values_is_found_at_once() -> None:
    thicket: object = 1
    for _ in range(100):
        thicket = [thicket, thicket]

    assert refusal([thicket, 1.5]).path == "$[1]"


def test_a_path_shows_plain_names_plainly_and_escapes_the_others() -> None:
    assert refusal({"_a1": {"two words": {"é": {"": {"9": {"`": 1.5}}}}}}).path == (
        '$._a1["two words"]["\\u00e9"][""]["9"]["`"]'
    )
    assert refusal({"a\n": 1.5}).path == '$["a\\n"]'
    assert refusal({"k" * 64: 1.5}).path == "$." + "k" * 64
    assert refusal({"k" * 65: 1.5}).path == f'$["{"k" * 64}"]'


def test_a_long_path_is_shortened_in_the_sentence_and_whole_in_the_details() -> None:
    refused = refusal(nested(70, 1.5))

    assert refused.path is not None
    assert len(refused.path) > 160
    assert refused.says.startswith(f"`{refused.path[:80]}…{refused.path[-60:]}` has the type")
    assert refused.details == {"path": refused.path}


def test_a_path_is_shown_whole_up_to_160_characters() -> None:
    outer, inner = "a" * 64, "b" * 64

    for length in (160, 161):
        refused = refusal({outer: {inner: {"c" * (length - 132): 1.5}}})
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
            inner.map(lambda core: nested(126, core)),
        ),
        max_leaves=12,
    )
)
def test_the_quick_check_accepts_nothing_the_slow_one_refuses_and_the_other_way_round(value: object) -> None:
    slow = outcome(canon._refuse_first_wrong, value)

    assert outcome(encode, value) == (reference(value).encode() if slow is None else slow)


# Reading canonical bytes


@repeatable
@given(values)
def test_decode_gives_the_value_back(value: Any) -> None:
    assert decode(encode(value)) == as_lists(value)


@repeatable
@given(values, st.data())
def test_one_changed_byte_is_refused_or_another_value(value: Any, data: st.DataObject) -> None:
    good = encode(value)
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]

    try:
        found = decode(changed)
    except NotCanonical:
        return
    assert encode(found) == changed


@pytest.mark.parametrize(
    ("text", "byte"),
    [
        (b"[1, 2]", 3),
        (b" 1", 0),
        (b"1\n", 1),
        (b'{"b":1,"a":2}', 2),
        (b'"\\u0041"', 1),
        (b'"\\/"', 1),
        (b'"\\u000A"', 2),
        (b'"\\u001F"', 6),
        (b"[100000000000000000000000000000 ]", 31),
    ],
)
def test_json_in_another_form_is_refused_by_decode(text: bytes, byte: int) -> None:
    assert refusal(text, decode).says == f"this is JSON, but not canonical from byte {byte} on"
    assert canonicalize(text) != text


@pytest.mark.parametrize("not_bytes", ["1", bytearray(b"1"), memoryview(b"1"), None])
def test_only_bytes_are_read(not_bytes: Any) -> None:
    for read in (read_json, canonicalize):
        with pytest.raises(TypeError, match="JSON is read from bytes"):
            read(not_bytes)


# Reading any JSON


@repeatable
@given(values, st.sampled_from([None, 1]), st.booleans())
def test_canonicalize_reads_json_however_it_is_laid_out(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()

    assert canonicalize(text) == reference(value).encode()
    assert read_json(text) == as_lists(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a":[0,1.0]}', "`$.a[1]` is `1.0`; numbers are whole and without exponent"),
        ("-0.0", "`$` is `-0.0`; numbers are whole and without exponent"),
        ("[1E5]", "`$[0]` is `1E5`; numbers are whole and without exponent"),
        ("1e3000000000", "`$` is `1e3000000000`; numbers are whole and without exponent"),
        ("[-0]", "`$[0]` is `-0`; zero has no sign"),
        ("NaN", "`$` is `NaN`, which is no number"),
        ("[Infinity]", "`$[0]` is `Infinity`, which is no number"),
        ("[-Infinity]", "`$[0]` is `-Infinity`, which is no number"),
        ('[{"a":1,"b":2,"a":1}]', "`$[0].a` is given twice"),
        ('{"b":1,"a":2,"\\u0061":3,"b":4}', "`$.b` is given twice"),
        ('{"a":1,"b":2,"b":2}', "`$.b` is given twice"),
        ('["\\ud800"]', "`$[0]` has a lone surrogate"),
        ('["\\uDFFF\\uD800"]', "`$[0]` has a lone surrogate"),
        ('{"\\ud83d":1}', '`$["\\ud83d"]` has a lone surrogate in its key'),
        (f"[1{'0' * 600}]", "`$[0]` has more than 600 digits"),
        (f"-1{'0' * 600}", "`$` has more than 600 digits"),
        (f"1.{'0' * 600}", f"`$` is `1.{'0' * 62}`; numbers are whole and without exponent"),
        ("", "the text is not JSON at line 1, column 1"),
        ("01", "the text is not JSON at line 1, column 2"),
        ("+1", "the text is not JSON at line 1, column 1"),
        ("[1] 2", "the text is not JSON at line 1, column 5"),
        ("'a'", "the text is not JSON at line 1, column 1"),
        ('{"é":1}\n\n"€" x', "the text is not JSON at line 3, column 1"),
        ('["é" x', "the text is not JSON at line 1, column 6"),
        ('["a\nb"]', "the text is not JSON at line 1, column 4"),
        ('"\\x"', "the text is not JSON at line 1, column 2"),
        ("[\u00a01]", "the text is not JSON at line 1, column 2"),
        ("[١]", "the text is not JSON at line 1, column 2"),
        ("/* */1", "the text is not JSON at line 1, column 1"),
        ("\ufeff1", "the text starts with a byte order mark"),
    ],
)
def test_every_reader_refuses_what_has_no_canonical_form(text: str, says: str) -> None:
    for read in (read_json, canonicalize, decode):
        refused = refusal(text.encode(), read)
        assert refused.says == says
        assert (refused.path is None) == (refused.line is not None) == (refused.column is not None)


def test_a_byte_order_mark_is_refused_at_its_place() -> None:
    refused = refusal(b"\xef\xbb\xbf1", read_json)

    assert (refused.line, refused.column) == (1, 1)


def test_surrogates_in_pairs_are_one_character() -> None:
    assert canonicalize(b'"\\ud83d\\uDE00"') == '"😀"'.encode()


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b"\xff", 1, 1),
        (b'"\xc3\xa9\xc3"', 1, 3),
        (b'\n"\xed\xa0\x80"', 2, 2),
        (b'"\xc0\x80"', 1, 2),
        (b'"\xf4\x90\x80\x80"', 1, 2),
        ("[1]".encode("utf-16"), 1, 1),
    ],
)
def test_bytes_that_are_not_utf_8_are_refused_at_their_place(data: bytes, line: int, column: int) -> None:
    refused = refusal(data, read_json)

    assert refused.says == f"the text is not UTF-8 at line {line}, column {column}"
    assert (refused.line, refused.column) == (line, column)
    assert refused.details == {"line": line, "column": column}


def test_a_text_of_128_levels_is_read_and_one_of_129_refused_where_it_gets_too_deep() -> None:
    assert canonicalize(b"[" * 128 + b"]" * 128) == encode(json.loads("[" * 128 + "]" * 128))
    assert refusal(b"\n [" + b'{"a":' * 128 + b"1", read_json).says == (
        f"the text is nested deeper than 128 at line 2, column {2 + 5 * 127 + 1}"
    )
    assert refusal(b"[" * 129 + b"]" * 129, read_json).column == 129


def test_what_is_closed_no_longer_counts_as_nesting() -> None:
    beside = b"[" + b"[],{}," * 200

    assert read_json(beside + b"[" * 127 + b"]" * 128) == json.loads(beside + b"[" * 127 + b"]" * 128)
    assert refusal(beside + b"[" * 128 + b"]" * 129, read_json).says == (
        f"the text is nested deeper than 128 at line 1, column {len(beside) + 128}"
    )


@pytest.mark.parametrize("quoted", ["[", "{", '\\"[', "\\\\", '\\\\\\"{', "]", '\\"', "\\\\\\\\", "", "é["])
def test_brackets_in_strings_are_not_nesting(quoted: str) -> None:
    many = f"[{','.join([chr(34) + quoted + chr(34)] * 300)}]".encode()

    assert canonicalize(many) == canonicalize(many[:-1] + b" ]")
    assert read_json(many) == json.loads(many)
    deep = b'["' + quoted.encode() + b'",' + b"[" * 128
    assert refusal(deep, read_json).column == len(deep.decode())


@pytest.mark.parametrize(
    "brackets",
    [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 50_000 + b"]" * 50_000, b'[{"":' * 40_000],
    ids=["lists", "objects", "closed", "mixed"],
)
def test_a_bomb_of_brackets_is_refused(brackets: bytes) -> None:
    for read in (read_json, canonicalize, decode):
        assert "nested deeper than 128" in refusal(brackets, read).says


MEGA = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        b"9" * MEGA,
        b"-" + b"9" * MEGA,
        b"0." + b"9" * MEGA,
        b"1e" + b"9" * MEGA,
        b'"' + b"\\" * MEGA,
        b'"' + b'\\"' * MEGA,
        b'"' + b"\\u0041" * MEGA,
        b'["' + b"[" * MEGA,
        b'"' * MEGA,
        b"[" + b'"",' * MEGA,
        b" " * MEGA,
        b"\n" * MEGA + b"x",
        b"[" + b"1," * MEGA + b"]",
        b"{" + b",".join(b'"%d":1' % number for number in range(200_000)) + b',"0":1}',
        b'{"a":' + b"[]," * MEGA,
        "é".encode() * MEGA,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_a_hostile_megabyte_is_refused_in_linear_time(text: bytes) -> None:
    start = time.process_time()

    refusal(text, decode)
    refusal(text, canonicalize)

    # Quadratic work on a megabyte takes minutes; the bound is far from both.
    assert time.process_time() - start < 10


def test_digits_are_counted_before_they_are_converted() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert read_json(b"9" * 600) == 10**600 - 1
        assert decode(b"-" + b"9" * 600) == 1 - 10**600
        assert encode(10**600 - 1) == b"9" * 600
        assert refusal(b"9" * 601, read_json).path == "$"
    finally:
        sys.set_int_max_str_digits(limit)


# The page


def examples() -> list[dict[str, str]]:
    blocks = re.findall(r"```text\n(.*?)\n```", PAGE.read_bytes().decode(), re.DOTALL)
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example["in"])
def test_the_examples_of_the_page_are_true(example: dict[str, str]) -> None:
    from bpc.core.digest import sha256, to_hex

    text = example["in"].encode()
    if "refused" in example:
        assert refusal(text, canonicalize).says == example["refused"]
    else:
        assert canonicalize(text) == example["out"].encode()
        assert to_hex(sha256(canonicalize(text))) == example["sha256"]
