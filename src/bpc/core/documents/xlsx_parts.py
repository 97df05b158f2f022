"""The parts of an XLSX file: a zip archive in memory, opened only once it is known to be harmless.

Checked before anything is inflated: how many parts there are, how they are packed, and how large they say they become;
none is read further than it said. A part is handed out in pieces, so that it is never in memory as a whole.
"""

import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

MOST_PARTS: Final = 1_000
MOST_BYTES: Final = 64_000_000  # of all parts together, inflated
# Spreadsheets shrink to a tenth, very regular ones to a fiftieth; deflate ends at a thousandth.
MOST_INFLATED: Final = 200
PIECE: Final = 65_536
# Tags of XML that are read, all parts together: so many in any file, and more in proportion to its bytes.
FIRST_TAGS: Final = 500_000
TAGS_A_BYTE: Final = 4
MOST_TAGS: Final = 8_000_000

_ENTRY: Final = b"PK\x01\x02"
_PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1


class Unreadable(Exception):
    """The file is not a workbook that can be read; the text says why, for whoever sent it."""


class Parts:
    """The parts of one file, by name."""

    def __init__(self, content: bytes) -> None:
        if content.count(_ENTRY) > MOST_PARTS:
            raise Unreadable(f"has more than {MOST_PARTS:,} parts, which no workbook has")
        try:
            self._zip = zipfile.ZipFile(_InMemory(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError, IndexError) as wrong:
            raise Unreadable("is not a whole XLSX file; save it again as .xlsx") from wrong
        self.tags_left = min(FIRST_TAGS + TAGS_A_BYTE * len(content), MOST_TAGS)
        self._sizes: dict[str, int] = {}
        for entry in self._zip.infolist():
            if entry.compress_type not in _PACKED or entry.flag_bits & _ENCRYPTED:
                raise Unreadable("has parts that are encrypted or packed in an unusual way; save it again as .xlsx")
            if entry.file_size > PIECE and entry.file_size > entry.compress_size * MOST_INFLATED:
                raise Unreadable(f"has a part that becomes more than {MOST_INFLATED} times as large when it is opened")
            self._sizes[entry.filename] = entry.file_size
        if sum(entry.file_size for entry in self._zip.infolist()) > MOST_BYTES:
            raise Unreadable(f"becomes larger than {MOST_BYTES:,} bytes when it is opened; split the document")

    def __contains__(self, name: str) -> bool:
        return name in self._sizes

    def count(self, tags: int) -> None:
        """Say that so many more tags were read."""
        self.tags_left -= tags
        if self.tags_left < 0:
            raise Unreadable("has more cells than a file of its size should have; split the document")

    def read(self, name: str) -> Iterator[bytes]:
        """The bytes of a part, in pieces."""
        try:
            with self._zip.open(name) as part:
                while piece := part.read(PIECE):
                    yield piece
        except KeyError:
            raise Unreadable(f"has no part `{name[:100]}`; save it again as .xlsx") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as wrong:
            raise Unreadable(f"has a damaged part `{name[:100]}`; save it again as .xlsx") from wrong


class _InMemory:
    """Bytes as the file that `zipfile` asks for."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def read(self, count: int = -1) -> bytes:
        end = len(self._content) if count < 0 else self._at + count
        found = self._content[self._at : end]
        self._at += len(found)
        return found

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
