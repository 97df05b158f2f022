"""Status lists and statements: which are due, what they are made of, what is signed.

Indices are given by the database itself, in the transaction that issues a version. A worker signs, as the system role
bound to a tenant. The public reads signed documents and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.core.status.status_list import PassportState
from bpc.storage.connection import Connection

# A version from before status lists, or one whose row was written with its status.
ASSIGN_MISSING: Final[LiteralString] = """
    WITH unlisted AS MATERIALIZED (
      SELECT v.passport_version_id,
             (CASE v.status WHEN 'SUPERSEDED' THEN 1 WHEN 'REVOKED' THEN 2 ELSE 0 END)::int AS state,
             coalesce(CASE v.status WHEN 'SUPERSEDED' THEN v.superseded_at WHEN 'REVOKED' THEN v.revoked_at END,
                      v.created_at) AS since
        FROM passport_versions v
       WHERE v.tenant_id = $1 AND v.status <> 'COMPILING'
         AND NOT EXISTS (SELECT FROM status_entries e
                          WHERE e.tenant_id = $1 AND e.passport_version_id = v.passport_version_id)
       ORDER BY v.passport_version_id LIMIT $2)
    SELECT count(*) FROM (
      SELECT assign_status_index($1, passport_version_id, state, since) FROM unlisted OFFSET 0) AS assigned
"""
SELECT_TENANTS_WITH_WORK: Final[LiteralString] = """
    SELECT DISTINCT tenant_id FROM status_entries WHERE statement_due
    UNION
    SELECT tenant_id FROM status_lists WHERE valid_until IS NULL OR valid_until < now() + $1
"""
# The oldest first, and none that another worker has in hand.
SELECT_DUE: Final[LiteralString] = """
    SELECT e.passport_version_id, e.list_id, e.list_index, e.state, e.since, v.receipt_hash,
           v.created_at AS issued_at, s.payload_canonical AS act_payload,
           EXISTS (SELECT FROM status_statements t WHERE t.tenant_id = $1 AND t.state = 0
                      AND t.passport_version_id = e.passport_version_id) AS is_bound
      FROM status_entries e
      JOIN passport_versions v ON v.tenant_id = $1 AND v.passport_version_id = e.passport_version_id
      LEFT JOIN LATERAL (
        SELECT a.payload_canonical
          FROM events a
         WHERE a.tenant_id = $1 AND a.aggregate_type = 'PassportVersion' AND a.aggregate_id = e.passport_version_id
           AND a.event_type = CASE e.state WHEN 1 THEN 'PASSPORT_SUPERSEDED' WHEN 2 THEN 'PASSPORT_REVOKED' END
         ORDER BY a.aggregate_version DESC LIMIT 1) AS s ON e.state <> 0
     WHERE e.tenant_id = $1 AND e.statement_due
     ORDER BY e.passport_version_id LIMIT $2
       FOR UPDATE OF e SKIP LOCKED
"""
INSERT_STATEMENTS: Final[LiteralString] = """
    INSERT INTO status_statements (tenant_id, passport_version_id, state, document, signed_at)
    SELECT $1, w.version, w.state, w.document, $5
      FROM unnest($2::uuid[], $3::int[], $4::bytea[]) AS w(version, state, document)
        ON CONFLICT DO NOTHING
"""
SET_DONE: Final[LiteralString] = """
    UPDATE status_entries SET statement_due = false WHERE tenant_id = $1 AND passport_version_id = ANY ($2)
"""
SELECT_LISTS_TO_RENEW: Final[LiteralString] = """
    SELECT list_id FROM status_lists
     WHERE tenant_id = $1 AND (valid_until IS NULL OR valid_until < now() + $2)
"""
# Whoever signs a list waits for whoever signs it now: an older state never replaces a newer one.
LOCK_LIST: Final[LiteralString] = """
    SELECT list_id FROM status_lists WHERE tenant_id = $1 AND list_id = $2 FOR NO KEY UPDATE
"""
SELECT_STATES: Final[LiteralString] = """
    SELECT list_index, state FROM status_entries WHERE tenant_id = $1 AND list_id = $2 AND state <> 0
"""
UPDATE_LIST: Final[LiteralString] = """
    UPDATE status_lists SET document = $3, signed_at = $4, valid_until = $5 WHERE tenant_id = $1 AND list_id = $2
"""
SELECT_LIST_DOCUMENT: Final[LiteralString] = "SELECT document FROM status_lists WHERE list_id = $1"
SELECT_STATEMENT_DOCUMENT: Final[LiteralString] = """
    SELECT document FROM status_statements WHERE passport_version_id = $1 ORDER BY signed_at DESC, state DESC LIMIT 1
"""
# The first one, however often it was said again: bundles keep their bytes.
SELECT_BINDING: Final[LiteralString] = """
    SELECT document FROM status_statements WHERE tenant_id = $1 AND passport_version_id = $2 AND state = 0
     ORDER BY signed_at LIMIT 1
"""
SELECT_STATEMENTS: Final[LiteralString] = """
    SELECT document FROM status_statements WHERE tenant_id = $1 AND passport_version_id = $2 ORDER BY state, signed_at
"""
# Of a version that retention has removed nothing can be said any more.
SET_ALL_DUE: Final[LiteralString] = """
    UPDATE status_entries e SET statement_due = true
     WHERE e.tenant_id = $1
       AND EXISTS (SELECT FROM passport_versions v
                    WHERE v.tenant_id = $1 AND v.passport_version_id = e.passport_version_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueStatement:
    """A version about which a statement is to be signed. `is_bound`: the statement `issued` is signed already."""

    passport_version_id: PassportVersionId
    list_id: UUID
    list_index: int
    state: PassportState
    since: datetime
    receipt_hash: Digest
    issued_at: datetime
    reason: str | None
    successor: PassportVersionId | None
    is_bound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedStatement:
    """A statement about a version, ready to be stored."""

    passport_version_id: PassportVersionId
    state: PassportState
    document: bytes


async def assign_missing_indices(conn: Connection, tenant: TenantId, *, limit: int) -> int:
    """Give versions without one an index in a status list; return how many of at most `limit` there were."""
    count: int = await conn.fetchval(ASSIGN_MISSING, tenant, limit)
    return count


async def list_tenants_with_work(conn: Connection, *, renew_before: timedelta) -> list[TenantId]:
    """Tenants with a statement to sign, or with a list that ends within this time."""
    return [TenantId(row["tenant_id"]) for row in await conn.fetch(SELECT_TENANTS_WITH_WORK, renew_before)]


async def lock_due_statements(conn: Connection, tenant: TenantId, *, limit: int) -> list[DueStatement]:
    """What is to be said of versions, locked until the transaction ends."""
    rows = await conn.fetch(SELECT_DUE, tenant, limit)
    return [_to_due_statement(**row) for row in rows]


def _to_due_statement(*, state: int, act_payload: bytes | None, **columns: Any) -> DueStatement:
    payload = None if act_payload is None else canonical_json.decode(act_payload)
    details = payload if isinstance(payload, Mapping) else {}
    reason, successor = details.get("reason"), details.get("by_passport_version_id")
    return DueStatement(
        state=PassportState(state),
        reason=reason if isinstance(reason, str) else None,
        successor=PassportVersionId(UUID(successor)) if isinstance(successor, str) else None,
        **columns,
    )


async def insert_statements(
    conn: Connection, tenant: TenantId, statements: Sequence[SignedStatement], *, at: datetime
) -> None:
    """Store signed statements; what was signed before stays."""
    await conn.execute(
        INSERT_STATEMENTS,
        tenant,
        [statement.passport_version_id for statement in statements],
        [int(statement.state) for statement in statements],
        [statement.document for statement in statements],
        at,
    )
    await conn.execute(SET_DONE, tenant, [statement.passport_version_id for statement in statements])


async def set_all_due(conn: Connection, tenant: TenantId) -> None:
    """Have everything said again that was said of the tenant's versions: the key that signed it is compromised."""
    await conn.execute(SET_ALL_DUE, tenant)


async def list_lists_to_renew(conn: Connection, tenant: TenantId, *, renew_before: timedelta) -> list[UUID]:
    """Lists that are not signed yet, or whose validity ends within this time."""
    return [row["list_id"] for row in await conn.fetch(SELECT_LISTS_TO_RENEW, tenant, renew_before)]


async def lock_states(conn: Connection, tenant: TenantId, list_id: UUID) -> list[tuple[int, PassportState]]:
    """Every index of a list that does not say "in force". The list is locked until the transaction ends."""
    await conn.execute(LOCK_LIST, tenant, list_id)
    rows = await conn.fetch(SELECT_STATES, tenant, list_id)
    return [(row["list_index"], PassportState(row["state"])) for row in rows]


async def set_list_document(
    conn: Connection, tenant: TenantId, list_id: UUID, document: bytes, *, at: datetime, valid_until: datetime
) -> None:
    """Publish a signed list."""
    await conn.execute(UPDATE_LIST, tenant, list_id, document, at, valid_until)


async def find_list_document(conn: Connection, list_id: UUID) -> bytes | None:
    """The signed list that everybody may read; takes the system role, because it names no tenant."""
    document: bytes | None = await conn.fetchval(SELECT_LIST_DOCUMENT, list_id)
    return document


async def find_newest_statement(conn: Connection, version: PassportVersionId) -> bytes | None:
    """What was said last of a version; takes the system role, because it names no tenant."""
    document: bytes | None = await conn.fetchval(SELECT_STATEMENT_DOCUMENT, version)
    return document


async def find_binding_statement(conn: Connection, tenant: TenantId, version: PassportVersionId) -> bytes | None:
    """The statement that binds a version to its index; None until a worker has signed it."""
    document: bytes | None = await conn.fetchval(SELECT_BINDING, tenant, version)
    return document


async def list_statements(conn: Connection, tenant: TenantId, version: PassportVersionId) -> list[bytes]:
    """Everything that was signed about the status of a version, the statement that binds it to its index first."""
    return [row["document"] for row in await conn.fetch(SELECT_STATEMENTS, tenant, version)]
