"""Follow a replica: take in its first part, then each part that comes after it, in one transaction each.

    <folder>/000000 ── import_tenant ──► the tenant, inactive
    <folder>/000001 … ── rows put in place of those with their keys, others removed ──► as it was at that moment

The tenant is inactive here, and its public pages are served. Which part was taken in last is kept in the data folder;
taking in a part again changes nothing, so a command that is killed begins with the last part anew. Once the tenant was
reactivated here, it has events of its own: then nothing more is taken in.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, NotFound
from bpc.core.formats import canonical_json
from bpc.core.formats.timestamps import parse_time
from bpc.storage.archive.replica_export import KEYS_FOLDER, LATEST_NAME, list_parts, read_part
from bpc.storage.archive.tenant_export import TABLES_FOLDER
from bpc.storage.archive.tenant_import import (
    DEACTIVATE,
    TenantArchive,
    copy_packs,
    import_tenant,
    lift_guards,
    open_archive,
    read_lines,
    register_keys,
    set_late_references,
)
from bpc.storage.archive.tenant_tables import LATE_COLUMN, LATE_REFERENCE, TenantTable, list_tables, quote_columns
from bpc.storage.backup import BackupDamaged
from bpc.storage.connection import OWNER_ROLE, Connection
from bpc.storage.database import Database, begin_transaction, use_system_role
from bpc.storage.items.packs import PackStore

REPLICAS_FOLDER: Final = "replicas"
BEGUN: Final = -1  # the number of the last part while the first one is being taken in
# Its triggers put new events into the log of this installation, and they never change.
EVENTS: Final = "events"
SELECT_ACTIVE: Final[LiteralString] = "SELECT is_active FROM tenants WHERE tenant_id = $1"


class TakenOver(Conflict):
    """The tenant is active here, so it has a history of its own."""

    def __init__(self, slug: str) -> None:
        super().__init__(
            f"tenant `{slug}` was reactivated here and does not follow any more",
            fix="stop following; to follow again, begin in another installation",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOutcome:
    """What was taken in. `at` is the moment up to which nothing is missing."""

    slug: str
    number: int
    parts: int
    rows: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    """Which part was taken in last, and the hash of its manifest."""

    path: Path
    number: int
    manifest_sha256: str | None

    def save(self, number: int, manifest_sha256: str | None) -> "_Progress":
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".new")
        temporary.write_bytes(canonical_json.encode({"manifest_sha256": manifest_sha256, "number": number}))
        temporary.replace(self.path)
        return _Progress(path=self.path, number=number, manifest_sha256=manifest_sha256)


async def follow_replica(
    database: Database, folder: Path, packs: PackStore, data_dir: Path, *, act: Act
) -> FollowOutcome:
    """Take in every part that is new. Raises `BackupDamaged` if one is not what was written, or of another replica."""
    if not (folder / LATEST_NAME).exists():
        raise NotFound(f"`{folder}` has no replica", hint="replicate a tenant")
    latest: Any = canonical_json.decode((folder / LATEST_NAME).read_bytes())
    parts = await asyncio.to_thread(list_parts, folder)
    first = await asyncio.to_thread(read_part, parts[0])
    progress = _read_progress(data_dir / REPLICAS_FOLDER / f"{first['tenant_id']}.json")
    part_count = rows = 0
    for number, part in enumerate(parts):
        if number <= progress.number:
            continue
        archive = await asyncio.to_thread(open_archive, part)
        if number == 0:
            rows += await _take_in_first(database, archive, packs, progress, act)
        else:
            if read_part(part)["follows"] != progress.manifest_sha256:
                raise BackupDamaged(part, ["it does not follow the part before"])
            await register_keys(database, archive, act)
            await asyncio.to_thread(copy_packs, packs, part)
            rows += await _apply_part(database, archive)
        progress = await asyncio.to_thread(progress.save, number, archive.manifest_sha256)
        part_count += 1
    # Parts that were written after `latest` was read are newer than it says.
    return FollowOutcome(
        slug=first["slug"], number=progress.number, parts=part_count, rows=rows, at=parse_time(latest["at"])
    )


async def _take_in_first(
    database: Database, archive: TenantArchive, packs: PackStore, progress: _Progress, act: Act
) -> int:
    async with database.system() as conn:
        is_there = await conn.fetchval(SELECT_ACTIVE, archive.tenant_id) is not None
    if is_there and progress.path.exists():  # killed after the rows were there, and before that was noted
        return 0
    await asyncio.to_thread(progress.save, BEGUN, None)
    try:
        return await import_tenant(database, archive, packs, act=act, follows=True)
    except Conflict:
        progress.path.unlink()
        raise


async def _apply_part(database: Database, archive: TenantArchive) -> int:
    folder = archive.folder
    async with database.plain() as conn, begin_transaction(conn, OWNER_ROLE, archive.tenant_id):
        if await conn.fetchval(SELECT_ACTIVE, archive.tenant_id):
            raise TakenOver(archive.slug)
        tables = await list_tables(conn)
        changed_tables = [table for table in tables if (folder / TABLES_FOLDER / f"{table.name}.jsonl").exists()]
        async with lift_guards(conn, [table.name for table in changed_tables if table.name != EVENTS]):
            rows = [await _put_rows(conn, table, folder) for table in changed_tables]
            await set_late_references(conn, folder)
        shrunk = [table for table in reversed(tables) if (folder / KEYS_FOLDER / f"{table.name}.jsonl").exists()]
        async with lift_guards(conn, [table.name for table in shrunk]):
            for table in shrunk:
                await _remove_others(conn, archive, table)
        async with use_system_role(conn):
            await conn.execute(DEACTIVATE, archive.tenant_id)
    return sum(rows)


async def _put_rows(conn: Connection, table: TenantTable, folder: Path) -> int:
    """Put the rows of a part in place of those that have their keys."""
    columns = tuple(name for name in table.columns if (table.name, name) != (LATE_REFERENCE[0], LATE_COLUMN))
    others = [column for column in columns if column not in table.key]
    changes = ", ".join(f'"{column}" = EXCLUDED."{column}"' for column in others)
    action = f"UPDATE SET {changes}" if others and table.name != EVENTS else "NOTHING"
    names = quote_columns(columns)
    statement = (
        f"INSERT INTO public.{table.name} ({names})"
        f" SELECT {names} FROM json_populate_recordset(NULL::public.{table.name}, $1::text::json)"
        f" ON CONFLICT ({quote_columns(table.key)}) DO {action}"
    )
    count = 0
    for lines in read_lines(folder, table.name):
        await conn.execute(statement, f"[{','.join(lines)}]")
        count += len(lines)
    return count


async def _remove_others(conn: Connection, archive: TenantArchive, table: TenantTable) -> None:
    """Remove the rows whose keys the part does not name."""
    text = (archive.folder / KEYS_FOLDER / f"{table.name}.jsonl").read_text(encoding="utf-8")
    same_key = " AND ".join(f'k."{column}" = t."{column}"' for column in table.key)
    await conn.execute(
        f"DELETE FROM public.{table.name} AS t WHERE t.{table.owner_column} = $1 AND NOT EXISTS ("
        f"SELECT FROM json_populate_recordset(NULL::public.{table.name}, $2::text::json) AS k WHERE {same_key})",
        archive.tenant_id,
        f"[{','.join(text.splitlines())}]",
    )


def _read_progress(path: Path) -> _Progress:
    if not path.exists():
        return _Progress(path=path, number=BEGUN, manifest_sha256=None)
    document: Any = canonical_json.decode(path.read_bytes())
    return _Progress(path=path, number=document["number"], manifest_sha256=document["manifest_sha256"])
