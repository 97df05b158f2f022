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
from bench.pipeline import STAGES, Bench, Kind, Run, benched, reference_kind, small_kind
from bpc import fresh
from bpc.core.events import Act
from bpc.core.exports.formats import Format, audience_for
from bpc.core.ids import PassportVersionId
from bpc.db import bundles, events
from bpc.db.connection import Connection
from bpc.pipeline.activate import activate
from bpc.pipeline.replay import replay
from bpc.printing.exports import exported

TIMES: Final = int(os.environ.get("BENCH_STAGES", "200"))
EXPORTS: Final[tuple[Format, ...]] = ("BUNDLE", "PDF", "JSON_LD", "XML")
SIGNED: Final = "SELECT passport_version_id FROM passport_versions WHERE status = 'SIGNED' ORDER BY created_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of a processor, for one."""

    python: float
    postgres: float


def run() -> Iterable[Table]:
    with tempfile.TemporaryDirectory(prefix="bpc-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield asyncio.run(_measured(Path(folder)))


async def _measured(folder: Path) -> Table:
    async with benched(folder) as bench:
        await bench.run(small_kind(), 20)
        columns = [await _stages(bench, kind) for kind in (small_kind(), reference_kind())]
    names = list(columns[0])
    return Table(
        title=f"Milliseconds of a processor, Python + PostgreSQL, for one passport; over {TIMES:,} of each kind",
        columns=("", "small", "reference"),
        rows=tuple((name, *(_shown(column[name]) for column in columns)) for name in names),
        note="compile, sign, QR: all three jobs, divided by the time that each takes",
    )


async def _stages(bench: Bench, kind: Kind) -> dict[str, Cost]:
    async with bench.database.tenant(bench.tenant) as conn:
        before = {row[0] for row in await conn.fetch(SIGNED)}
    made = await bench.run(kind, TIMES)
    async with bench.database.tenant(bench.tenant) as conn:
        versions = [PassportVersionId(row[0]) for row in await conn.fetch(SIGNED) if row[0] not in before]
    found = {
        "product, facts, snapshot, request": Cost(python=made.asking[0] / TIMES, postgres=made.asking[1] / TIMES),
        **_jobs(made),
        "activate": await _each(bench, versions, _activate(bench)),
        "replay": await _each(bench, versions, _replay(bench)),
    }
    for name in EXPORTS:
        found[f"export {name}"] = await _each(bench, versions, _export(bench, name))
    found["audit, per event"] = await _audit(bench)
    return found


def _jobs(made: Run) -> dict[str, Cost]:
    total = sum(made.stages.values())
    return {
        stage.lower(): Cost(
            python=made.python / made.passports * made.stages[stage] / total,
            postgres=made.postgres / made.passports * made.stages[stage] / total,
        )
        for stage in STAGES
    }


Stage = Callable[[Connection, PassportVersionId], Awaitable[object]]


def _activate(bench: Bench) -> Stage:
    return lambda conn, version: activate(conn, bench.tenant, version, act=Act(None, fresh.now()))


def _replay(bench: Bench) -> Stage:
    async def again(conn: Connection, version: PassportVersionId) -> None:
        found = await replay(conn, bench.tenant, version, act=Act(None, fresh.now()))
        if found.refusal is not None:
            raise found.refusal

    return again


def _export(bench: Bench, name: Format) -> Stage:
    async def made(conn: Connection, version: PassportVersionId) -> bytes:
        bundle = await bundles.bundle(conn, bench.tenant, version, with_events=name == "BUNDLE")
        return exported(bundle, name, audience_for(name, None))

    return made


async def _each(bench: Bench, versions: Sequence[PassportVersionId], stage: Stage) -> Cost:
    start = _times(bench)
    for version in versions:
        async with bench.database.tenant(bench.tenant) as conn:
            await stage(conn, version)
    return _since(bench, start, len(versions))


async def _audit(bench: Bench) -> Cost:
    start = _times(bench)
    async with bench.database.tenant(bench.tenant) as conn:
        verified = await events.verify_tenant(conn, bench.tenant)
    return _since(bench, start, verified.events)


def _times(bench: Bench) -> Cost:
    return Cost(python=time.process_time(), postgres=bench.postgres_seconds())


def _since(bench: Bench, start: Cost, count: int) -> Cost:
    now = _times(bench)
    return Cost(python=(now.python - start.python) / count, postgres=(now.postgres - start.postgres) / count)


def _shown(cost: Cost) -> str:
    return f"{cost.python * 1e3:.2f} + {cost.postgres * 1e3:.2f}"
