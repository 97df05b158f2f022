"""The job engine against other Postgres queues and against a bare prototype, on an embedded PostgreSQL 18.

Durable defaults (fsync and synchronous_commit stay on), a handler that does nothing, a fresh database for every single
measurement. In each repeat the candidates take turns at each measure; a figure is the median of the repeats, beside
it in brackets the ratio to the prototype. How each measure is taken is said in `bench._queues.run`.

    BENCH_QUEUES=prototype,bpc   only these candidates
    BENCH_REPEATS=3  BENCH_JOBS=10000   how often, and how many jobs

Candidates run in `.bench-queues` where that exists, all with the same Python; otherwise in this environment. One that
is not installed or fails stays in the table, with the reason below it.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncpg

from bench import Table
from bpc.db import embedded
from bpc.db.embedded.prepare import prepare

ROOT: Final = Path(__file__).parents[1]
ENVIRONMENT: Final = ROOT / ".bench-queues"
YARDSTICK: Final = "prototype"
# What a candidate is called, and its module in `bench._queues`.
CANDIDATES: Final[Mapping[str, str]] = {
    YARDSTICK: "prototype",
    "prototype-notifying": "prototype_notifying",
    "bpc": "ours",
    "bpc-apart": "ours_apart",
    "pgqueuer": "pgqueuer",
    "awa-pg": "awa",
    "oban": "oban",
    "chancy": "chancy",
    "saq": "saq",
    "procrastinate": "procrastinate",
    "dbos": "dbos",
}
JOBS: Final = int(os.environ.get("BENCH_JOBS", "10000"))
REPEATS: Final = int(os.environ.get("BENCH_REPEATS", "3"))
MEASURES: Final = (
    ("drain", JOBS, 1),
    ("drain", JOBS, 2),
    ("single", max(500, JOBS // 5)),
    ("pickup", 200),
)
PATIENCE_SECONDS: Final = 600
NOTE: Final = """\
in brackets: of the prototype in this run; –: no such thing, or not measured
single submits have a transaction each, but for bpc, where those that arrive together share one; bpc-apart as the others
NOTIFY: prototype after the commit, at most once in 2 ms; prototype-notifying in every submitting transaction"""


@dataclass(slots=True)
class Found:
    """What is known of a candidate: every figure of every repeat, or why there is none."""

    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    name: str = ""
    problem: str = ""

    def median(self, figure: str) -> float | None:
        return statistics.median(self.figures[figure]) if self.figures[figure] else None


def run() -> Iterable[Table]:
    found = {name: Found(name=name) for name in _wanted()}
    with _server() as server:
        for repeat in range(REPEATS):
            for measure in MEASURES:
                print(f"jobs: repeat {repeat + 1} of {REPEATS}, {measure[0]}", file=sys.stderr, flush=True)
                for name, of in found.items():
                    if not of.problem:
                        _measure(server, name, measure, of)
    yield _table(found)


def _wanted() -> list[str]:
    names = [name for name in os.environ.get("BENCH_QUEUES", "").split(",") if name]
    unknown = [name for name in names if name not in CANDIDATES]
    if unknown:
        raise SystemExit(f"no queue is called `{unknown[0]}`; there are {', '.join(CANDIDATES)}")
    return names or list(CANDIDATES)


@contextmanager
def _server() -> Iterator[embedded.Server]:
    folder = Path(tempfile.mkdtemp(prefix="bpc-bench-"))
    folder.chmod(0o711)  # the server's own user passes through it
    try:
        with embedded.use(folder) as server:
            asyncio.run(prepare(server, "bpc"))
            yield server
            server.release_and_wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(server: embedded.Server, name: str, measure: tuple[str | int, ...], found: Found) -> None:
    what, *numbers = map(str, measure)
    asyncio.run(_execute(server, "DROP DATABASE IF EXISTS measured WITH (FORCE)", "CREATE DATABASE measured"))
    sockets = server.superuser_address().host
    command = [_python(), "-m", "bench._queues.run", "measure", CANDIDATES[name], what, sockets, "measured", *numbers]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            timeout=PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        found.problem = f"{what}: no end within {PATIENCE_SECONDS} s"
        return
    said = json.loads((done.stdout.splitlines() or ["{}"])[-1]) if done.returncode == 0 else {}
    if not said:
        found.problem = f"{what}: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}"
    elif "absent" in said:
        found.problem = _reason(name, said["absent"])
    else:
        found.name = f"{name} {said.pop('version')}".strip()
        for figure, value in said.items():
            found.figures[figure].append(value)


def _python() -> str:
    own = ENVIRONMENT / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def _reason(name: str, absent: str) -> str:
    """What the installer said, if it was asked; otherwise what the import says."""
    said = ENVIRONMENT / f"{name}.failed"
    if said.exists():
        return "not installed: " + " ".join(said.read_text().split())
    return absent if ENVIRONMENT.exists() else f"{absent} (`make bench` makes an environment with it)"


async def _execute(server: embedded.Server, *statements: str) -> None:
    conn = await asyncpg.connect(**server.superuser_address().connect_arguments())
    for statement in statements:
        await conn.execute(statement)
    await conn.close()


def _table(found: dict[str, Found]) -> Table:
    bare = found.get(YARDSTICK, Found())
    rows = tuple(
        (
            of.name,
            _rate(of, bare, "drain1"),
            _rate(of, bare, "drain2"),
            _rate(of, bare, "single"),
            _rate(of, bare, "bulk"),
            _latency(of, bare),
        )
        for of in found.values()
    )
    problems = [f"{of.name}: {of.problem}" for of in found.values() if of.problem]
    return Table(
        title=f"Job queues: medians of {REPEATS}, drains of {JOBS:,} jobs",
        columns=("", "drain, 1 worker (/s)", "2 workers (/s)", "single enqueue (/s)", "bulk (/s)", "p50 / p99 (ms)"),
        rows=rows,
        note="\n".join([NOTE, *problems]),
    )


def _rate(of: Found, bare: Found, figure: str) -> str:
    value, unit = of.median(figure), bare.median(figure)
    if value is None:
        return "–"
    return f"{value:,.0f} ({value / unit:.2f})" if unit else f"{value:,.0f}"


def _latency(of: Found, bare: Found) -> str:
    p50, p99 = of.median("p50"), of.median("p99")
    if p50 is None or p99 is None:
        return "–"
    half, most = bare.median("p50"), bare.median("p99")
    ratios = f" ({p50 / half:.2f} / {p99 / most:.2f})" if half and most else ""
    return f"{p50:.1f} / {p99:.1f}{ratios}"
