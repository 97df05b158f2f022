"""`bpc audit`: check that the audit log is complete and unchanged.

database ─► verify ─────────────► changed, removed or inserted events, and rows that do not follow from events
database ─► checkpoint ─► file    (stored where the administrator of the database cannot reach it)
database, file ─► verify ───────► also a deleted end of a chain, or a deleted chain
"""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bpc.cli.support.arguments import AnyTenantOption, TenantOption, command_group, require_utf8
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    escape_controls,
    format_count,
    print_json,
    print_line,
    print_result,
    read_bytes,
    replace_file,
)
from bpc.cli.support.progress import ProgressBar, explain_interrupt, show_progress
from bpc.cli.support.session import load_settings_and_logs, load_signing_key, open_tenant, select_tenants
from bpc.core.audit.checkpoint import Checkpoint, find_missing_events, read_checkpoint, write_checkpoint
from bpc.core.audit.events import ChainFault, EventStream
from bpc.core.audit.signing import PublicKey, derive_public_key, from_base64, parse_public_key
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.formats.ids import AggregateId, parse_uuid
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.runtime.settings import Settings
from bpc.storage.access.tenants_and_actors import TenantRow
from bpc.storage.audit import events, signing_keys
from bpc.storage.audit.events import ChainVerification
from bpc.storage.audit.state_check import StateVerification
from bpc.storage.audit.verification import AuditVerification, verify_audit
from bpc.storage.connection import Connection
from bpc.storage.database import Database, freeze_view, open_migrated_database

audit_app = command_group(
    "Verify the audit log, or write a signed checkpoint.\n\n"
    "Events are chained by their hashes, so a changed event is detected. A checkpoint stored elsewhere also reveals "
    "a deleted end of a chain or a deleted chain."
)


AggregateName = tuple[str, AggregateId]
# By the slug of a tenant, or by its id if the tenant was deleted.
Verifications = Mapping[str, AuditVerification]


@audit_app.command()
def verify(
    tenant: AnyTenantOption = None,
    aggregate: Annotated[
        str | None, typer.Option("--aggregate", metavar="TYPE/ID", help="Only this chain (needs --tenant).")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="FILE", help="A file that `bpc audit checkpoint` wrote earlier."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="BASE64", help="Public key of the checkpoint [default: this installation's]."),
    ] = None,
    floor_days: Annotated[
        int | None,
        typer.Option(
            "--floor-days", min=0, max=36500, help="How long everything is kept [default: BPC_RETENTION_FLOOR_DAYS]."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute every chain, derive all tables from it, and name each event and row that is wrong.

    Finds events that were changed, removed or inserted; rows of the database that were changed, added or deleted
    without an event; and retention that removed what it may not. With a checkpoint also a deleted end of a chain or a
    deleted chain. Without --tenant and --checkpoint it also looks for events of tenants that do not exist. Says what
    events of older releases do not tell. Exits 1 if anything is wrong.

    \b
    bpc audit verify
    bpc audit verify --checkpoint acme-2027-02.json --key "$(cat acme.pub)"
    """
    if aggregate is not None and tenant is None:
        raise typer.BadParameter("--aggregate needs --tenant.")
    if key is not None and checkpoint is None:
        raise typer.BadParameter("--key needs --checkpoint.")
    settings = load_settings_and_logs("audit")
    chain = None if aggregate is None else _parse_aggregate(aggregate)
    earlier = None
    if checkpoint is not None:
        earlier = read_checkpoint(read_bytes(checkpoint), key=_choose_public_key(settings, key))
    with explain_interrupt(lambda: "stopped; nothing was changed"), show_progress("verifying", as_json=as_json) as bar:
        floor = settings.retention_floor if floor_days is None else floor_days
        reports = asyncio.run(_verify_tenants(settings, tenant, chain, earlier, floor, bar))
    _print_reports(reports, as_json=as_json)
    if not all(report.is_intact for report in reports.values()):
        raise typer.Exit(REFUSED)


@audit_app.command("checkpoint")
async def take_checkpoint(
    tenant: TenantOption,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="File to write; keep it where this server cannot reach it."),
    ],
    as_json: AsJson = False,
) -> None:
    """Write a signed checkpoint of a tenant's chains.

    Later, `bpc audit verify --checkpoint` shows what has been removed since.

    \b
    bpc audit checkpoint --tenant acme --out acme-2027-02.json
    """
    settings = load_settings_and_logs("audit")
    seed = load_signing_key(settings)
    taken_at = clock.now()  # before reading: the checkpoint contains everything until then
    async with open_tenant(settings, tenant) as (tenant_id, conn):
        await freeze_view(conn)
        faults = (await verify_audit(conn, tenant_id, floor_days=settings.retention_floor)).fault_count
        heads = await events.load_heads(conn, tenant_id)
        public_key = await signing_keys.find_public_key(conn, settings.signing_key_id)
    if public_key not in {None, derive_public_key(seed)}:
        raise signing_keys.SigningKeyDiffers(settings.signing_key_id)
    if faults:
        raise Conflict(
            f"tenant `{tenant}` has {format_count(faults, 'fault')} in its audit log; a checkpoint would confirm them",
            fix=f"`bpc audit verify --tenant {tenant}` lists them",
        )
    checkpoint = Checkpoint(tenant_id=tenant_id, taken_at=taken_at, heads=heads)
    replace_file(out, write_checkpoint(checkpoint, seed=seed, signing_key_id=settings.signing_key_id))
    print_result(
        {"file": out, "chains": len(heads), "taken_at": taken_at},
        f"wrote {out}: {len(heads)} chains as of {format_time(taken_at)}",
        as_json=as_json,
    )


async def _verify_tenants(
    settings: Settings,
    slug: str | None,
    aggregate: AggregateName | None,
    checkpoint: Checkpoint | None,
    floor_days: int,
    bar: ProgressBar,
) -> Verifications:
    async with open_migrated_database(settings) as database:
        tenants = await select_tenants(database, slug)
        strays: Verifications = {}
        if checkpoint is None and slug is None:
            async with database.system() as conn:
                strays = _group_strays(await events.list_events_without_tenant(conn))
        elif checkpoint is not None:
            if slug is not None and tenants[0].tenant_id != checkpoint.tenant_id:
                raise Invalid(
                    f"the checkpoint is not of tenant `{slug}`",
                    fix="leave out --tenant, or use the checkpoint of that tenant",
                )
            tenants = [tenant for tenant in tenants if tenant.tenant_id == checkpoint.tenant_id]
            if not tenants:  # the tenant itself was deleted, and its whole log with it
                missing_events = tuple(find_missing_events(checkpoint, {}, {}))
                chains = ChainVerification(events=0, chains=0, faults=missing_events)
                return {str(checkpoint.tenant_id): AuditVerification(chains=chains)}
        reports = {
            tenant.slug: await _verify_tenant(database, tenant, aggregate, checkpoint, floor_days, bar)
            for tenant in tenants
        }
    return {**reports, **strays}


def _group_strays(faults: list[ChainFault]) -> Verifications:
    """Events in no tenant's log, by the tenant that does not exist."""
    reports = {}
    for tenant_id in sorted({fault.stream.tenant_id for fault in faults}):
        strays = tuple(fault for fault in faults if fault.stream.tenant_id == tenant_id)
        chains = len({fault.stream for fault in strays})
        verification = ChainVerification(events=len(strays), chains=chains, faults=strays)
        reports[str(tenant_id)] = AuditVerification(chains=verification)
    return reports


async def _verify_tenant(
    database: Database,
    tenant: TenantRow,
    aggregate: AggregateName | None,
    checkpoint: Checkpoint | None,
    floor_days: int,
    bar: ProgressBar,
) -> AuditVerification:
    async with database.tenant(tenant.tenant_id) as conn:
        await freeze_view(conn)
        faults = []
        if checkpoint is not None:
            hashes = await events.load_hashes_at(conn, checkpoint.tenant_id, checkpoint.heads)
            faults = find_missing_events(checkpoint, await events.load_heads(conn, checkpoint.tenant_id), hashes)
        if aggregate is None:
            verification = await verify_with_progress(conn, tenant, bar, floor_days=floor_days)
        else:
            stream = EventStream(tenant.tenant_id, *aggregate)
            verification = AuditVerification(chains=await events.verify_chain(conn, stream))
            faults = [fault for fault in faults if fault.stream == stream]
            if not faults and stream not in await events.load_heads(conn, tenant.tenant_id):
                raise NotFound(f"tenant `{tenant.slug}` has no chain `{stream}`", fix="check its type and id")
    return verification.add_chain_faults(tuple(faults))


async def verify_with_progress(
    conn: Connection, tenant: TenantRow, bar: ProgressBar, *, floor_days: int
) -> AuditVerification:
    """Verify all chains of a tenant and its tables, a stage of the bar."""
    if not bar.is_visible:
        return await verify_audit(conn, tenant.tenant_id, floor_days=floor_days)
    heads = await events.load_heads(conn, tenant.tenant_id)
    total = sum(head.version for head in heads.values())  # more, if retention has removed old ones
    stage = f" {escape_controls(tenant.slug)}"
    return await verify_audit(
        conn,
        tenant.tenant_id,
        floor_days=floor_days,
        report=lambda done: bar.update(done, total, "events", stage=stage),
    )


def _parse_aggregate(aggregate: str) -> AggregateName:
    kind, _, text = require_utf8("the aggregate", aggregate).partition("/")
    return kind, AggregateId(parse_uuid(text))


def _choose_public_key(settings: Settings, key: str | None) -> PublicKey:
    return derive_public_key(load_signing_key(settings)) if key is None else parse_public_key(from_base64(key))


def _print_reports(reports: Verifications, *, as_json: bool) -> None:
    if as_json:
        ok = all(verification.is_intact for verification in reports.values())
        print_json({"ok": ok, "tenants": [_report_to_json(*report) for report in reports.items()]})
        return
    for tenant, verification in reports.items():
        chains, state = verification.chains, verification.state
        summary = f"{tenant}: {format_count(chains.events, 'event')} in {format_count(chains.chains, 'chain')}"
        if state is not None:
            summary = f"{summary}, {format_count(state.rows, 'row')}"
        if verification.is_intact:
            print_line(f"{summary}, intact", colour="green")
        else:
            print_line(f"{summary}, {format_count(verification.fault_count, 'fault')}", colour="red", bold=True)
        for fault in chains.faults:
            print_line(f"  {fault.stream} version {fault.version}: {fault.says}")
        if state is not None:
            _print_state(state)


def _print_state(state: StateVerification) -> None:
    for fault in state.faults:
        print_line(f"  {fault.table} {escape_controls(fault.row_id)}: {escape_controls(fault.says)}")
    for gap in state.gaps:
        what = gap.table if gap.column is None else f"`{gap.column}` of {gap.table}"
        since = f"not covered by events before {format_time(state.covered_since)}"
        print_line(f"  {what}: {format_count(gap.rows, 'row')} {since}: {gap.reason}")


def _report_to_json(tenant: str, verification: AuditVerification) -> dict[str, object]:
    chains, state = verification.chains, verification.state
    faults = [
        {
            "aggregate_type": fault.stream.aggregate_type,
            "aggregate_id": fault.stream.aggregate_id,
            "aggregate_version": fault.version,
            "says": fault.says,
        }
        for fault in chains.faults
    ]
    report = {"tenant": tenant, "events": chains.events, "chains": chains.chains, "faults": faults}
    if state is not None:
        report |= {
            "rows": state.rows,
            "state_faults": [asdict(fault) for fault in state.faults],
            "not_covered": [asdict(gap) for gap in state.gaps],
            "covered_since": state.covered_since,
        }
    return report
