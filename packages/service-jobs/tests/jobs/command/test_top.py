"""`service-jobs top`: what people see of a queue that works, as a picture in the terminal and as JSON."""

import asyncio
import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from rich.console import Console
from service_jobs import Context, Handlers, Jobs, Worker, install, new_id
from service_jobs.command import main
from service_jobs.command.queue_view import QueueView, compute_rates, look_at_queue
from service_jobs.command.top import draw_view, format_age
from tests.jobs.support.database_url import format_url

from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer

pytestmark = pytest.mark.external

handlers = Handlers()
holds: list[asyncio.Event] = []  # the newest is that of this test


@handlers.job("greet")
async def greet(ctx: Context, name: str) -> str:
    return f"hello {name}"


@handlers.job("import_file")
async def import_file(ctx: Context, name: str) -> None:
    raise OSError(f"cannot read [bold]{name}\x1b[2J")


@handlers.job("wait_long")
async def wait_long(ctx: Context, name: str) -> None:
    await ctx.report_progress(40, "parsing")
    await holds[-1].wait()


@pytest.fixture
def url(server: TestServer, empty_address: Address) -> str:
    return format_url(server.admin.with_database(empty_address.database))


@pytest.fixture
async def working_queue(url: str) -> AsyncIterator[str]:
    """Three jobs over, one dead, one that runs, one for later, and two that no worker knows."""
    conn = await asyncpg.connect(url)
    await install(conn)
    await conn.close()
    unknown = Handlers()

    @unknown.job("nobody_knows")
    async def nobody_knows(ctx: Context, name: str) -> None: ...

    holds.append(asyncio.Event())
    tenant = new_id()
    async with Jobs.connect(url, handlers) as jobs, Jobs.connect(url, unknown, size=1) as other_jobs:
        worker = Worker(jobs)
        running = asyncio.create_task(worker.run())
        for name in ("a", "b", "c"):
            await jobs.wait(tenant, await jobs.submit(greet, name, tenant=tenant), timeout=30)
        await jobs.wait(tenant, await jobs.submit(import_file, "file.csv", tenant=tenant, attempts=1), timeout=30)
        await jobs.submit(greet, "later", tenant=tenant, delay=3600)
        long_id = await jobs.submit(wait_long, "x", tenant=tenant)
        await other_jobs.submit_many(nobody_knows, ["x", "y"], tenant=tenant)
        while (job := await jobs.get_job(tenant, long_id)).progress is None:
            await asyncio.sleep(0.01)
        assert job.status == "RUNNING"
        yield url
        holds[-1].set()
        worker.stop()
        await running


async def look(url: str) -> QueueView:
    conn = await asyncpg.connect(url)
    try:
        return await look_at_queue(conn)
    finally:
        await conn.close()


async def call_top(url: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "service_jobs.command", "--database", url, "top", *arguments),
        stdout=subprocess.PIPE,
        env=os.environ | {"COLUMNS": "140"},
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


async def test_a_look_shows_queues_running_jobs_failures_and_workers(working_queue: str) -> None:
    view = await look(working_queue)

    rows = {row.type: row for row in view.rows}
    assert (rows["greet"].counts.later, rows["greet"].counts.queued) == (1, 0)
    assert (rows["nobody_knows"].counts.queued, view.health.unhandled) == (2, {"nobody_knows": 2})
    assert 0 <= (rows["nobody_knows"].waiting_seconds or -1) < 60
    assert (rows["import_file"].counts.dead_letter, rows["import_file"].recent_failures) == (1, 1)
    assert 0 <= (rows["wait_long"].running_seconds or -1) < 60
    assert [(job.type, job.percent, job.attempt) for job in view.longest] == [("wait_long", "40", 1)]
    assert [(job.type, job.status) for job in view.failures] == [("import_file", "DEAD_LETTER")]
    [worker] = view.workers
    assert (worker.running, worker.types, worker.is_live) == (1, 3, True)


async def test_it_prints_one_look_as_tables_and_as_json(working_queue: str) -> None:
    tables = await call_top(working_queue, "--once", "--interval", "0.1")
    printed: Any = json.loads(await call_top(working_queue, "--once", "--json", "--interval", "0.1"))

    for words in ("no live worker knows: nobody_knows (2)", "wait_long", "40 % parsing", "/s submitted", "workers 1"):
        assert words in tables
    assert "cannot read [bold]file.csv�[2J" in tables  # neither markup nor a way to clear the screen
    assert "\x1b" not in tables
    assert printed["view"]["health"]["active"] == 1
    assert {row["type"] for row in printed["view"]["rows"]} == {"greet", "import_file", "nobody_knows", "wait_long"}
    assert printed["rates"].keys() == {"submitted", "started", "ended"}


async def test_in_a_terminal_it_goes_on_until_ctrl_c(working_queue: str) -> None:
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "service_jobs.command", "--database", working_queue, "top", "--interval", "0.05"],
        stdout=its,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "140", "LINES": "50"},
    )
    os.close(its)
    seen = ""
    while seen.count("running longest") < 3:
        seen += await asyncio.to_thread(lambda: os.read(ours, 65_536).decode(errors="replace"))

    process.send_signal(signal.SIGINT)

    while process.poll() is None:
        await asyncio.to_thread(_read_rest, ours)
    assert process.wait() == 0


def _read_rest(terminal: int) -> None:
    try:
        os.read(terminal, 65_536)
    except OSError:  # the other side is closed
        return


async def test_rates_are_what_the_counters_say_and_a_reset_is_no_rate(url: str) -> None:
    assert await asyncio.to_thread(main, ["--database", url, "install"]) == 0
    view = await look(url)
    later = replace(view, at=view.at + timedelta(seconds=4), submitted=view.submitted + 10, ended=view.ended + 2)

    rates = compute_rates(view, later)

    assert rates is not None
    assert (rates.submitted, rates.started, rates.ended) == (2.5, 0.0, 0.5)
    assert compute_rates(view, view) is None
    assert compute_rates(later, replace(view, at=later.at + timedelta(seconds=1))) is None


async def test_an_empty_queue_without_workers_says_so(url: str) -> None:
    assert await asyncio.to_thread(main, ["--database", url, "install"]) == 0
    output = io.StringIO()

    Console(file=output, width=100).print(draw_view(await look(url), None))

    assert "no job waits, runs or has failed" in output.getvalue()
    assert "no worker" in output.getvalue()


def test_what_cannot_be_shown_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--database", url, "top", "--interval", "0"]) == 1
    assert main(["--database", url, "top", "--once"]) == 1

    interval, tables = capsys.readouterr().err.splitlines()
    assert interval == "error: an interval of 0 seconds is too short; use a number above 0"
    assert "jobs" in tables


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.24, "240 ms"),
        (12.5, "12.5 s"),
        (200, "3 min 20 s"),
        (15_000, "4 h 10 min"),
        (190_800, "2 d 5 h"),
    ],
)
def test_ages_are_written_in_two_units(seconds: float | None, text: str) -> None:
    assert format_age(seconds) == text
