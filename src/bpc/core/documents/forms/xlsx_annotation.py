"""A copy of a workbook in which cells are coloured and explained; everything else stays as it was.

Pure. The parts of the file that say nothing about the marked cells are copied byte by byte; the others get insertions
at the places where a parser met the cells. So formulas, charts, pictures and macros survive. A list of all notes is a
new last sheet, whose name begins with `#`: a copy that is sent back adds no data.

    bytes of a workbook, marks, rows of the list ── annotate_workbook ──► bytes of the copy
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bpc.core.documents import Notes
from bpc.core.documents.forms.xlsx_comments import (
    DRAWING_START,
    CellNote,
    build_comments,
    build_shape,
    extend_comments,
)
from bpc.core.documents.forms.xlsx_list_sheet import add_list_sheet
from bpc.core.documents.forms.xlsx_parts import (
    PartFile,
    add_content_type,
    add_relationship,
    find_relationship,
    insert_before_end,
    read_all_parts,
    write_parts,
)
from bpc.core.documents.forms.xlsx_scan import (
    COLUMN_LETTERS,
    CONTENT_TYPES,
    LINKS,
    MAIN,
    NUMBER,
    STRICT_LINKS,
    STRICT_MAIN,
    TAG_NAME,
    PartEdit,
    PartScanner,
    apply_edits,
    find_tag_end,
    get_prefix,
)
from bpc.core.documents.forms.xlsx_styles import StyleSheet
from bpc.core.documents.xlsx.package import WorkbookUnreadable
from bpc.core.documents.xlsx.sheet_rows import format_column_letters, parse_column_letters
from bpc.core.documents.xlsx.workbook import Workbook, open_workbook
from bpc.core.facts.findings import Severity

MAX_MARKS: Final = 2_000  # all others are on the list only

_PLACE: Final = re.compile(
    r"(?:'((?:[^']|'')+)'|([A-Za-z_][A-Za-z0-9_]*))!([A-Z]{1,3})?([0-9]{1,7})(?:, .*)?", re.DOTALL
)
# What stands behind the reference to comments in a sheet (ECMA-376 part 1, 18.3.1.99).
_AFTER_LEGACY_DRAWING: Final = frozenset(
    "legacyDrawingHF drawingHF picture oleObjects controls webPublishItems tableParts extLst".split()  # noqa: SIM905
)
_STYLE_ATTRIBUTE: Final = re.compile(rb"""(\ss\s*=\s*)(["'])([0-9]+)\2""")


class CellMark(NamedTuple):
    """A note at a place in a workbook, such as `PCF!C2`, or `PCF!2` for the row."""

    place: str
    severity: Severity
    says: str


class _CellAt(NamedTuple):
    row: int
    column: int | None  # None is the first cell of the row


def annotate_workbook(content: bytes, marks: Sequence[CellMark], rows: Sequence[Sequence[str]]) -> bytes:
    """The copy. `rows` are the list of all notes, with its header. Raises `WorkbookUnreadable`."""
    book = open_workbook(content, Notes())
    if book is None:
        raise WorkbookUnreadable("is an old .xls file or has a password; save it as .xlsx without a password")
    parts = read_all_parts(content)
    styles = StyleSheet.from_parts(parts)
    for number, (part, cells) in enumerate(_group_marks(book, marks).items(), 1):
        _SheetAnnotation(parts, part, number, styles).write(cells)
    styles.write(parts)
    add_list_sheet(parts, rows)
    return write_parts(parts)


def _group_marks(book: Workbook, marks: Sequence[CellMark]) -> dict[str, dict[_CellAt, CellNote]]:
    """The notes of each cell, by the part of its sheet."""
    sheet_parts = {sheet.label[:31]: sheet.part for sheet in book.sheets}
    notes_by_part: dict[str, dict[_CellAt, CellNote]] = {}
    for mark in marks[:MAX_MARKS]:
        place = _PLACE.fullmatch(mark.place)
        if place is None:
            continue
        part = sheet_parts.get((place[1] or place[2]).replace("''", "'"))
        if part is not None:
            cell = _CellAt(int(place[4]), None if place[3] is None else parse_column_letters(place[3]))
            note = notes_by_part.setdefault(part, {}).setdefault(cell, CellNote(mark.severity))
            note.add(mark.severity, [mark.says])
    return notes_by_part


# A sheet ----------------------------------------------------------------------------------------------------------


class _SheetScanner(PartScanner):
    """Finds the marked cells of a sheet and the places for those that are not there yet."""

    def __init__(self, content: bytes, cells: Mapping[_CellAt, CellNote]) -> None:
        super().__init__(content)
        self.tags: dict[tuple[int, int], int] = {}  # marked cells that are there
        self.gaps: dict[tuple[int, int], tuple[int, int]] = {}  # those that are not: the offset, and the style
        self.notes: dict[tuple[int, int], CellNote] = {}
        self.namespace = MAIN
        self.legacy_link: str | None = None
        self.tail = -1  # where the reference to comments belongs
        self._wanted: dict[int, dict[int | None, CellNote]] = {}
        for cell, note in cells.items():
            self._wanted.setdefault(cell.row, {})[cell.column] = note
        self._column_styles: list[tuple[int, int, int]] = []
        self._row = self._depth = 0
        self._column = -1
        self._open: dict[int, CellNote] = {}

    def start_element(self, name: str, space: str, attributes: Mapping[str, str], at: int) -> None:
        self._depth += 1
        if name == "c" and self._row in self._wanted:
            self._visit_cell(attributes, at)
        elif name == "row":
            number = attributes.get("r", "")
            self._row = int(number) if NUMBER.fullmatch(number) else self._row + 1
            self._column = -1
            row_notes = self._wanted.get(self._row, {})
            self._open = {column: note for column, note in row_notes.items() if column is not None}
        elif name == "col":
            numbers = [attributes.get(each, "") for each in ("min", "max", "style")]
            if all(map(NUMBER.fullmatch, numbers)):
                first, last, style = map(int, numbers)
                self._column_styles.append((first - 1, last - 1, style))
        elif self._depth == 1:
            self.namespace = space
        elif self._depth == 2 and name == "legacyDrawing":
            self.legacy_link = next((value for key, value in attributes.items() if key.endswith(" id")), None)
        elif self._depth == 2 and name in _AFTER_LEGACY_DRAWING and self.tail < 0:
            self.tail = at

    def _visit_cell(self, attributes: Mapping[str, str], at: int) -> None:
        letters = attributes.get("r", "").rstrip("0123456789")
        self._column = parse_column_letters(letters) if COLUMN_LETTERS.fullmatch(letters) else self._column + 1
        for column in sorted(each for each in self._open if each < self._column):
            self._add_gap(column, at)
        note = self._open.pop(self._column, None)
        of_row = self._wanted[self._row].pop(None, None)
        for each in (note, of_row):
            if each is not None:
                self.tags[self._row, self._column] = at
                self._keep_note(self._column, each)

    def _add_gap(self, column: int, at: int) -> None:
        style = next((style for first, last, style in self._column_styles if first <= column <= last), 0)
        self.gaps[self._row, column] = (at, style)
        self._keep_note(column, self._open.pop(column))

    def _keep_note(self, column: int, note: CellNote) -> None:
        cell_note = self.notes.setdefault((self._row, column), CellNote(note.severity))
        cell_note.add(note.severity, note.texts)

    def end_element(self, name: str, at: int | None) -> None:
        self._depth -= 1
        if name == "row":
            for column in sorted(self._open) if at is not None else ():
                self._add_gap(column, at or 0)
            self._open = {}
        elif self._depth == 0 and self.tail < 0 and at is not None:
            self.tail = at


class _SheetAnnotation:
    """Colours and comments of one sheet."""

    def __init__(self, parts: dict[str, PartFile], part: str, number: int, styles: StyleSheet) -> None:
        self._parts, self._part, self._number, self._styles = parts, part, number, styles

    def write(self, cells: Mapping[_CellAt, CellNote]) -> None:
        content = self._parts[self._part].content
        scanner = _SheetScanner(content, cells)
        scanner.scan()
        if not scanner.notes:
            return
        edits = [self._colour_cell(content, at, scanner.notes[cell]) for cell, at in scanner.tags.items()]
        edits += [self._insert_cell(content, cell, scanner) for cell in scanner.gaps]
        link = self._write_comments(scanner)
        if link is not None:
            space = STRICT_LINKS if scanner.namespace == STRICT_MAIN else LINKS
            prefix = get_prefix(content[content.rfind(b"</") :])
            element = f'<{prefix}legacyDrawing xmlns:rel="{space}" rel:id="{link}"/>'
            edits.append(PartEdit(scanner.tail, scanner.tail, element.encode()))
        self._parts[self._part].content = apply_edits(content, edits)

    def _colour_cell(self, content: bytes, at: int, note: CellNote) -> PartEdit:
        end = find_tag_end(content, at)
        tag = content[at:end]
        attribute = _STYLE_ATTRIBUTE.search(tag)
        style = self._styles.colour_style(int(attribute[3]) if attribute else 0, note.severity)
        if style is None:
            return PartEdit(at, end, tag)
        if attribute:
            return PartEdit(at, end, _STYLE_ATTRIBUTE.sub(rb"\g<1>\g<2>%d\g<2>" % style, tag, count=1))
        name = TAG_NAME.match(tag)
        name_end = name.end() if name else 2
        return PartEdit(at, end, tag[:name_end] + f' s="{style}"'.encode() + tag[name_end:])

    def _insert_cell(self, content: bytes, cell: tuple[int, int], scanner: _SheetScanner) -> PartEdit:
        row, column = cell
        at, style = scanner.gaps[cell]
        new_style = self._styles.colour_style(style, scanner.notes[cell].severity)
        attribute = "" if new_style is None else f' s="{new_style}"'
        reference = f"{format_column_letters(column)}{row}"
        prefix = get_prefix(content[at:])
        return PartEdit(at, at, f'<{prefix}c r="{reference}"{attribute}/>'.encode())

    # Comments ---------------------------------------------------------------------------------------------------

    def _write_comments(self, scanner: _SheetScanner) -> str | None:
        """Write the comments; the link of their drawing, if the sheet has none yet."""
        strict = scanner.namespace == STRICT_MAIN
        links = STRICT_LINKS if strict else LINKS
        comments = find_relationship(self._parts, self._part, "comments")
        if comments is not None and comments in self._parts:
            new_cells = extend_comments(self._parts, comments, scanner.notes)
        else:
            new_cells = list(scanner.notes)
            name = f"xl/commentsBpc{self._number}.xml"
            self._parts[name] = PartFile(name, build_comments(scanner.notes, scanner.namespace))
            add_relationship(self._parts, self._part, f"{links}/comments", f"/{name}")
            add_content_type(self._parts, f"/{name}", f"{CONTENT_TYPES}.comments+xml")
        shapes = "".join(
            build_shape(60_000 + number, row - 1, column) for number, (row, column) in enumerate(new_cells)
        )
        drawing = find_relationship(self._parts, self._part, "vmlDrawing") if scanner.legacy_link else None
        if drawing is not None and drawing in self._parts:
            self._parts[drawing].content = insert_before_end(self._parts[drawing].content, b"</xml>", shapes.encode())
            return None
        name = f"xl/drawings/vmlDrawingBpc{self._number}.vml"
        self._parts[name] = PartFile(name, f"{DRAWING_START}{shapes}</xml>".encode())
        add_content_type(self._parts, "vml", "application/vnd.openxmlformats-officedocument.vmlDrawing")
        return add_relationship(self._parts, self._part, f"{links}/vmlDrawing", f"/{name}")
