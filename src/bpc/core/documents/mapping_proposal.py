"""A proposal which column of a table is which member, for a person to check before it is kept as a column mapping.

    exact      the header is the member's name
    synonym    people call the member so, in one of six languages
    similar    the header is written nearly like a name of the member; check it
    none       nothing is known that is called so, or several members are

Pure. Nothing is stored, and nothing is read into facts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from bpc.core.documents import Notes, NoteSummary
from bpc.core.documents.cells import Cell, InvalidCell, PercentCell, TableRow, drop_comments
from bpc.core.documents.column_mapping import ColumnMapping, MappedColumn, MappedSheet, TableHeader
from bpc.core.documents.csv_table import open_csv
from bpc.core.documents.elements import FACT_TYPES
from bpc.core.documents.header_names import Confidence, build_synonym_index, build_target
from bpc.core.documents.header_text import build_name_key
from bpc.core.documents.header_units import split_header
from bpc.core.documents.reader import detect_mime_type
from bpc.core.documents.table_columns import clean_header
from bpc.core.documents.table_layout import HeaderMatcher, TableLayout, find_layout
from bpc.core.documents.tables import TableSource
from bpc.core.documents.xlsx.package import WorkbookUnreadable
from bpc.core.documents.xlsx.workbook import choose_sheets, open_workbook
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.file_types import CSV, XLSX

MAX_EXAMPLES: Final = 3
MAX_EXAMPLE_LENGTH: Final = 60
MAX_ROWS_READ: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedColumn:
    """A column: its header, where that is, some of its values, and the member it seems to be, with the reason."""

    header: str
    place: str
    examples: tuple[str, ...]
    member: str | None
    unit: str | None
    confidence: Confidence
    why: str
    needs_unit: bool = False

    @property
    def is_certain(self) -> bool:
        return self.member is not None and not self.needs_unit and self.confidence in {"exact", "synonym"}

    def as_json(self) -> dict[str, Json]:
        return {
            "header": self.header,
            "place": self.place,
            "examples": list(self.examples),
            "member": self.member,
            "unit": self.unit,
            "confidence": self.confidence,
            "why": self.why,
            "needs_unit": self.needs_unit,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedSheet(TableHeader):
    """A table that holds facts, with what its columns seem to be."""

    columns: tuple[ProposedColumn, ...]

    def as_json(self) -> dict[str, Json]:
        return self.describe(column.as_json() for column in self.columns)


@dataclass(frozen=True, slots=True)
class MappingProposal:
    """The tables of a document with what their columns seem to be; or the problems why there is no proposal."""

    sheets: tuple[ProposedSheet, ...]
    problems: NoteSummary
    warnings: NoteSummary

    def to_mapping(self) -> ColumnMapping:
        """The mapping of what is certain. Every other column is left out, until a person says what it is."""
        return ColumnMapping(tuple(_map_sheet(sheet) for sheet in self.sheets))

    def as_json(self) -> dict[str, Json]:
        return {"sheets": [sheet.as_json() for sheet in self.sheets]}


def propose_mapping(kind: str, mime_type: str, content: bytes) -> MappingProposal:
    """What the columns of a table seem to be."""
    notes = Notes()
    sheets: list[ProposedSheet] = []
    if kind not in FACT_TYPES:
        notes.add_problem("$", f"cannot be mapped: documents of kind {kind} have no facts")
    else:
        try:
            sheets = [
                sheet
                for source in _list_tables(kind, detect_mime_type(mime_type, content), content, notes)
                if (sheet := _propose_sheet(source, notes)) is not None
            ]
        except WorkbookUnreadable as error:
            notes.add_problem("$", str(error))
    if notes.is_clean and not sheets:
        notes.add_problem("$", "has no table with a header and rows")
    return MappingProposal(tuple(sheets), notes.problems, notes.warnings)


def _list_tables(kind: str, mime_type: str, content: bytes, notes: Notes) -> Sequence[TableSource]:
    if mime_type == CSV:
        table = open_csv(content, notes)
        return [] if table is None else [TableSource(table, FACT_TYPES[kind])]
    if mime_type == XLSX:
        book = open_workbook(content, notes)
        return [] if book is None else choose_sheets(kind, book.sheets, notes, read_unknown=True)
    notes.add_problem("mime_type", f"is `{mime_type}`; only tables have columns: {CSV} and {XLSX}")
    return []


def _propose_sheet(source: TableSource, notes: Notes) -> ProposedSheet | None:
    matcher = HeaderMatcher(source.fact_types)
    rows = drop_comments(source.sheet.read_rows(notes), notes)
    layout = find_layout(source.sheet, rows, matcher)
    if layout is None:
        return None
    body = list(islice(layout.rows, MAX_ROWS_READ))
    columns = [
        _propose_column(layout, index, cell, body, matcher, notes)
        for index, cell in sorted(layout.header.cells.items())
        if isinstance(cell, str)
    ]
    return ProposedSheet(
        name=source.label,
        fact_types=source.fact_types,
        orientation=layout.orientation,
        header_row=layout.header.number,
        header_rows=layout.header_rows,
        columns=tuple(columns),
    )


def _propose_column(
    layout: TableLayout, index: int, header: str, body: Iterable[TableRow], matcher: HeaderMatcher, notes: Notes
) -> ProposedColumn:
    match = matcher.match(header)
    member, unit, needs_unit, confidence, why = None, None, False, match.confidence, "no known member has this name"
    if match.targets:
        target = next(iter(match.targets.values()))
        member, unit = target.name, target.header_unit
        needs_unit = target.factor is None
        why = "is the member's name" if confidence == "exact" else f"is what people call `{member}`"
        if target.fault is not None:
            why = f"is called like `{member}`, but the unit `{unit}` does not fit"
        elif needs_unit:
            why += "; the header does not say the unit"
    elif match.options:
        confidence, why = "none", f"may be {' or '.join(f'`{name}`' for name in match.options)}; a unit would decide"
    else:
        similar = _find_similar(header, matcher.fact_types, notes)
        if similar is not None:
            member, unit, why = similar
            confidence = "similar"
            needs_unit = unit is None and _needs_unit(member, matcher.fact_types)
    return ProposedColumn(
        header=clean_header(header),
        place=layout.sheet.locate_cell(layout.header.place, index, clean_header(header)),
        examples=tuple(islice((format_cell(row.cells[index]) for row in body if index in row.cells), MAX_EXAMPLES)),
        member=member,
        unit=unit,
        confidence=confidence,
        why=why,
        needs_unit=needs_unit,
    )


def _find_similar(header: str, fact_types: tuple[str, ...], notes: Notes) -> tuple[str, str | None, str] | None:
    """The member with a name that is written nearly so, the unit, and the reason."""
    for reading in split_header(header):
        for fact_type in fact_types:
            index = build_synonym_index(fact_type)
            nearest = notes.suggestions.find_nearest(build_name_key(reading.name), index)
            if nearest is not None and len(index[nearest]) == 1:
                return index[nearest][0], reading.unit, f"is written nearly like a name of `{index[nearest][0]}`"
    return None


def _needs_unit(member: str, fact_types: tuple[str, ...]) -> bool:
    targets = [target for name in fact_types if (target := build_target(name, (member,), None)) is not None]
    return any(target.unit is not None and not target.unit.may_be_missing for target in targets)


def format_cell(cell: Cell) -> str:
    """A cell as a person sees it, shortened."""
    match cell:
        case bool():
            text = "true" if cell else "false"
        case str():
            text = cell
        case PercentCell():
            text = f"{cell.text} %"
        case InvalidCell():
            text = cell.says
        case _:
            text = cell.text
    return text if len(text) <= MAX_EXAMPLE_LENGTH else f"{text[:MAX_EXAMPLE_LENGTH]}…"


def _map_sheet(sheet: ProposedSheet) -> MappedSheet:
    seen: set[str] = set()
    columns: list[MappedColumn] = []
    for column in sheet.columns:
        is_new = column.is_certain and column.member not in seen
        seen |= {column.member} if column.member is not None else set()
        columns.append(
            MappedColumn(
                header=column.header,
                member=column.member if is_new else None,
                unit=column.unit if is_new else None,
            )
        )
    return MappedSheet(
        name=sheet.name,
        fact_types=sheet.fact_types,
        header_row=sheet.header_row,
        columns=tuple(columns),
        orientation=sheet.orientation,
        header_rows=sheet.header_rows,
    )
