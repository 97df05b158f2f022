"""Reading canonical JSON and any JSON: what is read, what is refused, and where."""

import json
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.formats.canonical_json import NotCanonical, canonicalize, decode, encode, read_json
from bpc.core.formats.strict_json import MAX_DEPTH
from tests.core.formats.json_values import encode_reference, expect_refusal, repeatable, tuples_to_lists, values

# Reading canonical bytes


@repeatable
@given(values)
def test_decode_gives_the_value_back(value: Any) -> None:
    assert decode(encode(value)) == tuples_to_lists(value)


@repeatable
@given(values, st.data())
def test_one_changed_byte_is_refused_or_another_value(value: Any, data: st.DataObject) -> None:
    good = encode(value)
    at = data.draw(st.integers(0, len(good) - 1))
    changed = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]

    try:
        decoded = decode(changed)
    except NotCanonical:
        return
    assert encode(decoded) == changed


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
    assert expect_refusal(text, decode).says == f"this is JSON, but not canonical from byte {byte} on"
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

    assert canonicalize(text) == encode_reference(value).encode()
    assert read_json(text) == tuples_to_lists(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a":[0,1.0]}', "`$.a[1]` is `1.0`; numbers are whole and without exponent"),
        ("-0.0", "`$` is `-0.0`; numbers are whole and without exponent"),
        ("[1E5]", "`$[0]` is `1E5`; numbers are whole and without exponent"),
        ("1e3000000000", "`$` is `1e3000000000`; numbers are whole and without exponent"),
        ("[-0]", "`$[0]` is `-0`; zero has no sign"),
        ("NaN", "`$` is `NaN`, which is not a JSON number"),
        ("[Infinity]", "`$[0]` is `Infinity`, which is not a JSON number"),
        ("[-Infinity]", "`$[0]` is `-Infinity`, which is not a JSON number"),
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
        refused = expect_refusal(text.encode(), read)
        assert refused.says == says
        assert (refused.path is None) == (refused.line is not None) == (refused.column is not None)


def test_a_byte_order_mark_is_refused_at_its_place() -> None:
    refused = expect_refusal(b"\xef\xbb\xbf1", read_json)

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
    refused = expect_refusal(data, read_json)

    assert refused.says == f"the text is not UTF-8 at line {line}, column {column}"
    assert (refused.line, refused.column) == (line, column)
    assert refused.details == {"line": line, "column": column}


def test_a_text_of_128_levels_is_read_and_one_of_129_refused_where_it_gets_too_deep() -> None:
    assert canonicalize(b"[" * 128 + b"]" * 128) == encode(json.loads("[" * 128 + "]" * 128))
    assert expect_refusal(b"\n [" + b'{"a":' * 128 + b"1", read_json).says == (
        f"the text is nested deeper than 128 at line 2, column {2 + 5 * 127 + 1}"
    )
    assert expect_refusal(b"[" * 129 + b"]" * 129, read_json).column == 129


def test_what_is_closed_no_longer_counts_as_nesting() -> None:
    beside = b"[" + b"[],{}," * 200

    assert read_json(beside + b"[" * 127 + b"]" * 128) == json.loads(beside + b"[" * 127 + b"]" * 128)
    assert expect_refusal(beside + b"[" * 128 + b"]" * 129, read_json).says == (
        f"the text is nested deeper than 128 at line 1, column {len(beside) + 128}"
    )


@pytest.mark.parametrize("quoted", ["[", "{", '\\"[', "\\\\", '\\\\\\"{', "]", '\\"', "\\\\\\\\", "", "é["])
def test_brackets_in_strings_are_not_nesting(quoted: str) -> None:
    many = f"[{','.join([chr(34) + quoted + chr(34)] * 300)}]".encode()

    assert canonicalize(many) == canonicalize(many[:-1] + b" ]")
    assert read_json(many) == json.loads(many)
    deep = b'["' + quoted.encode() + b'",' + b"[" * 128
    assert expect_refusal(deep, read_json).column == len(deep.decode())


@pytest.mark.parametrize(
    "brackets",
    [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 50_000 + b"]" * 50_000, b'[{"":' * 40_000],
    ids=["lists", "objects", "closed", "mixed"],
)
def test_a_bomb_of_brackets_is_refused(brackets: bytes) -> None:
    for read in (read_json, canonicalize, decode):
        assert "nested deeper than 128" in expect_refusal(brackets, read).says


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
@pytest.mark.slow
def test_a_hostile_megabyte_is_refused_in_linear_time(text: bytes) -> None:
    start = time.process_time()

    expect_refusal(text, decode)
    expect_refusal(text, canonicalize)

    # Quadratic work on a megabyte takes minutes; the bound is far from both.
    assert time.process_time() - start < 10


def test_digits_are_counted_before_they_are_converted() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert read_json(b"9" * 600) == 10**600 - 1
        assert decode(b"-" + b"9" * 600) == 1 - 10**600
        assert encode(10**600 - 1) == b"9" * 600
        assert expect_refusal(b"9" * 601, read_json).path == "$"
    finally:
        sys.set_int_max_str_digits(limit)


@pytest.mark.parametrize("strings", [1, 40_000], ids=["one piece", "several pieces"])
@pytest.mark.parametrize("content", [b'"[[[["', rb'"]]\\\"[["', rb'"\\"', b'""'], ids=repr)
def test_brackets_in_strings_are_not_counted_as_depth(content: bytes, strings: int) -> None:
    def nest(depth: int) -> bytes:
        return b"[" + (content + b",") * strings + b"[" * (depth - 1) + content + b"]" * depth

    read_json(nest(MAX_DEPTH))
    with pytest.raises(NotCanonical, match="nested deeper than 128"):
        read_json(nest(MAX_DEPTH + 1))
