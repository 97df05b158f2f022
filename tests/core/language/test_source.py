"""Rule text: places people can find, and diagnostics as terminals and programs get them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpc.core.errors import CODES
from bpc.core.language.source import (
    DIAGNOSTIC_KINDS,
    MAX_SOURCE_BYTES,
    Diagnostic,
    DiagnosticNote,
    Source,
    Span,
    diagnostic_to_json,
    has_errors,
    read_source,
    render_diagnostic,
    render_excerpt,
    sort_diagnostics,
)

TEXT = 'field a: Int = 1;\n\tfield b: Text = "größe";\r\nfield c: Int = d;'


def make_diagnostic(kind: str = "unknown-variable", start: int = 0, end: int = 1, **more: object) -> Diagnostic:
    return Diagnostic(kind=kind, message="it is so", span=Span(start, end), **more)  # type: ignore[arg-type]


# Places


@pytest.mark.parametrize(
    ("offset", "line", "column"),
    [(0, 1, 1), (17, 1, 18), (18, 2, 1), (19, 2, 2), (TEXT.index("ö"), 2, 21), (TEXT.index("d;"), 3, 16)],
)
def test_a_place_counts_lines_and_code_points_from_one(offset: int, line: int, column: int) -> None:
    assert Source("a.bpc", TEXT).locate(offset) == (line, column)


def test_the_place_after_the_last_character_can_be_named() -> None:
    assert Source("a.bpc", "ab\n").locate(3) == (2, 1)
    assert Source("a.bpc", "").locate(0) == (1, 1)


@given(st.text(alphabet="a\u00e9\n\r"), st.data())
def test_a_place_leads_back_to_where_it_is(text: str, data: st.DataObject) -> None:
    source, offset = Source("rules.bpc", text), data.draw(st.integers(0, len(text)))

    assert source.get_offset(*source.locate(offset)) == offset


def test_a_line_is_shown_without_its_end() -> None:
    source = Source("a.bpc", TEXT)

    assert [source.get_line(number) for number in (1, 2, 3)] == [
        "field a: Int = 1;",
        '\tfield b: Text = "größe";',
        "field c: Int = d;",
    ]


def test_only_a_line_feed_ends_a_line() -> None:
    assert Source("a.bpc", "a\u2028b\x0bc\rd").locate(6) == (1, 7)


@given(st.text(max_size=30), st.data())
def test_a_range_of_characters_is_a_range_of_bytes(text: str, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(text)))
    start = data.draw(st.integers(0, end))

    first, last = Source("a.bpc", text).byte_range(Span(start, end))

    assert text.encode()[first:last] == text[start:end].encode()


# Reading


def test_utf8_becomes_a_source_with_the_name_it_was_given() -> None:
    source = read_source("rules/é.bpc", "-- ü\n".encode())

    assert isinstance(source, Source)
    assert (source.name, source.text) == ("rules/é.bpc", "-- ü\n")


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        (b" " * (MAX_SOURCE_BYTES + 1), "source-too-large", "1,048,577 bytes"),
        (b"\xef\xbb\xbf-- a", "byte-order-mark", "byte order mark"),
        (b"-- a\n-- \xe4\n", "not-utf8", "line 2 is not valid UTF-8 (byte 0xe4)"),
    ],
)
def test_bytes_that_are_no_rule_text_are_one_diagnostic(data: bytes, kind: str, says: str) -> None:
    refused = read_source("a.bpc", data)

    assert isinstance(refused, Diagnostic)
    assert refused.kind == kind
    assert says in refused.message
    assert refused.help is not None


def test_a_file_of_exactly_the_largest_size_is_read() -> None:
    assert isinstance(read_source("a.bpc", b" " * MAX_SOURCE_BYTES), Source)


# Kinds


def test_every_kind_has_a_code_of_ours_and_a_title() -> None:
    assert [slug for slug, kind in DIAGNOSTIC_KINDS.items() if kind.code not in CODES or not kind.title] == []


def test_a_kind_that_is_not_in_the_table_cannot_be_reported() -> None:
    with pytest.raises(ValueError, match="`odd` is not in the table of kinds"):
        make_diagnostic("odd")


def test_a_kind_decides_code_and_severity() -> None:
    doubt, mistake = make_diagnostic("unused-let"), make_diagnostic("unit-mismatch")

    assert (doubt.code, doubt.severity, doubt.is_error) == ("RULE_TYPE_ERROR", "warning", False)
    assert (mistake.code, mistake.severity, mistake.is_error) == ("UNIT_MISMATCH", "error", True)
    assert has_errors([doubt, mistake])
    assert not has_errors([doubt])


def test_diagnostics_come_in_the_order_a_reader_meets_them() -> None:
    late, doubt, mistake = make_diagnostic(start=9, end=10), make_diagnostic("unused-let"), make_diagnostic("cycle")

    assert sort_diagnostics([late, doubt, mistake]) == [mistake, doubt, late]


# For people


def test_a_diagnostic_shows_sentence_place_line_caret_and_help() -> None:
    at = TEXT.index("d;")
    output = render_diagnostic(Source("a.bpc", TEXT), make_diagnostic(start=at, end=at + 1, help="did you mean `c`?"))

    assert output == (
        "error[unknown-variable]: it is so\n"
        "  at a.bpc:3:16\n"
        "  3 | field c: Int = d;\n"
        "    |                ^\n"
        "help: did you mean `c`?\n"
    )


def test_notes_point_at_other_places_and_line_numbers_are_aligned() -> None:
    text = "field a: Int = 1;\n" * 10
    note = DiagnosticNote(Span(0, 5), "declared here first")

    output = render_diagnostic(
        Source("a.bpc", text), make_diagnostic("duplicate-field", 9 * 18, 9 * 18 + 5, notes=(note,))
    )

    assert output == (
        "error[duplicate-field]: it is so\n"
        "  at a.bpc:10:1\n"
        "  10 | field a: Int = 1;\n"
        "     | ^^^^^\n"
        "   1 | field a: Int = 1;\n"
        "     | ----- declared here first\n"
    )


def test_a_line_is_shown_once_for_all_that_is_marked_in_it() -> None:
    notes = (DiagnosticNote(Span(0, 1), "one"), DiagnosticNote(Span(4, 5), "other"))

    output = render_diagnostic(Source("a.bpc", "a + b"), make_diagnostic("operands-disagree", 2, 3, notes=notes))

    assert output.endswith("  1 | a + b\n    |   ^\n    | - one\n    |     - other\n")


def test_what_is_no_diagnostic_can_be_shown_at_its_place() -> None:
    assert render_excerpt(Source("a.bpc", TEXT), Span(6, 7)) == "  1 | field a: Int = 1;\n    |       ^\n"


def test_a_tab_is_one_column_so_the_caret_stands_where_it_should() -> None:
    output = render_diagnostic(Source("a.bpc", TEXT), make_diagnostic(start=TEXT.index("b:"), end=TEXT.index("b:") + 1))

    assert '  2 |  field b: Text = "größe";\n    |        ^\n' in output


def test_a_range_over_several_lines_is_underlined_to_the_end_of_its_first() -> None:
    output = render_diagnostic(Source("a.bpc", "abc\ndef"), make_diagnostic(start=1, end=6))

    assert output.endswith("  1 | abc\n    |  ^^\n")


def test_a_place_behind_the_last_line_still_has_a_caret() -> None:
    output = render_diagnostic(Source("a.bpc", "abc\n"), make_diagnostic(start=4, end=4))

    assert output.endswith("  at a.bpc:2:1\n  2 |\n    | ^\n")


def test_of_a_very_long_line_only_what_is_around_the_place_is_shown() -> None:
    output = render_diagnostic(Source("a.bpc", "x" * 500 + "HERE" + "y" * 500), make_diagnostic(start=500, end=504))
    line, marks = output.split("\n")[2:4]

    assert len(line) < 180
    assert line[marks.index("^") :].startswith("HERE")
    assert marks.count("^") == 4


# For programs


def test_a_program_gets_the_same_as_numbers() -> None:
    at = TEXT.index('"größe"')
    note = DiagnosticNote(Span(6, 7), "see here")

    assert diagnostic_to_json(
        Source("a.bpc", TEXT), make_diagnostic(start=at, end=at + 7, help="h", notes=(note,))
    ) == {
        "severity": "error",
        "code": "RULE_TYPE_ERROR",
        "kind": "unknown-variable",
        "message": "it is so",
        "file": "a.bpc",
        "line": 2,
        "column": 18,
        "end_line": 2,
        "end_column": 25,
        "help": "h",
        "notes": [{"line": 1, "column": 7, "message": "see here"}],
    }
