"""Documents: what suppliers sent, read into facts.

Pure. A format reads bytes into elements (JSON: `strict_json`, `elements`); `members` and `keys` make facts of them.
"""

from bpc.core.documents.notes import Found, Note
from bpc.core.documents.read import Read, ReadFact, Rejected, read_document

__all__ = ["Found", "Note", "Read", "ReadFact", "Rejected", "read_document"]
