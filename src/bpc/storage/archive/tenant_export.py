"""Everything of one tenant as an archive: a folder that another installation can take in and serve.

<folder>/tenant.json          whose it is, which migrations its tables have, the public keys that signed for it, and
                              which moment it is of, so that a replica can go on from there (replica_export)
<folder>/tables/<name>.jsonl  each row of a table as a JSON object, as PostgreSQL writes it
<folder>/packs/               packs of its batteries
<folder>/manifest.json        every file with its size and SHA-256, as in a backup; manifest.sha256 is its hash

All rows are of one moment. No private key is in it. What is secret inside the installation (of API keys a hash, of
webhooks and runs a sealed text) is kept as it is stored: elsewhere nobody can use it, and the audit can compare it.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.audit.signing import to_base64
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import TenantId
from bpc.storage.access.tenants_and_actors import TenantRow
from bpc.storage.archive.tenant_tables import TenantTable, list_tables, quote_columns
from bpc.storage.audit import events
from bpc.storage.audit.signing_keys import SigningKeyRow, list_keys
from bpc.storage.backup import BackupManifest, write_manifest
from bpc.storage.connection import OWNER_ROLE, Connection
from bpc.storage.database import Database, begin_transaction
from bpc.storage.items.packs import PACKS_FOLDER, PackStore, name_pack
from bpc.storage.migrate import list_migrations

TENANT_NAME: Final = "tenant.json"
TABLES_FOLDER: Final = "tables"
ARCHIVE_VERSION: Final = "BPC-TENANT-ARCHIVE-1"
ROWS_AT_ONCE: Final = 200
# Of these a row may have many megabytes.
LARGE_TABLES: Final = frozenset({"document_texts", "document_versions", "passport_versions", "rule_package_versions"})
LARGE_ROWS_AT_ONCE: Final = 4
ONE_MOMENT: Final[LiteralString] = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
SELECT_PACKS: Final[LiteralString] = """
    SELECT DISTINCT pack_sha256 FROM item_chunks WHERE tenant_id = $1 AND pack_sha256 IS NOT NULL ORDER BY 1
"""
# Rows of a transaction that was not finished at this moment have its number or a higher one: a savepoint has a number
# of its own, which is higher than that of its transaction.
SELECT_MOMENT: Final[LiteralString] = """
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest_transaction,
           pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_transaction,
           (SELECT system_identifier::text FROM pg_control_system()) AS server,
           current_setting('server_version') AS server_version
"""
COUNT_WAITING: Final[LiteralString] = """
    SELECT coalesce(sum(total), 0) FROM item_chunks WHERE tenant_id = $1 AND issued_at IS NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a transaction sees: everything of transactions before the oldest one, and perhaps of others."""

    oldest_transaction: int
    next_transaction: int
    server: str
    server_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantExport:
    """What an archive has. `waiting`: batteries whose passports were requested and cannot be issued elsewhere."""

    manifest: BackupManifest
    rows: int
    packs: int
    waiting: int


async def export_tenant(
    database: Database,
    tenant: TenantRow,
    folder: Path,
    packs: PackStore,
    *,
    act: Act,
    build: str,
) -> TenantExport:
    """Write the archive of a tenant into a new folder, and record in the tenant's chain that it was written."""
    await asyncio.to_thread(_create_folder, folder)
    async with database.system(tenant.tenant_id) as conn:
        await events.append_act(conn, act, tenant.tenant_id, "Tenant", tenant.tenant_id, "TENANT_EXPORTED", {})
    counts: dict[str, int] = {}
    async with open_moment(database, tenant.tenant_id) as conn:
        moment = await read_moment(conn)
        for table in await list_tables(conn):
            counts[table.name] = await write_rows(conn, select_rows(table), tenant.tenant_id, table.name, folder)
        digests = [Digest(row[0]) for row in await conn.fetch(SELECT_PACKS, tenant.tenant_id)]
        waiting = int(await conn.fetchval(COUNT_WAITING, tenant.tenant_id))
        document = describe_tenant(tenant, await list_keys(conn, tenant.tenant_id), moment, counts)
    (folder / TENANT_NAME).write_bytes(canonical_json.encode(document))
    await asyncio.to_thread(copy_packs, packs, digests, folder)
    manifest = await asyncio.to_thread(seal, folder, tenant.slug, act.at, build, moment.server_version)
    return TenantExport(manifest=manifest, rows=sum(counts.values()), packs=len(digests), waiting=waiting)


@asynccontextmanager
async def open_moment(database: Database, tenant: TenantId) -> AsyncIterator[Connection]:
    """A transaction that sees all rows of a tenant as they are now, and writes none."""
    async with database.plain() as conn, begin_transaction(conn, OWNER_ROLE, tenant):
        await conn.execute(f"{ONE_MOMENT}; SET LOCAL bytea_output = 'hex'; SET LOCAL TIME ZONE 'UTC'")
        yield conn


async def read_moment(conn: Connection) -> Moment:
    row = await conn.fetchrow(SELECT_MOMENT)
    if row is None:
        raise LookupError("a SELECT without FROM has a row")
    return Moment(**row)


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True)
        (folder / TABLES_FOLDER).mkdir()
    except OSError as error:
        raise Invalid(f"`{folder}` cannot be created: {error.strerror}", fix="name a folder that is new") from error


def select_rows(table: TenantTable, condition: str = "") -> str:
    """The statement of a table's rows as JSON, in the order of their keys. $1 is the tenant."""
    columns, key = quote_columns(table.columns), quote_columns(table.key)
    return (
        f"SELECT row_to_json(r)::text FROM (SELECT {columns} FROM public.{table.name}"
        f" WHERE {table.owner_column} = $1 {condition} ORDER BY {key}) AS r"
    )


async def write_rows(
    conn: Connection, statement: str, tenant: TenantId, name: str, folder: Path, *arguments: object
) -> int:
    """Write rows into the file of a table; how many there are."""
    at_once = LARGE_ROWS_AT_ONCE if name in LARGE_TABLES else ROWS_AT_ONCE
    count = 0
    with (folder / TABLES_FOLDER / f"{name}.jsonl").open("xb") as file:
        async for row in conn.cursor(statement, tenant, *arguments, prefetch=at_once):
            file.write(f"{row[0]}\n".encode())
            count += 1
    return count


def describe_tenant(
    tenant: TenantRow, keys: Sequence[SigningKeyRow], moment: Moment, counts: Mapping[str, int]
) -> dict[str, Json]:
    """The content of `tenant.json`."""
    return {
        "archive_version": ARCHIVE_VERSION,
        "counts": dict(counts),
        "keys": [
            {"is_of_tenant": key.tenant_id is not None, "key_id": key.key_id, "public_key": to_base64(key.public_key)}
            for key in keys
        ],
        "migration": list_migrations()[-1].name,
        "moment": {"oldest_transaction": str(moment.oldest_transaction), "server": moment.server},
        "name": tenant.name,
        "slug": tenant.slug,
        "tenant_id": str(tenant.tenant_id),
    }


def copy_packs(packs: PackStore, digests: list[Digest], folder: Path) -> None:
    for digest in digests:
        path = folder / PACKS_FOLDER / name_pack(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packs.read(digest))


def seal(folder: Path, slug: str, at: datetime, build: str, server_version: str) -> BackupManifest:
    """Write the manifest of an archive, which makes it one."""
    return write_manifest(folder, kind="tenant", taken_at=at, build=build, server_version=server_version, database=slug)
