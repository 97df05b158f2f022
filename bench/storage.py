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
from bench.pipeline import PASSPORTS, REFERENCE, Bench, Kind, benched, reference_kind, small_kind
from bpc import fresh
from bpc.core.digest import sha256
from bpc.core.events import Act
from bpc.core.ids import DocumentVersionId
from bpc.db import documents

DOCUMENTS: Final = 500
EXAMPLE: Final = Path(__file__).parents[1] / "src" / "bpc" / "cli" / "demo_battery" / "bom.json"

# A table that is empty has pages, too, so that only differences say something.
SIZES: Final = """
    SELECT n.nspname AS schema, c.relname AS name, pg_relation_size(c.oid) AS heap,
           coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0) AS toast,
           pg_indexes_size(c.oid) AS indexes
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('public', 'jobs') AND c.relkind = 'r'
"""


class Size(NamedTuple):
    rows: int
    heap: int
    toast: int
    indexes: int

    @property
    def bytes(self) -> int:
        return self.heap + self.toast + self.indexes


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How large each table is, how much log has been written, and how many transactions have written anything."""

    tables: Mapping[str, Size]
    log: int
    transactions: int


def run() -> Iterable[Table]:
    with tempfile.TemporaryDirectory(prefix="bpc-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield from asyncio.run(_measured(Path(folder)))


async def _measured(folder: Path) -> list[Table]:
    async with benched(folder) as bench:
        await bench.run(small_kind(), 50)  # the first pages of every table belong to nobody
        tables = [await _of_kind(bench, small_kind(), PASSPORTS)]
        if REFERENCE:
            tables.append(await _of_kind(bench, reference_kind(), REFERENCE))
        tables.append(await _of_documents(bench))
    return tables


async def _of_kind(bench: Bench, kind: Kind, count: int) -> Table:
    before = await _state(bench)
    await bench.run(kind, count)
    return _table(f"Bytes of one {kind.name} passport, over {count:,}", before, await _state(bench), count)


async def _of_documents(bench: Bench) -> Table:
    """The evidence itself, which any number of passports may share."""
    example, before = EXAMPLE.read_bytes(), await _state(bench)
    async with bench.database.tenant(bench.tenant) as conn:
        for number in range(DOCUMENTS):
            content = example.replace(b"EB-500-36", b"EB-%06d" % number)
            act, version = Act(None, fresh.now()), DocumentVersionId(fresh.new_id())
            made = await documents.create(conn, bench.tenant, kind="BOM", external_ref=None, act=act)
            await documents.add_version(
                conn,
                bench.tenant,
                made.document_id,
                version,
                mime_type="application/json",
                sha256=sha256(content),
                content=content,
                at=act.at,
            )
    title = f"Bytes of one document of {len(example):,} bytes, over {DOCUMENTS:,}"
    return _table(title, before, await _state(bench), DOCUMENTS)


async def _state(bench: Bench) -> State:
    await bench.superuser.execute("VACUUM ANALYZE")
    log = int(await bench.superuser.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))
    found = {}
    for row in await bench.superuser.fetch(SIZES):
        name = f"{row['schema']}.{row['name']}".removeprefix("public.")
        rows = await bench.superuser.fetchval(f"SELECT count(*) FROM {name}")
        found[name] = Size(rows, row["heap"], row["toast"], row["indexes"])
    transactions = int(await bench.superuser.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
    return State(tables=found, log=log, transactions=transactions)


def _table(title: str, before: State, after: State, count: int) -> Table:
    grown = {
        name: Size(*(now - then for now, then in zip(size, before.tables[name], strict=True)))
        for name, size in after.tables.items()
    }
    shown = {name: size for name, size in grown.items() if size.rows > 0 or size.bytes / count >= 1}
    ordered = sorted(shown, key=lambda name: (name.startswith("jobs."), -shown[name].bytes))
    kept = [shown[name] for name in ordered if not name.startswith("jobs.")]
    removed = [shown[name] for name in ordered if name.startswith("jobs.")]
    return Table(
        title=title,
        columns=("", "rows", "heap", "toast", "indexes", "bytes"),
        rows=(
            *(_row(name, [shown[name]], count) for name in ordered),
            _row("stays", kept, count),
            _row("goes with its jobs", removed, count),
        ),
        note=f"log: {(after.log - before.log) / count:,.0f} bytes each, with the copies of pages after a checkpoint;"
        f" {(after.transactions - before.transactions) / count:,.1f} transactions that write",
    )


def _row(name: str, sizes: list[Size], count: int) -> tuple[str, ...]:
    rows, heap, toast, indexes = (sum(column) / count for column in zip(*sizes, strict=True)) if sizes else (0.0,) * 4
    return name, f"{rows:,.1f}", f"{heap:,.0f}", f"{toast:,.0f}", f"{indexes:,.0f}", f"{heap + toast + indexes:,.0f}"
