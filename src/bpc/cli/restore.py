"""`bpc restore`: a backup into an empty place, and proof that it is all there."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc.cli.output import REFUSED, AsJson, print_json, say
from bpc.cli.session import settings_for
from bpc.core.timestamps import format_time
from bpc.db import events, passport_versions, tenants
from bpc.db.backup import manifest
from bpc.db.backup.manifest import Manifest
from bpc.db.backup.restoring import restore_base, restore_dump, restore_keys
from bpc.db.connection import connected
from bpc.db.database import Database, open_database
from bpc.db.embedded.layout import Layout, is_locked
from bpc.db.migrate import migrate, our_migrations
from bpc.db.opening import placed
from bpc.pipeline.replay import check, gathered
from bpc.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None)

SAMPLE: Final = 20
STOP_SECONDS: Final = 30.0


@dataclass(slots=True, kw_only=True)
class Report:
    """What was done, how long each part took, and what was found."""

    backup: str
    place: str
    taken_at: str
    seconds: dict[str, float] = field(default_factory=dict)
    migrations: list[str] = field(default_factory=list)
    events: int = 0
    faults: int = 0
    replayed: int = 0
    mismatches: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults and not self.mismatches

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[what] = round(time.monotonic() - started, 2)

    def as_json(self) -> dict[str, object]:
        return {
            "ok": self.ok,
            "backup": self.backup,
            "place": self.place,
            "taken_at": self.taken_at,
            "seconds": self.seconds,
            "migrations": self.migrations,
            "events": self.events,
            "faults": self.faults,
            "replayed": self.replayed,
            "mismatches": self.mismatches,
        }


@app.command()
def restore(
    backup: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="What `bpc backup` made, or a folder of that: the newest.")
    ],
    replay: Annotated[
        int, typer.Option("--replay", metavar="N", min=0, help="Passports of each tenant that are compiled again.")
    ] = SAMPLE,
    *,
    drill: Annotated[
        bool, typer.Option("--drill", help="Into a temporary place, which is removed afterwards.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into an empty place and check it.

    Every file is compared with the backup's list first. Files of the embedded server go into BPC_DATA_DIR, a dump
    into the database that DATABASE_URL names; both must be empty. Then migrations are applied that this build
    needs, every audit chain is verified, and a sample of passports is compiled again. Exits 1 if anything differs.

    \b
    BPC_DATA_DIR=/srv/restored bpc restore /srv/backups/bpc-20270218T031700Z
    bpc restore --drill /srv/backups
    """
    settings, backup = settings_for("restore"), manifest.chosen(backup)
    if drill:
        with tempfile.TemporaryDirectory(prefix="bpc-drill-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o711)  # the server's user passes through
            aside = settings.model_copy(
                update={"data_dir": Path(folder) / "data", "database_url": None, "db_host": None}
            )
            report = asyncio.run(_restored(aside, backup, replay))
            _wait_until_stopped(aside.data_dir)
    else:
        report = asyncio.run(_restored(settings, backup, replay))
    if as_json:
        print_json(report.as_json())
    else:
        _print(report, drill=drill)
    if not report.ok:
        raise typer.Exit(REFUSED)


def _wait_until_stopped(data_dir: Path) -> None:
    """Whoever removes the files of a server that is still going finds some that are gone before."""
    deadline = time.monotonic() + STOP_SECONDS
    while is_locked(Layout(data_dir).keeper_lock) and time.monotonic() < deadline:
        time.sleep(0.05)


async def _restored(settings: Settings, backup: Path, replay: int) -> Report:
    started = time.monotonic()
    found = await asyncio.to_thread(manifest.check, backup)
    report = Report(backup=str(backup), place=str(settings.data_dir), taken_at=format_time(found.taken_at))
    report.seconds["checking the files"] = round(time.monotonic() - started, 2)
    with report.timed("putting it back"):
        await _put_back(settings, backup, found)
    async with placed(settings) as place:
        report.place = str(place.address)
        with report.timed("migrations"):
            async with connected(place.address) as conn:
                report.migrations = await migrate(conn, our_migrations())
        database = await open_database(place.address, pool_size=settings.db_pool_size, revive=place.revive)
        try:
            with report.timed("verifying the audit log"):
                await _verify(database, report)
            with report.timed("compiling passports again"):
                await _replay(database, replay, report)
        finally:
            await database.close()
    report.seconds["all of it"] = round(time.monotonic() - started, 2)
    return report


async def _put_back(settings: Settings, backup: Path, found: Manifest) -> None:
    if settings.database_dsn is None and found.kind == "base":
        await asyncio.to_thread(restore_base, backup, found, settings.data_dir)
        return
    async with placed(settings) as place:
        # Only a superuser may give everything back to its owner; of a server of somebody else's we have the login only.
        login = place.address if place.server is None else place.server.superuser_address(place.address.database)
        await restore_dump(backup, found, login)
    await asyncio.to_thread(restore_keys, backup, settings.data_dir)


async def _verify(database: Database, report: Report) -> None:
    async with database.system() as conn:
        known = await tenants.every(conn)
        report.faults += len(await events.without_a_tenant(conn))
    for tenant in known:
        async with database.tenant(tenant.tenant_id) as conn:
            verified = await events.verify_tenant(conn, tenant.tenant_id)
        report.events += verified.events
        report.faults += len(verified.faults)


async def _replay(database: Database, most: int, report: Report) -> None:
    async with database.system() as conn:
        known = await tenants.every(conn)
    for tenant in known:
        async with database.tenant(tenant.tenant_id) as conn:
            for version_id in await passport_versions.sample(conn, tenant.tenant_id, most=most):
                version = await passport_versions.get(conn, tenant.tenant_id, version_id)
                steps = await asyncio.to_thread(check, await gathered(conn, tenant.tenant_id, version))
                report.replayed += 1
                if wrong := [step for step in steps if not step.ok]:
                    report.mismatches.append(f"{version_id}: {wrong[0].name}: {wrong[0].detail}")


def _print(report: Report, *, drill: bool) -> None:
    for what, seconds in report.seconds.items():
        say(f"{seconds:8.2f} s  {what}")
    if report.migrations:
        say(f"applied {', '.join(report.migrations)}")
    faults = "intact" if not report.faults else f"{report.faults:,} faults: `bpc audit verify` names them"
    say(f"{report.events:,} events: {faults}", colour="red" if report.faults else "green")
    wrong = f"{len(report.mismatches):,} of them differ" if report.mismatches else "byte for byte the same"
    say(f"{report.replayed:,} passports compiled again: {wrong}", colour="red" if report.mismatches else "green")
    for mismatch in report.mismatches:
        say(f"  {mismatch}")
    if report.ok:
        say("the drill was passed; nothing of it is left" if drill else f"restored to {report.place}", bold=True)
