"""A forger who has the issuer's key: he changes anything in a battery's bundle and makes hashes and signatures anew.

So nothing but the change itself can be found.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bpc.core.facts.snapshot import encode_snapshot, order_facts, read_facts
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import from_hex, sha256, to_hex
from bpc.core.items.bundle import read_item_bundle
from bpc.core.items.receipt import read_item_receipt, sign_item_receipt
from bpc.core.passport.bundle import write_archive
from tests.core.items.sample_layers import SIGNER


@dataclass
class ItemDraft:
    """What the forger may change. `receipt` are members that replace those of the receipt."""

    payload: Any
    proof: Any
    facts: bytes
    above: bytes
    receipt: dict[str, Any]


def forge_item(bundle: bytes, change: Callable[[ItemDraft], None]) -> bytes:
    """The bundle with a change, and everything that follows from it made anew."""
    entries = dict(read_item_bundle(bundle).entries)
    draft = ItemDraft(
        payload=json.loads(entries["payload.json"]),
        proof=json.loads(entries["proof.json"]),
        facts=entries["facts.jsonl"],
        above=entries["above.zip"],
        receipt={},
    )
    change(draft)
    receipt = read_item_receipt(entries["receipt.json"])
    facts = order_facts(read_facts(draft.facts))
    root = draft.proof["root"]
    root["fields"] = [hash_json(field) for field in draft.proof["fields"]]
    root["steps_hash"] = hash_json({"salt": draft.proof["salt"], "steps": draft.proof["steps"]})
    root["facts_hash"] = to_hex(sha256(draft.facts))
    draft.proof["root_hash"] = hash_json(root)
    snapshot = encode_snapshot(receipt.snapshot_id, facts.refs)
    payload = canonical_json.encode_typed(draft.payload)
    receipt = replace(
        receipt,
        **{
            "payload_hash": sha256(payload),
            "proof_root_hash": from_hex(draft.proof["root_hash"]),
            "snapshot_hash": sha256(snapshot),
            **draft.receipt,
        },
    )
    entries |= {
        "above.zip": draft.above,
        "facts.jsonl": draft.facts,
        "payload.json": payload,
        "proof.json": canonical_json.encode_typed(draft.proof),
        "receipt.json": sign_item_receipt(receipt.encode(), SIGNER),
        "snapshot.json": snapshot,
    }
    return write_archive(entries)


def hash_json(value: Any) -> str:
    return to_hex(sha256(canonical_json.encode_typed(value)))


def set_pins(draft: ItemDraft, pins: list[Any]) -> None:
    """Let payload and proof pin these layers."""
    draft.payload["above"] = draft.proof["root"]["above"] = pins
    draft.receipt["above_receipt_hash"] = from_hex(pins[-1]["receipt_hash"])


def set_field(draft: ItemDraft, path: str, value: Any) -> None:
    """Let payload and proof give a field this value."""
    next(field for field in draft.proof["fields"] if field["path"] == path)["value"] = value
    *folders, name = path.split(".")
    target = draft.payload["fields"]
    for folder in folders:
        target = target[folder]
    target[name] = value
