"""`bpc demo`: what there is, shown on real data, printed as it goes.

Everything happens in the tenant `demo` of the configured database, through the same functions as always.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Final

import asyncpg
import typer

from bpc import fresh
from bpc.cli import demo_passport
from bpc.cli.output import say
from bpc.cli.seed import tenant_called
from bpc.cli.session import operator_act, settings_for, signing_key
from bpc.core.canon import canonicalize
from bpc.core.checkpoint import Checkpoint, missing, read, write
from bpc.core.digest import sha256, to_hex
from bpc.core.errors import Conflict, SchemaMismatch
from bpc.core.events import Stream
from bpc.core.ids import AggregateId, TenantId
from bpc.core.signing import public_key_of
from bpc.db import actors, apikeys, events
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.opening import opened
from bpc.settings import ConfigMissing, Settings, pepper

app = typer.Typer(add_completion=False, rich_markup_mode=None)

DOCUMENT: Final = b"""
{
  "battery": {"sku": "SKU-123", "name": "City e-bike pack", "category": "LMT", "capacity_kwh": "0.500000"},
  "components": [
    {"sku": "SKU-123", "part": "cathode", "material": "LiFePO4", "mass_g": "412.500000", "critical": true},
    {"sku": "SKU-123", "part": "housing", "material": "aluminium", "mass_g": "655.000000", "critical": false}
  ]
}
"""
EVENTS: Final = 20


@app.command()
def demo() -> None:
    """Show what bpc does, printed as it goes.

    Starts the database if need be and works in a tenant `demo` of its own: it can be run any number of times, and
    touches nothing else. It does not run in prod.
    """
    settings = settings_for("demo")
    if settings.env == "prod":
        raise ConfigMissing.of("BPC_ENV", "the demo does not run in prod", fix="set BPC_ENV=dev")
    started = time.monotonic()
    asyncio.run(_demo(settings))
    say(f"\nAll of it in {time.monotonic() - started:.1f} s.", colour="green", bold=True)
    say("Next: `bpc up` (or `make up`) keeps it running and prints an API key; `bpc --help` lists the commands.")


async def _demo(settings: Settings) -> None:
    say("Battery Passport Compiler: the ground it stands on, and a passport on it\n")
    async with AsyncExitStack() as kept_open:
        with _step("start the database, apply migrations"):
            database = await kept_open.enter_async_context(opened(settings, migrate_first=True))
        await _show(settings, database)


async def _show(settings: Settings, database: Database) -> None:
    async with database.system() as conn:
        version = await conn.fetchval("SELECT current_setting('server_version')")
    _tell(f"PostgreSQL {version} at {database.address}")

    with _step("create a tenant; the creation is on record"):
        tenant = (await tenant_called(database, "demo", name="Demo Manufacturing")).tenant_id
    _tell(f"demo, {tenant}")

    with _step(f"create and revoke API keys: {EVENTS} audit events, hash-chained"):
        last = await _keys_come_and_go(settings, database, tenant)
    _tell(f"the last event's hash is {last[:16]}…")

    with _step("verify every chain of the tenant"):
        async with database.tenant(tenant) as conn:
            verified = await events.verify_tenant(conn, tenant)
    _tell(f"{verified.events} events in {verified.chains} chains, {len(verified.faults)} faults")
    if verified.faults:
        raise Conflict("the demo tenant's record is broken", fix="`bpc audit verify --tenant demo` names the events")

    with _step("try to edit the record, as the application"):
        refused = await _edit_refused(database, tenant)
    _tell(f"refused by the database: {refused}")

    with _step("sign a checkpoint of all chains, read it back, compare"):
        async with database.tenant(tenant) as conn:
            lost = await _checkpoint(settings, conn, tenant)
    _tell(f"{lost} events missing since the checkpoint")

    with _step("canonicalise a supplier's bill of materials"):
        canonical = canonicalize(DOCUMENT)
    _tell(f"{len(DOCUMENT)} bytes as written, {len(canonical)} canonical bytes")
    _tell(f"SHA-256 {to_hex(sha256(canonical))}, on every machine")

    demo_passport.show(
        demo_passport.Document(**json.loads(canonical)),
        signing_key(settings),
        tenant,
        signing_key_id=settings.signing_key_id,
        step=_step,
        tell=_tell,
    )


async def _keys_come_and_go(settings: Settings, database: Database, tenant: TenantId) -> str:
    secret, act = pepper(settings), operator_act()
    last = b""
    async with database.tenant(tenant) as conn:
        actor = await actors.create(conn, tenant, kind="API_CLIENT", display_name="Demo", roles=["Auditor"], act=act)
    for _ in range(EVENTS // 2):
        async with database.tenant(tenant) as conn:
            issued = await apikeys.create(conn, tenant, actor, pepper=secret, act=operator_act(), label="demo")
            await apikeys.revoke(conn, tenant, issued.api_key.prefix, act=operator_act())
            stream = Stream(tenant, "ApiKey", AggregateId(issued.api_key_id))
            last = (await events.read_chain(conn, stream))[-1].event.event_hash
    return last.hex()


async def _edit_refused(database: Database, tenant: TenantId) -> str:
    try:
        async with database.tenant(tenant) as conn:
            await conn.execute("UPDATE events SET event_type = 'NOTHING_HAPPENED' WHERE tenant_id = $1", tenant)
    except (asyncpg.InsufficientPrivilegeError, Conflict) as refused:
        return str(refused)
    raise SchemaMismatch("the database let the application edit an event", fix="run `bpc doctor`")


async def _checkpoint(settings: Settings, conn: Connection, tenant: TenantId) -> int:
    seed = signing_key(settings)
    heads = await events.heads(conn, tenant)
    written = write(
        Checkpoint(tenant_id=tenant, taken_at=fresh.now(), heads=heads),
        seed=seed,
        signing_key_id=settings.signing_key_id,
    )
    kept = read(written, key=public_key_of(seed))
    return len(missing(kept, heads, await events.hashes_at(conn, tenant, kept.heads)))


@contextmanager
def _step(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    say("✓", colour="green", end=" ")
    say(f"{what}  ({(time.monotonic() - started) * 1000:.0f} ms)")


def _tell(what: str) -> None:
    say(f"    {what}", dim=True)
