"""The event store: append in the caller's transaction, read, verify; and the anchors that retention leaves.

bpc.core.audit.events computes the hashes of a chain. Writers of one aggregate wait for each other under a lock that
lasts until their transaction ends, so a chain has neither gaps nor forks.

Appending writes one row. bpc.storage.webhooks.webhook_fanout.append_and_announce also announces it to webhooks.

An anchor is the last event that retention removed of a chain, by version and hash: the chain is verified from there.
Each retention event lists the anchors it set (retention_anchors), so a moved anchor is noticed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

import asyncpg

from bpc.core.audit.checkpoint import (
    RETENTION_EVENT_TYPE,
    UNCUT_AGGREGATE_TYPE,
    AnchorList,
    find_anchor_faults,
    read_claimed_hash,
)
from bpc.core.audit.events import (
    EMPTY_CHAIN,
    Act,
    AuditEvent,
    ChainFault,
    ChainHead,
    EventStream,
    EventVersionConflict,
    NewEvent,
    StoredEvent,
    find_chain_faults,
)
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import ActorId, AggregateId, EventId, TenantId
from bpc.storage.connection import Connection

SELECT_ANCHORS_OF_TENANT: Final[LiteralString] = """
    SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM event_anchors WHERE tenant_id = $1
"""
SELECT_ANCHOR_OF_CHAIN: Final[LiteralString] = (
    f"{SELECT_ANCHORS_OF_TENANT} AND aggregate_type = $2 AND aggregate_id = $3"
)
SELECT_RETENTION_EVENTS: Final[LiteralString] = """
    SELECT event_id, aggregate_version, payload_canonical FROM events
     WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $1 AND event_type = $3
     ORDER BY aggregate_version
"""
SELECT_RETENTION_ANCHORS: Final[LiteralString] = """
    SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM retention_anchors
     WHERE tenant_id = $1 AND event_id = $2
"""
SELECT_RETENTION_EVENTS_OF_CHAIN: Final[LiteralString] = """
    SELECT event_id FROM retention_anchors WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $3
"""
UPSERT_ANCHORS: Final[LiteralString] = """
    INSERT INTO event_anchors (tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT $1, w.aggregate_type, w.aggregate_id, w.aggregate_version, w.event_hash
      FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::bytea[])
           AS w(aggregate_type, aggregate_id, aggregate_version, event_hash)
        ON CONFLICT (tenant_id, aggregate_type, aggregate_id) DO UPDATE
       SET aggregate_version = excluded.aggregate_version, event_hash = excluded.event_hash
"""
INSERT_RETENTION_ANCHORS: Final[LiteralString] = """
    INSERT INTO retention_anchors (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT $1, $6, w.aggregate_type, w.aggregate_id, w.aggregate_version, w.event_hash
      FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::bytea[])
           AS w(aggregate_type, aggregate_id, aggregate_version, event_hash)
"""

LOCK_ANCHORS: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('retention/' || $1, 0))"
LOCK_ANCHORS_SHARED: Final[LiteralString] = (
    "SELECT pg_advisory_xact_lock_shared(hashtextextended('retention/' || $1, 0))"
)

Report = Callable[[int], None]
Observer = Callable[[Sequence[StoredEvent]], Awaitable[None]]
AnchorColumns = tuple[list[str], list[AggregateId], list[int], list[Digest | None]]


async def lock_anchors(conn: Connection, tenant: TenantId) -> None:
    """Lock the tenant's anchors exclusively until the transaction ends."""
    await conn.execute(LOCK_ANCHORS, str(tenant))


async def lock_anchors_shared(conn: Connection, tenant: TenantId) -> None:
    """Lock the tenant's anchors until the transaction ends: others may read them, nobody moves them."""
    await conn.execute(LOCK_ANCHORS_SHARED, str(tenant))


async def move_anchors(conn: Connection, tenant: TenantId, anchors: Mapping[EventStream, ChainHead]) -> None:
    """Set anchors; their events must still exist. Needs the system role."""
    await conn.execute(UPSERT_ANCHORS, tenant, *to_columns(anchors))


async def insert_retention_anchors(
    conn: Connection, tenant: TenantId, retention_event: AuditEvent, anchors: Mapping[EventStream, ChainHead]
) -> None:
    """Store the list of anchors whose hash is in the payload of `retention_event`. Needs the system role."""
    await conn.execute(INSERT_RETENTION_ANCHORS, tenant, *to_columns(anchors), retention_event.event_id)


async def _check_anchor_of_chain(
    conn: Connection, stream: EventStream, anchors: Mapping[EventStream, ChainHead]
) -> list[ChainFault]:
    """The faults of one chain's anchor, according to the lists that name it."""
    event_ids = {row["event_id"] for row in await conn.fetch(SELECT_RETENTION_EVENTS_OF_CHAIN, *stream)}
    parts = await _load_parts(conn, stream.tenant_id, event_ids) if event_ids else []
    anchor_faults = find_anchor_faults(anchors, parts)
    return [
        fault
        for fault in anchor_faults
        if fault.stream == stream or fault.stream.aggregate_type == UNCUT_AGGREGATE_TYPE
    ]


async def _load_parts(conn: Connection, tenant: TenantId, event_ids: set[UUID] | None) -> list[AnchorList]:
    parts = []
    for row in await conn.fetch(SELECT_RETENTION_EVENTS, tenant, UNCUT_AGGREGATE_TYPE, RETENTION_EVENT_TYPE):
        if event_ids is None or row["event_id"] in event_ids:
            part = AnchorList(
                stream=EventStream(tenant, UNCUT_AGGREGATE_TYPE, AggregateId(tenant)),
                version=row["aggregate_version"],
                claimed_hash=read_claimed_hash(row["payload_canonical"]),
                anchors=to_heads(tenant, await conn.fetch(SELECT_RETENTION_ANCHORS, tenant, row["event_id"])),
            )
            parts.append(part)
    return parts


def to_columns(anchors: Mapping[EventStream, ChainHead]) -> AnchorColumns:
    """Anchors as columns for `unnest`."""
    return (
        [stream.aggregate_type for stream in anchors],
        [stream.aggregate_id for stream in anchors],
        [head.version for head in anchors.values()],
        [head.event_hash for head in anchors.values()],
    )


def to_heads(tenant: TenantId, rows: Sequence[asyncpg.Record]) -> dict[EventStream, ChainHead]:
    """Rows with aggregate_type, aggregate_id, aggregate_version and event_hash as heads of chains."""
    return {_to_stream(tenant, row): _to_head(row) for row in rows}


# Events -----------------------------------------------------------------------------------------------------------

APPEND_ATTEMPTS: Final = 10
VERIFY_CHUNK: Final = 100  # events that are checked between two turns of the event loop: a few milliseconds

SELECT_LOCKED_HEAD: Final[LiteralString] = "SELECT aggregate_version, event_hash FROM locked_event_head($1, $2)"
INSERT_EVENT: Final[LiteralString] = """
    INSERT INTO events (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type, occurred_at,
                        actor_id, payload, payload_canonical, payload_hash, prev_event_hash, event_hash)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10, $11, $12, $13)
    ON CONFLICT ON CONSTRAINT events_chain_key DO NOTHING
    RETURNING true
"""
# A time out of range (only direct SQL can store one) must not stop verification: it gives another hash, a fault.
EVENT_COLUMNS: Final[LiteralString] = """
    tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type, actor_id,
    CASE WHEN occurred_at >= '0001-01-01 UTC' AND occurred_at < '10000-01-01 UTC' THEN occurred_at
         ELSE '0001-01-01 UTC' END AS occurred_at,
    payload::text AS payload, payload_canonical, payload_hash, prev_event_hash, event_hash
"""
SELECT_CHAIN: Final[LiteralString] = f"""
    SELECT {EVENT_COLUMNS}
      FROM events
     WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $3
     ORDER BY aggregate_version
"""
SELECT_EVENTS_OF_TENANT: Final[LiteralString] = f"""
    SELECT {EVENT_COLUMNS}
      FROM events
     WHERE tenant_id = $1
     ORDER BY aggregate_type, aggregate_id, aggregate_version
"""
SELECT_HEADS: Final[LiteralString] = """
    SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM (
      SELECT DISTINCT ON (aggregate_type, aggregate_id) aggregate_type, aggregate_id, aggregate_version, event_hash
        FROM (SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM events WHERE tenant_id = $1
              UNION ALL
              SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM event_anchors
               WHERE tenant_id = $1) AS links
       ORDER BY aggregate_type, aggregate_id, aggregate_version DESC) AS heads
"""
SELECT_HASHES_AT: Final[LiteralString] = """
    SELECT w.aggregate_type, w.aggregate_id, coalesce(e.event_hash, a.event_hash,
             (SELECT r.event_hash FROM retention_anchors r
               WHERE r.tenant_id = $1 AND r.aggregate_type = w.aggregate_type AND r.aggregate_id = w.aggregate_id
                 AND r.aggregate_version = w.aggregate_version LIMIT 1),
             (SELECT g.event_hash FROM removed_events g
               WHERE g.tenant_id = $1 AND g.aggregate_type = w.aggregate_type AND g.aggregate_id = w.aggregate_id
                 AND g.aggregate_version = w.aggregate_version)) AS event_hash
      FROM unnest($2::text[], $3::uuid[], $4::bigint[]) AS w(aggregate_type, aggregate_id, aggregate_version)
      LEFT JOIN events e ON e.tenant_id = $1 AND e.aggregate_type = w.aggregate_type
           AND e.aggregate_id = w.aggregate_id AND e.aggregate_version = w.aggregate_version
      LEFT JOIN event_anchors a ON a.tenant_id = $1 AND a.aggregate_type = w.aggregate_type
           AND a.aggregate_id = w.aggregate_id AND a.aggregate_version = w.aggregate_version
"""
SELECT_EVENTS_WITHOUT_TENANT: Final[LiteralString] = """
    SELECT tenant_id, aggregate_type, aggregate_id, aggregate_version FROM events_without_a_tenant()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerification:
    """How much a verification checked, and the faults."""

    events: int
    chains: int
    faults: tuple[ChainFault, ...]


async def append(
    conn: Connection, stream: EventStream, entry: NewEvent, *, after: int | None = None, head: ChainHead | None = None
) -> AuditEvent:
    """Append `entry` to `stream`, in the caller's transaction. Announces nothing.

    With `after`, only if the chain is at that version, else `EventVersionConflict`; the transaction stays usable.
    A caller that holds the chain's lock, or has just created the aggregate, passes `head` to save a query.
    """
    current = EMPTY_CHAIN
    for attempt in range(APPEND_ATTEMPTS):
        current = await _lock_head(conn, stream) if head is None or attempt else head
        if after is not None and current.version != after:
            break
        event = AuditEvent.chain_after(current, stream, entry)
        if await conn.fetchval(INSERT_EVENT, *_to_arguments(event)):
            return event
        # Another writer inserted without the lock, or this transaction's snapshot is older than the lock: try again.
    raise EventVersionConflict(stream, current.version if after is None else after, current.version)


async def append_act(
    conn: Connection,
    act: Act,
    tenant: TenantId,
    aggregate_type: str,
    aggregate_id: UUID,
    event_type: str,
    payload: Mapping[str, object],
    *,
    head: ChainHead | None = None,
) -> AuditEvent:
    """Append what `act` did to an aggregate. Announces nothing."""
    stream = EventStream(tenant, aggregate_type, AggregateId(aggregate_id))
    return await append(conn, stream, act.new_event(event_type, payload), head=head)


async def read_chain(conn: Connection, stream: EventStream) -> list[StoredEvent]:
    """All events of one aggregate, oldest first."""
    return [_to_stored_event(row) for row in await conn.fetch(SELECT_CHAIN, *stream)]


async def verify_chain(conn: Connection, stream: EventStream) -> ChainVerification:
    """Check the chain of one aggregate, and its anchor if retention has cut it."""
    await lock_anchors_shared(conn, stream.tenant_id)
    chain_anchors = to_heads(stream.tenant_id, await conn.fetch(SELECT_ANCHOR_OF_CHAIN, *stream))
    anchor_faults = await _check_anchor_of_chain(conn, stream, chain_anchors)
    return await _verify_events(conn, chain_anchors, anchor_faults, SELECT_CHAIN, *stream)


async def verify_tenant(
    conn: Connection, tenant: TenantId, *, report: Report | None = None, observe: Observer | None = None
) -> ChainVerification:
    """Check every chain and every anchor of a tenant in one pass, with few events in memory at a time.

    `report` gets the number of events after each piece; `observe` gets the piece, which belongs to one chain.
    """
    await lock_anchors_shared(conn, tenant)
    chain_anchors = to_heads(tenant, await conn.fetch(SELECT_ANCHORS_OF_TENANT, tenant))
    anchor_faults = list(find_anchor_faults(chain_anchors, await _load_parts(conn, tenant, None)))
    statement = SELECT_EVENTS_OF_TENANT
    return await _verify_events(conn, chain_anchors, anchor_faults, statement, tenant, report=report, observe=observe)


async def list_events_without_tenant(conn: Connection) -> list[ChainFault]:
    """Events whose tenant does not exist; each is a fault. Needs the system role."""
    return [
        ChainFault(
            stream=_to_stream(TenantId(row["tenant_id"]), row),
            version=row["aggregate_version"],
            says=f"its tenant `{row['tenant_id']}` does not exist",
        )
        for row in await conn.fetch(SELECT_EVENTS_WITHOUT_TENANT)
    ]


async def load_heads(conn: Connection, tenant: TenantId) -> dict[EventStream, ChainHead]:
    """The head of every chain of a tenant."""
    return to_heads(tenant, await conn.fetch(SELECT_HEADS, tenant))


async def load_hashes_at(
    conn: Connection, tenant: TenantId, versions: Mapping[EventStream, ChainHead]
) -> dict[EventStream, Digest | None]:
    """The hash that each chain has today at a version; None if there is no such event."""
    types = [stream.aggregate_type for stream in versions]
    ids = [stream.aggregate_id for stream in versions]
    numbers = [head.version for head in versions.values()]
    rows = await conn.fetch(SELECT_HASHES_AT, tenant, types, ids, numbers)
    return {_to_stream(tenant, row): _to_digest(row["event_hash"]) for row in rows}


async def _lock_head(conn: Connection, stream: EventStream) -> ChainHead:
    row = await conn.fetchrow(SELECT_LOCKED_HEAD, stream.aggregate_type, stream.aggregate_id)
    return EMPTY_CHAIN if row is None or row["aggregate_version"] is None else _to_head(row)


async def _verify_events(
    conn: Connection,
    chain_anchors: Mapping[EventStream, ChainHead],
    anchor_faults: Sequence[ChainFault],
    statement: LiteralString,
    *arguments: object,
    report: Report | None = None,
    observe: Observer | None = None,
) -> ChainVerification:
    events, chains, all_faults = 0, 0, list(anchor_faults)
    stream, head = None, EMPTY_CHAIN
    async for chunk in _iter_chunks(conn, statement, *arguments):
        last = chunk[-1].event
        if stream != last.stream:
            stream, head, chains = last.stream, chain_anchors.get(last.stream, EMPTY_CHAIN), chains + 1
        events += len(chunk)
        all_faults += find_chain_faults(chunk, head)
        head = ChainHead(last.version, last.event_hash)
        if observe is not None:
            await observe(chunk)
        if report is not None:
            report(events)
        await asyncio.sleep(0)
    return ChainVerification(events=events, chains=chains, faults=tuple(all_faults))


async def _iter_chunks(
    conn: Connection, statement: LiteralString, *arguments: object
) -> AsyncIterator[list[StoredEvent]]:
    """Events in order, in chunks that each belong to one chain."""
    chunk: list[StoredEvent] = []
    async for row in conn.cursor(statement, *arguments, prefetch=VERIFY_CHUNK):
        stored_event = _to_stored_event(row)
        if chunk and (len(chunk) == VERIFY_CHUNK or chunk[0].event.stream != stored_event.event.stream):
            yield chunk
            chunk = []
        chunk.append(stored_event)
    if chunk:
        yield chunk


def _to_arguments(event: AuditEvent) -> Sequence[object]:
    return (
        event.stream.tenant_id,
        event.event_id,
        event.stream.aggregate_type,
        event.stream.aggregate_id,
        event.version,
        event.event_type,
        event.occurred_at,
        event.actor_id,
        event.payload_canonical.decode(),
        event.payload_canonical,
        event.payload_hash,
        event.prev_event_hash,
        event.event_hash,
    )


def _to_stored_event(row: asyncpg.Record) -> StoredEvent:
    event = AuditEvent(
        stream=_to_stream(TenantId(row["tenant_id"]), row),
        version=row["aggregate_version"],
        event_id=EventId(row["event_id"]),
        event_type=row["event_type"],
        occurred_at=row["occurred_at"],
        actor_id=None if row["actor_id"] is None else ActorId(row["actor_id"]),
        payload_canonical=row["payload_canonical"],
        payload_hash=Digest(row["payload_hash"]),
        prev_event_hash=_to_digest(row["prev_event_hash"]),
        event_hash=Digest(row["event_hash"]),
    )
    return StoredEvent(event=event, payload_json=row["payload"].encode())


def _to_stream(tenant: TenantId, row: asyncpg.Record) -> EventStream:
    return EventStream(tenant, row["aggregate_type"], AggregateId(row["aggregate_id"]))


def _to_head(row: asyncpg.Record) -> ChainHead:
    return ChainHead(row["aggregate_version"], Digest(row["event_hash"]))


def _to_digest(value: bytes | None) -> Digest | None:
    return None if value is None else Digest(value)
