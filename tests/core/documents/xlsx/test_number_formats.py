"""Number formats of spreadsheets: what a person sees in a cell is read, or nothing is."""

from io import BytesIO

import pytest
import xlsxwriter  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from bpc.core.documents.elements import NumberText
from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.documents.xlsx.number_formats import parse_number_format
from bpc.core.formats import canonical_json
from bpc.core.formats.file_types import XLSX
from tests.measurements import choose_effort


def read_cell(header: str, value: float, number_format: str) -> tuple[object, list[str]]:
    """What is read of a cell below a header, and the warnings."""
    buffer = BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True}) as book:
        sheet = book.add_worksheet("Battery")
        sheet.write_row(0, 0, ["sku", header])
        sheet.write_string(1, 0, "A")
        sheet.write_number(1, 1, value, book.add_format({"num_format": number_format}))
    outcome = read_document("BOM", XLSX, buffer.getvalue())
    assert isinstance(outcome, DocumentFacts), outcome
    payload = canonical_json.decode(outcome.facts[0].payload_canonical)
    assert isinstance(payload, dict)
    [value_read] = [member for name, member in payload.items() if name != "sku"] or [None]
    return value_read, [note.says for note in outcome.warnings.first]


@pytest.mark.parametrize(
    ("header", "value", "number_format", "expected"),
    [
        ("mass_kg", 1234.5, "#,##0.00", "1234.500000"),
        ("mass_kg", 400, '0.0" kg"', "400.000000"),
        ("Masse [t]", 0.4, '0.0" t"', "400.000000"),
        ("mass_kg", 0.00012, "0.00E+00", "0.000120"),
        ("mass_kg", 7, "000", "7.000000"),
        ("mass_kg", -400, "0.0;[Red]0.0", "-400.000000"),
        ("mass_kg", -400, "#,##0_);(#,##0)", "-400.000000"),
        ("mass_kg", 0.5, "# ?/8", "0.500000"),
        ("mass_kg", 0.5, '# ?/?" t"', "500.000000"),
        ("mass_kg", 1234567.5, "# ##0.0", "1234567.500000"),
        ("mass_kg", 400, '[>=1000]0.0," t";0" kg"', "400.000000"),
        ("recycled_cobalt_pct", 12, '0"%"', "12.00"),
        ("recycled_cobalt_pct", 12, '0"‰"', "1.20"),
        ("recycled_cobalt_pct", 0.12, "0.0%;-0.0%", "12.00"),
        ("model", 123, "000000", "000123"),
        ("model", 1234567890, "000000000000", "001234567890"),
        ("model", 123, "0", "123"),
        ("model", 12, '"AB-"0000', "AB-0012"),
        ("model", 7439921, "0000-00-0", "7439-92-1"),
        ("manufactured_on", 46436, "dd/mm/yyyy;@", "2027-02-18"),
        ("manufactured_on", 46436, "[$-F800]dddd, mmmm dd, yyyy", "2027-02-18"),
    ],
)
def test_a_number_is_read_as_it_is_shown(header: str, value: float, number_format: str, expected: str) -> None:
    assert read_cell(header, value, number_format) == (expected, [])


@pytest.mark.parametrize(
    ("header", "value", "number_format", "says"),
    [
        ("Mass [kg]", 0.4, '0.0" t"', "keep one of the two"),
        ("mass_kg", 86700, "0.0,", "in thousands"),
        ("mass_kg", 86700, '0.0,,"M"', "in thousands"),
        ("mass_kg", 86700, "0,.0", "in thousands"),
        ("mass_kg", 1000, '[>=1000]0.0," t";0" kg"', "in thousands"),
        ("mass_kg", 400, "[$€-407] #,##0.00", "correct the unit"),
        ("mass_kg", 400, '0"%"', "is not a percentage"),
        ("mass_kg", 12, '0"000"', 'as "12000"'),
        ("mass_kg", 1234, r"0\.00", 'as "12.34"'),
        ("mass_kg", 1234, r"00\,0", 'as "123,4"'),
        ("mass_kg", 12, '0"/"0', 'as "1/2"'),
        ("mass_kg", 1234, "0 0", 'as "123 4"'),
        ("mass_kg", -5, "[>=1000]0.0;0", "in another form"),
        ("mass_kg", 5, "@;0.0", "in another form"),
        ("mass_kg", 5, "[>=1000]", "in another form"),
        ("mass_kg", 5, '"$ "0" kg"', "correct the unit"),
        ("mass_kg", 400, r"\-0", "as negative"),
        ("mass_kg", -400, "0.0;0.0", "without its minus sign"),
        ("mass_kg", 0, "0;-0;;@", "shows nothing"),
        ("mass_kg", 400, ";;;", "shows nothing"),
        ("mass_kg", 0, "#,###", "shows nothing"),
        ("mass_kg", 0, '_-* #,##0.00_-;-* #,##0.00_-;_-* "-"??_-;_-@_-', 'shows "-"'),
        ("mass_kg", 1, '"yes";"yes";"no"', 'shows "yes"'),
        ("manufactured_on", 46436, "mmm yyyy", "does not show day, month and year"),
        ("manufactured_on", 46436, "d mmm", "does not show day, month and year"),
        ("model", 2, "0.0", "format the cell as text"),
        ("model", 100000, "0.00E+00", "format the cell as text"),
        ("expected_cycles", 400, '0" kg"', "correct the unit"),
    ],
)
def test_a_number_that_its_cell_shows_as_another_is_not_read(
    header: str, value: float, number_format: str, says: str
) -> None:
    value_read, warnings = read_cell(header, value, number_format)

    assert value_read is None
    assert any(says in warning for warning in warnings), warnings


@settings(max_examples=choose_effort(test=200, shown=5_000, campaign=50_000))
@given(
    st.text('0#?.,;%/E+-@"\\[]<>=()dmyhsgeAPM _*€$kgGnral1', max_size=24),
    st.decimals(-(10**8), 10**8, places=3).map(lambda number: f"{number:f}"),
)
def test_any_format_shows_a_number_or_says_why_not(code: str, number: str) -> None:
    number_format = parse_number_format(code)

    if number_format is not None:
        cell = number_format.show_number(NumberText(number), from_1904=False)
        assert not isinstance(cell, str | bool)
