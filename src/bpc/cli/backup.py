"""`bpc backup`: everything that is stored, into a folder, while everything works."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc import fresh
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.session import has_database, settings_for
from bpc.core.errors import NotFound
from bpc.core.timestamps import format_time
from bpc.db.backup.last import note
from bpc.db.backup.manifest import Manifest
from bpc.db.backup.taking import forget, take
from bpc.db.opening import placed
from bpc.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None)

KEPT_DAYS: Final = 35


@app.command()
def backup(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder that backups are kept in.")],
    keep_days: Annotated[
        int, typer.Option("--keep-days", metavar="N", min=1, help="Remove older backups; the newest one always stays.")
    ] = KEPT_DAYS,
    *,
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="Put the private keys of the data directory into it, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Back up everything that is stored.

    Of the embedded PostgreSQL its files, as they are at one moment; of any other server what `pg_dump` writes, for
    which the login must be a superuser or have BYPASSRLS. Every file is listed with its SHA-256, so that
    `bpc restore` refuses a backup in which one byte has changed.

    \b
    bpc backup --to /srv/backups
    bpc backup --to /srv/backups --keep-days 90
    """
    settings = settings_for("backup")
    if not has_database(settings):
        raise NotFound(f"there is no database in `{settings.data_dir}`", fix="set BPC_DATA_DIR or DATABASE_URL")
    made, found, gone = asyncio.run(_backup(settings, to, timedelta(days=keep_days), with_keys=with_keys))
    if as_json:
        print_json(
            {
                "backup": str(made),
                "kind": found.kind,
                "taken_at": format_time(found.taken_at),
                "files": len(found.files),
                "bytes": found.size,
                "removed": [str(old) for old in gone],
            }
        )
        return
    say(f"{made}: {len(found.files):,} files, {found.size / 1e6:,.1f} MB, each listed with its SHA-256")
    for old in gone:
        say(f"removed {old}, which is older than {keep_days} days")
    if not with_keys:
        say("private keys are not in it: keep the signing key and the pepper safe elsewhere, or say --with-keys")


async def _backup(
    settings: Settings, to: Path, keep: timedelta, *, with_keys: bool
) -> tuple[Path, Manifest, list[Path]]:
    now = fresh.now()
    async with placed(settings, look_only=True) as place:
        keys = settings.data_dir / "keys" if with_keys and (settings.data_dir / "keys").is_dir() else None
        made, found = await take(to, place.address, place.server, keys=keys, build=settings.compiler_build_id, at=now)
    note(settings.data_dir, now)
    return made, found, list(forget(to, keep=keep, now=now))
