"""Steps of a battery's bundle that look at its own artifacts: payload, snapshot, facts, proof, receipt.

Pure, and without any evaluator.

Checks:
  `payload_hash`
    1. payload.json has the hash the receipt names
  `snapshot`
    2. snapshot.json has the hash and the id the receipt names
    3. it lists exactly the facts of facts.jsonl, each with its hash, and only facts of this layer and its secret
  `proof_structure`
    4. each field has the hash that the root names for it, its place as its id, and paths ascend
    5. the steps have the hash that the root names, and children come before their parents
    6. the root has the hash that the proof and the receipt name, and names this battery, product and facts
    7. payload and proof have the same fields, audiences, pins and verdict
    8. every value of an upper layer that is read is the node at that path, or of that name, in the proof of that layer
  `receipt_hash`
    9. receipt, payload and manifest are of one passport version of one battery, issued at one time
"""

from collections.abc import Mapping
from typing import Any

from bpc.core.facts.snapshot import encode_snapshot, order_facts
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.timestamps import format_time
from bpc.core.items.layer_pins import list_own_layers
from bpc.core.items.layer_proof import hash_step
from bpc.core.language.layers import get_fact_layer
from bpc.core.passport.payload import BLINDING_FACT_TYPE, nest_fields
from bpc.core.verify import CheckFailed, format_count
from bpc.core.verify.canonical import OpenedBundle
from bpc.core.verify.item_entries import OpenedItem
from bpc.core.verify.item_links import list_pins


def check_item_payload_hash(item: OpenedItem) -> str:
    return _require_hash(item, "payload.json", item.receipt.payload_hash)  # 1


def check_item_snapshot(item: OpenedItem) -> str:
    says = _require_hash(item, "snapshot.json", item.receipt.snapshot_hash)  # 2
    if item.snapshot["snapshot_id"] != str(item.receipt.snapshot_id):
        raise CheckFailed("snapshot.json is of another snapshot than the receipt names")
    if encode_snapshot(item.receipt.snapshot_id, order_facts(item.facts).refs) != item.entries["snapshot.json"]:  # 3
        raise CheckFailed("snapshot.json does not list exactly the facts of facts.jsonl")
    own_layers = list_own_layers(item.layer, list_pins(item))
    for fact in item.facts:
        if fact.fact_type != BLINDING_FACT_TYPE and get_fact_layer(fact.fact_type) not in own_layers:
            raise CheckFailed(f"fact `{fact.fact_key}` of type {fact.fact_type} belongs to another layer")
    return f"{says}; {format_count(len(item.facts), 'fact')}"


def check_item_structure(item: OpenedItem) -> str:
    hashes = [_hash(field) for field in item.proof_fields]
    if item.root["fields"] != hashes:  # 4
        at = next(
            (at for at, pair in enumerate(zip(hashes, item.root["fields"], strict=False)) if pair[0] != pair[1]), 0
        )
        raise CheckFailed(f"field {at} of the proof does not have the hash that the root names")
    paths = [field["path"] for field in item.proof_fields]
    if paths != sorted(set(paths)) or [field["id"] for field in item.proof_fields] != list(range(len(paths))):
        raise CheckFailed("the fields of the proof are not in the order of their paths, or an id is not its place")
    _check_steps(item)
    _check_root(item)
    _check_payload(item)
    reads = sum(1 for step in item.steps if _check_layer_read(item, step))  # 8
    return (
        f"{format_count(len(paths), 'field')}, {format_count(len(item.steps), 'step')}, {reads} reads of upper layers"
    )


def _check_steps(item: OpenedItem) -> None:
    if _hash({"salt": item.proof["salt"], "steps": item.proof["steps"]}) != item.root["steps_hash"]:  # 5
        raise CheckFailed("the steps of the proof do not have the hash that the root names")
    for at, step in enumerate(item.steps):
        if not all(child < at for child in step["children"]):
            raise CheckFailed(f"step {at} of the proof has a child that does not come before it")


def _check_root(item: OpenedItem) -> None:
    root = item.root
    root_hash = _hash(root)
    if not root_hash == item.proof["root_hash"] == to_hex(item.receipt.proof_root_hash):  # 6
        raise CheckFailed(f"the root of the proof has the hash {root_hash}, and proof or receipt name another")
    if root["subject_id"] != str(item.receipt.subject_id):
        raise CheckFailed("the proof is of another battery than the receipt")
    if root["facts_hash"] != to_hex(sha256(item.entries["facts.jsonl"])):
        raise CheckFailed("facts.jsonl does not have the hash that the proof's root names")
    if root["access"] != [field["access"] for field in item.proof_fields]:
        raise CheckFailed("the root of the proof names other audiences than the fields")


def _check_payload(item: OpenedItem) -> None:
    payload, root = item.payload, item.root
    for name in ("above", "battery_product", "verdict"):  # 7
        if payload[name] != root[name]:
            raise CheckFailed(f"payload and proof differ in `{name}`")
    if payload["access"] != {field["path"]: field["access"] for field in item.proof_fields}:
        raise CheckFailed("payload and proof differ in the audiences of fields")
    values = {field["path"]: field["value"] for field in item.proof_fields}
    if canonical_json.encode_typed(nest_fields(values)) != canonical_json.encode_typed(payload["fields"]):
        raise CheckFailed("payload and proof differ in the values of fields")


def _check_layer_read(item: OpenedItem, step: Mapping[str, Any]) -> bool:
    data = step["data"]
    if step["type"] != "LAYER_GET" or data.get("op") == "requirements":  # which the step `proof_steps` follows
        return False
    layers: list[OpenedItem | OpenedBundle] = [
        item.model,
        *([item.above] if isinstance(item.above, OpenedItem) else []),
    ]
    names = ["model", "batch"][: len(layers)]
    if data.get("layer") not in names:
        raise CheckFailed(f"a step reads the layer `{data.get('layer')}`, which is not above this battery")
    node, node_hash = _find_node(layers[names.index(data["layer"])], data)
    says = {name: node.get(name) for name in ("path", "name") if name in data}
    if node_hash != data.get("hash") or any(data[name] != value for name, value in says.items()):
        raise CheckFailed(
            f"`{data.get('path') or data.get('name')}` is read from node {data.get('node')} of the {data['layer']}'s "
            "proof, which is another"
        )
    return True


def _find_node(layer: OpenedItem | OpenedBundle, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The data and the hash of the node that a step reads."""
    try:
        if isinstance(layer, OpenedBundle):
            proof: Any = layer.proof
            node = proof["nodes"][data["node"]]
            return node["data"], node["hash"]
        if "path" in data:
            field = layer.proof_fields[data["node"]]
            return field, _hash(field)
        step = layer.steps[data["node"]]
        return step["data"], hash_step(step)
    except (IndexError, KeyError, TypeError):
        raise CheckFailed("a step reads a node of an upper layer that does not exist") from None


def check_item_receipt(item: OpenedItem) -> str:
    receipt, payload = item.receipt, item.payload
    pairs = {  # 9
        "subject_id": (payload["subject_id"], str(receipt.subject_id)),
        "passport_version_id": (payload["passport_version_id"], str(receipt.passport_version_id)),
        "issued_at": (payload["issued_at"], format_time(receipt.issued_at)),
        "battery_product_id": (payload["battery_product"]["battery_product_id"], str(receipt.battery_product_id)),
    }
    for name, (payload_value, receipt_value) in pairs.items():
        if payload_value != receipt_value:
            raise CheckFailed(f"payload.json has the {name} {payload_value}, and the receipt {receipt_value}")
    if item.manifest.passport_version_id != receipt.passport_version_id:
        raise CheckFailed("manifest.json is of another passport version than the receipt")
    return f"the receipt is {to_hex(receipt.hash())}"


def _require_hash(item: OpenedItem, entry: str, expected: bytes) -> str:
    actual = sha256(item.entries[entry])
    if actual != expected:
        raise CheckFailed(f"{entry} has the hash {to_hex(actual)}, and the receipt names {expected.hex()}")
    return f"{entry} is {to_hex(actual)}"


def _hash(value: Mapping[str, Any]) -> str:
    return to_hex(sha256(canonical_json.encode_typed(dict(value))))
