"""Samples of what was issued, to be checked elsewhere with nothing but these files.

<folder>/samples/rows.pickle        batteries as an engine takes them, each with the hashes of what was stored:
                                    `make engines ENGINE_ROWS=<file>` compiles them again on Ray and Spark
<folder>/samples/<n>.zip            bundles of batteries, and issuer.key: `python -m bench._items.verify <folder>`
"""

import asyncio
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.pipeline import Bench
from bpc.core.facts.snapshot import encode_fact_line
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import BatteryId
from bpc.core.formats.timestamps import format_time
from bpc.core.items.bundle import build_item_bundle
from bpc.core.items.compile_order import ItemRow
from bpc.core.items.content import read_row
from bpc.core.items.receipt import read_item_receipt
from bpc.core.items.row_batches import CompilerParts, SourceRow
from bpc.core.passport.bundle import write_bundle
from bpc.storage.audit import signing_keys
from bpc.storage.items import runs, versions
from bpc.storage.items.pack_bucket import locate_packs, open_packs
from bpc.storage.passports.exports import load_bundle
from bpc.tasks.item_models import make_run

ROWS: Final = int(os.environ.get("BENCH_SAMPLE_ROWS", "10000"))
BUNDLES: Final = int(os.environ.get("BENCH_SAMPLE_BUNDLES", "1000"))


class SampledRow(NamedTuple):
    """A battery as an engine takes it, and the hashes of its stored receipt, without signature, and payload."""

    model: int
    row: SourceRow
    receipt_hash: bytes
    payload_hash: bytes


async def write_samples(bench: Bench, folder: Path) -> None:
    """Write both samples, drawn at random from all batteries that have a passport."""
    target = folder / "samples"
    target.mkdir()
    ids = await bench.superuser.fetch(
        "SELECT battery_id FROM item_passport_versions ORDER BY random() LIMIT $1", max(ROWS, BUNDLES)
    )
    models: dict[Any, int] = {}
    parts: list[CompilerParts] = []
    above: list[bytes] = []
    rows: list[SampledRow] = []
    packs = open_packs(locate_packs(bench.settings))
    async with bench.database.tenant(bench.tenant) as conn:
        for number, (battery,) in enumerate(ids):
            version = await versions.get_version(conn, bench.tenant, BatteryId(battery))
            order = await runs.share_run(conn, bench.tenant, version.item_run_id)
            if version.model_version_id not in models:
                model = await load_bundle(conn, bench.tenant, version.model_version_id, with_events=False)
                models[version.model_version_id] = len(parts)
                parts.append(CompilerParts(tuple(model.entries.items()), make_run(bench.tenant, order)))
                above.append(write_bundle(model))
            at = models[version.model_version_id]
            artifacts = await asyncio.to_thread(
                packs.read_item, version.pack_sha256, version.place, version.receipt_hash
            )
            receipt = read_item_receipt(artifacts.receipt)
            if number < ROWS:
                row = _make_source_row(read_row(artifacts))
                rows.append(SampledRow(at, row, artifacts.receipt_hash, sha256(artifacts.payload)))
            if number < BUNDLES:
                key = await signing_keys.find_public_key(conn, receipt.signing_key_id)
                if key is None:
                    raise RuntimeError("the key is registered")
                (target / "issuer.key").write_text(f"{receipt.signing_key_id}={key.hex()}\n")
                (target / f"{number}.zip").write_bytes(build_item_bundle(artifacts, above=above[at], public_key=key))
    _write_rows(target / "rows.pickle", parts, rows)


def _write_rows(path: Path, parts: Sequence[CompilerParts], rows: Sequence[SampledRow]) -> None:
    path.write_bytes(pickle.dumps((list(parts), [tuple(row) for row in rows])))


def _make_source_row(row: ItemRow) -> SourceRow:
    return SourceRow(
        battery_id=str(row.subject_id),
        passport_version_id=str(row.passport_version_id),
        snapshot_id=str(row.snapshot_id),
        issued_at=format_time(row.issued_at),
        blinding_key=row.blinding_key,
        facts=b"".join(map(encode_fact_line, row.facts)),
    )
