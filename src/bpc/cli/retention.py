"""`bpc retention`: remove what has outlived its time, as every night, or stop that."""

import asyncio
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from bpc import fresh
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.session import operator_act, settings_for
from bpc.cli.table import print_table
from bpc.cli.text import checked_text
from bpc.core.errors import Conflict
from bpc.core.timestamps import format_time
from bpc.db import retention, tenants
from bpc.db.database import Database
from bpc.db.opening import opened
from bpc.db.tenants import SYSTEM_TENANT, Tenant
from bpc.errands.retention import Counts, Cutoffs, Periods, RetentionOrder, apply, nightly
from bpc.jobs import schedules
from bpc.settings import Settings

app = typer.Typer(
    help="Remove what has outlived its time, or stop that.\n\n"
    "Contents of documents, superseded and revoked passport versions and audit events go when the time that "
    "BPC_RETENTION_* gives them is over, exports with the jobs that made them; workers see to it every night. "
    "What goes is on record, and the audit log still verifies.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What went of one tenant, or would."""

    tenant: Tenant
    counts: Counts


class OnHold(Conflict):
    """Somebody paused retention."""

    def __init__(self) -> None:
        super().__init__("retention is paused", fix="`bpc retention resume` ends that; --dry-run works meanwhile")


@app.command()
def run(
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="SLUG", help="One tenant; all if left out.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove now what the night would remove.

    In steps that each are complete: interrupted, it has removed less, and can be run again.

    \b
    bpc retention run --dry-run
    bpc retention run --tenant acme
    """
    settings = settings_for("retention")
    cutoffs = Cutoffs.at(fresh.now(), Periods.of(settings))
    slug = tenant and checked_text("the slug", tenant)
    reports = asyncio.run(_run(settings, slug, cutoffs, dry_run=dry_run))
    _print(reports, cutoffs, dry_run=dry_run, as_json=as_json)


@app.command()
def pause(as_json: AsJson = False) -> None:
    """Remove nothing from now on, of no tenant.

    A run that is under way stops after the step it is at.
    """
    asyncio.run(_hold(settings_for("retention"), paused=True))
    _print_hold(as_json=as_json, paused=True)


@app.command()
def resume(as_json: AsJson = False) -> None:
    """Remove what is due again, from the next night on."""
    asyncio.run(_hold(settings_for("retention"), paused=False))
    _print_hold(as_json=as_json, paused=False)


async def _run(settings: Settings, slug: str | None, cutoffs: Cutoffs, *, dry_run: bool) -> list[Report]:
    async with opened(settings) as database:
        async with database.system() as conn:
            found = await tenants.every(conn) if slug is None else [await tenants.by_slug(conn, slug)]
        of_one = _counted if dry_run else _removed
        return [Report(tenant=tenant, counts=await of_one(database, tenant, cutoffs)) for tenant in found]


async def _counted(database: Database, tenant: Tenant, cutoffs: Cutoffs) -> Counts:
    async with database.system(tenant.tenant_id) as conn:
        counts = await retention.counted(
            conn,
            tenant.tenant_id,
            documents=cutoffs.document_versions,
            passports=cutoffs.passport_versions,
            exports=cutoffs.passport_exports,
            events=cutoffs.events,
        )
    return Counts(**counts)


async def _removed(database: Database, tenant: Tenant, cutoffs: Cutoffs) -> Counts:
    total, order = Counts(), RetentionOrder(run_id=fresh.new_id(), cutoffs=cutoffs)
    while True:
        async with database.system(tenant.tenant_id) as conn:
            if await retention.is_on_hold(conn):
                raise OnHold
            done = await apply(conn, tenant.tenant_id, order, act=operator_act())
        total += done.counts
        if done.following is None:
            return total
        order = done.following


async def _hold(settings: Settings, *, paused: bool) -> None:
    async with opened(settings) as database, database.system(SYSTEM_TENANT) as conn:
        await schedules.put(conn, SYSTEM_TENANT, nightly())
        change = schedules.pause if paused else schedules.resume
        await change(conn, SYSTEM_TENANT, retention.SCHEDULE)


def _print(reports: list[Report], cutoffs: Cutoffs, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "cutoffs": {name: format_time(moment) for name, moment in asdict(cutoffs).items()},
                "tenants": [{"tenant": report.tenant.slug, **asdict(report.counts)} for report in reports],
            }
        )
        return
    rows = [
        (
            report.tenant.slug,
            report.counts.document_versions,
            report.counts.passport_versions,
            report.counts.passport_exports,
            report.counts.events,
            report.counts.webhook_deliveries,
        )
        for report in reports
    ]
    print_table(("TENANT", "CONTENTS", "PASSPORT VERSIONS", "EXPORTS", "EVENTS", "DELIVERIES"), rows)
    removed = any(any(asdict(report.counts).values()) for report in reports)
    if dry_run:
        say("nothing was removed: --dry-run")
    else:
        say("removed, and on record in each tenant's audit log" if removed else "nothing was old enough to be removed")


def _print_hold(*, as_json: bool, paused: bool) -> None:
    if as_json:
        print_json({"paused": paused})
    else:
        say("retention is paused: nothing is removed until `bpc retention resume`" if paused else "retention is on")
