"""`bpc tenant`: the companies on this installation."""

import asyncio
from typing import Annotated

import typer

from bpc.cli.output import AsJson, print_json, say
from bpc.cli.session import operator_act, settings_for
from bpc.cli.table import print_table
from bpc.cli.text import checked_text
from bpc.core.errors import Conflict
from bpc.core.ids import TenantId
from bpc.core.timestamps import format_time
from bpc.db import tenants
from bpc.db.opening import opened
from bpc.db.tenants import SYSTEM_TENANT, Tenant
from bpc.settings import Settings

app = typer.Typer(
    help="Create, list, deactivate and reactivate tenants.\n\n"
    "A tenant is a company whose data nobody else on this installation sees.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Slug = Annotated[str, typer.Argument(help="Short name: 3 to 64 of a-z, 0-9 and `-`.", show_default=False)]


@app.command()
def create(
    slug: Slug,
    name: Annotated[str, typer.Option("--name", help="Full name; the slug if left out.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Create a tenant.

    It starts with the roles Admin, ComplianceOfficer and Auditor.

    \b
    bpc tenant create acme --name "Acme Batteries GmbH"
    """
    wanted = checked_text("the slug", slug), checked_text("the name", name) or slug
    tenant = asyncio.run(_create(settings_for("tenant"), *wanted))
    if as_json:
        print_json({"tenant_id": str(tenant), "slug": slug})
    else:
        say(f"created tenant {slug} ({tenant})")
        say(f"next: `bpc apikey create --tenant {slug} --role Admin`")


@app.command("list")
def list_tenants(as_json: AsJson = False) -> None:
    """List all tenants."""
    found = asyncio.run(_list(settings_for("tenant")))
    if as_json:
        print_json([_as_json(tenant) for tenant in found])
    else:
        rows = [
            (tenant.slug, tenant.name, tenant.tenant_id, "yes" if tenant.is_active else "no", _day(tenant))
            for tenant in found
        ]
        print_table(("SLUG", "NAME", "ID", "ACTIVE", "CREATED"), rows)


@app.command()
def deactivate(slug: Slug, as_json: AsJson = False) -> None:
    """Close a tenant without deleting anything.

    Its keys open nothing until it is reactivated.
    """
    _set_active(slug, active=False, as_json=as_json)


@app.command()
def reactivate(slug: Slug, as_json: AsJson = False) -> None:
    """Open a deactivated tenant again."""
    _set_active(slug, active=True, as_json=as_json)


def _set_active(slug: str, *, active: bool, as_json: bool) -> None:
    changed = asyncio.run(_change(settings_for("tenant"), checked_text("the slug", slug), active=active))
    if as_json:
        print_json({"slug": slug, "is_active": active})
    else:
        say(f"tenant {slug} {'is' if changed else 'was already'} {'active' if active else 'deactivated'}")


async def _create(settings: Settings, slug: str, name: str) -> TenantId:
    async with opened(settings) as database:
        return await tenants.create(database, slug=slug, name=name, act=operator_act())


async def _list(settings: Settings) -> list[Tenant]:
    async with opened(settings) as database, database.system() as conn:
        return await tenants.every(conn)


async def _change(settings: Settings, slug: str, *, active: bool) -> bool:
    async with opened(settings) as database:
        async with database.system() as conn:
            tenant = await tenants.by_slug(conn, slug)
        if tenant.tenant_id == SYSTEM_TENANT:
            raise Conflict(f"`{slug}` is bpc's own tenant and stays active", fix="deactivate another one")
        if tenant.is_active != active:
            await tenants.set_active(database, tenant, active=active, act=operator_act())
        return tenant.is_active != active


def _day(tenant: Tenant) -> str:
    return format_time(tenant.created_at)[:10]


def _as_json(tenant: Tenant) -> dict[str, object]:
    return {
        "tenant_id": str(tenant.tenant_id),
        "slug": tenant.slug,
        "name": tenant.name,
        "is_active": tenant.is_active,
        "created_at": format_time(tenant.created_at),
    }
