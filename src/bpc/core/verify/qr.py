"""Step `qr`: text and image of the QR code are those of this passport.

Pure. The pixels are promised, not how the image is compressed.

Checks:
  1. qr.txt is the text made anew of the receipt: its version's id, the hashes it names, and its own
  2. qr.png is a sound PNG (bpc.core.png lists what that is), and its pixels are those of the code made anew
"""

from bpc.core.qr import check_qr_png, qr_text
from bpc.core.verify.report import Wrong
from bpc.core.verify.structure import Opened


def check_qr(opened: Opened) -> str:
    receipt = opened.receipt
    text = qr_text(
        receipt.passport_version_id,
        receipt.payload_hash,
        receipt.proof_root_hash,
        receipt.hash(),
    )
    if opened.qr_text != text:  # 1
        raise Wrong(f"qr.txt is not the text of this passport, which is {text}")
    check_qr_png(opened.entries["qr.png"], text)  # 2
    return "text and pixels are those of this passport"
