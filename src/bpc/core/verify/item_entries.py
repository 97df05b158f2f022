"""Step `canonical` of a battery's bundle: every entry in its one form, and the bundle above it.

Pure. A bundle of a battery holds that of its batch or of its model (`above.zip`), and so on up to the model's.

Checks:
  1. the file is an archive in its one form, with exactly the entries of such a bundle
  2. payload, proof, receipt, snapshot and manifest are canonical, each of exactly its members in their one spelling
  3. the versions of all of them are of one layer
  4. facts.jsonl is lines of canonical facts, in order
"""

from collections.abc import Mapping
from typing import Any, Final

from bpc.core.errors import Refusal
from bpc.core.facts.snapshot import read_facts
from bpc.core.formats.canonical_json import Json
from bpc.core.items.bundle import ABOVE_ENTRY, is_item_bundle, read_item_bundle, read_item_manifest
from bpc.core.items.compile_order import LowerLayer
from bpc.core.items.layer_pins import PAYLOAD_VERSIONS_BELOW, PROOF_VERSIONS_BELOW
from bpc.core.items.receipt import ItemReceipt, read_item_receipt
from bpc.core.passport.bundle import read_archive, read_bundle
from bpc.core.verify import CheckFailed
from bpc.core.verify.canonical import (
    ACCESS,
    COMPLIANCE,
    HASH,
    ID,
    LIST,
    OBJECT,
    PRODUCT,
    SALT,
    SNAPSHOT_FORM,
    TEXT,
    TIME,
    ObjectForm,
    OpenedBundle,
    Spelling,
    decode_canonical,
    exactly,
    is_audience_list,
    is_count,
    require_form,
)

PIN_FORM: Final[ObjectForm] = {
    "layer": TEXT,
    "passport_version_id": ID,
    "proof_root_hash": HASH,
    "receipt_hash": HASH,
}
VERDICT: Final = Spelling(lambda value: value in {"PASS", "FAIL"}, "`PASS` or `FAIL`")
_HASHES: Final = Spelling(lambda value: isinstance(value, list) and all(map(HASH.accepts, value)), "a list of hashes")
ITEM_FIELD_FORM: Final[ObjectForm] = {
    "access": Spelling(is_audience_list, "a list of audiences in order"),
    "id": Spelling(is_count, "a whole number"),
    "op": exactly("field"),
    "path": TEXT,
    "salt": SALT,
    "type": TEXT,
    "value": Spelling(lambda _: True, "anything"),
}
_STEP_FORM: Final[ObjectForm] = {
    "children": Spelling(lambda value: isinstance(value, list) and all(map(is_count, value)), "a list of ids"),
    "data": OBJECT,
    "type": TEXT,
}


def get_root_form(layer: LowerLayer) -> ObjectForm:
    """The form of the root of a layer's proof."""
    return {
        "above": LIST,
        "access": Spelling(
            lambda value: isinstance(value, list) and all(map(is_audience_list, value)), "the fields' audiences"
        ),
        "battery_product": PRODUCT,
        "facts_hash": HASH,
        "fields": _HASHES,
        "layer": exactly(layer),
        "steps_hash": HASH,
        "subject_id": ID,
        "verdict": VERDICT,
    }


def _get_payload_form(layer: LowerLayer) -> ObjectForm:
    return {
        "above": LIST,
        "access": ACCESS,
        "battery_product": PRODUCT,
        "compliance": COMPLIANCE,
        "fields": OBJECT,
        "issued_at": TIME,
        "layer": exactly(layer),
        "passport_version_id": ID,
        "payload_version": exactly(PAYLOAD_VERSIONS_BELOW[layer]),
        "salt": SALT,
        "subject_id": ID,
        "verdict": VERDICT,
    }


class OpenedItem:
    """A bundle of a battery or a batch whose entries all have their form. Nothing in it is checked yet.

    `above` is the bundle above: the batch's as an `OpenedItem`, or the model's as an `OpenedBundle`.
    """

    def __init__(self, data: bytes) -> None:
        bundle = read_item_bundle(data)  # 1
        self.entries = bundle.entries
        self.manifest = read_item_manifest(self.entries["manifest.json"])  # 2
        self.layer = self.manifest.layer
        self.receipt = _read_signed_receipt(self.entries["receipt.json"])
        if self.receipt.layer != self.layer:  # 3
            raise CheckFailed("receipt.json and manifest.json are of different layers")
        self.payload = _read_entry("payload.json", self.entries, _get_payload_form(self.layer))
        self.proof = _read_entry("proof.json", self.entries, _get_proof_form(self.layer))
        self.root = require_form("proof.json: the root", self.proof["root"], get_root_form(self.layer))
        self.proof_fields = _read_list("proof.json: field", self.proof["fields"], ITEM_FIELD_FORM)
        self.steps = _read_list("proof.json: step", self.proof["steps"], _STEP_FORM)
        for where, pins in (("payload.json", self.payload["above"]), ("proof.json: the root", self.root["above"])):
            _read_list(f"{where}: pin", pins, PIN_FORM)
        self.snapshot = _read_entry("snapshot.json", self.entries, SNAPSHOT_FORM)
        self.facts = read_facts(self.entries["facts.jsonl"])  # 4
        self.above = open_above(self.entries[ABOVE_ENTRY], self.layer)

    @property
    def model(self) -> OpenedBundle:
        """The bundle of the model, directly above or above the batch."""
        return self.above.model if isinstance(self.above, OpenedItem) else self.above


def open_above(data: bytes, layer: LowerLayer) -> OpenedItem | OpenedBundle:
    """The bundle above one of this layer. Only a model lies above a batch, so no bundle nests deeper than that."""
    try:
        if layer == "item" and is_item_bundle(read_archive(data)):
            return OpenedItem(data)
        return OpenedBundle(read_bundle(data))
    except Refusal as refusal:
        raise CheckFailed(f"{ABOVE_ENTRY}: {refusal.says}") from None


def _get_proof_form(layer: LowerLayer) -> ObjectForm:
    return {
        "fields": LIST,
        "proof_version": exactly(PROOF_VERSIONS_BELOW[layer]),
        "root": OBJECT,
        "root_hash": HASH,
        "salt": SALT,
        "steps": LIST,
    }


def _read_entry(name: str, entries: Mapping[str, bytes], form: ObjectForm) -> Mapping[str, Any]:
    return require_form(name, decode_canonical(name, entries[name]), form)


def _read_list(where: str, values: list[Json], form: ObjectForm) -> list[Mapping[str, Any]]:
    return [require_form(f"{where} {at}", value, form) for at, value in enumerate(values)]


def _read_signed_receipt(data: bytes) -> ItemReceipt:
    receipt = read_item_receipt(data)
    if receipt.signature is None:
        raise CheckFailed("receipt.json has no `signature`")
    return receipt
