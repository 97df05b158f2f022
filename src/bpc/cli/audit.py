"""`bpc audit`: is the record complete and unchanged?

database ─► verify ─────────────► changed, removed or put in, by event
database ─► checkpoint ─► file    (kept where the database's keeper cannot reach it)
database, file ─► verify ───────► what was cut off or deleted as a whole, too
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc import fresh
from bpc.cli.files import read_bytes, replace_file
from bpc.cli.output import REFUSED, AsJson, print_json, say
from bpc.cli.session import settings_for, signing_key
from bpc.cli.text import checked_text
from bpc.core.checkpoint import Checkpoint, missing, read, write
from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.events import Fault, Stream
from bpc.core.ids import AggregateId, parse_uuid
from bpc.core.signing import PublicKey, checked_public_key, from_base64, public_key_of
from bpc.core.timestamps import format_time
from bpc.db import events, signing_keys, tenants
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.events import Verified
from bpc.db.opening import opened
from bpc.db.tenants import Tenant
from bpc.settings import Settings

app = typer.Typer(
    help="Verify the audit log, or sign where it stands.\n\n"
    "Events are chained by their hashes, so a changed one is found. A checkpoint, kept elsewhere, also finds what "
    "was cut off or deleted as a whole.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

# One view of the data for all that follows, however long it takes and whoever writes meanwhile.
ONE_VIEW: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in one tenant, called by its slug, or by its id where the tenant itself is gone."""

    tenant: str
    verified: Verified


@app.command()
def verify(
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="SLUG", help="One tenant; all if left out.")] = None,
    aggregate: Annotated[
        str | None, typer.Option("--aggregate", metavar="TYPE/ID", help="One chain, together with --tenant.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="FILE", help="What `bpc audit checkpoint` wrote earlier."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="BASE64", help="Public key of the checkpoint; ours if left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute every chain and name each event that is wrong.

    Finds events that were changed, removed or put in, and with a checkpoint those that were cut off or deleted
    together with their chain. Without --tenant and --checkpoint it also looks for events of tenants that do not
    exist. Exits 1 if anything is wrong.

    \b
    bpc audit verify
    bpc audit verify --checkpoint acme-2027-02.json --key "$(cat acme.pub)"
    """
    if aggregate is not None and tenant is None:
        raise typer.BadParameter("--aggregate needs --tenant, which says whose chain it is.")
    if key is not None and checkpoint is None:
        raise typer.BadParameter("--key is for --checkpoint.")
    settings = settings_for("audit")
    slug = tenant and checked_text("the slug", tenant)
    chain = None if aggregate is None else _parsed(aggregate)
    kept = None if checkpoint is None else read(read_bytes(checkpoint), key=_pinned(settings, key))
    reports = asyncio.run(_verify(settings, slug, chain, kept))
    _print(reports, as_json=as_json)
    if any(report.verified.faults for report in reports):
        raise typer.Exit(REFUSED)


@app.command("checkpoint")
def checkpoint_command(
    tenant: Annotated[str, typer.Option("--tenant", metavar="SLUG", help="The tenant's short name.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="File to write; keep it where this server cannot reach it.")
    ],
    as_json: AsJson = False,
) -> None:
    """Write where every chain of a tenant stands, signed.

    Later, `bpc audit verify --checkpoint` shows what has been removed since.

    \b
    bpc audit checkpoint --tenant acme --out acme-2027-02.json
    """
    settings = settings_for("audit")
    seed = signing_key(settings)
    taken = asyncio.run(_take(settings, checked_text("the slug", tenant)))
    replace_file(out, write(taken, seed=seed, signing_key_id=settings.signing_key_id))
    if as_json:
        print_json({"file": str(out), "chains": len(taken.heads), "taken_at": format_time(taken.taken_at)})
    else:
        say(f"wrote {out}: {len(taken.heads)} chains as of {format_time(taken.taken_at)}")


Named = tuple[str, AggregateId]


async def _verify(
    settings: Settings, slug: str | None, aggregate: Named | None, kept: Checkpoint | None
) -> list[Report]:
    async with opened(settings) as database:
        async with database.system() as conn:
            found = await tenants.every(conn) if slug is None else [await tenants.by_slug(conn, slug)]
            strays = await events.without_a_tenant(conn) if slug is None and kept is None else []
        if kept is not None:
            if slug is not None and found[0].tenant_id != kept.tenant_id:
                raise Invalid(f"the checkpoint is not of tenant `{slug}`", fix="leave out --tenant, or take its own")
            found = [tenant for tenant in found if tenant.tenant_id == kept.tenant_id]
            if not found:
                return [_gone(kept)]
        reports = [await _verified(database, tenant, aggregate, kept) for tenant in found]
    return [*reports, *_stray(strays)]


def _stray(faults: list[Fault]) -> list[Report]:
    """Events in no tenant's log, one report per tenant that does not exist."""
    tenants_named = sorted({fault.stream.tenant_id for fault in faults})
    by_tenant = {each: tuple(fault for fault in faults if fault.stream.tenant_id == each) for each in tenants_named}
    return [
        Report(
            tenant=str(each),
            verified=Verified(events=len(found), chains=len({fault.stream for fault in found}), faults=found),
        )
        for each, found in by_tenant.items()
    ]


def _gone(kept: Checkpoint) -> Report:
    """The tenant itself was deleted, and its whole log with it."""
    lost = tuple(missing(kept, {}, {}))
    return Report(tenant=str(kept.tenant_id), verified=Verified(events=0, chains=0, faults=lost))


async def _verified(database: Database, tenant: Tenant, aggregate: Named | None, kept: Checkpoint | None) -> Report:
    async with database.tenant(tenant.tenant_id) as conn:
        await conn.execute(ONE_VIEW)
        lost = [] if kept is None else await _lost(conn, kept)
        if aggregate is None:
            found = await events.verify_tenant(conn, tenant.tenant_id)
        else:
            stream = Stream(tenant.tenant_id, *aggregate)
            found = await events.verify_chain(conn, stream)
            lost = [fault for fault in lost if fault.stream == stream]
            if not lost and stream not in await events.heads(conn, tenant.tenant_id):
                raise NotFound(f"tenant `{tenant.slug}` has no chain `{stream}`", fix="check its type and id")
    everything = Verified(events=found.events, chains=found.chains, faults=(*found.faults, *lost))
    return Report(tenant=tenant.slug, verified=everything)


async def _lost(conn: Connection, kept: Checkpoint) -> list[Fault]:
    now = await events.heads(conn, kept.tenant_id)
    return missing(kept, now, await events.hashes_at(conn, kept.tenant_id, kept.heads))


async def _take(settings: Settings, slug: str) -> Checkpoint:
    taken_at = fresh.now()  # before looking: whatever happened until then is in it
    async with opened(settings) as database:
        tenant = await tenants.find(database, slug)
        async with database.tenant(tenant.tenant_id) as conn:
            await conn.execute(ONE_VIEW)
            faults = (await events.verify_tenant(conn, tenant.tenant_id)).faults
            heads = await events.heads(conn, tenant.tenant_id)
            registered = await signing_keys.public_key(conn, settings.signing_key_id)
    if registered not in {None, public_key_of(signing_key(settings))}:
        raise signing_keys.SigningKeyDiffers(settings.signing_key_id)
    if faults:
        raise Conflict(
            f"tenant `{slug}` has {_counted(len(faults), 'fault')} in its record, which a checkpoint would sign",
            fix=f"`bpc audit verify --tenant {slug}` names them",
        )
    return Checkpoint(tenant_id=tenant.tenant_id, taken_at=taken_at, heads=heads)


def _parsed(aggregate: str) -> Named:
    kind, _, text = checked_text("the aggregate", aggregate).partition("/")
    return kind, AggregateId(parse_uuid(text))


def _pinned(settings: Settings, key: str | None) -> PublicKey:
    return public_key_of(signing_key(settings)) if key is None else checked_public_key(from_base64(key))


def _print(reports: list[Report], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "ok": not any(report.verified.faults for report in reports),
                "tenants": [_as_json(report) for report in reports],
            }
        )
        return
    for report in reports:
        found = report.verified
        counted = f"{report.tenant}: {_counted(found.events, 'event')} in {_counted(found.chains, 'chain')}"
        if found.faults:
            say(f"{counted}, {_counted(len(found.faults), 'fault')}", colour="red", bold=True)
        else:
            say(f"{counted}, intact", colour="green")
        for fault in found.faults:
            say(f"  {fault.stream} version {fault.version}: {fault.says}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _as_json(report: Report) -> dict[str, object]:
    return {
        "tenant": report.tenant,
        "events": report.verified.events,
        "chains": report.verified.chains,
        "faults": [
            {
                "aggregate_type": fault.stream.aggregate_type,
                "aggregate_id": str(fault.stream.aggregate_id),
                "aggregate_version": fault.version,
                "says": fault.says,
            }
            for fault in report.verified.faults
        ],
    }
