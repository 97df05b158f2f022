"""The event store: append in the caller's transaction, read, verify.

The chain's hashes are bpc.core.events; here is where they are kept. Writers of one aggregate queue up under a
lock that lasts until their transaction ends, so a chain has neither gaps nor forks, whoever writes.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

import asyncpg

from bpc.core.digest import Digest
from bpc.core.events import EMPTY, Event, EventVersionConflict, Fault, Head, Said, Stored, Stream, faults
from bpc.core.ids import ActorId, AggregateId, EventId, TenantId
from bpc.db import anchors, announcing
from bpc.db.connection import Connection

ATTEMPTS: Final = 10
AT_ONCE: Final = 100  # events that are checked before others in this process get their turn: a few milliseconds

HEAD: Final[LiteralString] = "SELECT aggregate_version, event_hash FROM locked_event_head($1, $2)"
INSERT: Final[LiteralString] = """
    INSERT INTO events (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type, occurred_at,
                        actor_id, payload, payload_canonical, payload_hash, prev_event_hash, event_hash)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10, $11, $12, $13)
    ON CONFLICT ON CONSTRAINT events_chain_key DO NOTHING
    RETURNING true
"""
# A time that was forced into a form we cannot read must not keep us from reading the rest: it gives another hash.
COLUMNS: Final[LiteralString] = """
    tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type, actor_id,
    CASE WHEN occurred_at >= '0001-01-01 UTC' AND occurred_at < '10000-01-01 UTC' THEN occurred_at
         ELSE '0001-01-01 UTC' END AS occurred_at,
    payload::text AS payload, payload_canonical, payload_hash, prev_event_hash, event_hash
"""
CHAIN: Final[LiteralString] = f"""
    SELECT {COLUMNS}
      FROM events
     WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $3
     ORDER BY aggregate_version
"""
ALL: Final[LiteralString] = f"""
    SELECT {COLUMNS}
      FROM events
     WHERE tenant_id = $1
     ORDER BY aggregate_type, aggregate_id, aggregate_version
"""
HEADS: Final[LiteralString] = """
    SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM (
      SELECT DISTINCT ON (aggregate_type, aggregate_id) aggregate_type, aggregate_id, aggregate_version, event_hash
        FROM (SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM events WHERE tenant_id = $1
              UNION ALL
              SELECT aggregate_type, aggregate_id, aggregate_version, event_hash FROM event_anchors
               WHERE tenant_id = $1) AS links
       ORDER BY aggregate_type, aggregate_id, aggregate_version DESC) AS heads
"""
HASHES_AT: Final[LiteralString] = """
    SELECT w.aggregate_type, w.aggregate_id, coalesce(e.event_hash, a.event_hash,
             (SELECT r.event_hash FROM retention_anchors r
               WHERE r.tenant_id = $1 AND r.aggregate_type = w.aggregate_type AND r.aggregate_id = w.aggregate_id
                 AND r.aggregate_version = w.aggregate_version LIMIT 1)) AS event_hash
      FROM unnest($2::text[], $3::uuid[], $4::bigint[]) AS w(aggregate_type, aggregate_id, aggregate_version)
      LEFT JOIN events e ON e.tenant_id = $1 AND e.aggregate_type = w.aggregate_type
           AND e.aggregate_id = w.aggregate_id AND e.aggregate_version = w.aggregate_version
      LEFT JOIN event_anchors a ON a.tenant_id = $1 AND a.aggregate_type = w.aggregate_type
           AND a.aggregate_id = w.aggregate_id AND a.aggregate_version = w.aggregate_version
"""


WITHOUT_A_TENANT: Final[LiteralString] = """
    SELECT tenant_id, aggregate_type, aggregate_id, aggregate_version FROM events_without_a_tenant()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a verification looked at, and what it found."""

    events: int
    chains: int
    faults: tuple[Fault, ...]


async def append(
    conn: Connection, stream: Stream, said: Said, *, after: int | None = None, head: Head | None = None
) -> Event:
    """Append `said` to `stream`, in the caller's transaction.

    With `after`, only if the chain is at that version, else `EventVersionConflict`; the transaction stays usable.
    Without, at the end, wherever that is by the time it is our turn. Who has looked at the chain under its lock, in
    this transaction, or has only just made what it is about, knows its `head` and saves looking again.
    """
    found = EMPTY
    for attempt in range(ATTEMPTS):
        found = await _locked_head(conn, stream) if head is None or attempt else head
        if after is not None and found.version != after:
            break
        event = Event.following(found, stream, said)
        if await conn.fetchval(INSERT, *_row(event)):
            await announcing.announce(conn, event)
            return event
        # Somebody inserted without taking the lock, or our snapshot is older than the lock: look again.
    raise EventVersionConflict(stream, found.version if after is None else after, found.version)


async def read_chain(conn: Connection, stream: Stream) -> list[Stored]:
    """All events of one aggregate, oldest first."""
    return [_stored(row) for row in await conn.fetch(CHAIN, *stream)]


async def verify_chain(conn: Connection, stream: Stream) -> Verified:
    """Check one aggregate's chain, and the anchor it begins at if retention has cut it."""
    await anchors.hold(conn, stream.tenant_id)
    begins = await anchors.of_chain(conn, stream)
    doubted = await anchors.faults_of_chain(conn, stream, begins)
    return await _verified(conn, begins, doubted, CHAIN, *stream)


async def verify_tenant(conn: Connection, tenant: TenantId) -> Verified:
    """Check every chain of a tenant and every anchor, read in one pass, a few events in memory at a time."""
    await anchors.hold(conn, tenant)
    begin = await anchors.of_tenant(conn, tenant)
    doubted = await anchors.faults_of_tenant(conn, tenant, begin)
    return await _verified(conn, begin, doubted, ALL, tenant)


async def without_a_tenant(conn: Connection) -> list[Fault]:
    """Events that belong to no tenant there is, as the system role sees them: each is a fault."""
    return [
        Fault(
            stream=_stream_of(TenantId(row["tenant_id"]), row),
            version=row["aggregate_version"],
            says=f"its tenant `{row['tenant_id']}` does not exist",
        )
        for row in await conn.fetch(WITHOUT_A_TENANT)
    ]


async def heads(conn: Connection, tenant: TenantId) -> dict[Stream, Head]:
    """Where every chain of a tenant stands."""
    return {_stream_of(tenant, row): _head_of(row) for row in await conn.fetch(HEADS, tenant)}


async def hashes_at(conn: Connection, tenant: TenantId, versions: Mapping[Stream, Head]) -> dict[Stream, Digest | None]:
    """The hash that each chain's event has today at the given version; None where it is not there."""
    types = [stream.aggregate_type for stream in versions]
    ids = [stream.aggregate_id for stream in versions]
    numbers = [head.version for head in versions.values()]
    rows = await conn.fetch(HASHES_AT, tenant, types, ids, numbers)
    return {_stream_of(tenant, row): _digest(row["event_hash"]) for row in rows}


async def _locked_head(conn: Connection, stream: Stream) -> Head:
    row = await conn.fetchrow(HEAD, stream.aggregate_type, stream.aggregate_id)
    return EMPTY if row is None or row["aggregate_version"] is None else _head_of(row)


async def _verified(
    conn: Connection,
    begin: Mapping[Stream, Head],
    doubted: Sequence[Fault],
    statement: LiteralString,
    *arguments: object,
) -> Verified:
    events, chains, found = 0, 0, list(doubted)
    at, head = None, EMPTY
    async for piece in _pieces(conn, statement, *arguments):
        last = piece[-1].event
        if at != last.stream:
            at, head, chains = last.stream, begin.get(last.stream, EMPTY), chains + 1
        events += len(piece)
        found += faults(piece, head)
        head = Head(last.version, last.event_hash)
        await asyncio.sleep(0)
    return Verified(events=events, chains=chains, faults=tuple(found))


async def _pieces(conn: Connection, statement: LiteralString, *arguments: object) -> AsyncIterator[list[Stored]]:
    """Events in order, in pieces that each belong to one chain."""
    piece: list[Stored] = []
    async for row in conn.cursor(statement, *arguments, prefetch=AT_ONCE):
        stored = _stored(row)
        if piece and (len(piece) == AT_ONCE or piece[0].event.stream != stored.event.stream):
            yield piece
            piece = []
        piece.append(stored)
    if piece:
        yield piece


def _row(event: Event) -> Sequence[object]:
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


def _stored(row: asyncpg.Record) -> Stored:
    event = Event(
        stream=_stream_of(TenantId(row["tenant_id"]), row),
        version=row["aggregate_version"],
        event_id=EventId(row["event_id"]),
        event_type=row["event_type"],
        occurred_at=row["occurred_at"],
        actor_id=None if row["actor_id"] is None else ActorId(row["actor_id"]),
        payload_canonical=row["payload_canonical"],
        payload_hash=Digest(row["payload_hash"]),
        prev_event_hash=_digest(row["prev_event_hash"]),
        event_hash=Digest(row["event_hash"]),
    )
    return Stored(event=event, payload_json=row["payload"].encode())


def _stream_of(tenant: TenantId, row: asyncpg.Record) -> Stream:
    return Stream(tenant, row["aggregate_type"], AggregateId(row["aggregate_id"]))


def _head_of(row: asyncpg.Record) -> Head:
    return Head(row["aggregate_version"], Digest(row["event_hash"]))


def _digest(value: bytes | None) -> Digest | None:
    return None if value is None else Digest(value)
