"""A CSV file as rows of a sheet, and where its places are there: a copy with comments must be a workbook.

Pure. `line 4, column mass_g` of the file is `Table!C4` of the sheet.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bpc.core.documents import Notes
from bpc.core.documents.cells import drop_comments
from bpc.core.documents.csv_table import open_csv
from bpc.core.documents.elements import FACT_TYPES
from bpc.core.documents.table_columns import label_header
from bpc.core.documents.table_layout import HeaderMatcher, find_layout
from bpc.core.documents.xlsx.sheet_rows import format_column_letters

SHEET: Final = "Table"

_PLACE: Final = re.compile(r"line ([0-9]+)(?:, column (.+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CsvCopy:
    """The rows of a file, the row at which a line begins, counted from 1, and the index of each column."""

    rows: tuple[tuple[str, ...], ...]
    rows_by_line: Mapping[int, int]
    columns: Mapping[str, int]

    def translate_place(self, place: str) -> str:
        """A place of the file as a place of the sheet; any other text as it is."""
        match = _PLACE.fullmatch(place)
        row = None if match is None else self.rows_by_line.get(int(match[1]))
        if match is None or row is None:
            return place
        column = self.columns.get(match[2] or "")
        return f"{SHEET}!{row}" if column is None else f"{SHEET}!{format_column_letters(column)}{row}"


def copy_csv(kinds: Sequence[str], content: bytes) -> CsvCopy | None:
    """The copy; None if the file is not text."""
    table = open_csv(content, Notes())
    if table is None:
        return None
    lines = list(table.read_texts(Notes()))
    columns: dict[str, int] = {}
    for kind in kinds:
        layout = find_layout(table, drop_comments(table.read_rows(Notes()), Notes()), HeaderMatcher(FACT_TYPES[kind]))
        if layout is not None and layout.orientation == "rows":
            columns |= {label_header(cell, index): index for index, cell in layout.header.cells.items()}
    return CsvCopy(
        tuple(tuple(cells) for _, cells in lines),
        {number: row for row, (number, _) in enumerate(lines, 1)},
        columns,
    )
