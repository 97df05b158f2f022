"""The parts of an XLSX file: a zip archive in memory, and the XML in it.

Before anything is unpacked, the number of parts, their compression and their declared sizes are checked; no part is
read beyond its declared size. Parts are unpacked and parsed in pieces, so that none is in memory as a whole.
"""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final
from xml.parsers import expat

MAX_PARTS: Final = 1_000
MAX_INFLATED_BYTES: Final = 64_000_000  # of all parts together, unpacked
# Spreadsheets shrink to a tenth, very regular ones to a fiftieth; deflate can reach a thousandth.
MAX_INFLATION_RATIO: Final = 200
PIECE_SIZE: Final = 65_536
# XML tags that are read, of all parts together: a base, and more in proportion to the bytes of the file.
BASE_TAGS: Final = 500_000
TAGS_PER_BYTE: Final = 4
MAX_TAGS: Final = 8_000_000
MAX_XML_DEPTH: Final = 64
MAX_BYTES_BETWEEN_TAGS: Final = 262_144  # a cell holds at most 32,767 characters

_CENTRAL_ENTRY_MARK: Final = b"PK\x01\x02"
_COMPRESSION_TYPES: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED_FLAG: Final = 0x1
_MAIN_NAMESPACES: Final = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://purl.oclc.org/ooxml/spreadsheetml/main",  # ISO/IEC 29500 strict
)
_RELATIONSHIP_NAMESPACE: Final = "http://schemas.openxmlformats.org/package/2006/relationships"
_REFERENCE_ATTRIBUTES: Final = (
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships id",
    "http://purl.oclc.org/ooxml/officeDocument/relationships id",
)


class WorkbookUnreadable(Exception):
    """The file is not a workbook that can be read; the text tells its sender why."""


class XlsxParts:
    """The parts of one file, by name."""

    def __init__(self, content: bytes) -> None:
        if content.count(_CENTRAL_ENTRY_MARK) > MAX_PARTS:
            raise WorkbookUnreadable(f"has more than {MAX_PARTS:,} parts, which no workbook has")
        try:
            self._zip = zipfile.ZipFile(_BytesFile(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError, IndexError) as error:
            raise WorkbookUnreadable("is damaged or not an XLSX file; save it again as .xlsx") from error
        self.tags_left = min(BASE_TAGS + TAGS_PER_BYTE * len(content), MAX_TAGS)
        self._sizes: dict[str, int] = {}
        for entry in self._zip.infolist():
            if entry.compress_type not in _COMPRESSION_TYPES or entry.flag_bits & _ENCRYPTED_FLAG:
                raise WorkbookUnreadable(
                    "has parts that are encrypted or use unusual compression; save it again as .xlsx"
                )
            if entry.file_size > PIECE_SIZE and entry.file_size > entry.compress_size * MAX_INFLATION_RATIO:
                raise WorkbookUnreadable(
                    f"contains a part that unpacks to more than {MAX_INFLATION_RATIO} times its size"
                )
            self._sizes[entry.filename] = entry.file_size
        if sum(entry.file_size for entry in self._zip.infolist()) > MAX_INFLATED_BYTES:
            raise WorkbookUnreadable(f"unpacks to more than {MAX_INFLATED_BYTES:,} bytes; split the document")

    def __contains__(self, name: str) -> bool:
        return name in self._sizes

    def list_names(self) -> list[str]:
        return list(self._sizes)

    def count_tags(self, tags: int) -> None:
        """Count tags that were read, up to the limit."""
        self.tags_left -= tags
        if self.tags_left < 0:
            raise WorkbookUnreadable("has more cells than a file of its size should have; split the document")

    def read_part(self, name: str) -> Iterator[bytes]:
        """The bytes of a part, in pieces."""
        try:
            with self._zip.open(name) as part:
                while piece := part.read(PIECE_SIZE):
                    yield piece
        except KeyError:
            raise WorkbookUnreadable(f"has no part `{name[:100]}`; save it again as .xlsx") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
            raise WorkbookUnreadable(f"has a damaged part `{name[:100]}`; save it again as .xlsx") from error


class _BytesFile:
    """Bytes as a file for `zipfile`; `io` is not available in core."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def read(self, count: int = -1) -> bytes:
        end = len(self._content) if count < 0 else self._at + count
        piece = self._content[self._at : end]
        self._at += len(piece)
        return piece

    def seek(self, offset: int, whence: int = 0) -> int:
        at = (0, self._at, len(self._content))[whence] + offset
        if at < 0:
            raise ValueError("before the beginning")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        pass


class XmlReader:
    """Receives the text of a part, and its elements in `element_names` without their namespaces."""

    element_names: ClassVar[frozenset[str]] = frozenset()

    def start_element(self, name: str, attributes: Mapping[str, str]) -> None:
        pass

    def end_element(self, name: str) -> None:
        pass

    def add_text(self, text: str) -> None:
        pass


def feed_part(reader: XmlReader, parts: XlsxParts, part: str) -> Iterator[None]:
    """Parse a part into `reader`; yields after each piece, so that the caller can take what it has collected."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    _connect_handlers(parser, reader, part)
    try:
        bytes_since_tag = 0
        for piece in parts.read_part(part):
            tags = piece.count(b"<")
            parts.count_tags(tags)
            bytes_since_tag = len(piece) - piece.rfind(b"<") if tags else bytes_since_tag + len(piece)
            if bytes_since_tag > MAX_BYTES_BETWEEN_TAGS:
                raise WorkbookUnreadable(f"has a part `{part[:100]}` with a text or a tag that is too long for a cell")
            parser.Parse(piece, False)
            yield
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise WorkbookUnreadable(f"has a part `{part[:100]}` that is not XML; save it again as .xlsx") from error
    yield


def parse_part(reader: XmlReader, parts: XlsxParts, part: str) -> None:
    for _ in feed_part(reader, parts, part):
        pass


def get_relationship_id(attributes: Mapping[str, str]) -> str:
    """The id of a relationship that an element refers to."""
    return next((attributes[name] for name in _REFERENCE_ATTRIBUTES if name in attributes), "")


def _connect_handlers(parser: expat.XMLParserType, reader: XmlReader, part: str) -> None:
    names = {
        f"{space} {name}": name
        for space in (*_MAIN_NAMESPACES, _RELATIONSHIP_NAMESPACE)
        for name in reader.element_names
    }
    depth = 0

    def begin(full: str, attributes: Mapping[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_XML_DEPTH:
            raise WorkbookUnreadable(f"has a part `{part[:100]}` that is nested deeper than {MAX_XML_DEPTH}")
        name = names.get(full)
        if name is not None:
            reader.start_element(name, attributes)

    def end(full: str) -> None:
        nonlocal depth
        depth -= 1
        name = names.get(full)
        if name is not None:
            reader.end_element(name)

    def refuse_doctype(*_: object) -> None:
        raise WorkbookUnreadable(f"has a part `{part[:100]}` with a document type declaration, which no workbook has")

    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = reader.add_text
    parser.StartDoctypeDeclHandler = refuse_doctype
