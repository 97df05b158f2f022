"""A replica of a tenant in a folder: an archive, and after it, again and again, what changed since.

<folder>/000000/       an archive, as `tenant_export` writes it
<folder>/000001/ …     the rows that were written since the one before, in the same files; `keys/<name>.jsonl` with all
                       keys of a table from which rows were removed; the new packs; a manifest
<folder>/latest.json   the last number, and the moment up to which nothing is missing

PostgreSQL keeps with each row the transaction that wrote it. What a round writes are the rows of all transactions that
were not finished at the moment of the round before: none is missed, some come twice, which changes nothing. A round
that is killed leaves a folder with another name, and the next one begins it anew.
"""

import asyncio
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest
from bpc.core.formats.timestamps import format_time
from bpc.storage.access.tenants_and_actors import TenantRow
from bpc.storage.archive.tenant_export import (
    TABLES_FOLDER,
    TENANT_NAME,
    Moment,
    copy_packs,
    describe_tenant,
    export_tenant,
    open_moment,
    read_moment,
    seal,
    select_rows,
    write_rows,
)
from bpc.storage.archive.tenant_tables import TenantTable, list_tables, quote_columns
from bpc.storage.audit.signing_keys import list_keys
from bpc.storage.backup import MANIFEST_HASH_NAME, lock_folder
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.items.packs import PackStore
from bpc.storage.migrate import list_migrations

KEYS_FOLDER: Final = "keys"
LATEST_NAME: Final = "latest.json"
PART_NAME: Final = re.compile(r"[0-9]{6}")
UNFINISHED_PREFIX: Final = ".new-"
# A row's number has 32 bits; $3 and $4 are the rest and the lower half of the newest one there is.
CHANGED: Final = "xmin::text::bigint + $3 - CASE WHEN xmin::text::bigint > $4 THEN 4294967296 ELSE 0 END >= $2"
SELECT_NEW_PACKS: Final[LiteralString] = f"""
    SELECT DISTINCT pack_sha256 FROM item_chunks WHERE tenant_id = $1 AND pack_sha256 IS NOT NULL AND {CHANGED}
"""
# Rows leave only the tables from which the service may delete.
SELECT_DELETABLE: Final[LiteralString] = """
    SELECT relname AS name FROM pg_class
     WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
       AND (has_table_privilege('bpc_app', oid, 'DELETE') OR has_table_privilege('bpc_system', oid, 'DELETE'))
"""


class ReplicaOutdated(Conflict):
    """The folder cannot be continued from this database."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(
            f"the replica in `{folder}` cannot go on: {reason}", fix="begin another replica in a new folder"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPart:
    """What one round wrote. Without a change it has no rows and the number of the part before."""

    number: int
    at: datetime
    rows: int
    packs: int


async def replicate_tenant(
    database: Database, tenant: TenantRow, folder: Path, packs: PackStore, *, act: Act, build: str
) -> ReplicaPart:
    """Write what changed since the last part of a replica, or its first one. `act.at` is the time of this round."""
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    try:
        with lock_folder(folder):
            await asyncio.to_thread(_remove_unfinished, folder)
            part = await _write_part(database, tenant, folder, packs, act=act, build=build)
            latest = {"at": format_time(part.at), "number": part.number}
            await asyncio.to_thread(_replace, folder / LATEST_NAME, canonical_json.encode(latest))
            return part
    except BlockingIOError:
        raise Conflict(f"another command writes into `{folder}`", fix="leave it to that one") from None


def list_parts(folder: Path) -> list[Path]:
    """The parts of a replica in their order."""
    return sorted(path for path in folder.iterdir() if PART_NAME.fullmatch(path.name))


def read_part(part: Path) -> Mapping[str, Any]:
    """The `tenant.json` of a part."""
    document: Any = canonical_json.decode((part / TENANT_NAME).read_bytes())
    return dict(document)


async def _write_part(
    database: Database, tenant: TenantRow, folder: Path, packs: PackStore, *, act: Act, build: str
) -> ReplicaPart:
    parts = await asyncio.to_thread(list_parts, folder)
    number = len(parts)
    target, unfinished = folder / f"{number:06d}", folder / f"{UNFINISHED_PREFIX}{number:06d}"
    if not parts:
        outcome = await export_tenant(database, tenant, unfinished, packs, act=act, build=build)
        unfinished.rename(target)
        return ReplicaPart(number=0, at=act.at, rows=outcome.rows, packs=outcome.packs)
    (unfinished / TABLES_FOLDER).mkdir(parents=True)
    (unfinished / KEYS_FOLDER).mkdir()
    async with open_moment(database, tenant.tenant_id) as conn:
        moment = await read_moment(conn)
        before = await asyncio.to_thread(read_part, parts[-1])
        since = _require_continuous(before, tenant, moment, folder)
        rows, counts = await _write_changes(conn, tenant, unfinished, since, before["counts"])
        digests = [Digest(row[0]) for row in await conn.fetch(SELECT_NEW_PACKS, tenant.tenant_id, *since)]
        document = describe_tenant(tenant, await list_keys(conn, tenant.tenant_id), moment, counts)
    if not rows and not any((unfinished / KEYS_FOLDER).iterdir()):
        await asyncio.to_thread(shutil.rmtree, unfinished)
        return ReplicaPart(number=number - 1, at=act.at, rows=0, packs=0)
    document["follows"] = (parts[-1] / MANIFEST_HASH_NAME).read_text().strip()
    (unfinished / TENANT_NAME).write_bytes(canonical_json.encode(document))
    await asyncio.to_thread(copy_packs, packs, digests, unfinished)
    await asyncio.to_thread(seal, unfinished, tenant.slug, act.at, build, moment.server_version)
    unfinished.rename(target)
    return ReplicaPart(number=number, at=act.at, rows=rows, packs=len(digests))


def _require_continuous(
    before: Mapping[str, Any], tenant: TenantRow, moment: Moment, folder: Path
) -> tuple[int, int, int]:
    """The arguments of `CHANGED`, if this is the database that the last part came from."""
    if before["tenant_id"] != str(tenant.tenant_id):
        raise ReplicaOutdated(folder, f"it is of tenant `{before['slug']}`")
    if before["migration"] != list_migrations()[-1].name:
        raise ReplicaOutdated(folder, "the tables were upgraded since")
    if before["moment"]["server"] != moment.server or int(before["moment"]["oldest_transaction"]) > (
        moment.next_transaction
    ):
        raise ReplicaOutdated(folder, "the database is another one, or was restored from a backup")
    lower = moment.next_transaction & 0xFFFFFFFF
    return int(before["moment"]["oldest_transaction"]), moment.next_transaction - lower, lower


async def _write_changes(
    conn: Connection, tenant: TenantRow, folder: Path, since: tuple[int, int, int], counts: Mapping[str, int]
) -> tuple[int, dict[str, int]]:
    """How many rows were written, and how many each table from which rows may leave has by now."""
    deletable = {row["name"] for row in await conn.fetch(SELECT_DELETABLE)}
    total, new_counts = 0, dict[str, int]()
    for table in await list_tables(conn):
        statement = select_rows(table, f"AND {CHANGED}")
        rows = await write_rows(conn, statement, tenant.tenant_id, table.name, folder, *since)
        if not rows:
            (folder / TABLES_FOLDER / f"{table.name}.jsonl").unlink()
        if table.name in deletable:
            count = f"SELECT count(*) FROM public.{table.name} WHERE {table.owner_column} = $1"
            new_counts[table.name] = await conn.fetchval(count, tenant.tenant_id)
            # Rows that were only changed look the same: then the keys say that none is gone.
            if new_counts[table.name] != counts[table.name] + rows:
                await _write_keys(conn, tenant, table, folder)
        total += rows
    return total, new_counts


async def _write_keys(conn: Connection, tenant: TenantRow, table: TenantTable, folder: Path) -> None:
    statement = (
        f"SELECT row_to_json(r)::text FROM (SELECT {quote_columns(table.key)} FROM public.{table.name}"
        f" WHERE {table.owner_column} = $1) AS r"
    )
    with (folder / KEYS_FOLDER / f"{table.name}.jsonl").open("xb") as file:
        async for row in conn.cursor(statement, tenant.tenant_id, prefetch=1_000):
            file.write(f"{row[0]}\n".encode())


def _remove_unfinished(folder: Path) -> None:
    for path in folder.glob(f"{UNFINISHED_PREFIX}*"):
        shutil.rmtree(path)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(data)
    temporary.replace(path)
