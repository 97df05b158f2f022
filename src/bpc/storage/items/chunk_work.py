"""The rows of a chunk: as they wait in the database, and compiled and packed in a child process.

ChunkRow ── encode_source ──► bytes, kept until the chunk is issued
CompilerParts, bytes, run's secret ── compile_chunk ──► ChunkResult
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import orjson
from zstandard import ZstdCompressor, ZstdDecompressor

from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import BatteryId, PassportVersionId, SnapshotId, uuid_from_hash
from bpc.core.items.compile_order import derive_item_key
from bpc.core.items.row_batches import CompilerParts, SourceRow, compile_rows, get_compiler
from bpc.storage.passports.item_packing import ItemDictionary, build_dictionary, pack_item

MAX_SOURCE_BYTES: Final = 1 << 28
_SNAPSHOT_DOMAIN: Final = b"BPC-ITEM-SNAPSHOT-ID-1\0"


class ChunkRow(NamedTuple):
    """A battery of a run, with the version id that was fixed for it. `facts` are lines of facts.jsonl, no secret."""

    battery_id: BatteryId
    passport_version_id: PassportVersionId
    facts: bytes


class IssuedItem(NamedTuple):
    """A compiled battery: its receipt, not signed, and its packed content."""

    battery_id: UUID
    passport_version_id: UUID
    input_hash: Digest
    receipt: bytes
    receipt_hash: Digest
    frame: bytes
    fail_count: int
    warn_count: int


class RefusedItem(NamedTuple):
    """A battery that the rules or its facts refuse."""

    battery_id: UUID
    code: str
    says: str


class ChunkResult(NamedTuple):
    """What became of the rows of a chunk, in their order. Without an item there is no dictionary."""

    items: Sequence[IssuedItem]
    refusals: Sequence[RefusedItem]
    dictionary: ItemDictionary | None


def derive_snapshot_id(version: PassportVersionId) -> SnapshotId:
    """The id of the snapshot of a version, which has one."""
    return SnapshotId(uuid_from_hash(sha256(_SNAPSHOT_DOMAIN + version.bytes)))


def encode_source(rows: Iterable[ChunkRow]) -> bytes:
    """Rows as they are kept until they are issued."""
    lines = [orjson.dumps([str(row[0]), str(row[1]), row.facts.decode()]) for row in rows]
    return ZstdCompressor(level=3).compress(b"\n".join(lines))


def decode_source(source: bytes) -> list[ChunkRow]:
    text = ZstdDecompressor().decompress(source, max_output_size=MAX_SOURCE_BYTES)
    rows = [orjson.loads(line) for line in text.split(b"\n")]
    return [
        ChunkRow(BatteryId(UUID(battery)), PassportVersionId(UUID(version)), facts.encode())
        for battery, version, facts in rows
    ]


def compile_chunk(parts: CompilerParts, source: bytes, run_secret: bytes, issued_at: str) -> ChunkResult:
    """Compile and pack all rows of a chunk. The first content is the dictionary of the others."""
    compiler = get_compiler(parts)
    items, refusals, dictionary = list[IssuedItem](), list[RefusedItem](), None
    for row in decode_source(source):
        [result] = compile_rows(compiler, [_to_source_row(row, run_secret, issued_at)])
        content, receipt, receipt_hash = result["content"], result["receipt"], result["receipt_hash"]
        if content is None or receipt is None or receipt_hash is None:
            refusals.append(RefusedItem(row.battery_id, result["error_code"] or "", result["error"] or ""))
            continue
        dictionary = dictionary or build_dictionary([content])
        items.append(
            IssuedItem(
                battery_id=row.battery_id,
                passport_version_id=row.passport_version_id,
                input_hash=sha256(row.facts),
                receipt=receipt,
                receipt_hash=Digest(receipt_hash),
                frame=pack_item(content, dictionary),
                fail_count=result["fail"] or 0,
                warn_count=result["warn"] or 0,
            )
        )
    return ChunkResult(items, refusals, dictionary)


def check_parts(parts: CompilerParts) -> None:
    """Open the compiler of these parts; raise `LayerMismatch` if they do not belong together."""
    get_compiler(parts)


def _to_source_row(row: ChunkRow, run_secret: bytes, issued_at: str) -> SourceRow:
    return SourceRow(
        battery_id=str(row.battery_id),
        passport_version_id=str(row.passport_version_id),
        snapshot_id=str(derive_snapshot_id(row.passport_version_id)),
        issued_at=issued_at,
        blinding_key=derive_item_key(run_secret, row.battery_id),
        facts=row.facts,
    )
