"""`bpc seed`: the signing key, the first tenant and its API key, and the rules that are shipped with bpc."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc.cli.setup.shipped_rules import PublishedPackage, publish_shipped_packages
from bpc.cli.support.output import REFUSED, AsJson, print_result, write_secret
from bpc.cli.support.session import (
    load_peppers,
    load_settings_and_logs,
    load_signing_key,
    locate_first_key,
    make_operator_act,
    read_first_key,
)
from bpc.core.api_keys import ApiKeySecret, Peppers
from bpc.core.audit.signing import derive_public_key
from bpc.core.errors import Conflict, UnknownResource
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import has_signing_key, prepare_data_dir
from bpc.storage.access import api_keys, tenants_and_actors
from bpc.storage.access.api_requests import find_caller
from bpc.storage.access.tenants_and_actors import TenantRow
from bpc.storage.audit import signing_keys
from bpc.storage.connection import Connection
from bpc.storage.database import Database, lock_name, open_migrated_database

log = get_logger(__name__)

DEV_TENANT: Final = "dev"
TENANT_DEACTIVATED: Final = f"none: the tenant is deactivated; `bpc tenants reactivate {DEV_TENANT}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """The tenant `dev` and its API key; None in prod, and no key if the tenant is inactive."""

    tenant_id: TenantId | None
    api_key: str | None


async def seed_installation(
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", metavar="SLUG", help="Publish the shipped rules for this tenant [default: `dev`]."),
    ] = None,
    no_rules: Annotated[bool, typer.Option("--no-rules", help="Do not publish the shipped rules.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register the signing key; outside prod, create a tenant.

    The tenant is called `dev`, gets an API key with the role Admin, and the rule packages that are shipped with bpc are
    tested and published for it. In prod they are published for the tenant that --tenant names. Running it again
    changes nothing and prints the same key. Exits 1 if a package cannot be published.

    \b
    bpc seed
    bpc seed --tenant acme
    """
    if tenant is not None and no_rules:
        raise typer.BadParameter("Use either --tenant or --no-rules.")
    settings = load_settings_and_logs("seed", quiet=True)
    async with open_migrated_database(settings) as database:
        result = await seed_database(database, settings)
        published_rules = [] if no_rules else await _publish_rules(database, settings, result, tenant)
    if result.tenant_id is None:
        sentences = ["the signing key is registered; in prod, create a tenant yourself: `bpc tenants create SLUG`"]
    else:
        sentences = [
            f"tenant   {DEV_TENANT} ({result.tenant_id})",
            f"API key  {result.api_key or TENANT_DEACTIVATED}",
        ]
    sentences += [f"rules    {package.says}" for package in published_rules]
    rules = [asdict(package) for package in published_rules]
    print_result({**asdict(result), "rule_packages": rules}, *sentences, as_json=as_json)
    if any(package.refusal for package in published_rules):
        raise typer.Exit(REFUSED)


async def _publish_rules(
    database: Database, settings: Settings, result: SeedResult, slug: str | None
) -> Sequence[PublishedPackage]:
    """The shipped packages, published for the tenant that is named, or for `dev` if it exists and is active."""
    if slug is not None:
        tenant_id = (await tenants_and_actors.find_tenant(database, slug)).tenant_id
    elif result.tenant_id is None or result.api_key is None:
        return []
    else:
        tenant_id = result.tenant_id
    return await publish_shipped_packages(database, tenant_id, max_steps=settings.rules_max_steps)


async def seed_database(database: Database, settings: Settings) -> SeedResult:
    """Seed an open database. Repeating it changes nothing and returns the same key."""
    await _refuse_lost_key(database, settings)
    public = derive_public_key(load_signing_key(settings))
    await signing_keys.register_key(database, settings.signing_key_id, public, act=make_operator_act())
    async with database.plain() as conn:
        if await signing_keys.find_key_that_signs(conn, settings.signing_key_id) is None:
            log.warning("the signing key is retired: nothing will be signed", key_id=settings.signing_key_id)
    if settings.env == "prod":
        return SeedResult(tenant_id=None, api_key=None)
    tenant = await find_or_create_tenant(database, DEV_TENANT, name="Dev Tenant")
    if not tenant.is_active:
        return SeedResult(tenant_id=tenant.tenant_id, api_key=None)
    return SeedResult(tenant_id=tenant.tenant_id, api_key=await _ensure_first_key(database, settings, tenant.tenant_id))


async def _refuse_lost_key(database: Database, settings: Settings) -> None:
    """A lost registered key is not generated again: a new key under the old name could not verify old signatures."""
    if has_signing_key(settings):
        return
    async with database.plain() as conn:
        if await signing_keys.find_public_key(conn, settings.signing_key_id) is not None:
            raise signing_keys.PrivateKeyMissing(settings.signing_key_id)


async def find_or_create_tenant(database: Database, slug: str, *, name: str) -> TenantRow:
    """The tenant with this slug; created if it does not exist."""
    with suppress(UnknownResource):
        return await tenants_and_actors.find_tenant(database, slug)
    with suppress(Conflict):  # another process created it first
        await tenants_and_actors.create_tenant(database, slug=slug, name=name, act=make_operator_act())
    return await tenants_and_actors.find_tenant(database, slug)


async def _ensure_first_key(database: Database, settings: Settings, tenant: TenantId) -> str:
    """An API key with the role Admin, stored beside the other generated secrets so that it can be shown again."""
    path, peppers = locate_first_key(settings.data_dir), load_peppers(settings)
    async with database.tenant(tenant) as conn:
        await lock_name(conn, f"first key of {tenant}")
        if existing := await _find_usable_key(conn, settings.data_dir, tenant, peppers):
            return existing.text
        key = await create_admin_key(conn, tenant, peppers.in_use, name="Dev Admin", label="made by bpc seed")
        prepare_data_dir(settings.data_dir)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.unlink(missing_ok=True)
        write_secret(path, key.text)
    return key.text


async def create_admin_key(conn: Connection, tenant: TenantId, pepper: bytes, *, name: str, label: str) -> ApiKeySecret:
    """A key of a new client with the role Admin."""
    act = make_operator_act()
    actor = await tenants_and_actors.create_actor(
        conn, tenant, kind="API_CLIENT", display_name=name, roles=["Admin"], act=act
    )
    return (await api_keys.create_key(conn, tenant, actor, pepper=pepper, act=act, label=label)).api_key


async def _find_usable_key(conn: Connection, data_dir: Path, tenant: TenantId, peppers: Peppers) -> ApiKeySecret | None:
    """The key in the file, if it is still valid for `tenant`."""
    key = read_first_key(data_dir)
    caller = None if key is None else await find_caller(conn, key.prefix)
    if (
        key is None
        or caller is None
        or caller.tenant_id != tenant
        or not caller.is_active
        or caller.revoked_at is not None
    ):
        return None
    if caller.expires_at is not None and caller.expires_at <= clock.now():
        return None
    return None if peppers.find_matching(key, caller.key_hash) is None else key
