"""Glyphs: which characters our fonts can print.

PDF/A allows no text without a glyph, and a typesetter that finds none for a character refuses the whole document. So
what our fonts cannot print is replaced beforehand, visibly. Reads the `cmap` table of OpenType fonts (the OpenType
specification, chapter cmap, formats 4 and 12).
"""

import re
import struct
from collections.abc import Iterable, Iterator
from typing import Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
LONGEST_WORD: Final = 24
PIECE: Final = 8

_ZERO_WIDTH_SPACE: Final = "\N{ZERO WIDTH SPACE}"
# These say how the character before them is to look, not what it is.
_SELECTORS: Final = dict.fromkeys((*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), 0x200B, 0x00AD))
# With these a text could look like another one: directions, invisible letters, lines of their own.
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
        *range(0xE000, 0xF900),  # whatever somebody agreed on; PDF/A-2a refuses it
        *range(0xFFF0, 0xFFFD),
    ),
    REPLACEMENT,
)
_PLAIN: Final = {0x09: " ", 0x0A: "\n", 0x0D: None}
# Written out: what Python itself calls white space or printable goes by the Unicode of its version, and what is
# decided here is in the bytes of a print.
_SPACES: Final = "\\x09-\\x0d\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
_ASCII: Final = re.compile(r"[\x20-\x7e]*")
_LONG: Final = re.compile(rf"[^{_SPACES}{_ZERO_WIDTH_SPACE}]{{{LONGEST_WORD + 1},}}")
_BREAKABLE: Final = re.compile(r"(?<=[/?&=_.,;:@+-])(?=.)")
_UNICODE: Final = ((3, 10), (0, 6), (0, 4), (3, 1), (0, 3))


class Glyphs:
    """The characters of several fonts together."""

    def __init__(self, fonts: Iterable[bytes]) -> None:
        self._known = frozenset(code for font in fonts for code in covered(font))
        self._table: dict[int, str | None] = {**_DECEPTIVE, **_PLAIN, **_SELECTORS}

    def printable(self, text: str) -> str:
        """`text` with what cannot be printed replaced, and with places at which a long word may be broken."""
        if _ASCII.fullmatch(text) is None:
            for code in {ord(sign) for sign in text} - self._known:
                self._table.setdefault(code, REPLACEMENT)
            text = text.translate(self._table)
        return _LONG.sub(_broken, text) if len(text) > LONGEST_WORD else text


def _broken(word: re.Match[str]) -> str:
    """A long word with places to break it: behind its signs or, where it has none, anywhere."""
    parts = (part for piece in _BREAKABLE.split(word[0]) for part in _pieces(piece))
    return _ZERO_WIDTH_SPACE.join(parts)


def _pieces(text: str) -> Iterator[str]:
    yield from (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def covered(font: bytes) -> Iterator[int]:
    """The code points that a font has a glyph for."""
    table = _cmap(font)
    (count,) = struct.unpack_from(">H", table, 2)
    places = {
        (platform, encoding): offset
        for platform, encoding, offset in (struct.unpack_from(">HHL", table, 4 + 8 * at) for at in range(count))
    }
    offset = next(places[each] for each in _UNICODE if each in places)
    (form,) = struct.unpack_from(">H", table, offset)
    return _format_12(table, offset) if form == 12 else _format_4(table, offset)


def _cmap(font: bytes) -> bytes:
    (count,) = struct.unpack_from(">H", font, 4)
    for at in range(count):
        tag, _, offset, length = struct.unpack_from(">4sLLL", font, 12 + 16 * at)
        if tag == b"cmap":
            return font[offset : offset + length]
    raise ValueError("the font has no cmap table")


def _format_12(table: bytes, offset: int) -> Iterator[int]:
    (groups,) = struct.unpack_from(">L", table, offset + 12)
    for at in range(groups):
        first, last, _ = struct.unpack_from(">LLL", table, offset + 16 + 12 * at)
        yield from range(first, last + 1)


def _format_4(table: bytes, offset: int) -> Iterator[int]:
    (doubled,) = struct.unpack_from(">H", table, offset + 6)
    segments = doubled // 2
    ends, starts = offset + 14, offset + 16 + doubled
    for at in range(segments):
        (last,), (first,) = (
            struct.unpack_from(">H", table, ends + 2 * at),
            struct.unpack_from(">H", table, starts + 2 * at),
        )
        yield from (code for code in range(first, last + 1) if code != 0xFFFF)
