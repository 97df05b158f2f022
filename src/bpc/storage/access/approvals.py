"""Requests that wait for a second person, and what became of them. Each is an event of the tenant, also its answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import ActorId, ApprovalId, TenantId
from bpc.core.four_eyes import list_needed_permissions
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query

ApprovalStatus = Literal["PENDING", "APPROVED", "REJECTED"]
VALID_FOR: Final = timedelta(days=7)

INSERT_APPROVAL: Final[LiteralString] = """
    INSERT INTO approvals (tenant_id, approval_id, action, permission, method, path, content_type, body, requested_by,
                           requested_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
"""
SELECT_APPROVALS: Final[LiteralString] = """
    SELECT approval_id, action, permission, method, path, content_type, body, requested_by, requested_at, expires_at,
           status, decided_by, decided_at
      FROM approvals
"""
LOCK_APPROVAL: Final[LiteralString] = f"{SELECT_APPROVALS} WHERE tenant_id = $1 AND approval_id = $2 FOR NO KEY UPDATE"
SELECT_APPROVAL: Final[LiteralString] = f"{SELECT_APPROVALS} WHERE tenant_id = $1 AND approval_id = $2"
SELECT_APPROVAL_PAGE: Final[LiteralString] = make_page_query(SELECT_APPROVALS, time="requested_at", key="approval_id")
DECIDE: Final[LiteralString] = """
    UPDATE approvals SET status = $3, decided_by = $4, decided_at = $5 WHERE tenant_id = $1 AND approval_id = $2
"""
SELECT_FOUR_EYES: Final[LiteralString] = "SELECT four_eyes FROM tenant_settings WHERE tenant_id = $1"
UPSERT_FOUR_EYES: Final[LiteralString] = """
    INSERT INTO tenant_settings (tenant_id, four_eyes, changed_at, changed_by) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id) DO UPDATE
       SET four_eyes = EXCLUDED.four_eyes, changed_at = EXCLUDED.changed_at, changed_by = EXCLUDED.changed_by
"""
COUNT_HOLDERS: Final[LiteralString] = """
    SELECT count(DISTINCT a.actor_id) FROM actors a
      JOIN actor_roles ar ON ar.tenant_id = a.tenant_id AND ar.actor_id = a.actor_id
      JOIN role_permissions rp ON rp.tenant_id = ar.tenant_id AND rp.role_id = ar.role_id
     WHERE a.tenant_id = $1 AND a.is_active AND rp.permission = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow:
    """A request that a second person decides, as it was sent."""

    approval_id: ApprovalId
    action: str
    permission: str
    method: str
    path: str
    content_type: str
    body: bytes
    requested_by: ActorId
    requested_at: datetime
    expires_at: datetime
    status: ApprovalStatus
    decided_by: ActorId | None
    decided_at: datetime | None


class TooFewHolders(Conflict):
    """With fewer than two holders of a permission, nothing could ever be confirmed."""

    def __init__(self, permission: str) -> None:
        super().__init__(
            f"fewer than two active actors have `{permission}` by a role, so nobody could confirm",
            fix="give it to another actor first",
            details={"permission": permission},
        )


async def require_two_holders(conn: Connection, tenant: TenantId, switched_on: Sequence[str]) -> None:
    """Raise `TooFewHolders` unless every action that is switched on has two who can confirm it."""
    for permission in list_needed_permissions(switched_on):
        if await conn.fetchval(COUNT_HOLDERS, tenant, permission) < 2:
            raise TooFewHolders(permission)


async def load_four_eyes(conn: Connection, tenant: TenantId) -> list[str]:
    """The actions that wait for a second person."""
    return list(await conn.fetchval(SELECT_FOUR_EYES, tenant) or ())


async def change_four_eyes(conn: Connection, tenant: TenantId, actions: Sequence[str], *, act: Act) -> None:
    """Replace the actions that wait for a second person, and append an event if that is a change."""
    await require_two_holders(conn, tenant, actions)
    before = await load_four_eyes(conn, tenant)
    if before == list(actions):
        return
    await conn.execute(UPSERT_FOUR_EYES, tenant, list(actions), act.at, act.actor_id)
    payload = {"four_eyes": {"from": before, "to": list(actions)}}
    await events.append_act(conn, act, tenant, "Tenant", tenant, "TENANT_SETTINGS_CHANGED", payload)


async def request_approval(
    conn: Connection,
    tenant: TenantId,
    *,
    action: str,
    permission: str,
    method: str,
    path: str,
    content_type: str,
    body: bytes,
    requested_by: ActorId,
    act: Act,
) -> ApprovalRow:
    """Store a request that a second person decides, and append an event."""
    approval = ApprovalId(clock.new_id())
    values = (action, permission, method, path, content_type, body, requested_by, act.at, act.at + VALID_FOR)
    await conn.execute(INSERT_APPROVAL, tenant, approval, *values)
    payload = {
        "action": action,
        "permission": permission,
        "method": method,
        "path": path,
        "content_type": content_type,
        "body_sha256": to_hex(sha256(body)),
    }
    await events.append_act(conn, act, tenant, "Approval", approval, "APPROVAL_REQUESTED", payload)
    return await get_approval(conn, tenant, approval)


async def get_approval(conn: Connection, tenant: TenantId, approval: ApprovalId) -> ApprovalRow:
    return await fetch_one(conn, ApprovalRow, SELECT_APPROVAL, tenant, approval, kind="approval")


async def lock_pending(conn: Connection, tenant: TenantId, approval: ApprovalId, now: datetime) -> ApprovalRow:
    """The approval, which nobody else decides meanwhile. Refuses one that was decided or has expired."""
    row = await fetch_one(conn, ApprovalRow, LOCK_APPROVAL, tenant, approval, kind="approval")
    if row.status != "PENDING":
        raise Conflict(f"this request was {row.status} already", fix="send the request again if it is still needed")
    if row.expires_at <= now:
        raise Conflict("this request has expired", fix="send the request again")
    return row


async def list_approvals(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[ApprovalRow]:
    """Approvals, newest first."""
    return await fetch_rows(conn, ApprovalRow, SELECT_APPROVAL_PAGE, tenant, *page)


async def record_approved(conn: Connection, tenant: TenantId, row: ApprovalRow, *, status: int, act: Act) -> None:
    """Record that a request was confirmed and done, and how it was answered."""
    await conn.execute(DECIDE, tenant, row.approval_id, "APPROVED", act.actor_id, act.at)
    payload = {"action": row.action, "requested_by": str(row.requested_by), "status": status}
    await events.append_act(conn, act, tenant, "Approval", row.approval_id, "APPROVAL_GRANTED", payload)


async def record_rejected(conn: Connection, tenant: TenantId, row: ApprovalRow, *, reason: str, act: Act) -> None:
    """Record that a request was refused, or taken back by who made it."""
    await conn.execute(DECIDE, tenant, row.approval_id, "REJECTED", act.actor_id, act.at)
    payload = {"action": row.action, "requested_by": str(row.requested_by), "reason": reason}
    await events.append_act(conn, act, tenant, "Approval", row.approval_id, "APPROVAL_REJECTED", payload)
