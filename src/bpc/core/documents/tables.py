"""Tables: rows of cells become the elements of a document, from CSV and from spreadsheets.

The first row that is not empty is the header. Each row below it is one battery, component, footprint or due diligence
report; in a table of batteries and components, a row with a `part` is a component. An empty cell is a missing member.
A row is a comment if its first cell is `#` or begins with `# `.

Cells are converted here, by the type of their column, only as far as tables differ from JSON: a boolean may be `yes`, a
list stands in one cell. `fact_members` checks the values, for all formats alike.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol, TypeAlias

from bpc.core.documents import Notes, quote_text
from bpc.core.documents.elements import (
    FactElement,
    NumberText,
    RawValue,
    assign_components_to_battery,
    is_plain_decimal,
)
from bpc.core.documents.fact_members import (
    BLANKS,
    MemberPath,
    find_member_type,
    fits_a_cell,
    list_columns,
    normalize_name,
    parse_column_name,
)
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION, SCHEMAS
from bpc.core.language.types import BOOL, DATE, INT, TEXT, Dec, FactRecordType, List, Type

MAX_COLUMNS: Final = 2_000
MAX_ROWS: Final = 50_000

_COMMENT: Final = re.compile(r"#(?:[ \t\n].*)?", re.DOTALL)
_FORMULA_ERRORS: Final = frozenset(
    {"#REF!", "#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#VALUE!", "#SPILL!", "#CALC!"}
)
_BOOLEANS: Final[Mapping[str, bool]] = {
    "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False,
}  # fmt: skip
_LIST_SEPARATOR: Final = re.compile(r"[;\n]")
# Numbers as spreadsheets show them. Their value depends on the language of the spreadsheet.
_AMBIGUOUS_NUMBERS: Final = (
    (
        re.compile(r"-?[0-9]+(?:[.,][0-9]+)?[eE][+-]?[0-9]+"),
        "which is in scientific notation; format the column as a number with all its digits",
    ),
    (re.compile(r"-?[0-9]+,[0-9]+"), "which has a comma; write a decimal point, and no thousands separator"),
    (
        re.compile(r"-?[0-9]{1,3}(?:[., '\u2019\u00a0\u202f][0-9]{3})+(?:[.,][0-9]+)?"),
        "which has a thousands separator; write it like 1234.5",
    ),
)
_EMPTY: Final = "is empty: it has no header and no rows"
_GAP: Final = "is empty but a later one is filled; fill them in order, starting with 1"
_CELL_PATH: Final = re.compile(r"((?:.*!|line )[0-9]+)\.(.+)", re.DOTALL)
_INDEX: Final = re.compile(r"\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class DateCell:
    """A cell that holds a date, written like 2027-02-18."""

    text: str


@dataclass(frozen=True, slots=True)
class InvalidCell:
    """A cell that cannot be read; `says` is the problem."""

    says: str


Cell: TypeAlias = str | NumberText | bool | DateCell | InvalidCell


@dataclass(frozen=True, slots=True)
class TableRow:
    """The cells of a row that are not empty, by their column, counted from 0."""

    place: str
    cells: Mapping[int, Cell]


class Sheet(Protocol):
    """A table of any format."""

    @property
    def name(self) -> str: ...

    def read_rows(self, notes: Notes) -> Iterator[TableRow]:
        """The rows that are not empty."""
        ...

    def locate_cell(self, row: str, column: int | None, name: str) -> str:
        """The place of a cell; `column` is None if the table has no column of that name."""
        ...


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is read: its place, its name and the path from a fact to its value."""

    index: int
    name: str
    steps: MemberPath
    types: Mapping[str, Type]  # of each fact type that has it


@dataclass(frozen=True, slots=True)
class _Leaf:
    value: RawValue


_Tree: TypeAlias = "dict[str | int, _Tree | _Leaf]"


@dataclass(slots=True)
class CellLocator:
    """Turns a path such as `line 4.mass_g` into the place of a cell, once the headers are known."""

    _tables: dict[str, tuple[Sheet, dict[str, int]]] = field(default_factory=dict)

    def add_table(self, sheet: Sheet, columns: Iterable[Column]) -> None:
        self._tables[sheet.name] = (sheet, {column.name: column.index for column in columns})

    def __call__(self, at: str) -> str:
        parts = _CELL_PATH.fullmatch(at)
        if parts is None:
            return at
        row, name = parts[1], _INDEX.sub(lambda index: f"[{int(index[1]) + 1}]", parts[2])
        table = self._tables.get(row.rpartition("!")[0])
        if table is None:
            return at
        sheet, columns = table
        while name not in columns and name.endswith("]"):  # one of several in a cell
            name = name.rpartition("[")[0]
        return sheet.locate_cell(row, columns.get(name), name)


def read_tables(tables: Iterable[tuple[Sheet, tuple[str, ...]]], notes: Notes) -> list[FactElement]:
    """The elements of all tables. With each table come the fact types that its rows may be."""
    elements: list[FactElement] = []
    headers: list[str] = []
    locator = CellLocator()
    notes.locate = locator
    for sheet, fact_types in tables:
        rows = (row for row in sheet.read_rows(notes) if not is_comment(row.cells))
        header = next(rows, None)
        if header is None:
            continue
        headers.append(header.place)
        problems_before = notes.problems.total
        columns = _read_header(sheet, header, fact_types, notes)
        locator.add_table(sheet, columns)
        if notes.problems.total == problems_before:  # else every row would have the same problem
            elements += _read_elements(sheet, header, islice(rows, MAX_ROWS + 1), columns, fact_types, notes)
        if len(elements) > MAX_ROWS:
            notes.add_problem(elements[-1].path, f"is more than {MAX_ROWS:,} rows below the header; split the document")
            return []
    if notes.is_clean and not elements:
        at, says = (headers[0], "has no rows; fill in at least one below the header") if headers else ("$", _EMPTY)
        notes.add_problem(at, says)
    return assign_components_to_battery(elements)


def is_comment(cells: Mapping[int, Cell]) -> bool:
    """Whether the first cell of a row makes it a comment."""
    first = cells[min(cells)]
    return isinstance(first, str) and _COMMENT.fullmatch(first) is not None


def _read_header(sheet: Sheet, header: TableRow, fact_types: tuple[str, ...], notes: Notes) -> list[Column]:
    if len(header.cells) > MAX_COLUMNS:
        notes.add_problem(header.place, f"has {len(header.cells):,} columns; the limit is {MAX_COLUMNS:,}")
        return []
    columns: dict[str, Column] = {}
    for index, cell in sorted(header.cells.items()):
        name = normalize_name(cell) if isinstance(cell, str) else ""
        at = sheet.locate_cell(header.place, index, name or f"{index + 1}")
        if name in columns:
            notes.add_problem(at, "occurs twice in the header")
            continue
        column = _read_column(index, name, cell, fact_types, at, notes)
        if column is not None:
            columns[name] = column
    for name, column in columns.items():
        if len(column.steps) > 1 and str(column.steps[0]) in columns:
            notes.add_problem(
                sheet.locate_cell(header.place, column.index, name),
                f"is part of `{column.steps[0]}`, which has a column of its own; keep one of the two",
            )
    if columns.keys() == {"sku"} and len(header.cells) > 1:
        fact_names = " or ".join(fact_types)
        notes.add_problem(
            header.place, f"has no column for a {fact_names} except `sku`; is the document of another kind?"
        )
    return list(columns.values())


def _read_column(
    index: int, name: str, cell: Cell, fact_types: tuple[str, ...], at: str, notes: Notes
) -> Column | None:
    steps = parse_column_name(name)
    types: dict[str, Type] = {}
    for fact_type in fact_types:
        kind = find_member_type(SCHEMAS[FactRecordType(fact_type, SCHEMA_VERSION)], steps) if steps else None
        if kind is not None:
            types[fact_type] = kind
    if steps is None or not types:
        _warn_unknown_column(name, cell, fact_types, at, notes)
        return None
    for fact_type, kind in types.items():
        if not fits_a_cell(kind):
            member = SCHEMA_MEMBERS[FactRecordType(fact_type, SCHEMA_VERSION)][str(steps[0])]
            example = list_columns(str(steps[0]), member)[0][0]
            notes.add_problem(at, f"is a list of records; use one column for each value, such as `{example}`")
            return None
    return Column(index, name, steps, types)


def _warn_unknown_column(name: str, cell: Cell, fact_types: tuple[str, ...], at: str, notes: Notes) -> None:
    known = (name for fact_type in fact_types for name in SCHEMAS[FactRecordType(fact_type, SCHEMA_VERSION)])
    suggestion = notes.suggestions.suggest(name, known)
    description = quote_text(cell) if isinstance(cell, str) else "no name"
    fact_names = " or ".join(fact_types)
    notes.add_warning(
        at,
        f"({description}) is not a member of {fact_names} and was left out" + (f"; {suggestion}" if suggestion else ""),
    )


def _read_elements(
    sheet: Sheet,
    header: TableRow,
    rows: Iterable[TableRow],
    columns: list[Column],
    fact_types: tuple[str, ...],
    notes: Notes,
) -> Iterator[FactElement]:
    nameless: set[int] = set()
    for row in rows:
        for index in row.cells.keys() - header.cells.keys() - nameless:
            nameless.add(index)
            notes.add_warning(
                sheet.locate_cell(row.place, index, str(index + 1)), "has no name in the header and was left out"
            )
        fact_type = _choose_fact_type(row, columns, fact_types)
        yield FactElement(fact_type, row.place, _read_members(sheet, row, columns, fact_type, notes))


def _choose_fact_type(row: TableRow, columns: list[Column], fact_types: tuple[str, ...]) -> str:
    if len(fact_types) == 1:
        return fact_types[0]
    has_part = any(column.name == "part" and column.index in row.cells for column in columns)
    return "Component" if has_part else "Battery"


def _read_members(
    sheet: Sheet, row: TableRow, columns: list[Column], fact_type: str, notes: Notes
) -> dict[str, RawValue]:
    members: dict[str, RawValue] = {}
    numbered: _Tree = {}
    for column in columns:
        cell = row.cells.get(column.index)
        if cell is None:
            continue
        kind = column.types.get(fact_type)
        value = "" if kind is None else _convert_cell(kind, cell)
        if isinstance(value, InvalidCell):
            notes.add_problem(sheet.locate_cell(row.place, column.index, column.name), value.says)
            value = None if kind is None else _choose_placeholder(kind)
        if len(column.steps) == 1:
            members[column.name] = value
        else:
            _insert_leaf(numbered, column.steps, value)
    for name, below in numbered.items():
        members[str(name)] = _build_lists(
            below, lambda name: notes.add_problem(sheet.locate_cell(row.place, None, name), _GAP), str(name)
        )
    return members


def _insert_leaf(tree: _Tree, steps: MemberPath, value: RawValue) -> None:
    for step in steps[:-1]:
        below = tree.setdefault(step, {})
        tree = below if isinstance(below, dict) else {}
    tree[steps[-1]] = _Leaf(value)


def _build_lists(tree: "_Tree | _Leaf", report_gap: Callable[[str], None], name: str) -> RawValue:
    """Turn the numbered parts of a tree into lists."""
    if isinstance(tree, _Leaf):
        return tree.value
    numbers = sorted(step for step in tree if isinstance(step, int))
    if not numbers:
        return {str(step): _build_lists(below, report_gap, f"{name}.{step}".strip(".")) for step, below in tree.items()}
    for expected, number in enumerate(numbers, 1):
        if number != expected:
            report_gap(f"{name}[{expected}]")
            break
    return [_build_lists(tree[number], report_gap, f"{name}[{number}]") for number in numbers]


def parse_cell(text: str) -> Cell | None:
    """The cell of a text, without blanks around it; None if it is empty."""
    text = text.strip(BLANKS)
    if text in _FORMULA_ERRORS:
        return InvalidCell(f"is {text}; correct the formula")
    return text or None


def _convert_cell(kind: Type, cell: Cell) -> "RawValue | InvalidCell":
    if isinstance(cell, InvalidCell):
        return cell
    if isinstance(kind, List):
        parts = [part.strip(BLANKS) for part in _LIST_SEPARATOR.split(cell)] if isinstance(cell, str) else [cell]
        items = [_convert_cell(kind.item, part) for part in parts if part != ""]
        invalid = next((item for item in items if isinstance(item, InvalidCell)), None)
        return invalid or [item for item in items if not isinstance(item, InvalidCell)]
    return _CELL_CONVERTERS[type(kind)](cell) if isinstance(kind, Dec) else _CELL_CONVERTERS[kind](cell)


def _choose_placeholder(kind: Type) -> RawValue:
    """A valid value, so that a problem is reported only once."""
    if isinstance(kind, List):
        return []
    return False if kind == BOOL else "2000-01-01" if kind == DATE else "?" if kind == TEXT else "0"


def _convert_bool(cell: Cell) -> "RawValue | InvalidCell":
    if isinstance(cell, bool):
        return cell
    text = normalize_name(cell) if isinstance(cell, str) else cell.text if isinstance(cell, NumberText) else ""
    value = _BOOLEANS.get(text)
    return InvalidCell(f"is {_describe_cell(cell)}, not true or false, yes or no, 1 or 0") if value is None else value


def _convert_date(cell: Cell) -> "RawValue | InvalidCell":
    match cell:
        case DateCell(text) | str(text):
            return text
        case _:
            return InvalidCell(
                f"is {_describe_cell(cell)}, not a date; format the cell as a date, or write it like 2027-02-18"
            )


def _convert_number(cell: Cell) -> "RawValue | InvalidCell":
    match cell:
        case NumberText():
            return cell
        case str() if is_plain_decimal(cell):
            return cell
        case str():
            says = next((says for form, says in _AMBIGUOUS_NUMBERS if form.fullmatch(cell)), None)
            # `fact_members` reports any other problem of a text.
            return cell if says is None else InvalidCell(f"is {quote_text(cell)}, {says}")
        case _:
            return InvalidCell(f"is {_describe_cell(cell)}, not a number")


def _convert_text(cell: Cell) -> "RawValue | InvalidCell":
    match cell:
        case str():
            return cell
        case NumberText(text) if is_plain_decimal(text) and "." not in text:
            return text  # a spreadsheet stores an article number as a number
        case _:
            return InvalidCell(f"is {_describe_cell(cell)}, not a text; format the cell as text and write it again")


_CELL_CONVERTERS: Final[Mapping[object, Callable[[Cell], "RawValue | InvalidCell"]]] = {
    BOOL: _convert_bool,
    DATE: _convert_date,
    INT: _convert_number,
    Dec: _convert_number,
    TEXT: _convert_text,
}


def _describe_cell(cell: Cell) -> str:
    match cell:
        case bool():
            return "a boolean (true or false)"
        case NumberText(text):
            return f"the number {text}"
        case DateCell(text):
            return f"the date {text}"
        case InvalidCell(says):
            return says
        case _:
            return quote_text(cell)
