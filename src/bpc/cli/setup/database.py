"""`bpc migrate`, `bpc backup` and `bpc restore`: the tables of the database, and copies of everything stored."""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc.cli.setup.audit import verify_with_progress
from bpc.cli.support.output import REFUSED, AsJson, print_json, print_line, print_result
from bpc.cli.support.progress import ProgressBar, explain_interrupt, show_progress
from bpc.cli.support.session import has_database, load_settings_and_logs
from bpc.core.errors import Invalid, NotFound
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time
from bpc.pipeline.replay import check_all, load_replay_input
from bpc.runtime import clock
from bpc.runtime.postgres.cluster import Layout, is_locked
from bpc.runtime.settings import Settings
from bpc.runtime.settings.data_dir import locate_log_folder
from bpc.storage import backup as manifest
from bpc.storage.access.tenants_and_actors import TenantRow, list_tenants
from bpc.storage.audit import events
from bpc.storage.backup import (
    BackupManifest,
    ReportBytes,
    ignore_bytes,
    record_last_backup,
    remove_old_backups,
    take_backup,
)
from bpc.storage.connection import open_connection
from bpc.storage.database import (
    Database,
    freeze_view,
    locate_database,
    migrate_and_complete,
    open_database,
    require_server_version,
)
from bpc.storage.items.packs import PACKS_FOLDER
from bpc.storage.migrate import SchemaComparison, SchemaState, compare_schema, list_migrations
from bpc.storage.passports import passport_versions
from bpc.storage.restore import restore_base, restore_dump, restore_keys, restore_packs
from bpc.storage.tlog import log_rows


async def migrate_tables(
    *,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if something is pending.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the database's tables up to date.

    Applies missing migrations, each in its own transaction. Safe to repeat and to run in parallel. Without
    DATABASE_URL or BPC_DB_HOST it creates the embedded PostgreSQL if needed.
    """
    settings, migrations = load_settings_and_logs("migrate"), list_migrations()
    if check and not has_database(settings):
        _print_comparison(SchemaComparison(pending=tuple(migrations), unknown=()), as_json=as_json)
        return
    async with locate_database(settings, read_only=check) as place, open_connection(place.address) as conn:
        if check:
            _print_comparison(await compare_schema(conn, migrations), as_json=as_json)
            return
        await require_server_version(conn)
        applied_names = await migrate_and_complete(conn)
    says = "applied " + ", ".join(applied_names) if applied_names else "nothing to do: the database is current"
    print_result({"applied": applied_names}, says, as_json=as_json)


def _print_comparison(comparison: SchemaComparison, *, as_json: bool) -> None:
    pending = [migration.name for migration in comparison.pending]
    says = {
        SchemaState.BEHIND: f"pending: {', '.join(pending)}; run `bpc migrate`",
        SchemaState.AHEAD: "nothing is pending; the database is newer than this build: "
        + ", ".join(comparison.unknown),
    }.get(comparison.state, "nothing is pending: the database is current")
    document = {"state": comparison.state.value, "pending": pending, "unknown": comparison.unknown}
    print_result(document, says, as_json=as_json)
    if comparison.state is SchemaState.BEHIND:
        raise typer.Exit(REFUSED)


KEPT_DAYS: Final = 35


async def back_up(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder for the backups.")],
    keep_days: Annotated[
        int, typer.Option("--keep-days", metavar="N", min=1, help="Remove older backups; the newest one always stays.")
    ] = KEPT_DAYS,
    *,
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="Include the private keys of the data folder.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Back up everything that is stored.

    For the embedded PostgreSQL it copies the files at one point in time. For any other server it runs `pg_dump`; the
    login must be a superuser or have BYPASSRLS. Buckets and the files of the transparency log are not in the backup; it
    says where they are. Each file is listed with its SHA-256, and `bpc restore` refuses a
    backup with a changed byte.

    \b
    bpc backup --to /srv/backups
    bpc backup --to /srv/backups --keep-days 90
    """
    settings = load_settings_and_logs("backup")
    if not has_database(settings):
        raise NotFound(f"there is no database in `{settings.data_dir}`", fix="set BPC_DATA_DIR or DATABASE_URL")
    now = clock.now()
    with (
        explain_interrupt(lambda: _describe_stopped_backup(manifest.locate_backup(to, now))),
        show_progress("", as_json=as_json, unit="bytes") as bar,
    ):
        async with locate_database(settings, read_only=True) as place:
            keys = settings.data_dir / "keys" if with_keys and (settings.data_dir / "keys").is_dir() else None
            folder, contents = await take_backup(
                to,
                place.address,
                place.server,
                keys=keys,
                packs=settings.data_dir / PACKS_FOLDER,
                build=settings.compiler_build_id,
                at=now,
                report=_make_report(bar),
            )
    record_last_backup(settings.data_dir, now)
    left_out = _list_left_out(settings)
    removed_backups = list(remove_old_backups(to, keep=timedelta(days=keep_days), now=now))
    if as_json:
        print_json(
            {
                "backup": folder,
                "kind": contents.kind,
                "taken_at": contents.taken_at,
                "files": len(contents.files),
                "bytes": contents.size,
                "removed": removed_backups,
                "not_in_backup": [{"what": what, "where": where} for what, where in left_out],
            }
        )
        return
    print_line(f"{folder}: {len(contents.files):,} files, {contents.size / 1e6:,.1f} MB, each listed with its SHA-256")
    for old in removed_backups:
        print_line(f"removed {old}, which is older than {keep_days} days")
    for what, where in left_out:
        print_line(f"the backup does not have {what} in {where}: keep versions of it, or a copy")
    if not with_keys:
        print_line("the backup has no private keys: store the signing key and the pepper elsewhere, or use --with-keys")


def _list_left_out(settings: Settings) -> list[tuple[str, str]]:
    """What is stored beside the database and is not in the backup, and where."""
    left_out = []
    if settings.pack_store is not None:
        left_out.append(("the packs of batteries", settings.pack_store))
    if settings.tlog_store is not None or locate_log_folder(settings).exists():
        left_out.append(("the files of the transparency log", settings.tlog_store or str(locate_log_folder(settings))))
    return left_out


def _describe_stopped_backup(folder: Path) -> str:
    if folder.exists():
        return f"stopped; the backup {folder} is complete"
    return "stopped; no backup was written, and earlier ones are unchanged"


def _make_report(bar: ProgressBar) -> ReportBytes:
    """Report the bytes of a backup to the bar, if somebody sees it: a report costs time."""
    if not bar.is_visible:
        return ignore_bytes
    return lambda stage, done, total: bar.update(done, total, stage=stage)


CHECKING: Final = "checking the files"
PUTTING_BACK: Final = "putting it back"
REPLAY_SAMPLE: Final = 20
STOP_SECONDS: Final = 30.0


@dataclass(slots=True, kw_only=True)
class RestoreReport:
    """The parts of a restore, how long each took, and the differences."""

    backup: str
    place: str
    taken_at: str
    seconds: dict[str, float] = field(default_factory=dict)
    migrations: list[str] = field(default_factory=list)
    events: int = 0
    faults: int = 0
    replayed: int = 0
    mismatches: list[str] = field(default_factory=list)
    stage: str = ""

    @property
    def ok(self) -> bool:
        return not self.faults and not self.mismatches

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        started_at = time.monotonic()
        self.stage = what
        yield
        self.seconds[what] = round(time.monotonic() - started_at, 2)


def restore(
    backup: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="A backup, or a folder of backups (the newest is used).")
    ],
    replay: Annotated[
        int,
        typer.Option("--replay", metavar="N", min=0, help="Number of passports per tenant to recompile as a check."),
    ] = REPLAY_SAMPLE,
    *,
    drill: Annotated[
        bool, typer.Option("--drill", help="Restore into a temporary folder and delete it afterwards.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into an empty database and check it.

    Compares every file with the list in the backup first. Files of the embedded server go into BPC_DATA_DIR, a dump
    into the database of DATABASE_URL; both must be empty. Then it applies missing migrations, verifies every audit
    chain and recompiles a sample of passports. Exits 1 on any difference.

    \b
    BPC_DATA_DIR=/srv/restored bpc restore /srv/backups/bpc-20270218T031700Z
    bpc restore --drill /srv/backups
    """
    settings, backup = load_settings_and_logs("restore"), manifest.find_backup(backup)
    if drill:
        with tempfile.TemporaryDirectory(prefix="bpc-drill-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o711)  # the user of the server needs to pass through
            aside = settings.model_copy(
                update={"data_dir": Path(folder) / "data", "database_url": None, "db_host": None}
            )
            report = _run_restore(aside, backup, replay, drill=True, as_json=as_json)
            _wait_until_stopped(aside.data_dir)
    else:
        report = _run_restore(settings, backup, replay, drill=False, as_json=as_json)
    if as_json:
        print_json({"ok": report.ok, **{name: value for name, value in asdict(report).items() if name != "stage"}})
    else:
        _print_restore(report, drill=drill)
    if not report.ok:
        raise typer.Exit(REFUSED)


def _wait_until_stopped(data_dir: Path) -> None:
    """Wait for the server to stop: deleting files under a running server fails."""
    deadline = time.monotonic() + STOP_SECONDS
    while is_locked(Layout(data_dir).keeper_lock) and time.monotonic() < deadline:
        time.sleep(0.05)


def _run_restore(settings: Settings, backup: Path, replay: int, *, drill: bool, as_json: bool) -> RestoreReport:
    report = RestoreReport(backup=str(backup), place=str(settings.data_dir), taken_at="")
    with explain_interrupt(lambda: _describe_stopped_restore(report, drill=drill)):
        asyncio.run(_restore_and_check(settings, backup, replay, report, as_json=as_json))
    return report


def _describe_stopped_restore(report: RestoreReport, *, drill: bool) -> str:
    if drill:
        return "stopped; the temporary copy was deleted, and nothing else was changed"
    if report.stage in {"", CHECKING, PUTTING_BACK}:
        return f"stopped; nothing was restored to {report.place}"
    return (
        f"stopped while {report.stage}; everything is restored to {report.place} but not checked\n"
        "  check it: bpc migrate, then bpc audit verify and bpc passports replay --all"
    )


async def _restore_and_check(
    settings: Settings, backup: Path, replay: int, report: RestoreReport, *, as_json: bool
) -> None:
    started_at = time.monotonic()
    with show_progress("", as_json=as_json, unit="bytes") as bar:
        with report.measure(CHECKING):
            contents = await asyncio.to_thread(manifest.check_backup, backup, _make_report(bar))
        report.taken_at = format_time(contents.taken_at)
        with report.measure(PUTTING_BACK):
            await _restore_files(settings, backup, contents, _make_report(bar))
    async with locate_database(settings) as place:
        report.place = str(place.address)
        with report.measure("migrations"):
            async with open_connection(place.address) as conn:
                report.migrations = await migrate_and_complete(conn)
        database = await open_database(
            place.address, pool_size=settings.db_pool_size, restart_server=place.restart_server
        )
        try:
            async with database.system() as conn:
                tenants = await list_tenants(conn)
                await log_rows.mark_restored(conn)
            with show_progress("", as_json=as_json) as bar:
                with report.measure("verifying the audit log"):
                    await _verify_audit_log(database, tenants, report, bar, floor_days=settings.retention_floor)
                with report.measure("compiling passports again"):
                    await _replay_sample(database, [tenant.tenant_id for tenant in tenants], replay, report, bar)
        finally:
            await database.close()
    report.seconds["all of it"] = round(time.monotonic() - started_at, 2)


async def _restore_files(settings: Settings, backup: Path, contents: BackupManifest, report: ReportBytes) -> None:
    if contents.kind == "tenant":
        raise Invalid(f"`{backup}` is the archive of one tenant", fix="use `bpc tenants import`")
    if settings.database_dsn is None and contents.kind == "base":
        await asyncio.to_thread(restore_base, backup, contents, settings.data_dir, report)
        return
    async with locate_database(settings) as place:
        # Only a superuser may restore the owners; for an external server we have only the login.
        login = place.address if place.server is None else place.server.superuser_address(place.address.database)
        await restore_dump(backup, contents, login)
    await asyncio.to_thread(restore_keys, backup, settings.data_dir)
    await asyncio.to_thread(restore_packs, backup, settings.data_dir)


async def _verify_audit_log(
    database: Database, tenants: Sequence[TenantRow], report: RestoreReport, bar: ProgressBar, *, floor_days: int
) -> None:
    async with database.system() as conn:
        report.faults += len(await events.list_events_without_tenant(conn))
    for tenant in tenants:
        async with database.tenant(tenant.tenant_id) as conn:
            await freeze_view(conn)
            verification = await verify_with_progress(conn, tenant, bar, floor_days=floor_days)
        report.events += verification.chains.events
        report.faults += verification.fault_count


async def _replay_sample(
    database: Database, tenants: Sequence[TenantId], limit: int, report: RestoreReport, bar: ProgressBar
) -> None:
    for tenant in tenants:
        async with database.tenant(tenant) as conn:
            sample = await passport_versions.list_sample(conn, tenant, limit=limit)
            for number, version_id in enumerate(sample, 1):
                version = await passport_versions.get_version(conn, tenant, version_id)
                steps = await asyncio.to_thread(check_all, await load_replay_input(conn, tenant, version))
                report.replayed += 1
                bar.update(number, len(sample), "passports", stage="replaying")
                if wrong := [step for step in steps if not step.ok]:
                    report.mismatches.append(f"{version_id}: {wrong[0].name}: {wrong[0].detail}")


def _print_restore(report: RestoreReport, *, drill: bool) -> None:
    for what, seconds in report.seconds.items():
        print_line(f"{seconds:8.2f} s  {what}")
    if report.migrations:
        print_line(f"applied {', '.join(report.migrations)}")
    faults = "intact" if not report.faults else f"{report.faults:,} faults: `bpc audit verify` lists them"
    print_line(f"{report.events:,} events: {faults}", colour="red" if report.faults else "green")
    wrong = f"{len(report.mismatches):,} of them differ" if report.mismatches else "byte for byte the same"
    print_line(f"{report.replayed:,} passports compiled again: {wrong}", colour="red" if report.mismatches else "green")
    for mismatch in report.mismatches:
        print_line(f"  {mismatch}")
    if report.ok:
        print_line(
            "drill passed; the temporary copy was deleted" if drill else f"restored to {report.place}", bold=True
        )
