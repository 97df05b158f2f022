"""Restore a backup into an empty place. The caller has checked its files (bpc.storage.backup.check_backup).

base ─► restore_base ─► files of the embedded server, into an empty data directory
dump ─► restore_dump ─► the script that `pg_restore` prints, run over one connection into an empty database
"""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final, LiteralString

from bpc.core.errors import Conflict
from bpc.runtime.postgres import programs
from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.cluster import Layout
from bpc.runtime.postgres.programs import Account, find_server_account
from bpc.runtime.settings import data_dir
from bpc.storage.backup import BackupManifest, ReportBytes, ignore_bytes
from bpc.storage.connection import Connection, ensure_roles, open_connection
from bpc.storage.items.packs import PACKS_FOLDER, PackFolder

COPY_STATEMENT: Final = re.compile(rb'COPY ("?\w+"?)\.("?\w+"?) \((.*)\) FROM stdin;\n')
END_OF_ROWS: Final = b"\\.\n"
SKIPPED_LINE: Final = re.compile(
    rb"\\(?:un)?restrict .*"  # for psql
    rb"|SET transaction_timeout = .*"  # PostgreSQL 17
    # Internal notes of a newer server about columns; older programs take them for an option.
    rb"|ALTER TABLE ONLY .* ALTER COLUMN .* SET \(pg_\w+=\d+\);"
)
CHUNK_BYTES: Final = 1 << 20
HAS_RECORDED_IN: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM information_schema.columns
                    WHERE table_schema = 'public' AND table_name = 'events' AND column_name = 'recorded_in')
"""
RESET_RECORDED_IN: Final[LiteralString] = """
    ALTER TABLE public.events DROP COLUMN recorded_in;
    ALTER TABLE public.events ADD COLUMN recorded_in xid8 NOT NULL DEFAULT pg_current_xact_id();
    CREATE INDEX events_in_recorded_order ON public.events (tenant_id, recorded_in, occurred_at, event_id);
"""


async def restore_script(dump: Path, conn: Connection) -> None:
    """Run `dump` on the database of `conn`, which is in a transaction."""
    command, environment = programs.make_command("pg_restore", ["--file=-", dump])
    with tempfile.TemporaryFile() as errors_file:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            limit=CHUNK_BYTES,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors_file,
        )
        assert process.stdout is not None  # because of `stdout=PIPE`
        try:
            await _execute_script(ScriptLines(process.stdout), conn)
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            while await process.stdout.read(CHUNK_BYTES):  # the process does not end before its output is read
                pass
            raise
        finally:
            await process.wait()
        if process.returncode != 0:
            errors_file.seek(0)
            raise programs.ProgramFailed("pg_restore", errors_file.read().decode(errors="replace"))


class ScriptLines:
    """A script, line by line. A row is one line; at most one line and one chunk are in memory."""

    def __init__(self, script: asyncio.StreamReader) -> None:
        self._script = script
        self._buffer = bytearray()

    async def read_line(self) -> bytes:
        """The next line with its line end; empty at the end of the script."""
        searched_bytes = 0
        while (end := self._buffer.find(b"\n", searched_bytes)) < 0:
            searched_bytes = len(self._buffer)
            if not (more := await self._script.read(CHUNK_BYTES)):
                end = searched_bytes - 1
                break
            self._buffer += more
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line


async def _execute_script(script: ScriptLines, conn: Connection) -> None:
    statements: list[bytes] = []
    while line := await script.read_line():
        if copy_match := COPY_STATEMENT.fullmatch(line):
            await _execute_statements(conn, statements)
            await _copy_rows(script, conn, copy_match)
        elif not SKIPPED_LINE.fullmatch(line.rstrip(b"\n")):
            statements.append(line)
    await _execute_statements(conn, statements)


async def _execute_statements(conn: Connection, statements: list[bytes]) -> None:
    # The driver fails on a text that has only comments.
    if any(line.strip() and not line.startswith(b"--") for line in statements):
        await conn.execute(b"".join(statements).decode())
    statements.clear()


async def _copy_rows(script: ScriptLines, conn: Connection, copy_match: re.Match[bytes]) -> None:
    schema, table, columns = (part.decode() for part in copy_match.groups())
    await conn.copy_to_table(
        table.strip('"'),
        schema_name=schema.strip('"'),
        columns=[column.strip('"') for column in columns.split(", ")],
        source=_read_rows(script),
        format="text",
    )


async def _read_rows(script: ScriptLines) -> AsyncIterator[bytes]:
    lines: list[bytes] = []
    size = 0
    while (line := await script.read_line()) and line != END_OF_ROWS:
        lines.append(line)
        size += len(line)
        if size >= CHUNK_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    yield b"".join(lines)


COUNT_TABLES: Final[LiteralString] = """
    SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname IN ('public', 'jobs') AND c.relkind IN ('r', 'p')
"""


class RestoreTargetNotEmpty(Conflict):
    """The place for the backup is not empty."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} is not empty; a backup is only restored into an empty place",
            fix="restore into another data directory or database, check it, then switch over",
        )


class WrongBackupKind(Conflict):
    """A base goes into a data directory, a dump into a database."""

    def __init__(self, kind: str, target: str) -> None:
        super().__init__(f"this backup is a {kind}: it is restored into {target}", hint=f"restore into {target}")


def restore_base(backup: Path, manifest: BackupManifest, folder: Path, report: ReportBytes = ignore_bytes) -> None:
    """Copy the files of the embedded server into an empty data directory."""
    if manifest.kind != "base":
        raise WrongBackupKind(manifest.kind, "a database")
    layout, account = Layout(data_dir.prepare_data_dir(folder).resolve()), find_server_account()
    if (layout.find_cluster_folder() / "PG_VERSION").exists():
        raise RestoreTargetNotEmpty(f"the data directory `{folder}`")
    cluster = layout.choose_cluster_folder(account)
    aside = cluster.with_name(cluster.name + ".restored")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        _copy_folder(backup / "base", aside, manifest.size, report)
        _give_files_to_account(aside, account)
        aside.rename(cluster)  # before this, nothing looks like a complete cluster
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    restore_keys(backup, folder)
    restore_packs(backup, folder)


def _copy_folder(source: Path, target: Path, total: int, report: ReportBytes) -> None:
    done = 0

    def copy(source_file: str, target_file: str) -> object:
        nonlocal done
        result = shutil.copy2(source_file, target_file, follow_symlinks=False)
        done += os.lstat(source_file).st_size
        report("copying", done, total)
        return result

    shutil.copytree(source, target, symlinks=True, copy_function=copy)


def restore_keys(backup: Path, folder: Path) -> None:
    """Copy the private keys, if the backup has them and the data directory has none."""
    if (backup / "keys").is_dir() and not (folder / "keys").exists():
        shutil.copytree(backup / "keys", folder / "keys")
        (folder / "keys").chmod(0o700)


def restore_packs(backup: Path, folder: Path) -> None:
    """Copy the packs of batteries that the data directory does not have. Their names say what they hold."""
    packs = PackFolder(folder)
    for file in sorted((backup / PACKS_FOLDER).rglob("*.pack")):
        packs.write(file.read_bytes())


async def restore_dump(backup: Path, manifest: BackupManifest, address: Address) -> None:
    """Restore a dump into an empty database, in one transaction."""
    if manifest.kind != "dump":
        raise WrongBackupKind(manifest.kind, "a data directory")
    async with open_connection(address) as conn:
        if await conn.fetchval(COUNT_TABLES):
            raise RestoreTargetNotEmpty(f"the database `{address}`")
        async with conn.transaction():
            await ensure_roles(conn)
            await restore_script(backup / "bpc.dump", conn)
            # Numbers of transactions mean nothing on another server: what is restored was recorded by the restore.
            if await conn.fetchval(HAS_RECORDED_IN):
                await conn.execute(RESET_RECORDED_IN)


def _give_files_to_account(folder: Path, account: Account) -> None:
    """Make everything in `folder` private to the server's user."""
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            _set_owner(Path(parent, name), account)
    _set_owner(folder, account)


def _set_owner(path: Path, account: Account) -> None:
    if account.is_other_user:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    if not path.is_symlink():
        path.chmod(0o700 if path.is_dir() else 0o600)
