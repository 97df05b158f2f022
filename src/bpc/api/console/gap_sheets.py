"""The gaps of products as a spreadsheet: a sheet of products and data points, and a sheet of what is to be done."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import xlsxwriter  # type: ignore[import-untyped]

from bpc.core.exports.data_points import POINTS

COLOURS: Final = {
    "filled": "#E3F4EA",
    "missing": "#FDEAEA",
    "failing": "#FDEAEA",
    "unreadable": "#FDEAEA",
    "conflicting": "#FFF1D6",
    "implausible": "#FFF1D6",
    "not_shown": "#FFF1D6",
}
TODO_HEADINGS: Final = ("SKU", "Kind", "Severity", "Data points", "What it says", "Document", "Place", "Supplier")


def write_gap_sheets(products: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> bytes:
    """The workbook. Every cell is written as a text or a number, so that no value becomes a formula."""
    output = BytesIO()
    with xlsxwriter.Workbook(output, {"in_memory": True}) as book:
        heading = book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
        tones = {state: book.add_format({"bg_color": colour}) for state, colour in COLOURS.items()}
        matrix = book.add_worksheet("Data points")
        for column, text in enumerate(("SKU", "Category", "Ready", *(f"{each.number} {each.name}" for each in POINTS))):
            matrix.write_string(0, column, text, heading)
        for row, product in enumerate(products, start=1):
            matrix.write_string(row, 0, product["sku"])
            matrix.write_string(row, 1, product["category"] or "")
            matrix.write_boolean(row, 2, product["ready"])
            for column, point in enumerate(product["points"], start=3):
                matrix.write_string(row, column, labels[point["state"]], tones.get(point["state"]))
        matrix.freeze_panes(1, 1)
        todo = book.add_worksheet("To do")
        for column, text in enumerate(TODO_HEADINGS):
            todo.write_string(0, column, text, heading)
        for row, cells in enumerate(_list_todo(products), start=1):
            for column, text in enumerate(cells):
                todo.write_string(row, column, text)
        todo.freeze_panes(1, 0)
        todo.autofilter(0, 0, 0, len(TODO_HEADINGS) - 1)
    return output.getvalue()


def _list_todo(products: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """A row for each issue and each document that it is about, or one without a document."""
    rows = []
    for product in products:
        for issue in product["issues"]:
            points = ", ".join(str(point) for point in issue["points"])
            for document in issue["documents"] or [{}]:
                place = (document.get("file_name"), document.get("place"), document.get("supplier"))
                texts = (product["sku"], issue["kind"], issue["severity"], points, issue["message"], *place)
                rows.append(tuple("" if text is None else str(text) for text in texts))
    return rows
