"""Where the elements of a part stand, and insertions there; the rest of the part stays as it is."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from xml.parsers import expat

from bpc.core.documents.xlsx.package import WorkbookUnreadable
from bpc.core.formats.file_types import UTF_16_MARKS

MAIN: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
STRICT_MAIN: Final = "http://purl.oclc.org/ooxml/spreadsheetml/main"
LINKS: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
NUMBER: Final = re.compile("[0-9]{1,9}")
COLUMN_LETTERS: Final = re.compile("[A-Z]{1,3}")
STRICT_LINKS: Final = "http://purl.oclc.org/ooxml/officeDocument/relationships"
CONTENT_TYPES: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml"
TAG_NAME: Final = re.compile(rb"</?((?:[A-Za-z_][\w.-]*:)?)([A-Za-z_][\w.-]*)")


class PartEdit(NamedTuple):
    start: int
    end: int
    text: bytes


def apply_edits(content: bytes, edits: Sequence[PartEdit]) -> bytes:
    pieces: list[bytes] = []
    at = 0
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        pieces += (content[at : edit.start], edit.text)
        at = edit.end
    return b"".join((*pieces, content[at:]))


def find_tag_end(content: bytes, start: int) -> int:
    end = content.find(b">", start)
    if end < 0:
        raise WorkbookUnreadable("has a damaged part; save it again as .xlsx")
    return end + 1


def get_prefix(tag: bytes) -> str:
    match = TAG_NAME.match(tag)
    return "" if match is None else match[1].decode("ascii", "replace")


class PartScanner:
    """Walks over the elements of a part: for each the offset of its tag. Subclasses take what they need."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    def scan(self) -> None:
        if self.content.startswith(UTF_16_MARKS):
            raise WorkbookUnreadable("has a part in UTF-16; open it in a spreadsheet and save it again as .xlsx")
        try:
            self._parser.Parse(self.content, True)
        except (expat.ExpatError, ValueError, LookupError) as error:
            raise WorkbookUnreadable("has a part that is not XML; save it again as .xlsx") from error

    def _refuse_doctype(self, *_: object) -> None:
        raise WorkbookUnreadable("has a part with a document type declaration, which no workbook has")

    def _begin(self, full: str, attributes: Mapping[str, str]) -> None:
        space, _, name = full.rpartition(" ")
        self.start_element(name, space, attributes, self._parser.CurrentByteIndex)

    def _end(self, full: str) -> None:
        name, at = full.rpartition(" ")[2], self._parser.CurrentByteIndex
        tag = TAG_NAME.match(self.content, at)
        has_end_tag = tag is not None and self.content[at : at + 2] == b"</" and tag[2] == name.encode()
        self.end_element(name, at if has_end_tag else None)

    def start_element(self, name: str, space: str, attributes: Mapping[str, str], at: int) -> None:
        raise NotImplementedError

    def end_element(self, name: str, at: int | None) -> None:
        """The end of an element; `at` is None if it has no end tag, as in `<row/>`."""
        raise NotImplementedError
