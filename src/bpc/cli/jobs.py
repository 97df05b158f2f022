"""`bpc jobs`: what waits, runs and failed, and what to do about it."""

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final
from uuid import UUID

import typer

from bpc import fresh
from bpc.cli import jobs_shown as shown
from bpc.cli.output import REFUSED, AsJson, print_json, say
from bpc.cli.session import operator_act, settings_for
from bpc.cli.text import checked_text
from bpc.core.errors import Invalid
from bpc.core.ids import TenantId, parse_uuid
from bpc.db import jobs as recorded
from bpc.db import tenants
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.opening import opened
from bpc.jobs import changes, queries
from bpc.jobs import schedules as keeping
from bpc.jobs.changes import Cancelled, Cancelling
from bpc.jobs.health import Health, OfType, by_type, health
from bpc.jobs.job import Job
from bpc.jobs.outcome import Status
from bpc.jobs.schedules import Scheduled
from bpc.settings import Settings

app = typer.Typer(
    help="List, watch, retry and cancel jobs.\n\n"
    "Everything that takes longer than a request is a job of a tenant. A job that failed for good waits for somebody "
    "to look at it: its status is FAILED if trying again would not help, and DEAD_LETTER if it was tried too often.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

POLL_SECONDS: Final = 0.5
AGO: Final = re.compile(r"(?P<count>[0-9]{1,6})(?P<unit>[smhd])")
SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

TenantSlug = Annotated[str, typer.Option("--tenant", metavar="SLUG", help="The tenant's short name.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id.", show_default=False)]
JobType = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only jobs of this type.")]


@app.command("list")
def list_jobs(
    tenant: TenantSlug,
    job_type: JobType = None,
    status: Annotated[
        Status | None,
        typer.Option("--status", metavar="STATUS", help="QUEUED, RUNNING, FAILED …", case_sensitive=False),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Like 30m, 2h, 7d or 2027-02-18T12:00:00Z.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=queries.MOST, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List a tenant's jobs, the newest first.

    \b
    bpc jobs list --tenant acme --status DEAD_LETTER --since 7d
    """
    after = None if since is None else _moment(since)
    slug = checked_text("the slug", tenant)
    found = asyncio.run(_list(settings_for("jobs"), slug, _checked_type(job_type), status, after, limit))
    if as_json:
        print_json([shown.as_json(job) for job in found])
    else:
        shown.print_jobs(found)


@app.command()
def show(job: JobId, tenant: TenantSlug, as_json: AsJson = False) -> None:
    """Show all that is known of a job, except its payload."""
    found, result = asyncio.run(_show(settings_for("jobs"), checked_text("the slug", tenant), parse_uuid(job)))
    if as_json:
        print_json(shown.as_json(found) | {"result": None if result is None else json.loads(result)})
    else:
        shown.print_job(found, result)


@app.command()
def watch(job: JobId, tenant: TenantSlug, as_json: AsJson = False) -> None:
    """Follow a job until it is over; exit 1 unless it succeeds."""
    slug, job_id = checked_text("the slug", tenant), parse_uuid(job)
    status = asyncio.run(_watch(settings_for("jobs"), slug, job_id, as_json=as_json))
    if status is not Status.SUCCEEDED:
        raise typer.Exit(REFUSED)


@app.command()
def retry(job: JobId, tenant: TenantSlug, as_json: AsJson = False) -> None:
    """Run a job again that failed or was cancelled, or run one now.

    It starts from its last checkpoint and has all its attempts again; jobs that were cancelled because of it wait for
    it once more.
    """
    job_id = parse_uuid(job)
    asyncio.run(_retry(settings_for("jobs"), checked_text("the slug", tenant), job_id))
    if as_json:
        print_json({"job_id": job, "status": str(Status.QUEUED)})
    else:
        say(f"job {job} is queued")


@app.command()
def cancel(
    job: JobId,
    tenant: TenantSlug,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Goes on record.")] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a job; one that runs is asked to stop."""
    why = reason and checked_text("the reason", reason)
    outcome = asyncio.run(_cancel(settings_for("jobs"), checked_text("the slug", tenant), parse_uuid(job), why))
    stopped = isinstance(outcome, Cancelled)
    if as_json:
        print_json({"job_id": job, "status": str(Status.CANCELLED if stopped else Status.RUNNING)})
    elif stopped:
        say(f"job {job} is cancelled")
    else:
        say(f"job {job} runs and was asked to stop; `bpc jobs watch {job} --tenant {tenant}` shows when it does")


@app.command()
def redrive(
    tenant: TenantSlug,
    job_type: JobType = None,
    status: Annotated[
        Status | None,
        typer.Option(
            "--status", metavar="STATUS", help="FAILED or DEAD_LETTER; both if left out.", case_sensitive=False
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=changes.MOST, help="At most so many.")
    ] = 1_000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many there are.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run all jobs again that failed.

    \b
    bpc jobs redrive --tenant acme --type SIGN --status DEAD_LETTER --dry-run
    """
    slug, kind = checked_text("the slug", tenant), _checked_type(job_type)
    done, left = asyncio.run(_redrive(settings_for("jobs"), slug, kind, status, limit, dry_run=dry_run))
    if as_json:
        print_json({"redriven": done, "left": left})
    elif dry_run:
        say(f"would run {_jobs(min(left, limit))} again" + (f" of {left:,}" if left > limit else ""))
    else:
        say(f"{_jobs(done)} queued again" + (f", {left:,} left" if left else ""))


@app.command()
def stats(
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="SLUG", help="One tenant; all if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what waits and runs, by type, and who is there to do it."""
    slug = None if tenant is None else checked_text("the slug", tenant)
    found, types = asyncio.run(_stats(settings_for("jobs"), slug))
    if as_json:
        print_json(shown.health_as_json(found, types))
    else:
        shown.print_health(found, types)


@app.command()
def schedules(
    tenant: TenantSlug,
    pause: Annotated[str | None, typer.Option("--pause", metavar="NAME", help="Submit nothing from now on.")] = None,
    resume: Annotated[str | None, typer.Option("--resume", metavar="NAME", help="Go on with what comes next.")] = None,
    remove: Annotated[str | None, typer.Option("--remove", metavar="NAME", help="Forget it; its jobs stay.")] = None,
    as_json: AsJson = False,
) -> None:
    """List a tenant's schedules; pause, resume or remove one."""
    asked = [(pause, keeping.pause), (resume, keeping.resume), (remove, keeping.remove)]
    wanted = [(checked_text("the name", name), change) for name, change in asked if name is not None]
    if len(wanted) > 1:
        raise typer.BadParameter("Say one of --pause, --resume and --remove.")
    found = asyncio.run(_schedules(settings_for("jobs"), checked_text("the slug", tenant), wanted))
    if as_json:
        print_json([shown.schedule_as_json(each) for each in found])
    else:
        shown.print_schedules(found)


async def _list(
    settings: Settings, slug: str, job_type: str | None, status: Status | None, after: datetime | None, limit: int
) -> list[Job]:
    async with opened(settings) as database:
        tenant = await _tenant(database, slug)
        async with database.tenant(tenant) as conn:
            return await queries.page(conn, tenant, job_type=job_type, status=status, created_after=after, limit=limit)


async def _show(settings: Settings, slug: str, job_id: UUID) -> tuple[Job, str | None]:
    """The job, and the JSON that it returned."""
    async with opened(settings) as database:
        tenant = await _tenant(database, slug)
        async with database.tenant(tenant) as conn:
            _, result, _ = await queries.result_text(conn, tenant, job_id)
        return await _job(database, tenant, job_id), result


async def _watch(settings: Settings, slug: str, job_id: UUID, *, as_json: bool) -> Status:
    async with opened(settings) as database:
        tenant = await _tenant(database, slug)
        before = None
        while True:
            job = await _job(database, tenant, job_id)
            now = (job.status, job.attempts, job.progress, job.cancel_requested)
            if now != before:
                _print_change(job, as_json=as_json)
            if job.is_over:
                return job.status
            before = now
            await asyncio.sleep(POLL_SECONDS)


def _print_change(job: Job, *, as_json: bool) -> None:
    """A line of its own, or on a terminal the one line there is, written anew."""
    if as_json:
        print_json(shown.as_json(job))
    elif sys.stdout.isatty():
        typer.echo(f"\r\x1b[K{shown.line(job)}", nl=job.is_over)
    else:
        say(shown.line(job))
    sys.stdout.flush()


async def _retry(settings: Settings, slug: str, job_id: UUID) -> None:
    async with opened(settings) as database:
        tenant = await _tenant(database, slug)
        async with database.tenant(tenant) as conn:
            await recorded.retry(conn, tenant, job_id, act=operator_act())


async def _cancel(settings: Settings, slug: str, job_id: UUID, reason: str | None) -> Cancelled | Cancelling:
    async with opened(settings) as database:
        tenant = await _tenant(database, slug)
        async with database.tenant(tenant) as conn:
            return await recorded.cancel(conn, tenant, job_id, act=operator_act(), reason=reason)


async def _redrive(
    settings: Settings, slug: str, job_type: str | None, status: Status | None, limit: int, *, dry_run: bool
) -> tuple[int, int]:
    """How many were run again, and how many are left."""
    async with opened(settings) as database:
        tenant, done = await _tenant(database, slug), 0
        if not dry_run:
            done = await recorded.retry_all(
                database, tenant, job_type=job_type, status=status, limit=limit, act=operator_act()
            )
        async with database.tenant(tenant) as conn:
            return done, await changes.count_bad(conn, tenant, job_type=job_type, status=status)


async def _stats(settings: Settings, slug: str | None) -> tuple[Health, dict[str, OfType]]:
    async with opened(settings) as database:
        tenant = None if slug is None else await _tenant(database, slug)
        async with database.system() if tenant is None else database.tenant(tenant) as conn:
            return await health(conn, tenant), await by_type(conn, tenant)


async def _schedules(
    settings: Settings, slug: str, wanted: Sequence[tuple[str, Callable[[Connection, UUID, str], Awaitable[None]]]]
) -> list[Scheduled]:
    async with opened(settings) as database:
        tenant = await _tenant(database, slug)
        async with database.tenant(tenant) as conn:
            for name, change in wanted:
                await change(conn, tenant, name)
            return await keeping.every(conn, tenant)


async def _tenant(database: Database, slug: str) -> TenantId:
    return (await tenants.find(database, slug)).tenant_id


async def _job(database: Database, tenant: TenantId, job_id: UUID) -> Job:
    async with database.tenant(tenant) as conn:
        return await queries.get(conn, tenant, job_id)


def _moment(text: str) -> datetime:
    """`30m` ago, or the moment that is written; without a time zone it is UTC."""
    if ago := AGO.fullmatch(text):
        return fresh.now() - timedelta(seconds=int(ago["count"]) * SECONDS[ago["unit"]])
    try:
        moment = datetime.fromisoformat(checked_text("the time", text))
    except ValueError:
        raise Invalid(
            f"`{text}` is no time", fix="write how long ago, like 30m, 2h or 7d, or a time like 2027-02-18T12:00:00Z"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment


def _checked_type(job_type: str | None) -> str | None:
    return None if job_type is None else checked_text("the type", job_type)


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"
