"""Checking a view, BPC-VIEW-1: with nothing but the view and the issuer's key.

Pure. Whatever the bytes are, the answer is a report with every step, in this order.

   1. canonical     exactly the members of a view, canonical, each in its one spelling
   2. receipt_hash  the receipt is one, and this is its hash
   3. signature     a pinned key signed it, under the name the receipt gives it where the pinned one has a name; a view
                    carries no key, so without a pinned one this does not hold
   4. root          as many children as access sets, the id says how many, and the root's hash is the receipt's
   5. completeness  the fields are exactly those whose access set holds the audience or `public`, by id
   6. fields        each is of its form, has the access the root names and the hash the root names; paths ascend
   7. product       the battery product is the one the receipt names
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

from bpc.core import canon
from bpc.core.digest import from_hex, to_hex
from bpc.core.proof import node_hash
from bpc.core.receipt import Receipt
from bpc.core.signing import SignatureInvalid
from bpc.core.verify.forms import AUDIENCES, HASH, LIST, OBJECT, Form, Spelling, exactly, formed, is_count
from bpc.core.verify.proof import FIELD, ROOT
from bpc.core.verify.report import NotChecked, Report, Step, Wrong, counted, not_taken, taken
from bpc.core.verify.signature import Pin, names_of, refuse_others, signed_by
from bpc.core.verify.structure import decoded, signed_receipt

VIEW_STEPS: Final = ("canonical", "receipt_hash", "signature", "root", "completeness", "fields", "product")
CLAIM: Final = (
    "A view proves that these values are in the signed passport and that nothing meant for you is missing. "
    "Of the rest it shows how many fields there are, who may see each, and where their names sort; not their values."
)

VIEW: Final[Form] = {
    "audience": Spelling(lambda value: value in AUDIENCES, "public, interest or authority"),
    "fields": LIST,
    "receipt": OBJECT,
    "root": OBJECT,
    "view_version": exactly("BPC-VIEW-1"),
}
VIEW_ROOT: Final[Form] = {
    "children": Spelling(lambda value: isinstance(value, list) and all(map(HASH.accepts, value)), "a list of hashes"),
    "data": OBJECT,
    "id": Spelling(is_count, "a whole number"),
}
VIEW_FIELD: Final[Form] = {"child": HASH, "data": OBJECT, "id": Spelling(is_count, "a whole number")}


class ViewParts:
    """A view whose members all have their form."""

    def __init__(self, data: bytes) -> None:
        view = formed("the view", decoded("the view", data), VIEW)
        self.audience: str = view["audience"]
        self.receipt: Receipt = signed_receipt("the view's receipt", canon.encode_typed(view["receipt"]))
        self.root = formed("the view's root", view["root"], VIEW_ROOT)
        formed("the data of the view's root", self.root["data"], ROOT)
        self.fields = [_field(at, value) for at, value in enumerate(view["fields"])]


def verify_view(data: bytes, *, pinned: Sequence[Pin] = ()) -> Report:
    """Every step of checking a view."""
    try:
        view = ViewParts(data)
    except Wrong as wrong:
        first, *others = VIEW_STEPS
        unread = [not_taken(name, "the view could not be read") for name in others]
        return Report(steps=(Step(first, ok=False, detail=wrong.says), *unread), issuer="unpinned")
    steps = [taken(name, partial(check, view)) for name, check in _checks(pinned).items()]
    signed = steps[VIEW_STEPS.index("signature")].ok
    return Report(steps=tuple(steps), issuer="pinned" if signed else "unpinned")


def _checks(pinned: Sequence[Pin]) -> Mapping[str, Callable[[ViewParts], str]]:
    return {
        "canonical": lambda view: f"a view for the audience `{view.audience}`",  # 1, done by reading it
        "receipt_hash": lambda view: f"the receipt is {to_hex(view.receipt.hash())}",  # 2
        "signature": lambda view: _check_signature(view, pinned),
        "root": _check_root,
        "completeness": _check_completeness,
        "fields": _check_fields,
        "product": _check_product,
    }


def _check_signature(view: ViewParts, pinned: Sequence[Pin]) -> str:
    if not pinned:  # 3
        raise NotChecked("a view carries no key; give the issuer's to check its signature")
    for key, names in names_of(pinned).items():
        try:
            view.receipt.verify(key)
        except SignatureInvalid:
            continue
        refuse_others(key, names, view.receipt)
        return signed_by(view.receipt, pinned=True)
    raise Wrong("none of the keys you trust signed this receipt")


def _check_root(view: ViewParts) -> str:
    root = view.root
    if not root["id"] == len(root["children"]) == len(root["data"]["access"]):  # 4
        raise Wrong("the root's id, its children and its access sets do not agree on the number of fields")
    found = node_hash(root["id"], "OP", root["data"], map(from_hex, root["children"]))
    if found != view.receipt.proof_root_hash:
        raise Wrong(f"the root has the hash {to_hex(found)}, and the receipt names another")
    return f"the root of {counted(root['id'], 'field')} is the one the receipt names"


def _check_completeness(view: ViewParts) -> str:
    access = view.root["data"]["access"]
    wanted = [at for at, audiences in enumerate(access) if view.audience in audiences or "public" in audiences]
    found = [field["id"] for field in view.fields]
    missing = sorted(set(wanted) - set(found))  # 5
    if missing:
        raise Wrong(f"field {missing[0]} is for the audience `{view.audience}` and is missing")
    extra = sorted(set(found) - set(wanted))
    if extra:
        raise Wrong(f"field {extra[0]} is not for the audience `{view.audience}`")
    if found != wanted:
        raise Wrong("the fields are not in the order of their ids, or one is there twice")
    return f"of {counted(len(access), 'field')} {len(found):,} are for the audience `{view.audience}`, and all are here"


def _check_fields(view: ViewParts) -> str:
    for field in view.fields:  # 6
        _check_field(view.root, field)
    for before, after in pairwise(field["data"]["path"] for field in view.fields):
        if before >= after:
            raise Wrong(f"the fields are not in order: `{after}` stands too late or twice")
    return "each has the hash and the audiences that the root names"


def _check_field(root: Mapping[str, Any], field: Mapping[str, Any]) -> None:
    at, data = field["id"], field["data"]
    if at >= len(root["children"]) or at >= len(root["data"]["access"]):
        raise Wrong(f"field {at}, `{data['path']}`, is not one of the root's")
    if data["access"] != root["data"]["access"][at]:
        raise Wrong(f"field {at}, `{data['path']}`, does not have the audiences that the root names")
    if to_hex(node_hash(at, "OP", data, [from_hex(field["child"])])) != root["children"][at]:
        raise Wrong(f"field {at}, `{data['path']}`, does not have the hash that the root names")


def _check_product(view: ViewParts) -> str:
    product = view.root["data"]["battery_product"]
    if product["battery_product_id"] != str(view.receipt.battery_product_id):  # 7
        raise Wrong("the view shows another battery product than the receipt names")
    return f"`{product['name']}`, SKU `{product['sku']}`"


def _field(at: int, value: canon.Json) -> Mapping[str, Any]:
    field = formed(f"field {at} of the view", value, VIEW_FIELD)
    formed(f"the data of field {at} of the view", field["data"], FIELD)
    return field
