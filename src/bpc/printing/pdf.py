"""PDF: a sheet of texts in, PDF/A bytes out.

Equal sheets give equal bytes, in every process: the template and the fonts are ours and part of this package, no font
of the system and no package of the network is used, and the document's time is the passport's. What the sheet says is
handed over as JSON and shown as text; nothing of it is ever read as markup.

The typesetter holds on to fonts and to what it has laid out before, so it is made once per process. It is not made for
several threads at a time.
"""

import json
import threading
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import typst

from bpc.printing.glyphs import Glyphs

FOLDER: Final = Path(__file__).parent
FONTS: Final = FOLDER / "fonts"
STANDARD: Final = "a-2a"  # with the structure a screen reader needs

_one_at_a_time = threading.Lock()


def print_pdf(sheet: Mapping[str, Any], *, at: datetime) -> bytes:
    """The sheet as a PDF/A document of the moment `at`."""
    text = json.dumps(_printable(sheet, _glyphs()), ensure_ascii=False)
    with _one_at_a_time:
        made = _compiler().compile(
            format="pdf", sys_inputs={"sheet": text}, pdf_standards=STANDARD, timestamp=int(at.timestamp())
        )
    if not isinstance(made, bytes):
        raise TypeError("the typesetter gave no document")
    return made


def _printable(value: Any, glyphs: Glyphs) -> Any:
    match value:
        case str():
            return glyphs.printable(value)
        case Mapping():
            return {name: part if name in _AS_IT_IS else _printable(part, glyphs) for name, part in value.items()}
        case list() | tuple():
            return [_printable(part, glyphs) for part in value]
        case _:
            return value


# A picture, what the template decides by, and what people copy: hex, base64 and ids, which fit on their lines.
_AS_IT_IS: Final = frozenset({"qr_svg", "status", "hashes", "signature", "ids", "passport_version_id"})


@cache
def _glyphs() -> Glyphs:
    return Glyphs((FONTS / name).read_bytes() for name in ("Inter-Regular.otf", "DejaVuSans.ttf"))


@cache
def _compiler() -> typst.Compiler:
    fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=True, font_paths=[str(FONTS)])
    return typst.Compiler(input=FOLDER / "template.typ", root=FOLDER, font_paths=fonts)
