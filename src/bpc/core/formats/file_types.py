"""What a file is: its bytes decide, and what its sender says must not contradict them.

Pure. Looks at the first bytes, and of a zip at the names in it; reads nothing.
"""

import re
from typing import Final

from bpc.core.errors import Invalid

PDF: Final = "application/pdf"
XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
OLD_EXCEL: Final = "application/vnd.ms-excel"
ZIP: Final = "application/zip"
JSON: Final = "application/json"
XML: Final = "application/xml"
CSV: Final = "text/csv"
TEXT: Final = "text/plain"
UNKNOWN: Final = "application/octet-stream"

PDF_MARK: Final = b"%PDF-"
ZIP_MARK: Final = b"PK\x03\x04"
OLD_EXCEL_MARK: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_MARKS: Final = (
    (PDF_MARK, PDF),
    (OLD_EXCEL_MARK, OLD_EXCEL),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x1f\x8b", "application/gzip"),
)
_WORKBOOK: Final = b"xl/workbook"
_SEPARATED: Final = re.compile(rb"[^\r\n]*[,;\t]")
_SAYS_NOTHING: Final = frozenset({UNKNOWN, "binary/octet-stream"})
_MARKED: Final = frozenset(kind for _, kind in _MARKS) | {XLSX, ZIP}

# What else a file of a type may be called: servers and browsers know few types.
_ALSO_CALLED: Final = {
    XLSX: frozenset({ZIP, "application/x-zip-compressed", OLD_EXCEL}),
    ZIP: frozenset({"application/x-zip-compressed"}),
    OLD_EXCEL: frozenset({"application/msexcel", "application/x-msexcel", "application/msword"}),
    PDF: frozenset({"application/x-pdf"}),
    "image/jpeg": frozenset({"image/jpg"}),
    "application/gzip": frozenset({"application/x-gzip"}),
}
# What is text in some form: which one, bytes do not say for certain.
_TEXTS: Final = frozenset({JSON, XML, CSV, TEXT})
_TEXTS_ALSO_CALLED: Final = frozenset({"application/csv", "application/xhtml+xml", "application/ld+json", OLD_EXCEL})


class TypeContradicted(Invalid):
    """The file is of another type than was said."""

    def __init__(self, said: str, found: str) -> None:
        super().__init__(
            f"the file is `{found}` by its bytes, not `{said}` as was said",
            fix=f"say `{found}`, or send the file that was meant",
            details={"mime_type": said, "found": found},
        )


def type_of(content: bytes) -> str:
    """The type that the bytes show; `application/octet-stream` if none."""
    for mark, kind in _MARKS:
        if content.startswith(mark):
            return kind
    if content.startswith(ZIP_MARK):
        return XLSX if _WORKBOOK in content else ZIP
    return _type_of_text(content)


def checked_type(said: str | None, content: bytes) -> str:
    """The type to store a file with: as it was said, where that says something and the bytes do not contradict."""
    found = type_of(content)
    if said is None or said in _SAYS_NOTHING or said == found:
        return found
    if found in _TEXTS:
        if said in _MARKED - _TEXTS_ALSO_CALLED or said.startswith(("image/", "audio/", "video/")):
            raise TypeContradicted(said, found)
        return found if said in _TEXTS_ALSO_CALLED and said == OLD_EXCEL else said
    if found == UNKNOWN:
        is_named_text = said in _TEXTS or said.startswith("text/")
        if said in _MARKED or (is_named_text and not _may_be_text(content)):
            raise TypeContradicted(said, found)
        return said
    if said in _ALSO_CALLED.get(found, ()):
        return found
    raise TypeContradicted(said, found)


def _may_be_text(content: bytes) -> bool:
    """Whether it may be text in another encoding than ours; who reads it says what is wrong with that."""
    return content.startswith(UTF_16_MARKS) or b"\x00" not in content


def _type_of_text(content: bytes) -> str:
    if b"\x00" in content:
        return UNKNOWN
    try:
        content.decode()
    except UnicodeDecodeError:
        return UNKNOWN
    start = content.removeprefix(BYTE_ORDER_MARK).lstrip(b" \t\r\n")
    if start.startswith((b"{", b"[")):
        return JSON
    if start.startswith(b"<?xml"):
        return XML
    return CSV if _SEPARATED.match(start) else TEXT
