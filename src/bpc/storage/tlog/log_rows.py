"""The rows of the log: what waits, what has its place, what was signed, what opens and proves an entry.

Writing needs the system role. A tenant reads its own openings and proofs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString, NamedTuple
from uuid import UUID

import asyncpg

from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import DIGEST_BYTES, Digest
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.core.tlog.entries import (
    ENTRY_KINDS,
    PASSPORT_EXISTED,
    PASSPORT_ISSUED,
    LogEntry,
    LoggedEvent,
    encode_opening,
    make_event_entry,
)
from bpc.core.tlog.proofs import LogProof
from bpc.storage.connection import Connection
from bpc.storage.database import lock_name

# Kinds whose entries show that a passport version exists: these have a stored proof.
PROVED_KINDS: Final = (PASSPORT_ISSUED, PASSPORT_EXISTED)

INSERT_STATE: Final[LiteralString] = """
    INSERT INTO log_state (verifier_key) VALUES ($1) ON CONFLICT DO NOTHING
"""
SELECT_STATE: Final[LiteralString] = "SELECT verifier_key, listed_at, restored_at FROM log_state"
SET_LISTED: Final[LiteralString] = "UPDATE log_state SET listed_at = now() WHERE listed_at IS NULL"
SET_RESTORED: Final[LiteralString] = "UPDATE log_state SET restored_at = now()"
CLEAR_RESTORED: Final[LiteralString] = "UPDATE log_state SET restored_at = NULL"
SELECT_SIZE: Final[LiteralString] = "SELECT coalesce(max(log_index) + 1, 0) FROM log_entries"
SELECT_OUTBOX: Final[LiteralString] = """
    SELECT tenant_id, outbox_id, event_type, aggregate_type, aggregate_id, aggregate_version, occurred_at, event_hash,
           payload_canonical, salt
      FROM log_outbox ORDER BY occurred_at, outbox_id LIMIT $1
"""
DELETE_OUTBOX: Final[LiteralString] = """
    DELETE FROM log_outbox o USING unnest($1::uuid[], $2::uuid[]) AS w(tenant_id, outbox_id)
     WHERE o.tenant_id = w.tenant_id AND o.outbox_id = w.outbox_id
"""
COUNT_OUTBOX: Final[LiteralString] = "SELECT count(*) FROM log_outbox"
INSERT_ENTRIES: Final[LiteralString] = """
    INSERT INTO log_entries (log_index, entry) SELECT * FROM unnest($1::bigint[], $2::bytea[])
"""
INSERT_OPENINGS: Final[LiteralString] = """
    INSERT INTO log_openings (tenant_id, log_index, kind, aggregate_type, aggregate_id, statement, salt)
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::uuid[], $6::bytea[], $7::bytea[])
"""
SELECT_ENTRIES: Final[LiteralString] = """
    SELECT entry FROM log_entries WHERE log_index >= $1 AND log_index < $2 ORDER BY log_index
"""
INSERT_CHECKPOINT: Final[LiteralString] = """
    INSERT INTO log_checkpoints (size, root, note, has_quorum) VALUES ($1, $2, $3, $4)
        ON CONFLICT (size) DO NOTHING RETURNING true
"""
SELECT_CHECKPOINT: Final[LiteralString] = "SELECT size, root, note, has_quorum FROM log_checkpoints WHERE size = $1"
SELECT_LAST_CHECKPOINT: Final[LiteralString] = """
    SELECT size, root, note, has_quorum FROM log_checkpoints ORDER BY size DESC LIMIT 1
"""
SET_QUORUM: Final[LiteralString] = """
    UPDATE log_checkpoints SET note = $2, has_quorum = true WHERE size = $1 AND NOT has_quorum RETURNING true
"""
SELECT_QUORUM_SIZE: Final[LiteralString] = """
    SELECT coalesce(max(size), 0) FROM log_checkpoints WHERE has_quorum AND size < $1
"""
SELECT_UNPROVED: Final[LiteralString] = """
    SELECT o.tenant_id, o.log_index FROM log_openings o
     WHERE o.log_index >= $1 AND o.log_index < $2 AND o.kind = ANY ($3)
       AND NOT EXISTS (SELECT FROM log_proofs p WHERE p.tenant_id = o.tenant_id AND p.log_index = o.log_index)
     ORDER BY o.log_index
"""
INSERT_PROOFS: Final[LiteralString] = """
    INSERT INTO log_proofs (tenant_id, log_index, size, hashes)
    SELECT w.tenant_id, w.log_index, $3, w.hashes
      FROM unnest($1::uuid[], $2::bigint[], $4::bytea[]) AS w(tenant_id, log_index, hashes)
        ON CONFLICT DO NOTHING
"""
# A version that was signed before the log began, or whose entry the log lost before it had a place.
LIST_UNLOGGED_VERSIONS: Final[LiteralString] = """
    INSERT INTO log_outbox (tenant_id, event_type, aggregate_type, aggregate_id, aggregate_version, occurred_at,
                            event_hash, payload_canonical)
    SELECT $1, $2, e.aggregate_type, e.aggregate_id, e.aggregate_version, now(), e.event_hash, e.payload_canonical
      FROM events e
      JOIN passport_versions v ON v.tenant_id = $1 AND v.passport_version_id = e.aggregate_id
     WHERE e.tenant_id = $1 AND e.aggregate_type = 'PassportVersion' AND e.event_type = 'PASSPORT_SIGNED'
       AND NOT EXISTS (SELECT FROM log_outbox o WHERE o.tenant_id = $1 AND o.aggregate_id = e.aggregate_id
                          AND o.event_type IN ('PASSPORT_SIGNED', $2))
       AND NOT EXISTS (SELECT FROM log_openings o WHERE o.tenant_id = $1 AND o.aggregate_id = e.aggregate_id
                          AND o.kind = ANY ($3))
"""
LIST_UNLOGGED_KEYS: Final[LiteralString] = """
    INSERT INTO log_outbox (tenant_id, event_type, aggregate_type, aggregate_id, aggregate_version, occurred_at,
                            event_hash, payload_canonical)
    SELECT $1, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_version, e.occurred_at, e.event_hash,
           e.payload_canonical
      FROM events e
     WHERE e.tenant_id = $1 AND e.aggregate_type = 'SigningKey'
       AND e.event_type IN ('SIGNING_KEY_CREATED', 'SIGNING_KEY_CHANGED', 'SIGNING_KEY_COMPROMISED')
       AND NOT EXISTS (SELECT FROM log_outbox o WHERE o.tenant_id = $1 AND o.event_hash = e.event_hash)
"""
INSERT_OUTBOX: Final[LiteralString] = """
    INSERT INTO log_outbox (tenant_id, event_type, aggregate_type, aggregate_id, aggregate_version, occurred_at,
                            event_hash, payload_canonical)
    VALUES ($1, $2, 'Tenant', $1, 1, now(), $3, $4)
"""
SELECT_LAST_STATEMENT: Final[LiteralString] = """
    SELECT statement FROM log_openings WHERE tenant_id = $1 AND aggregate_id = $1 AND kind = $2
     ORDER BY log_index DESC LIMIT 1
"""
SELECT_PROOF: Final[LiteralString] = """
    SELECT o.log_index, o.statement, o.salt, p.hashes, c.note
      FROM log_openings o
      JOIN log_proofs p ON p.tenant_id = o.tenant_id AND p.log_index = o.log_index
      JOIN log_checkpoints c ON c.size = p.size
     WHERE o.tenant_id = $1 AND o.aggregate_id = $2 AND o.kind = ANY ($3)
     ORDER BY o.log_index LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """Which log it is; whether versions from before it are listed; when the database was restored, if it was."""

    verifier_key: str
    listed_at: datetime | None
    restored_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """What the log signed."""

    size: int
    root: Digest
    note: bytes
    has_quorum: bool


class WaitingEntry(NamedTuple):
    """A row of the outbox and the entry it becomes."""

    tenant_id: TenantId
    outbox_id: UUID
    kind: str
    aggregate_type: str
    aggregate_id: UUID
    entry: LogEntry


class EntryProof(NamedTuple):
    """The hashes from an entry of a tenant to the root."""

    tenant_id: TenantId
    log_index: int
    hashes: Sequence[Digest]


async def lock_log(conn: Connection) -> None:
    """Let no other transaction give places in the log until this one ends."""
    await lock_name(conn, "transparency log")


async def load_state(conn: Connection, verifier_key: str) -> LogState:
    """The state of the log; the first caller begins it with its key."""
    await conn.execute(INSERT_STATE, verifier_key)
    return LogState(**(await conn.fetch(SELECT_STATE))[0])


async def find_verifier(conn: Connection) -> str | None:
    """The public key of the log, with its name; None before the log begins."""
    rows = await conn.fetch(SELECT_STATE)
    return rows[0]["verifier_key"] if rows else None


async def mark_restored(conn: Connection) -> None:
    """Let the log say that this database was restored. Nothing if it has no log yet."""
    await conn.execute(SET_RESTORED)


async def clear_restored(conn: Connection) -> None:
    await conn.execute(CLEAR_RESTORED)


async def mark_listed(conn: Connection) -> None:
    await conn.execute(SET_LISTED)


async def count_entries(conn: Connection) -> int:
    size: int = await conn.fetchval(SELECT_SIZE)
    return size


async def count_waiting(conn: Connection) -> int:
    """How many rows wait for a place."""
    count: int = await conn.fetchval(COUNT_OUTBOX)
    return count


async def load_waiting(conn: Connection, *, limit: int) -> list[WaitingEntry]:
    return [_to_waiting_entry(row) for row in await conn.fetch(SELECT_OUTBOX, limit)]


async def give_places(conn: Connection, first_index: int, waiting: Sequence[WaitingEntry]) -> None:
    """Move rows from the outbox to the log, in this order. Needs `lock_log`."""
    indices = list(range(first_index, first_index + len(waiting)))
    await insert_entries(conn, first_index, [row.entry.data for row in waiting])
    await keep_openings(conn, list(zip(indices, waiting, strict=True)))


async def insert_entries(conn: Connection, first_index: int, entries: Sequence[bytes]) -> None:
    indices = list(range(first_index, first_index + len(entries)))
    await conn.execute(INSERT_ENTRIES, indices, list(entries))


async def keep_openings(conn: Connection, places: Sequence[tuple[int, WaitingEntry]]) -> None:
    """Keep what opens sealed entries, and remove all these rows from the outbox."""
    sealed = [(index, row) for index, row in places if row.entry.salt is not None]
    await conn.execute(
        INSERT_OPENINGS,
        [row.tenant_id for _, row in sealed],
        [index for index, _ in sealed],
        [row.kind for _, row in sealed],
        [row.aggregate_type for _, row in sealed],
        [row.aggregate_id for _, row in sealed],
        [row.entry.statement for _, row in sealed],
        [row.entry.salt for _, row in sealed],
    )
    await conn.execute(DELETE_OUTBOX, [row.tenant_id for _, row in places], [row.outbox_id for _, row in places])


async def load_entries(conn: Connection, start: int, end: int) -> list[bytes]:
    return [row["entry"] for row in await conn.fetch(SELECT_ENTRIES, start, end)]


async def insert_checkpoint(conn: Connection, checkpoint: StoredCheckpoint) -> StoredCheckpoint:
    """Store what the log is about to sign; return what is stored for this size, which somebody may have done before."""
    await conn.execute(INSERT_CHECKPOINT, checkpoint.size, checkpoint.root, checkpoint.note, checkpoint.has_quorum)
    return await find_checkpoint(conn, checkpoint.size) or checkpoint


async def set_quorum(conn: Connection, size: int, note: bytes) -> bool:
    """Store the cosigned note; False if there was a quorum before."""
    return bool(await conn.fetchval(SET_QUORUM, size, note))


async def find_checkpoint(conn: Connection, size: int) -> StoredCheckpoint | None:
    rows = await conn.fetch(SELECT_CHECKPOINT, size)
    return StoredCheckpoint(**rows[0]) if rows else None


async def find_last_checkpoint(conn: Connection) -> StoredCheckpoint | None:
    rows = await conn.fetch(SELECT_LAST_CHECKPOINT)
    return StoredCheckpoint(**rows[0]) if rows else None


async def list_unproved(conn: Connection, size: int) -> list[tuple[TenantId, int]]:
    """Entries of passport versions in the tree of `size` that have no proof yet."""
    start = await conn.fetchval(SELECT_QUORUM_SIZE, size)
    rows = await conn.fetch(SELECT_UNPROVED, start, size, list(PROVED_KINDS))
    return [(TenantId(row["tenant_id"]), row["log_index"]) for row in rows]


async def insert_proofs(conn: Connection, size: int, proofs: Sequence[EntryProof]) -> None:
    await conn.execute(
        INSERT_PROOFS,
        [proof.tenant_id for proof in proofs],
        [proof.log_index for proof in proofs],
        size,
        [b"".join(proof.hashes) for proof in proofs],
    )


async def list_unlogged_versions(conn: Connection, tenant: TenantId) -> None:
    """Put versions of a tenant that the log does not know into the outbox: they existed by now."""
    await conn.execute(LIST_UNLOGGED_VERSIONS, tenant, PASSPORT_EXISTED, list(PROVED_KINDS))


async def list_unlogged_keys(conn: Connection, system_tenant: TenantId) -> None:
    """Put keys that were added or retired before the log began into the outbox; only before its first entry."""
    await conn.execute(LIST_UNLOGGED_KEYS, system_tenant)


async def insert_tenant_statement(
    conn: Connection, tenant: TenantId, kind: str, digest: Digest, members: dict[str, object]
) -> None:
    """Put a statement about a whole tenant into the outbox."""
    await conn.execute(INSERT_OUTBOX, tenant, kind, digest, canonical_json.encode(members))


async def find_last_statement(conn: Connection, tenant: TenantId, kind: str) -> canonical_json.Json:
    """The newest statement of a kind about a whole tenant; None if there is none."""
    statement = await conn.fetchval(SELECT_LAST_STATEMENT, tenant, kind)
    return None if statement is None else canonical_json.decode(statement)


async def find_version_proof(conn: Connection, tenant: TenantId, version: PassportVersionId) -> LogProof | None:
    """The proof of a passport version, with its opening as extra; None while the log is pending."""
    rows = await conn.fetch(SELECT_PROOF, tenant, version, list(PROVED_KINDS))
    if not rows:
        return None
    row = rows[0]
    raw = row["hashes"]
    return LogProof(
        index=row["log_index"],
        hashes=tuple(Digest(raw[at : at + DIGEST_BYTES]) for at in range(0, len(raw), DIGEST_BYTES)),
        checkpoint=row["note"],
        extra=encode_opening(LogEntry(statement=row["statement"], salt=row["salt"])),
    )


def _to_waiting_entry(row: asyncpg.Record) -> WaitingEntry:
    kind = ENTRY_KINDS.get(row["event_type"], row["event_type"])
    payload = canonical_json.decode(row["payload_canonical"])
    event = LoggedEvent(
        kind=kind,
        tenant_id=str(row["tenant_id"]),
        aggregate_type=row["aggregate_type"],
        aggregate_id=str(row["aggregate_id"]),
        aggregate_version=row["aggregate_version"],
        at=row["occurred_at"],
        event_hash=Digest(row["event_hash"]),
        payload=payload if isinstance(payload, dict) else {},
    )
    return WaitingEntry(
        TenantId(row["tenant_id"]),
        row["outbox_id"],
        kind,
        row["aggregate_type"],
        row["aggregate_id"],
        make_event_entry(event, row["salt"]),
    )
