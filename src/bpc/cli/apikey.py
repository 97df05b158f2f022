"""`bpc apikey`: keys to the API. A key is shown once, when it is made."""

import asyncio
from datetime import timedelta
from typing import Annotated

import typer

from bpc import fresh
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.peppers import named, names_of
from bpc.cli.session import operator_act, settings_for
from bpc.cli.table import print_table
from bpc.cli.text import checked_text
from bpc.core.access import ROLES
from bpc.core.apikeys import PREFIX_LENGTH
from bpc.core.ids import ActorId, parse_uuid
from bpc.core.timestamps import format_time
from bpc.db import actors, apikeys, tenants
from bpc.db.apikeys import Issued, Listed
from bpc.db.opening import opened
from bpc.settings import Settings, pepper

app = typer.Typer(
    help="Create, list and revoke API keys.\n\nA key belongs to an actor of a tenant and may do what its roles allow.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

TenantSlug = Annotated[str, typer.Option("--tenant", metavar="SLUG", help="The tenant's short name.")]


def _roles() -> list[str]:
    return list(ROLES)


@app.command()
def create(
    tenant: TenantSlug,
    role: Annotated[
        str | None,
        typer.Option(
            "--role", metavar="ROLE", help="Admin, ComplianceOfficer or Auditor: a new client.", autocompletion=_roles
        ),
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="ID", help="Instead of --role: an actor that exists.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="TEXT", help="What the key is for.")] = None,
    days: Annotated[
        int | None, typer.Option("--expires-in-days", metavar="N", min=1, max=36500, help="When the key ends.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key for a new client or for an actor that exists.

    The key is printed once and never again: only its hash is kept.

    \b
    bpc apikey create --tenant acme --role Auditor --label "yearly audit" --expires-in-days 30
    """
    if (role is None) == (actor is None):
        raise typer.BadParameter("Say either --role, for a new client, or --actor, for one that exists.")
    existing = None if actor is None else ActorId(parse_uuid(actor))
    texts = checked_text("the slug", tenant), role and checked_text("the role", role)
    kept = label and checked_text("the label", label)
    issued = asyncio.run(_create(settings_for("apikey"), *texts, existing, kept, days))
    if as_json:
        print_json(
            {
                "api_key": issued.api_key.text,
                "api_key_id": str(issued.api_key_id),
                "actor_id": str(issued.actor_id),
                "key_prefix": issued.api_key.prefix,
            }
        )
    else:
        say(issued.api_key.text)
        typer.echo("this is the only time it is shown", err=True)


@app.command("list")
def list_keys(tenant: TenantSlug, as_json: AsJson = False) -> None:
    """List a tenant's keys, without what would open a door.

    PEPPER says which pepper a key's hash was made with: `current`, `previous` or `next`, `another` where it is none
    of those, nothing where the key was made by an earlier version and not used since.
    """
    settings = settings_for("apikey")
    found = asyncio.run(_list(settings, checked_text("the slug", tenant)))
    names = names_of(settings)
    if as_json:
        print_json([_as_json(key, named(names, key.pepper_id)) for key in found])
        return
    rows = [
        (
            key.key_prefix,
            key.label,
            key.display_name,
            ", ".join(key.roles),
            format_time(key.created_at)[:10],
            named(names, key.pepper_id),
            _state(key),
        )
        for key in found
    ]
    print_table(("PREFIX", "LABEL", "ACTOR", "ROLES", "CREATED", "PEPPER", "STATE"), rows)


@app.command()
def revoke(
    prefix: Annotated[str, typer.Argument(help="The part between `bpc_` and the second `_`, or the whole key.")],
    tenant: TenantSlug,
    as_json: AsJson = False,
) -> None:
    """End a key for good.

    \b
    bpc apikey revoke 4fTzQ0aLw9 --tenant acme
    """
    public = _prefix_of(checked_text("the prefix", prefix))
    asyncio.run(_revoke(settings_for("apikey"), checked_text("the slug", tenant), public))
    if as_json:
        print_json({"key_prefix": public, "revoked": True})
    else:
        say(f"revoked {public}")


async def _create(
    settings: Settings, slug: str, role: str | None, existing: ActorId | None, label: str | None, days: int | None
) -> Issued:
    act = operator_act()
    expires_at = None if days is None else act.at + timedelta(days=days)
    async with opened(settings) as database:
        tenant = (await tenants.find(database, slug)).tenant_id
        async with database.tenant(tenant) as conn:
            if existing is not None:
                await actors.require(conn, tenant, actor := existing)
            else:
                roles = [] if role is None else [role]
                name = label or f"{role} client"
                actor = await actors.create(conn, tenant, kind="API_CLIENT", display_name=name, roles=roles, act=act)
            return await apikeys.create(
                conn, tenant, actor, pepper=pepper(settings), act=act, label=label, expires_at=expires_at
            )


async def _list(settings: Settings, slug: str) -> list[Listed]:
    async with opened(settings) as database:
        tenant = (await tenants.find(database, slug)).tenant_id
        async with database.tenant(tenant) as conn:
            return await apikeys.every(conn, tenant)


async def _revoke(settings: Settings, slug: str, prefix: str) -> None:
    async with opened(settings) as database:
        tenant = (await tenants.find(database, slug)).tenant_id
        async with database.tenant(tenant) as conn:
            await apikeys.revoke(conn, tenant, prefix, act=operator_act())


def _state(key: Listed) -> str:
    if key.revoked_at:
        return "revoked"
    if key.expires_at is None:
        return "valid"
    return f"{'expired' if key.expires_at <= fresh.now() else 'until'} {format_time(key.expires_at)[:10]}"


def _prefix_of(text: str) -> str:
    """The prefix of a whole key too: who wants to end a key has it at hand, and its secret is not repeated."""
    parts = text.split("_")
    return (parts[1] if len(parts) > 1 and parts[0] == "bpc" else text)[:PREFIX_LENGTH]


def _as_json(key: Listed, pepper_name: str) -> dict[str, object]:
    return {
        "api_key_id": str(key.api_key_id),
        "key_prefix": key.key_prefix,
        "label": key.label,
        "actor_id": str(key.actor_id),
        "display_name": key.display_name,
        "roles": list(key.roles),
        "created_at": format_time(key.created_at),
        "expires_at": None if key.expires_at is None else format_time(key.expires_at),
        "revoked_at": None if key.revoked_at is None else format_time(key.revoked_at),
        "last_used_at": None if key.last_used_at is None else format_time(key.last_used_at),
        "pepper": pepper_name or None,
    }
