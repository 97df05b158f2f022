"""Tables: rows of cells become the elements of a document, from CSV and from spreadsheets.

`table_layout` finds the header, `table_columns` the member of each column, `cell_values` the value of each cell. Each
row below the header is one battery, component, footprint or due diligence report; in a table of batteries and
components, a row with a `part` is a component. An empty cell is a missing member. A row is a comment if its first cell
is `#` or begins with `# `.

A cell that cannot be read loses its member, not the document, unless it identifies the product.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from bpc.core.documents import DocumentNote, Notes
from bpc.core.documents.cell_values import convert_cell, find_open_list
from bpc.core.documents.cells import InvalidCell, Sheet, TableRow, drop_comments, is_footnote, names_total
from bpc.core.documents.column_mapping import MappedSheet
from bpc.core.documents.elements import (
    FactElement,
    NumberText,
    RawValue,
    UnreadableMember,
    assign_components_to_battery,
)
from bpc.core.documents.fact_members import KEY_MEMBERS, MemberPath, report_unreadable
from bpc.core.documents.header_names import ColumnTarget
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.documents.table_columns import (
    Column,
    find_mapped_layout,
    find_open_mass,
    read_columns,
    read_mapped_columns,
)
from bpc.core.documents.table_layout import HeaderMatcher, TableLayout, find_layout

MAX_ROWS: Final = 50_000
ROWS_BELOW_HEADER: Final = 5

_EMPTY: Final = "is empty: it has no header and no rows"
_GAP: Final = "is empty but a later one is filled; fill them in order, starting with 1"
_CELL_PATH: Final = re.compile(r"((?:.*!(?:[0-9]+|[A-Z]{1,3})|(?:line|column) [0-9]+))\.(.+)", re.DOTALL)
_INDEX: Final = re.compile(r"\[([0-9]+)\]")
_ROW_MARK: Final = "\0"


class TableSource(NamedTuple):
    """A table to read, the fact types that its rows may be, and how its columns were mapped, if they were."""

    sheet: Sheet
    fact_types: tuple[str, ...]
    mapped: MappedSheet | None = None
    label: str = ""  # the name of the sheet as people see it; empty for CSV


@dataclass(frozen=True, slots=True)
class _Leaf:
    value: RawValue


_Tree: TypeAlias = "dict[str | int, _Tree | _Leaf]"


@dataclass(slots=True)
class CellLocator:
    """Turns a path such as `line 4.mass_g` into the place of a cell, once the headers are known."""

    _tables: dict[str, tuple[Sheet, dict[str, Column]]] = field(default_factory=dict)

    def add_table(self, sheet: Sheet, columns: Iterable[Column]) -> None:
        names = {target.name: column for column in columns for target in column.targets.values()}
        self._tables[sheet.name] = (sheet, names)

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
        column = columns.get(name)
        return sheet.locate_cell(
            row, None if column is None else column.index, name if column is None else column.label
        )


class RowPlaces(Mapping[str, str]):
    """The places of a row's members. Rows with the same cells filled share everything but their number."""

    __slots__ = ("_number", "_parts")

    def __init__(self, parts: Mapping[str, tuple[str, str]], number: str) -> None:
        self._parts, self._number = parts, number

    def __getitem__(self, member: str) -> str:
        return self._number.join(self._parts[member])

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def read_tables(tables: Iterable[TableSource], notes: Notes, locale: NumberLocale | None = None) -> list[FactElement]:
    """The elements of all tables."""
    elements: list[FactElement] = []
    headers: list[str] = []
    locator = CellLocator()
    notes.locate = locator
    for source in tables:
        matcher = HeaderMatcher(source.fact_types)
        layout = _find_layout(source, matcher, notes)
        if layout is None:
            continue
        headers.append(layout.header.place)
        problems_before = notes.problem_count
        _note_unread_parts(layout, notes)
        if source.mapped is None:
            columns = read_columns(layout, matcher, notes)
        else:
            columns = read_mapped_columns(layout, source.mapped, notes)
        locator.add_table(layout.sheet, columns)
        if notes.problem_count == problems_before:  # else every row would have the same problem
            reader = _RowReader(layout, columns, source.fact_types, locale, notes)
            elements_before = len(elements)
            rows = _skip_remarks(_skip_repeated_headers(layout, columns, matcher, notes), columns, notes)
            elements += (reader.read_row(row) for row in islice(rows, MAX_ROWS + 1))
            if source.mapped is None:
                _note_open_mass(layout, columns, elements[elements_before:], notes)
            for note in layout.sheet.list_display_notes(layout.first_row, [column.index for column in columns]):
                notes.add_warning(*note)
        if len(elements) > MAX_ROWS:
            notes.add_problem(elements[-1].path, f"is more than {MAX_ROWS:,} rows below the header; split the document")
            return []
    if notes.is_clean and not elements:
        at, says = (headers[0], "has no rows; fill in at least one below the header") if headers else ("$", _EMPTY)
        notes.add_problem(at, says)
    return assign_components_to_battery(elements)


def _note_unread_parts(layout: TableLayout, notes: Notes) -> None:
    for title in layout.titles:
        notes.add_warning(title.place, "is above the header and was not read")
    for note in layout.notes:
        add_note = notes.add_problem if note.is_problem else notes.add_warning
        add_note(note.at, note.says)


def _note_open_mass(layout: TableLayout, columns: Sequence[Column], rows: Sequence[FactElement], notes: Notes) -> None:
    """Warn of a mass that may be that of one piece, if a part has more than one."""
    column = find_open_mass(columns)
    one = (None, NumberText("1"))
    if column is not None and any(
        row.members.get("quantity") not in one and row.members.get("mass_g") is not None for row in rows
    ):
        notes.add_warning(
            layout.sheet.locate_cell(layout.header.place, column.index, column.label),
            "was read as the mass of all pieces of a part, not of one; write `mass_g` or `total mass` into the header"
            " if that is right",
        )


def _find_layout(source: TableSource, matcher: HeaderMatcher, notes: Notes) -> TableLayout | None:
    rows = drop_comments(source.sheet.read_rows(notes), notes)
    if source.mapped is None:
        return find_layout(source.sheet, rows, matcher)
    return find_mapped_layout(source.sheet, rows, source.mapped, matcher, notes)


def _skip_repeated_headers(
    layout: TableLayout, columns: Iterable[Column], matcher: HeaderMatcher, notes: Notes
) -> Iterator[TableRow]:
    """The rows that are not the header again, as on every page or in another language just below it.

    A header whose names stand in other columns begins another table, which cannot be read by this header.
    """
    by_index = {column.index: column for column in columns}
    keys = [index for index, column in by_index.items() if column.name == "sku"]
    for index, row in enumerate(layout.rows):
        is_below_header = index < ROWS_BELOW_HEADER
        names_sku = is_below_header and any(matcher.names_sku(row.cells.get(key)) for key in keys)
        if not names_sku and not _is_header(row, layout.header, keys, matcher):
            yield row
        elif _has_other_columns(row, layout.header, by_index, matcher, is_below_header=is_below_header):
            notes.add_problem(row.place, "begins another table; put each table on its own sheet")
        else:
            notes.add_warning(row.place, "repeats the header and was not read")


def _skip_remarks(rows: Iterator[TableRow], columns: Iterable[Column], notes: Notes) -> Iterator[TableRow]:
    """The rows about a product or a part: not sums of others, which would count as one more, and not remarks."""
    keys = {column.index: column.name for column in columns if column.name in KEY_MEMBERS}
    indexes = frozenset(column.index for column in columns)
    for row in rows:
        names = ((row.cells.get(key), member == "sku") for key, member in keys.items())
        if any(isinstance(name, str) and names_total(name, is_sku=is_sku) for name, is_sku in names):
            notes.add_warning(row.place, "is a sum of other rows and was not read")
        elif is_footnote(row.cells):
            notes.add_warning(row.place, "is a remark below the table and was not read")
        elif not indexes & row.cells.keys():
            notes.add_warning(row.place, "has no value in a column that is read, and was not read")
        else:
            yield row


def _is_header(row: TableRow, header: TableRow, keys: Iterable[int], matcher: HeaderMatcher) -> bool:
    if any(key in row.cells and row.cells[key] == header.cells[key] for key in keys):
        return True
    cells = list(row.cells.values())
    if len(cells) < 2 or not all(isinstance(cell, str) and cell[0] not in "0123456789" for cell in cells):
        return False  # a header has nothing but names
    has_sku = any(matcher.names_sku(cell) for cell in cells)
    return has_sku and sum(matcher.guess(cell).points > 0 for cell in cells) > 1


def _has_other_columns(
    row: TableRow, header: TableRow, columns: Mapping[int, Column], matcher: HeaderMatcher, *, is_below_header: bool
) -> bool:
    """Whether a header means other columns. A name just below the header that is not known may be a translation."""
    for index, cell in row.cells.items():
        if cell == header.cells.get(index):
            continue
        match, column = matcher.guess(cell), columns.get(index)
        if column is None:
            if match.targets and (index not in header.cells or not is_below_header):
                return True
        elif match.targets:
            if not any(_means_same(column.targets.get(name), target) for name, target in match.targets.items()):
                return True
        elif column.name not in match.options and not is_below_header:
            return True
    return False


def _means_same(target: ColumnTarget | None, other: ColumnTarget) -> bool:
    is_unit_open = target is None or target.factor is None or other.factor is None
    return target is not None and target.steps == other.steps and (is_unit_open or target.factor == other.factor)


class _RowReader:
    """Reads the rows of one table."""

    def __init__(
        self,
        layout: TableLayout,
        columns: list[Column],
        fact_types: tuple[str, ...],
        locale: NumberLocale | None,
        notes: Notes,
    ) -> None:
        self._layout, self._columns, self._fact_types = layout, columns, fact_types
        self._locale, self._notes = locale, notes
        self._width = max(layout.header.cells) + 1
        self._nameless: set[int] = set()
        self._part_columns = [
            column.index for column in columns if any(target.name == "part" for target in column.targets.values())
        ]
        self._shared_parts: dict[tuple[str, ...], Mapping[str, tuple[str, str]]] = {}

    def read_row(self, row: TableRow) -> FactElement:
        self._check_width(row)
        fact_type = self._choose_fact_type(row)
        members: dict[str, RawValue] = {}
        places: dict[str, Column] = {}
        faults: dict[str, list[DocumentNote]] = {}
        tree_by_number: _Tree = {}
        for column in self._columns:
            cell = row.cells.get(column.index)
            if cell is None:
                continue
            target = column.targets.get(fact_type)
            if target is None:
                members[column.name] = ""  # `fact_members` says that this fact has no such member
                continue
            member = str(target.steps[0])
            places.setdefault(member, column)
            value = convert_cell(target, cell, column.locale or self._locale)
            if isinstance(value, InvalidCell):
                if member in KEY_MEMBERS:
                    self._notes.add_problem(self._locate(row, column), value.says)
                    members[member] = "?"  # so that the problem is reported once
                else:
                    faults.setdefault(member, []).append(DocumentNote(self._locate(row, column), value.says))
            elif len(target.steps) == 1:
                members[member] = value
                self._note_open_list(row, column, target)
            else:
                _insert_leaf(tree_by_number, target.steps, value)
        for name, below in tree_by_number.items():
            members[str(name)] = _build_lists(below, self._report_gap(row, str(name), faults), str(name))
        unreadable = tuple(self._lose_member(member, problems, members) for member, problems in faults.items())
        return FactElement(fact_type, row.place, members, self._build_places(row, places), unreadable)

    def _check_width(self, row: TableRow) -> None:
        width = max(row.cells) + 1
        fault = self._layout.sheet.explain_extra_cells(width, self._width) if width > self._width else None
        if fault is not None:
            self._notes.add_problem(row.place, fault)
            return
        for index in row.cells.keys() - self._layout.header.cells.keys() - self._nameless:
            self._nameless.add(index)
            self._notes.add_warning(
                self._layout.sheet.locate_cell(row.place, index, str(index + 1)),
                "has no name in the header and was left out",
            )

    def _note_open_list(self, row: TableRow, column: Column, target: ColumnTarget) -> None:
        says = find_open_list(target, row.cells[column.index])
        if says is not None:
            self._notes.add_warning(self._locate(row, column), says)

    def _choose_fact_type(self, row: TableRow) -> str:
        if len(self._fact_types) == 1:
            return self._fact_types[0]
        return "Component" if any(index in row.cells for index in self._part_columns) else "Battery"

    def _locate(self, row: TableRow, column: Column) -> str:
        return self._layout.sheet.locate_cell(row.place, column.index, column.label)

    def _report_gap(self, row: TableRow, member: str, faults: dict[str, list[DocumentNote]]) -> Callable[[str], None]:
        def report(name: str) -> None:
            at = self._layout.sheet.locate_cell(row.place, None, name)
            faults.setdefault(member, []).append(DocumentNote(at, _GAP))

        return report

    def _lose_member(self, member: str, problems: list[DocumentNote], members: dict[str, RawValue]) -> UnreadableMember:
        members.pop(member, None)
        return report_unreadable(member, problems, self._notes)

    def _build_places(self, row: TableRow, places: Mapping[str, Column]) -> Mapping[str, str]:
        number = str(row.number)
        if self._layout.orientation == "columns" or not row.place.endswith(number):
            return {member: self._locate(row, column) for member, column in places.items()}
        signature = tuple(places)
        parts = self._shared_parts.get(signature)
        if parts is None:
            place_pattern = row.place.removesuffix(number) + _ROW_MARK
            split_places = {
                member: self._layout.sheet.locate_cell(place_pattern, column.index, column.label).partition(_ROW_MARK)
                for member, column in places.items()
            }
            parts = {member: (before, after) for member, (before, _, after) in split_places.items()}
            self._shared_parts[signature] = parts
        return RowPlaces(parts, number)


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
