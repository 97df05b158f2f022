"""Numbers of documents are exact and bounded; JSON is refused where two readers could take it differently."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.documents import MAX_NOTES, Notes
from bpc.core.documents.elements import (
    ExactNumber,
    NumberText,
    RawValue,
    is_plain_decimal,
    parse_exact,
    parse_strict_json,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("75.5", ExactNumber(755, 1)),
        ("-0", ExactNumber(0, 0)),
        ("007.50", ExactNumber(750, 2)),
        ("1e3", ExactNumber(1000, 0)),
        ("1.5E+2", ExactNumber(150, 0)),
        ("12e-2", ExactNumber(12, 2)),
        ("-1.25e1", ExactNumber(-125, 1)),
        ("0e999", ExactNumber(0, 0)),
    ],
)
def test_a_number_is_exactly_what_is_written(text: str, value: ExactNumber) -> None:
    assert parse_exact(text) == value


@pytest.mark.parametrize(
    "text", ["", "-", "1.", ".5", "+1", "1e", "1e1000", "1e3000000", "9" * 81, "NaN", "١٢", "1_0", " 1", "1\n", "0x1"]
)
def test_a_text_that_is_no_number_or_too_long_gives_none(text: str) -> None:
    assert parse_exact(text) is None


@pytest.mark.parametrize("text", ["1e3", "+1", "1.", "", " 1", "1\n", "1,5", "9" * 81])
def test_a_text_that_stands_for_a_number_is_a_plain_decimal(text: str) -> None:
    assert not is_plain_decimal(text)
    assert is_plain_decimal("-75.50")


@given(st.integers(-(10**20), 10**20), st.integers(0, 6), st.integers(0, 20))
def test_every_spelling_of_a_value_counts_the_same(count: int, decimals: int, zeros: int) -> None:
    digits = str(abs(count)).rjust(decimals + 1, "0")
    sign = "-" if count < 0 else ""
    plain = sign + digits[: len(digits) - decimals] + (f".{digits[len(digits) - decimals :]}" if decimals else "")
    shifted = f"{count * 10**zeros}e{-decimals - zeros}"

    one, other = parse_exact(plain), parse_exact(shifted)

    assert one is not None
    assert other is not None
    assert one.at_scale(30) == other.at_scale(30) == count * 10 ** (30 - decimals)


def test_a_value_with_more_decimals_than_there_is_room_for_has_no_count() -> None:
    assert ExactNumber(1255, 3).at_scale(2) is None
    assert ExactNumber(1250, 3).at_scale(2) == 125
    assert ExactNumber(-1250, 3).at_scale(2) == -125


def parse_clean(content: bytes) -> RawValue:
    notes = Notes()
    value = parse_strict_json(content, notes)
    assert notes.is_clean, notes.problems
    return value


def list_problems(content: bytes) -> list[tuple[str, str]]:
    notes = Notes()
    assert parse_strict_json(content, notes) is None
    assert not notes.is_clean
    return [(note.at, note.says) for note in notes.problems.first]


def test_numbers_stay_the_text_they_were_written_as() -> None:
    assert parse_clean(b"[75.50, 1e3, -0, 12345678901234567890]") == [
        NumberText("75.50"),
        NumberText("1e3"),
        NumberText("-0"),
        NumberText("12345678901234567890"),
    ]


def test_everything_else_is_what_json_says() -> None:
    assert parse_clean(' {"a": [true, false, null, "ü\\u00e4"]} '.encode()) == {"a": [True, False, None, "üä"]}


def test_every_wrong_thing_is_named_at_once_with_its_place() -> None:
    text = b'{"a": 1, "b": [NaN, {"c": 1, "c": 2}], "a": 3, "two words": -Infinity, "n": ' + b"9" * 81 + b"}"

    assert list_problems(text) == [
        ("$.a", "is given twice"),
        ("$.b[0]", "is `NaN`, which is not a JSON number"),
        ("$.b[1].c", "is given twice"),
        ('$["two words"]', "is `-Infinity`, which is not a JSON number"),
        ("$.n", "is a number of 81 characters; the limit is 80"),
    ]


@pytest.mark.parametrize(
    ("content", "at"),
    [
        (b"", "line 1, column 1"),
        (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
        (b"[1,]", "line 1, column 4"),
        (b"01", "line 1, column 2"),
        (b'"a\nb"', "line 1, column 3"),
        (b"[1] 2", "line 1, column 5"),
        (b"+1", "line 1, column 1"),
        (b".5", "line 1, column 1"),
    ],
)
def test_what_is_not_json_is_named_by_line_and_column(content: bytes, at: str) -> None:
    assert list_problems(content) == [(at, "is where reading stopped: the text is not JSON")]


def test_bytes_that_are_not_utf8_and_byte_order_marks_are_refused() -> None:
    assert list_problems(b'{"a":\n"\xff"}') == [("line 2, column 2", "is where reading stopped: the text is not UTF-8")]
    assert list_problems(b"\xef\xbb\xbf{}")[0][0] == "line 1, column 1"
    assert list_problems("{}".encode("utf-16"))[0][1].endswith("the text is not UTF-8")


@pytest.mark.parametrize("deep", [b"[" * 129 + b"]" * 129, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 1_000_000])
def test_deep_nesting_is_refused_before_it_is_followed(deep: bytes) -> None:
    [(at, says)] = list_problems(deep)

    column = 1 + deep.index(b"[" if deep.startswith(b"[") else b"{") + 128 * (1 if deep.startswith(b"[") else 5)
    assert (at, says) == (f"line 1, column {column}", "is where reading stopped: the text is nested deeper than 128")


def test_brackets_in_texts_are_no_nesting() -> None:
    text = '"' + "[{" * 200 + '\\"[\\\\"'

    assert parse_clean(text.encode()) == "[{" * 200 + '"[\\'
    assert isinstance(parse_clean(b"[" * 128 + b"]" * 128), list)


@given(st.lists(st.sampled_from(["[", "]", '"[[["', '"\\\\"', '"\\""', '"' + "x" * 9 + '"', "1,"]), max_size=40))
def test_depth_is_that_of_the_brackets_outside_of_texts_wherever_it_is_cut(parts: list[str]) -> None:
    opened = [part for part in parts if part in {"[", "]"}]
    depths = [opened[:count].count("[") - opened[:count].count("]") for count in range(len(opened) + 1)]
    content = b"[" * 120 + "".join(parts).encode()

    with pytest.MonkeyPatch.context() as cut:
        cut.setattr("bpc.core.formats.strict_json._PIECE_BYTES", 7)
        notes = Notes()
        parse_strict_json(content, notes)

    is_deep = any(note.says.endswith("nested deeper than 128") for note in notes.problems.first)
    # The first bracket that is too deep decides, even if brackets are closed after it.
    assert is_deep == (120 + max(depths) > 128)


@pytest.mark.parametrize(
    "content",
    [b"[" + b"1," * 300_001 + b"1]", b'{"a":1' + b',"a":1' * 300_201 + b"}", b"[" + b"{}," * 2_000_001 + b"1]"],
)
def test_a_document_has_a_maximum_number_of_values(content: bytes) -> None:
    [(at, says)] = list_problems(content)

    assert (at, says.endswith("values; split the document")) == ("$", True)


def test_ten_thousand_problems_are_listed_all_are_counted_and_a_list_that_was_cut_says_so() -> None:
    few, many = Notes(), Notes()

    parse_strict_json(b"[" + b",".join([b"NaN"] * MAX_NOTES) + b"]", few)
    parse_strict_json(b"[" + b",".join([b"NaN"] * (MAX_NOTES + 1)) + b"]", many)

    assert (len(few.problems.first), few.problems.total) == (MAX_NOTES, MAX_NOTES)
    assert (len(many.problems.first), many.problems.total) == (MAX_NOTES + 1, MAX_NOTES + 1)
    assert many.problems.first[-1] == ("$", "has 10,001 problems; 10,000 of them are listed")


def test_places_can_be_stored_whatever_the_names_are() -> None:
    [(at, _)] = list_problems(b'{"\\u0000\\ud800' + b"x" * 5000 + b'": NaN}')

    assert at.isascii() or "…" in at
    assert "\0" not in at
    assert len(at) < 400
    at.encode()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def _to_plain_value(value: RawValue) -> Any:
    match value:
        case NumberText(text):
            return int(text)
        case list():
            return [_to_plain_value(item) for item in value]
        case dict():
            return {name: _to_plain_value(item) for name, item in value.items()}
        case _:
            return value


@given(PLAIN)
def test_it_reads_what_the_standard_library_writes(value: Any) -> None:
    assert _to_plain_value(parse_clean(json.dumps(value).encode())) == value


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:0123eE.-+ntrue\\u', max_size=60).map(str.encode))
def test_no_bytes_crash_it(content: bytes) -> None:
    parse_strict_json(content, Notes())
