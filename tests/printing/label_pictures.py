"""Pictures of printed labels as a camera sees them: at several sizes, turned, and out of focus."""

import re
import struct
import zlib
from pathlib import Path

import typst
import zxingcpp

PNG_HEADER_BYTES = 8
CHANNELS = 4


def photograph(page: bytes, folder: Path, *, dots_per_inch: float, turned: float = 0) -> list[bytearray]:
    """The page of an SVG as rows of grey pixels, turned by so many degrees."""
    (folder / "page.svg").write_bytes(page)
    (folder / "photo.typ").write_text(
        f'#set page(width: auto, height: auto, margin: 6mm)\n#rotate({turned}deg, reflow: true, image("page.svg"))\n'
    )
    picture = typst.compile(folder / "photo.typ", format="png", ppi=dots_per_inch)
    assert isinstance(picture, bytes)
    return read_grey_rows(picture)


def blur(rows: list[bytearray]) -> list[bytearray]:
    """Each pixel as the mean of the nine around it."""
    width = len(rows[0])
    sums = [[row[max(at - 1, 0)] + row[at] + row[min(at + 1, width - 1)] for at in range(width)] for row in rows]
    last = len(rows) - 1
    return [
        bytearray(
            (above + here + below) // 9
            for above, here, below in zip(sums[max(y - 1, 0)], sums[y], sums[min(y + 1, last)], strict=True)
        )
        for y in range(len(rows))
    ]


def read_codes(rows: list[bytearray]) -> set[str]:
    """The texts of all codes in the picture."""
    picture = memoryview(b"".join(rows)).cast("B", (len(rows), len(rows[0])))
    return {code.text for code in zxingcpp.read_barcodes(picture)}


def read_grey_rows(png: bytes) -> list[bytearray]:
    """The rows of a PNG with four channels of eight bits, as a typesetter writes it, in shades of grey."""
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    assert (depth, colour) == (8, 6)
    at, packed = PNG_HEADER_BYTES, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        packed += png[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    data, stride = zlib.decompress(packed), width * CHANNELS
    rows, previous = [], bytearray(stride)
    for y in range(height):
        start = y * (stride + 1)
        previous = _undo_filter(data[start], bytearray(data[start + 1 : start + 1 + stride]), previous)
        rows.append(previous[::CHANNELS])  # black and white: every channel says the same
    return rows


def _undo_filter(kind: int, row: bytearray, above: bytearray) -> bytearray:
    for at in range(len(row)) if kind else ():
        left = row[at - CHANNELS] if at >= CHANNELS else 0
        corner = above[at - CHANNELS] if at >= CHANNELS else 0
        guess = (0, left, above[at], (left + above[at]) // 2, _choose_nearest(left, above[at], corner))[kind]
        row[at] = (row[at] + guess) & 255
    return row


def _choose_nearest(left: int, above: int, corner: int) -> int:
    estimate = left + above - corner
    return min((left, above, corner), key=lambda value: abs(estimate - value))


def measure_millimetres(svg: bytes) -> tuple[float, float]:
    """Width and height of the page."""
    sizes = re.search(rb'width="([0-9.]+)pt" height="([0-9.]+)pt"', svg)
    assert sizes is not None
    return float(sizes[1]) / 72 * 25.4, float(sizes[2]) / 72 * 25.4
