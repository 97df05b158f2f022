"""Forged links between layers are refused: by the reference evaluator's steps, by replay, and by the page's checker."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bpc.core.errors import Refusal
from bpc.core.formats.hashes import from_hex
from bpc.core.items.bundle import ABOVE_ENTRY, read_item_bundle
from bpc.core.items.replay import replay_item
from bpc.core.passport.bundle import read_archive, write_archive
from bpc.core.verify.bundle import verify_bundle
from bpc.core.verify.item_bundle import ITEM_STEPS, verify_anything, verify_item_bundle
from tests.core.items import sample_layers as sample
from tests.core.items.forged_items import ItemDraft, forge_item, set_field, set_pins

KEY = sample.SIGNER.public_key
PAGE = Path(__file__).parents[3] / "docs" / "formats" / "item.md"


def load_page_checker() -> Callable[[bytes, bytes], str | None]:
    """The checker that the page of the format prints, which shares no code with the product."""
    source = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[-1]
    names: dict[str, Any] = {}
    exec(compile(source, str(PAGE), "exec"), names)
    checker: Callable[[bytes, bytes], str | None] = names["check_item"]
    return checker


CHECK_BY_PAGE = load_page_checker()


def get_pins(*, batch: int | None = None, version: int = 1) -> list[Any]:
    entries = read_item_bundle(sample.bundle_item(1, batch=batch, version=version)).entries
    pins: list[Any] = json.loads(entries["payload.json"])["above"]
    return pins


def use_other_version(draft: ItemDraft) -> None:
    draft.above = sample.bundle_above(version=2)


def pin_other_version(draft: ItemDraft) -> None:
    use_other_version(draft)
    set_pins(draft, get_pins(version=2))


def use_older_batch(draft: ItemDraft) -> None:
    draft.above = sample.bundle_above(batch=91)


def pin_older_batch(draft: ItemDraft) -> None:
    use_older_batch(draft)
    set_pins(draft, get_pins(batch=91))


def leave_out_batch(draft: ItemDraft) -> None:
    draft.above = sample.bundle_above()
    set_pins(draft, get_pins())


def pin_receipt_of_another(draft: ItemDraft) -> None:
    pins = get_pins(batch=90)
    pins[0]["receipt_hash"] = "0" * 64
    set_pins(draft, pins)


def name_another_receipt(draft: ItemDraft) -> None:
    draft.receipt["above_receipt_hash"] = from_hex("0" * 64)


def name_other_rules(draft: ItemDraft) -> None:
    draft.receipt["dsl_sha256"] = from_hex("1" * 64)


def change_product(draft: ItemDraft) -> None:
    product = {**draft.payload["battery_product"], "name": "Another"}
    draft.payload["battery_product"] = draft.proof["root"]["battery_product"] = product


def swap_serial_in_values(draft: ItemDraft) -> None:
    set_field(draft, "item.serial", "SN-2")


def swap_serial_in_facts(draft: ItemDraft) -> None:
    draft.facts = draft.facts.replace(b"SN-1", b"SN-2")


def swap_battery(draft: ItemDraft) -> None:
    draft.payload["subject_id"] = draft.proof["root"]["subject_id"] = str(sample.make_id(5002))


def find_read(draft: ItemDraft, name: str) -> dict[str, Any]:
    return next(
        step["data"]
        for step in draft.proof["steps"]
        if step["type"] == "LAYER_GET" and name in (step["data"].get("path"), step["data"].get("name"))
    )


def read_another_node(draft: ItemDraft) -> None:
    model = json.loads(sample.issue_model()["proof.json"])
    node = model["nodes"][0]
    find_read(draft, "model.mass_g").update(node=0, hash=node["hash"])


def read_changed_hash(draft: ItemDraft) -> None:
    find_read(draft, "rated_ah")["hash"] = "2" * 64


def read_no_such_node(draft: ItemDraft) -> None:
    find_read(draft, "note")["node"] = 100_000


def read_layer_below(draft: ItemDraft) -> None:
    find_read(draft, "note")["layer"] = "item"


def drop_failure(draft: ItemDraft) -> None:
    draft.payload["verdict"] = draft.proof["root"]["verdict"] = "FAIL"


def drop_entry(draft: ItemDraft) -> None:
    draft.payload["compliance"].pop()


def drop_step(draft: ItemDraft) -> None:
    draft.proof["steps"].pop()


def change_salt(draft: ItemDraft) -> None:
    draft.proof["fields"][0]["salt"] = "0" * 32


def hide_field(draft: ItemDraft) -> None:
    field = next(field for field in draft.proof["fields"] if field["path"] == "item.serial")
    field["access"] = draft.payload["access"]["item.serial"] = []
    draft.proof["root"]["access"] = [field["access"] for field in draft.proof["fields"]]


# The forgery, the step that finds it first, and whether it is one of links, which the page's checker finds as well.
FORGERIES: list[tuple[Callable[[ItemDraft], None], int | None, str, bool]] = [
    (use_other_version, None, "links", True),
    (pin_other_version, None, "proof_structure", True),
    (use_older_batch, 90, "links", True),
    (pin_older_batch, 90, "proof_structure", True),
    (leave_out_batch, 90, "proof_structure", True),
    (pin_receipt_of_another, 90, "links", True),
    (name_another_receipt, 90, "links", True),
    (name_other_rules, 90, "links", True),
    (change_product, 90, "links", True),
    (swap_serial_in_values, 90, "proof_steps", False),
    (swap_serial_in_facts, 90, "proof_steps", True),
    (swap_battery, 90, "proof_structure", True),
    (read_another_node, 90, "proof_structure", True),
    (read_changed_hash, 90, "proof_structure", True),
    (read_no_such_node, 90, "proof_structure", True),
    (read_layer_below, 90, "proof_structure", True),
    (drop_failure, 90, "proof_steps", False),
    (drop_entry, 90, "proof_steps", False),
    (drop_step, 90, "proof_steps", False),
    (change_salt, 90, "proof_steps", False),
    (hide_field, 90, "proof_steps", False),
]


def test_honest_bundles_pass_all_checkers() -> None:
    for bundle in (sample.bundle_item(1), sample.bundle_item(1, batch=90), sample.bundle_above(batch=90)):
        report = verify_anything(bundle, pins=[KEY])

        assert report.ok, report.cause
        assert report.issuer == "pinned"
        assert tuple(step.name for step in report.steps) == ITEM_STEPS
        assert CHECK_BY_PAGE(bundle, KEY) is None
    assert verify_item_bundle(sample.bundle_item(1)).issuer == "unpinned"


def test_a_status_that_is_required_is_missing_as_no_list_speaks_of_single_batteries() -> None:
    report = verify_anything(sample.bundle_item(1), pins=[KEY], require_status=True)

    assert report.failed_steps == ("status",)
    assert report.cause is not None
    assert report.cause.detail == "the passport of one battery names no status list"


@pytest.mark.parametrize(
    ("change", "batch", "step", "is_of_links"), FORGERIES, ids=[row[0].__name__ for row in FORGERIES]
)
def test_a_forgery_with_the_issuer_s_key_is_refused(
    change: Callable[[ItemDraft], None], batch: int | None, step: str, is_of_links: bool
) -> None:
    forged = forge_item(sample.bundle_item(1, batch=batch), change)

    report = verify_item_bundle(forged, pins=[KEY])

    assert report.cause is not None
    assert report.cause.name == step, report.cause
    # The compiler, which shares no code with the evaluator of the steps, refuses it as well.
    with pytest.raises(Refusal):
        replay_item(read_item_bundle(forged).entries)
    if is_of_links:
        assert CHECK_BY_PAGE(forged, KEY) is not None


def test_a_bundle_that_somebody_else_changed_is_refused() -> None:
    honest, other = sample.bundle_item(1, batch=90), sample.bundle_item(2, batch=90)
    entries, others = read_item_bundle(honest).entries, read_item_bundle(other).entries

    # Each entry of another battery of the same batch, put into this one.
    for name in entries:
        if entries[name] != others[name]:
            mixed = write_archive({**entries, name: others[name]})
            assert not verify_item_bundle(mixed, pins=[KEY]).ok, name
            assert CHECK_BY_PAGE(mixed, KEY) is not None, name
    # Another key, no signature, an unknown entry, a missing one, garbage.
    assert not verify_item_bundle(honest, pins=[type(KEY)(bytes(32))]).ok
    for wrong in (
        write_archive({**entries, "more.txt": b""}),
        write_archive({name: entries[name] for name in entries if name != "facts.jsonl"}),
        write_archive({**entries, ABOVE_ENTRY: honest}),
        write_archive({**entries, ABOVE_ENTRY: b"no zip"}),
        write_archive({**entries, "manifest.json": b"{}"}),
        write_archive({**entries, "manifest.json": entries["manifest.json"].replace(b"ITEM", b"BATCH")}),
        write_archive({**entries, "manifest.json": entries["manifest.json"].replace(b"issuer-2027", b"issuer-2028")}),
        write_archive({**entries, "receipt.json": b"{}"}),
        write_archive({**entries, "receipt.json": entries["receipt.json"].replace(b"ED25519", b"ED25518")}),
        write_archive({**entries, "payload.json": entries["payload.json"] + b" "}),
        honest[:-1],
    ):
        assert not verify_item_bundle(wrong, pins=[KEY]).ok


def test_every_flipped_bit_of_a_sample_is_found() -> None:
    honest = sample.bundle_item(1)
    own_start = honest.index(b"facts.jsonl")
    for at in range(own_start, len(honest), 97):
        flipped = bytearray(honest)
        flipped[at] ^= 1
        assert not verify_item_bundle(bytes(flipped), pins=[KEY]).ok, at


def test_a_broken_model_breaks_its_batteries() -> None:
    entries = read_item_bundle(sample.bundle_item(1)).entries
    model = read_archive(entries[ABOVE_ENTRY])
    broken = write_archive({**model, "payload.json": model["payload.json"].replace(b"P48", b"P49")})
    assert not verify_bundle(broken, pins=[KEY]).ok

    report = verify_item_bundle(write_archive({**entries, ABOVE_ENTRY: broken}), pins=[KEY])

    assert report.failed_steps[0] == "above"
