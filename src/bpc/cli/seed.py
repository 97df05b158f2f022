"""`bpc seed`: what an installation starts with: its signing key on record and, outside prod, a tenant to try."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from bpc import fresh
from bpc.cli.files import write_secret
from bpc.cli.first_key import first_key, first_key_file
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.peppers import peppers_of
from bpc.cli.session import operator_act, settings_for, signing_key
from bpc.core.apikeys import ApiKey
from bpc.core.errors import Conflict
from bpc.core.ids import TenantId
from bpc.core.peppers import Peppers
from bpc.core.signing import public_key_of
from bpc.db import actors, apikeys, signing_keys, tenants
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.opening import opened
from bpc.db.tenants import Tenant
from bpc.logs import logger
from bpc.settings import Settings, prepare, signing_is_at_hand

app = typer.Typer(add_completion=False, rich_markup_mode=None)

log = logger(__name__)

DEV_TENANT: Final = "dev"
DEACTIVATED: Final = f"none: the tenant is deactivated; `bpc tenant reactivate {DEV_TENANT}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """The tenant to try things with and a key that opens it; neither exists in prod, nor a key if it is inactive."""

    tenant_id: TenantId | None
    api_key: str | None


@app.command()
def seed(as_json: AsJson = False) -> None:
    """Register the signing key; outside prod, make a tenant.

    The tenant is called `dev` and gets an API key with the role Admin, to try things with. Running it again
    changes nothing and prints the same key.
    """
    seeded = asyncio.run(_seed(settings_for("seed")))
    if as_json:
        print_json({"tenant_id": _text(seeded.tenant_id), "api_key": seeded.api_key})
    elif seeded.tenant_id is None:
        say("the signing key is registered; prod gets no tenant by itself: `bpc tenant create SLUG`")
    else:
        say(f"tenant   {DEV_TENANT} ({seeded.tenant_id})")
        say(f"API key  {seeded.api_key or DEACTIVATED}")


async def _seed(settings: Settings) -> Seeded:
    async with opened(settings) as database:
        return await plant(database, settings)


async def plant(database: Database, settings: Settings) -> Seeded:
    """Do it on an open database. Doing it again changes nothing and returns the same key."""
    await _look_for_lost_key(database, settings)
    public = public_key_of(signing_key(settings))
    await signing_keys.register(database, settings.signing_key_id, public, act=operator_act())
    async with database.plain() as conn:
        if await signing_keys.to_sign_with(conn, settings.signing_key_id) is None:
            log.warning("the signing key is retired: nothing will be signed", key_id=settings.signing_key_id)
    if settings.env == "prod":
        return Seeded(tenant_id=None, api_key=None)
    tenant = await tenant_called(database, DEV_TENANT, name="Dev Tenant")
    if not tenant.is_active:
        return Seeded(tenant_id=tenant.tenant_id, api_key=None)
    return Seeded(tenant_id=tenant.tenant_id, api_key=await _first_key(database, settings, tenant.tenant_id))


async def _look_for_lost_key(database: Database, settings: Settings) -> None:
    """One that was made before is not made again: it would be another, and stand where the right one belongs."""
    if signing_is_at_hand(settings):
        return
    async with database.plain() as conn:
        if await signing_keys.public_key(conn, settings.signing_key_id) is not None:
            raise signing_keys.SigningKeyLost(settings.signing_key_id)


async def tenant_called(database: Database, slug: str, *, name: str) -> Tenant:
    """The tenant with this slug, made if it is not there, by whoever comes first."""
    with suppress(tenants.TenantUnknown):
        return await tenants.find(database, slug)
    with suppress(Conflict):  # somebody else was faster
        await tenants.create(database, slug=slug, name=name, act=operator_act())
    return await tenants.find(database, slug)


async def _first_key(database: Database, settings: Settings, tenant: TenantId) -> str:
    """An Admin's key for trying things out, kept beside the other generated secrets so it can be shown again."""
    kept = first_key_file(settings.data_dir)
    peppers, act = peppers_of(settings), operator_act()
    async with database.tenant(tenant) as conn:
        await conn.execute("SELECT pg_advisory_xact_lock(hashtextextended('first key of ' || $1, 0))", str(tenant))
        if known := await _kept_key(conn, settings.data_dir, tenant, peppers):
            return known.text
        actor = await actors.create(conn, tenant, kind="API_CLIENT", display_name="First key", roles=["Admin"], act=act)
        issued = await apikeys.create(conn, tenant, actor, pepper=peppers.in_use, act=act, label="made by bpc seed")
        prepare(settings.data_dir)
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        kept.unlink(missing_ok=True)
        write_secret(kept, issued.api_key.text)
    return issued.api_key.text


async def _kept_key(conn: Connection, data_dir: Path, tenant: TenantId, peppers: Peppers) -> ApiKey | None:
    """The key in the file, if there is one and it still opens `tenant`."""
    key = first_key(data_dir)
    known = None if key is None else await apikeys.find(conn, key.prefix)
    if key is None or known is None or known.tenant_id != tenant:
        return None
    return key if _opens(known) and peppers.behind(key, known.key_hash) is not None else None


def _opens(known: apikeys.Known) -> bool:
    expired = known.expires_at is not None and known.expires_at <= fresh.now()
    return known.is_active and known.revoked_at is None and not expired


def _text(value: object) -> str | None:
    return None if value is None else str(value)
