"""`bpc tenants` and `bpc apikeys`: companies and their API keys."""

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from bpc.cli.online.tenant_settings import change_branding, change_settings
from bpc.cli.setup.tenant_archive import export_archive, import_archive
from bpc.cli.setup.tenant_replica import follow, replicate
from bpc.cli.setup.tenant_storage import show_storage
from bpc.cli.support.arguments import TenantOption, check_slug, command_group, require_utf8
from bpc.cli.support.output import (
    AsJson,
    format_day,
    format_yes_no,
    print_json,
    print_line,
    print_result,
    print_table,
)
from bpc.cli.support.session import (
    load_settings_and_logs,
    make_operator_act,
    name_pepper,
    name_peppers,
    open_tenant,
)
from bpc.core.api_keys import PREFIX_LENGTH
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import ActorId, parse_uuid
from bpc.core.identifiers.addresses import parse_host
from bpc.core.policies import ROLES
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.runtime.settings.data_dir import load_pepper
from bpc.storage.access import api_keys, tenants_and_actors
from bpc.storage.access.api_keys import ApiKeyRow
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.database import open_migrated_database

log = get_logger(__name__)

tenant_app = command_group(
    "Create, list, deactivate and reactivate tenants; show and change settings.\n\n"
    "A tenant is a company whose data nobody else on this installation sees."
)
apikey_app = command_group(
    "Create, list and revoke API keys.\n\nA key belongs to an actor of a tenant and may do what its roles allow."
)

SlugArgument = Annotated[
    str, typer.Argument(help="Short name: 3 to 64 of a-z, 0-9 and `-`.", show_default=False, callback=check_slug)
]


@tenant_app.command("create")
async def create_tenant(
    slug: SlugArgument,
    name: Annotated[str, typer.Option("--name", help="Full name [default: the slug].", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Create a tenant.

    It starts with the roles Admin, ComplianceOfficer and Auditor.

    \b
    bpc tenants create acme --name "Acme Batteries GmbH"
    """
    name = require_utf8("the name", name) or slug
    async with open_migrated_database(load_settings_and_logs("tenant")) as database:
        tenant = await tenants_and_actors.create_tenant(database, slug=slug, name=name, act=make_operator_act())
    print_result(
        {"tenant_id": tenant, "slug": slug},
        f"created tenant {slug} ({tenant})",
        f"next: `bpc apikeys create --tenant {slug} --role Admin`",
        as_json=as_json,
    )


@tenant_app.command("list")
async def list_tenants(as_json: AsJson = False) -> None:
    """List all tenants."""
    async with open_migrated_database(load_settings_and_logs("tenant")) as database, database.system() as conn:
        tenants = await tenants_and_actors.list_tenants(conn)
    if as_json:
        print_json([asdict(tenant) for tenant in tenants])
        return
    rows = [
        (tenant.slug, tenant.name, tenant.tenant_id, format_yes_no(tenant.is_active), format_day(tenant.created_at))
        for tenant in tenants
    ]
    print_table(("SLUG", "NAME", "ID", "ACTIVE", "CREATED"), rows)


@tenant_app.command()
async def deactivate(slug: SlugArgument, as_json: AsJson = False) -> None:
    """Deactivate a tenant; nothing is deleted.

    Its API keys are refused until it is reactivated.
    """
    await _set_active(slug, active=False, as_json=as_json)


@tenant_app.command()
async def reactivate(slug: SlugArgument, as_json: AsJson = False) -> None:
    """Reactivate a tenant."""
    await _set_active(slug, active=True, as_json=as_json)


tenant_app.command("settings")(change_settings)
tenant_app.command("branding")(change_branding)
tenant_app.command("storage")(show_storage)
tenant_app.command("export")(export_archive)
tenant_app.command("import")(import_archive)
tenant_app.command("replicate")(replicate)
tenant_app.command("follow")(follow)


@tenant_app.command("domain")
async def assign_domain(
    slug: SlugArgument,
    host: Annotated[
        str | None, typer.Option("--set", metavar="HOST", help="Domain of its public pages, as in passports.acme.com.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the domain away.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the domain of a tenant's public pages, or assign one.

    Under its domain there are the public pages of this tenant and what they are checked with, and nothing else: no API.
    The domain has to lead to this installation; the API notices a change within ten seconds.

    \b
    bpc tenants domain acme --set passports.acme.com
    """
    if host is not None and remove:
        raise Invalid("`--set` and `--remove` exclude each other", fix="use one of them")
    async with open_migrated_database(load_settings_and_logs("tenant")) as database:
        tenant = (await tenants_and_actors.find_tenant(database, slug)).tenant_id
        async with database.system(tenant) as conn:
            if host is not None or remove:
                domain = None if host is None else parse_host(host)
                await tenants_and_actors.change_public_host(conn, tenant, domain, act=make_operator_act())
            domain = await tenants_and_actors.find_public_host(conn, tenant)
    print_result({"slug": slug, "domain": domain}, f"domain   {domain or 'none'}", as_json=as_json)


async def _set_active(slug: str, *, active: bool, as_json: bool) -> None:
    async with open_migrated_database(load_settings_and_logs("tenant")) as database:
        async with database.system() as conn:
            tenant = await tenants_and_actors.get_tenant_by_slug(conn, slug)
        if tenant.tenant_id == SYSTEM_TENANT:
            raise Conflict(
                f"the tenant `{slug}` belongs to bpc itself and cannot be deactivated", fix="deactivate another one"
            )
        if tenant.is_active != active:
            await tenants_and_actors.set_tenant_active(database, tenant, active=active, act=make_operator_act())
    verb = "was already" if tenant.is_active == active else "is"
    says = f"tenant {slug} {verb} {'active' if active else 'deactivated'}"
    print_result({"slug": slug, "is_active": active}, says, as_json=as_json)


def _complete_roles() -> list[str]:
    return list(ROLES)


@apikey_app.command("create")
async def create_key(
    tenant: TenantOption,
    role: Annotated[
        str | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="Create a new client with this role: Admin, ComplianceOfficer or Auditor.",
            autocompletion=_complete_roles,
        ),
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option("--actor", metavar="ID", help="Create the key for this existing actor (instead of --role)."),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="TEXT", help="What the key is for.")] = None,
    days: Annotated[
        int | None, typer.Option("--expires-in-days", metavar="N", min=1, max=36500, help="Days until the key expires.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key for a new client or for an existing actor.

    The key is printed once and never again: only its hash is stored.

    \b
    bpc apikeys create --tenant acme --role Auditor --label "yearly audit" --expires-in-days 30
    """
    if (role is None) == (actor is None):
        raise typer.BadParameter("Use either --role (new client) or --actor (existing one).")
    actor_id = None if actor is None else ActorId(parse_uuid(actor))
    roles = [] if role is None else [require_utf8("the role", role)]
    label = label and require_utf8("the label", label)
    settings, act = load_settings_and_logs("apikey"), make_operator_act()
    async with open_tenant(settings, tenant) as (tenant_id, conn):
        if actor_id is not None:
            await tenants_and_actors.require_active_actor(conn, tenant_id, actor_id)
        else:
            actor_id = await tenants_and_actors.create_actor(
                conn, tenant_id, kind="API_CLIENT", display_name=label or f"{role} client", roles=roles, act=act
            )
        new_key = await api_keys.create_key(
            conn,
            tenant_id,
            actor_id,
            pepper=load_pepper(settings),
            act=act,
            label=label,
            expires_at=None if days is None else act.at + timedelta(days=days),
        )
    if as_json:
        print_json(
            {
                "api_key": new_key.api_key.text,
                "api_key_id": new_key.api_key_id,
                "actor_id": new_key.actor_id,
                "key_prefix": new_key.api_key.prefix,
            }
        )
    else:
        print_line(new_key.api_key.text)
        typer.echo("save it now: it will not be shown again", err=True)


@apikey_app.command("list")
async def list_keys(tenant: TenantOption, as_json: AsJson = False) -> None:
    """List a tenant's keys (never the secret part).

    PEPPER is the secret that a key's hash was made with: `current`, `previous` or `next`, or `another` if it is none
    of these. It is empty for a key of an earlier version that was not used since.
    """
    settings = load_settings_and_logs("apikey")
    async with open_tenant(settings, tenant) as (tenant_id, conn):
        keys = await api_keys.list_all_keys(conn, tenant_id)
    names = name_peppers(settings)
    if as_json:
        print_json([_key_to_json(key, name_pepper(names, key.pepper_id)) for key in keys])
        return
    rows = [
        (
            key.key_prefix,
            key.label,
            key.display_name,
            ", ".join(key.roles),
            format_day(key.created_at),
            name_pepper(names, key.pepper_id),
            _describe_state(key),
        )
        for key in keys
    ]
    print_table(("PREFIX", "LABEL", "ACTOR", "ROLES", "CREATED", "PEPPER", "STATE"), rows)


@apikey_app.command("revoke")
async def revoke_key(
    prefix: Annotated[str, typer.Argument(help="The part between `bpc_` and the second `_`, or the whole key.")],
    tenant: TenantOption,
    as_json: AsJson = False,
) -> None:
    """Revoke a key permanently.

    \b
    bpc apikeys revoke 4fTzQ0aLw9 --tenant acme
    """
    public = _extract_prefix(require_utf8("the prefix", prefix))
    async with open_tenant(load_settings_and_logs("apikey"), tenant) as (tenant_id, conn):
        await api_keys.revoke_key_by_prefix(conn, tenant_id, public, act=make_operator_act())
    print_result({"key_prefix": public, "revoked": True}, f"revoked {public}", as_json=as_json)


def _describe_state(key: ApiKeyRow) -> str:
    if key.revoked_at:
        return "revoked"
    if key.expires_at is None:
        return "valid"
    return f"{'expired' if key.expires_at <= clock.now() else 'until'} {format_day(key.expires_at)}"


def _extract_prefix(text: str) -> str:
    """The prefix, also of a whole key, which a person may paste; its secret part is never repeated."""
    parts = text.split("_")
    return (parts[1] if len(parts) > 1 and parts[0] == "bpc" else text)[:PREFIX_LENGTH]


def _key_to_json(key: ApiKeyRow, pepper_name: str) -> dict[str, object]:
    document = {**asdict(key), "pepper": pepper_name or None}
    del document["pepper_id"]
    return document
