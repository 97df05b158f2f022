"""Number formats of spreadsheets: what a person sees in a cell is read, or nothing is."""

from io import BytesIO

import pytest
import xlsxwriter  # type: ignore[import-untyped]

from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.formats import canonical_json
from bpc.core.formats.file_types import XLSX


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
        ("mass_kg", 400, "[$€-407] #,##0.00", "400.000000"),
        ("model", 123, "000000", "000123"),
        ("model", 123, "0", "123"),
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
