"""A dump, played over a connection of ours: the script that `pg_restore` makes of it, statements and rows.

    pg_restore --file=- ──► SET …, CREATE …, ALTER …    executed together
                            COPY t (a, b) FROM stdin;   the rows that follow, up to `\\.`, are streamed

`pg_restore` itself would stop at what only some servers understand: the program is of one version, the server that was
dumped of another, and the one that is restored of a third. What is left out here concerns neither data nor schema.
"""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from bpc.db.backup import programs
from bpc.db.connection import Connection

COPY: Final = re.compile(rb'COPY ("?\w+"?)\.("?\w+"?) \((.*)\) FROM stdin;\n')
END_OF_ROWS: Final = b"\\.\n"
LEFT_OUT: Final = re.compile(
    rb"\\(?:un)?restrict .*"  # for psql
    rb"|SET transaction_timeout = .*"  # PostgreSQL 17
    # What a server notes of columns for itself; programs that are older than it take that for an option.
    rb"|ALTER TABLE ONLY .* ALTER COLUMN .* SET \(pg_\w+=\d+\);"
)
CHUNK: Final = 1 << 20


async def play(dump: Path, conn: Connection) -> None:
    """Everything in `dump`, into the database of `conn`, which is in a transaction."""
    command, environment = programs.call("pg_restore", ["--file=-", dump])
    with tempfile.TemporaryFile() as said:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            limit=CHUNK,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
        )
        assert process.stdout is not None  # asked for above
        try:
            await _play(Lines(process.stdout), conn)
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            while await process.stdout.read(CHUNK):  # it is not over before everything was read
                pass
            raise
        finally:
            await process.wait()
        if process.returncode != 0:
            said.seek(0)
            raise programs.ProgramFailed("pg_restore", said.read().decode(errors="replace"))


class Lines:
    """A script line by line. A row is one line, and however long it is, no more than that and a chunk is in memory."""

    def __init__(self, script: asyncio.StreamReader) -> None:
        self._script = script
        self._held = bytearray()

    async def next(self) -> bytes:
        """The next line, with its end; nothing at the end of the script."""
        looked = 0
        while (end := self._held.find(b"\n", looked)) < 0:
            looked = len(self._held)
            if not (more := await self._script.read(CHUNK)):
                end = looked - 1
                break
            self._held += more
        line = bytes(self._held[: end + 1])
        del self._held[: end + 1]
        return line


async def _play(script: Lines, conn: Connection) -> None:
    statements: list[bytes] = []
    while line := await script.next():
        if found := COPY.fullmatch(line):
            await _execute(conn, statements)
            await _copy(script, conn, found)
        elif not LEFT_OUT.fullmatch(line.rstrip(b"\n")):
            statements.append(line)
    await _execute(conn, statements)


async def _execute(conn: Connection, statements: list[bytes]) -> None:
    # The driver stumbles over a text that is nothing but comments.
    if any(line.strip() and not line.startswith(b"--") for line in statements):
        await conn.execute(b"".join(statements).decode())
    statements.clear()


async def _copy(script: Lines, conn: Connection, to: re.Match[bytes]) -> None:
    schema, table, columns = (part.decode() for part in to.groups())
    await conn.copy_to_table(
        table.strip('"'),
        schema_name=schema.strip('"'),
        columns=[column.strip('"') for column in columns.split(", ")],
        source=_rows(script),
        format="text",
    )


async def _rows(script: Lines) -> AsyncIterator[bytes]:
    held: list[bytes] = []
    size = 0
    while (line := await script.next()) and line != END_OF_ROWS:
        held.append(line)
        size += len(line)
        if size >= CHUNK:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)
