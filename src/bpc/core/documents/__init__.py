"""Documents: what suppliers sent, read into facts.

Pure. A format reads bytes into elements (JSON: `strict_json`, `elements`; CSV: `csv_table`, XLSX: `xlsx_table`, both
through `tables`); `members` and `keys` make facts of them.
"""

from bpc.core.documents.notes import Found, Note
from bpc.core.documents.read import Read, ReadFact, Rejected, read_document
from bpc.core.documents.sniff import is_text

__all__ = ["Found", "Note", "Read", "ReadFact", "Rejected", "is_text", "read_document"]
