"""Verify what one audience sees of a battery, BPC-ITEM-VIEW-1 and BPC-BATCH-VIEW-1.

Pure. A view of a battery holds the view of its batch or of its model for the same audience. Nothing is needed but the
view and the issuer's key.

The steps:
   1. canonical     exactly the members of a view, canonical, each in its one spelling
   2. above         the view of the layer above verifies, and is for the same audience
   3. links         the root pins exactly the receipts and the proofs of the views above; the product is the same
   4. receipt_hash  the receipt is one, and this is its hash
   5. signature     a pinned key signed it; a view contains no key, so this step fails without a pinned one
   6. root          the root has the hash that the receipt names, and is of the receipt's battery and product
   7. completeness  the fields are exactly those whose access set holds the audience or `public`
   8. fields        each has the hash and the audiences that the root names; paths ascend
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bpc.core.audit.signing import SignatureInvalid
from bpc.core.errors import Refusal
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.items.compile_order import LowerLayer
from bpc.core.items.layer_pins import VIEW_VERSIONS_BELOW, LayerPin
from bpc.core.items.receipt import ItemReceipt, read_item_receipt
from bpc.core.verify import (
    CheckFailed,
    NotChecked,
    StepResult,
    VerificationReport,
    format_count,
    run_step,
    skip_step,
)
from bpc.core.verify.artifacts import (
    Pin,
    describe_signature,
    find_pin,
    group_names_by_key,
    require_pinned_key,
    require_same_tenant,
)
from bpc.core.verify.bundle import ViewParts, verify_view
from bpc.core.verify.canonical import (
    LIST,
    OBJECT,
    TEXT,
    VIEW_AUDIENCES,
    ObjectForm,
    Spelling,
    decode_canonical,
    may_see,
    require_form,
)
from bpc.core.verify.item_entries import ITEM_FIELD_FORM, PIN_FORM, get_root_form
from bpc.core.verify.key_step import check_key_of_view

_LAYERS_BY_VIEW: Final[Mapping[str, LowerLayer]] = {name: layer for layer, name in VIEW_VERSIONS_BELOW.items()}
ITEM_VIEW_FORM: Final[ObjectForm] = {
    "above": OBJECT,
    "audience": Spelling(lambda value: value in VIEW_AUDIENCES, "public, interest or authority"),
    "fields": LIST,
    "receipt": OBJECT,
    "root": OBJECT,
    "view_version": TEXT,
}
_MARKS: Final = tuple(f'"view_version":"{name}"}}'.encode() for name in VIEW_VERSIONS_BELOW.values())


def is_item_view(data: bytes) -> bool:
    """Whether these bytes say that they are a view of a battery or a batch."""
    return data.startswith(b"{") and data.endswith(_MARKS)


class ItemViewParts:
    """A view whose members all have their form; `above` is the view of the layer above."""

    def __init__(self, value: Json) -> None:
        view = require_form("the view", value, ITEM_VIEW_FORM)
        layer = _LAYERS_BY_VIEW.get(view["view_version"])
        if layer is None:
            raise CheckFailed(f"the view: `view_version` is not {' or '.join(_LAYERS_BY_VIEW)}")
        self.layer = layer
        self.audience: str = view["audience"]
        self.receipt: ItemReceipt = read_item_receipt(canonical_json.encode_typed(view["receipt"]))
        if self.receipt.signature is None:
            raise CheckFailed("the view's receipt has no `signature`")
        self.root = require_form("the view's root", view["root"], get_root_form(layer))
        for pin in self.root["above"]:
            require_form("a pin of the view's root", pin, PIN_FORM)
        self.fields = [
            require_form(f"field {at} of the view", field, ITEM_FIELD_FORM) for at, field in enumerate(view["fields"])
        ]
        self.above_bytes = canonical_json.encode_typed(view["above"])
        self.above = self._open_above(view["above"])

    def _open_above(self, value: Mapping[str, Any]) -> "ItemViewParts | ViewParts":
        if self.layer == "item" and value.get("view_version") in _LAYERS_BY_VIEW:
            return ItemViewParts(dict(value))
        return ViewParts(self.above_bytes)


def open_item_view(data: bytes) -> ItemViewParts:
    """The parts of a view; `CheckFailed` if it does not have its form."""
    return ItemViewParts(decode_canonical("the view", data))


def verify_item_view(data: bytes, *, pins: Sequence[Pin] = ()) -> VerificationReport:
    """Every step of checking a view of a battery or a batch."""
    try:
        view = open_item_view(data)
    except Refusal as refusal:
        first, *others = ITEM_VIEW_STEPS
        skipped_steps = (skip_step(name, "the view could not be read") for name in others)
        return VerificationReport(
            steps=(StepResult(first, ok=False, detail=refusal.says), *skipped_steps), issuer="unpinned"
        )
    steps = [run_step(name, partial(check, view)) for name, check in _list_checks(pins).items()]
    is_signed = steps[ITEM_VIEW_STEPS.index("signature")].ok and steps[ITEM_VIEW_STEPS.index("above")].ok
    return VerificationReport(steps=tuple(steps), issuer="pinned" if is_signed else "unpinned")


def _list_checks(pins: Sequence[Pin]) -> Mapping[str, Callable[[ItemViewParts], str]]:
    return {
        "canonical": lambda view: f"a view of the layer `{view.layer}` for the audience `{view.audience}`",  # 1
        "above": lambda view: _check_above(view, pins),
        "links": _check_links,
        "receipt_hash": lambda view: f"the receipt is {to_hex(view.receipt.hash())}",  # 4
        "signature": lambda view: _check_signature(view, pins),
        "root": _check_root,
        "completeness": _check_completeness,
        "fields": _check_fields,
    }


def _check_above(view: ItemViewParts, pins: Sequence[Pin]) -> str:
    verify = verify_item_view if isinstance(view.above, ItemViewParts) else verify_view
    report = verify(view.above_bytes, pins=pins)  # 2
    cause = report.cause
    if cause is not None:
        if cause.skipped:
            raise NotChecked(f"the view above, step {cause.name}: {cause.detail}")
        raise CheckFailed(f"the view above, step {cause.name}: {cause.detail}")
    if view.above.audience != view.audience:
        raise CheckFailed(f"the view above is for the audience `{view.above.audience}`")
    return f"the view above passes its {len(report.steps)} steps"


def _list_pins(view: ItemViewParts) -> list[LayerPin]:
    above = view.above
    if isinstance(above, ItemViewParts):
        receipt = above.receipt
        return [
            *_list_pins(above),
            LayerPin("batch", receipt.passport_version_id, receipt.hash(), receipt.proof_root_hash),
        ]
    model = above.receipt
    return [LayerPin("model", model.passport_version_id, model.hash(), model.proof_root_hash)]


def _check_links(view: ItemViewParts) -> str:
    pins = _list_pins(view)
    if view.root["above"] != [pin.to_json() for pin in pins]:  # 3
        raise CheckFailed("the root pins other layers than those whose views stand above it")
    if view.receipt.above_receipt_hash != pins[-1].receipt_hash:
        raise CheckFailed("the receipt names another receipt above it")
    above = view.above
    product = (
        above.root["battery_product"] if isinstance(above, ItemViewParts) else above.root["data"]["battery_product"]
    )
    if view.root["battery_product"] != product:
        raise CheckFailed("the views are of different products")
    if view.receipt.dsl_sha256 != above.receipt.dsl_sha256:
        raise CheckFailed("the layers were compiled with different rules")
    return " and ".join(f"below the {pin.layer} {to_hex(pin.receipt_hash)}" for pin in pins)


def _check_signature(view: ItemViewParts, pins: Sequence[Pin]) -> str:
    if not pins:  # 5
        raise NotChecked("a view carries no key; give the issuer's key to check the signature")
    for key, names in group_names_by_key(pins).items():
        try:
            view.receipt.verify(key)
        except SignatureInvalid:
            continue
        require_pinned_key(key, names, view.receipt)
        pin = find_pin(pins, key, view.receipt)
        require_same_tenant(pin, view.receipt)
        check_key_of_view(pin, view.receipt)
        return describe_signature(view.receipt, pin, is_pinned=True)
    raise CheckFailed("none of the keys you trust signed this receipt")


def _check_root(view: ItemViewParts) -> str:
    root, receipt = view.root, view.receipt
    if len(root["fields"]) != len(root["access"]):  # 6
        raise CheckFailed("the root does not have as many audiences as fields")
    if sha256(canonical_json.encode_typed(dict(root))) != receipt.proof_root_hash:
        raise CheckFailed("the root does not have the hash that the receipt names")
    if root["subject_id"] != str(receipt.subject_id):
        raise CheckFailed("the root is of another battery than the receipt")
    if root["battery_product"]["battery_product_id"] != str(receipt.battery_product_id):
        raise CheckFailed("the root is of another product than the receipt")
    return f"the root of {format_count(len(root['fields']), 'field')} is the one the receipt names"


def _check_completeness(view: ItemViewParts) -> str:
    expected = [at for at, access in enumerate(view.root["access"]) if may_see(access, view.audience)]
    actual = [field["id"] for field in view.fields]
    if actual != expected:  # 7
        differing = sorted(set(expected) ^ set(actual)) or actual
        raise CheckFailed(f"field {differing[0]} is missing, in excess or out of order for `{view.audience}`")
    return f"{format_count(len(actual), 'field')} for the audience `{view.audience}`, and all are here"


def _check_fields(view: ItemViewParts) -> str:
    root = view.root
    for field in view.fields:  # 8
        at = field["id"]
        if at >= len(root["fields"]) or to_hex(sha256(canonical_json.encode_typed(dict(field)))) != root["fields"][at]:
            raise CheckFailed(f"field {at}, `{field['path']}`, does not have the hash that the root names")
        if at >= len(root["access"]) or field["access"] != root["access"][at]:
            raise CheckFailed(f"field {at}, `{field['path']}`, does not have the audiences that the root names")
    paths = [field["path"] for field in view.fields]
    if paths != sorted(set(paths)):
        raise CheckFailed("the paths of the fields do not ascend")
    return "each has the hash and the audiences that the root names"


ITEM_VIEW_STEPS: Final = tuple(_list_checks(()))
