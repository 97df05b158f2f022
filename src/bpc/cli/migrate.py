"""`bpc migrate`: bring the database's tables to what this build needs."""

import asyncio
from typing import Annotated

import typer

from bpc.cli.output import REFUSED, AsJson, print_json, say
from bpc.cli.session import has_database, settings_for
from bpc.db.connection import connected
from bpc.db.migrate import Comparison, State, compare, migrate, our_migrations
from bpc.db.opening import placed, require_version
from bpc.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def migrate_command(
    *,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if something is pending.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the database's tables up to date.

    Applies the migrations this database lacks, each in one transaction. Safe to run twice, and by many processes
    at once. Without DATABASE_URL or BPC_DB_HOST the embedded PostgreSQL is made first if need be.
    """
    settings = settings_for("migrate")
    if check:
        _report(asyncio.run(_compare(settings)), as_json=as_json)
        return
    applied = asyncio.run(_migrate(settings))
    if as_json:
        print_json({"applied": applied})
    elif applied:
        say("applied " + ", ".join(applied))
    else:
        say("nothing to do: the database is current")


async def _migrate(settings: Settings) -> list[str]:
    async with placed(settings) as place, connected(place.address) as conn:
        await require_version(conn)
        return await migrate(conn, our_migrations())


async def _compare(settings: Settings) -> Comparison:
    if not has_database(settings):
        return Comparison(pending=tuple(our_migrations()), unknown=())
    async with placed(settings, look_only=True) as place, connected(place.address) as conn:
        return await compare(conn, our_migrations())


def _report(found: Comparison, *, as_json: bool) -> None:
    pending = [migration.name for migration in found.pending]
    if as_json:
        print_json({"state": found.state.value, "pending": pending, "unknown": list(found.unknown)})
    elif found.state is State.BEHIND:
        say("pending: " + ", ".join(pending) + "; run `bpc migrate`")
    elif found.state is State.AHEAD:
        say("nothing is pending; the database is newer than this build: " + ", ".join(found.unknown))
    else:
        say("nothing is pending: the database is current")
    if found.state is State.BEHIND:
        raise typer.Exit(REFUSED)
