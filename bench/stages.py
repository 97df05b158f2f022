"""Processor time of each stage of one passport, Python's and PostgreSQL's: what to multiply when planning capacity.

Compile, sign and QR code are jobs of a real worker (`bench.pipeline`). What comes before and after is called here one
by one, each in a transaction as the product does it. Processor time does not depend on who else uses the machine.

    BENCH_STAGES=200        how many passports of each kind, and how often each stage
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import Table
from bench.passport_kinds import PassportKind, make_reference_kind, make_small_kind
from bench.pipeline import Bench, RunResult, open_bench
from bpc.core.audit.events import Act
from bpc.core.exports.disclosure import ExportFormat, choose_audience
from bpc.core.formats.ids import PassportVersionId
from bpc.pipeline.activate import activate
from bpc.pipeline.replay import replay
from bpc.printing import render_export
from bpc.runtime import clock, logs
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.passports import exports

TIMES: Final = int(os.environ.get("BENCH_STAGES", "200"))
EXPORTS: Final[tuple[ExportFormat, ...]] = ("BUNDLE", "PDF", "JSON_LD", "XML")
SIGNED: Final = "SELECT passport_version_id FROM passport_versions WHERE status = 'SIGNED' ORDER BY created_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorCost:
    """Seconds of a processor, for one."""

    python: float
    postgres: float


def run() -> Iterable[Table]:
    logs.configure(level="warn", json=True, component="bench")  # a line for each activation is not what is measured
    with tempfile.TemporaryDirectory(prefix="bpc-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield asyncio.run(_measure_table(Path(folder)))


async def _measure_table(folder: Path) -> Table:
    async with open_bench(folder) as bench:
        await bench.measure_run(make_small_kind(), 20)
        columns = [await _measure_stages(bench, kind) for kind in (make_small_kind(), make_reference_kind())]
    names = list(columns[0])
    return Table(
        title=f"Milliseconds of a processor, Python + PostgreSQL, for one passport; over {TIMES:,} of each kind",
        columns=("", "small", "reference"),
        rows=tuple((name, *(_format_cost(column[name]) for column in columns)) for name in names),
        note="the jobs of compiling, which may sign as well, divided by the time that each takes",
    )


async def _measure_stages(bench: Bench, kind: PassportKind) -> dict[str, ProcessorCost]:
    async with bench.database.tenant(bench.tenant) as conn:
        before = {row[0] for row in await conn.fetch(SIGNED)}
    result = await bench.measure_run(kind, TIMES)
    async with bench.database.tenant(bench.tenant) as conn:
        versions = [PassportVersionId(row[0]) for row in await conn.fetch(SIGNED) if row[0] not in before]
    costs = {
        "product, facts, snapshot, request": ProcessorCost(
            python=result.asking[0] / TIMES, postgres=result.asking[1] / TIMES
        ),
        **_divide_job_costs(result),
        "activate": await _measure_stage(bench, versions, _build_activate(bench)),
        "replay": await _measure_stage(bench, versions, _build_replay(bench)),
    }
    for name in EXPORTS:
        costs[f"export {name}"] = await _measure_stage(bench, versions, _build_export(bench, name))
    costs["audit, per event"] = await _measure_audit(bench)
    return costs


def _divide_job_costs(result: RunResult) -> dict[str, ProcessorCost]:
    total = sum(result.stages.values())
    return {
        stage.lower(): ProcessorCost(
            python=result.python / result.passports * seconds / total,
            postgres=result.postgres / result.passports * seconds / total,
        )
        for stage, seconds in result.stages.items()
    }


Stage = Callable[[Connection, PassportVersionId], Awaitable[object]]


def _build_activate(bench: Bench) -> Stage:
    return lambda conn, version: activate(conn, bench.tenant, version, act=Act(None, clock.now()))


def _build_replay(bench: Bench) -> Stage:
    async def replay_version(conn: Connection, version: PassportVersionId) -> None:
        outcome = await replay(conn, bench.tenant, version, act=Act(None, clock.now()))
        if outcome.refusal is not None:
            raise outcome.refusal

    return replay_version


def _build_export(bench: Bench, name: ExportFormat) -> Stage:
    async def export_version(conn: Connection, version: PassportVersionId) -> bytes:
        bundle = await exports.load_bundle(conn, bench.tenant, version, with_events=name == "BUNDLE")
        return render_export(bundle, name, choose_audience(name, None))

    return export_version


async def _measure_stage(bench: Bench, versions: Sequence[PassportVersionId], stage: Stage) -> ProcessorCost:
    start = _read_times(bench)
    for version in versions:
        async with bench.database.tenant(bench.tenant) as conn:
            await stage(conn, version)
    return _compute_cost(bench, start, len(versions))


async def _measure_audit(bench: Bench) -> ProcessorCost:
    start = _read_times(bench)
    async with bench.database.tenant(bench.tenant) as conn:
        verified = await events.verify_tenant(conn, bench.tenant)
    return _compute_cost(bench, start, verified.events)


def _read_times(bench: Bench) -> ProcessorCost:
    return ProcessorCost(python=time.process_time(), postgres=bench.measure_postgres_seconds())


def _compute_cost(bench: Bench, start: ProcessorCost, count: int) -> ProcessorCost:
    now = _read_times(bench)
    return ProcessorCost(python=(now.python - start.python) / count, postgres=(now.postgres - start.postgres) / count)


def _format_cost(cost: ProcessorCost) -> str:
    return f"{cost.python * 1e3:.2f} + {cost.postgres * 1e3:.2f}"
