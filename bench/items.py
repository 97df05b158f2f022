"""Passports of single batteries: requested by file, issued by a real `bpc worker` on an embedded PostgreSQL.

The models are the LMT battery of examples/eu-battery under the shipped rules. Each battery states everything that the
rules ask of it: its days, and points 52 to 67 with numbers of its own. Workers issue while more is asked for. The rate
is from the start of the first chunk to the end of the last; PostgreSQL's time is for asking and issuing. Bytes are
those of all tables that have a row for a battery, with their indexes, of the packs and of the signer's record, divided
by the batteries. What the first and the last tenth took of a processor tells, on a busy machine too, whether a battery
costs more the more there are.

    BENCH_ITEMS=10000,100000        how many, one run after the other
    BENCH_MODELS=10                 of how many models
    BENCH_WORKERS=1                 worker processes; each has two child processes and a signer
    BENCH_SECONDS=3600              stop a run after so long, and tell of what was issued until then
    BENCH_FOLDER=folder             keep the installation there, with samples (bench/_items/samples.py)
"""

import asyncio
import os
import struct
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import Table
from bench._items.processes import ProcessWatch
from bench._items.samples import write_samples
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
SECONDS: Final = float(os.environ.get("BENCH_SECONDS", "inf"))
FOLDER: Final = os.environ.get("BENCH_FOLDER", "")
TELL_SECONDS: Final = 15
COUNT_ISSUED: Final = "SELECT coalesce(sum(issued), 0)::int FROM item_chunks WHERE item_run_id = ANY($1)"
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
    """What runs of some batteries gave. Seconds are of a processor, by kind of process; asking is for each battery."""

    count: int
    asking_seconds: float
    asking_cpu: float
    issuing_seconds: float
    first_rate: float
    last_rate: float
    first_cpu: float
    last_cpu: float
    python: Mapping[str, float]
    postgres: float
    peak_bytes: Mapping[str, int]
    stored_bytes: dict[str, int]

    def list_values(self) -> dict[str, str]:
        """Everything that was measured, by what it is called in the table."""
        cpu = {**self.python, "PostgreSQL": self.postgres}
        return {
            "batteries": f"{self.count:,}",
            "asked for, µs each": f"{self.asking_seconds * 1e6:,.0f}",
            "asked for, Python µs each": f"{self.asking_cpu * 1e6:,.0f}",
            "issued a second": f"{self.count / self.issuing_seconds:,.0f}",
            "of the first tenth": f"{self.first_rate:,.0f}",
            "of the last tenth": f"{self.last_rate:,.0f}",
            **{f"{kind}, µs each": f"{seconds / self.count * 1e6:,.0f}" for kind, seconds in cpu.items()},
            "all, µs each": f"{sum(cpu.values()) / self.count * 1e6:,.0f}",
            "first tenth, Python µs each": f"{self.first_cpu * 1e6:,.0f}",
            "last tenth, Python µs each": f"{self.last_cpu * 1e6:,.0f}",
            **{f"peak MB, {kind}": f"{size / 1e6:,.0f}" for kind, size in self.peak_bytes.items()},
            **{f"bytes each, {name}": f"{size / self.count:,.1f}" for name, size in self.stored_bytes.items()},
            "bytes each, all": f"{sum(self.stored_bytes.values()) / self.count:,.0f}",
        }


def run() -> Iterable[Table]:
    logs.configure(level="warn", json=True, component="bench")
    if FOLDER:
        yield asyncio.run(_measure_items(Path(FOLDER)))
        return
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
        results = [(await measure_run(bench, skus, count, at)).list_values() for at, count in enumerate(COUNTS)]
        if FOLDER:
            await write_samples(bench, folder)
    names = [*dict.fromkeys(name for result in results for name in result)]
    return Table(
        title=f"Passports of batteries, {os.cpu_count()} processors, load {os.getloadavg()[1]:.1f}",
        columns=("", *(f"run {at + 1}" for at in range(len(results)))),
        rows=tuple((name, *(result.get(name, "") for result in results)) for name in names),
    )


async def measure_run(bench: Bench, skus: Sequence[str], count: int, mark: int) -> ItemsResult:
    """Ask for runs, one after the other, while workers issue them; until all are issued, or the time is over."""
    before = await _measure_bytes(bench)
    await bench.superuser.execute("VACUUM ANALYZE")
    await bench.superuser.execute("CHECKPOINT")
    request = RunRequest(bench, skus, count, mark)
    async with run_workers(bench.settings) as workers:
        watch = ProcessWatch(workers)
        asking = asyncio.create_task(request.send())
        looks = await _watch_runs(bench, request, watch)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    issued = looks[-1].issued
    rows = [await _load_run(bench, run_id) for run_id in request.run_ids]
    if any(row.refused for row in rows):
        raise RuntimeError("not all batteries were issued")
    seconds, first_rate, last_rate = await _measure_rates(bench, request.run_ids)
    await bench.superuser.execute("VACUUM ANALYZE")
    after = await _measure_bytes(bench)
    return ItemsResult(
        count=issued,
        asking_seconds=request.seconds / request.asked,
        asking_cpu=request.cpu / request.asked,
        issuing_seconds=seconds,
        first_rate=first_rate,
        last_rate=last_rate,
        first_cpu=_measure_cpu_each(looks, 0, issued / 10),
        last_cpu=_measure_cpu_each(looks, issued * 9 / 10, issued),
        python=watch.sum_seconds(),
        postgres=looks[-1].postgres - looks[0].postgres,
        peak_bytes={**watch.peak_bytes, "all but PostgreSQL": watch.peak_sum},
        stored_bytes={name: after[name] - before[name] for name in after},
    )


@dataclass(slots=True)
class RunRequest:
    """Runs that are asked for, one after the other, and what that took: seconds, and those of this process alone."""

    bench: Bench
    skus: Sequence[str]
    count: int
    mark: int
    run_ids: list[Any] = field(default_factory=list)
    asked: int = 0
    seconds: float = 0.0
    cpu: float = 0.0

    async def send(self) -> None:
        size = min(ROWS_AT_ONCE, -(-self.count // len(self.skus)))
        for at, first in enumerate(range(0, self.count, size)):
            started, cpu = time.monotonic(), time.process_time()
            last = min(first + size, self.count)
            sku = self.skus[at % len(self.skus)]
            self.run_ids.append(await _request(self.bench, sku, range(first, last), self.mark))
            self.seconds += time.monotonic() - started
            self.cpu += time.process_time() - cpu
            self.asked = last


class Look(NamedTuple):
    """How far a run was, and the seconds of a processor that it had taken."""

    issued: int
    python: float
    postgres: float


async def _watch_runs(bench: Bench, request: RunRequest, watch: ProcessWatch) -> list[Look]:
    """Look now and then until all are issued, or the time is over."""
    pause, looks, told = min(2.0, 0.2 + request.count / 100_000), list[Look](), time.monotonic()
    deadline = told + SECONDS
    while True:
        watch.look()
        issued = await bench.superuser.fetchval(COUNT_ISSUED, request.run_ids)
        looks.append(Look(issued, sum(watch.sum_seconds().values()), bench.measure_postgres_seconds()))
        if issued == request.count or time.monotonic() > deadline:
            return looks
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            _tell(request, looks)
        await asyncio.sleep(pause)


def _measure_cpu_each(looks: Sequence[Look], first: float, last: float) -> float:
    """Python's seconds for each battery, from the look nearest to `first` issued to the one nearest to `last`."""
    start, end = (min(looks, key=lambda look: abs(look.issued - issued)) for issued in (first, last))
    return (end.python - start.python) / max(1, end.issued - start.issued)


def _tell(request: RunRequest, looks: Sequence[Look]) -> None:
    issued, python, postgres = looks[-1]
    each = f"{python / max(1, issued) * 1e6:,.0f} + {(postgres - looks[0].postgres) / max(1, issued) * 1e6:,.0f} µs"
    says = f"asked {request.asked:,} (Python {request.cpu / max(1, request.asked) * 1e6:,.0f} µs each)"
    print(
        f"items: {time.strftime('%H:%M:%S')} {says}, issued {issued:,} of {request.count:,} (Python + PostgreSQL {each}"
        " each)",
        file=sys.stderr,
        flush=True,
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


async def _measure_rates(bench: Bench, run_ids: list[Any]) -> tuple[float, float, float]:
    """Seconds from the start of the first chunk to the end of the last; the rates of the first tenth and the last."""
    rows = await bench.superuser.fetch(
        "SELECT issued, started_at, issued_at FROM item_chunks"
        " WHERE item_run_id = ANY($1) AND issued_at IS NOT NULL ORDER BY issued_at",
        run_ids,
    )
    size = max(1, -(-len(rows) // 10))
    first, last, start = rows[:size], rows[-size - 1 :], min(row["started_at"] for row in rows)
    first_seconds = (first[-1]["issued_at"] - start).total_seconds()
    last_seconds = (last[-1]["issued_at"] - last[0]["issued_at"]).total_seconds()
    return (
        (rows[-1]["issued_at"] - start).total_seconds(),
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
