"""PNG: black and white pixels in, an image file out, and back again under suspicion.

Pure. The same pixels give the same bytes on every machine: zlib's output differs between builds, so the few deflate
codes that are needed are written here (RFC 1951, one block of fixed codes).

    rows of modules ── write ──► PNG, 1 bit a pixel, each module `scale` × `scale` pixels
    any bytes ── read_rows ──► rows of pixels, or NotAnImage; never more memory than the size that was asked for

The first line of a row of modules is stored as it is, the others as "no difference to the line above" (filter Up), so
that they are nine repetitions of one line of zeros.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from bpc.core.errors import Invalid

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
NO_FILTER: Final = 0
UP: Final = 2

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


def _fixed_literal(value: int) -> str:
    """The code of a byte (RFC 1951 3.2.6)."""
    return f"{0b00110000 + value:08b}" if value < 144 else f"{0b110010000 + value - 144:09b}"


def _fixed_length(length: int) -> str:
    """The code of a match's length and its extra bits, which unlike codes go lowest bit first (RFC 1951 3.2.5)."""
    if length == _LONGEST_MATCH:
        return _length_code(285)
    symbol, base, extra = 257, 3, 0
    while length >= base + (1 << extra):
        base += 1 << extra
        symbol += 1
        extra = max(0, (symbol - 261) >> 2)
    return _length_code(symbol) + _extra_bits(length - base, extra)


def _length_code(symbol: int) -> str:
    return f"{symbol - 256:07b}" if symbol < 280 else f"{0b11000000 + symbol - 280:08b}"


def _fixed_distance(distance: int) -> str:
    symbol, base, extra = 0, 1, 0
    while distance >= base + (1 << extra):
        base += 1 << extra
        symbol += 1
        extra = max(0, (symbol >> 1) - 1)
    return f"{symbol:05b}" + _extra_bits(distance - base, extra)


def _extra_bits(value: int, count: int) -> str:
    return f"{value:0{count}b}"[::-1] if count else ""


_LITERALS: Final = tuple(map(_fixed_literal, range(256)))


def _repeated(count: int, distance: int) -> str:
    """The `count` bytes that stand `distance` before, as matches; a rest too short for one is taken off the last."""
    lengths: list[int] = []
    while count:
        # A match has at least three bytes, so a rest of one or two must not be left over.
        length = min(count, _LONGEST_MATCH if count - _LONGEST_MATCH not in {1, 2} else _LONGEST_MATCH - 3)
        lengths.append(length)
        count -= length
    return "".join(_fixed_length(length) + _fixed_distance(distance) for length in lengths)


class _Part(NamedTuple):
    """Pixels of a line: their bytes, and the codes of these."""

    packed: bytes
    codes: str


@lru_cache(maxsize=1024)  # there are 256 of eight modules, and ends of rows
def _eight(modules: bytes, scale: int) -> _Part:
    """Eight modules, which have whole bytes whatever the scale, or what is left of a row."""
    packed = _packed(modules, scale)
    return _Part(packed, "".join(map(_LITERALS.__getitem__, packed)))


def write(rows: Sequence[bytes], scale: int) -> bytes:
    """The image of `rows` of modules, one byte each: 0 is black, 255 is white.

    A row has at least 25 pixels and a module at least two, or its repetitions would be too short to write as such.
    """
    width, height = len(rows[0]) * scale, len(rows) * scale
    lines = [[_eight(row[at : at + 8], scale) for at in range(0, len(row), 8)] for row in rows]
    stride = ((width + 7) >> 3) + 1
    same = (bytes([UP]) + bytes(stride - 1)) * (scale - 1)
    raw = b"".join(b"\x00" + b"".join([part.packed for part in line]) + same for line in lines)
    # The second line of a module's row: its filter, a zero, then that zero again; the others repeat this line.
    again = _LITERALS[UP] + _LITERALS[0] + _repeated(stride - 2, 1) + _repeated(stride * (scale - 2), stride)
    bits = [_BLOCK]
    for line in lines:
        bits += (_LITERALS[NO_FILTER], *[part.codes for part in line], again)
    bits.append(_END_OF_BLOCK)
    data = _ZLIB_HEADER + _as_bytes("".join(bits)) + zlib.adler32(raw).to_bytes(4, "big")
    return SIGNATURE + _chunk(b"IHDR", _header(width, height)) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def read_rows(data: bytes, width: int, height: int) -> list[bytes]:
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
    if not data.startswith(SIGNATURE):  # 1
        raise NotAnImage("does not start as a PNG does")
    chunks = list(_chunks(data))  # 2
    kinds = [kind for kind, _ in chunks]
    if kinds[:1] != [b"IHDR"] or kinds[-1:] != [b"IEND"] or set(kinds[1:-1]) != {b"IDAT"} or chunks[-1][1]:  # 3
        raise NotAnImage("has other parts than IHDR, IDAT and an empty IEND")
    if chunks[0][1] != _header(width, height):  # 4
        raise NotAnImage(f"is not {width} by {height} pixels of 1 bit, greyscale, not interlaced")
    stride = ((width + 7) >> 3) + 1
    raw = _inflated(b"".join(part for kind, part in chunks if kind == b"IDAT"), stride * height)  # 5
    rows = list(_unfiltered(raw, stride))
    padding = (1 << (-width % 8)) - 1
    if any(row[-1] & padding for row in rows):  # 7
        raise NotAnImage("has something behind the last pixel of a row")
    return rows


def packed_rows(rows: Sequence[bytes], scale: int) -> list[bytes]:
    """What `read_rows` gives for an image of `rows` of modules."""
    return [line for row in rows for line in [_packed(row, scale)] * scale]


def _packed(row: bytes, scale: int) -> bytes:
    digits = row.replace(b"\xff", b"1" * scale).replace(b"\x00", b"0" * scale)
    count = (len(digits) + 7) >> 3
    return int(digits.ljust(count * 8, b"0"), 2).to_bytes(count, "big")


def _as_bytes(bits: str) -> bytes:
    """Bits in stream order: the first is the lowest of the first byte (RFC 1951 3.1.1)."""
    return int(bits[::-1], 2).to_bytes((len(bits) + 7) >> 3, "little")


def _header(width: int, height: int) -> bytes:
    # Bit depth 1, greyscale; the only compression and filter methods there are; not interlaced.
    return struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(data):
        end = at + int.from_bytes(data[at : at + 4], "big") + _CHUNK_FRAME
        if len(data) < at + _CHUNK_FRAME or len(data) < end:
            raise NotAnImage(f"ends inside the part that starts at byte {at}")
        kind, body = data[at + 4 : at + 8], data[at + 8 : end - 4]
        if zlib.crc32(kind + body) != int.from_bytes(data[end - 4 : end], "big"):
            raise NotAnImage(f"has a part at byte {at} that does not have the CRC it claims")
        yield kind, body
        at = end


def _inflated(data: bytes, size: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(data, size + 1)  # one more, to see that there is more
    except zlib.error:
        raise NotAnImage("has compressed data that cannot be read") from None
    if len(raw) != size or not stream.eof or stream.unused_data or stream.unconsumed_tail:
        raise NotAnImage("has more or less data than its size says")
    return raw


def _unfiltered(raw: bytes, stride: int) -> Iterator[bytes]:
    above = bytes(stride - 1)
    for start in range(0, len(raw), stride):
        kind, line = raw[start], raw[start + 1 : start + stride]
        if kind == UP and not any(line):
            yield above  # the common case, and the quick one
            continue
        if kind != NO_FILTER:
            line = _restored(kind, line, above)
        yield line
        above = line


def _restored(kind: int, line: bytes, above: bytes) -> bytes:
    """PNG 9.2: a filter works on bytes, and with 1 bit a pixel the pixel to the left counts as the byte before."""
    made = bytearray()
    left = corner = 0
    for value, up in zip(line, above, strict=True):
        made.append((value + _predicted(kind, left, up, corner)) & 0xFF)  # 6
        left, corner = made[-1], up
    return bytes(made)


def _predicted(kind: int, left: int, up: int, corner: int) -> int:
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
