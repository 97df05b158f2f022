"""Verify: a bundle or a view in, a report of every step out. Nothing is trusted but the bytes and the pinned keys.

Pure. Whatever the bytes are, the answer is a report. Its time and memory are bounded by their size and by the limits of
the rule language. A report always has every step, in this order. A step that could not run counts as failed, and says
what it was missing. `replay` runs only if all other steps pass.

The steps of a bundle, and the file that lists the checks of each:
   1. canonical        canonical.py        every entry is in its one form, and so is the file
   2. payload_hash     artifacts.py        the payload is the one the receipt names
   3. snapshot         artifacts.py        the snapshot is the one the receipt names
   4. facts            artifacts.py        every fact has the hash the snapshot names
   5. rules            artifacts.py        rules and tests are those the receipt names
   6. proof_structure  proof_structure.py  the proof is one hash-linked computation of this payload
   7. proof_steps      proof_steps.py      and exactly the computation that the rules give for the facts
   8. receipt_hash     artifacts.py        the receipt is this passport's, with the hash in the QR code
   9. signature        artifacts.py        the key signed it; a pinned key, if keys are pinned
  10. qr               artifacts.py        text and pixels of the QR code are this passport's
  11. events           artifacts.py        the audit chain holds, if there is one
  12. log              log_step.py         it is in the transparency log, and witnesses saw it; needs a policy
  13. key              key_step.py         the key was valid and not compromised when it signed
  14. status           status_step.py      what the issuer says of it since; needs a status list
  15. replay           below               compiling again gives the same bytes

The steps of a view, BPC-VIEW-1 or -2, for which nothing is needed but the view and the issuer's key:
   1. canonical     exactly the members of a view, canonical, each in its one spelling
   2. receipt_hash  the receipt is one, and this is its hash
   3. signature     a pinned key signed it, and if that key has a name, the receipt uses it; it was valid, was not
                    compromised (as in step `key` of a bundle), and is of the receipt's tenant; a view contains no key,
                    so this step fails without a pinned one
   4. root          as many children as access sets, the id says how many, and the root's hash is the receipt's
   5. completeness  the fields are exactly those whose access set holds the audience or `public`, by id
   6. fields        each is of its form, has the access the root names and the hash the root names; paths ascend
   7. product       the battery product is the one the receipt names
   8. log           as for a bundle; the envelope BPC-VIEW-2 carries the proof
   9. status        as for a bundle; the envelope carries the statement that names its place

Only `check_replay` loads the evaluator that compiles; every other step works without it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

from bpc.core.audit.signing import SignatureInvalid
from bpc.core.errors import Invalid, Refusal
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import from_hex, to_hex
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.proof import hash_node
from bpc.core.passport.receipt import Receipt
from bpc.core.passport.view_envelope import ViewEnvelope, open_view
from bpc.core.tlog.policy import LogPolicy
from bpc.core.verify import (
    CheckFailed,
    Issuer,
    NotChecked,
    StepResult,
    VerificationReport,
    artifacts,
    canonical,
    format_count,
    run_step,
    skip_step,
)
from bpc.core.verify.artifacts import Pin
from bpc.core.verify.canonical import (
    COUNT,
    HASH,
    LIST,
    OBJECT,
    LoggedEntry,
    ObjectForm,
    OpenedBundle,
    Spelling,
    require_form,
)
from bpc.core.verify.key_step import check_key, check_key_of_view
from bpc.core.verify.log_step import check_log, check_logged_receipt
from bpc.core.verify.proof_steps import check_proof_steps
from bpc.core.verify.proof_structure import FIELD_FORM, ROOT_FORM, check_proof_structure
from bpc.core.verify.status_step import NO_QUESTION, StatusCheck, StatusQuestion, StatusSubject, TrustedKeys

CLAIM: Final = (
    "A view proves that these values are in the signed passport and that nothing meant for you is missing. "
    "It also shows how many other fields exist, who may see them and their order by name, but not their values."
)

VIEW_FORM: Final[ObjectForm] = {
    "audience": Spelling(lambda value: value in canonical.VIEW_AUDIENCES, "public, interest or authority"),
    "fields": LIST,
    "receipt": OBJECT,
    "root": OBJECT,
    "view_version": canonical.exactly("BPC-VIEW-1"),
}
VIEW_ROOT_FORM: Final[ObjectForm] = {
    "children": Spelling(lambda value: isinstance(value, list) and all(map(HASH.accepts, value)), "a list of hashes"),
    "data": OBJECT,
    "id": COUNT,
}
VIEW_FIELD_FORM: Final[ObjectForm] = {"child": HASH, "data": OBJECT, "id": COUNT}


def verify_bundle(
    data: bytes,
    *,
    pins: Sequence[Pin] = (),
    policy: LogPolicy | None = None,
    question: StatusQuestion = NO_QUESTION,
    require_log: bool = False,
    require_status: bool = False,
    require_pin: bool = False,
) -> VerificationReport:
    """Run every step on a bundle. With `pins` keys, the manifest's key must be one of them, under the same name.

    With a `policy`, the log of the bundle must be one of it, with its quorum of witnesses. `question` holds what the
    issuer says of the status. With `require_pin`, a bundle does not pass without pinned keys.
    """
    try:
        bundle = OpenedBundle(read_bundle(data))
    except Refusal as refusal:
        return _report_unreadable(STEPS, refusal.says, "the file is not a bundle")
    checks = _list_checks(pins, policy, require_log, require_pin)
    steps = [run_step(name, partial(check, bundle)) for name, check in checks.items()]
    status = StatusCheck(partial(_open_status, bundle, pins), question, is_required=require_status)
    steps.append(run_step("status", status.run))
    if all(step.ok for step in steps):
        steps.append(run_step("replay", partial(check_replay, bundle)))
    else:
        steps.append(skip_step("replay", "replay runs only if every other step passes"))
    is_signed = steps[STEPS.index("signature")].ok
    issuer: Issuer = "pinned" if pins and is_signed else "unpinned"
    return VerificationReport(steps=tuple(steps), issuer=issuer, status=status.verdict)


def verify_bundle_or_view(
    data: bytes,
    *,
    pins: Sequence[Pin] = (),
    policy: LogPolicy | None = None,
    question: StatusQuestion = NO_QUESTION,
    require_log: bool = False,
    require_status: bool = False,
    require_pin: bool = False,
) -> VerificationReport:
    """Verify a view or a bundle: a view starts like JSON, anything else is taken for a bundle."""
    verify = verify_view if is_view(data) else partial(verify_bundle, require_pin=require_pin)
    return verify(
        data, pins=pins, policy=policy, question=question, require_log=require_log, require_status=require_status
    )


def _open_status(bundle: OpenedBundle, pins: Sequence[Pin]) -> StatusSubject:
    keys = TrustedKeys.choose(pins, bundle.manifest.public_key, bundle.receipt)
    return StatusSubject(bundle.receipt, bundle.statement, keys)


def is_view(data: bytes) -> bool:
    return data.startswith(b"{")


def check_replay(bundle: OpenedBundle) -> str:
    from bpc.core.passport.compile import replay_passport  # noqa: PLC0415 (loads the compiler only if all else passes)

    replay_passport(bundle.entries)
    return "compiling again gives the same payload, proof and receipt, byte for byte"


def _list_checks(
    pins: Sequence[Pin], policy: LogPolicy | None = None, require_log: bool = False, require_pin: bool = False
) -> Mapping[str, Callable[[OpenedBundle], str]]:
    return {
        "canonical": canonical.check_canonical,
        "payload_hash": artifacts.check_payload_hash,
        "snapshot": artifacts.check_snapshot,
        "facts": artifacts.check_facts,
        "rules": artifacts.check_rules,
        "proof_structure": check_proof_structure,
        "proof_steps": check_proof_steps,
        "receipt_hash": artifacts.check_receipt_hash,
        "signature": lambda bundle: artifacts.check_signature(bundle, pins, require_pin=require_pin),
        "qr": artifacts.check_qr,
        "events": artifacts.check_events,
        "log": lambda bundle: check_log(bundle, policy, is_required=require_log),
        "key": lambda bundle: check_key(bundle, pins, policy),
    }


STEPS: Final = (*_list_checks(()), "status", "replay")


def _report_unreadable(names: Sequence[str], reason: str, unread: str) -> VerificationReport:
    first, *others = names
    steps = (StepResult(first, ok=False, detail=reason), *(skip_step(name, unread) for name in others))
    return VerificationReport(steps=steps, issuer="unpinned")


class ViewParts:
    """A view whose members all have their form."""

    def __init__(self, data: bytes) -> None:
        view = require_form("the view", canonical.decode_canonical("the view", data), VIEW_FORM)
        self.audience: str = view["audience"]
        self.receipt: Receipt = canonical.read_signed_receipt(
            "the view's receipt", canonical_json.encode_typed(view["receipt"])
        )
        self.root = require_form("the view's root", view["root"], VIEW_ROOT_FORM)
        require_form("the data of the view's root", self.root["data"], ROOT_FORM)
        self.fields = [_parse_field(at, value) for at, value in enumerate(view["fields"])]


def verify_view(
    data: bytes,
    *,
    pins: Sequence[Pin] = (),
    policy: LogPolicy | None = None,
    question: StatusQuestion = NO_QUESTION,
    require_log: bool = False,
    require_status: bool = False,
) -> VerificationReport:
    """Every step of checking a view, with or without an envelope."""
    try:
        envelope = open_view(data)
        view = ViewParts(envelope.view)
    except Invalid as error:
        return _report_unreadable(VIEW_STEPS, error.says, "the view could not be read")
    checks = _list_view_checks(pins, envelope, policy, require_log)
    steps = [run_step(name, partial(check, view)) for name, check in checks.items()]
    subject = StatusSubject(view.receipt, envelope.statement, TrustedKeys.choose(pins, None, view.receipt))
    status = StatusCheck(lambda: subject, question, is_required=require_status)
    steps.append(run_step("status", status.run))
    is_signed = steps[VIEW_STEPS.index("signature")].ok
    issuer: Issuer = "pinned" if is_signed else "unpinned"
    return VerificationReport(steps=tuple(steps), issuer=issuer, status=status.verdict)


def _list_view_checks(
    pins: Sequence[Pin], envelope: ViewEnvelope, policy: LogPolicy | None = None, require_log: bool = False
) -> Mapping[str, Callable[[ViewParts], str]]:
    proof, opening = envelope.log_proof, envelope.opening
    logged_entry = None if proof is None or opening is None else LoggedEntry(proof, opening)
    return {
        "canonical": lambda view: f"a view for the audience `{view.audience}`",  # 1, done by reading it
        "receipt_hash": lambda view: f"the receipt is {to_hex(view.receipt.hash())}",  # 2
        "signature": lambda view: _check_signature(view, pins, logged_entry, policy),
        "root": _check_root,
        "completeness": _check_completeness,
        "fields": _check_fields,
        "product": _check_product,
        "log": lambda view: check_logged_receipt(
            view.receipt, logged_entry, policy, is_required=require_log, what="view"
        ),
    }


def _check_signature(
    view: ViewParts, pins: Sequence[Pin], logged_entry: LoggedEntry | None, policy: LogPolicy | None
) -> str:
    if not pins:  # 3
        raise NotChecked("a view carries no key; give the issuer's key to check the signature")
    for key, names in artifacts.group_names_by_key(pins).items():
        try:
            view.receipt.verify(key)
        except SignatureInvalid:
            continue
        artifacts.require_pinned_key(key, names, view.receipt)
        pin = artifacts.find_pin(pins, key, view.receipt)
        artifacts.require_same_tenant(pin, view.receipt)
        check_key_of_view(pin, view.receipt, logged_entry, policy)
        return artifacts.describe_signature(view.receipt, pin, is_pinned=True)
    raise CheckFailed("none of the keys you trust signed this receipt")


def _check_root(view: ViewParts) -> str:
    root = view.root
    if not root["id"] == len(root["children"]) == len(root["data"]["access"]):  # 4
        raise CheckFailed("the root's id, its children and its access sets do not agree on the number of fields")
    root_hash = hash_node(root["id"], "OP", root["data"], map(from_hex, root["children"]))
    if root_hash != view.receipt.proof_root_hash:
        raise CheckFailed(f"the root has the hash {to_hex(root_hash)}, and the receipt names another")
    return f"the root of {format_count(root['id'], 'field')} is the one the receipt names"


def _check_completeness(view: ViewParts) -> str:
    access = view.root["data"]["access"]
    expected_ids = [at for at, audiences in enumerate(access) if canonical.may_see(audiences, view.audience)]
    actual_ids = [field["id"] for field in view.fields]
    missing = sorted(set(expected_ids) - set(actual_ids))  # 5
    if missing:
        raise CheckFailed(f"field {missing[0]} is for the audience `{view.audience}` and is missing")
    extra = sorted(set(actual_ids) - set(expected_ids))
    if extra:
        raise CheckFailed(f"field {extra[0]} is not for the audience `{view.audience}`")
    if actual_ids != expected_ids:
        raise CheckFailed("the fields are not in the order of their ids, or one is there twice")
    total = format_count(len(access), "field")
    return f"of {total} {len(actual_ids):,} are for the audience `{view.audience}`, and all are here"


def _check_fields(view: ViewParts) -> str:
    for field in view.fields:  # 6
        _check_field(view.root, field)
    for before, after in pairwise(field["data"]["path"] for field in view.fields):
        if before >= after:
            raise CheckFailed(f"the fields are not in order: `{after}` is out of order or repeated")
    return "each has the hash and the audiences that the root names"


def _check_field(root: Mapping[str, Any], field: Mapping[str, Any]) -> None:
    at, data = field["id"], field["data"]
    if at >= len(root["children"]) or at >= len(root["data"]["access"]):
        raise CheckFailed(f"field {at}, `{data['path']}`, is not one of the root's")
    if data["access"] != root["data"]["access"][at]:
        raise CheckFailed(f"field {at}, `{data['path']}`, does not have the audiences that the root names")
    if to_hex(hash_node(at, "OP", data, [from_hex(field["child"])])) != root["children"][at]:
        raise CheckFailed(f"field {at}, `{data['path']}`, does not have the hash that the root names")


def _check_product(view: ViewParts) -> str:
    product = view.root["data"]["battery_product"]
    if product["battery_product_id"] != str(view.receipt.battery_product_id):  # 7
        raise CheckFailed("the view shows another battery product than the receipt names")
    return f"`{product['name']}`, SKU `{product['sku']}`"


def _parse_field(at: int, value: canonical_json.Json) -> Mapping[str, Any]:
    field = require_form(f"field {at} of the view", value, VIEW_FIELD_FORM)
    require_form(f"the data of field {at} of the view", field["data"], FIELD_FORM)
    return field


VIEW_STEPS: Final = (*_list_view_checks((), open_view(b"")), "status")
