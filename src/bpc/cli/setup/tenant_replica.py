"""`bpc tenants replicate` and `bpc tenants follow`: a copy of one tenant elsewhere that is never far behind."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc.cli.support.arguments import check_slug
from bpc.cli.support.output import AsJson, print_json, print_line
from bpc.cli.support.session import load_settings_and_logs, make_operator_act
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.archive.replica_export import replicate_tenant
from bpc.storage.archive.replica_import import follow_replica
from bpc.storage.database import open_migrated_database
from bpc.storage.items.pack_bucket import locate_packs, open_packs

ONCE: Final = 0

Every = Annotated[
    int, typer.Option("--every", min=0, metavar="SECONDS", help="Again after so many seconds, until Ctrl-C. 0: once.")
]


async def replicate(
    slug: Annotated[str, typer.Argument(help="Short name of the tenant.", show_default=False, callback=check_slug)],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Folder of the replica.")],
    every: Every = ONCE,
    as_json: AsJson = False,
) -> None:
    """Write what changed of a tenant since the last time into a folder that another installation follows.

    The first time it writes an archive. Each round writes the rows and packs since the one before, of one moment, while
    the service runs. A round that is killed leaves nothing behind. Keep the folder as closely as a backup.

    \b
    bpc tenants replicate acme --to /mnt/replica --every 60
    """
    settings = load_settings_and_logs("tenant")
    packs = open_packs(locate_packs(settings))

    async def write_once() -> None:
        async with open_migrated_database(settings) as database:
            tenant = await tenants_and_actors.find_tenant(database, slug)
            part = await replicate_tenant(
                database, tenant, to, packs, act=make_operator_act(), build=settings.compiler_build_id
            )
        if as_json:
            print_json({"at": format_time(part.at), "number": part.number, "packs": part.packs, "rows": part.rows})
        else:
            print_line(f"{part.number:06d}: {part.rows:,} rows, {part.packs:,} packs, up to {format_time(part.at)}")

    await _repeat(write_once, every)


async def follow(
    folder: Annotated[Path, typer.Argument(help="Folder of the replica.", show_default=False)],
    every: Every = ONCE,
    as_json: AsJson = False,
) -> None:
    """Take in what a replica has that is new. The tenant's public pages are served, and nothing else.

    Every file is compared with its manifest first. The tenant is inactive until `bpc tenants reactivate`, which takes
    over: from then on nothing more is taken in.

    \b
    bpc tenants follow /mnt/replica --every 60
    """
    settings = load_settings_and_logs("tenant")
    packs = open_packs(locate_packs(settings))

    async def follow_once() -> None:
        async with open_migrated_database(settings) as database:
            outcome = await follow_replica(database, folder, packs, settings.data_dir, act=make_operator_act())
        if as_json:
            at = format_time(outcome.at)
            print_json({"at": at, "number": outcome.number, "parts": outcome.parts, "rows": outcome.rows})
            return
        behind = (clock.now() - outcome.at).total_seconds()
        print_line(
            f"{outcome.slug}: {outcome.parts:,} parts, {outcome.rows:,} rows; as it was {behind:,.0f} seconds ago"
        )

    await _repeat(follow_once, every)


async def _repeat(run_once: Callable[[], Awaitable[None]], every: int) -> None:
    """Once, or again each time so many seconds have passed since the last beginning."""
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        await run_once()
        if every == ONCE:
            return
        await asyncio.sleep(max(0.0, started + every - loop.time()))
