"""Check tables: their columns and rows, rows that overlap, keys without a row, and lookups.

A column is exact (the row is for the keys it names) or one of ranges (`from … to …`, half-open); a table has at most
one column of ranges. Rows that overlap are an error, so at most one row applies.
"""

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from typing import Any, Final

from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain, literals
from bpc.core.language.checking.context import Checker, require_all
from bpc.core.language.checking.enumerations import declare_name
from bpc.core.language.checking.testing_blocks import ConstantRejected, read_constant
from bpc.core.language.source import DiagnosticNote, Span
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, EnumType, Opt, Qty, Type

MAX_KEYS: Final = 20_000

_SHOWN_KEYS: Final = 5
_COLUMN_TYPES: Final = "a column is Text, Int, Bool, Date, Dec, Qty or an enumeration"


def declare_tables(
    checker: Checker, declarations: Sequence[syntax.TableDeclaration], first_spans: dict[str, Span]
) -> None:
    """Make the tables known. One with a mistake is known too, so that its lookups are no further mistakes."""
    for node in declarations:
        is_free = declare_name(checker, node.name, first_spans)
        table = _check_table(checker, node)
        if is_free:
            checker.shared.calls[node.name.text] = check_table_call
            if table is not None:
                register_table(checker, table)


def register_table(checker: Checker, table: typed.TypedTable) -> None:
    checker.shared.tables[table.name] = table
    checker.shared.calls[table.name] = check_table_call


def _check_table(checker: Checker, node: syntax.TableDeclaration) -> typed.TypedTable | None:
    columns = _check_columns(checker, node)
    kind = literals.resolve_type(checker, node.type)
    if isinstance(kind, Opt):
        message = "the values of a table are never options: a lookup gives one, and a row may say `none`"
        checker.error("bad-table", node.type.span, message, f"write `{checker.types.to_text(kind.item)}`")
        return None
    if columns is None or kind is None:
        return None
    errors = len(checker.findings.errors)
    ranged = _find_range_column(checker, node, columns)
    if len(checker.findings.errors) > errors:
        return None
    rows = [_check_row(checker, row, node, columns, kind, ranged) for row in node.rows]
    cite = None if node.cite is None else node.cite.value
    names = [(name.text, column) for (name, _), column in zip(node.columns, columns, strict=True)]
    complete_rows = tuple(row for row in rows if row is not None)
    if not node.rows:
        checker.error("bad-table", node.name.span, f"the table `{node.name.text}` has no rows", "add a row")
    table = typed.TypedTable(node.name.text, tuple(names), kind, cite, complete_rows, node.name.span)
    if len(checker.findings.errors) == errors:
        _check_keys(checker, table)
    return table


# Columns and cells


def _check_columns(checker: Checker, node: syntax.TableDeclaration) -> tuple[Type, ...] | None:
    explain.report_duplicate_members(checker, [name for name, _ in node.columns])
    kinds = [literals.resolve_type(checker, column) for _, column in node.columns]
    for (_, column), kind in zip(node.columns, kinds, strict=True):
        if kind is None or kind in (TEXT, INT, BOOL, DATE) or isinstance(kind, Dec | Qty | EnumType):
            continue
        checker.error("bad-table", column.span, f"{_COLUMN_TYPES}, but this is {checker.format_type(kind)}")
        return None
    return require_all(kinds)


def _find_range_column(checker: Checker, node: syntax.TableDeclaration, columns: Sequence[Type]) -> int | None:
    """The column of ranges: days, Decs and quantities always are; Ints where a row says so."""
    positions = [
        position
        for position, kind in enumerate(columns)
        if kind is DATE
        or isinstance(kind, Dec | Qty)
        or (kind is INT and any(_is_range(row, position) for row in node.rows))
    ]
    if len(positions) > 1:
        first, second = (node.columns[position][0] for position in positions[:2])
        message = f"a table has at most one column of ranges, and `{second.text}` is the second"
        note = DiagnosticNote(first.span, f"`{first.text}` is the first")
        checker.error("bad-table", second.span, message, "make two tables of it, and look up one after the other", note)
    return positions[0] if positions else None


def _is_range(row: syntax.LookupRow, position: int) -> bool:
    return position < len(row.cells) and isinstance(row.cells[position], syntax.RangeCell)


def _check_row(
    checker: Checker,
    row: syntax.LookupRow,
    node: syntax.TableDeclaration,
    columns: Sequence[Type],
    kind: Type,
    ranged: int | None,
) -> typed.TypedRow | None:
    if len(row.cells) != len(columns):
        has, wants = len(row.cells), literals.format_count(len(columns), "column")
        names = ", ".join(name.text for name, _ in node.columns)
        message = f"the row has {literals.format_count(has, 'cell')}, but the table has {wants}"
        checker.error("bad-table", row.span, message, f"the columns are {names}")
        return None
    cells: list[tuple[typed.Value, ...] | typed.TypedRange | None] = []
    for position, (cell, column) in enumerate(zip(row.cells, columns, strict=True)):
        name, place = node.columns[position]
        checker.because = DiagnosticNote(place.span, f"the column `{name.text}` is {checker.format_type(column)}")
        cells.append(_check_cell(checker, cell, column, is_range=position == ranged))
    checker.because = DiagnosticNote(node.type.span, f"the values are {checker.format_type(kind)}")
    value = (None,) if isinstance(row.value, syntax.NoneLiteral) else _read(checker, row.value, kind)
    checker.because = None
    complete_cells = require_all(cells)
    if complete_cells is None or value is None:
        return None
    return typed.TypedRow(complete_cells, value[0], None if row.cite is None else row.cite.value, row.span)


def _read(checker: Checker, node: syntax.Constant, kind: Type) -> tuple[Any] | None:
    try:
        return (read_constant(checker, node, kind),)
    except ConstantRejected:
        return None


def _check_cell(
    checker: Checker, cell: syntax.KeyCell | syntax.RangeCell, kind: Type, *, is_range: bool
) -> tuple[typed.Value, ...] | typed.TypedRange | None:
    reason = explain.find_type_reason(checker)
    if isinstance(cell, syntax.RangeCell) and is_range:
        return _check_range(checker, cell, kind)
    if isinstance(cell, syntax.KeyCell) and not is_range:
        keys = require_all([_read(checker, key, kind) for key in cell.keys])
        return None if keys is None else tuple(key for (key,) in keys)
    if is_range:
        message = "this column is of ranges"
        hint = f"write `from {checker.quote_span(cell.span)} to …`, or `from …`, or `to …`"
    else:
        message = f"{checker.format_type(kind)} has no ranges"
        hint = "write the keys, separated by `|`"
    checker.error("bad-table", cell.span, message, hint, reason)
    return None


def _check_range(checker: Checker, cell: syntax.RangeCell, kind: Type) -> typed.TypedRange | None:
    low = (None,) if cell.low is None else _read(checker, cell.low, kind)
    high = (None,) if cell.high is None else _read(checker, cell.high, kind)
    if low is None or high is None:
        return None
    if low[0] is not None and high[0] is not None and not low[0] < high[0]:
        message = "this range is empty: it ends before it begins, or where it begins"
        checker.error("bad-table", cell.span, message, "a range does not include its end")
        return None
    return typed.TypedRange(low[0], high[0])


# Overlaps and gaps


def _check_keys(checker: Checker, table: typed.TypedTable) -> None:
    count = sum(prod(len(cell) for cell in _list_exact_cells(row)) for row in table.rows)
    if count > MAX_KEYS:
        message = f"the rows of `{table.name}` are for {count:,} keys, but a table has at most {MAX_KEYS:,}"
        checker.error("bad-table", table.span, message, "split it into several tables")
        return
    rows_by_key: dict[tuple[typed.Value, ...], list[typed.TypedRow]] = {}
    for row in table.rows:
        for key in product(*_list_exact_cells(row)):
            rows_by_key.setdefault(key, []).append(row)
    errors = len(checker.findings.errors)
    reported: set[tuple[Span, Span]] = set()
    for key, rows in rows_by_key.items():
        _check_rows_of_key(checker, table, key, rows, reported)
    if len(checker.findings.errors) == errors:
        _warn_of_missing_keys(checker, table, list(rows_by_key))


def _list_exact_cells(row: typed.TypedRow) -> list[tuple[typed.Value, ...]]:
    return [cell for cell in row.cells if not isinstance(cell, typed.TypedRange)]


def _check_rows_of_key(
    checker: Checker,
    table: typed.TypedTable,
    key: tuple[typed.Value, ...],
    rows: Sequence[typed.TypedRow],
    reported: set[tuple[Span, Span]],
) -> None:
    """Rows for one key must follow one another; where one ends before the next begins, there is a gap."""
    position = table.range_column
    ordered = sorted(rows, key=lambda row: _get_sort_key(row, position))
    for before, after in pairwise(ordered):
        first, later = sorted((before, after), key=lambda row: row.span)
        if (first.span, later.span) in reported:
            continue
        note = DiagnosticNote(first.span, "the other row is here")
        if position is None or _overlaps(before.cells[position], after.cells[position]):
            reported.add((first.span, later.span))
            where = f" for {_format_key(_list_exact_types(table), key)}" if key else ""
            message = f"two rows of `{table.name}` apply at once{where}"
            hint = "remove the key from one of them" if position is None else "let one end where the other begins"
            checker.error("table-overlap", later.span, message, hint, note)
        elif before.cells[position][1] != after.cells[position][0]:
            reported.add((first.span, later.span))
            where = f" for {_format_key(_list_exact_types(table), key)}" if key else ""
            message = f"no row of `{table.name}` applies between these two{where}"
            checker.findings.warning("table-gap", later.span, message, "a lookup there gives `none`", note)


def _get_sort_key(row: typed.TypedRow, position: int | None) -> tuple[bool, Any]:
    low = None if position is None else row.cells[position][0]
    return low is not None, low if low is not None else 0


def _overlaps(before: Any, after: Any) -> bool:
    """Whether a range reaches into one that begins no earlier."""
    return before[1] is None or after[0] is None or before[1] > after[0]


def _warn_of_missing_keys(checker: Checker, table: typed.TypedTable, keys: Sequence[tuple[typed.Value, ...]]) -> None:
    """Warn of members of enumerations, and of Bools, that no row is for: of their combinations if all keys are such."""
    kinds = _list_exact_types(table)
    domains = [_list_domain(kind) for kind in kinds]
    missing: list[str] = []
    if all(domains) and prod(map(len, domains)) <= MAX_KEYS:
        known = set(keys)
        missing = [_format_key(kinds, key) for key in product(*domains) if key not in known]
    else:
        for place, domain in enumerate(domains):
            known_parts = {key[place] for key in keys}
            missing += [_format_key(kinds[place : place + 1], (part,)) for part in domain if part not in known_parts]
    if kinds and missing:
        more = f" and {len(missing) - _SHOWN_KEYS:,} more" if len(missing) > _SHOWN_KEYS else ""
        message = f"the table `{table.name}` has no row for {', '.join(missing[:_SHOWN_KEYS])}{more}"
        checker.findings.warning("table-gap", table.span, message, "a lookup there gives `none`")


def _list_exact_types(table: typed.TypedTable) -> list[Type]:
    return [kind for position, (_, kind) in enumerate(table.columns) if position != table.range_column]


def _list_domain(kind: Type) -> Sequence[typed.Value]:
    """All keys of a type that has few."""
    if isinstance(kind, EnumType):
        return kind.members
    return (False, True) if kind is BOOL else ()


def _format_key(kinds: Sequence[Type], key: tuple[typed.Value, ...]) -> str:
    words = [_format_part(kind, part) for kind, part in zip(kinds, key, strict=True)]
    return f"`{', '.join(words)}`"


def _format_part(kind: Type, part: typed.Value) -> str:
    if kind is BOOL:
        return "true" if part else "false"
    return f'"{part}"' if kind is TEXT else str(part)


# Lookups


def check_table_call(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    name = node.function.text
    table = checker.shared.tables.get(name)
    if table is None:
        return None  # its declaration has a mistake
    if len(node.arguments) != len(table.columns):
        usage = f"{name}({', '.join(column for column, _ in table.columns)})"
        takes, has = literals.format_count(len(table.columns), "argument"), len(node.arguments) or "none"
        message = f"`{name}` takes {takes}, but this call has {has}"
        checker.error("wrong-argument-count", node.span, message, f"write `{usage}`")
        return None
    arguments: tuple[typed.Expr, ...] | None = require_all(
        [_check_argument(checker, argument, table, position) for position, argument in enumerate(node.arguments)]
    )
    kind = checker.require_allowed_size(checker.types.opt(checker.types.intern(table.type)), node.span)
    return None if arguments is None or kind is None else typed.TableLookup(kind, name, arguments, node.span)


def _check_argument(checker: Checker, node: syntax.Expr, table: typed.TypedTable, position: int) -> typed.Expr | None:
    name, kind = table.columns[position]
    kind = checker.types.intern(kind)
    note = None
    if checker.in_rules:
        note = DiagnosticNote(table.span, f"the column `{name}` of `{table.name}` is {checker.format_type(kind)}")
    outer, checker.because = checker.because, note
    expr = checker.check(node, kind)
    checker.because = outer
    return expr
