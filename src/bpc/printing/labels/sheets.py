"""Sheets of labels: for each battery its code and its serial number, as a PDF or as SVG pages.

A code is drawn as a path, one rectangle for each run of dark modules, so that it is sharp at any size. The words are
set by the typesetter, in a PDF with the font embedded, in an SVG as outlines: a printer needs no font of ours.
"""

import json
import re
import threading
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import typst

from bpc.core.exports.sheet_values import draw_modules_svg
from bpc.core.passport.qr import encode_qr_modules
from bpc.printing import FONTS, Glyphs
from bpc.printing.labels.layout import SMALL_CHARACTER_WIDTH, LabelLayout, LabelRefused, find_text_room

MAX_LABELS: Final = 20_000  # of one document
STANDARD: Final = "a-2b"
FOLDER: Final = Path(__file__).parent
MAX_CODE_CHARS: Final = 1_000

# The code as the typesetter writes it into an SVG: a picture inside a picture, which some printers do not draw.
_EMBEDDED_CODE: Final = re.compile(
    r'<image( transform="[^"]*")? xlink:href="data:image/svg[+]xml;base64,([^"]*)"'
    r' width="([^"]*)" height="([^"]*)"[^>]*/>'
)
_SIZE: Final = re.compile(r' width="[0-9]+" height="[0-9]+"')

_compiler_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelText:
    """What one label says: the text of its code, the serial number, and smaller lines below that."""

    code: str
    serial: str
    small_lines: tuple[str, ...] = ()


def print_label_pdf(labels: Sequence[LabelText], layout: LabelLayout, *, at: datetime) -> bytes:
    """All labels as a PDF/A document with the date `at`."""
    inputs = _make_inputs(labels, layout)
    with _compiler_lock:
        document = _load_compiler().compile(
            format="pdf", sys_inputs=inputs, pdf_standards=STANDARD, timestamp=int(at.timestamp())
        )
    if not isinstance(document, bytes):
        raise TypeError("the typesetter returned no document")
    return document


def print_label_svgs(labels: Sequence[LabelText], layout: LabelLayout) -> list[bytes]:
    """The pages, each as an SVG."""
    inputs = _make_inputs(labels, layout)
    with _compiler_lock:
        pages = _load_compiler().compile(format="svg", sys_inputs=inputs)
    return [_inline_codes(page) for page in (pages if isinstance(pages, list) else [pages]) if page is not None]


def _make_inputs(labels: Sequence[LabelText], layout: LabelLayout) -> dict[str, str]:
    if not labels:
        raise LabelRefused("there is no battery to print a label for", fix="choose batteries that are registered")
    if len(labels) > MAX_LABELS:
        raise LabelRefused(
            f"{len(labels):,} labels are too many for one document",
            fix=f"print at most {MAX_LABELS:,} at once, for example batch by batch",
        )
    drawn_labels = iter([_draw_label(label, layout) for label in labels])
    pages = [[{**next(drawn_labels), "x": x, "y": y} for x, y in places] for places in layout.place_labels(len(labels))]
    width, height = layout.page_size
    return {"sheet": json.dumps({"width": width, "height": height, "pages": pages}, ensure_ascii=False)}


def _draw_label(label: LabelText, layout: LabelLayout) -> dict[str, Any]:
    if not label.code.startswith(("https://", "http://")):
        raise LabelRefused(
            f"the address of battery `{label.serial}` is no link, so a phone could not open it",
            fix="set `base_url` in the identification of its product, or name a host for all",
            details={"serial_number": label.serial},
        )
    if len(label.code) > MAX_CODE_CHARS:
        raise LabelRefused(f"the address of battery `{label.serial}` is too long for a code on a label")
    modules = encode_qr_modules(label.code, layout.level)
    side = len(modules) * layout.module
    room = find_text_room(layout, side, label.serial, label.small_lines)
    lines = [label.serial[at : at + room.line_chars] for at in range(0, len(label.serial), room.line_chars)]
    glyphs, width = _load_glyphs(), layout.width - room.x
    return {
        "svg": draw_modules_svg(modules),
        "side": side,
        "alt": label.code,
        "text_x": room.x,
        "text_y": room.y,
        "text_width": width,
        "serial": [glyphs.make_printable(line, breaks=False) for line in lines],
        "small": [glyphs.make_printable(_shorten(line, width), breaks=False) for line in label.small_lines],
    }


def _shorten(line: str, width: float) -> str:
    most = int(width / SMALL_CHARACTER_WIDTH)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _inline_codes(page: bytes) -> bytes:
    return _EMBEDDED_CODE.sub(_inline_code, page.decode()).encode()


def _inline_code(image: re.Match[str]) -> str:
    transform, data, width, height = image.groups()
    code = _SIZE.sub(f' width="{width}" height="{height}"', b64decode(data).decode(), count=1)
    return f"<g{transform or ''}>{code}</g>"


@cache
def _load_glyphs() -> Glyphs:
    return Glyphs(path.read_bytes() for path in (FOLDER / "fonts" / "OCRB.otf", FONTS / "DejaVuSans.ttf"))


@cache
def _load_compiler() -> typst.Compiler:
    folders = [str(FOLDER / "fonts"), str(FONTS)]
    fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=False, font_paths=folders)
    return typst.Compiler(input=FOLDER / "sheets.typ", root=FOLDER, font_paths=fonts)
