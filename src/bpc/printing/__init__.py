"""Printing: a bundle, a format and an audience in, the bytes of an export file out.

The same bundle gives the same bytes on every machine. Uses fonts and the typesetter, but no database.

A PDF is PDF/A, which allows no character without a glyph, and the typesetter refuses a document that has one. So
characters that our fonts do not have are replaced first, visibly. Which characters a font has is in its `cmap` table
(OpenType specification, chapter cmap, formats 4 and 12).
"""

import json
import re
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, assert_never

import typst

from bpc.core.catalogue.number_format import SOURCE_LANGUAGE, Language
from bpc.core.exports.disclosure import Audience, ExportFormat, disclose_opened, open_for_export
from bpc.core.exports.json_ld import export_json_ld
from bpc.core.exports.point_filling import export_data_points
from bpc.core.exports.sheet import build_sheet
from bpc.core.exports.xml_document import export_xml
from bpc.core.passport.bundle import Bundle, write_bundle
from bpc.printing.catalogues import load_wording

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
MAX_WORD_LENGTH: Final = 24
PIECE_LENGTH: Final = 8
FOLDER: Final = Path(__file__).parent
FONTS: Final = FOLDER / "fonts"
STANDARD: Final = "a-2a"  # with the structure that a screen reader needs

_ZERO_WIDTH_SPACE: Final = "\N{ZERO WIDTH SPACE}"
# These change how the character before them looks, not what it means.
_VARIATION_SELECTORS: Final = dict.fromkeys((*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), 0x200B, 0x00AD))
# These could make a text look like another one: changes of direction, invisible letters, line breaks.
_DECEPTIVE: Final = dict.fromkeys(
    (
        *range(0x20),
        *range(0x7F, 0xA0),
        0x061C,
        0x180E,
        *range(0x200C, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
        *range(0xE000, 0xF900),  # private use; PDF/A-2a refuses it
        *range(0xFFF0, 0xFFFD),
    ),
    REPLACEMENT,
)
_PLAIN_BREAKS: Final = {0x09: " ", 0x0A: "\n", 0x0D: None}
# Written out, because white space in Python depends on its Unicode version, and prints must have the same bytes with
# every version.
_SPACES: Final = "\\x09-\\x0d\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
_ASCII: Final = re.compile(r"[\x20-\x7e]*")
_LONG_WORD: Final = re.compile(rf"[^{_SPACES}{_ZERO_WIDTH_SPACE}]{{{MAX_WORD_LENGTH + 1},}}")
_BREAKABLE: Final = re.compile(r"(?<=[/?&=_.,;:@+-])(?=.)")
# The typesetter breaks such addresses by itself, so that they are copied without break points in them.
_WEB_ADDRESS: Final = re.compile(rf"https?:/(?:[/?&=_.,;:@+-][0-9A-Za-z%~#]{{0,{MAX_WORD_LENGTH}}})+")
_UNICODE_ENCODINGS: Final = ((3, 10), (0, 6), (0, 4), (3, 1), (0, 3))
# Our own words, in a column that is wide enough for the longest of them.
_WHOLE_WORD_MEMBERS: Final = frozenset({"audience"})
# A picture, what the template decides by, and what people copy: hex, base64 and ids, which fit on their lines.
_VERBATIM_MEMBERS: Final = frozenset(
    {"svg", "href", "status", "language", "page", "hashes", "signature", "ids", "passport_version_id"}
)

_compiler_lock = threading.Lock()


def render_export(
    bundle: Bundle,
    name: ExportFormat,
    audience: Audience,
    *,
    waived_count: int | None = None,
    revoked_at: datetime | None = None,
    language: Language = SOURCE_LANGUAGE,
    catalogues: Sequence[bytes] = (),
) -> bytes:
    """The passport of `bundle` in that format, for that audience. Raises `ExportRefused` if the bundle is not valid.

    `waived_count` is the number of waived compliance entries, and `revoked_at` when it was revoked, if it was: a bundle
    does not tell them. A PDF is in
    `language`; `catalogues` are those of the rules, which answer before those that are shipped.
    """
    checked_bundle = open_for_export(bundle)
    match name:
        case "PDF":
            passport = disclose_opened(checked_bundle, audience, waived_count, revoked_at)
            sheet = build_sheet(passport, load_wording(language, catalogues))
            return print_pdf(sheet, at=checked_bundle.receipt.issued_at)
        case "JSON_LD":
            return export_json_ld(disclose_opened(checked_bundle, audience, waived_count, revoked_at))
        case "XML":
            return export_xml(disclose_opened(checked_bundle, audience, waived_count, revoked_at))
        case "DATA_POINTS":
            return export_data_points(checked_bundle, audience, revoked_at)
        case "BUNDLE":
            return write_bundle(bundle)
        case _:
            assert_never(name)


class Glyphs:
    """The characters of several fonts together."""

    def __init__(self, fonts: Iterable[bytes]) -> None:
        self._code_points = frozenset(code for font in fonts for code in read_code_points(font))
        self._replacements: dict[int, str | None] = {**_DECEPTIVE, **_PLAIN_BREAKS, **_VARIATION_SELECTORS}

    def make_printable(self, text: str, *, breaks: bool = True) -> str:
        """`text` without characters that cannot be printed, and, with `breaks`, with break points in long words."""
        if _ASCII.fullmatch(text) is None:
            for code in {ord(character) for character in text} - self._code_points:
                self._replacements.setdefault(code, REPLACEMENT)
            text = text.translate(self._replacements)
        if not breaks or len(text) <= MAX_WORD_LENGTH or _WEB_ADDRESS.fullmatch(text):
            return text
        return _LONG_WORD.sub(_break_word, text)


def _break_word(word: re.Match[str]) -> str:
    """A long word with break points: after punctuation or, where it has none, every few letters."""
    parts = (part for piece in _BREAKABLE.split(word[0]) for part in _split_pieces(piece))
    return _ZERO_WIDTH_SPACE.join(parts)


def _split_pieces(text: str) -> Iterator[str]:
    yield from (text[at : at + PIECE_LENGTH] for at in range(0, len(text), PIECE_LENGTH))


def read_code_points(font: bytes) -> Iterator[int]:
    """The code points for which a font has a glyph."""
    table = _find_cmap(font)
    (count,) = struct.unpack_from(">H", table, 2)
    offsets = {
        (platform, encoding): offset
        for platform, encoding, offset in (struct.unpack_from(">HHL", table, 4 + 8 * at) for at in range(count))
    }
    offset = next(offsets[encoding_key] for encoding_key in _UNICODE_ENCODINGS if encoding_key in offsets)
    (form,) = struct.unpack_from(">H", table, offset)
    return _read_format_12(table, offset) if form == 12 else _read_format_4(table, offset)


def _find_cmap(font: bytes) -> bytes:
    (count,) = struct.unpack_from(">H", font, 4)
    for at in range(count):
        tag, _, offset, length = struct.unpack_from(">4sLLL", font, 12 + 16 * at)
        if tag == b"cmap":
            return font[offset : offset + length]
    raise ValueError("the font has no cmap table")


def _read_format_12(table: bytes, offset: int) -> Iterator[int]:
    (groups,) = struct.unpack_from(">L", table, offset + 12)
    for at in range(groups):
        first, last, _ = struct.unpack_from(">LLL", table, offset + 16 + 12 * at)
        yield from range(first, last + 1)


def _read_format_4(table: bytes, offset: int) -> Iterator[int]:
    (doubled_offset,) = struct.unpack_from(">H", table, offset + 6)
    segments = doubled_offset // 2
    ends, starts = offset + 14, offset + 16 + doubled_offset
    for at in range(segments):
        (last,), (first,) = (
            struct.unpack_from(">H", table, ends + 2 * at),
            struct.unpack_from(">H", table, starts + 2 * at),
        )
        yield from (code for code in range(first, last + 1) if code != 0xFFFF)


def print_pdf(sheet: Mapping[str, Any], *, at: datetime) -> bytes:
    """The sheet as a PDF/A document with the date `at`."""
    text = json.dumps(_replace_unprintable(sheet, _load_glyphs()), ensure_ascii=False)
    with _compiler_lock:
        document = _load_compiler().compile(
            format="pdf", sys_inputs={"sheet": text}, pdf_standards=STANDARD, timestamp=int(at.timestamp())
        )
    if not isinstance(document, bytes):
        raise TypeError("the typesetter returned no document")
    return document


def print_pictures(sheet: Mapping[str, Any], *, dots_per_inch: int) -> list[bytes]:
    """The pages of the sheet, each as a PNG."""
    text = json.dumps(_replace_unprintable(sheet, _load_glyphs()), ensure_ascii=False)
    with _compiler_lock:
        pages = _load_compiler().compile(format="png", sys_inputs={"sheet": text}, ppi=dots_per_inch)
    return [page for page in (pages if isinstance(pages, list) else [pages]) if page is not None]


def _replace_unprintable(value: Any, glyphs: Glyphs, *, breaks: bool = True) -> Any:
    match value:
        case str():
            return glyphs.make_printable(value, breaks=breaks)
        case Mapping():
            return {
                name: part
                if name in _VERBATIM_MEMBERS
                else _replace_unprintable(part, glyphs, breaks=name not in _WHOLE_WORD_MEMBERS)
                for name, part in value.items()
            }
        case list() | tuple():
            return [_replace_unprintable(part, glyphs, breaks=breaks) for part in value]
        case _:
            return value


@cache
def _load_glyphs() -> Glyphs:
    return Glyphs((FONTS / name).read_bytes() for name in ("Inter-Regular.otf", "DejaVuSans.ttf"))


@cache
def _load_compiler() -> typst.Compiler:
    fonts = typst.Fonts(include_system_fonts=False, include_embedded_fonts=True, font_paths=[str(FONTS)])
    return typst.Compiler(input=FOLDER / "template.typ", root=FOLDER, font_paths=fonts)
