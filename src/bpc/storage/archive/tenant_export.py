"""Everything of one tenant as an archive: a folder that another installation can take in and serve.

<folder>/tenant.json          whose it is, which migrations its tables have, the public keys that signed for it
<folder>/tables/<name>.jsonl  each row of a table as a JSON object, as PostgreSQL writes it
<folder>/packs/               packs of its batteries
<folder>/manifest.json        every file with its size and SHA-256, as in a backup; manifest.sha256 is its hash

All rows are of one moment. No private key is in it. What is secret inside the installation (of API keys a hash, of
webhooks and runs a sealed text) is kept as it is stored: elsewhere nobody can use it, and the audit can compare it.
"""

import asyncio
from collections.abc import Sequence
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
COUNT_WAITING: Final[LiteralString] = """
    SELECT coalesce(sum(total), 0) FROM item_chunks WHERE tenant_id = $1 AND issued_at IS NULL
"""


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
    rows = 0
    async with database.plain() as conn, begin_transaction(conn, OWNER_ROLE, tenant.tenant_id):
        await conn.execute(f"{ONE_MOMENT}; SET LOCAL bytea_output = 'hex'; SET LOCAL TIME ZONE 'UTC'")
        server_version = str(await conn.fetchval("SELECT current_setting('server_version')"))
        for table in await list_tables(conn):
            rows += await _write_rows(conn, tenant.tenant_id, table, folder)
        digests = [Digest(row[0]) for row in await conn.fetch(SELECT_PACKS, tenant.tenant_id)]
        waiting = int(await conn.fetchval(COUNT_WAITING, tenant.tenant_id))
        document = _describe(tenant, await list_keys(conn, tenant.tenant_id))
    (folder / TENANT_NAME).write_bytes(canonical_json.encode(document))
    await asyncio.to_thread(_copy_packs, packs, digests, folder)
    manifest = await asyncio.to_thread(_seal, folder, tenant.slug, act.at, build, server_version)
    return TenantExport(manifest=manifest, rows=rows, packs=len(digests), waiting=waiting)


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True)
        (folder / TABLES_FOLDER).mkdir()
    except OSError as error:
        raise Invalid(f"`{folder}` cannot be created: {error.strerror}", fix="name a folder that is new") from error


async def _write_rows(conn: Connection, tenant: TenantId, table: TenantTable, folder: Path) -> int:
    columns, key = quote_columns(table.columns), quote_columns(table.key)
    statement = (
        f"SELECT row_to_json(r)::text FROM (SELECT {columns} FROM public.{table.name}"
        f" WHERE {table.owner_column} = $1 ORDER BY {key}) AS r"
    )
    at_once = LARGE_ROWS_AT_ONCE if table.name in LARGE_TABLES else ROWS_AT_ONCE
    count = 0
    with (folder / TABLES_FOLDER / f"{table.name}.jsonl").open("xb") as file:
        async for row in conn.cursor(statement, tenant, prefetch=at_once):
            file.write(f"{row[0]}\n".encode())
            count += 1
    return count


def _describe(tenant: TenantRow, keys: Sequence[SigningKeyRow]) -> dict[str, Json]:
    return {
        "archive_version": ARCHIVE_VERSION,
        "keys": [
            {"is_of_tenant": key.tenant_id is not None, "key_id": key.key_id, "public_key": to_base64(key.public_key)}
            for key in keys
        ],
        "migration": list_migrations()[-1].name,
        "name": tenant.name,
        "slug": tenant.slug,
        "tenant_id": str(tenant.tenant_id),
    }


def _copy_packs(packs: PackStore, digests: list[Digest], folder: Path) -> None:
    for digest in digests:
        path = folder / PACKS_FOLDER / name_pack(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packs.read(digest))


def _seal(folder: Path, slug: str, at: datetime, build: str, server_version: str) -> BackupManifest:
    return write_manifest(folder, kind="tenant", taken_at=at, build=build, server_version=server_version, database=slug)
