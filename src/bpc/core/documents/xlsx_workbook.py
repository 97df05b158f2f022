"""XLSX: the bytes of a workbook in, the elements of its sheets out.

    BOM             sheets `Battery` and `Components`, or one sheet with both
    PCF             sheet `PCF`, or the only one
    DUE_DILIGENCE   sheet `Due diligence`, or the only one

A sheet is read piece by piece and only as far as it has cells; its declared size is not used. Sheets whose name begins
with `#` are comments.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bpc.core.documents import Notes, quote_text
from bpc.core.documents.elements import FACT_TYPES, FactElement
from bpc.core.documents.fact_members import normalize_name
from bpc.core.documents.public.emrt_workbook import read_emrt
from bpc.core.documents.tables import Sheet, TableRow, read_tables
from bpc.core.documents.xlsx_cells import CellStyles, SharedStrings, SheetRowReader, format_column_letters
from bpc.core.documents.xlsx_package import (
    WorkbookUnreadable,
    XlsxParts,
    XmlReader,
    feed_part,
    get_relationship_id,
    parse_part,
)
from bpc.core.formats.file_types import OLD_EXCEL_MARK

MAX_SHEETS: Final = 200

_PLAIN_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_TRUE: Final = ("1", "true")
# The sheets of each kind by their normalized names without `_`, and the fact types of their rows.
_SHEET_NAMES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "BOM": {
        "battery": ("Battery",),
        "batteries": ("Battery",),
        "component": ("Component",),
        "components": ("Component",),
        "billofmaterials": ("Battery", "Component"),
        "bom": ("Battery", "Component"),
    },
    "PCF": {"pcf": ("PCF",), "carbonfootprint": ("PCF",)},
    "DUE_DILIGENCE": {"duediligence": ("DueDiligence",)},
}


def read_xlsx(kind: str, content: bytes, notes: Notes) -> Iterable[FactElement]:
    """The elements of a workbook."""
    if content.startswith(OLD_EXCEL_MARK):
        notes.add_problem("$", "is an old .xls file or has a password; save it as .xlsx without a password")
        return ()
    try:
        book = Workbook.from_parts(XlsxParts(content))
        minerals = read_emrt(kind, book.sheets, notes)
        return read_tables(_choose_sheets(kind, book.sheets, notes), notes) if minerals is None else minerals
    except WorkbookUnreadable as error:
        notes.add_problem("$", str(error))
        return ()


def _choose_sheets(kind: str, sheets: Sequence["WorkbookSheet"], notes: Notes) -> list[tuple[Sheet, tuple[str, ...]]]:
    """The sheets that are read, each with the fact types that its rows may be."""
    sheet_names = _SHEET_NAMES[kind]
    candidates = [sheet for sheet in sheets if not sheet.label.startswith("#")]
    chosen: list[tuple[Sheet, tuple[str, ...]]] = []
    for sheet in candidates:
        fact_types = sheet_names.get(normalize_name(sheet.label).replace("_", ""))
        if fact_types is not None:
            chosen.append((sheet, fact_types))
        elif len(candidates) == 1:
            chosen.append((sheet, FACT_TYPES[kind]))
        else:
            notes.add_warning(
                sheet.name, "is a sheet that was not read; start its name with `#` to mark it as a comment"
            )
    if not chosen:
        names = ", ".join(quote_text(sheet.label) for sheet in sheets[:10]) or "none"
        missing = {"BOM": "`Battery` or `Components`", "PCF": "`PCF`", "DUE_DILIGENCE": "`Due diligence`"}[kind]
        notes.add_problem("$", f"has no sheet {missing}; its sheets are {names}")
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbookSheet:
    """A sheet of a workbook, not read yet."""

    label: str
    part: str
    book: "Workbook"

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

    def read_rows(self, notes: Notes) -> Iterator[TableRow]:  # noqa: ARG002 (an InvalidCell carries its problem)
        book = self.book
        reader = SheetRowReader(self.name, book.texts, book.date_styles, from_1904=book.from_1904)
        for _ in feed_part(reader, book.parts, self.part):
            yield from reader.take_rows()


@dataclass(slots=True)
class Workbook:
    """The sheets of a workbook, and what they share."""

    parts: XlsxParts
    from_1904: bool = False
    texts: list[str] = field(default_factory=list)
    date_styles: frozenset[str] = frozenset()
    sheets: list[WorkbookSheet] = field(default_factory=list)

    @classmethod
    def from_parts(cls, parts: XlsxParts) -> "Workbook":
        workbook = cls(parts)
        main = workbook._find_main_part()
        links = workbook._read_relationships(main)
        contents = _WorkbookContents()
        parse_part(contents, parts, main)
        workbook.from_1904 = contents.from_1904
        for label, link in contents.sheets:
            part = links.get(link, ("", ""))[1]
            if part in parts:
                workbook.sheets.append(WorkbookSheet(label=label, part=part, book=workbook))
        for kind, part in links.values():
            if kind == "sharedStrings" and part in parts:
                texts = SharedStrings()
                parse_part(texts, parts, part)
                workbook.texts = texts.texts
            elif kind == "styles" and part in parts:
                styles = CellStyles()
                parse_part(styles, parts, part)
                workbook.date_styles = frozenset(styles.date_styles)
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
    """The sheets of a workbook, and where its calendar begins."""

    element_names = frozenset({"sheet", "workbookPr"})

    def __init__(self) -> None:
        self.sheets: list[tuple[str, str]] = []
        self.from_1904 = False

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "workbookPr":
            self.from_1904 = attributes.get("date1904", "0") in _TRUE
            return
        if len(self.sheets) == MAX_SHEETS:
            raise WorkbookUnreadable(f"has more than {MAX_SHEETS} sheets")
        self.sheets.append((attributes.get("name", ""), get_relationship_id(attributes)))


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
