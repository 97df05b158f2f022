"""The command `service-jobs`: install the tables, look at jobs, control them, and run a worker.

    export DATABASE_URL=postgresql://localhost/app
    service-jobs install
    service-jobs list --tenant 0190a7c4-0000-7000-8000-000000000001 --status FAILED
    service-jobs worker app.jobs:handlers --concurrency 8
    service-jobs top

Every command but `worker` and `top` prints JSON, one value per line. Exit codes: 0 done, 1 refused, 2 wrong usage.
"""

import argparse
import asyncio
import importlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, is_dataclass
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from service_jobs import job_control, queries, schedules
from service_jobs.command.top import run_top
from service_jobs.context import Connection
from service_jobs.database import CONNECTION_LOST, install, list_pending
from service_jobs.handler import Handlers
from service_jobs.job import JobsRefusal, Status, Subject
from service_jobs.job_spec import Defaults, JobSpecBuilder
from service_jobs.service import Jobs
from service_jobs.worker import Worker, WorkerOptions


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options = build_parser().parse_args(arguments)
    if not options.database and options.command != "types":
        print("error: name a database with --database or DATABASE_URL", file=sys.stderr)  # noqa: T201
        return 2
    try:
        asyncio.run(_run(options))
    except KeyboardInterrupt:  # what ends `top` and `wait`; a worker stops by itself
        return 0 if options.command == "top" else 130
    except JobsRefusal as refusal:
        print(f"error: {refusal.says}" + (f"; {refusal.fix}" if refusal.fix else ""), file=sys.stderr)  # noqa: T201
        return 1
    except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
        print(f"error: {str(error) or type(error).__name__}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="service-jobs", description="Background jobs on PostgreSQL.")
    parser.add_argument("--database", default=os.environ.get("DATABASE_URL"), help="a URL; default: DATABASE_URL")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    commands.add_parser("install", help="create the engine's tables, or bring them up to date")
    commands.add_parser("pending", help="list the migrations that `install` would apply")
    stats = commands.add_parser("stats", help="count jobs by type, and show the health of the queue")
    stats.add_argument("--tenant", type=UUID, help="default: all tenants")
    listing = commands.add_parser("list", help="list jobs, newest first")
    listing.add_argument("--type")
    listing.add_argument("--status", type=Status, choices=list(Status))
    listing.add_argument("--subject", type=_parse_subject, metavar="KIND:ID", help="what the jobs are about")
    listing.add_argument("--group", help="the group of their subjects")
    listing.add_argument("--limit", type=int, default=50)
    listing.add_argument("--tenant", type=UUID, required=True)
    for name, text in (
        ("show", "show one job"),
        ("wait", "wait until a job is over, then show it"),
        ("cancel", "cancel a job"),
        ("redrive", "run a failed or cancelled job again"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("job_id", type=UUID, metavar="ID")
        command.add_argument("--tenant", type=UUID, required=True)
        if name == "wait":
            command.add_argument("--timeout", type=float, help="seconds")
        if name == "cancel":
            command.add_argument("--reason")
    commands.add_parser("schedules", help="list schedules").add_argument("--tenant", type=UUID, required=True)
    top = commands.add_parser("top", help="watch queues, running jobs, rates, failures and workers")
    top.add_argument("--tenant", type=UUID, help="default: all tenants")
    top.add_argument("--interval", type=float, default=2.0, help="seconds between two looks; default: 2")
    top.add_argument("--once", action="store_true", help="look once (twice, for the rates) and end")
    top.add_argument("--json", action="store_true", help="print one JSON object for each look")
    types = commands.add_parser("types", help="list job types with timeout, attempts and retention")
    types.add_argument("handlers", metavar="MODULE:HANDLERS", help="a `Handlers` object, such as app.jobs:handlers")
    worker = commands.add_parser("worker", help="run jobs until SIGTERM or SIGINT")
    worker.add_argument("handlers", metavar="MODULE:HANDLERS", help="a `Handlers` object, such as app.jobs:handlers")
    worker.add_argument("--concurrency", type=int, default=4)
    return parser


async def _run(options: argparse.Namespace) -> None:
    match options.command:
        case "worker":
            await _run_worker(options.database, _load_handlers(options.handlers), options.concurrency)
        case "top":
            await run_top(
                options.database, options.tenant, interval=options.interval, once=options.once, as_json=options.json
            )
        case "types":
            _print_values(JobSpecBuilder(_load_handlers(options.handlers), Defaults()).describe_types())
        case "wait":
            async with Jobs.connect(options.database, Handlers(), size=1) as jobs:
                _print_values([await jobs.wait(options.tenant, options.job_id, timeout=options.timeout)])
        case _:
            async with _open_transaction(options.database, getattr(options, "tenant", None)) as conn:
                _print_values(await _execute(conn, options))


async def _execute(conn: Connection, options: argparse.Namespace) -> Iterable[object]:
    values: Iterable[object]
    match options.command:
        case "install":
            values = await install(conn)
        case "pending":
            values = await list_pending(conn)
        case "stats":
            health = await queries.get_health(conn, options.tenant)
            types = await queries.count_by_type(conn, options.tenant)
            values = [asdict(health), *({"type": name, **asdict(counts)} for name, counts in types.items())]
        case "list":
            values = await queries.list_jobs(
                conn,
                options.tenant,
                job_type=options.type,
                status=options.status,
                subject=options.subject,
                subject_group=options.group,
                limit=options.limit,
            )
        case "schedules":
            values = await schedules.list_schedules(conn, options.tenant)
        case "cancel":
            outcome = await job_control.cancel_job(conn, options.tenant, options.job_id, options.reason)
            values = [{"job_id": options.job_id, "requested": isinstance(outcome, job_control.CancelRequest)}]
        case _:  # show and redrive
            if options.command == "redrive":
                await job_control.redrive_job(conn, options.tenant, options.job_id)
            values = [await queries.get_job(conn, options.tenant, options.job_id)]
    return values


@asynccontextmanager
async def _open_transaction(dsn: str, tenant: UUID | None) -> AsyncIterator[Connection]:
    conn = await asyncpg.connect(dsn, server_settings={"application_name": "service-jobs command"})
    try:
        async with conn.transaction():
            if tenant is not None:
                await conn.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant))
            yield conn
    finally:
        await conn.close()


async def _run_worker(dsn: str, handlers: Handlers, concurrency: int) -> None:
    async with Jobs.connect(dsn, handlers, size=concurrency + 2) as jobs:
        worker = Worker(jobs, WorkerOptions(concurrency=concurrency))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, worker.stop)
        await worker.run()


def _parse_subject(text: str) -> Subject:
    kind, _, subject_id = text.partition(":")
    try:
        return Subject(kind, subject_id)
    except JobsRefusal as refusal:
        raise argparse.ArgumentTypeError(f"write KIND:ID, such as invoice:4711; {refusal.says}") from None


def _load_handlers(name: str) -> Handlers:
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, "")  # as `python -m` does
    try:
        handlers = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise JobsRefusal(f"cannot load `{name}`: {error}", fix="name it as MODULE:HANDLERS") from error
    if not isinstance(handlers, Handlers):
        raise JobsRefusal(f"`{name}` is not a `Handlers` object", fix="name it as MODULE:HANDLERS")
    return handlers


def _print_values(values: Iterable[object]) -> None:
    for value in values:
        data: Any = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
        print(orjson.dumps(data, default=str).decode())  # noqa: T201
