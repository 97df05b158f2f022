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
from bpc.runtime import postgres
from bpc.storage.database import prepare_embedded_server

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
class CandidateResult:
    """What is known of a candidate: every figure of every repeat, or why there is none."""

    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    name: str = ""
    problem: str = ""

    def compute_median(self, figure: str) -> float | None:
        return statistics.median(self.figures[figure]) if self.figures[figure] else None


def run() -> Iterable[Table]:
    results = {name: CandidateResult(name=name) for name in _choose_candidates()}
    with _run_server() as server:
        for repeat in range(REPEATS):
            for measure in MEASURES:
                print(f"jobs: repeat {repeat + 1} of {REPEATS}, {measure[0]}", file=sys.stderr, flush=True)
                for name, result in results.items():
                    if not result.problem:
                        _measure_candidate(server, name, measure, result)
    yield _build_table(results)


def _choose_candidates() -> list[str]:
    names = [name for name in os.environ.get("BENCH_QUEUES", "").split(",") if name]
    unknown = [name for name in names if name not in CANDIDATES]
    if unknown:
        raise SystemExit(f"no queue is called `{unknown[0]}`; there are {', '.join(CANDIDATES)}")
    return names or list(CANDIDATES)


@contextmanager
def _run_server() -> Iterator[postgres.EmbeddedServer]:
    folder = Path(tempfile.mkdtemp(prefix="bpc-bench-"))
    folder.chmod(0o711)  # the server's own user passes through it
    try:
        with postgres.use_server(folder) as server:
            asyncio.run(prepare_embedded_server(server, "bpc"))
            yield server
            server.release_and_wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure_candidate(
    server: postgres.EmbeddedServer, name: str, measure: tuple[str | int, ...], result: CandidateResult
) -> None:
    what, *numbers = map(str, measure)
    asyncio.run(
        _execute_statements(server, "DROP DATABASE IF EXISTS measured WITH (FORCE)", "CREATE DATABASE measured")
    )
    sockets = server.superuser_address().host
    command = [
        _find_python(),
        "-m",
        "bench._queues.run",
        "measure",
        CANDIDATES[name],
        what,
        sockets,
        "measured",
        *numbers,
    ]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    try:
        completed = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            timeout=PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        result.problem = f"{what}: no end within {PATIENCE_SECONDS} s"
        return
    report = json.loads((completed.stdout.splitlines() or ["{}"])[-1]) if completed.returncode == 0 else {}
    if not report:
        result.problem = f"{what}: {(completed.stderr.strip().splitlines() or ['it said nothing'])[-1]}"
    elif "absent" in report:
        result.problem = _explain_absence(name, report["absent"])
    else:
        result.name = f"{name} {report.pop('version')}".strip()
        for figure, value in report.items():
            result.figures[figure].append(value)


def _find_python() -> str:
    own = ENVIRONMENT / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def _explain_absence(name: str, absent: str) -> str:
    """What the installer said, if it was asked; otherwise what the import says."""
    failure_file = ENVIRONMENT / f"{name}.failed"
    if failure_file.exists():
        return "not installed: " + " ".join(failure_file.read_text().split())
    return absent if ENVIRONMENT.exists() else f"{absent} (`make bench` makes an environment with it)"


async def _execute_statements(server: postgres.EmbeddedServer, *statements: str) -> None:
    conn = await asyncpg.connect(**server.superuser_address().connect_arguments())
    for statement in statements:
        await conn.execute(statement)
    await conn.close()


def _build_table(results: dict[str, CandidateResult]) -> Table:
    bare = results.get(YARDSTICK, CandidateResult())
    rows = tuple(
        (
            result.name,
            _format_rate(result, bare, "drain1"),
            _format_rate(result, bare, "drain2"),
            _format_rate(result, bare, "single"),
            _format_rate(result, bare, "bulk"),
            _format_latency(result, bare),
        )
        for result in results.values()
    )
    problems = [f"{result.name}: {result.problem}" for result in results.values() if result.problem]
    return Table(
        title=f"Job queues: medians of {REPEATS}, drains of {JOBS:,} jobs",
        columns=("", "drain, 1 worker (/s)", "2 workers (/s)", "single enqueue (/s)", "bulk (/s)", "p50 / p99 (ms)"),
        rows=rows,
        note="\n".join([NOTE, *problems]),
    )


def _format_rate(result: CandidateResult, bare: CandidateResult, figure: str) -> str:
    value, unit = result.compute_median(figure), bare.compute_median(figure)
    if value is None:
        return "–"
    return f"{value:,.0f} ({value / unit:.2f})" if unit else f"{value:,.0f}"


def _format_latency(result: CandidateResult, bare: CandidateResult) -> str:
    p50, p99 = result.compute_median("p50"), result.compute_median("p99")
    if p50 is None or p99 is None:
        return "–"
    half, most = bare.compute_median("p50"), bare.compute_median("p99")
    ratios = f" ({p50 / half:.2f} / {p99 / most:.2f})" if half and most else ""
    return f"{p50:.1f} / {p99:.1f}{ratios}"
