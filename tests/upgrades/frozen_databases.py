"""Frozen databases: what earlier versions stored, put back as it was, and read to the last byte.

`tools/freeze_database.py` makes them, once for each release, with the code of that release.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from bpc.runtime.postgres.address import Address
from bpc.storage.connection import Connection
from tests.fixtures import TestServer

FOLDER = Path(__file__).parent / "frozen"

COLUMNS = """
    SELECT format('%I.%I', n.nspname, c.relname) AS table_name, a.attname AS column_name,
           coalesce(nullif(t.typbasetype, 0), t.oid) = 'bytea'::regtype AS is_bytes
      FROM pg_attribute a
      JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p')
      JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname IN ('public', 'jobs')
      JOIN pg_type t ON t.oid = a.atttypid
     WHERE a.attnum > 0 AND NOT a.attisdropped
     ORDER BY 1, a.attnum
"""

Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Frozen:
    """One of them."""

    folder: Path
    facts: dict[str, Any]

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.json"

    @property
    def sql(self) -> str:
        return gzip.decompress((self.folder / "database.sql.gz").read_bytes()).decode()


@dataclass(frozen=True, slots=True)
class Table:
    """All that is in a table, as text; bytes are hexadecimal."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def list_frozen_databases() -> list[Frozen]:
    return [Frozen(file.parent, json.loads(file.read_text())) for file in sorted(FOLDER.glob("*/frozen.json"))]


async def restore_frozen(frozen: Frozen, server: TestServer, address: Address) -> None:
    """Into the empty database at `address`."""
    conn = await asyncpg.connect(**server.admin.with_database(address.database).connect_arguments())
    try:
        await conn.execute(frozen.sql)
    finally:
        await conn.close()


async def load_columns(conn: Connection) -> dict[str, tuple[str, ...]]:
    columns: dict[str, tuple[str, ...]] = {}
    for row in await conn.fetch(COLUMNS):
        columns[row["table_name"]] = (*columns.get(row["table_name"], ()), row["column_name"])
    return columns


async def load_byte_columns(conn: Connection) -> list[tuple[str, str]]:
    return [(row["table_name"], row["column_name"]) for row in await conn.fetch(COLUMNS) if row["is_bytes"]]


async def read_all_tables(conn: Connection, columns: dict[str, tuple[str, ...]]) -> dict[str, Table]:
    """What is in these columns of these tables; `conn` must be one that no row is hidden from."""
    tables = {}
    for table, names in columns.items():
        texts = ", ".join(f'"{name}"::text' for name in names)
        rows = await conn.fetch(f"SELECT {texts} FROM {table}")
        tables[table] = Table(names, tuple(sorted((tuple(row.values()) for row in rows), key=repr)))
    return tables


def make_url(address: Address) -> str:
    """For DATABASE_URL: with the password, if there is one."""
    if address.url is None:
        return str(address)
    return urlsplit(address.url)._replace(path=f"/{address.database}").geturl()
