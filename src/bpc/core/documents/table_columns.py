"""The columns of a table: which member each holds, by its header or by a mapping that was accepted before."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from bpc.core.documents import Notes, quote_text
from bpc.core.documents.cells import MAX_COLUMNS, Cell, Sheet, TableRow
from bpc.core.documents.column_mapping import MappedSheet, index_columns
from bpc.core.documents.fact_members import MemberPath, fits_a_cell, list_columns, normalize_name, parse_column_name
from bpc.core.documents.header_names import ColumnTarget, HeaderMatch, build_mapped_target
from bpc.core.documents.header_text import build_name_key, fold_text
from bpc.core.documents.header_units import find_header_unit, find_member_unit
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.documents.table_layout import (
    MAX_HEAD_ROWS,
    HeaderMatcher,
    TableLayout,
    combine_rows,
    lay_out_columns,
)
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION, SCHEMAS
from bpc.core.language.types import FactRecordType

MAX_LABEL_LENGTH: Final = 60

_WHOLE: Final = re.compile("tota|gesamt|calkowit|lacz|summe|all pieces")
_NUMBERS_OF_MATERIALS: Final = frozenset(map(build_name_key, ("material number", "Materialnummer")))


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is read: its place, how people find it, and where its values go in each fact type."""

    index: int
    label: str
    targets: dict[str, ColumnTarget]
    locale: NumberLocale | None = None

    @property
    def name(self) -> str:
        return next(iter(self.targets.values())).name


def label_header(cell: Cell | None, index: int) -> str:
    """A header as a place names it: in the one spelling of a name, or as it is written."""
    if not isinstance(cell, str):
        return str(index + 1)
    name = normalize_name(cell)
    return name if parse_column_name(name) else clean_header(cell)[:MAX_LABEL_LENGTH]


def clean_header(text: str) -> str:
    """A header in one line, with single blanks."""
    return " ".join(text.split())


def read_columns(layout: TableLayout, matcher: HeaderMatcher, notes: Notes) -> list[Column]:
    """The columns whose headers name a member. All others are named in warnings."""
    header = layout.header
    if len(header.cells) > MAX_COLUMNS:
        notes.add_problem(header.place, f"has {len(header.cells):,} columns; the limit is {MAX_COLUMNS:,}")
        return []
    columns: list[Column] = []
    for index, cell in sorted(header.cells.items()):
        label = label_header(cell, index)
        at = layout.sheet.locate_cell(header.place, index, label)
        match = matcher.match(cell)
        if not match.targets:
            _warn_unknown_column(cell, match, matcher.fact_types, at, notes)
        elif _check_fits_a_cell(match, at, notes):
            columns.append(Column(index, label, dict(match.targets)))
    columns = _drop_open_sku(layout, columns, notes)
    _check_columns(layout, columns, matcher.fact_types, notes)
    return columns


def _drop_open_sku(layout: TableLayout, columns: list[Column], notes: Notes) -> list[Column]:
    """The columns without a number of a material in a table with parts: it may be that of the part."""
    if not any(target.name == "part" for column in columns for target in column.targets.values()):
        return columns
    unique_columns: list[Column] = []
    for column in columns:
        cell = layout.header.cells[column.index]
        if column.name == "sku" and isinstance(cell, str) and build_name_key(cell) in _NUMBERS_OF_MATERIALS:
            at = layout.sheet.locate_cell(layout.header.place, column.index, column.label)
            notes.add_warning(
                at, f"({quote_text(cell)}) may be `sku` or `part_number` and was left out; write one of these names"
            )
        else:
            unique_columns.append(column)
    return unique_columns


def find_open_mass(columns: Sequence[Column]) -> Column | None:
    """The column of a mass that may be of one piece or of all, because another column has the number of pieces."""
    targets = [(column, column.targets["Component"]) for column in columns if "Component" in column.targets]
    if not any(target.name == "quantity" for _, target in targets):
        return None
    return next(
        (column for column, target in targets if target.name == "mass_g" and not _says_whole(column.label)), None
    )


def _says_whole(label: str) -> bool:
    return label == "mass_g" or _WHOLE.search(fold_text(label)) is not None


def _warn_unknown_column(cell: Cell, match: HeaderMatch, fact_types: tuple[str, ...], at: str, notes: Notes) -> None:
    fact_names = " or ".join(fact_types)
    if match.options:
        options = " or ".join(f"`{name}`" for name in match.options)
        # Members with one unit cannot be told apart by it.
        units = [find_member_unit(name) for name in match.options]
        is_unit_open = len({"" if unit is None else unit.symbol for unit in units}) > 1
        remedy = "write its unit, or that name" if is_unit_open else "write one of these names"
        notes.add_warning(at, f"({quote_text(str(cell))}) may be {options} and was left out; {remedy}")
        return
    names = (name for fact_type in fact_types for name in SCHEMAS[FactRecordType(fact_type, SCHEMA_VERSION)])
    suggestion = notes.suggestions.suggest(normalize_name(cell), names) if isinstance(cell, str) else None
    description = quote_text(cell) if isinstance(cell, str) else "no name"
    notes.add_warning(
        at,
        f"({description}) is not a member of {fact_names} and was left out" + (f"; {suggestion}" if suggestion else ""),
    )


def _check_fits_a_cell(match: HeaderMatch, at: str, notes: Notes) -> bool:
    for fact_type, target in match.targets.items():
        if not fits_a_cell(target.kind):
            name = str(target.steps[0])
            member = SCHEMA_MEMBERS[FactRecordType(fact_type, SCHEMA_VERSION)][name]
            example = list_columns(name, member)[0][0]
            notes.add_problem(at, f"is a list of records; use one column for each value, such as `{example}`")
            return False
    return True


def _check_columns(layout: TableLayout, columns: list[Column], fact_types: tuple[str, ...], notes: Notes) -> None:
    """Problems of columns with each other: two for one member, or none for anything but the product."""
    for fact_type in fact_types:
        first: dict[str, Column] = {}
        own = [(column, column.targets[fact_type]) for column in columns if fact_type in column.targets]
        whole = {target.name for _, target in own if len(target.steps) == 1}
        for column, target in own:
            at = layout.sheet.locate_cell(layout.header.place, column.index, column.label)
            earlier = first.setdefault(target.name, column)
            if earlier is not column and earlier.label == column.label:
                notes.add_problem(at, "occurs twice in the header")
            elif earlier is not column:
                notes.add_problem(at, f"is `{target.name}`, and so is the column {earlier.label}; keep one of the two")
            elif len(target.steps) > 1 and str(target.steps[0]) in whole:
                notes.add_problem(
                    at, f"is part of `{target.steps[0]}`, which has a column of its own; keep one of the two"
                )
    if {column.name for column in columns} == {"sku"} and len(layout.header.cells) > 1:
        fact_names = " or ".join(fact_types)
        notes.add_problem(
            layout.header.place, f"has no column for a {fact_names} except `sku`; is the document of another kind?"
        )


# Tables with a mapping ------------------------------------------------------------------------------------------


def find_mapped_layout(
    sheet: Sheet, rows: Iterator[TableRow], mapping: MappedSheet, matcher: HeaderMatcher, notes: Notes
) -> TableLayout | None:
    """The layout that a mapping says; None and a problem if no row has the headers of the mapping."""
    head = list(islice(rows, max(MAX_HEAD_ROWS, min(mapping.header_row, MAX_COLUMNS))))
    if not head:
        return None
    if mapping.orientation == "columns":
        layout = lay_out_columns(sheet, chain(head, rows), min(min(row.cells) for row in head), matcher)
    else:
        layout = _find_mapped_header(sheet, head, rows, mapping, matcher)
    if layout is None:
        notes.add_problem(
            head[0].place,
            "begins a table that no longer fits its column mapping: none of the headers of the mapping is in its first"
            f" {len(head)} rows; map the columns again",
        )
    elif layout.header.number != mapping.header_row:
        notes.add_warning(
            layout.header.place, f"is the header, which the column mapping has in row {mapping.header_row}"
        )
    return layout


def _find_mapped_header(
    sheet: Sheet, head: list[TableRow], rows: Iterator[TableRow], mapping: MappedSheet, matcher: HeaderMatcher
) -> TableLayout | None:
    known_headers = {clean_header(header) for header in index_columns(mapping)}
    best: tuple[int, bool, int, TableRow] | None = None
    for first, row in enumerate(head[: len(head) - mapping.header_rows + 1]):
        header = row if mapping.header_rows == 1 else combine_rows(row, head[first + 1], matcher)
        texts = (
            set() if header is None else {clean_header(cell) for cell in header.cells.values() if isinstance(cell, str)}
        )
        rank = (len(texts & known_headers), row.number == mapping.header_row, -first)
        if header is not None and rank[0] and (best is None or rank > best[:3]):
            best = (*rank, header)
    if best is None:
        return None
    first, header = -best[2], best[3]
    below = chain(islice(head, first + mapping.header_rows, None), rows)
    return TableLayout(sheet, header, below, tuple(head[:first]), "rows", mapping.header_rows)


def read_mapped_columns(layout: TableLayout, mapping: MappedSheet, notes: Notes) -> list[Column]:
    """The columns that the mapping has and the header too. What only one of the two has is named in warnings."""
    header, by_header = layout.header, {clean_header(name): column for name, column in index_columns(mapping).items()}
    columns: list[Column] = []
    absent = dict(by_header)
    for index, cell in sorted(header.cells.items()):
        label = label_header(cell, index)
        at = layout.sheet.locate_cell(header.place, index, label)
        column = by_header.get(clean_header(cell)) if isinstance(cell, str) else None
        if column is None:
            description = quote_text(cell) if isinstance(cell, str) else "no name"
            notes.add_warning(at, f"({description}) is not in the column mapping and was left out")
            continue
        absent.pop(clean_header(column.header), None)
        steps = parse_column_name(column.member) if column.member else None
        header_unit = find_header_unit(column.header)
        targets = {
            fact_type: target
            for fact_type in mapping.fact_types
            if steps and (target := _build_target(fact_type, steps, column.unit, header_unit)) is not None
        }
        if targets:
            columns.append(Column(index, label, targets, column.locale))
    for column in absent.values():
        notes.add_warning(header.place, f"has no column {quote_text(column.header)}, which the column mapping has")
    _check_columns(layout, columns, mapping.fact_types, notes)
    return columns


def _build_target(fact_type: str, steps: MemberPath, unit: str | None, header_unit: str | None) -> ColumnTarget | None:
    """The target of a mapped column. The unit in its header counts if the mapping has none and the member has one."""
    target = build_mapped_target(fact_type, steps, unit)
    if unit is not None or header_unit is None or target is None or target.unit is None:
        return target
    return build_mapped_target(fact_type, steps, header_unit)
