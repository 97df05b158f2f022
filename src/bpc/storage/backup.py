"""Backups: a folder with everything that is stored, and a manifest that shows every changed byte.

<folder>/bpc-20270218T031700Z/
  manifest.json   kind, time and build of the backup, and every file with size and SHA-256
  manifest.sha256
  base/           a copy of the embedded server's files, made by `pg_basebackup` while the server runs
  bpc.dump        or, of any other server, the output of `pg_dump`
  packs/          packs of batteries, if there are any
  keys/           private keys, only on request

take_backup ─► check_backup ─► bpc.storage.restore, into an empty place
"""

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from bpc.core.errors import Conflict, Invalid, NotFound, Refusal
from bpc.core.formats import canonical_json
from bpc.core.formats.timestamps import NotATime, format_time, parse_time
from bpc.runtime.postgres import programs
from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.server import EmbeddedServer
from bpc.storage.connection import open_connection
from bpc.storage.items.packs import PACKS_FOLDER

BACKUP_VERSION: Final = "BPC-BACKUP-1"
MANIFEST_NAME: Final = "manifest.json"
MANIFEST_HASH_NAME: Final = "manifest.sha256"
BACKUP_NAME: Final = re.compile(r"bpc-[0-9]{8}T[0-9]{6}Z")
READ_BYTES: Final = 1 << 20
GROWTH_SECONDS: Final = 0.25
MAX_PROBLEMS_SHOWN: Final = 5

# A `tenant` is not restored but taken in beside others (bpc.storage.archive).
BackupKind = Literal["base", "dump", "tenant"]


# How far it is: `report("copying", 1_000, 2_000)`. A total of 0 is unknown.
ReportBytes = Callable[[Literal["copying", "comparing"], int, int], None]


def ignore_bytes(stage: str, done: int, total: int) -> None:
    """Nobody wants to know how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """The contents of a backup. `files` has the paths below its folder, each with size and SHA-256 in hex."""

    kind: BackupKind
    taken_at: datetime
    build: str
    server_version: str
    database: str
    files: Mapping[str, tuple[int, str]]

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.files.values())


class BackupDamaged(Conflict):
    """The files differ from what was written."""

    def __init__(self, folder: Path, problems: list[str]) -> None:
        more = len(problems) - MAX_PROBLEMS_SHOWN
        shown_problems = "; ".join(problems[:MAX_PROBLEMS_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")
        super().__init__(
            f"the backup `{folder}` is damaged: {shown_problems}",
            fix="use another backup; nothing was restored from this one",
            details={"problems": problems[:100], "problems_total": len(problems)},
        )


def find_backup(folder: Path) -> Path:
    """`folder`, if it is a backup, or the newest backup in it."""
    if (folder / MANIFEST_NAME).exists() or not folder.is_dir():
        return folder
    backups = sorted(
        entry for entry in folder.iterdir() if BACKUP_NAME.fullmatch(entry.name) and (entry / MANIFEST_NAME).exists()
    )
    return backups[-1] if backups else folder


def write_manifest(
    folder: Path,
    *,
    kind: BackupKind,
    taken_at: datetime,
    build: str,
    server_version: str,
    database: str,
    report: ReportBytes = ignore_bytes,
) -> BackupManifest:
    """Write a manifest of every file below `folder`, and its hash."""
    files = _measure_files(folder, sorted(_iter_files(folder)), report)
    new_manifest = BackupManifest(
        kind=kind, taken_at=taken_at, build=build, server_version=server_version, database=database, files=files
    )
    data = canonical_json.encode(_manifest_to_json(new_manifest))
    _write_durably(folder / MANIFEST_NAME, data)
    _write_durably(folder / MANIFEST_HASH_NAME, f"{hashlib.sha256(data).hexdigest()}\n".encode())
    return new_manifest


def check_backup(folder: Path, report: ReportBytes = ignore_bytes) -> BackupManifest:
    """The manifest of a backup, after every file was compared with it."""
    stored_manifest = read_manifest(folder)
    present = set(_iter_files(folder)) - {MANIFEST_NAME, MANIFEST_HASH_NAME}
    problems = [f"`{path}` is missing" for path in sorted(stored_manifest.files.keys() - present)]
    problems += [f"`{path}` is not in the manifest" for path in sorted(present - stored_manifest.files.keys())]
    actual_files = _measure_files(folder, sorted(present & stored_manifest.files.keys()), report)
    problems += [
        f"`{path}` was changed" for path, entry in actual_files.items() if entry != stored_manifest.files[path]
    ]
    if problems:
        raise BackupDamaged(folder, problems)
    return stored_manifest


def read_manifest(folder: Path) -> BackupManifest:
    """The manifest, after its hash was checked; the files are not checked."""
    try:
        data, seal = (folder / MANIFEST_NAME).read_bytes(), (folder / MANIFEST_HASH_NAME).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"`{folder}` is not a backup", hint="name a backup") from None
    except OSError as error:
        raise Invalid(f"`{folder}` cannot be read: {error.strerror}", fix="check its rights") from error
    if seal != f"{hashlib.sha256(data).hexdigest()}\n".encode():
        raise BackupDamaged(folder, ["its manifest was changed"])
    value: Any = canonical_json.decode(data)
    if value["backup_version"] != BACKUP_VERSION:
        raise Invalid(
            f"`{folder}` has backup format {value['backup_version']}, which this version cannot read", fix="upgrade bpc"
        )
    return BackupManifest(
        kind=value["kind"],
        taken_at=parse_time(value["taken_at"]),
        build=value["build"],
        server_version=value["server_version"],
        database=value["database"],
        files={path: (entry["bytes"], entry["sha256"]) for path, entry in value["files"].items()},
    )


def _manifest_to_json(manifest: BackupManifest) -> dict[str, canonical_json.Json]:
    return {
        "backup_version": BACKUP_VERSION,
        "kind": manifest.kind,
        "taken_at": format_time(manifest.taken_at),
        "build": manifest.build,
        "server_version": manifest.server_version,
        "database": manifest.database,
        "files": {path: {"bytes": size, "sha256": digest} for path, (size, digest) in manifest.files.items()},
    }


def _iter_files(folder: Path) -> Iterator[str]:
    """Every file, as a path from `folder`. A link counts as a file: a backup holds nothing outside its folder."""
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for name in (*names, *links):
            yield str(Path(parent, name).relative_to(folder))


def _measure_files(folder: Path, paths: Sequence[str], report: ReportBytes) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of each file."""
    total = sum((folder / path).lstat().st_size for path in paths)
    files: dict[str, tuple[int, str]] = {}
    done_bytes = 0
    for path in paths:
        files[path] = _measure_file(folder / path)
        done_bytes += files[path][0]
        report("comparing", done_bytes, total)
    return files


def _measure_file(path: Path) -> tuple[int, str]:
    if path.is_symlink():
        return 0, hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


# The time of the last backup, in the data directory: monitoring reads it --------------------------------------------

LAST_BACKUP_NAME: Final = "last-backup"


def record_last_backup(data_dir: Path, at: datetime) -> None:
    """Write the time of a backup into the data directory. A failure to write it does not fail the backup."""
    with suppress(OSError):
        (data_dir / LAST_BACKUP_NAME).write_text(f"{format_time(at)}\n")


def read_last_backup(data_dir: Path) -> datetime | None:
    """The time of the last backup, or None if it is unknown."""
    try:
        return parse_time((data_dir / LAST_BACKUP_NAME).read_text().strip())
    except (OSError, UnicodeDecodeError, NotATime):
        return None


# Taking and removing backups --------------------------------------------------------------------------------------

# Files of a running server: a copy that has them does not start.
SERVER_RUN_FILES: Final = ("postmaster.pid", "postmaster.opts", ".s.PGSQL.5432.lock", ".handle_pids.json")


async def take_backup(
    folder: Path,
    address: Address,
    server: EmbeddedServer | None,
    *,
    keys: Path | None,
    build: str,
    at: datetime,
    packs: Path | None = None,
    report: ReportBytes = ignore_bytes,
) -> tuple[Path, BackupManifest]:
    """Take a backup below `folder`: the files of the embedded `server`, or a dump of any other database.

    `keys` is a folder of private keys to copy into it; everyone who has the backup then has the keys. `packs` is the
    folder of packs.
    """
    async with open_connection(address) as conn:
        version = str(await conn.fetchval("SELECT current_setting('server_version')"))
        size = int(await conn.fetchval("SELECT sum(pg_database_size(oid)) FROM pg_database")) if server else 0
    kind: BackupKind = "dump" if server is None else "base"
    with _create_partial(folder, at) as partial:
        async with _watch_growth(partial, size, report):
            if server is None:
                await programs.run_program("pg_dump", ["--format=custom", "--file", partial / "bpc.dump"], address)
            else:
                await _copy_cluster(server, partial / "base")
        if keys is not None:
            shutil.copytree(keys, partial / "keys")
        if packs is not None:
            await asyncio.to_thread(_copy_packs, packs, partial / PACKS_FOLDER)
        backup_manifest = write_manifest(
            partial,
            kind=kind,
            taken_at=at,
            build=build,
            server_version=version,
            database=address.database,
            report=report,
        )
    return locate_backup(folder, at), backup_manifest


def remove_old_backups(folder: Path, *, keep: timedelta, now: datetime) -> Sequence[Path]:
    """Remove backups older than `keep`, never the newest one; return their paths."""
    backups = sorted((backup_manifest.taken_at, path) for path, backup_manifest in _iter_backups(folder))
    old_backups = [path for taken_at, path in backups[:-1] if taken_at < now - keep]
    for path in old_backups:
        shutil.rmtree(path)
    return old_backups


def _iter_backups(folder: Path) -> Iterator[tuple[Path, BackupManifest]]:
    for entry in folder.iterdir():
        if BACKUP_NAME.fullmatch(entry.name):
            with suppress(Refusal):  # not a backup, or a damaged one: a person decides about it
                yield entry, read_manifest(entry)


def _copy_packs(packs: Path, target: Path) -> None:
    """After the database: a pack is on disk before the row that names it is committed, and never changes."""
    if packs.is_dir():
        shutil.copytree(packs, target, ignore=shutil.ignore_patterns(".new-*"))


async def _copy_cluster(server: EmbeddedServer, base: Path) -> None:
    options = ["--wal-method=stream", "--checkpoint=fast", "--manifest-checksums=SHA256"]
    await programs.run_program("pg_basebackup", ["--pgdata", base, *options], server.superuser_address())
    for name in SERVER_RUN_FILES:
        (base / name).unlink(missing_ok=True)


@contextmanager
def _create_partial(folder: Path, at: datetime) -> Iterator[Path]:
    """Yield a temporary folder and rename it at the end: a backup under its own name is complete."""
    target = locate_backup(folder, at)
    partial = target.with_name(f".{target.name}.partial")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned_partials(folder)
        partial.mkdir(mode=0o700)
    except FileExistsError:
        raise Invalid(
            f"another backup is being written to `{target}`", fix="wait a second, or choose another folder"
        ) from None
    except OSError as error:
        raise Invalid(f"`{target}` cannot be created: {error.strerror}", fix="choose a folder that is yours") from error
    with lock_folder(partial):
        try:
            yield partial
            _rename_partial(partial, target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


@asynccontextmanager
async def _watch_growth(folder: Path, total: int, report: ReportBytes) -> AsyncIterator[None]:
    """Report how large `folder` is, while the block fills it."""
    if report is ignore_bytes:
        yield
        return
    watching = asyncio.create_task(_report_growth(folder, total, report))
    try:
        yield
    finally:
        watching.cancel()


async def _report_growth(folder: Path, total: int, report: ReportBytes) -> None:
    while True:
        report("copying", await asyncio.to_thread(_measure_folder, folder), total)
        await asyncio.sleep(GROWTH_SECONDS)


def _measure_folder(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # it was renamed meanwhile
                size += Path(parent, name).lstat().st_size
    return size


def locate_backup(folder: Path, at: datetime) -> Path:
    """Where a backup taken at this time is, once it is complete."""
    return folder / f"bpc-{at:%Y%m%dT%H%M%SZ}"


def _rename_partial(partial: Path, target: Path) -> None:
    if target.exists():  # `rename` would replace an empty folder
        raise Invalid(f"`{target}` already exists", fix="wait a second, or choose another folder")
    partial.rename(target)


def _remove_abandoned_partials(folder: Path) -> None:
    """Remove the folders of backups that were killed; a backup that is being written holds its lock."""
    for partial in folder.glob(".bpc-*.partial"):
        with suppress(BlockingIOError, FileNotFoundError), lock_folder(partial):
            shutil.rmtree(partial)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Nobody else writes into this folder meanwhile. Raises `BlockingIOError` if somebody does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
