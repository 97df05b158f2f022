"""Branding: what a tenant may change of its public pages, and what it may not.

Pure. A tenant has a name, a palette out of a fixed set, and a logo that we draw anew. No text of its own becomes HTML,
CSS or SVG. The name and the logo stand in a bar of their own above the verdict, so no branding covers or imitates it:
its place, its sizes and its colours are the same on every page.
"""

import re
import struct
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

from bpc.core.errors import Invalid

Palette = Literal["standard", "ocean", "violet", "berry", "copper", "graphite"]
PALETTES: Final[tuple[Palette, ...]] = get_args(Palette)
PictureFormat = Literal["png", "jpg", "webp"]

MAX_NAME_CHARS: Final = 60
MAX_LOGO_BYTES: Final = 512_000  # as it is sent
MAX_LOGO_SIDE: Final = 4_000
MAX_LOGO_PIXELS: Final = 8_000_000
# A name is letters, digits and what stands between them. No tick, shield or arrow.
_NAME: Final = re.compile(r"[^\W_](?:[^\W_]|[ &.,'’()+/-])*")
# What the verdict says, in the languages of the page: a name that begins so would read as one.
_VERDICT_WORDS: Final = re.compile(
    r"verif|geprüft|bestätigt|echt\b|genuin|authenti|vérifi|zweryf|potwierdz|autentic|auténtic|genuino|valid|gültig"
    r"|garanti|certifi|zertifi|in force|in kraft",
    re.IGNORECASE,
)
_JPEG_SIZES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_PNG_START: Final = b"\x89PNG\r\n\x1a\n"


class BrandingRefused(Invalid):
    """A name or a logo that pages cannot show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branding:
    """What the bar above the verdict shows. The values here are those of a tenant that never chose any."""

    name: str | None = None
    palette: Palette = "standard"
    logo_sha256: str | None = None


class PictureSize(NamedTuple):
    format: PictureFormat
    width: int
    height: int


def require_brand_name(name: str) -> str:
    """A name that is a name: short, of letters, and not what the verdict says."""
    if len(name) > MAX_NAME_CHARS:
        raise BrandingRefused(
            f"the name has {len(name)} characters, and the most is {MAX_NAME_CHARS}", fix="shorten it"
        )
    if _NAME.fullmatch(name) is None or name != " ".join(name.split()):
        raise BrandingRefused(
            f"the name `{name}` has signs other than letters, digits and & . , ' ( ) + / -", fix="leave them out"
        )
    word = _VERDICT_WORDS.search(name)
    if word is not None:
        raise BrandingRefused(
            f"the name `{name}` reads as a verdict (`{word[0]}`), which only the check of the browser may give",
            fix="choose the name of the company or of the brand",
        )
    return name


def measure_picture(content: bytes) -> PictureSize:
    """The format and the size that a PNG, JPEG or WebP says it has. Refuses what is too large before it is opened."""
    if len(content) > MAX_LOGO_BYTES:
        raise BrandingRefused(
            f"the logo has {len(content):,} bytes, and the most is {MAX_LOGO_BYTES:,}", fix="shrink it"
        )
    try:
        size = _read_size(content)
    except (struct.error, IndexError):
        size = None
    if size is None:
        raise BrandingRefused("the logo is not a PNG, JPEG or WebP picture", fix="save it in one of these formats")
    if not (0 < size.width <= MAX_LOGO_SIDE and 0 < size.height <= MAX_LOGO_SIDE) or (
        size.width * size.height > MAX_LOGO_PIXELS
    ):
        raise BrandingRefused(
            f"the logo has {size.width} × {size.height} pixels, and the most is {MAX_LOGO_SIDE} a side and "
            f"{MAX_LOGO_PIXELS:,} in all",
            fix="shrink it: pages show it 36 pixels high",
        )
    return size


def _read_size(content: bytes) -> PictureSize | None:
    if content.startswith(_PNG_START) and content[12:16] == b"IHDR":
        return PictureSize("png", *struct.unpack_from(">II", content, 16))
    if content.startswith(b"\xff\xd8\xff"):
        return _read_jpeg_size(content)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return _read_webp_size(content)
    return None


def _read_jpeg_size(content: bytes) -> PictureSize | None:
    """ITU T.81, B.2.2: the first frame header. Segments are walked by their lengths."""
    at = 2
    while content[at] == 0xFF:
        marker = content[at + 1]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return PictureSize("jpg", width, height)
        at += 2 + max(2, struct.unpack_from(">H", content, at + 2)[0])
    return None


def _read_webp_size(content: bytes) -> PictureSize | None:
    """RFC 9649: the first chunk says the size, in each kind of file another way. Moving pictures are refused."""
    kind = content[12:16]
    if kind == b"VP8X":
        is_moving = bool(content[20] & 0x02)
        width, height = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
        return None if is_moving else PictureSize("webp", width, height)
    if kind == b"VP8L" and content[20] == 0x2F:
        bits = int.from_bytes(content[21:25], "little")
        return PictureSize("webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 " and content[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", content, 26)
        return PictureSize("webp", width & 0x3FFF, height & 0x3FFF)
    return None
