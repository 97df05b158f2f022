"""PNG: the image is what every reader makes of it, the same bytes everywhere, and nothing wrong with it passes."""

import struct
import zlib

import pytest

from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.passport import qr
from bpc.core.passport.qr import NotAnImage, pack_rows, read_png_rows, write_png


def make_modules(side: int) -> list[bytes]:
    """Some pattern, the same in every Python."""
    return [bytes(255 * (byte & 1) for byte in sha256(bytes([row])) * 6)[:side] for row in range(side)]


def encode_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def encode_image(raw: bytes, *, width: int, height: int, depth: int = 1) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    return (
        qr.PNG_SIGNATURE
        + encode_chunk(b"IHDR", header)
        + encode_chunk(b"IDAT", zlib.compress(raw))
        + encode_chunk(b"IEND", b"")
    )


def read_by_hand(data: bytes) -> list[bytes]:
    """What a reader of ours that shares no code with the core makes of an image, as pixels of 0 and 1."""
    width, height = struct.unpack(">II", data[16:24])
    stride = (width + 7) // 8 + 1
    raw = zlib.decompress(data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8])
    rows = []
    above = bytes(stride - 1)
    for start in range(0, height * stride, stride):
        line = raw[start + 1 : start + stride]
        above = line if raw[start] == 0 else bytes((a + b) % 256 for a, b in zip(line, above, strict=True))
        rows.append(bytes(above[at // 8] >> (7 - at % 8) & 1 for at in range(width)))
    return rows


@pytest.mark.parametrize("side", [21, 22, 23, 61, 185])
@pytest.mark.parametrize("scale", [2, 3, 10])
@pytest.mark.slow
def test_every_pixel_of_a_module_has_its_colour(side: int, scale: int) -> None:
    rows = make_modules(side)

    pixels = read_by_hand(write_png(rows, scale))

    assert pixels == [bytes(module & 1 for module in row for _ in range(scale)) for row in rows for _ in range(scale)]


def test_reading_gives_back_what_was_written() -> None:
    rows = make_modules(61)

    assert read_png_rows(write_png(rows, 10), 610, 610) == pack_rows(rows, 10)


def test_the_bytes_are_the_same_on_every_machine() -> None:
    data = write_png(make_modules(61), 10)

    assert to_hex(sha256(data)) == "82c81bb188747d1379a9a80902d63177d6fcc9525892692fabd3d34e03ae4b5f"
    assert len(data) < 6000


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5, 8, 9, 77, 78, 300, 5000])
def test_repetitions_are_written_as_deflate_has_them(distance: int) -> None:
    before = bytes(sha256(distance.to_bytes(2, "big")) * (distance // 32 + 1))[:distance]
    literals = "".join(qr._LITERALS[byte] for byte in before)
    for count in [*range(3, 600), 700, 1027, 5000]:
        bits = f"110{literals}{qr._encode_repetition(count, distance)}0000000"

        inflated = zlib.decompress(qr._bits_to_bytes(bits), -15)

        expected = (before * (count // distance + 2))[: distance + count]
        assert inflated == expected, count


def filter_rows(rows: list[bytes], kind: int) -> bytes:
    """Rows as PNG's filter `kind` stores them, written from the standard (PNG 9.2)."""
    output = b""
    above = bytes(len(rows[0]))
    for row in rows:
        line = bytearray()
        for at, value in enumerate(row):
            left, corner = (row[at - 1], above[at - 1]) if at else (0, 0)
            up = above[at]
            nearest = left + up - corner
            distances = [abs(nearest - left), abs(nearest - up), abs(nearest - corner)]
            paeth = [left, up, corner][distances.index(min(distances))]
            line.append((value - [0, left, up, (left + up) // 2, paeth][kind]) % 256)
        output += bytes([kind]) + line
        above = row
    return output


@pytest.mark.parametrize("kind", range(5))
def test_an_image_that_is_compressed_otherwise_has_the_same_pixels(kind: int) -> None:
    rows = pack_rows(make_modules(21), 10)

    assert read_png_rows(encode_image(filter_rows(rows, kind), width=210, height=210), 210, 210) == rows


def test_data_in_several_parts_are_read() -> None:
    rows = pack_rows(make_modules(21), 10)
    data = zlib.compress(filter_rows(rows, 0), 9)
    header = struct.pack(">IIBBBBB", 210, 210, 1, 0, 0, 0, 0)
    parts = b"".join(encode_chunk(b"IDAT", data[at : at + 50]) for at in range(0, len(data), 50))

    assert (
        read_png_rows(qr.PNG_SIGNATURE + encode_chunk(b"IHDR", header) + parts + encode_chunk(b"IEND", b""), 210, 210)
        == rows
    )


GOOD = write_png(make_modules(21), 10)
RAW = filter_rows(pack_rows(make_modules(21), 10), 0)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "does not start"),
        (b"GIF89a", "does not start"),
        (qr.PNG_SIGNATURE, "other parts"),
        (GOOD + b"\x00", "ends inside"),
        (GOOD + encode_chunk(b"IEND", b""), "other parts"),
        (GOOD[:-1], "ends inside"),
        (GOOD[:8] + b"\xff\xff\xff\xff" + GOOD[12:], "ends inside"),
        (GOOD[:20] + bytes([GOOD[20] ^ 1]) + GOOD[21:], "CRC"),
        (GOOD[:-12] + encode_chunk(b"tEXt", b"hello") + GOOD[-12:], "other parts"),
        (GOOD[:-12] + encode_chunk(b"IEND", b"x"), "other parts"),
        (encode_image(RAW, width=211, height=210), "210 by 210"),
        (encode_image(RAW, width=210, height=209), "210 by 210"),
        (encode_image(RAW, width=210, height=210, depth=8), "210 by 210"),
        (encode_image(RAW[:-1], width=210, height=210), "more or less data"),
        (encode_image(RAW + b"\x00", width=210, height=210), "more or less data"),
        (encode_image(bytes(10**8), width=210, height=210), "more or less data"),
        (encode_image(b"\x05" + RAW[1:], width=210, height=210), "filter 5"),
        (encode_image(RAW[:27] + b"\x01" + RAW[28:], width=210, height=210), "behind the last pixel"),
        (GOOD.replace(GOOD[41:-16], b"\x00" * len(GOOD[41:-16])), "CRC"),
        (GOOD[:33] + encode_chunk(b"IDAT", b"nonsense") + encode_chunk(b"IEND", b""), "cannot be read"),
        (GOOD[:33] + encode_chunk(b"IDAT", zlib.compress(RAW) + b"\x00") + encode_chunk(b"IEND", b""), "more or less"),
        (GOOD[:33] + encode_chunk(b"IDAT", zlib.compress(RAW)[:-1]) + encode_chunk(b"IEND", b""), "more or less"),
        (GOOD[:33] + encode_chunk(b"IEND", b""), "other parts"),
    ],
)
def test_what_is_not_such_an_image_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(NotAnImage, match=says):
        read_png_rows(data, 210, 210)


def test_no_single_bit_can_change_unseen() -> None:
    expected = read_png_rows(GOOD, 210, 210)
    for at in range(len(GOOD) * 8):
        changed = bytearray(GOOD)
        changed[at >> 3] ^= 1 << (at & 7)
        with pytest.raises(NotAnImage):
            assert read_png_rows(bytes(changed), 210, 210) == expected
