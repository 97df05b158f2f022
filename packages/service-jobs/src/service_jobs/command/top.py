"""`service-jobs top`: the queue while it works, in the terminal.

    service-jobs top                      until Ctrl-C; needs the extra `top` (rich)
    service-jobs top --once               one look, for a script or a log
    service-jobs top --json --interval 5  one JSON object a line, for a program

A rate needs two looks, so the first appears after one interval; `--once` waits for it. When the output is not a
terminal, one look is printed and the command ends.
"""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from uuid import UUID

import asyncpg
import orjson

from service_jobs.command.queue_view import QueueView, Rates, compute_rates, look_at_queue, to_json_value
from service_jobs.context import Connection
from service_jobs.job import JobsRefusal
from service_jobs.queries import MAX_COUNTED

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

# PostgreSQL's counters arrive in bursts: a rate over a few looks is steadier than one over two.
AVERAGED_SECONDS: Final = 10.0


async def run_top(dsn: str, tenant: UUID | None, *, interval: float, once: bool, as_json: bool) -> None:
    """Show the queue until Ctrl-C, or once."""
    if interval <= 0:
        raise JobsRefusal(f"an interval of {interval:g} seconds is too short", fix="use a number above 0")
    if as_json:
        await _print_json(dsn, tenant, interval, once=once)
        return
    console = _make_console()
    if once or not sys.stdout.isatty():
        view, rates = await _look_twice(dsn, tenant, interval)
        console.print(draw_view(view, rates))
        return
    await _show_live(console, dsn, tenant, interval)


async def _print_json(dsn: str, tenant: UUID | None, interval: float, *, once: bool) -> None:
    if once:
        _print_line(*await _look_twice(dsn, tenant, interval))
        return
    async for view, rates in watch_queue(dsn, tenant, interval):
        _print_line(view, rates)


def _print_line(view: QueueView, rates: Rates | None) -> None:
    print(orjson.dumps(to_json_value(view, rates), default=str).decode(), flush=True)  # noqa: T201


async def _look_twice(dsn: str, tenant: UUID | None, interval: float) -> tuple[QueueView, Rates | None]:
    async with _connect(dsn) as conn:
        first = await _look(conn, tenant)
        await asyncio.sleep(interval)
        second = await _look(conn, tenant)
    return second, compute_rates(first, second)


async def watch_queue(dsn: str, tenant: UUID | None, interval: float) -> AsyncIterator[tuple[QueueView, Rates | None]]:
    """Look every `interval` seconds, for ever."""
    views: deque[QueueView] = deque(maxlen=max(2, round(AVERAGED_SECONDS / interval)))
    async with _connect(dsn) as conn:
        while True:
            view = await _look(conn, tenant)
            yield view, compute_rates(views[0], view) if views else None
            views.append(view)
            await asyncio.sleep(interval)


async def _look(conn: Connection, tenant: UUID | None) -> QueueView:
    # A transaction of its own for each: statistics stay as they were for as long as one lasts.
    async with conn.transaction(readonly=True):
        if tenant is not None:
            await conn.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant))
        return await look_at_queue(conn, tenant)


@asynccontextmanager
async def _connect(dsn: str) -> AsyncIterator[Connection]:
    conn = await asyncpg.connect(dsn, server_settings={"application_name": "service-jobs top"})
    try:
        yield conn
    finally:
        await conn.close()


async def _show_live(console: "Console", dsn: str, tenant: UUID | None, interval: float) -> None:
    from rich.live import Live  # noqa: PLC0415 (an extra)

    with Live(console=console, screen=True, auto_refresh=False) as live:
        async for view, rates in watch_queue(dsn, tenant, interval):
            live.update(draw_view(view, rates), refresh=True)


def _make_console() -> "Console":
    try:
        from rich.console import Console  # noqa: PLC0415 (an extra)
    except ImportError as error:
        fix = "install service-jobs[top], or use --json"
        raise JobsRefusal("`top` needs rich to draw", fix=fix) from error
    return Console()


# Drawing ------------------------------------------------------------------------------------------------------------


def draw_view(view: QueueView, rates: Rates | None) -> "RenderableType":
    """The queue as tables, one below the other."""
    from rich.console import Group  # noqa: PLC0415 (an extra)

    parts: list[RenderableType] = [_draw_head(view, rates), "", _draw_types(view)]
    if view.longest:
        parts += ["", _draw_longest(view)]
    if view.failures:
        parts += ["", _draw_failures(view)]
    return Group(*parts, "", _draw_workers(view))


def _draw_head(view: QueueView, rates: Rates | None) -> "RenderableType":
    health = view.health
    depth = f"{health.depth:,}" if health.depth_is_exact else f"{MAX_COUNTED:,} or more"
    speed = "rates after the next look"
    if rates is not None:
        speed = f"{rates.submitted:,.1f}/s submitted   {rates.started:,.1f}/s started   {rates.ended:,.1f}/s ended"
    figures = (("ready", depth), ("running", f"{health.active:,}"), ("workers", f"{health.workers}"))
    lines = [
        f"[bold]{_escape(view.database)}[/]   {view.at:%Y-%m-%d %H:%M:%S %Z}",
        "   ".join(f"{name} [bold]{figure}[/]" for name, figure in figures)
        + f"   oldest ready {format_age(health.oldest_seconds)}",
        speed,
    ]
    if health.stale:
        lines.append(f"[red]{health.stale:,} running jobs have a worker that is silent, or a lease that is over[/]")
    if health.unhandled:
        names = ", ".join(f"{_escape(name)} ({count:,})" for name, count in health.unhandled.items())
        lines.append(f"[red]no live worker knows: {names}[/]")
    return "\n".join(lines)


def _make_table(title: str, *columns: str) -> "Table":
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 (an extra)
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        is_number = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if is_number else "left", no_wrap=is_number)
    return table


def _draw_types(view: QueueView) -> "RenderableType":
    if not view.rows:
        return "no job waits, runs or has failed"
    table = _make_table(
        "queues", "type", ">ready", ">oldest", ">later", ">running", ">longest", ">failed", ">dead", ">in 5 min"
    )
    for row in view.rows:
        counts = row.counts
        recent = f"[red]{row.recent_failures:,}[/]" if row.recent_failures else "–"
        table.add_row(
            _escape(row.type),
            f"{counts.queued:,}",
            format_age(row.waiting_seconds),
            f"{counts.later:,}",
            f"{counts.running:,}",
            format_age(row.running_seconds),
            f"{counts.failed:,}",
            f"{counts.dead_letter:,}",
            recent,
        )
    return table


def _draw_longest(view: QueueView) -> "Table":
    table = _make_table("running longest", "job", "type", ">for", ">attempt", "progress", "worker")
    for job in view.longest:
        progress = " ".join(filter(None, (f"{job.percent} %" if job.percent else None, job.message))) or "–"
        worker = _escape(job.owner)
        table.add_row(
            str(job.job_id), _escape(job.type), format_age(job.seconds), str(job.attempt), _escape(progress), worker
        )
    return table


def _draw_failures(view: QueueView) -> "Table":
    table = _make_table("latest failures", "job", "type", ">ago", "status", "error")
    for job in view.failures:
        error = ": ".join(filter(None, (job.code, job.message))) or "–"
        table.add_row(str(job.job_id), _escape(job.type), format_age(job.seconds), job.status, _escape(error))
    return table


def _draw_workers(view: QueueView) -> "RenderableType":
    if not view.workers:
        return "[red]no worker[/]"
    table = _make_table("workers", "worker", ">types", ">running", ">up", ">heartbeat")
    for worker in view.workers:
        heartbeat = f"{format_age(worker.silent_seconds)} ago"
        if not worker.is_live:
            heartbeat = f"[red]silent for {format_age(worker.silent_seconds)}[/]"
        table.add_row(
            _escape(worker.owner), str(worker.types), f"{worker.running:,}", format_age(worker.up_seconds), heartbeat
        )
    return table


def format_age(seconds: float | None) -> str:
    """Two units at most: `240 ms`, `12.5 s`, `3 min 20 s`, `4 h 10 min`, `2 d 5 h`."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, part, part_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {part_unit}"
    raise AssertionError(seconds)


def _escape(text: str) -> str:
    from rich.markup import escape  # noqa: PLC0415 (an extra)

    # What a handler or a client wrote does not move the cursor.
    return escape("".join(letter if letter.isprintable() else "�" for letter in text))
