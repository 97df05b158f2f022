"""Comments of a sheet: new ones, or more text and cells for those that are there. Each has a shape in a drawing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bpc.core.documents.forms.xlsx_parts import PartFile, escape_xml
from bpc.core.documents.forms.xlsx_scan import PartEdit, PartScanner, apply_edits, get_prefix
from bpc.core.documents.xlsx.package import WorkbookUnreadable
from bpc.core.documents.xlsx.sheet_rows import format_column_letters
from bpc.core.facts.findings import SEVERITIES, Severity

AUTHOR: Final = "bpc check"


@dataclass(slots=True)
class CellNote:
    """What is said about a cell."""

    severity: Severity
    texts: list[str] = field(default_factory=list)

    def add(self, severity: Severity, texts: Sequence[str]) -> None:
        self.severity = min(self.severity, severity, key=SEVERITIES.index)
        self.texts += [text for text in texts if text not in self.texts]


def extend_comments(
    parts: dict[str, PartFile], part: str, notes: Mapping[tuple[int, int], CellNote]
) -> list[tuple[int, int]]:
    """Add to the comments of a sheet; the cells that had none."""
    content = parts[part].content
    scanner = _CommentScanner(content)
    scanner.scan()
    prefix = get_prefix(content[content.rfind(b"</") :])
    edits: list[PartEdit] = []
    new_cells: list[tuple[int, int]] = []
    for (row, column), note in notes.items():
        at = scanner.text_ends.get(f"{format_column_letters(column)}{row}")
        if at is None:
            new_cells.append((row, column))
        else:
            edits.append(PartEdit(at, at, _build_runs(note, prefix, leading="\n\n").encode()))
    items = "".join(_build_comment(cell, notes[cell], prefix, author=scanner.authors) for cell in new_cells)
    author = f"<{prefix}author>{AUTHOR}</{prefix}author>"
    edits.append(PartEdit(scanner.list_end, scanner.list_end, items.encode()))
    edits.append(PartEdit(scanner.authors_end, scanner.authors_end, author.encode()))
    parts[part].content = apply_edits(content, edits)
    return new_cells


class _CommentScanner(PartScanner):
    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.text_ends: dict[str, int] = {}
        self.authors = 0
        self.authors_end = self.list_end = -1
        self._reference = ""

    def start_element(self, name: str, space: str, attributes: Mapping[str, str], at: int) -> None:  # noqa: ARG002
        if name == "comment":
            self._reference = attributes.get("ref", "")
        elif name == "author":
            self.authors += 1

    def end_element(self, name: str, at: int | None) -> None:
        offset = -1 if at is None else at
        if name == "text":
            self.text_ends[self._reference] = offset
        elif name == "authors":
            self.authors_end = offset
        elif name == "commentList":
            self.list_end = offset

    def scan(self) -> None:
        super().scan()
        if min(self.authors_end, self.list_end, *self.text_ends.values()) < 0:
            raise WorkbookUnreadable("has comments in an unusual form; remove the comments, or check without a copy")


def _build_runs(note: CellNote, prefix: str = "", leading: str = "") -> str:
    heading, text = escape_xml(f"{leading}{note.severity}:"), escape_xml("\n".join(note.texts))
    return (
        f'<{prefix}r><{prefix}rPr><{prefix}b/></{prefix}rPr><{prefix}t xml:space="preserve">{heading}</{prefix}t>'
        f'</{prefix}r><{prefix}r><{prefix}t xml:space="preserve"> {text}</{prefix}t></{prefix}r>'
    )


def _build_comment(cell: tuple[int, int], note: CellNote, prefix: str = "", author: int = 0) -> str:
    reference = f"{format_column_letters(cell[1])}{cell[0]}"
    return (
        f'<{prefix}comment ref="{reference}" authorId="{author}"><{prefix}text>{_build_runs(note, prefix)}'
        f"</{prefix}text></{prefix}comment>"
    )


def build_comments(notes: Mapping[tuple[int, int], CellNote], namespace: str) -> bytes:
    items = "".join(_build_comment(cell, note) for cell, note in sorted(notes.items()))
    return (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
        f'<comments xmlns="{namespace}"><authors><author>{AUTHOR}</author></authors>'
        f"<commentList>{items}</commentList></comments>"
    ).encode()


DRAWING_START: Final = (
    '<xml xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office"'
    ' xmlns:x="urn:schemas-microsoft-com:office:excel"><o:shapelayout v:ext="edit"><o:idmap v:ext="edit" data="1"/>'
    '</o:shapelayout><v:shapetype id="_x0000_t202" coordsize="21600,21600" o:spt="202"'
    ' path="m,l,21600r21600,l21600,xe"><v:stroke joinstyle="miter"/><v:path gradientshapeok="t"'
    ' o:connecttype="rect"/></v:shapetype>'
)


def build_shape(number: int, row: int, column: int) -> str:
    return (
        '<v:shape xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office"'
        f' xmlns:x="urn:schemas-microsoft-com:office:excel" id="_x0000_s{number}" type="#_x0000_t202"'
        ' style="position:absolute;margin-left:80pt;margin-top:5pt;width:240pt;height:90pt;z-index:1;'
        'visibility:hidden" fillcolor="#ffffe1" o:insetmode="auto"><v:fill color2="#ffffe1"/>'
        '<v:shadow on="t" color="black" obscured="t"/><v:path o:connecttype="none"/>'
        '<v:textbox style="mso-direction-alt:auto"><div style="text-align:left"></div></v:textbox>'
        '<x:ClientData ObjectType="Note"><x:MoveWithCells/><x:SizeWithCells/>'
        f"<x:Anchor>{column + 1}, 15, {row}, 4, {column + 4}, 15, {row + 6}, 4</x:Anchor>"
        f"<x:AutoFill>False</x:AutoFill><x:Row>{row}</x:Row><x:Column>{column}</x:Column></x:ClientData></v:shape>"
    )
