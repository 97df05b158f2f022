"""Rows of batteries in, rows of results out: the function that every engine runs over its batches.

Pure. Rows are plain values (texts, bytes, numbers), as a record batch of Arrow has them, so that a process pool, Ray
and Spark all run the same function. A row that is refused has `error_code` and `error`, and changes no other.

    CompilerParts ── get_compiler, once a process ──► ItemCompiler
    rows ── compile_rows ──► results, in the same order
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, TypedDict

from bpc.core.errors import Refusal
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.snapshot import BadFact, read_fact
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import BatteryId, PassportVersionId, SnapshotId, parse_uuid
from bpc.core.formats.timestamps import parse_time
from bpc.core.items.compile import ItemCompiler, open_batch
from bpc.core.items.compile_order import ItemRow, ItemRun, LowerLayer
from bpc.core.items.content import ItemArtifacts
from bpc.core.items.receipt import read_item_receipt, read_run
from bpc.core.items.upper_layers import open_model

ContentPacker: TypeAlias = Callable[[bytes], bytes]
"""How a content is packed before it is kept. Not done here: packed bytes depend on the version of a library."""


class SourceRow(TypedDict):
    """A battery to compile. `facts` are lines of facts.jsonl in any order, without the secret."""

    battery_id: str
    passport_version_id: str
    snapshot_id: str
    issued_at: str
    blinding_key: bytes
    facts: bytes


class ResultRow(TypedDict):
    """What became of it. Of a refused row all is None but `battery_id`, `passport_version_id` and the error.

    `content` is packed if the engine gave a way to pack it.
    """

    battery_id: str
    passport_version_id: str
    receipt: bytes | None
    receipt_hash: bytes | None
    payload_hash: bytes | None
    proof_root_hash: bytes | None
    snapshot_hash: bytes | None
    content: bytes | None
    fail: int | None
    warn: int | None
    error_code: str | None
    error: str | None


@dataclass(frozen=True)
class CompilerParts:
    """What another process needs to open the same compiler. `model` are the entries of the model's bundle, by name."""

    model: tuple[tuple[str, bytes], ...]
    run: ItemRun
    batch: ItemArtifacts | None = None
    layer: LowerLayer = "item"


@lru_cache(maxsize=8)
def get_compiler(parts: CompilerParts) -> ItemCompiler:
    """The compiler of these parts, opened once a process."""
    upper = open_model(dict(parts.model))
    if parts.batch is not None:
        # With its own build and key: it may have been issued long before these batteries.
        upper = open_batch(upper, read_run(read_item_receipt(parts.batch.receipt)), parts.batch)
    return ItemCompiler(upper, parts.run, layer=parts.layer)


def compile_rows(
    compiler: ItemCompiler, rows: Iterable[SourceRow], pack: ContentPacker | None = None
) -> list[ResultRow]:
    """A result for each row, in their order."""
    return [_compile_row(compiler, row, pack) for row in rows]


def read_source_row(row: SourceRow) -> ItemRow:
    """A row as the compiler takes it."""
    return ItemRow(
        subject_id=BatteryId(parse_uuid(row["battery_id"])),
        passport_version_id=PassportVersionId(parse_uuid(row["passport_version_id"])),
        snapshot_id=SnapshotId(parse_uuid(row["snapshot_id"])),
        issued_at=parse_time(row["issued_at"]),
        blinding_key=row["blinding_key"],
        facts=tuple(_read_facts(row["facts"])),
    )


def _read_facts(lines: bytes) -> Iterable[SnapshotFact]:
    for number, line in enumerate(lines.removesuffix(b"\n").split(b"\n") if lines else (), 1):
        try:
            yield read_fact(canonical_json.read_json(line))
        except Refusal as wrong:
            raise BadFact(f"fact {number} of the row: {wrong.says}", fix=wrong.fix) from None


def _compile_row(compiler: ItemCompiler, row: SourceRow, pack: ContentPacker | None) -> ResultRow:
    try:
        item = compiler.compile(read_source_row(row))
    except Refusal as refusal:
        return _refuse_row(row, refusal)
    return ResultRow(
        battery_id=row["battery_id"],
        passport_version_id=row["passport_version_id"],
        receipt=item.receipt,
        receipt_hash=item.receipt_hash,
        payload_hash=item.payload_hash,
        proof_root_hash=item.proof_root_hash,
        snapshot_hash=item.snapshot_hash,
        content=item.content if pack is None else pack(item.content),
        fail=item.compliance.fail,
        warn=item.compliance.warn,
        error_code=None,
        error=None,
    )


def _refuse_row(row: SourceRow, refusal: Refusal) -> ResultRow:
    return ResultRow(
        battery_id=row["battery_id"],
        passport_version_id=row["passport_version_id"],
        receipt=None,
        receipt_hash=None,
        payload_hash=None,
        proof_root_hash=None,
        snapshot_hash=None,
        content=None,
        fail=None,
        warn=None,
        error_code=refusal.code,
        error=refusal.says if refusal.fix is None else f"{refusal.says}; {refusal.fix}",
    )
