"""Rows of tables, as the reference evaluator finds them: one after the other, until one applies."""

from collections.abc import Sequence
from typing import Any, Final

from bpc.core.language.typed import TypedRange, TypedRow, TypedTable

# So many rows of a table cost one step (docs/formats/cost.md).
ROWS_PER_STEP: Final = 16


def find_row(table: TypedTable, arguments: Sequence[Any]) -> int | None:
    """The number of the row that applies, from 0; None if none does."""
    for number, row in enumerate(table.rows):
        if _applies(row, arguments):
            return number
    return None


def _applies(row: TypedRow, arguments: Sequence[Any]) -> bool:
    for cell, argument in zip(row.cells, arguments, strict=True):
        if not isinstance(cell, TypedRange):
            if argument not in cell:
                return False
        elif (cell.low is not None and argument < cell.low) or (cell.high is not None and argument >= cell.high):
            return False
    return True
