"""Passports of single batteries: requested by file, issued by a real `bpc worker` on an embedded PostgreSQL.

The models are the LMT battery of examples/eu-battery under the shipped rules. Each battery states everything that the
rules ask of it: its days, and points 52 to 67 with numbers of its own. The rate is from the start of the first chunk
to the end of the last. Bytes are those of all tables that have a row for a battery, with their indexes, of the packs
and of the signer's record, divided by the batteries.

    BENCH_ITEMS=10000,100000        how many, one run after the other
    BENCH_MODELS=10                 of how many models
    BENCH_WORKERS=1                 worker processes; each has two child processes
"""

import asyncio
import os
import struct
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from bench import Table
from bench.passport_kinds import EXAMPLES, PassportKind
from bench.pipeline import Bench, open_bench, run_workers
from bpc.cli.support.package_folders import SHIPPED_RULES
from bpc.cli.support.rule_files import read_package_texts
from bpc.core.audit.events import Act
from bpc.core.batteries.row_files import read_rows
from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.timestamps import parse_time
from bpc.core.items.item_rows import ITEM_COLUMNS, ITEM_REQUIRED
from bpc.pipeline.activate import activate
from bpc.runtime import clock, logs
from bpc.runtime.stored_secrets import load_secret_box
from bpc.storage.items import runs
from bpc.storage.items.runs import ItemRunRow
from bpc.tasks.item_models import Installation
from bpc.tasks.item_runs import ItemRunRequest, request_item_run

COUNTS: Final = tuple(int(count) for count in os.environ.get("BENCH_ITEMS", "10000,100000").split(","))
MODELS: Final = int(os.environ.get("BENCH_MODELS", "10"))
ROWS_AT_ONCE: Final = 50_000
ENDS: Final = 10_000  # batteries at the beginning and at the end whose rates are compared
TABLES: Final = (
    *("batteries", "battery_registrations", "item_chunks", "item_passport_versions", "item_runs"),
    *("events", "jobs.job"),
)
NOT_OF_MODELS: Final = frozenset(
    {
        *("batch_number", "manufactured_on", "passport_uri", "placed_on_market_on", "put_into_service_on"),
        *("serial_number", "state_recorded_on", "status"),
    }
)
STATES: Final = (
    *("capacity_fade_pct", "power_w", "power_fade_pct", "internal_resistance_ohm", "internal_resistance_increase_pct"),
    *("round_trip_efficiency_pct", "round_trip_efficiency_fade_pct", "remaining_capacity_ah", "remaining_power_w"),
    *("self_discharge_pct_per_month", "self_discharge_evolution_pct", "ohmic_resistance_ohm", "full_cycles"),
)
HEADER: Final = ",".join(("serial_number", "manufactured_on", "placed_on", "state_recorded_on", *STATES))


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsResult:
    """What runs of some batteries gave."""

    count: int
    asking_seconds: float
    issuing_seconds: float
    first_rate: float
    last_rate: float
    python: float
    postgres: float
    peak_memory: int
    stored_bytes: dict[str, int]

    def format_row(self) -> tuple[str, ...]:
        return (
            f"{self.count:,}",
            f"{self.count / self.asking_seconds:,.0f}",
            f"{self.count / self.issuing_seconds:,.0f}",
            f"{self.first_rate:,.0f}",
            f"{self.last_rate:,.0f}",
            f"{self.python / self.count * 1e6:,.0f}",
            f"{self.postgres / self.count * 1e6:,.0f}",
            f"{self.peak_memory / 1e6:,.0f}",
            *(f"{size / self.count:,.0f}" for size in self.stored_bytes.values()),
            f"{sum(self.stored_bytes.values()) / self.count:,.0f}",
        )


def run() -> Iterable[Table]:
    logs.configure(level="warn", json=True, component="bench")
    with tempfile.TemporaryDirectory(prefix="bpc-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield asyncio.run(_measure_items(Path(folder)))


async def _measure_items(folder: Path) -> Table:
    async with open_bench(folder) as bench:
        kind = make_kind()
        await bench.measure_run(kind, MODELS)
        skus = [row[0] for row in await bench.superuser.fetch("SELECT sku FROM battery_products WHERE sku LIKE 'eu-%'")]
        for row in await bench.superuser.fetch("SELECT passport_version_id FROM passport_versions"):
            async with bench.database.tenant(bench.tenant) as conn:
                await activate(conn, bench.tenant, row[0], act=Act(None, clock.now()))
        results = [await measure_run(bench, skus, count, at) for at, count in enumerate(COUNTS)]
        names = tuple(results[0].stored_bytes)
    return Table(
        title=f"Passports of batteries, {os.cpu_count()} processors, load {os.getloadavg()[1]:.1f}",
        columns=(
            *(
                "batteries",
                "asked a second",
                "issued a second",
                "of the first 10,000",
                "of the last",
                "Python µs each",
                "PostgreSQL µs each",
                "peak MB",
            ),
            *(f"{name} B" for name in names),
            "all bytes each",
        ),
        rows=tuple(result.format_row() for result in results),
    )


async def measure_run(bench: Bench, skus: Sequence[str], count: int, mark: int) -> ItemsResult:
    before = await _measure_bytes(bench)
    started = time.monotonic()
    size = min(ROWS_AT_ONCE, -(-count // len(skus)))
    run_ids = [
        await _request(bench, skus[at % len(skus)], range(first, min(first + size, count)), mark)
        for at, first in enumerate(range(0, count, size))
    ]
    asking_seconds = time.monotonic() - started
    await bench.superuser.execute("VACUUM ANALYZE")
    await bench.superuser.execute("CHECKPOINT")
    postgres, peak = bench.measure_postgres_seconds(), 0
    async with run_workers(bench.settings) as workers:
        while True:
            rows = [await _load_run(bench, run_id) for run_id in run_ids]
            processes = [each for worker in workers for each in (worker, *worker.children(recursive=True))]
            peak = max(peak, sum(_measure_memory(each) for each in processes))
            python = sum(_measure_cpu(each) for each in processes)
            if all(row.status == "FINISHED" for row in rows):
                break
            await asyncio.sleep(0.2)
    if any(row.issued != row.total for row in rows):
        raise RuntimeError("not all batteries were issued")
    spans = [(row.started_at, row.last_at) for row in rows]
    seconds = (max(end for _, end in spans if end) - min(start for start, _ in spans if start)).total_seconds()
    first_rate, last_rate = await _measure_ends(bench, run_ids)
    postgres = bench.measure_postgres_seconds() - postgres
    await bench.superuser.execute("VACUUM ANALYZE")
    after = await _measure_bytes(bench)
    return ItemsResult(
        count=count,
        asking_seconds=asking_seconds,
        issuing_seconds=seconds,
        first_rate=first_rate,
        last_rate=last_rate,
        python=python,
        postgres=postgres,
        peak_memory=peak,
        stored_bytes={name: after[name] - before[name] for name in after},
    )


async def _request(bench: Bench, sku: str, numbers: range, mark: int) -> Any:
    lines = [",".join(_make_row(f"S{mark}{number:08d}")) for number in numbers]
    content = "\n".join([HEADER, *lines, ""]).encode()
    async with bench.database.tenant(bench.tenant) as conn:
        outcome = await request_item_run(
            conn,
            bench.jobs,
            bench.assembly.task_jobs.issue_items,
            bench.tenant,
            ItemRunRequest(sku=sku, file=read_rows(content, ITEM_COLUMNS, ITEM_REQUIRED), content_hash=sha256(content)),
            installation=Installation(
                compiler_build_id=bench.settings.compiler_build_id,
                signing_key_id=bench.settings.signing_key_id,
                secret_box=load_secret_box(bench.settings),
                compute=asyncio.to_thread,
            ),
            act=Act(None, clock.now()),
        )
    if outcome.run is None:
        raise RuntimeError(f"the rows have faults: {outcome.faults[:3]}")
    return outcome.run


def _make_row(serial: str) -> list[str]:
    """A battery with numbers of its own: a new pack, measured at the end of the line."""
    numbers = iter(struct.unpack(">16H", sha256(serial.encode())))
    fade, power_fade, growth = (next(numbers) % 150 for _ in range(3))  # hundredths of a per cent
    return [
        *(serial, f"2028-01-{1 + next(numbers) % 28:02d}", "2028-02-01", "2028-01-30"),
        *(_write(fade, 2), _write(500_000 - 50 * power_fade, 3), _write(power_fade, 2)),
        *(_write(120_000 + 12 * growth, 6), _write(growth, 2), _write(9_500 - next(numbers) % 50, 2)),
        *(_write(next(numbers) % 50, 2), _write(15_000_000 - 1_500 * fade, 6), _write(500_000 - 50 * power_fade, 3)),
        *(_write(20_000 + next(numbers) % 500, 4), _write(next(numbers) % 200, 2)),
        *(_write(120_000 + 12 * growth, 6), str(next(numbers) % 5)),
    ]


def _write(scaled: int, decimals: int) -> str:
    return f"{scaled // 10**decimals}.{scaled % 10**decimals:0{decimals}d}"


async def _measure_ends(bench: Bench, run_ids: list[Any]) -> tuple[float, float]:
    """The rate of the first batteries that were issued, and that of the last."""
    rows = await bench.superuser.fetch(
        "SELECT issued, started_at, issued_at FROM item_chunks WHERE item_run_id = ANY($1) ORDER BY issued_at", run_ids
    )
    size = max(1, -(-ENDS * len(rows) // sum(row["issued"] for row in rows)))
    first, last = rows[:size], rows[-size - 1 :]
    first_seconds = (first[-1]["issued_at"] - min(row["started_at"] for row in first)).total_seconds()
    last_seconds = (last[-1]["issued_at"] - last[0]["issued_at"]).total_seconds()
    return (
        sum(row["issued"] for row in first) / first_seconds,
        sum(row["issued"] for row in last[1:]) / last_seconds if last_seconds else 0.0,
    )


async def _load_run(bench: Bench, run_id: Any) -> ItemRunRow:
    async with bench.database.tenant(bench.tenant) as conn:
        return await runs.get_run(conn, bench.tenant, run_id)


async def _measure_bytes(bench: Bench) -> dict[str, int]:
    sizes = {
        name: await bench.superuser.fetchval("SELECT pg_total_relation_size($1::text::regclass)", name)
        for name in TABLES
    }
    folder = bench.settings.data_dir
    sizes["packs"] = sum(path.stat().st_size for path in (folder / "packs").rglob("*.pack"))
    sizes["signer"] = sum(path.stat().st_size for path in (folder / "signer").rglob("*") if path.is_file())
    return sizes


def _measure_memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _measure_cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:  # a child that was replaced while the others were asked
        return 0.0
    return float(times.user + times.system)


def make_kind() -> PassportKind:
    """The LMT battery of the examples as a model: without what only a battery can say."""
    document = read_document("BOM", "application/json", (EXAMPLES / "eu-battery" / "lmt.json").read_bytes())
    if not isinstance(document, DocumentFacts):
        raise TypeError("the example is a document")
    facts = [(each.fact_type, each.fact_key, each.payload_canonical.decode()) for each in document.facts]
    own = next(key.removeprefix("battery:") for kind, key, _ in facts if kind == "Battery")

    def make_facts(sku: str) -> list[SnapshotFact]:
        return [_make_model_fact(kind, key.replace(own, sku), text.replace(own, sku)) for kind, key, text in facts]

    return PassportKind(
        name="eu",
        rules=read_package_texts(str(SHIPPED_RULES / "eu-battery"), None).rules,
        facts=make_facts,
        issued_at=parse_time("2027-02-18T00:00:00.000000Z"),
    )


def _make_model_fact(fact_type: str, key: str, text: str) -> SnapshotFact:
    payload: Any = canonical_json.decode(text.encode())
    if fact_type == "Battery":
        payload = {name: value for name, value in payload.items() if name not in NOT_OF_MODELS}
        payload["granularity"] = "model"
    return SnapshotFact(fact_type=fact_type, fact_key=key, schema_version=1, payload=payload)
