"""The CSV file that names the products of a bulk compile: SKU, name, snapshot."""

import csv
import io
from collections.abc import Mapping
from typing import Final

from bpc_client.models import BulkItem

from bpc.core.errors import Invalid
from bpc.core.formats.ids import parse_uuid

COLUMNS: Final = ("sku", "name", "snapshot_id")


def read_items(data: bytes) -> list[BulkItem]:
    """The rows of a CSV file; the first line names the columns."""
    try:
        text = data.decode("utf-8-sig")
        # European spreadsheets write semicolons: the most frequent separator of the first line is used.
        separator = max(",;\t", key=text.partition("\n")[0].count)
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        columns = reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
        if "sku" not in columns:
            raise Invalid("the file has no column `sku`", fix=f"its first line names the columns: {', '.join(COLUMNS)}")
        if unknown := next((name for name in columns if name not in COLUMNS), None):
            raise Invalid(f"unknown column `{unknown}`", fix=f"known columns: {', '.join(COLUMNS)}")
        if duplicate := next((name for name in columns if columns.count(name) > 1), None):
            raise Invalid(f"the column `{duplicate}` appears twice", fix="leave one of them out")
        lines_by_sku: dict[str, int] = {}
        items = [_read_item(row, reader.line_num, lines_by_sku) for row in reader if any(row.values())]
    except UnicodeDecodeError:
        raise Invalid("the file is not UTF-8 text", fix="save it as CSV in UTF-8") from None
    except csv.Error as wrong:
        raise Invalid(f"the file is not CSV: {wrong}") from None
    if not items:
        raise Invalid("the file lists no product", fix="write a line for each product below the column names")
    return items


def _read_item(row: Mapping[str | None, str | None], line: int, lines_by_sku: dict[str, int]) -> BulkItem:
    sku, name, snapshot = (row.get(column) or None for column in COLUMNS)
    if sku is None or None in row:
        problem = "has no SKU" if sku is None else "has more cells than there are columns"
        raise Invalid(f"line {line} {problem}", fix="write a cell for each column, and quote one that has a comma")
    if sku in lines_by_sku:
        raise Invalid(f"lines {lines_by_sku[sku]} and {line} have the same SKU", fix="list each product once")
    lines_by_sku[sku] = line
    return BulkItem(sku=sku, name=name, snapshot_id=None if snapshot is None else parse_uuid(snapshot))
