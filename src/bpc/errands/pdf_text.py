"""The text of a PDF, as far as it has any: what is only a picture of text is not read.

For a child process with limits: a PDF can ask for any amount of time and memory.
"""

import logging
from io import BytesIO
from typing import TYPE_CHECKING, Final

from bpc.core.documents.members import UNSTORABLE

if TYPE_CHECKING:
    from pypdf import PdfReader

MOST_PAGES: Final = 2_000
MOST_CHARACTERS: Final = 5_000_000


class NoText(Exception):
    """Why a PDF gives no text, to be shown."""


def text_of(content: bytes) -> tuple[int, str]:
    """How many pages there are, and their text, form feeds between them. Raises `NoText`."""
    from pypdf import PdfReader  # noqa: PLC0415 (large, and only needed in the child)

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells every small mistake
    try:
        return _read(PdfReader(BytesIO(content)))
    except (NoText, MemoryError):
        raise
    except Exception as wrong:  # noqa: BLE001 (a broken file breaks its reader in any way)
        raise NoText(f"the file is damaged: {type(wrong).__name__}") from None


def _read(reader: "PdfReader") -> tuple[int, str]:
    if reader.is_encrypted and not reader.decrypt(""):
        raise NoText("the file needs a password")
    count = len(reader.pages)
    if count > MOST_PAGES:
        raise NoText(f"the file has {count:,} pages, and at most {MOST_PAGES:,} are read")
    pages, room = list[str](), MOST_CHARACTERS
    for page in reader.pages:
        pages.append(UNSTORABLE.sub("", page.extract_text()))
        room -= len(pages[-1]) + 1
        if room < 0:
            raise NoText(f"the file has more than {MOST_CHARACTERS:,} characters")
    return count, "\f".join(pages)
