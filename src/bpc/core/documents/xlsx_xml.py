"""XML of spreadsheets, read piece by piece: the beginning, the end and the text of the elements somebody wants.

A document type declaration is refused, and with it every entity: nothing in here grows while it is read.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol
from xml.parsers import expat

from bpc.core.documents.xlsx_parts import Parts, Unreadable

DEEPEST: Final = 64
LONGEST: Final = 262_144  # bytes from one tag to the next; a cell has room for 32,767 characters

_MAIN: Final = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://purl.oclc.org/ooxml/spreadsheetml/main",  # ISO/IEC 29500 strict
)
_RELATIONSHIPS: Final = "http://schemas.openxmlformats.org/package/2006/relationships"
_REFERENCES: Final = (
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships id",
    "http://purl.oclc.org/ooxml/officeDocument/relationships id",
)


class Reader(Protocol):
    """What is told of the elements in `wanted`, by their plain names."""

    wanted: frozenset[str]

    def begin(self, name: str, attributes: Mapping[str, str]) -> None: ...

    def end(self, name: str) -> None: ...

    def text(self, text: str) -> None: ...


def feed(reader: Reader, parts: Parts, part: str) -> Iterator[None]:
    """Tell `reader` of everything in a part; yields after each piece, so that what it found can be taken."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    _connect(parser, reader, part)
    try:
        since = 0
        for piece in parts.read(part):
            tags = piece.count(b"<")
            parts.count(tags)
            since = len(piece) - piece.rfind(b"<") if tags else since + len(piece)
            if since > LONGEST:
                raise Unreadable(f"has a part `{part[:100]}` with a text or a tag that no cell has room for")
            parser.Parse(piece, False)
            yield
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as wrong:
        raise Unreadable(f"has a part `{part[:100]}` that is not XML; save it again as .xlsx") from wrong
    yield


def read(reader: Reader, parts: Parts, part: str) -> None:
    for _ in feed(reader, parts, part):
        pass


def reference(attributes: Mapping[str, str]) -> str:
    """The id of a relationship that an element refers to."""
    return next((attributes[name] for name in _REFERENCES if name in attributes), "")


def _connect(parser: expat.XMLParserType, reader: Reader, part: str) -> None:
    names = {f"{space} {name}": name for space in (*_MAIN, _RELATIONSHIPS) for name in reader.wanted}
    find: Callable[[str], str | None] = names.get
    depth = 0

    def begin(full: str, attributes: Mapping[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise Unreadable(f"has a part `{part[:100]}` that is nested deeper than {DEEPEST}")
        name = find(full)
        if name is not None:
            reader.begin(name, attributes)

    def end(full: str) -> None:
        nonlocal depth
        depth -= 1
        name = find(full)
        if name is not None:
            reader.end(name)

    def declared(*_: object) -> None:
        raise Unreadable(f"has a part `{part[:100]}` with a document type declaration, which no workbook has")

    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = declared
