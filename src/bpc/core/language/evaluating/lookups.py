"""Code for what is looked up in the rules themselves: rows of tables, and the member that a text means.

Pure. A table is indexed when the code is loaded: by its exact keys, then the ranges of each key.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, Final

from bpc.core.language import typed
from bpc.core.language.evaluating import runtime
from bpc.core.language.evaluating.emitter import CoverageSite, Emission, Emitter, OperandCode
from bpc.core.language.types import EnumType, unwrap_option_type

# So many rows of a table cost one step (BPC-COST-1).
ROWS_PER_STEP: Final = 16


def emit_to_enum(emitter: Emitter, expr: typed.BuiltinCall, atoms: list[str]) -> str:
    """The member that a text means; no text means none."""
    kind = unwrap_option_type(expr.type)
    if not isinstance(kind, EnumType):
        raise TypeError(f"{kind} is no enumeration")
    find = emitter.code.register("E", kind, lambda: kind.spellings.get)
    return emitter.code.store(f"{find}({atoms[0]})")


def emit_table_lookup(emitter: Emitter, expr: typed.TableLookup) -> Emission:
    """The row is a number, -1 if none applies; the last value is that of no row."""
    arguments = []
    for argument in expr.arguments:
        arguments.append((yield argument))  # noqa: PERF401 - a comprehension cannot ask for parts
    code, table = emitter.code, emitter.tables[expr.table]
    if len(table.rows) >= ROWS_PER_STEP:
        emitter.charge(len(table.rows) // ROWS_PER_STEP, expr.span)
    find = code.register("T", table.name, lambda: create_row_finder(table))
    row = code.store(f"{find}({', '.join(argument.value for argument in arguments)})")
    _mark_row(emitter, table, row)
    values = code.register("V", table.name, lambda: (*(each.value for each in table.rows), None))
    value = code.store(f"{values}[{row}]")
    return OperandCode(value)


def _mark_row(emitter: Emitter, table: typed.TypedTable, row: str) -> None:
    """Each row is a branch that tests can reach, whichever lookup reaches it."""
    if emitter.mode != "cover":
        return
    first_site = CoverageSite("branch", table.rows[0].span, f"row 1 of {table.name}")
    if first_site not in emitter.sites:
        emitter.sites += [
            CoverageSite("branch", each.span, f"row {number} of {table.name}")
            for number, each in enumerate(table.rows, 1)
        ]
    first = emitter.sites.index(first_site)
    emitter.code.write_line(f"if {row} >= 0: s[{runtime.REACHED}][{first} + {row}] = 1")


def create_row_finder(table: typed.TypedTable) -> Callable[..., int]:
    """The function that gives the number of the row that applies, or -1."""
    position = table.range_column
    ranges: dict[tuple[Any, ...], list[tuple[Any, Any, int]]] = {}
    for number, row in enumerate(table.rows):
        low, high = (None, None) if position is None else row.cells[position]
        exact = [cell for cell in row.cells if not isinstance(cell, typed.TypedRange)]
        for key in product(*exact):
            ranges.setdefault(key, []).append((low, high, number))

    def find_row(*arguments: Any) -> int:
        key, at = arguments, None
        if position is not None:
            key, at = arguments[:position] + arguments[position + 1 :], arguments[position]
        for low, high, number in ranges.get(key, ()):
            if (low is None or low <= at) and (high is None or at < high):
                return number
        return -1

    return find_row
