"""`bpc tenants export` and `bpc tenants import`: one tenant as an archive that another installation can serve."""

from pathlib import Path
from typing import Annotated

import typer

from bpc.cli.setup.audit import verify_with_progress
from bpc.cli.support.arguments import check_slug
from bpc.cli.support.output import AsJson, print_json, print_line
from bpc.cli.support.progress import show_progress
from bpc.cli.support.session import load_settings_and_logs, make_operator_act
from bpc.storage.access import tenants_and_actors
from bpc.storage.archive.tenant_export import export_tenant
from bpc.storage.archive.tenant_import import import_tenant, open_archive
from bpc.storage.database import freeze_view, open_migrated_database
from bpc.storage.items.pack_bucket import locate_packs, open_packs


async def export_archive(
    slug: Annotated[str, typer.Argument(help="Short name of the tenant.", show_default=False, callback=check_slug)],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="New folder for the archive.")],
    as_json: AsJson = False,
) -> None:
    """Write everything of a tenant into an archive that another installation can take in.

    Everything is of one moment, while the service runs. The archive has the tenant's documents and the secrets of its
    passports, and no private key: keep it as closely as a backup.

    \b
    bpc tenants export acme --to acme-2027-02-18
    """
    settings = load_settings_and_logs("tenant")
    packs = open_packs(locate_packs(settings))
    async with open_migrated_database(settings) as database:
        tenant = await tenants_and_actors.find_tenant(database, slug)
        outcome = await export_tenant(
            database, tenant, to, packs, act=make_operator_act(), build=settings.compiler_build_id
        )
    if as_json:
        print_json(
            {
                "archive": to,
                "bytes": outcome.manifest.size,
                "files": len(outcome.manifest.files),
                "packs": outcome.packs,
                "rows": outcome.rows,
                "waiting_batteries": outcome.waiting,
            }
        )
        return
    print_line(f"{to}: {outcome.rows:,} rows, {outcome.packs:,} packs, {outcome.manifest.size / 1e6:,.1f} MB")
    if outcome.waiting:
        print_line(f"{outcome.waiting:,} batteries wait for their passport: another installation cannot issue them")


async def import_archive(
    folder: Annotated[Path, typer.Argument(help="Folder of the archive.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Take in a tenant that another installation exported. Its public pages are served, and nothing else.

    Every file is compared with the manifest first, and the audit log is verified afterwards. The tenant is inactive
    until `bpc tenants reactivate`: then its people need new API keys, and the tenant a signing key.

    \b
    bpc tenants import acme-2027-02-18
    """
    settings = load_settings_and_logs("tenant")
    archive, packs = open_archive(folder), open_packs(locate_packs(settings))
    async with open_migrated_database(settings) as database:
        rows = await import_tenant(database, archive, packs, act=make_operator_act())
        tenant = await tenants_and_actors.find_tenant(database, archive.slug)
        with show_progress("", as_json=as_json) as bar:
            async with database.tenant(tenant.tenant_id) as conn:
                await freeze_view(conn)
                verification = await verify_with_progress(conn, tenant, bar, floor_days=settings.retention_floor)
    faults = verification.fault_count
    if as_json:
        print_json({"faults": faults, "rows": rows, "slug": archive.slug, "tenant_id": tenant.tenant_id})
    else:
        print_line(f"{archive.slug}: {rows:,} rows; its public pages are served, and nothing else")
        says = f"{faults:,} faults: `bpc audit verify` lists them" if faults else "intact"
        print_line(f"{verification.chains.events:,} events: {says}", colour="red" if faults else "green")
    if faults:
        raise typer.Exit(1)
