"""`bpc console`: links that sign a person in to the console, outside prod."""

from datetime import timedelta
from typing import Annotated, Final

import typer

from bpc.cli.setup.seed import DEV_TENANT
from bpc.cli.support.arguments import check_slug, command_group
from bpc.cli.support.output import AsJson, print_result
from bpc.cli.support.session import (
    format_url,
    load_peppers,
    load_settings_and_logs,
    make_operator_act,
    read_first_key,
)
from bpc.core.api_keys import ApiKeySecret
from bpc.core.console_access import LINK_ENTROPY_BYTES, LINK_VALID_FOR, SignInLink
from bpc.core.errors import Invalid, Refusal
from bpc.core.formats.ids import ActorId, TenantId, parse_uuid
from bpc.core.policies import ROLES
from bpc.runtime import clock
from bpc.runtime.running_service import find_service
from bpc.runtime.settings import Settings
from bpc.runtime.sockets import LOOPBACK
from bpc.storage.access import tenants_and_actors
from bpc.storage.access.api_requests import find_caller
from bpc.storage.connection import Connection
from bpc.storage.database import Database, open_migrated_database

SIGN_IN_PATH: Final = "/console/sign-in"

console_app = command_group(
    "Make a link that signs in to the console.\n\n"
    "Links are for development and for trying things out. In prod people sign in with a provider (OpenID Connect)."
)


class LinksNotAllowed(Refusal):
    """Whoever has a link is somebody else for a while; prod does not allow that."""

    code = "FORBIDDEN"

    def __init__(self) -> None:
        super().__init__("in prod there are no sign-in links", fix="configure a provider: docs/console-sign-in.md")


@console_app.callback()
def describe_console() -> None:
    """Keep `link` a command of its own, although it is the only one."""


@console_app.command("link")
async def make_link(
    tenant: Annotated[
        str, typer.Option("--tenant", metavar="SLUG", help="The tenant's short name.", callback=check_slug)
    ] = DEV_TENANT,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="ID", help="Who signs in [default: who `bpc seed` made].")
    ] = None,
    role: Annotated[
        str | None,
        typer.Option("--role", metavar="ROLE", help="Create a new person with this role, and sign them in."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The name of that person [default: the role].")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a link that signs in to the console once, within ten minutes.

    \b
    bpc console link
    bpc console link --tenant acme --role ComplianceOfficer --name "Officer"
    """
    if actor is not None and role is not None:
        raise Invalid("`--actor` and `--role` exclude each other", fix="use one of them")
    settings = load_settings_and_logs("console", quiet=True)
    if settings.env == "prod":
        raise LinksNotAllowed
    async with open_migrated_database(settings) as database:
        tenant_id = (await tenants_and_actors.find_tenant(database, tenant)).tenant_id
        async with database.tenant(tenant_id) as conn:
            actor_id = await _choose_actor(conn, settings, tenant_id, actor=actor, role=role, name=name)
    link = write_link(settings, tenant_id, actor_id, _find_url(settings))
    print_result(
        {"link": link, "valid_minutes": LINK_VALID_FOR // timedelta(minutes=1)},
        f"console  {link}",
        "It signs in once, within ten minutes.",
        as_json=as_json,
    )


def write_link(settings: Settings, tenant: TenantId, actor: ActorId, url: str) -> str:
    """The address that signs this actor in. Its secret is behind `#`, which browsers do not send."""
    link = SignInLink(
        tenant_id=tenant,
        actor_id=actor,
        expires_at=clock.now() + LINK_VALID_FOR,
        number=clock.random_bytes(LINK_ENTROPY_BYTES),
    )
    return f"{url}{SIGN_IN_PATH}#{link.write(load_peppers(settings).in_use)}"


async def write_first_link(database: Database, settings: Settings, api_key: str, url: str) -> str | None:
    """The link of whoever has this key; None if the key is not known."""
    async with database.plain() as conn:
        caller = await find_caller(conn, ApiKeySecret.parse(api_key).prefix)
    return None if caller is None else write_link(settings, caller.tenant_id, caller.actor_id, url)


async def _choose_actor(
    conn: Connection, settings: Settings, tenant: TenantId, *, actor: str | None, role: str | None, name: str | None
) -> ActorId:
    if actor is not None:
        actor_id = ActorId(parse_uuid(actor))
        await tenants_and_actors.require_active_actor(conn, tenant, actor_id)
        return actor_id
    if role is not None:
        return await tenants_and_actors.create_actor(
            conn, tenant, kind="USER", display_name=name or role, roles=[role], act=make_operator_act()
        )
    key = read_first_key(settings.data_dir)
    caller = None if key is None else await find_caller(conn, key.prefix)
    if caller is None or caller.tenant_id != tenant:
        raise Invalid("nobody is named who could sign in", fix=f"use --actor ID, or --role with {', '.join(ROLES)}")
    return caller.actor_id


def _find_url(settings: Settings) -> str:
    """Where the console is: the service that runs on this machine, or where it would run."""
    service = find_service(settings.data_dir)
    if service is not None:
        return service.url
    return settings.public_url or format_url(settings.http_host or LOOPBACK, settings.http_port)
