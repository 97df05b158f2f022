"""Make good and bad views and bundles of batteries and batches, of the honest ones beside this file.

    python make_item_corpus.py FOLDER

It writes the files, and items.json: {"name": true or false}. It needs nothing of bpc.
"""

import base64
import copy
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from make_corpus import (
    HONEST,
    ISSUER,
    STRANGER,
    alter,
    change_at,
    digest,
    encode,
    iterate_leaves,
    read_archive,
    sign,
    write_archive,
)

VIEWS = ("item-public", "item-interest", "item-authority", "item-in-batch-public", "batch-public")
BUNDLES = ("item", "item-in-batch", "batch")
SOMEBODY = "99999999-0000-4000-8000-000000000009"


def read_view(name: str) -> Any:
    return json.loads((HONEST / f"view-{name}.json").read_bytes())


def sign_again(view: Any) -> None:
    """What an issuer would sign who means it: the root's hash in a receipt of its own."""
    view["receipt"]["proof_root_hash"] = digest(view["root"])
    sign(view["receipt"], ISSUER)


def list_item_views() -> Iterator[tuple[str, bytes, bool]]:
    for name in VIEWS:
        data = (HONEST / f"view-{name}.json").read_bytes()
        yield f"view-{name}", data, True
        yield f"view-{name}-cut", data[:-1], False
        yield f"view-{name}-line", data + b"\n", False
    for name in ("item-public", "item-in-batch-public"):
        view = read_view(name)
        for path in iterate_leaves(view):
            if path[:2] == ("above", "fields") and path[2] > 0:  # the corpus of models has them
                continue
            label = ".".join(map(str, path))
            yield f"view-{name}-altered-{label}", encode(change_at(view, path, alter)), False
            if path[0] == "receipt" and path[-1] != "signature":
                forged = change_at(view, path, alter)
                sign(forged["receipt"], STRANGER)
                yield f"view-{name}-forged-{label}", encode(forged), False
        yield from list_view_changes(name, view)
    yield from list_view_spellings()


def list_view_changes(name: str, view: Any) -> Iterator[tuple[str, bytes, bool]]:
    other = read_view("other-model-public")
    changes: dict[str, Callable[[Any], Any]] = {
        "field-left-out": lambda each: each["fields"].pop(),
        "field-twice": lambda each: each["fields"].append(each["fields"][-1]),
        "fields-reversed": lambda each: each["fields"].reverse(),
        "no-fields": lambda each: each["fields"].clear(),
        "field-added-to-the-root": lambda each: each["root"]["fields"].append("ab" * 32),
        "access-added": lambda each: each["root"]["access"].append(["public"]),
        "pin-left-out": lambda each: each["root"]["above"].pop(),
        "pin-twice": lambda each: each["root"]["above"].append(each["root"]["above"][0]),
        "pin-with-more": lambda each: each["root"]["above"][0].update(more="x"),
        "no-signature": lambda each: each["receipt"].pop("signature"),
        "no-above": lambda each: each.pop("above"),
        "above-empty": lambda each: each.update(above={}),
        "above-of-another-model": lambda each: each.update(above=other),
        "above-is-itself": lambda each: each.update(above=copy.deepcopy(each)),
        "another-audience": lambda each: each.update(audience="interest"),
        "unknown-member": lambda each: each.update(more="x"),
        "unknown-field-member": lambda each: each["fields"][0].update(more="x"),
        "another-version": lambda each: each.update(view_version="BPC-VIEW-1"),
        "id-large": lambda each: each["fields"][0].update(id=10**30),
        "id-negative": lambda each: each["fields"][0].update(id=-1),
        "id-true": lambda each: each["fields"][0].update(id=True),
        "verdict-of-another-word": lambda each: each["root"].update(verdict="GOOD"),
    }
    for label, change in changes.items():
        changed = copy.deepcopy(view)
        change(changed)
        yield f"view-{name}-changed-{label}", encode(changed), False
    signed: dict[str, Callable[[Any], Any]] = {
        "another-key-name": lambda each: each["receipt"].update(signing_key_id="somebody-else"),
        "another-battery": lambda each: each["root"].update(subject_id=SOMEBODY),
        "another-product": lambda each: each["root"]["battery_product"].update(battery_product_id=SOMEBODY),
        "another-product-name": lambda each: each["root"]["battery_product"].update(name="Another"),
        "another-pin": lambda each: each["root"]["above"][0].update(passport_version_id=SOMEBODY),
        "another-receipt-above": lambda each: each["receipt"].update(above_receipt_hash="ab" * 32),
        "other-rules": lambda each: each["receipt"].update(dsl_sha256="ab" * 32),
        "another-above": lambda each: each.update(above=other),
        "a-field-less": lambda each: (each["root"]["fields"].pop(0), each["root"]["access"].pop(0)),
        "before-the-key": lambda each: each["receipt"].update(issued_at="2026-12-31T23:58:00.000000Z"),
    }
    for label, change in signed.items():
        changed = copy.deepcopy(view)
        change(changed)
        sign_again(changed)
        yield f"view-{name}-signed-{label}", encode(changed), False
    changed = copy.deepcopy(view)  # what a view does not show may differ: the issuer signed it
    changed["receipt"]["payload_hash"] = "ab" * 32
    sign_again(changed)
    yield f"view-{name}-signed-another-payload", encode(changed), True
    changed["root"]["verdict"] = "FAIL" if view["root"]["verdict"] == "PASS" else "PASS"
    yield f"view-{name}-another-verdict", encode(changed), False
    sign_again(changed)
    yield f"view-{name}-signed-another-verdict", encode(changed), True


def list_view_spellings() -> Iterator[tuple[str, bytes, bool]]:
    data = (HONEST / "view-item-public.json").read_bytes()
    view, text = json.loads(data), data.decode()
    first_id = f'"id":{view["fields"][0]["id"]}'
    spellings = {
        "spaces": json.dumps(view, sort_keys=True).encode(),
        "unsorted": json.dumps(dict(reversed(view.items())), separators=(",", ":")).encode(),
        "escape": text.replace("public", "\\u0070ublic", 1).encode(),
        "fraction": text.replace(first_id, f"{first_id}.0", 1).encode(),
        "upper-case-hash": text.replace(view["root"]["fields"][0], view["root"]["fields"][0].upper()).encode(),
        "not-utf-8": data.replace(b"public", b"\xffublic", 1),
        "mark-alone": b'{"view_version":"BPC-ITEM-VIEW-1"}',
    }
    for name, content in spellings.items():
        yield f"view-item-spelled-{name}", content, False


def list_item_bundles() -> Iterator[tuple[str, bytes, bool]]:
    other = (HONEST / "other-model.zip").read_bytes()
    for name in BUNDLES:
        data = (HONEST / f"{name}.zip").read_bytes()
        entries = read_archive(data)
        yield f"bundle-{name}", data, True
        yield f"bundle-{name}-cut", data[:-1], False
        yield f"bundle-{name}-longer", data + b"\0", False
        for entry, content in entries.items():
            yield (
                f"bundle-{name}-without-{entry}",
                write_archive({each: text for each, text in entries.items() if each != entry}),
                False,
            )
            for at, label in ((0, "first"), (len(content) // 2, "middle"), (len(content) - 1, "last")):
                flipped = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
                yield f"bundle-{name}-{entry}-{label}", write_archive({**entries, entry: flipped}), False
            yield f"bundle-{name}-{entry}-empty", write_archive({**entries, entry: b""}), False
            yield f"bundle-{name}-{entry}-line", write_archive({**entries, entry: content + b"\n"}), False
        yield f"bundle-{name}-unknown-entry", write_archive({**entries, "more.txt": b""}), False
        yield f"bundle-{name}-below-another-model", write_archive({**entries, "above.zip": other}), False
        yield f"bundle-{name}-below-itself", write_archive({**entries, "above.zip": data}), False
        yield f"bundle-{name}-of-a-stranger", write_archive(steal(entries)), False
        yield from list_bundle_changes(name, entries)


def find_read(draft: Any) -> Any:
    """What a step reads of the layers above."""
    steps = draft["proof"]["steps"]
    return next(step["data"] for step in steps if step["type"] == "LAYER_GET" and "op" not in step["data"])


# Forged links between layers: what a step says that it reads is not there, or is something else.
LINK_CHANGES: dict[str, Callable[[Any], Any]] = {
    "read-hash": lambda draft: find_read(draft).update(hash="ab" * 32),
    "read-next-node": lambda draft: find_read(draft).update(node=find_read(draft)["node"] + 1),
    "read-no-node": lambda draft: find_read(draft).update(node=100_000),
    "read-of-layer-below": lambda draft: find_read(draft).update(layer="item"),
    "read-of-no-layer": lambda draft: find_read(draft).update(layer="cell"),
    "pin-of-batch-first": lambda draft: draft["proof"]["root"]["above"].append(draft["proof"]["root"]["above"][0]),
    "pin-of-nothing": lambda draft: draft["proof"]["root"]["above"].pop(),
    "pin-of-another-root": lambda draft: draft["proof"]["root"]["above"][-1].update(proof_root_hash="ab" * 32),
    "pin-of-another-layer": lambda draft: draft["proof"]["root"]["above"][-1].update(layer="item"),
    "receipt-above": lambda draft: draft["receipt"].update(above_receipt_hash="ab" * 32),
    "tests": lambda draft: draft["receipt"].update(tests_sha256="ab" * 32),
}


def steal(entries: dict[str, bytes]) -> dict[str, bytes]:
    """The same, signed by a stranger, who says so in the manifest."""
    receipt, manifest = json.loads(entries["receipt.json"]), json.loads(entries["manifest.json"])
    sign(receipt, STRANGER)
    manifest["public_key"] = base64.b64encode(STRANGER.public_key().public_bytes_raw()).decode()
    return {**entries, "receipt.json": encode(receipt), "manifest.json": encode(manifest)}


def list_bundle_changes(name: str, entries: dict[str, bytes]) -> Iterator[tuple[str, bytes, bool]]:
    """Changes that a forger makes who has the key: hashes and signature are made anew, and the change is found."""
    changes: dict[str, Callable[[Any], Any]] = {
        "value-in-payload-only": lambda draft: draft["payload"]["fields"].update(more="x"),
        "verdict-in-payload-only": lambda draft: draft["payload"].update(
            verdict="FAIL" if draft["payload"]["verdict"] == "PASS" else "PASS"
        ),
        "pins": lambda draft: draft["proof"]["root"]["above"][0].update(receipt_hash="ab" * 32),
        "battery": lambda draft: draft["payload"].update(subject_id=SOMEBODY),
        "time": lambda draft: draft["receipt"].update(issued_at="2027-05-05T00:00:00.000000Z"),
        "rules": lambda draft: draft["receipt"].update(dsl_sha256="ab" * 32),
        "field-order": lambda draft: draft["proof"]["fields"].reverse(),
        "step-order": lambda draft: draft["proof"]["steps"][0].update(children=[0]),
        "facts-hash": lambda draft: draft["proof"]["root"].update(facts_hash="ab" * 32),
        "key-name": lambda draft: draft["receipt"].update(signing_key_id="somebody-else"),
    }
    if name != "batch":  # which reads nothing of its model
        changes |= LINK_CHANGES
    for label, change in changes.items():
        draft = {each: json.loads(entries[f"{each}.json"]) for each in ("payload", "proof", "receipt")}
        change(draft)
        payload, proof, receipt = draft.values()
        proof["root"]["fields"] = [digest(field) for field in proof["fields"]]
        proof["root"]["steps_hash"] = digest({"salt": proof["salt"], "steps": proof["steps"]})
        proof["root_hash"] = receipt["proof_root_hash"] = digest(proof["root"])
        receipt["payload_hash"] = digest(payload)
        sign(receipt, ISSUER)
        parts = {"payload.json": encode(payload), "proof.json": encode(proof), "receipt.json": encode(receipt)}
        yield f"bundle-{name}-signed-{label}", write_archive({**entries, **parts}), False


def make_item_corpus(folder: Path) -> dict[str, bool]:
    """Write all files; return which of them are good."""
    expected: dict[str, bool] = {}
    for name, data, is_good in (*list_item_views(), *list_item_bundles()):
        if name in expected:
            raise ValueError(f"two files are called {name}")
        (folder / name).write_bytes(data)
        expected[name] = is_good
    (folder / "items.json").write_text(json.dumps(expected, indent=1))
    return expected


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    verdicts = make_item_corpus(target)
    print(f"{len(verdicts)} files of batteries, {sum(verdicts.values())} of them good")
