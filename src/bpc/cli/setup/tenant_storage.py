"""`bpc tenants storage`: how many bytes a tenant stores, and how many it may."""

from dataclasses import asdict
from typing import Annotated

import typer

from bpc.cli.support.arguments import check_slug
from bpc.cli.support.output import AsJson, print_json, print_line
from bpc.cli.support.session import load_settings_and_logs, make_operator_act
from bpc.core.errors import Invalid
from bpc.storage.access import storage_quota, tenants_and_actors
from bpc.storage.database import open_migrated_database


async def show_storage(
    slug: Annotated[str, typer.Argument(help="Short name of the tenant.", show_default=False, callback=check_slug)],
    quota: Annotated[
        int | None,
        typer.Option("--quota", metavar="BYTES", min=0, help="Set how many bytes it may store; 0 is no limit."),
    ] = None,
    default: Annotated[
        bool, typer.Option("--default-quota", help="Take BPC_TENANT_STORAGE_BYTES again instead of a quota of its own.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show how many bytes a tenant stores, or set how many it may.

    Whatever would be more is refused: uploads, rules and exports. Nothing that is stored is removed.

    \b
    bpc tenants storage acme
    bpc tenants storage acme --quota 50000000000
    """
    if quota is not None and default:
        raise Invalid("`--quota` and `--default-quota` exclude each other", fix="use one of them")
    settings = load_settings_and_logs("tenant")
    async with open_migrated_database(settings) as database:
        tenant = (await tenants_and_actors.find_tenant(database, slug)).tenant_id
        async with database.system(tenant) as conn:
            if quota is not None or default:
                await storage_quota.change_quota(conn, tenant, quota, act=make_operator_act())
            use = await storage_quota.measure_use(conn, tenant)
            limit = await storage_quota.load_quota(conn, tenant, default=settings.tenant_storage_bytes)
    if as_json:
        print_json({"slug": slug, "used_bytes": use.total, "quota_bytes": limit or None, **asdict(use)})
        return
    print_line(f"stores   {use.total:,} bytes")
    print_line(f"quota    {f'{limit:,} bytes' if limit else 'none'}")
    for name, size in asdict(use).items():
        print_line(f"  {name.replace('_', ' '):<18} {size:,}")
