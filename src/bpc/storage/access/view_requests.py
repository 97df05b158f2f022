"""What persons ask for on public pages: to see more of a passport than everybody does.

Whoever asks has no key, so a tenant has only so many requests that wait. What a person wrote is personal: events have
its hash and nothing of it, and it can be removed once the request is decided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Refusal
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import ActorId, BatteryId, PassportId, TenantId, ViewRequestId
from bpc.core.view_grants import GrantAudience, GrantSubject, RequestWords, decode_words
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.list_filters import ListConditions
from bpc.storage.webhooks.webhook_fanout import append_and_announce

ViewRequestStatus = Literal["PENDING", "APPROVED", "REJECTED"]
MOST_PENDING: Final = 500  # of one tenant

INSERT_REQUEST: Final[LiteralString] = """
    INSERT INTO view_requests (tenant_id, view_request_id, passport_id, battery_id, audience, said, said_sha256,
                               requested_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
SELECT_REQUESTS: Final[LiteralString] = """
    SELECT view_request_id, passport_id, battery_id, audience, said, requested_at, status, decided_by, decided_at,
           reason
      FROM view_requests
"""
SELECT_REQUEST: Final[LiteralString] = f"{SELECT_REQUESTS} WHERE tenant_id = $1 AND view_request_id = $2"
LOCK_REQUEST: Final[LiteralString] = f"{SELECT_REQUEST} FOR NO KEY UPDATE"
# No further than the limit: a flood is not counted to its end.
COUNT_PENDING: Final[LiteralString] = """
    SELECT count(*) FROM (
      SELECT FROM view_requests WHERE tenant_id = $1 AND status = 'PENDING' LIMIT $2) AS waiting
"""
LOCK_COUNT: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('view-requests/' || $1::text, 0))"
DECIDE: Final[LiteralString] = """
    UPDATE view_requests SET status = $3, decided_by = $4, decided_at = $5, reason = $6
     WHERE tenant_id = $1 AND view_request_id = $2
"""
# Decided longer ago than the tenant keeps words. A tenant that never changed a setting has no row, and the default.
SELECT_OLD_WORDS: Final[LiteralString] = """
    SELECT view_request_id FROM view_requests
     WHERE tenant_id = $1 AND said IS NOT NULL
       AND decided_at < $2::timestamptz - make_interval(days => coalesce(
             (SELECT request_words_days FROM tenant_settings WHERE tenant_id = $1), 365))
     ORDER BY decided_at, view_request_id
     LIMIT $3
       FOR UPDATE
"""
REMOVE_WORDS: Final[LiteralString] = """
    UPDATE view_requests SET said = NULL WHERE tenant_id = $1 AND view_request_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewRequestRow:
    """A request. `said` is None if what the person wrote was removed."""

    view_request_id: ViewRequestId
    passport_id: PassportId
    battery_id: BatteryId | None
    audience: GrantAudience
    said: bytes | None
    requested_at: datetime
    status: ViewRequestStatus
    decided_by: ActorId | None
    decided_at: datetime | None
    reason: str | None

    @property
    def words(self) -> RequestWords | None:
        return None if self.said is None else decode_words(self.said)

    @property
    def subject(self) -> GrantSubject:
        return GrantSubject(passport_id=self.passport_id, battery_id=self.battery_id)


class TooManyRequests(Refusal):
    """So many requests of the tenant wait that it takes no more."""

    code = "RATE_LIMITED"

    def __init__(self) -> None:
        super().__init__(
            "so many requests wait for an answer that no more are taken",
            fix="ask again in a few days, or write to the manufacturer",
            details={"retry_after": 86_400},
        )


async def ask(
    conn: Connection,
    tenant: TenantId,
    subject: GrantSubject,
    audience: GrantAudience,
    words: RequestWords,
    *,
    now: datetime,
) -> ViewRequestId:
    """Store what somebody asks for, and announce it. Raises `TooManyRequests`."""
    await conn.execute(LOCK_COUNT, str(tenant))
    if await conn.fetchval(COUNT_PENDING, tenant, MOST_PENDING) >= MOST_PENDING:
        raise TooManyRequests
    request, said = ViewRequestId(clock.new_id()), words.encode()
    values = (subject.passport_id, subject.battery_id, audience, said, sha256(said), now)
    await conn.execute(INSERT_REQUEST, tenant, request, *values)
    payload = {
        "passport_id": str(subject.passport_id),
        "battery_id": None if subject.battery_id is None else str(subject.battery_id),
        "audience": audience,
        "said_sha256": to_hex(sha256(said)),
    }
    await append_and_announce(conn, Act(None, now), tenant, "ViewRequest", request, "VIEW_REQUESTED", payload)
    return request


async def get_request(conn: Connection, tenant: TenantId, request: ViewRequestId) -> ViewRequestRow:
    return await fetch_one(conn, ViewRequestRow, SELECT_REQUEST, tenant, request, kind="view request")


async def list_requests(
    conn: Connection, tenant: TenantId, page: PageQuery, *, status: ViewRequestStatus | None = None
) -> Sequence[ViewRequestRow]:
    """Requests, newest first."""
    conditions = ListConditions()
    conditions.add("status = {}", status)
    statement = make_page_query(SELECT_REQUESTS, time="requested_at", key="view_request_id", where=conditions.where)
    return await fetch_rows(conn, ViewRequestRow, statement, tenant, *page, *conditions.values)


async def lock_pending_request(conn: Connection, tenant: TenantId, request: ViewRequestId) -> ViewRequestRow:
    """The request, which nobody else decides meanwhile. Refuses one that was decided."""
    row = await fetch_one(conn, ViewRequestRow, LOCK_REQUEST, tenant, request, kind="view request")
    if row.status != "PENDING":
        raise Conflict(f"this request was {row.status.lower()} already", fix="a new grant can be made without it")
    return row


async def record_approved_request(conn: Connection, tenant: TenantId, request: ViewRequestId, *, act: Act) -> None:
    await conn.execute(DECIDE, tenant, request, "APPROVED", act.actor_id, act.at, None)
    await events.append_act(conn, act, tenant, "ViewRequest", request, "VIEW_REQUEST_APPROVED", {})


async def reject_view_request(
    conn: Connection, tenant: TenantId, request: ViewRequestId, *, reason: str, act: Act
) -> ViewRequestRow:
    """Refuse a request. The reason is for the record; nobody outside sees it."""
    await lock_pending_request(conn, tenant, request)
    await conn.execute(DECIDE, tenant, request, "REJECTED", act.actor_id, act.at, reason)
    await events.append_act(conn, act, tenant, "ViewRequest", request, "VIEW_REQUEST_REJECTED", {"reason": reason})
    return await get_request(conn, tenant, request)


async def remove_words(conn: Connection, tenant: TenantId, request: ViewRequestId, *, act: Act) -> ViewRequestRow:
    """Remove what the person wrote, of a request that was decided. Its hash stays."""
    row = await fetch_one(conn, ViewRequestRow, LOCK_REQUEST, tenant, request, kind="view request")
    if row.status == "PENDING":
        raise Conflict("this request is not decided yet", fix="approve or reject it first")
    if row.said is not None:
        await conn.execute(REMOVE_WORDS, tenant, request)
        await events.append_act(conn, act, tenant, "ViewRequest", request, "VIEW_REQUEST_WORDS_REMOVED", {})
    return await get_request(conn, tenant, request)


async def remove_old_words(conn: Connection, tenant: TenantId, *, limit: int, act: Act) -> int:
    """Remove the words of requests that were decided longer ago than the tenant keeps them. Returns how many."""
    rows = await conn.fetch(SELECT_OLD_WORDS, tenant, act.at, limit)
    for row in rows:
        request = ViewRequestId(row["view_request_id"])
        await conn.execute(REMOVE_WORDS, tenant, request)
        await events.append_act(conn, act, tenant, "ViewRequest", request, "VIEW_REQUEST_WORDS_REMOVED", {})
    return len(rows)
