"""QR, BPC-QR-1: what a passport's QR code says.

Pure. The text names the passport version and pins its payload, proof and receipt, so a phone that reads the
code can tell whether the passport it is shown is the one on the battery.
"""

from bpc.core.digest import Digest, base32
from bpc.core.ids import PassportVersionId


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
