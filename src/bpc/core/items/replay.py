"""Replay of a battery, BPC-ITEM-REPLAY-1: compile again from its bundle and compare every byte. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from bpc.core.items.bundle import ABOVE_ENTRY, is_item_bundle, read_item_bundle
from bpc.core.items.compile import ItemCompiler, open_batch
from bpc.core.items.content import ItemArtifacts, read_row, restore_item
from bpc.core.items.receipt import read_item_receipt, read_run
from bpc.core.items.upper_layers import UpperLayers, open_model
from bpc.core.passport.bundle import read_archive, read_bundle
from bpc.core.passport.compile import ReplayMismatch


def replay_item(entries: Mapping[str, bytes]) -> None:
    """Compile again from the entries of a bundle; `ReplayMismatch` names the first artifact that differs."""
    stored_item = read_artifacts(entries)
    receipt = read_item_receipt(stored_item.receipt)
    compiler = ItemCompiler(_open_above(entries[ABOVE_ENTRY]), read_run(receipt), layer=receipt.layer)
    again = restore_item(compiler.compile(read_row(stored_item)).content, receipt.signature)
    for name in ("snapshot", "payload", "proof", "receipt"):
        before, after = getattr(stored_item, name), getattr(again, name)
        if before != after:
            raise ReplayMismatch(name, "its bytes", f"{len(before):,} bytes", f"{len(after):,} other bytes")


def read_artifacts(entries: Mapping[str, bytes]) -> ItemArtifacts:
    """The artifacts of a bundle, as they stand there."""
    receipt = read_item_receipt(entries["receipt.json"])
    return ItemArtifacts(
        layer=receipt.layer,
        payload=entries["payload.json"],
        proof=entries["proof.json"],
        receipt=entries["receipt.json"],
        receipt_hash=replace(receipt, signature=None).hash(),
        snapshot=entries["snapshot.json"],
        facts=entries["facts.jsonl"],
    )


def _open_above(data: bytes) -> UpperLayers:
    entries = read_archive(data)
    if not is_item_bundle(entries):
        return open_model(read_bundle(data).entries)
    batch = read_artifacts(read_item_bundle(data).entries)
    return open_batch(_open_above(entries[ABOVE_ENTRY]), read_run(read_item_receipt(batch.receipt)), batch)
