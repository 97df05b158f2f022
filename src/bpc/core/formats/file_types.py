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
_SEPARATED_LINE: Final = re.compile(rb"[^\r\n]*[,;\t]")
_GENERIC_TYPES: Final = frozenset({UNKNOWN, "binary/octet-stream"})
_TYPES_WITH_MARK: Final = frozenset(kind for _, kind in _MARKS) | {XLSX, ZIP}

# What else a file of a type may be called: servers and browsers know few types.
_ALIASES: Final = {
    XLSX: frozenset({ZIP, "application/x-zip-compressed", OLD_EXCEL}),
    ZIP: frozenset({"application/x-zip-compressed"}),
    OLD_EXCEL: frozenset({"application/msexcel", "application/x-msexcel", "application/msword"}),
    PDF: frozenset({"application/x-pdf"}),
    "image/jpeg": frozenset({"image/jpg"}),
    "application/gzip": frozenset({"application/x-gzip"}),
}
# What is text in some form: which one, bytes do not say for certain.
_TEXT_TYPES: Final = frozenset({JSON, XML, CSV, TEXT})
_TEXT_ALIASES: Final = frozenset({"application/csv", "application/xhtml+xml", "application/ld+json", OLD_EXCEL})


class FileTypeMismatch(Invalid):
    """The file is of another type than was declared."""

    def __init__(self, declared_type: str, actual_type: str) -> None:
        super().__init__(
            f"the bytes of the file are `{actual_type}`, not `{declared_type}` as declared",
            fix=f"declare `{actual_type}`, or send the right file",
            details={"mime_type": declared_type, "found": actual_type},
        )


def detect_type(content: bytes) -> str:
    """The type that the bytes show; `application/octet-stream` if none."""
    for mark, kind in _MARKS:
        if content.startswith(mark):
            return kind
    if content.startswith(ZIP_MARK):
        return XLSX if _WORKBOOK in content else ZIP
    return _detect_text_type(content)


def resolve_type(declared_type: str | None, content: bytes) -> str:
    """The type to store a file with: as it was said, where that says something and the bytes do not contradict."""
    actual_type = detect_type(content)
    if declared_type is None or declared_type in _GENERIC_TYPES or declared_type == actual_type:
        return actual_type
    if actual_type in _TEXT_TYPES:
        if declared_type in _TYPES_WITH_MARK - _TEXT_ALIASES or declared_type.startswith(
            ("image/", "audio/", "video/")
        ):
            raise FileTypeMismatch(declared_type, actual_type)
        return actual_type if declared_type in _TEXT_ALIASES and declared_type == OLD_EXCEL else declared_type
    if actual_type == UNKNOWN:
        is_named_text = declared_type in _TEXT_TYPES or declared_type.startswith("text/")
        # It may be text in another encoding than ours; who reads it says what is wrong with that.
        may_be_text = content.startswith(UTF_16_MARKS) or b"\x00" not in content
        if declared_type in _TYPES_WITH_MARK or (is_named_text and not may_be_text):
            raise FileTypeMismatch(declared_type, actual_type)
        return declared_type
    if declared_type in _ALIASES.get(actual_type, ()):
        return actual_type
    raise FileTypeMismatch(declared_type, actual_type)


def _detect_text_type(content: bytes) -> str:
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
    return CSV if _SEPARATED_LINE.match(start) else TEXT


MAX_FILE_NAME_CHARS: Final = 200
# Control and format characters (such as those that turn the direction of text), and lone surrogates.
_INVISIBLE: Final = re.compile(
    "[\0-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\uffff]"
)
_FOLDERS: Final = re.compile(r".*[/\\]", re.DOTALL)


def clean_file_name(text: str | None) -> str | None:
    """The name of a file without folders and characters that cannot be seen; None if nothing is left of it.

    A name that is too long loses its middle, so that the ending stays.
    """
    if text is None:
        return None
    # The folders of any system: some browsers send them.
    name = _INVISIBLE.sub("", _FOLDERS.sub("", text)).strip(" ")
    if name in {"", ".", ".."}:
        return None
    half = MAX_FILE_NAME_CHARS // 2
    return name if len(name) <= MAX_FILE_NAME_CHARS else f"{name[: half - 1]}…{name[-half:]}"
