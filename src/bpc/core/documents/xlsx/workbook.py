"""XLSX: the bytes of a workbook in, the elements of its sheets out.

    BOM             sheets `Battery` and `Components`, or one sheet with both
    PCF             sheet `PCF`, or the only one
    DUE_DILIGENCE   sheet `Due diligence`, or the only one

Sheets may be called so in six languages (`sheet_names`) and stand in any order. A sheet is read piece by piece and only
as far as it has cells; its declared size is not used. Sheets whose name begins with `#` are comments; sheets of notes
and hidden sheets are not read, with a warning: what nobody sees is not evidence.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bpc.core.documents import DocumentNote, Notes, quote_text
from bpc.core.documents.cells import TableRow
from bpc.core.documents.column_mapping import ColumnMapping
from bpc.core.documents.elements import FACT_TYPES, FactElement
from bpc.core.documents.public.emrt_workbook import read_emrt
from bpc.core.documents.read_options import ReadOptions
from bpc.core.documents.sheet_names import find_other_kind, find_sheet_types, is_sheet_of_notes
from bpc.core.documents.tables import TableSource, read_tables
from bpc.core.documents.xlsx.package import (
    WorkbookUnreadable,
    XlsxParts,
    XmlReader,
    feed_part,
    get_relationship_id,
    parse_part,
)
from bpc.core.documents.xlsx.sheet_rows import SheetDisplay, SheetRowReader, format_column_letters, is_set
from bpc.core.documents.xlsx.styles import CellStyles, SharedStrings
from bpc.core.formats.file_types import OLD_EXCEL_MARK

MAX_SHEETS: Final = 200

_PLAIN_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def read_xlsx(kind: str, content: bytes, options: ReadOptions, notes: Notes) -> Iterable[FactElement]:
    """The elements of a workbook."""
    try:
        book = open_workbook(content, notes)
        if book is None:
            return ()
        minerals = read_emrt(kind, book.sheets, notes)
        if minerals is not None:
            return minerals
        if options.mapping is not None:
            tables = _choose_mapped_sheets(options.mapping, book.sheets, notes)
        else:
            tables = choose_sheets(kind, book.sheets, notes)
        return read_tables(tables, notes, options.locale)
    except WorkbookUnreadable as error:
        notes.add_problem("$", str(error))
        return ()


def open_workbook(content: bytes, notes: Notes) -> "Workbook | None":
    """The workbook in these bytes; None and a problem if it is of an older format."""
    if content.startswith(OLD_EXCEL_MARK):
        notes.add_problem("$", "is an old .xls file or has a password; save it as .xlsx without a password")
        return None
    return Workbook.from_parts(XlsxParts(content))


def choose_sheets(
    kind: str, sheets: Sequence["WorkbookSheet"], notes: Notes, *, read_unknown: bool = False
) -> list[TableSource]:
    """The sheets that are read, each with the fact types that its rows may be; if asked, those of unknown names too."""
    candidates = [sheet for sheet in sheets if not sheet.label.startswith("#")]
    visible = [sheet for sheet in candidates if not sheet.is_hidden]
    types_by_sheet = {
        sheet.label: types for sheet in visible if (types := find_sheet_types(kind, sheet.label)) is not None
    }
    others = [sheet for sheet in visible if sheet.label not in types_by_sheet]
    about_batteries = [sheet for sheet in others if not is_sheet_of_notes(sheet.label)] or others
    if not types_by_sheet and (len(about_batteries) == 1 or read_unknown):
        types_by_sheet = {sheet.label: FACT_TYPES[kind] for sheet in about_batteries}
    if not types_by_sheet:
        names = ", ".join(quote_text(sheet.label) + " (hidden)" * sheet.is_hidden for sheet in sheets) or "none"
        missing = {"BOM": "`Battery` or `Components`", "PCF": "`PCF`", "DUE_DILIGENCE": "`Due diligence`"}[kind]
        notes.add_problem("$", f"has no sheet {missing}; its sheets are {names}")
        return []
    for sheet in candidates:
        if sheet.label not in types_by_sheet or sheet.is_hidden:
            notes.add_warning(sheet.name, _explain_unread_sheet(kind, sheet))
    return [
        TableSource(sheet, types_by_sheet[sheet.label], None, sheet.label)
        for sheet in visible
        if sheet.label in types_by_sheet
    ]


def _explain_unread_sheet(kind: str, sheet: "WorkbookSheet") -> str:
    if sheet.is_hidden:
        return "is a hidden sheet and was not read; show it if it belongs to the document"
    if is_sheet_of_notes(sheet.label):
        return "is a sheet of notes and was not read"
    other = find_other_kind(kind, sheet.label)
    if other is not None:
        return f"is a sheet that was not read; upload the document as {other} too"
    return "is a sheet that was not read; start its name with `#` to mark it as a comment"


def _choose_mapped_sheets(mapping: ColumnMapping, sheets: Sequence["WorkbookSheet"], notes: Notes) -> list[TableSource]:
    """The sheets that the mapping has. One that is not in the file is a problem: its facts would be lost."""
    by_label = {sheet.label: sheet for sheet in sheets}
    names = ", ".join(quote_text(sheet.label) for sheet in sheets) or "none"
    tables: list[TableSource] = []
    for sheet_mapping in mapping.sheets:
        sheet = by_label.get(sheet_mapping.name)
        if sheet is None:
            notes.add_problem(
                "$",
                f"has no sheet {quote_text(sheet_mapping.name)}, which its column mapping has; its sheets are {names}."
                " Map the columns again",
            )
        else:
            if sheet.is_hidden:
                notes.add_warning(sheet.name, "is a hidden sheet and was read, because the column mapping has it")
            tables.append(TableSource(sheet, sheet_mapping.fact_types, sheet_mapping, sheet.label))
    for sheet in sheets:
        if mapping.find_sheet(sheet.label) is None and not sheet.label.startswith("#"):
            notes.add_warning(sheet.name, "is a sheet that the column mapping does not have; it was not read")
    return tables


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbookSheet:
    """A sheet of a workbook, not read yet."""

    label: str
    part: str
    book: "Workbook"
    is_hidden: bool = False

    @property
    def name(self) -> str:
        """The name as formulas write it."""
        label = self.label[:31]
        return label if _PLAIN_NAME.fullmatch(label) else "'" + label.replace("'", "''") + "'"

    def locate_cell(self, row: str, column: int | None, name: str) -> str:
        if column is None:
            return f"{row}, column {name}"
        sheet, _, number = row.rpartition("!")
        return f"{sheet}!{format_column_letters(column)}{number}"

    def locate_column(self, column: int) -> str:
        return f"{self.name}!{format_column_letters(column)}"

    def explain_extra_cells(self, cells: int, width: int) -> str | None:  # noqa: ARG002 (a cell cannot slip)
        return None

    def list_display_notes(self, first_row: int, columns: Collection[int]) -> list[DocumentNote]:
        return [*self.book.displays.get(self.part, SheetDisplay()).list_notes(self.name, first_row, columns)]

    def read_rows(self, notes: Notes) -> Iterator[TableRow]:  # noqa: ARG002 (an InvalidCell carries its problem)
        book = self.book
        display = self.book.displays[self.part] = SheetDisplay()
        reader = SheetRowReader(
            self.name, book.texts, book.styles, display, from_1904=book.from_1904, recalculates=book.recalculates
        )
        for _ in feed_part(reader, book.parts, self.part):
            yield from reader.take_rows()


@dataclass(slots=True)
class Workbook:
    """The sheets of a workbook, and what they share."""

    parts: XlsxParts
    from_1904: bool = False
    recalculates: bool = False
    texts: SharedStrings = field(default_factory=SharedStrings)
    styles: CellStyles = field(default_factory=CellStyles)
    sheets: list[WorkbookSheet] = field(default_factory=list)
    displays: dict[str, SheetDisplay] = field(default_factory=dict)  # of the sheets that were read, by their part

    @classmethod
    def from_parts(cls, parts: XlsxParts) -> "Workbook":
        workbook = cls(parts)
        main = workbook._find_main_part()
        links = workbook._read_relationships(main)
        contents = _WorkbookContents()
        parse_part(contents, parts, main)
        workbook.from_1904, workbook.recalculates = contents.from_1904, contents.recalculates
        for label, link, is_hidden in contents.sheets:
            part = links.get(link, ("", ""))[1]
            if part in parts:
                workbook.sheets.append(WorkbookSheet(label=label, part=part, book=workbook, is_hidden=is_hidden))
        for kind, part in links.values():
            if kind == "sharedStrings" and part in parts:
                parse_part(workbook.texts, parts, part)
            elif kind == "styles" and part in parts:
                parse_part(workbook.styles, parts, part)
        return workbook

    def _find_main_part(self) -> str:
        links = self._read_relationships("")
        main = next((part for kind, part in links.values() if kind == "officeDocument"), "xl/workbook.xml")
        if main.endswith(".bin"):
            raise WorkbookUnreadable("is a binary workbook; save it as .xlsx")
        if main not in self.parts:
            other = "an OpenDocument spreadsheet" if "content.xml" in self.parts else "a zip file but not a workbook"
            raise WorkbookUnreadable(f"is {other}; save it as .xlsx")
        return main

    def _read_relationships(self, part: str) -> dict[str, tuple[str, str]]:
        """The relationships of `part`: from an id to the kind and name of another part."""
        folder, _, name = part.rpartition("/")
        relationships_part = f"{folder}/_rels/{name}.rels".lstrip("/")
        if relationships_part not in self.parts:
            return {}
        links = _Relationships(folder)
        parse_part(links, self.parts, relationships_part)
        return links.targets


class _WorkbookContents(XmlReader):
    """The sheets of a workbook, where its calendar begins, and whether its formulas are computed as it is opened."""

    element_names = frozenset({"sheet", "workbookPr", "calcPr"})

    def __init__(self) -> None:
        self.sheets: list[tuple[str, str, bool]] = []
        self.from_1904 = self.recalculates = False

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "workbookPr":
            self.from_1904 = is_set(attributes, "date1904")
            return
        if name == "calcPr":
            self.recalculates = is_set(attributes, "fullCalcOnLoad")
            return
        if len(self.sheets) == MAX_SHEETS:
            raise WorkbookUnreadable(f"has more than {MAX_SHEETS} sheets")
        is_hidden = attributes.get("state", "visible") != "visible"
        self.sheets.append((attributes.get("name", ""), get_relationship_id(attributes), is_hidden))


class _Relationships(XmlReader):
    """The relationships of a part (ECMA-376 part 2, 6.5.3)."""

    element_names = frozenset({"Relationship"})

    def __init__(self, folder: str) -> None:
        self.targets: dict[str, tuple[str, str]] = {}
        self._folder = folder

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:  # noqa: ARG002 (of XmlReader)
        if attributes.get("TargetMode") != "External":
            kind = attributes.get("Type", "").rpartition("/")[2]
            self.targets[attributes.get("Id", "")] = (kind, self._resolve_target(attributes.get("Target", "")))

    def _resolve_target(self, target: str) -> str:
        steps = [] if target.startswith("/") else self._folder.split("/")
        for step in target.split("/"):
            steps = steps[:-1] if step == ".." else [*steps, step] if step not in {"", "."} else steps
        return "/".join(step for step in steps if step)
