"""Signing a receipt in the transaction that compiles it, as long as signatures come quickly.

Three steps as three jobs take three transactions. Where a signature comes within milliseconds, as from the signer's
local socket, waiting for it costs less than another job. Where signatures come slowly, or one does not come, signing is
a job of its own, which is retried and whose failure is recorded.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from bpc.core.audit.signing import PublicKey, SignatureInvalid, verify_signature
from bpc.core.passport.receipt import Receipt, encode_receipt, read_receipt
from bpc.core.signing_forms import RECEIPT
from bpc.runtime.key_ring import KeyNotHeld, SigningService
from bpc.runtime.logs import get_logger

QUICK_SECONDS: Final = 0.005
REMEMBERED_SIGNATURES: Final = 8
PAUSE_SECONDS: Final = 10.0  # after signatures that came slowly, or one that did not come
PATIENCE_SECONDS: Final = 3.0
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SignedReceipt:
    """A receipt with its signature."""

    receipt: Receipt
    signature: bytes
    encoded: bytes


@dataclass(slots=True)
class QuickSigning:
    """Signs receipts as long as signatures come quickly.

    What the keys take counts, and not how long a busy machine lets us wait; and of that the quickest of the last ones.
    """

    key_ring: SigningService
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED_SIGNATURES))
    _rests_until: float = 0.0

    async def sign(self, receipt_bytes: bytes, public_key: PublicKey | None) -> SignedReceipt | None:
        """The receipt with the signature of this key; None if a job should sign it, for whatever reason."""
        start_seconds = time.monotonic()
        if public_key is None or start_seconds < self._rests_until:
            return None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                signature = await self.key_ring.sign(RECEIPT, receipt_bytes)
            receipt = read_receipt(receipt_bytes)
            verify_signature(public_key, receipt.hash(), signature)
        except (KeyNotHeld, SignatureInvalid):
            return None  # of this one key: the job says what is wrong
        except Exception as error:  # noqa: BLE001 (whatever it is, the job says so and is retried)
            log.warning("signing is left to jobs", seconds=PAUSE_SECONDS, reason=str(error) or type(error).__name__)
            self._rest()
            return None
        seconds = self.key_ring.provider_seconds
        self._seconds.append(time.monotonic() - start_seconds if seconds is None else seconds)
        if len(self._seconds) == REMEMBERED_SIGNATURES and min(self._seconds) > QUICK_SECONDS:
            self._rest()
        return SignedReceipt(receipt, signature, encode_receipt(replace(receipt, signature=signature)))

    def _rest(self) -> None:
        self._seconds.clear()
        self._rests_until = time.monotonic() + PAUSE_SECONDS
