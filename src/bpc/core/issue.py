"""Issue: a compiled passport and a key in, the signed receipt, the QR code and the bundle out.

Pure. The same passport and key give the same bytes: Ed25519 signatures and our pictures are deterministic.
"""

from typing import NamedTuple

from bpc.core.bundle import Bundle, bundle_of, qr_text_of
from bpc.core.compile import Compiled
from bpc.core.compile_input import CompileInput
from bpc.core.qr import qr_png
from bpc.core.receipt import read_receipt, signed
from bpc.core.signing import Signer


class Issued(NamedTuple):
    receipt: bytes
    bundle: Bundle


def issue(given: CompileInput, compiled: Compiled, signer: Signer, *, events: bytes | None = None) -> Issued:
    """Sign what was compiled from `given`, and bundle everything, with its audit chain where there is one."""
    receipt = signed(compiled.receipt, signer)
    bundle = bundle_of(
        payload=compiled.payload,
        proof=compiled.proof,
        receipt=receipt,
        snapshot=compiled.snapshot,
        facts=compiled.facts,
        rules=given.rules,
        tests=given.tests,
        public_key=signer.public_key,
        qr_png=qr_png(qr_text_of(read_receipt(receipt))),
        events=events,
    )
    return Issued(receipt, bundle)
