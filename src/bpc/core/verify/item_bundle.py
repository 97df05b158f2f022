"""Verify a battery: its bundle in, a report of every step out. Nothing is trusted but the bytes and the pinned keys.

Pure. The bundle above (the batch's or the model's) is verified in full first, with the same keys.

The steps, and the file that lists the checks of each:
   1. canonical        item_entries.py  every entry is in its one form
   2. above            below            the bundle of the layer above verifies
   3. links            item_links.py    the battery lies below exactly these layers, with the same rules
   4. payload_hash     item_proof.py    the payload is the one the receipt names
   5. snapshot         item_proof.py    the snapshot is the one the receipt names, and lists these facts
   6. proof_structure  item_proof.py    the proof is of this payload, and reads what the upper proofs hold
   7. proof_steps      item_steps.py    and exactly the computation that the rules give
   8. receipt_hash     item_proof.py    the receipt is this battery's
   9. signature        below            the key signed it; a pinned key, if keys are pinned, valid then
  10. replay           below            compiling again gives the same bytes

Only `replay` loads the evaluator that compiles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from bpc.core.audit.signing import parse_public_key
from bpc.core.errors import Refusal
from bpc.core.items.bundle import ABOVE_ENTRY, is_item_bundle
from bpc.core.passport.bundle import read_archive
from bpc.core.tlog.policy import LogPolicy
from bpc.core.verify import CheckFailed, NotChecked, StepResult, VerificationReport, run_step, skip_step
from bpc.core.verify.artifacts import (
    Pin,
    describe_signature,
    find_pin,
    group_names_by_key,
    require_pinned_key,
    require_same_tenant,
)
from bpc.core.verify.bundle import verify_bundle, verify_bundle_or_view
from bpc.core.verify.item_entries import OpenedItem
from bpc.core.verify.item_links import check_links
from bpc.core.verify.item_proof import (
    check_item_payload_hash,
    check_item_receipt,
    check_item_snapshot,
    check_item_structure,
)
from bpc.core.verify.item_steps import check_item_steps
from bpc.core.verify.item_view import is_item_view, verify_item_view
from bpc.core.verify.key_step import check_key_of_view
from bpc.core.verify.status_step import NO_QUESTION, StatusQuestion


def verify_anything(
    data: bytes,
    *,
    pins: Sequence[Pin] = (),
    policy: LogPolicy | None = None,
    question: StatusQuestion = NO_QUESTION,
    require_log: bool = False,
    require_status: bool = False,
    require_pin: bool = False,
) -> VerificationReport:
    """Verify a bundle or a view, of a product or of a battery: the bytes say which it is."""
    if is_item_view(data):
        report = verify_item_view(data, pins=pins)
        report = _require_log(report) if require_log else report
    elif _holds_item(data):
        report = verify_item_bundle(data, pins=pins, policy=policy, require_log=require_log, require_pin=require_pin)
    else:
        return verify_bundle_or_view(
            data,
            pins=pins,
            policy=policy,
            question=question,
            require_log=require_log,
            require_status=require_status,
            require_pin=require_pin,
        )
    return _require_status(report) if require_status else report


def _require_status(report: VerificationReport) -> VerificationReport:
    """Add the step that fails: no status list speaks of single batteries."""
    missing = StepResult("status", ok=False, detail="the passport of one battery names no status list")
    return replace(report, steps=(*report.steps, missing))


def _require_log(report: VerificationReport) -> VerificationReport:
    """Add the step that fails: a view of a battery carries no log proof, not even that of its model."""
    missing = StepResult(
        "log", ok=False, detail="not checked, and you require it: the view of a battery has no log proof"
    )
    return replace(report, steps=(*report.steps, missing))


def _holds_item(data: bytes) -> bool:
    try:
        return is_item_bundle(read_archive(data))
    except Refusal:
        return False


def verify_item_bundle(
    data: bytes,
    *,
    pins: Sequence[Pin] = (),
    policy: LogPolicy | None = None,
    require_log: bool = False,
    require_pin: bool = False,
) -> VerificationReport:
    """Run every step on the bundle of a battery or a batch. `policy` and `require_log` are about the model's log."""
    try:
        item = OpenedItem(data)
    except Refusal as refusal:
        first, *others = ITEM_STEPS
        skipped_steps = (skip_step(name, "the file could not be read") for name in others)
        return VerificationReport(
            steps=(StepResult(first, ok=False, detail=refusal.says), *skipped_steps), issuer="unpinned"
        )
    checks = _list_checks(pins, policy, require_log, require_pin)
    steps: list[StepResult] = []
    for name, check in checks.items():
        failed_names = {step.name for step in steps if not step.ok}
        failed_need = next((need for need in _NEEDS.get(name, ()) if need in failed_names), None)
        steps.append(
            run_step(name, partial(check, item)) if failed_need is None else skip_step(name, _WAITS[failed_need])
        )
    if all(step.ok for step in steps):
        steps.append(run_step("replay", partial(_check_replay, item)))
    else:
        steps.append(skip_step("replay", "replay runs only if every other step passes"))
    is_signed = steps[ITEM_STEPS.index("signature")].ok and steps[ITEM_STEPS.index("above")].ok
    return VerificationReport(steps=tuple(steps), issuer="pinned" if pins and is_signed else "unpinned")


# What the layers above say is read only if they verify and belong to the battery.
_NEEDS: Final[Mapping[str, Sequence[str]]] = {
    "links": ("above",),
    "snapshot": ("above",),
    "proof_structure": ("above",),
    "proof_steps": ("above", "links"),
}
_WAITS: Final = {"above": "the bundle above does not verify", "links": "the layers do not belong together"}


def _list_checks(
    pins: Sequence[Pin], policy: LogPolicy | None = None, require_log: bool = False, require_pin: bool = False
) -> Mapping[str, Callable[[OpenedItem], str]]:
    return {
        "canonical": lambda item: f"{len(item.entries)} entries, each in its one form",
        "above": lambda item: _check_above(item, pins, policy, require_log, require_pin),
        "links": check_links,
        "payload_hash": check_item_payload_hash,
        "snapshot": check_item_snapshot,
        "proof_structure": check_item_structure,
        "proof_steps": check_item_steps,
        "receipt_hash": check_item_receipt,
        "signature": lambda item: _check_signature(item, pins, require_pin=require_pin),
    }


def _check_above(
    item: OpenedItem, pins: Sequence[Pin], policy: LogPolicy | None, require_log: bool, require_pin: bool
) -> str:
    verify = verify_item_bundle if isinstance(item.above, OpenedItem) else verify_bundle
    report = verify(
        item.entries[ABOVE_ENTRY], pins=pins, policy=policy, require_log=require_log, require_pin=require_pin
    )
    cause = report.cause
    if cause is not None:
        raise CheckFailed(f"{ABOVE_ENTRY}, step {cause.name}: {cause.detail}")
    name = "batch" if isinstance(item.above, OpenedItem) else "model"
    return f"the bundle of the {name} passes its {len(report.steps)} steps"


def _check_signature(item: OpenedItem, pins: Sequence[Pin], *, require_pin: bool) -> str:
    manifest, receipt = item.manifest, item.receipt
    if manifest.signing_key_id != receipt.signing_key_id:
        raise CheckFailed(
            f"the manifest names the key `{manifest.signing_key_id}`, the receipt `{receipt.signing_key_id}`"
        )
    key = parse_public_key(manifest.public_key)
    pin = find_pin(pins, key, receipt)
    if pins:
        require_pinned_key(key, group_names_by_key(pins).get(key), receipt)
        require_same_tenant(pin, receipt)
    receipt.verify(key)
    check_key_of_view(pin, receipt)
    if require_pin and not pins:
        raise NotChecked("no key is pinned, so anybody may have signed it; give the issuer's key")
    return describe_signature(receipt, pin, is_pinned=bool(pins))


def _check_replay(item: OpenedItem) -> str:
    from bpc.core.items.replay import replay_item  # noqa: PLC0415 (loads the compiler only if all else passes)

    replay_item(item.entries)
    return "compiling again gives the same payload, proof, snapshot and receipt, byte for byte"


ITEM_STEPS: Final = (*_list_checks(()), "replay")
