"""Verify: a bundle or a view in, a report of every step out. Nothing is trusted but the bytes and the pinned keys.

Pure. Whatever the bytes are, the answer is a report; its time and memory are bounded by their size and by the limits
of the rule language. A report always has every step, in this order; one that could not run does not hold, and says
what it was missing. `replay` runs only where all others hold.

A bundle (each in its own file, with the checks it consists of):
   1. canonical        structure.py       every entry is in its one form, and so is the file
   2. payload_hash     snapshot.py        the payload is the one the receipt names
   3. snapshot         snapshot.py        so is the snapshot
   4. facts            snapshot.py        every fact has the hash the snapshot names
   5. rules            snapshot.py        rules and tests are those the receipt names
   6. proof_structure  proof.py           the proof is one hash-linked computation of this payload
   7. proof_steps      steps.py           and exactly the one that the rules give for the facts
   8. receipt_hash     signature.py       the receipt is this passport's, with the hash the QR code carries
   9. signature        signature.py       the key signed it; a pinned one, if keys are pinned
  10. qr               qr.py              text and pixels of the QR code are this passport's
  11. events           events.py          the audit chain holds, where there is one
  12. replay           replay.py          compiling again gives the same bytes

A view: view.py lists its steps.

This module never sees the evaluator that compiles; only replay.py does.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from bpc.core.bundle import read_bundle
from bpc.core.errors import Refusal
from bpc.core.verify.events import check_events
from bpc.core.verify.proof import check_proof_structure
from bpc.core.verify.qr import check_qr
from bpc.core.verify.replay import check_replay
from bpc.core.verify.report import Report, Step, not_taken, taken
from bpc.core.verify.signature import Pin, check_receipt_hash, check_signature
from bpc.core.verify.snapshot import check_facts, check_payload_hash, check_rules, check_snapshot
from bpc.core.verify.steps import check_proof_steps
from bpc.core.verify.structure import Opened, check_canonical
from bpc.core.verify.view import verify_view

__all__ = ["STEPS", "Report", "Step", "verify_bundle", "verify_either", "verify_view"]

STEPS: Final = (
    "canonical",
    "payload_hash",
    "snapshot",
    "facts",
    "rules",
    "proof_structure",
    "proof_steps",
    "receipt_hash",
    "signature",
    "qr",
    "events",
    "replay",
)


def verify_bundle(data: bytes, *, pinned: Sequence[Pin] = ()) -> Report:
    """Every step of checking a bundle. With `pinned` keys the manifest's must be one of them, named as they are."""
    try:
        opened = Opened(read_bundle(data))
    except Refusal as refused:
        return _unreadable(refused.says)
    steps = [taken(name, partial(check, opened)) for name, check in _checks(pinned).items()]
    if all(step.ok for step in steps):
        steps.append(taken("replay", partial(check_replay, opened)))
    else:
        steps.append(not_taken("replay", "it runs only where every other step holds"))
    signed = steps[STEPS.index("signature")].ok
    return Report(steps=tuple(steps), issuer="pinned" if pinned and signed else "unpinned")


def verify_either(data: bytes, *, pinned: Sequence[Pin] = ()) -> Report:
    """A view starts as JSON does; anything else is taken for a bundle."""
    return verify_view(data, pinned=pinned) if is_view(data) else verify_bundle(data, pinned=pinned)


def is_view(data: bytes) -> bool:
    return data.startswith(b"{")


def _checks(pinned: Sequence[Pin]) -> Mapping[str, Callable[[Opened], str]]:
    return {
        "canonical": check_canonical,
        "payload_hash": check_payload_hash,
        "snapshot": check_snapshot,
        "facts": check_facts,
        "rules": check_rules,
        "proof_structure": check_proof_structure,
        "proof_steps": check_proof_steps,
        "receipt_hash": check_receipt_hash,
        "signature": lambda opened: check_signature(opened, pinned),
        "qr": check_qr,
        "events": check_events,
    }


def _unreadable(reason: str) -> Report:
    first, *others = STEPS
    steps = (Step(first, ok=False, detail=reason), *(not_taken(name, "the file is not a bundle") for name in others))
    return Report(steps=steps, issuer="unpinned")
