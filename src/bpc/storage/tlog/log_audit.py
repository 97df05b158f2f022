"""Comparing the log with the database: every entry, what opens it, and the audit event it is about.

Finds an entry or an opening that was changed or removed, and an event that was changed or removed although no retention
has recorded that. `LogFault` names the first difference.
"""

from collections.abc import Callable, Sequence
from typing import Final, LiteralString

from bpc.core.formats.ids import TenantId
from bpc.core.tlog.audit import LogFault
from bpc.core.tlog.entries import LOG_RESTORED, SEALED, LogEntry, read_readable_entry
from bpc.storage.access import tenants_and_actors
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.tlog import log_rows

CHUNK: Final = 50_000
SELECT_OPENINGS: Final[LiteralString] = """
    SELECT log_index, statement, salt FROM log_openings WHERE tenant_id = $1 ORDER BY log_index
"""
# An event that retention removed lies behind the anchor of its chain.
SELECT_EVENT_FAULTS: Final[LiteralString] = """
    WITH logged AS (
      SELECT log_index, kind, aggregate_type, aggregate_id, convert_from(statement, 'UTF8')::jsonb AS statement
        FROM log_openings WHERE tenant_id = $1)
    SELECT l.log_index, l.kind, l.aggregate_type, l.aggregate_id, e.event_hash IS NULL AS is_gone
      FROM logged l
      LEFT JOIN events e ON e.tenant_id = $1 AND e.aggregate_type = l.aggregate_type
           AND e.aggregate_id = l.aggregate_id
           AND e.aggregate_version = (l.statement ->> 'aggregate_version')::bigint
      LEFT JOIN event_anchors a ON a.tenant_id = $1 AND a.aggregate_type = l.aggregate_type
           AND a.aggregate_id = l.aggregate_id
           AND a.aggregate_version >= (l.statement ->> 'aggregate_version')::bigint
     WHERE l.statement ? 'event_hash'
       AND CASE WHEN e.event_hash IS NULL THEN a.event_hash IS NULL
                ELSE encode(e.event_hash, 'hex') <> l.statement ->> 'event_hash' END
     ORDER BY l.log_index LIMIT 1
"""
SELECT_OPENED: Final[LiteralString] = "SELECT log_index FROM log_openings"
# What was signed a moment ago is published a moment later.
SELECT_SIGNED_SIZE: Final[LiteralString] = """
    SELECT coalesce(max(size), 0) FROM log_checkpoints WHERE signed_at < clock_timestamp() - interval '1 minute'
"""
COUNT_LOGGED_EVENTS: Final[LiteralString] = """
    SELECT count(*) FROM log_openings
     WHERE tenant_id = $1 AND convert_from(statement, 'UTF8')::jsonb ? 'event_hash'
"""


async def compare_with_database(database: Database, entries: Sequence[bytes], read_size: Callable[[], int]) -> int:
    """Compare the published entries with the database; return how many are about events.

    `read_size` says how many entries are published now: reading all of them took its time.
    """
    async with database.system() as conn:
        await compare_entries(conn, entries)
        await check_published(conn, read_size)
        tenants = await tenants_and_actors.list_tenants(conn)
    count = 0
    for tenant in tenants:
        async with database.system(tenant.tenant_id) as conn:
            count += await compare_tenant(conn, tenant.tenant_id, entries)
    return count


async def compare_entries(conn: Connection, entries: Sequence[bytes]) -> None:
    """Compare the published entries with those of the database. Each sealed one needs what opens it.

    What was published after a backup that was restored has lost its opening: a later LOG_RESTORED says so to everybody.
    """
    for start in range(0, len(entries), CHUNK):
        stored_entries = await log_rows.load_entries(conn, start, min(start + CHUNK, len(entries)))
        _compare_entries(start, stored_entries, entries[start : start + CHUNK])
    last_restore = max((index for index, entry in enumerate(entries) if _is_restored(entry)), default=-1)
    opened_indexes = {row["log_index"] for row in await conn.fetch(SELECT_OPENED)}
    for index in range(last_restore + 1, len(entries)):
        if entries[index].startswith(SEALED) and index not in opened_indexes:
            raise LogFault(f"entry {index:,}", "nothing in the database opens it")


async def check_published(conn: Connection, read_size: Callable[[], int]) -> None:
    """Every tree that was signed is published: otherwise the files were rolled back, or nobody writes them."""
    signed_size: int = await conn.fetchval(SELECT_SIGNED_SIZE)
    if (size := read_size()) < signed_size:
        says = f"the database signed {signed_size:,} entries, and {size:,} are published"
        raise LogFault("checkpoint", f"{says}: its files were rolled back, or no worker has written them for a minute")


async def compare_tenant(conn: Connection, tenant: TenantId, entries: Sequence[bytes]) -> int:
    """Compare the openings of a tenant with the entries, and its events with them; return how many are about events."""
    await _check_openings(conn, tenant, entries)
    await _check_events(conn, tenant)
    count: int = await conn.fetchval(COUNT_LOGGED_EVENTS, tenant)
    return count


def _is_restored(entry: bytes) -> bool:
    statement = None if entry.startswith(SEALED) else read_readable_entry(entry)
    return statement is not None and statement.get("kind") == LOG_RESTORED


def _compare_entries(start: int, stored_entries: Sequence[bytes], published: Sequence[bytes]) -> None:
    for number, (entry, other) in enumerate(zip(stored_entries, published, strict=False)):
        if entry != other:
            raise LogFault(f"entry {start + number:,}", "the database has another entry here than the log")
    if len(stored_entries) < len(published):
        raise LogFault(f"entry {start + len(stored_entries):,}", "the log has an entry here that the database lacks")


async def _check_openings(conn: Connection, tenant: TenantId, entries: Sequence[bytes]) -> None:
    async for row in conn.cursor(SELECT_OPENINGS, tenant):
        index = row["log_index"]
        if index < len(entries) and LogEntry(statement=row["statement"], salt=row["salt"]).data != entries[index]:
            raise LogFault(f"entry {index:,}", "what the database keeps to open it gives another entry")


async def _check_events(conn: Connection, tenant: TenantId) -> None:
    rows = await conn.fetch(SELECT_EVENT_FAULTS, tenant)
    if rows:
        row = rows[0]
        what = f"its event {row['kind']} of {row['aggregate_type']} {row['aggregate_id']}"
        happened = "is gone, and no retention removed it" if row["is_gone"] else "was changed since"
        raise LogFault(f"entry {row['log_index']:,}", f"{what} {happened}")
