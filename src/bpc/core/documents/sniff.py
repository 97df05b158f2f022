"""Which format a document has: what its sender says, unless its first bytes know better.

Browsers and mail programs call a spreadsheet `application/octet-stream`, and a CSV file after the program that opens
it there. A type that names another format, such as `application/pdf`, is believed.
"""

from typing import Final

from bpc.core.file_types import BYTE_ORDER_MARK, CSV, JSON, OLD_EXCEL_MARK, PDF_MARK, XLSX, ZIP_MARK

# Types that say little, or that are given to all sorts of files.
_VAGUE: Final = frozenset(
    {
        "application/octet-stream",
        "application/csv",
        "application/vnd.ms-excel",
        "application/x-zip-compressed",
        "application/zip",
        "binary/octet-stream",
        "text/comma-separated-values",
        "text/plain",
        "text/tab-separated-values",
    }
)
_OURS: Final = frozenset({JSON, "text/json", CSV, XLSX})


def mime_type_of(said: str, content: bytes) -> str:
    """The type a document is read as."""
    if said not in _VAGUE and said not in _OURS:
        return said
    if content.startswith((ZIP_MARK, OLD_EXCEL_MARK)):
        return XLSX
    if said in _VAGUE or said == CSV:
        start = content[:1000].removeprefix(BYTE_ORDER_MARK).lstrip()[:1]
        return JSON if start in {b"{", b"["} else said if content.startswith(PDF_MARK) else CSV
    return said


def is_text(content: bytes) -> bool:
    """Whether reading it takes time and memory in proportion to its bytes, as JSON and CSV do and archives do not."""
    return not content.startswith((ZIP_MARK, OLD_EXCEL_MARK, PDF_MARK))
