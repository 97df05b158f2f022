"""QR, BPC-QR-1: what a passport's QR code says, and the image of it.

Pure. The text names the passport version and pins its payload, proof and receipt, so a phone that reads the
code can tell whether the passport it is shown is the one on the battery.

    ids and hashes ── qr_text ──► text ── qr_png ──► PNG (level M, 10 pixels a module, four modules of quiet zone)
                                    └── read_qr_text ──► the same four, or NotAQrText

The image is the same on every machine (bpc.core.png). Which modules are dark is zxing-cpp's choice among the many codes
that say the same; the vectors in the tests pin it, so that an upgrade that chooses otherwise does not pass unseen.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import zxingcpp

from bpc.core import png
from bpc.core.digest import DIGEST_BYTES, Digest, NotBase32, base32, from_base32
from bpc.core.errors import Invalid
from bpc.core.ids import NotAnId, PassportVersionId, parse_uuid

MODULE_PIXELS: Final = 10
QUIET_MODULES: Final = 4  # ISO/IEC 18004 9.1
LEVEL: Final = "M"

_TAGS: Final = ("pv=", "ph=", "pr=", "rh=")
_WHITE: Final = b"\xff"


class QrText(NamedTuple):
    """What a QR code pins."""

    passport_version_id: PassportVersionId
    payload_hash: Digest
    proof_root_hash: Digest
    receipt_hash: Digest


class NotAQrText(Invalid):
    """A text that `qr_text` does not write."""

    def __init__(self) -> None:
        super().__init__("the QR text is not of the form `BPC1|pv=…|ph=…|pr=…|rh=…`")


def qr_text(
    passport_version_id: PassportVersionId,
    payload_hash: Digest,
    proof_root_hash: Digest,
    receipt_hash: Digest,
) -> str:
    return (
        f"BPC1|pv={passport_version_id}"
        f"|ph={base32(payload_hash)}|pr={base32(proof_root_hash)}|rh={base32(receipt_hash)}"
    )


def read_qr_text(text: str) -> QrText:
    """What the text says; `NotAQrText` unless `qr_text` writes it exactly so."""
    version, *parts = text.split("|")
    if version != "BPC1" or len(parts) != len(_TAGS):
        raise NotAQrText
    if not all(part.startswith(tag) for part, tag in zip(parts, _TAGS, strict=True)):
        raise NotAQrText
    try:
        passport_version_id = PassportVersionId(parse_uuid(parts[0][3:]))
        hashes = [Digest(from_base32(part[3:])) for part in parts[1:]]
    except (NotAnId, NotBase32):
        raise NotAQrText from None
    if any(len(found) != DIGEST_BYTES for found in hashes):
        raise NotAQrText
    return QrText(passport_version_id, *hashes)


def qr_modules(text: str) -> Sequence[bytes]:
    """The rows of modules with the quiet zone, a byte each: 0 is dark, 255 is light."""
    code = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode, ec_level=LEVEL)
    image: Any = code.to_image(scale=1, add_quiet_zones=False)  # a buffer, which its type does not say
    pixels = memoryview(image)
    side, flat = len(pixels), pixels.tobytes()
    margin = _WHITE * QUIET_MODULES
    rows = [margin + flat[at : at + side] + margin for at in range(0, len(flat), side)]
    quiet = [_WHITE * (side + 2 * QUIET_MODULES)] * QUIET_MODULES
    return [*quiet, *rows, *quiet]


def qr_png(text: str) -> bytes:
    """The image of the QR code that says `text`."""
    return png.write(qr_modules(text), MODULE_PIXELS)


def check_qr_png(data: bytes, text: str) -> None:
    """Raise `NotAnImage` unless `data` is a sound PNG of exactly the pixels of the code that says `text`.

    How it is compressed does not matter.
    """
    modules = qr_modules(text)
    side = len(modules) * MODULE_PIXELS
    rows = png.read_rows(data, side, side)
    for number, (found, made) in enumerate(zip(rows, png.packed_rows(modules, MODULE_PIXELS), strict=True)):
        if found != made:
            raise png.NotAnImage(f"does not show the code of this passport: pixel row {number} differs")
