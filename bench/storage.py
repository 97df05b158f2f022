"""What a passport takes up: rows and bytes of each table with its indexes, and bytes of the log, made by real workers.

The tables are measured before and after a run of `bench.pipeline`, both times vacuumed, and the difference is divided
by the passports. Jobs stand apart: they are removed when their time is over (`BPC_JOBS_TTL_DAYS`), the rest stays.

    BENCH_PASSPORTS=2000  BENCH_REFERENCE=200   how many of each kind
"""

import asyncio
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from bench import Table
from bench.passport_kinds import PassportKind, make_reference_kind, make_small_kind
from bench.pipeline import PASSPORTS, REFERENCE, Bench, open_bench
from bpc.core.audit.events import Act
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentVersionId
from bpc.runtime import clock
from bpc.storage.evidence import documents

DOCUMENTS: Final = 500
EXAMPLE: Final = Path(__file__).parents[1] / "src" / "bpc" / "cli" / "run" / "demo_battery" / "bom.json"

# A table that is empty has pages, too, so that only differences say something.
SIZES: Final = """
    SELECT n.nspname AS schema, c.relname AS name, pg_relation_size(c.oid) AS heap,
           coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0) AS toast,
           pg_indexes_size(c.oid) AS indexes
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('public', 'jobs') AND c.relkind = 'r'
"""


class TableSize(NamedTuple):
    rows: int
    heap: int
    toast: int
    indexes: int

    @property
    def bytes(self) -> int:
        return self.heap + self.toast + self.indexes


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """How large each table is, how much log has been written, and how many transactions have written anything."""

    tables: Mapping[str, TableSize]
    log: int
    transactions: int


def run() -> Iterable[Table]:
    with tempfile.TemporaryDirectory(prefix="bpc-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield from asyncio.run(_measure_storage(Path(folder)))


async def _measure_storage(folder: Path) -> list[Table]:
    async with open_bench(folder) as bench:
        await bench.measure_run(make_small_kind(), 50)  # the first pages of every table belong to nobody
        tables = [await _measure_kind(bench, make_small_kind(), PASSPORTS)]
        if REFERENCE:
            tables.append(await _measure_kind(bench, make_reference_kind(), REFERENCE))
        tables.append(await _measure_documents(bench))
    return tables


async def _measure_kind(bench: Bench, kind: PassportKind, count: int) -> Table:
    before = await _read_state(bench)
    await bench.measure_run(kind, count)
    return _build_table(f"Bytes of one {kind.name} passport, over {count:,}", before, await _read_state(bench), count)


async def _measure_documents(bench: Bench) -> Table:
    """The evidence itself, which any number of passports may share."""
    example, before = EXAMPLE.read_bytes(), await _read_state(bench)
    async with bench.database.tenant(bench.tenant) as conn:
        for number in range(DOCUMENTS):
            content = example.replace(b"EB-500-36", b"EB-%06d" % number)
            act, version = Act(None, clock.now()), DocumentVersionId(clock.new_id())
            document = await documents.create_document(conn, bench.tenant, kind="BOM", external_ref=None, act=act)
            await documents.insert_document_version(
                conn,
                bench.tenant,
                document.document_id,
                version,
                mime_type="application/json",
                sha256=sha256(content),
                content=content,
                at=act.at,
            )
    title = f"Bytes of one document of {len(example):,} bytes, over {DOCUMENTS:,}"
    return _build_table(title, before, await _read_state(bench), DOCUMENTS)


async def _read_state(bench: Bench) -> DatabaseState:
    await bench.superuser.execute("VACUUM ANALYZE")
    log = int(await bench.superuser.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))
    tables = {}
    for row in await bench.superuser.fetch(SIZES):
        name = f"{row['schema']}.{row['name']}".removeprefix("public.")
        rows = await bench.superuser.fetchval(f"SELECT count(*) FROM {name}")
        tables[name] = TableSize(rows, row["heap"], row["toast"], row["indexes"])
    transactions = int(await bench.superuser.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
    return DatabaseState(tables=tables, log=log, transactions=transactions)


def _build_table(title: str, before: DatabaseState, after: DatabaseState, count: int) -> Table:
    grown = {
        name: TableSize(*(now - then for now, then in zip(size, before.tables[name], strict=True)))
        for name, size in after.tables.items()
    }
    visible = {name: size for name, size in grown.items() if size.rows > 0 or size.bytes / count >= 1}
    ordered = sorted(visible, key=lambda name: (name.startswith("jobs."), -visible[name].bytes))
    lasting = [visible[name] for name in ordered if not name.startswith("jobs.")]
    removed = [visible[name] for name in ordered if name.startswith("jobs.")]
    return Table(
        title=title,
        columns=("", "rows", "heap", "toast", "indexes", "bytes"),
        rows=(
            *(_format_row(name, [visible[name]], count) for name in ordered),
            _format_row("stays", lasting, count),
            _format_row("goes with its jobs", removed, count),
        ),
        note=f"log: {(after.log - before.log) / count:,.0f} bytes each, with the copies of pages after a checkpoint;"
        f" {(after.transactions - before.transactions) / count:,.1f} transactions that write",
    )


def _format_row(name: str, sizes: list[TableSize], count: int) -> tuple[str, ...]:
    rows, heap, toast, indexes = (sum(column) / count for column in zip(*sizes, strict=True)) if sizes else (0.0,) * 4
    return name, f"{rows:,.1f}", f"{heap:,.0f}", f"{toast:,.0f}", f"{indexes:,.0f}", f"{heap + toast + indexes:,.0f}"
