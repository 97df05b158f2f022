"""QR, BPC-QR-1: what a passport's QR code says, and the image of it.

Pure. The text names the passport version and pins its payload, proof and receipt, so a phone that reads the
code can tell whether the passport it is shown is the one on the battery.

    ids and hashes ── format_qr_text ──► text ── draw_qr_png ──► PNG (level M, 10 pixels a module, quiet zone of 4)
                                           └── read_qr_text ──► the same four, or NotAQrText

The image is the same on every machine. Many codes say the same text; zxing-cpp chooses one of them. The vectors in the
tests pin its choice, so an upgrade that chooses another code fails the tests.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import zxingcpp

from bpc.core.errors import Invalid
from bpc.core.formats.hashes import DIGEST_BYTES, Digest, from_base32, to_base32
from bpc.core.formats.ids import PassportVersionId, parse_uuid

# PNG: black and white pixels in, an image file out, and back again under suspicion.


PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
NO_FILTER: Final = 0
UP_FILTER: Final = 2

# Of a zlib stream (RFC 1950 2.2): deflate with a window of 32 KiB, the fastest of four levels. It is a label only.
_ZLIB_HEADER: Final = b"\x78\x01"
# The bits of a stream in their order. A block's header: it is the last (1), of fixed codes (01, lowest bit first).
_BLOCK: Final = "110"
_END_OF_BLOCK: Final = "0000000"
_LONGEST_MATCH: Final = 258
_CHUNK_FRAME: Final = 12


class NotAnImage(Invalid):
    """Not a PNG of the one kind that is written here."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the image {reason}")


def _encode_literal(value: int) -> str:
    """The code of a byte (RFC 1951 3.2.6)."""
    return f"{0b00110000 + value:08b}" if value < 144 else f"{0b110010000 + value - 144:09b}"


def _encode_length(length: int) -> str:
    """The code of a match's length and its extra bits, which unlike codes go lowest bit first (RFC 1951 3.2.5)."""
    if length == _LONGEST_MATCH:
        return _encode_length_symbol(285)
    symbol, base, extra = 257, 3, 0
    while length >= base + (1 << extra):
        base += 1 << extra
        symbol += 1
        extra = max(0, (symbol - 261) >> 2)
    return _encode_length_symbol(symbol) + _encode_extra_bits(length - base, extra)


def _encode_length_symbol(symbol: int) -> str:
    return f"{symbol - 256:07b}" if symbol < 280 else f"{0b11000000 + symbol - 280:08b}"


def _encode_distance(distance: int) -> str:
    symbol, base, extra = 0, 1, 0
    while distance >= base + (1 << extra):
        base += 1 << extra
        symbol += 1
        extra = max(0, (symbol >> 1) - 1)
    return f"{symbol:05b}" + _encode_extra_bits(distance - base, extra)


def _encode_extra_bits(value: int, count: int) -> str:
    return f"{value:0{count}b}"[::-1] if count else ""


_LITERALS: Final = tuple(map(_encode_literal, range(256)))


def _encode_repetition(count: int, distance: int) -> str:
    """The `count` bytes that stand `distance` before, as matches; a rest too short for one is taken off the last."""
    lengths: list[int] = []
    while count:
        # A match has at least three bytes, so a rest of one or two must not be left over.
        length = min(count, _LONGEST_MATCH if count - _LONGEST_MATCH not in {1, 2} else _LONGEST_MATCH - 3)
        lengths.append(length)
        count -= length
    return "".join(_encode_length(length) + _encode_distance(distance) for length in lengths)


class _PackedModules(NamedTuple):
    """Pixels of a line: their bytes, and the codes of these."""

    packed: bytes
    codes: str


@lru_cache(maxsize=1024)  # there are 256 of eight modules, and ends of rows
def _pack_modules(modules: bytes, scale: int) -> _PackedModules:
    """Eight modules, which have whole bytes whatever the scale, or what is left of a row."""
    row_bytes = _pack_row(modules, scale)
    return _PackedModules(row_bytes, "".join(map(_LITERALS.__getitem__, row_bytes)))


def write_png(rows: Sequence[bytes], scale: int) -> bytes:
    """The image of `rows` of modules, one byte each: 0 is black, 255 is white.

    A row has at least 25 pixels and a module at least two, or its repetitions would be too short to write as such.
    """
    width, height = len(rows[0]) * scale, len(rows) * scale
    lines = [[_pack_modules(row[at : at + 8], scale) for at in range(0, len(row), 8)] for row in rows]
    stride = ((width + 7) >> 3) + 1
    repeated_lines = (bytes([UP_FILTER]) + bytes(stride - 1)) * (scale - 1)
    raw = b"".join(b"\x00" + b"".join([part.packed for part in line]) + repeated_lines for line in lines)
    # The second line of a module's row: its filter, a zero, then that zero again; the others repeat this line.
    repetition_codes = (
        _LITERALS[UP_FILTER]
        + _LITERALS[0]
        + _encode_repetition(stride - 2, 1)
        + _encode_repetition(stride * (scale - 2), stride)
    )
    bits = [_BLOCK]
    for line in lines:
        bits += (_LITERALS[NO_FILTER], *[part.codes for part in line], repetition_codes)
    bits.append(_END_OF_BLOCK)
    data = _ZLIB_HEADER + _bits_to_bytes("".join(bits)) + zlib.adler32(raw).to_bytes(4, "big")
    return (
        PNG_SIGNATURE
        + _encode_chunk(b"IHDR", _encode_header(width, height))
        + _encode_chunk(b"IDAT", data)
        + _encode_chunk(b"IEND", b"")
    )


def read_png_rows(data: bytes, width: int, height: int) -> list[bytes]:
    """The pixel rows, eight pixels a byte, of an image of exactly this size.

    Checks:
      1. it starts as a PNG does
      2. every chunk is whole and has the CRC it claims
      3. the chunks are IHDR, one or more IDAT, IEND, and nothing stands behind
      4. IHDR says this size, 1 bit, greyscale, not interlaced
      5. the compressed data are whole, nothing stands behind them, and they are as long as the size says
      6. every row has a filter that PNG knows
      7. the bits that fill up a row are 0: they are no pixels and must not differ unseen
    """
    if not data.startswith(PNG_SIGNATURE):  # 1
        raise NotAnImage("does not start as a PNG does")
    chunks = list(_iterate_chunks(data))  # 2
    kinds = [kind for kind, _ in chunks]
    if kinds[:1] != [b"IHDR"] or kinds[-1:] != [b"IEND"] or set(kinds[1:-1]) != {b"IDAT"} or chunks[-1][1]:  # 3
        raise NotAnImage("has other parts than IHDR, IDAT and an empty IEND")
    if chunks[0][1] != _encode_header(width, height):  # 4
        raise NotAnImage(f"is not {width} by {height} pixels of 1 bit, greyscale, not interlaced")
    stride = ((width + 7) >> 3) + 1
    raw = _inflate(b"".join(part for kind, part in chunks if kind == b"IDAT"), stride * height)  # 5
    rows = list(_unfilter_rows(raw, stride))
    padding = (1 << (-width % 8)) - 1
    if any(row[-1] & padding for row in rows):  # 7
        raise NotAnImage("has something behind the last pixel of a row")
    return rows


def pack_rows(rows: Sequence[bytes], scale: int) -> list[bytes]:
    """What `read_png_rows` gives for an image of `rows` of modules."""
    return [line for row in rows for line in [_pack_row(row, scale)] * scale]


def _pack_row(row: bytes, scale: int) -> bytes:
    digits = row.replace(b"\xff", b"1" * scale).replace(b"\x00", b"0" * scale)
    count = (len(digits) + 7) >> 3
    return int(digits.ljust(count * 8, b"0"), 2).to_bytes(count, "big")


def _bits_to_bytes(bits: str) -> bytes:
    """Bits in stream order: the first is the lowest of the first byte (RFC 1951 3.1.1)."""
    return int(bits[::-1], 2).to_bytes((len(bits) + 7) >> 3, "little")


def _encode_header(width: int, height: int) -> bytes:
    # Bit depth 1, greyscale; the only compression and filter methods there are; not interlaced.
    return struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)


def _encode_chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def _iterate_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(PNG_SIGNATURE)
    while at < len(data):
        end = at + int.from_bytes(data[at : at + 4], "big") + _CHUNK_FRAME
        if len(data) < at + _CHUNK_FRAME or len(data) < end:
            raise NotAnImage(f"ends inside the part that starts at byte {at}")
        kind, body = data[at + 4 : at + 8], data[at + 8 : end - 4]
        if zlib.crc32(kind + body) != int.from_bytes(data[end - 4 : end], "big"):
            raise NotAnImage(f"has a part at byte {at} that does not have the CRC it claims")
        yield kind, body
        at = end


def _inflate(data: bytes, size: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(data, size + 1)  # one more, to see that there is more
    except zlib.error:
        raise NotAnImage("has compressed data that cannot be read") from None
    if len(raw) != size or not stream.eof or stream.unused_data or stream.unconsumed_tail:
        raise NotAnImage("has more or less data than its size says")
    return raw


def _unfilter_rows(raw: bytes, stride: int) -> Iterator[bytes]:
    above = bytes(stride - 1)
    for start in range(0, len(raw), stride):
        kind, line = raw[start], raw[start + 1 : start + stride]
        if kind == UP_FILTER and not any(line):
            yield above  # the common case, and the quick one
            continue
        if kind != NO_FILTER:
            line = _restore_line(kind, line, above)
        yield line
        above = line


def _restore_line(kind: int, line: bytes, above: bytes) -> bytes:
    """PNG 9.2: a filter works on bytes, and with 1 bit a pixel the pixel to the left counts as the byte before."""
    pixels = bytearray()
    left = corner = 0
    for value, up in zip(line, above, strict=True):
        pixels.append((value + _predict_byte(kind, left, up, corner)) & 0xFF)  # 6
        left, corner = pixels[-1], up
    return bytes(pixels)


def _predict_byte(kind: int, left: int, up: int, corner: int) -> int:
    match kind:
        case 1:
            return left
        case 2:
            return up
        case 3:
            return (left + up) >> 1
        case 4:
            return min((left, up, corner), key=lambda one: abs(left + up - corner - one))  # Paeth: the first nearest
        case _:
            raise NotAnImage(f"has a row with filter {kind}, which PNG does not know")


MODULE_PIXELS: Final = 10
QUIET_MODULES: Final = 4  # ISO/IEC 18004 9.1
CorrectionLevel = Literal["L", "M", "Q", "H"]  # how much of a damaged code can be read, from little to much
ERROR_CORRECTION_LEVEL: Final[CorrectionLevel] = "M"

_TAGS: Final = ("pv=", "ph=", "pr=", "rh=")
_WHITE: Final = b"\xff"


class QrText(NamedTuple):
    """What a QR code pins."""

    passport_version_id: PassportVersionId
    payload_hash: Digest
    proof_root_hash: Digest
    receipt_hash: Digest


class NotAQrText(Invalid):
    """A text that `format_qr_text` does not write."""

    def __init__(self) -> None:
        super().__init__("the QR text is not of the form `BPC1|pv=…|ph=…|pr=…|rh=…`")


def format_qr_text(
    passport_version_id: PassportVersionId, payload_hash: Digest, proof_root_hash: Digest, receipt_hash: Digest
) -> str:
    return (
        f"BPC1|pv={passport_version_id}"
        f"|ph={to_base32(payload_hash)}|pr={to_base32(proof_root_hash)}|rh={to_base32(receipt_hash)}"
    )


def read_qr_text(text: str) -> QrText:
    """What the text says; `NotAQrText` unless `format_qr_text` writes it exactly so."""
    version, *parts = text.split("|")
    if version != "BPC1" or len(parts) != len(_TAGS):
        raise NotAQrText
    if not all(part.startswith(tag) for part, tag in zip(parts, _TAGS, strict=True)):
        raise NotAQrText
    try:
        passport_version_id = PassportVersionId(parse_uuid(parts[0][3:]))
        hashes = [Digest(from_base32(part[3:])) for part in parts[1:]]
    except Invalid:
        raise NotAQrText from None
    if any(len(digest) != DIGEST_BYTES for digest in hashes):
        raise NotAQrText
    return QrText(passport_version_id, *hashes)


def encode_qr_modules(text: str, level: CorrectionLevel = ERROR_CORRECTION_LEVEL) -> Sequence[bytes]:
    """The rows of modules with the quiet zone, a byte each: 0 is dark, 255 is light."""
    code = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode, ec_level=level)
    image: Any = code.to_image(scale=1, add_quiet_zones=False)  # a buffer, which its type does not say
    pixels = memoryview(image)
    side, flat = len(pixels), pixels.tobytes()
    margin = _WHITE * QUIET_MODULES
    rows = [margin + flat[at : at + side] + margin for at in range(0, len(flat), side)]
    quiet = [_WHITE * (side + 2 * QUIET_MODULES)] * QUIET_MODULES
    return [*quiet, *rows, *quiet]


def draw_qr_png(text: str) -> bytes:
    """The image of the QR code that says `text`."""
    return write_png(encode_qr_modules(text), MODULE_PIXELS)


def check_qr_png(data: bytes, text: str) -> None:
    """Raise `NotAnImage` unless `data` is a sound PNG of exactly the pixels of the code that says `text`.

    How it is compressed does not matter.
    """
    modules = encode_qr_modules(text)
    side = len(modules) * MODULE_PIXELS
    rows = read_png_rows(data, side, side)
    for number, (row, expected_row) in enumerate(zip(rows, pack_rows(modules, MODULE_PIXELS), strict=True)):
        if row != expected_row:
            raise NotAnImage(f"does not show the code of this passport: pixel row {number} differs")
