"""A table of texts as a workbook, each cell as it is written: no text becomes a number, a date or a formula."""

import io
from collections.abc import Sequence

import xlsxwriter  # type: ignore[import-untyped]

from bpc.printing.template_workbook import CREATED_AT


def write_text_workbook(label: str, rows: Sequence[Sequence[str]]) -> bytes:
    """A workbook with one sheet."""
    buffer = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(buffer, options) as book:
        book.set_properties({"created": CREATED_AT})
        text = book.add_format({"num_format": "@"})
        sheet = book.add_worksheet(label)
        for number, row in enumerate(rows):
            for index, cell in enumerate(row):
                sheet.write_string(number, index, cell[:32_767], text)
    return buffer.getvalue()
