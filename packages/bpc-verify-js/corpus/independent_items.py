"""Check views and bundles of batteries and batches with nothing of bpc: written from the page on their formats.

    python independent_items.py FOLDER HONEST

It prints {"name": true or false, …}: whether everything holds that a browser can check.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

from independent_check import (
    HASHES,
    HEX32,
    NAMES,
    Wrong,
    check_bundle,
    check_view,
    encode,
    from_base64,
    is_audiences,
    is_hash,
    is_id,
    is_natural,
    is_product,
    is_signed,
    is_time,
    open_envelope,
    read,
    read_lines,
    read_policy,
    require,
    sha,
    split_archive,
)

ENTRIES = {"above.zip", "facts.jsonl", "manifest.json", "payload.json", "proof.json", "receipt.json", "snapshot.json"}
ROOT = {"above", "access", "battery_product", "facts_hash", "fields", "layer", "steps_hash", "subject_id", "verdict"}
IDS = (
    "battery_product_id",
    "passport_version_id",
    "rule_package_version_id",
    "snapshot_id",
    "subject_id",
    "tenant_id",
)
PAYLOAD = {"access", "battery_product", "compliance", "fields", "issued_at", "layer", "passport_version_id"}
FACT_LAYERS = {"Item": "item", "Reading": "item", "ReadingSeries": "item", "Batch": "batch"}
MARKS = tuple(f'"view_version":"BPC-{layer}-VIEW-1"}}'.encode() for layer in ("ITEM", "BATCH"))


class Key:
    """The key that is trusted, its name, and since when it is valid."""

    def __init__(self, document: dict[str, str]) -> None:
        self.public_key = base64.b64decode(document["public_key"])
        self.name = document["key_id"]
        self.valid_from = document["valid_from"]


def check_item_receipt(receipt: Any, layer: str, key: Key) -> str:
    hashes = (*HASHES, "above_receipt_hash")
    members = {*hashes, *IDS, *NAMES, "issued_at", "receipt_version", "signature", "signature_alg"}
    require(isinstance(receipt, dict) and set(receipt) == members, "receipt")
    require(all(isinstance(text, str) for text in receipt.values()), "receipt")
    require(all(is_hash(receipt[name]) for name in hashes) and all(is_id(receipt[name]) for name in IDS), "receipt")
    require(all(0 < len(receipt[name]) <= 200 and "\0" not in receipt[name] for name in NAMES), "receipt")
    require(receipt["receipt_version"] == f"BPC-{layer.upper()}-RECEIPT-1", "receipt")
    require(receipt["signature_alg"] == "ED25519" and is_time(receipt["issued_at"]), "receipt")
    signature = from_base64(receipt["signature"])
    receipt_hash = sha(encode({name: text for name, text in receipt.items() if name != "signature"}))
    require(len(signature) == 64 and is_signed(key.public_key, bytes.fromhex(receipt_hash), signature), "signature")
    require(receipt["signing_key_id"] == key.name and receipt["issued_at"] >= key.valid_from, "key")
    return receipt_hash


def check_item_root(root: Any, layer: str) -> None:
    require(isinstance(root, dict) and set(root) == ROOT and root["layer"] == layer, "root")
    require(is_hash(root["facts_hash"]) and is_hash(root["steps_hash"]) and is_id(root["subject_id"]), "root")
    require(root["verdict"] in {"PASS", "FAIL"} and is_product(root["battery_product"]), "root")
    require(isinstance(root["fields"], list) and all(map(is_hash, root["fields"])), "root")
    require(isinstance(root["access"], list) and all(map(is_audiences, root["access"])), "root")
    require(isinstance(root["above"], list), "root")


def check_item_field(field: Any) -> None:
    require(isinstance(field, dict) and set(field) == {"access", "id", "op", "path", "salt", "type", "value"}, "field")
    require(is_natural(field["id"]) and field["op"] == "field" and is_audiences(field["access"]), "field")
    require(isinstance(field["path"], str) and isinstance(field["type"], str), "field")
    require(isinstance(field["salt"], str) and HEX32.fullmatch(field["salt"]), "field")


def make_pin(layer: str, receipt: dict[str, str]) -> dict[str, str]:
    unsigned = {name: text for name, text in receipt.items() if name != "signature"}
    return {
        "layer": layer,
        "passport_version_id": receipt["passport_version_id"],
        "proof_root_hash": receipt["proof_root_hash"],
        "receipt_hash": sha(encode(unsigned)),
    }


def check_item_view(view: Any, key: Key) -> list[dict[str, str]]:
    """The pins that a layer below this view must have."""
    require(isinstance(view, dict), "view")
    require(set(view) == {"above", "audience", "fields", "receipt", "root", "view_version"}, "members")
    layer = {"BPC-ITEM-VIEW-1": "item", "BPC-BATCH-VIEW-1": "batch"}[view["view_version"]]
    above, receipt, root, fields = (view[name] for name in ("above", "receipt", "root", "fields"))
    if layer == "item" and above["view_version"] == "BPC-BATCH-VIEW-1":
        pins, product = check_item_view(above, key), above["root"]["battery_product"]
    else:
        check_view(encode(above), key.public_key, key.name)
        pins, product = [make_pin("model", above["receipt"])], above["root"]["data"]["battery_product"]
    check_item_receipt(receipt, layer, key)
    check_item_root(root, layer)
    require(view["audience"] == above["audience"] and view["audience"] in {"public", "interest", "authority"})
    require(root["above"] == pins and receipt["above_receipt_hash"] == pins[-1]["receipt_hash"], "pins")
    require(root["battery_product"] == product, "product")
    require(receipt["dsl_sha256"] == above["receipt"]["dsl_sha256"], "rules")
    require(sha(encode(root)) == receipt["proof_root_hash"] and len(root["fields"]) == len(root["access"]), "root")
    require(root["subject_id"] == receipt["subject_id"], "battery")
    require(product["battery_product_id"] == receipt["battery_product_id"], "product")
    wanted = [at for at, names in enumerate(root["access"]) if {view["audience"], "public"} & set(names)]
    for field in fields:
        check_item_field(field)
    require([field["id"] for field in fields] == wanted, "completeness")
    for field in fields:
        require(sha(encode(field)) == root["fields"][field["id"]], "field hash")
        require(field["access"] == root["access"][field["id"]], "field access")
    paths = [field["path"] for field in fields]
    require(paths == sorted(set(paths)), "order")
    return [*pins, make_pin(layer, receipt)]


class Layer:
    """What a layer below reads of one that was checked."""

    def __init__(self, name: str, entries: dict[str, bytes]) -> None:
        self.name = name
        self.receipt, self.payload, self.proof = (
            read(entries[f"{part}.json"]) for part in ("receipt", "payload", "proof")
        )

    def find(self, data: dict[str, Any]) -> tuple[dict[str, Any], str]:
        if self.name == "model":
            node = self.proof["nodes"][data["node"]]
            return node["data"], node["hash"]
        part = self.proof["fields" if "path" in data else "steps"][data["node"]]
        return part if "path" in data else part["data"], sha(encode(part))


def check_item_bundle(entries: dict[str, bytes], key: Key, policy: dict[str, Any]) -> list[Layer]:
    require(set(entries) == ENTRIES, "entries")
    manifest, receipt, snapshot = (read(entries[f"{name}.json"]) for name in ("manifest", "receipt", "snapshot"))
    layer = {"BPC-ITEM-BUNDLE-1": "item", "BPC-BATCH-BUNDLE-1": "batch"}[manifest["bundle_version"]]
    above = split_archive(entries["above.zip"])
    if layer == "item" and "above.zip" in above:
        layers = check_item_bundle(above, key, policy)
        require(layers[-1].name == "batch", "layer")
    else:
        check_bundle(entries["above.zip"], key.public_key, key.name, policy)
        layers = [Layer("model", above)]
    check_item_receipt(receipt, layer, key)
    expected = {
        "bundle_version": manifest["bundle_version"],
        "passport_version_id": receipt["passport_version_id"],
        "public_key": base64.b64encode(key.public_key).decode(),
        "signing_key_id": key.name,
    }
    require(manifest == expected, "manifest")
    for each in layers:
        same = all(each.receipt[name] == receipt[name] for name in ("dsl_sha256", "tests_sha256"))
        require(same and each.payload["battery_product"]["battery_product_id"] == receipt["battery_product_id"])
    require(sha(entries["payload.json"]) == receipt["payload_hash"], "payload")
    require(sha(entries["snapshot.json"]) == receipt["snapshot_hash"], "snapshot")
    check_item_facts(entries, snapshot, receipt, {layer, "batch"} if len(layers) == 1 else {layer})
    current = Layer(layer, entries)
    check_item_proof(current, layers, sha(entries["facts.jsonl"]))
    return [*layers, current]


def check_item_facts(entries: dict[str, bytes], snapshot: Any, receipt: dict[str, str], own: set[str]) -> None:
    require(set(snapshot) == {"facts", "snapshot_id", "snapshot_version"}, "snapshot")
    require(snapshot["snapshot_version"] == "BPC-SNAPSHOT-1", "snapshot")
    require(snapshot["snapshot_id"] == receipt["snapshot_id"], "snapshot")
    refs = []
    for fact in read_lines(entries["facts.jsonl"]):
        require(isinstance(fact, dict) and set(fact) == {"fact_key", "fact_type", "payload", "schema_version"}, "fact")
        require(fact["fact_type"] == "Blinding" or FACT_LAYERS[fact["fact_type"]] in own, "layer of a fact")
        digest = sha(encode(fact["payload"]))
        refs.append({"fact_key": fact["fact_key"], "fact_type": fact["fact_type"], "payload_hash": digest})
    keys = [(ref["fact_type"], ref["fact_key"]) for ref in refs]
    require(snapshot["facts"] == refs and keys == sorted(set(keys)), "facts")


def check_item_proof(layer: Layer, above: list[Layer], facts_hash: str) -> None:
    proof, payload, receipt = layer.proof, layer.payload, layer.receipt
    root, fields, steps = proof["root"], proof["fields"], proof["steps"]
    version = f"BPC-{layer.name.upper()}"
    require(set(proof) == {"fields", "proof_version", "root", "root_hash", "salt", "steps"}, "proof")
    require(set(payload) == PAYLOAD | {"above", "payload_version", "salt", "subject_id", "verdict"}, "payload")
    require(proof["proof_version"] == f"{version}-PROOF-1" and payload["payload_version"] == f"{version}-PAYLOAD-1")
    require(HEX32.fullmatch(proof["salt"]) and HEX32.fullmatch(payload["salt"]) and payload["layer"] == layer.name)
    check_item_root(root, layer.name)
    require(root["above"] == payload["above"] == [make_pin(each.name, each.receipt) for each in above], "pins")
    require(receipt["above_receipt_hash"] == root["above"][-1]["receipt_hash"], "receipt above")
    require(root["battery_product"] == payload["battery_product"] == above[0].payload["battery_product"], "product")
    require(root["verdict"] == payload["verdict"] and root["facts_hash"] == facts_hash, "root")
    require(sha(encode(root)) == proof["root_hash"] == receipt["proof_root_hash"], "root hash")
    require(root["steps_hash"] == sha(encode({"salt": proof["salt"], "steps": steps})), "steps")
    for name in ("subject_id", "passport_version_id", "issued_at"):
        require(payload[name] == receipt[name], name)
    require(root["subject_id"] == receipt["subject_id"], "battery")
    nested: dict[str, Any] = {}
    for at, field in enumerate(fields):
        check_item_field(field)
        require(field["id"] == at and sha(encode(field)) == root["fields"][at], "field")
        *folders, name = field["path"].split(".")
        target = nested
        for folder in folders:
            target = target.setdefault(folder, {})
        target[name] = field["value"]
    access = {field["path"]: field["access"] for field in fields}
    require(len(root["fields"]) == len(fields) and list(access) == sorted(access), "fields")
    require(nested == payload["fields"] and access == payload["access"], "payload fields")
    require(root["access"] == list(access.values()), "access")
    by_name = {each.name: each for each in above}
    for at, step in enumerate(steps):
        require(set(step) == {"children", "data", "type"} and all(child < at for child in step["children"]), "step")
        data = step["data"]
        if step["type"] == "LAYER_GET" and data.get("op") != "requirements":
            node, node_hash = by_name[data["layer"]].find(data)
            require(node_hash == data["hash"], "read")
            require(all(node.get(name) == data.get(name) for name in ("path", "name") if name in data), "read")


def check_item_file(data: bytes, key: Key, policy: dict[str, Any]) -> bool:
    try:
        if data.endswith(MARKS):
            check_item_view(read(data), key)
        elif data.startswith(b"{"):
            check_view(open_envelope(data), key.public_key, key.name)
        else:
            check_item_bundle(split_archive(data), key, policy)
    except (Wrong, LookupError, TypeError, AttributeError, ValueError):
        return False
    return True


if __name__ == "__main__":
    folder, honest = Path(sys.argv[1]), Path(sys.argv[2])
    [trusted] = json.loads((honest / "keys.json").read_text())["keys"]
    trusted_policy = read_policy((honest / "policy.txt").read_text())
    names = json.loads((folder / "items.json").read_text())
    print(
        json.dumps(
            {name: check_item_file((folder / name).read_bytes(), Key(trusted), trusted_policy) for name in names}
        )
    )
