"""Taking a backup, while everything works; and letting old ones go."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bpc.core.errors import Invalid, Refusal
from bpc.db.address import Address
from bpc.db.backup import manifest, programs
from bpc.db.backup.manifest import Kind, Manifest
from bpc.db.connection import connected
from bpc.db.embedded import Server

# Left by a server that runs: a copy that has them does not start.
NOT_OURS: Final = ("postmaster.pid", "postmaster.opts", ".s.PGSQL.5432.lock", ".handle_pids.json")


async def take(
    folder: Path, address: Address, server: Server | None, *, keys: Path | None, build: str, at: datetime
) -> tuple[Path, Manifest]:
    """A new backup below `folder`: of the embedded `server` its files, of any other the contents of the database.

    `keys` is a folder of private keys that goes into it; whoever has the backup has those, too.
    """
    async with connected(address) as conn:
        version = str(await conn.fetchval("SELECT current_setting('server_version')"))
    kind: Kind = "dump" if server is None else "base"
    with _partial(folder, at) as made:
        if server is None:
            _dump(address, made / "bpc.dump")
        else:
            _copy(server, made / "base")
        if keys is not None:
            shutil.copytree(keys, made / "keys")
        found = manifest.write(
            made, kind=kind, taken_at=at, build=build, server_version=version, database=address.database
        )
    return _called(folder, at), found


def forget(folder: Path, *, keep: timedelta, now: datetime) -> Sequence[Path]:
    """Remove backups that are older, never the newest one: which."""
    known = sorted((found.taken_at, path) for path, found in _known(folder))
    gone = [path for taken_at, path in known[:-1] if taken_at < now - keep]
    for path in gone:
        shutil.rmtree(path)
    return gone


def _known(folder: Path) -> Iterator[tuple[Path, Manifest]]:
    for entry in folder.iterdir():
        if manifest.NAME.fullmatch(entry.name):
            with suppress(Refusal):  # not one of ours, or of ours and damaged: a person decides about it
                yield entry, manifest.read(entry)


def _dump(address: Address, file: Path) -> None:
    """Everything in the database, in PostgreSQL's own archive format, in one view of it."""
    programs.run("pg_dump", ["--format=custom", "--file", file], address)


def _copy(server: Server, base: Path) -> None:
    options: list[str | Path] = [
        "--pgdata",
        base,
        "--wal-method=stream",
        "--checkpoint=fast",
        "--manifest-checksums=SHA256",
    ]
    programs.run("pg_basebackup", options, server.superuser_address())
    for name in NOT_OURS:
        (base / name).unlink(missing_ok=True)


@contextmanager
def _partial(folder: Path, at: datetime) -> Iterator[Path]:
    """A new folder, which gets its name when the block is done: a backup that has one is complete."""
    made = _called(folder, at)
    partial = made.with_name(f".{made.name}.partial")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _clear(folder)
        partial.mkdir(mode=0o700)
    except FileExistsError:
        raise Invalid(f"`{made}` is being taken already", fix="wait a second, or choose another folder") from None
    except OSError as failed:
        raise Invalid(f"`{made}` cannot be made: {failed.strerror}", fix="choose a folder that is yours") from failed
    with _locked(partial):
        try:
            yield partial
            _name(partial, made)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _called(folder: Path, at: datetime) -> Path:
    return folder / f"bpc-{at:%Y%m%dT%H%M%SZ}"


def _name(partial: Path, made: Path) -> None:
    if made.exists():  # an empty folder would be replaced without a word
        raise Invalid(f"`{made}` is there already", fix="wait a second, or choose another folder")
    partial.rename(made)


def _clear(folder: Path) -> None:
    """Remove what backups that were killed have left; one that is being taken holds its lock."""
    for left in folder.glob(".bpc-*.partial"):
        with suppress(BlockingIOError, FileNotFoundError), _locked(left):
            shutil.rmtree(left)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)
