"""`bpc jobs`: what waits, runs and failed, and what to do about it."""

import asyncio
import json
import sys
from typing import Annotated, Final

import typer
from service_jobs import job_control, queries
from service_jobs.job import Job, Status, Subject
from service_jobs.job_control import CancelledJob

from bpc.cli.run import job_output
from bpc.cli.run.job_schedules import list_schedules, list_types, put_schedule
from bpc.cli.support.arguments import AnyTenantOption, TenantOption, command_group, make_utf8_check, require_utf8
from bpc.cli.support.list_options import TextOption
from bpc.cli.support.output import REFUSED, AsJson, format_count, print_json, print_line, print_result
from bpc.cli.support.session import load_settings_and_logs, make_operator_act, open_tenant
from bpc.cli.support.times import SinceOption, UntilOption, parse_when
from bpc.core.errors import Invalid
from bpc.core.formats.ids import parse_uuid
from bpc.storage import jobs as audited_jobs
from bpc.storage.access.tenants_and_actors import find_tenant
from bpc.storage.database import open_migrated_database

jobs_app = command_group(
    "List, watch, retry and cancel jobs.\n\n"
    "Everything that takes longer than a request is a job of a tenant. A job that failed for good stays until someone "
    "acts: FAILED means that a retry would not help, DEAD_LETTER that all attempts were used."
)

POLL_SECONDS: Final = 0.5

JobIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's id.", show_default=False)]
JobTypeOption = Annotated[
    str | None,
    typer.Option("--type", metavar="TYPE", help="Only jobs of this type.", callback=make_utf8_check("the type")),
]


@jobs_app.command("list")
async def list_jobs(
    tenant: TenantOption,
    job_type: JobTypeOption = None,
    status: Annotated[
        Status | None,
        typer.Option("--status", metavar="STATUS", help="QUEUED, RUNNING, FAILED …", case_sensitive=False),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    subject: Annotated[
        str | None,
        typer.Option("--subject", metavar="KIND:ID", help="Only jobs about this, like passport_version:0190…"),
    ] = None,
    sku: Annotated[str | None, typer.Option("--sku", metavar="SKU", help="Only jobs about this product.")] = None,
    text: TextOption = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=queries.MAX_PAGE_SIZE, help="Maximum number to show.")
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """List a tenant's jobs, the newest first, each with what it is about.

    \b
    bpc jobs list --tenant acme --status DEAD_LETTER --since 7d
    bpc jobs list --tenant acme --sku SKU-123
    """
    after, before = (None if when is None else parse_when(when) for when in (since, until))
    about = None if subject is None else _parse_subject(subject)
    async with open_tenant(load_settings_and_logs("jobs"), tenant) as (tenant_id, conn):
        jobs = await audited_jobs.find_jobs(
            conn,
            tenant_id,
            text=text,
            job_type=job_type,
            status=status,
            created_after=after,
            created_before=before,
            subject=about,
            subject_group=sku and require_utf8("the SKU", sku),
            limit=limit,
        )
    if as_json:
        print_json([job_output.job_to_json(job) for job in jobs])
    else:
        job_output.print_jobs(jobs)


@jobs_app.command()
async def show(job: JobIdArgument, tenant: TenantOption, as_json: AsJson = False) -> None:
    """Show all that is known of a job, except its payload."""
    job_id = parse_uuid(job)
    async with open_tenant(load_settings_and_logs("jobs"), tenant) as (tenant_id, conn):
        _, result, _ = await queries.get_result_text(conn, tenant_id, job_id)
        job_row = await queries.get_job(conn, tenant_id, job_id)
    if as_json:
        print_json(job_output.job_to_json(job_row) | {"result": None if result is None else json.loads(result)})
    else:
        job_output.print_job(job_row, result)


@jobs_app.command()
async def watch(job: JobIdArgument, tenant: TenantOption, as_json: AsJson = False) -> None:
    """Follow a job until it is over; exit 1 unless it succeeds."""
    job_id = parse_uuid(job)
    async with open_migrated_database(load_settings_and_logs("jobs")) as database:
        tenant_id = (await find_tenant(database, tenant)).tenant_id
        last_state = None
        while True:
            async with database.tenant(tenant_id) as conn:
                job_row = await queries.get_job(conn, tenant_id, job_id)
            state = (job_row.status, job_row.attempts, job_row.progress, job_row.cancel_requested)
            if state != last_state:
                _print_change(job_row, as_json=as_json)
            if job_row.is_over:
                break
            last_state = state
            await asyncio.sleep(POLL_SECONDS)
    if job_row.status is not Status.SUCCEEDED:
        raise typer.Exit(REFUSED)


@jobs_app.command()
async def retry(job: JobIdArgument, tenant: TenantOption, as_json: AsJson = False) -> None:
    """Retry a failed or cancelled job, or run a waiting one now.

    It starts from its last checkpoint and gets all its attempts back. Jobs that were cancelled because of it wait for
    it again.
    """
    job_id = parse_uuid(job)
    async with open_tenant(load_settings_and_logs("jobs"), tenant) as (tenant_id, conn):
        await audited_jobs.retry_job(conn, tenant_id, job_id, act=make_operator_act())
    print_result({"job_id": job, "status": Status.QUEUED}, f"job {job} is queued", as_json=as_json)


@jobs_app.command()
async def cancel(
    job: JobIdArgument,
    tenant: TenantOption,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Stored in the audit log.")] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a job; a running job is asked to stop."""
    checked_reason, job_id = reason and require_utf8("the reason", reason), parse_uuid(job)
    async with open_tenant(load_settings_and_logs("jobs"), tenant) as (tenant_id, conn):
        outcome = await audited_jobs.cancel_job(conn, tenant_id, job_id, act=make_operator_act(), reason=checked_reason)
    if isinstance(outcome, CancelledJob):
        status, says = Status.CANCELLED, f"job {job} is cancelled"
    else:
        watch_command = f"`bpc jobs watch {job} --tenant {tenant}`"
        status, says = Status.RUNNING, f"job {job} runs and was asked to stop; {watch_command} shows when it does"
    print_result({"job_id": job, "status": status}, says, as_json=as_json)


@jobs_app.command()
async def redrive(
    tenant: TenantOption,
    job_type: JobTypeOption = None,
    status: Annotated[
        Status | None,
        typer.Option("--status", metavar="STATUS", help="FAILED or DEAD_LETTER [default: both].", case_sensitive=False),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, max=job_control.MAX_REDRIVEN, help="Maximum number to run again."),
    ] = 1_000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the jobs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Retry all failed jobs.

    \b
    bpc jobs redrive --tenant acme --type SIGN --status DEAD_LETTER --dry-run
    """
    redriven = 0
    async with open_migrated_database(load_settings_and_logs("jobs")) as database:
        tenant_id = (await find_tenant(database, tenant)).tenant_id
        if not dry_run:
            redriven = await audited_jobs.retry_jobs(
                database, tenant_id, job_type=job_type, status=status, limit=limit, act=make_operator_act()
            )
        async with database.tenant(tenant_id) as conn:
            left = await job_control.count_failed_jobs(conn, tenant_id, job_type=job_type, status=status)
    if dry_run:
        says = f"would run {format_count(min(left, limit), 'job')} again" + (f" of {left:,}" if left > limit else "")
    else:
        says = f"{format_count(redriven, 'job')} queued again" + (f", {left:,} left" if left else "")
    print_result({"redriven": redriven, "left": left}, says, as_json=as_json)


@jobs_app.command()
async def stats(tenant: AnyTenantOption = None, as_json: AsJson = False) -> None:
    """Show waiting and running jobs by type, and the workers."""
    async with open_migrated_database(load_settings_and_logs("jobs")) as database:
        tenant_id = None if tenant is None else (await find_tenant(database, tenant)).tenant_id
        async with database.system() if tenant_id is None else database.tenant(tenant_id) as conn:
            health = await queries.get_health(conn, tenant_id)
            types = await queries.count_by_type(conn, tenant_id)
    if as_json:
        print_json(job_output.health_to_json(health, types))
    else:
        job_output.print_health(health, types)


jobs_app.command("types")(list_types)
jobs_app.command("schedules")(list_schedules)
jobs_app.command("schedule")(put_schedule)


def _parse_subject(text: str) -> Subject:
    kind, _, subject_id = require_utf8("the subject", text).partition(":")
    if kind not in audited_jobs.SUBJECT_KINDS or not subject_id:
        raise Invalid(
            f"`{text}` is not the subject of a job",
            fix=f"write KIND:ID; the kind is one of {', '.join(audited_jobs.SUBJECT_KINDS)}",
        )
    return Subject(kind, subject_id)


def _print_change(job: Job, *, as_json: bool) -> None:
    """Print a new line; on a terminal, rewrite the same line."""
    if as_json:
        print_json(job_output.job_to_json(job))
    elif sys.stdout.isatty():
        typer.echo(f"\r\x1b[K{job_output.format_job_line(job)}", nl=job.is_over)
    else:
        print_line(job_output.format_job_line(job))
    sys.stdout.flush()
