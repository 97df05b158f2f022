"""QR: a phone reads back the very text, from an image that is the same everywhere and made in no time."""

import time
from typing import Any

import pytest
import zxingcpp

from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.ids import PassportVersionId, parse_uuid
from bpc.core.png import NotAnImage, read_rows, write
from bpc.core.qr import MODULE_PIXELS, NotAQrText, QrText, check_qr_png, qr_modules, qr_png, qr_text, read_qr_text
from tests.measuring import Measured, allowed, effort

WHAT = QrText(
    PassportVersionId(parse_uuid("b2221a58-2222-4222-8222-7520cd447e35")), sha256(b"1"), sha256(b"2"), sha256(b"3")
)
TEXT = qr_text(*WHAT)


def read_back(data: bytes, side: int) -> Any:
    rows = read_rows(data, side, side)
    grey = b"".join(bytes(255 * (row[at >> 3] >> (7 - at % 8) & 1) for at in range(side)) for row in rows)
    return zxingcpp.read_barcode(memoryview(grey).cast("B", (side, side)))


@pytest.mark.parametrize("number", range(effort(test=20, shown=500, campaign=5000)))
def test_the_image_is_read_back_as_the_text(number: int) -> None:
    hashes = [sha256(f"{number} {part}".encode()) for part in ("payload", "proof", "receipt")]
    text = qr_text(PassportVersionId(parse_uuid(f"b2221a58-2222-4222-8222-{number:012x}")), *hashes)

    found = read_back(qr_png(text), len(qr_modules(text)) * MODULE_PIXELS)

    assert (found.text, found.ec_level, found.symbology) == (text, "M", zxingcpp.BarcodeFormat.QRCode)


def test_the_code_stands_in_a_quiet_zone_of_four_modules() -> None:
    rows = qr_modules(TEXT)

    light = b"\xff"
    assert len(rows) == len(rows[0]) == 53 + 8
    assert all(row == light * len(row) for row in [*rows[:4], *rows[-4:]])
    assert all(row[:4] == row[-4:] == light * 4 for row in rows)
    assert rows[4][4:11] == bytes(7)  # the finder pattern starts right behind it


def test_the_image_is_the_same_on_every_machine() -> None:
    assert to_hex(sha256(qr_png(TEXT))) == "c36936d900243819c05b4d4c9a7509847faa98ca7bd8f6866d6ac193a088caa9"


def test_an_image_takes_less_than_five_milliseconds(measured: Measured) -> None:
    qr_png(TEXT)
    took = []
    for _ in range(20):
        start = time.perf_counter()
        qr_png(TEXT)
        took.append(time.perf_counter() - start)

    measured("qr-png", best_milliseconds=round(min(took) * 1000, 2), bytes=len(qr_png(TEXT)))
    assert min(took) < allowed(0.005)


def test_a_text_is_read_as_what_it_was_written_from() -> None:
    assert read_qr_text(TEXT) == WHAT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "BPC1",
        TEXT + "|",
        TEXT + "\n",
        TEXT.replace("BPC1", "BPC2"),
        TEXT.replace("|pr=", "|ph="),
        TEXT.replace("b2221a58", "B2221A58"),
        TEXT[:-1] + "B",  # the last character has bits that stand for nothing
        TEXT[:-1],
        TEXT + "A",
        TEXT.replace("|ph=", "|ph=="),
        "|".join(TEXT.split("|")[:4]),
    ],
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(NotAQrText):
        read_qr_text(text)


def test_a_sound_image_of_the_text_is_accepted() -> None:
    check_qr_png(qr_png(TEXT), TEXT)


def test_one_module_of_another_colour_is_seen_though_a_phone_would_read_the_same() -> None:
    rows = [bytearray(row) for row in qr_modules(TEXT)]
    rows[30][30] ^= 0xFF
    changed = write([bytes(row) for row in rows], MODULE_PIXELS)

    assert read_back(changed, 610).text == TEXT
    with pytest.raises(NotAnImage, match="pixel row 300 differs"):
        check_qr_png(changed, TEXT)


def test_the_image_of_another_passport_is_seen() -> None:
    other = qr_text(WHAT.passport_version_id, Digest(bytes(32)), WHAT.proof_root_hash, WHAT.receipt_hash)

    with pytest.raises(NotAnImage):
        check_qr_png(qr_png(other), TEXT)
