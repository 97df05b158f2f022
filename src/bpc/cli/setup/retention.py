"""`bpc retention`: delete data whose retention period is over, or pause that."""

import getpass
import platform
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer
from service_jobs import schedules

from bpc.cli.support.arguments import AnyTenantOption, command_group
from bpc.cli.support.output import AsJson, print_json, print_line, print_result, print_table
from bpc.cli.support.session import load_settings_and_logs, make_operator_act, select_tenants
from bpc.core.audit.checkpoint import UNCUT_AGGREGATE_TYPE
from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.audit import events, retention
from bpc.storage.connection import Connection
from bpc.storage.database import Database, open_migrated_database
from bpc.storage.jobs import make_job_defaults
from bpc.storage.server_time import LogDisagrees, read_and_adopt_time, require_agreeing_clock, require_agreeing_log
from bpc.tasks.retention import (
    Cutoffs,
    RemovedCounts,
    RetentionOrder,
    make_nightly_schedule,
    remove_expired,
    require_allowed_cutoffs,
)

retention_app = command_group(
    "Delete data whose retention period is over.\n\n"
    "Document contents, superseded or revoked passport versions and audit events are deleted when their "
    "BPC_RETENTION_* period is over; exports are deleted with their jobs. Workers do this every night. Each deletion "
    "is recorded, and the audit log still verifies."
)


@retention_app.command()
async def run(
    tenant: AnyTenantOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")] = False,
    confirm_clock: Annotated[
        bool,
        typer.Option("--confirm-clock", help="The database's clock is right, although another one differs."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the nightly deletion now.

    Works in small complete steps, so it can be interrupted and repeated. The time is the database's. If the clock of
    this machine differs from it, or the last checkpoint of the transparency log is newer or more than 48 hours older,
    nothing is deleted unless --confirm-clock says that the database is right, which is kept in the audit log of the
    tenant `system`.

    \b
    bpc retention run --dry-run
    bpc retention run --tenant acme
    """
    settings = load_settings_and_logs("retention")
    handle_tenant = _count_removable if dry_run else _remove_expired
    async with open_migrated_database(settings) as database:
        async with database.system(SYSTEM_TENANT) as conn:
            if confirm_clock and not dry_run:
                now = await _confirm_clock(conn)
            else:
                now = await require_agreeing_clock(conn)
                await require_agreeing_log(conn, now)
        cutoffs = Cutoffs.from_settings(settings, now)
        require_allowed_cutoffs(cutoffs, now, floor_days=settings.retention_floor)
        counts = {
            row.slug: await handle_tenant(database, row.tenant_id, cutoffs)
            for row in await select_tenants(database, tenant)
        }
    if as_json:
        tenants = [{"tenant": slug, **asdict(removed_counts)} for slug, removed_counts in counts.items()]
        print_json({"dry_run": dry_run, "cutoffs": asdict(cutoffs), "tenants": tenants})
    else:
        _print_counts(counts, dry_run=dry_run)


ReasonOption = Annotated[str | None, typer.Option("--reason", help="Why; kept in the audit log.")]


@retention_app.command()
async def pause(reason: ReasonOption = None, as_json: AsJson = False) -> None:
    """Pause deletion for all tenants.

    A running deletion stops after its current step. Who paused it and why is in the audit log of the tenant `system`.

    \b
    bpc retention pause --reason "legal hold, case 4711"
    """
    await _change_schedule(schedules.pause_schedule, "RETENTION_PAUSED", reason)
    says = "retention is paused: nothing is deleted until `bpc retention resume`"
    print_result({"paused": True}, says, as_json=as_json)


@retention_app.command()
async def resume(reason: ReasonOption = None, as_json: AsJson = False) -> None:
    """Resume deletion from the next night on."""
    await _change_schedule(schedules.resume_schedule, "RETENTION_RESUMED", reason)
    print_result({"paused": False}, "retention is running again", as_json=as_json)


async def _change_schedule(
    change: Callable[[Connection, UUID, str], Awaitable[None]], event_type: str, reason: str | None
) -> None:
    """Pause or resume the schedule, which is created if no worker has run yet, and record who did it."""
    settings = load_settings_and_logs("retention")
    async with open_migrated_database(settings) as database, database.system(SYSTEM_TENANT) as conn:
        await schedules.put_schedule(conn, SYSTEM_TENANT, make_nightly_schedule(make_job_defaults(settings)))
        await change(conn, SYSTEM_TENANT, retention.SCHEDULE_NAME)
        payload = {"operator": _name_operator(), "reason": reason}
        await events.append_act(
            conn, make_operator_act(), SYSTEM_TENANT, UNCUT_AGGREGATE_TYPE, SYSTEM_TENANT, event_type, payload
        )


async def _confirm_clock(conn: Connection) -> datetime:
    """The time of the database. If ours or the log's differs, who confirmed it is recorded."""
    now, skew = await read_and_adopt_time(conn)
    payload: dict[str, object] = {"operator": _name_operator(), "seconds_ahead": round(skew.total_seconds())}
    try:
        await require_agreeing_log(conn, now)
    except LogDisagrees as refusal:
        payload["log"] = refusal.says
    if abs(skew) > clock.TOLERANCE or "log" in payload:
        act, system = Act(None, now), SYSTEM_TENANT
        await events.append_act(conn, act, system, UNCUT_AGGREGATE_TYPE, system, "RETENTION_CLOCK_CONFIRMED", payload)
    return now


def _name_operator() -> str:
    """The login of the person who runs the command, and the machine: a command has no account in a tenant."""
    return f"{getpass.getuser()}@{platform.node()}"


async def _count_removable(database: Database, tenant: TenantId, cutoffs: Cutoffs) -> RemovedCounts:
    async with database.system(tenant) as conn:
        counts = await retention.count_removable(
            conn,
            tenant,
            documents=cutoffs.document_versions,
            passports=cutoffs.passport_versions,
            exports=cutoffs.passport_exports,
            events=cutoffs.events,
        )
    return RemovedCounts(**counts)


async def _remove_expired(database: Database, tenant: TenantId, cutoffs: Cutoffs) -> RemovedCounts:
    total, order = RemovedCounts(), RetentionOrder(run_id=clock.new_id(), cutoffs=cutoffs)
    while True:
        async with database.system(tenant) as conn:
            if await retention.is_paused(conn):
                fix = "`bpc retention resume` resumes it; --dry-run works while paused"
                raise Conflict("retention is paused", fix=fix)
            step = await remove_expired(conn, tenant, order, act=make_operator_act())
        total += step.counts
        if step.next_order is None:
            return total
        order = step.next_order


def _print_counts(counts: Mapping[str, RemovedCounts], *, dry_run: bool) -> None:
    rows = [
        (
            slug,
            removed_counts.document_versions,
            removed_counts.passport_versions,
            removed_counts.passport_exports,
            removed_counts.events,
            removed_counts.webhook_deliveries,
        )
        for slug, removed_counts in counts.items()
    ]
    print_table(("TENANT", "CONTENTS", "PASSPORT VERSIONS", "EXPORTS", "EVENTS", "DELIVERIES"), rows)
    if dry_run:
        print_line("nothing was deleted: --dry-run")
    elif any(counts.values()):
        print_line("deleted, and recorded in each tenant's audit log")
    else:
        print_line("nothing was old enough to be deleted")
