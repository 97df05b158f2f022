"""JSON as documents are written: numbers stay texts; what two readers could take differently is refused by place."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.documents import strict_json
from bpc.core.documents.notes import MOST_KEPT, Notes
from bpc.core.documents.values import Given, Number


def read(content: bytes) -> Given:
    notes = Notes()
    value = strict_json.read(content, notes)
    assert notes.is_clean, notes.problems
    return value


def problems(content: bytes) -> list[tuple[str, str]]:
    notes = Notes()
    assert strict_json.read(content, notes) is None
    assert not notes.is_clean
    return [(note.at, note.says) for note in notes.problems.first]


def test_numbers_stay_the_text_they_were_written_as() -> None:
    assert read(b"[75.50, 1e3, -0, 12345678901234567890]") == [
        Number("75.50"),
        Number("1e3"),
        Number("-0"),
        Number("12345678901234567890"),
    ]


def test_everything_else_is_what_json_says() -> None:
    assert read(' {"a": [true, false, null, "ü\\u00e4"]} '.encode()) == {"a": [True, False, None, "üä"]}


def test_every_wrong_thing_is_named_at_once_with_its_place() -> None:
    text = b'{"a": 1, "b": [NaN, {"c": 1, "c": 2}], "a": 3, "two words": -Infinity, "n": ' + b"9" * 81 + b"}"

    assert problems(text) == [
        ("$.a", "is given twice"),
        ("$.b[0]", "is `NaN`, which is not JSON"),
        ("$.b[1].c", "is given twice"),
        ('$["two words"]', "is `-Infinity`, which is not JSON"),
        ("$.n", "is a number of 81 characters, and no fact has room for it"),
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
    assert problems(content) == [(at, "is where the text stops being JSON")]


def test_bytes_that_are_not_utf8_and_byte_order_marks_are_refused() -> None:
    assert problems(b'{"a":\n"\xff"}') == [("line 2, column 2", "is not UTF-8")]
    assert problems(b"\xef\xbb\xbf{}")[0][0] == "line 1, column 1"
    assert problems("{}".encode("utf-16"))[0][1] == "is not UTF-8"


@pytest.mark.parametrize("deep", [b"[" * 129 + b"]" * 129, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 1_000_000])
def test_deep_nesting_is_refused_before_it_is_followed(deep: bytes) -> None:
    assert problems(deep) == [("$", "is nested deeper than 128")]


def test_brackets_in_texts_are_no_nesting() -> None:
    text = '"' + "[{" * 200 + '\\"[\\\\"'

    assert read(text.encode()) == "[{" * 200 + '"[\\'
    assert isinstance(read(b"[" * 128 + b"]" * 128), list)


@given(st.lists(st.sampled_from(["[", "]", '"[[["', '"\\\\"', '"\\""', '"' + "x" * 9 + '"', "1,"]), max_size=40))
def test_depth_is_that_of_the_brackets_outside_of_texts_wherever_it_is_cut(parts: list[str]) -> None:
    opened = [part for part in parts if part in {"[", "]"}]
    depths = [opened[:count].count("[") - opened[:count].count("]") for count in range(len(opened) + 1)]
    content = b"[" * 120 + "".join(parts).encode()

    with pytest.MonkeyPatch.context() as cut:
        cut.setattr(strict_json, "_PIECE", 7)
        notes = Notes()
        strict_json.read(content, notes)

    is_deep = [note.says for note in notes.problems.first] == ["is nested deeper than 128"]
    # The first bracket too many decides, whatever closes behind it.
    assert is_deep == (120 + max(depths) > 128)


@pytest.mark.parametrize(
    "content",
    [b"[" + b"1," * 300_001 + b"1]", b'{"a":1' + b',"a":1' * 300_201 + b"}", b"[" + b"{}," * 2_000_001 + b"1]"],
)
def test_a_document_has_a_most_of_values(content: bytes) -> None:
    [(at, says)] = problems(content)

    assert (at, says.endswith("values; split the document")) == ("$", True)


def test_however_many_problems_there_are_a_hundred_are_kept_and_all_are_counted() -> None:
    notes = Notes()

    strict_json.read(b"[" + b",".join([b"NaN"] * 5000) + b"]", notes)

    assert (len(notes.problems.first), notes.problems.total) == (MOST_KEPT, 5000)


def test_places_can_be_stored_whatever_the_names_are() -> None:
    [(at, _)] = problems(b'{"\\u0000\\ud800' + b"x" * 5000 + b'": NaN}')

    assert at.isascii() or "…" in at
    assert "\0" not in at
    assert len(at) < 400
    at.encode()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def _plain(value: Given) -> Any:
    match value:
        case Number(text):
            return int(text)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case _:
            return value


@given(PLAIN)
def test_it_reads_what_the_standard_library_writes(value: Any) -> None:
    assert _plain(read(json.dumps(value).encode())) == value


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:0123eE.-+ntrue\\u', max_size=60).map(str.encode))
def test_no_bytes_crash_it(content: bytes) -> None:
    strict_json.read(content, Notes())
