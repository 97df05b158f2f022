"""Places in rules: as editors count them, in the files of a package, and in the texts that are checked.

Pure. Inside the rule language a place is a number of code points. Editors count lines, which end with LF, CR LF or CR
and with nothing else, and within a line the units of an encoding, UTF-16 unless both sides agree on another. A place
that does not exist is moved to the nearest one before it, as the protocol of language servers asks.

The files of a folder are checked as two texts, the rules and the tests, in which each stands as a whole. A package of
one file is its own text. A file is known by its package and its path there; one that is in no package by the name it
was read under.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.language import syntax
from bpc.core.language.linking import LinkedFile, LinkedSource
from bpc.core.language.package import PackageReading, ParsedFile
from bpc.core.language.source import Source, Span

Encoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END: Final = re.compile("\r\n|\n|\r")
_LAST_OF_ONE_BYTE: Final = 0x7F
_LAST_OF_TWO_BYTES: Final = 0x7FF
_LAST_OF_ONE_UNIT: Final = 0xFFFF


class EditorPlace(NamedTuple):
    """A line and how far along it, both from 0."""

    line: int
    character: int


class EditorRange(NamedTuple):
    start: EditorPlace
    end: EditorPlace


class EditorText:
    """A text whose places are asked for, one way and back."""

    def __init__(self, text: str, encoding: Encoding = "utf-16") -> None:
        self.text = text
        self._encoding = encoding

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(end.end() for end in _LINE_END.finditer(self.text))]

    @cached_property
    def _is_plain(self) -> bool:
        """Whether every character is one unit."""
        return self._encoding == "utf-32" or self.text.isascii()

    def find_place(self, offset: int) -> EditorPlace:
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._starts, offset) - 1
        start = self._starts[line]
        if self._is_plain:
            return EditorPlace(line, offset - start)
        return EditorPlace(line, sum(map(self._measure, self.text[start:offset])))

    def find_range(self, span: Span) -> EditorRange:
        return EditorRange(self.find_place(span.start), self.find_place(span.end))

    def find_offset(self, place: EditorPlace) -> int:
        """The code point at a place; one that does not exist is the end of its line, or of the text."""
        if place.line >= len(self._starts):
            return len(self.text)
        start = self._starts[place.line]
        end = self._find_line_end(place.line)
        if self._is_plain:
            return min(start + place.character, end)
        units = 0
        for offset in range(start, end):
            units += self._measure(self.text[offset])
            if units > place.character:  # also inside a character, which no place can be
                return offset
        return end

    def _find_line_end(self, line: int) -> int:
        if line + 1 >= len(self._starts):
            return len(self.text)
        end = self._starts[line + 1] - 1
        return end - 1 if self.text[end] == "\n" and end > self._starts[line] and self.text[end - 1] == "\r" else end

    def _measure(self, character: str) -> int:
        """How many units a character has."""
        code = ord(character)
        if self._encoding == "utf-32":
            return 1
        if self._encoding == "utf-16":
            return 1 if code <= _LAST_OF_ONE_UNIT else 2
        if code <= _LAST_OF_ONE_BYTE:
            return 1
        return 2 if code <= _LAST_OF_TWO_BYTES else 3 if code <= _LAST_OF_ONE_UNIT else 4


class FileName(NamedTuple):
    """A file by its package and its path in it; `package` is empty for a file that is a package by itself."""

    package: str
    path: str


class FileSpan(NamedTuple):
    """A part of a file."""

    file: FileName
    span: Span


class CheckedPlace(NamedTuple):
    """A place in the rules or in the tests of a package, and the file it is in."""

    text: ParsedFile
    offset: int
    file: LinkedFile
    in_tests: bool

    @property
    def source(self) -> Source:
        return self.text.source


def list_texts(reading: PackageReading) -> tuple[tuple[ParsedFile, bool], ...]:
    """The rules and the tests of a package, each with whether it is the tests."""
    return (reading.rules, False), (reading.tests, True)


def list_linked_files(source: Source) -> Sequence[LinkedFile]:
    """The files of a text; a text that was not linked is one file."""
    if isinstance(source, LinkedSource):
        return source.files
    return (LinkedFile("", "", source.name, 0, source),)


def find_place(reading: PackageReading, file_name: FileName, offset: int) -> CheckedPlace | None:
    """Where a place of a file is in the text that was checked; None if the package has no such file."""
    for text, in_tests in list_texts(reading):
        for file in list_linked_files(text.source):
            if (file.package, file.path) == file_name:
                length = len(file.source.text)
                return CheckedPlace(text, file.start + max(0, min(offset, length)), file, in_tests)
    return None


def locate_span(source: Source, span: Span) -> FileSpan:
    """The file that a part of a checked text is in."""
    files = list_linked_files(source)
    at = max(0, bisect_right([file.start for file in files], span.start) - 1)
    file = files[at]
    length = len(file.source.text)
    start, end = (max(0, min(offset - file.start, length)) for offset in span)
    return FileSpan(FileName(file.package, file.path), Span(start, end))


def find_item(tree: syntax.SyntaxTree, offset: int) -> syntax.Item | None:
    """The item that a place is in, or at the end of."""
    at = bisect_right(tree.items, offset, key=lambda item: item.span.start) - 1
    return tree.items[at] if at >= 0 and offset <= tree.items[at].span.end else None


def list_items_of(place: CheckedPlace) -> Iterator[syntax.Item]:
    """The items of the file that a place is in."""
    end = place.file.start + len(place.file.source.text)
    for item in place.text.parsed.tree.items:
        if place.file.start <= item.span.start < end:
            yield item


def get_item_name(item: syntax.Item) -> syntax.Name:
    """The name that an item declares; of a field its path."""
    if isinstance(item, syntax.Rule):
        return syntax.Name(item.dotted, span=Span(item.path[0].span.start, item.path[-1].span.end))
    return item.code if isinstance(item, syntax.Requirement) else item.name
