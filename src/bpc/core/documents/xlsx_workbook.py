"""XLSX: the bytes of a workbook in, the tables of its sheets out.

    BOM             sheets `Battery` and `Components`, or one sheet with both
    PCF             sheet `PCF`, or the only one
    DUE_DILIGENCE   sheet `Due diligence`, or the only one

A sheet is read from its first cell to its last, piece by piece: what an empty sheet claims to measure costs nothing.
Sheets whose name begins with `#` are comments.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bpc.core.documents.columns import normal
from bpc.core.documents.elements import Element
from bpc.core.documents.notes import Notes, quoted
from bpc.core.documents.tables import Row, Sheet, elements_of, facts_of
from bpc.core.documents.xlsx_cells import Rows, Styles, Texts, column_letters
from bpc.core.documents.xlsx_parts import Parts, Unreadable
from bpc.core.documents.xlsx_xml import feed, read, reference
from bpc.core.file_types import OLD_EXCEL_MARK

MOST_SHEETS: Final = 200

_PLAIN: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_TRUE: Final = ("1", "true")
# What the sheets of a kind are called, normal and without `_`, and what their rows are.
_SHEETS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
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


def elements(kind: str, content: bytes, notes: Notes) -> Iterable[Element]:
    """The elements of a workbook."""
    if kind not in _SHEETS:
        notes.problem("$", f"cannot be read: documents of kind {kind} have no facts")
        return ()
    if content.startswith(OLD_EXCEL_MARK):
        notes.problem("$", "is an old .xls file, or has a password; save it as .xlsx without one")
        return ()
    try:
        book = Workbook.of(Parts(content))
        return elements_of(_chosen(kind, book.sheets, notes), notes)
    except Unreadable as wrong:
        notes.problem("$", str(wrong))
        return ()


def _chosen(kind: str, sheets: Sequence["WorkbookSheet"], notes: Notes) -> list[tuple[Sheet, tuple[str, ...]]]:
    """The sheets that are read, and what their rows may be."""
    wanted = _SHEETS[kind]
    candidates = [sheet for sheet in sheets if not sheet.label.startswith("#")]
    chosen: list[tuple[Sheet, tuple[str, ...]]] = []
    for sheet in candidates:
        fact_types = wanted.get(normal(sheet.label).replace("_", ""))
        if fact_types is not None:
            chosen.append((sheet, fact_types))
        elif len(candidates) == 1:
            chosen.append((sheet, facts_of(kind)))
        else:
            notes.warning(sheet.name, "is a sheet that is not read; give it a name that begins with `#` to say so")
    if not chosen:
        names = ", ".join(quoted(sheet.label) for sheet in sheets[:10]) or "none"
        missing = {"BOM": "`Battery` or `Components`", "PCF": "`PCF`", "DUE_DILIGENCE": "`Due diligence`"}[kind]
        notes.problem("$", f"has no sheet {missing}; its sheets are {names}")
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbookSheet:
    """A sheet of a workbook, not read yet."""

    label: str
    part: str
    book: "Workbook"

    @property
    def name(self) -> str:
        """As formulas write it."""
        label = self.label[:31]
        return label if _PLAIN.fullmatch(label) else "'" + label.replace("'", "''") + "'"

    def place(self, row: str, column: int | None, name: str) -> str:
        if column is None:
            return f"{row}, column {name}"
        sheet, _, number = row.rpartition("!")
        return f"{sheet}!{column_letters(column)}{number}"

    def rows(self, notes: Notes) -> Iterator[Row]:  # noqa: ARG002 (what is wrong with a cell is in the cell)
        book = self.book
        reader = Rows(self.name, book.texts, book.dates, from_1904=book.from_1904)
        for _ in feed(reader, book.parts, self.part):
            yield from reader.taken()


@dataclass(slots=True)
class Workbook:
    """What all sheets of a workbook share."""

    parts: Parts
    from_1904: bool = False
    texts: list[str] = field(default_factory=list)
    dates: frozenset[str] = frozenset()
    sheets: list[WorkbookSheet] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Parts) -> "Workbook":
        made = cls(parts)
        main = made._main()
        links = made._links(main)
        contents = _Contents()
        read(contents, parts, main)
        made.from_1904 = contents.from_1904
        for label, link in contents.sheets:
            part = links.get(link, ("", ""))[1]
            if part in parts:
                made.sheets.append(WorkbookSheet(label=label, part=part, book=made))
        for kind, part in links.values():
            if kind == "sharedStrings" and part in parts:
                texts = Texts()
                read(texts, parts, part)
                made.texts = texts.found
            elif kind == "styles" and part in parts:
                styles = Styles()
                read(styles, parts, part)
                made.dates = frozenset(styles.dates)
        return made

    def _main(self) -> str:
        links = self._links("")
        main = next((part for kind, part in links.values() if kind == "officeDocument"), "xl/workbook.xml")
        if main.endswith(".bin"):
            raise Unreadable("is a binary workbook; save it as .xlsx")
        if main not in self.parts:
            other = "an OpenDocument spreadsheet" if "content.xml" in self.parts else "a zip file that is no workbook"
            raise Unreadable(f"is {other}; save it as .xlsx")
        return main

    def _links(self, part: str) -> dict[str, tuple[str, str]]:
        """Id to kind and part of what `part` is related to."""
        folder, _, name = part.rpartition("/")
        listed = f"{folder}/_rels/{name}.rels".lstrip("/")
        if listed not in self.parts:
            return {}
        links = _Links(folder)
        read(links, self.parts, listed)
        return links.found


class _Contents:
    """The sheets of a workbook, and where its calendar begins."""

    wanted = frozenset({"sheet", "workbookPr"})

    def __init__(self) -> None:
        self.sheets: list[tuple[str, str]] = []
        self.from_1904 = False

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "workbookPr":
            self.from_1904 = attributes.get("date1904", "0") in _TRUE
            return
        if len(self.sheets) == MOST_SHEETS:
            raise Unreadable(f"has more than {MOST_SHEETS} sheets")
        self.sheets.append((attributes.get("name", ""), reference(attributes)))

    def end(self, name: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class _Links:
    """The relationships of a part (ECMA-376 part 2, 6.5.3)."""

    wanted = frozenset({"Relationship"})

    def __init__(self, folder: str) -> None:
        self.found: dict[str, tuple[str, str]] = {}
        self._folder = folder

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:  # noqa: ARG002 (a reader's signature)
        if attributes.get("TargetMode") != "External":
            kind = attributes.get("Type", "").rpartition("/")[2]
            self.found[attributes.get("Id", "")] = (kind, self._resolved(attributes.get("Target", "")))

    def _resolved(self, target: str) -> str:
        steps = [] if target.startswith("/") else self._folder.split("/")
        for step in target.split("/"):
            steps = steps[:-1] if step == ".." else [*steps, step] if step not in {"", "."} else steps
        return "/".join(step for step in steps if step)

    def end(self, name: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass
