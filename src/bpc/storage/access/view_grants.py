"""View grants: make, delegate, accept terms, revoke, list, and record each read. The code itself is never stored.

prefix of a code ─► find_code_owner ─► CodeOwner: compare the hash before using anything of it
a read ─► record_read: locks the grant, so that nothing is read after a revocation that was committed
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

from bpc.core.api_keys import ENTROPY_BYTES, compute_pepper_id
from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Invalid, Refusal
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import (
    ActorId,
    AggregateId,
    BatteryId,
    PassportId,
    PassportVersionId,
    TenantId,
    ViewGrantId,
    ViewRequestId,
)
from bpc.core.formats.timestamps import format_time
from bpc.core.view_grants import (
    LONGEST_VALIDITY,
    GrantAudience,
    GrantBounds,
    GrantCode,
    GrantScope,
    GrantSubject,
    find_excess,
)
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.audit.event_search import EventFilter, EventRow, list_events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query

READ_EVENT: Final = "VIEW_READ"
MOST_DELEGATES: Final = 50  # of one grant, revoked ones included

FIND_OWNER: Final[LiteralString] = """
    SELECT tenant_id, view_grant_id, code_hash, is_active, ends_at, is_revoked FROM find_view_grant($1)
"""
INSERT_GRANT: Final[LiteralString] = """
    INSERT INTO view_grants (tenant_id, view_grant_id, grantee, audience, scope, passport_id, battery_id, terms,
                             may_delegate, parent_id, view_request_id, code_prefix, code_hash, pepper_id, created_at,
                             created_by, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
"""
SELECT_GRANTS: Final[LiteralString] = """
    SELECT view_grant_id, grantee, audience, scope, passport_id, battery_id, terms, may_delegate, parent_id,
           view_request_id, code_prefix, created_at, created_by, expires_at, terms_accepted_at, revoked_at, revoked_by,
           reason
      FROM view_grants
"""
SELECT_GRANT: Final[LiteralString] = f"{SELECT_GRANTS} WHERE tenant_id = $1 AND view_grant_id = $2"
# A revocation waits for a read that has begun to be recorded, and a read for a revocation.
SHARE_GRANT: Final[LiteralString] = f"{SELECT_GRANT} FOR SHARE"
LOCK_GRANT: Final[LiteralString] = f"{SELECT_GRANT} FOR NO KEY UPDATE"
SELECT_GRANT_PAGE: Final[LiteralString] = make_page_query(SELECT_GRANTS, time="created_at", key="view_grant_id")
LOCK_DELEGATES: Final[LiteralString] = """
    SELECT view_grant_id FROM view_grants
     WHERE tenant_id = $1 AND parent_id = $2 AND revoked_at IS NULL
     ORDER BY view_grant_id
       FOR NO KEY UPDATE
"""
COUNT_DELEGATES: Final[LiteralString] = "SELECT count(*) FROM view_grants WHERE tenant_id = $1 AND parent_id = $2"
REVOKE: Final[LiteralString] = """
    UPDATE view_grants SET revoked_at = $3, revoked_by = $4, reason = $5 WHERE tenant_id = $1 AND view_grant_id = $2
"""
ACCEPT_TERMS: Final[LiteralString] = """
    UPDATE view_grants SET terms_accepted_at = $3 WHERE tenant_id = $1 AND view_grant_id = $2
"""
UPDATE_HASH: Final[LiteralString] = """
    UPDATE view_grants SET code_hash = $4, pepper_id = $5
     WHERE tenant_id = $1 AND view_grant_id = $2 AND code_hash = $3 AND revoked_at IS NULL
    RETURNING true
"""
FIND_BATTERY_PASSPORT: Final[LiteralString] = """
    SELECT p.passport_id FROM batteries b
      JOIN passports p ON p.tenant_id = b.tenant_id AND p.battery_product_id = b.battery_product_id
     WHERE b.tenant_id = $1 AND b.battery_id = $2
"""
FIND_PASSPORT: Final[LiteralString] = "SELECT passport_id FROM passports WHERE tenant_id = $1 AND passport_id = $2"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeOwner:
    """The grant that a code's prefix names. Compare the code's hash before using anything of it."""

    tenant_id: TenantId
    view_grant_id: ViewGrantId
    code_hash: bytes
    is_active: bool
    ends_at: datetime
    is_revoked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewGrantRow:
    """A grant, without the hash of its code. One that was made by delegating has a parent, and no actor made it."""

    view_grant_id: ViewGrantId
    grantee: str
    audience: GrantAudience
    scope: GrantScope
    passport_id: PassportId | None
    battery_id: BatteryId | None
    terms: str | None
    may_delegate: bool
    parent_id: ViewGrantId | None
    view_request_id: ViewRequestId | None
    code_prefix: str
    created_at: datetime
    created_by: ActorId | None
    expires_at: datetime
    terms_accepted_at: datetime | None
    revoked_at: datetime | None
    revoked_by: ActorId | None
    reason: str | None

    @property
    def bounds(self) -> GrantBounds:
        return GrantBounds(
            scope=self.scope, expires_at=self.expires_at, passport_id=self.passport_id, battery_id=self.battery_id
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewViewGrant:
    """What is granted to whom. Without `terms`, those of the product apply."""

    grantee: str
    audience: GrantAudience
    bounds: GrantBounds
    terms: str | None = None
    may_delegate: bool = False
    parent_id: ViewGrantId | None = None
    view_request_id: ViewRequestId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedViewGrant:
    """A new grant. This is the only time its code is shown."""

    grant: ViewGrantRow
    code: GrantCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedRead:
    """What was read under a grant: the view of which version, and its hash."""

    subject: GrantSubject
    passport_version_id: PassportVersionId
    audience: GrantAudience
    view_sha256: str
    form: str


class GrantEnded(Refusal):
    """The code was right, and its grant no longer counts."""

    code = "UNAUTHORIZED"

    def __init__(self, how: str) -> None:
        super().__init__(
            f"this code {how}", fix="ask whoever gave it to you for a new one", details={"reason": "ended"}
        )


class DelegationRefused(Refusal):
    """The grant does not allow such a delegate."""

    code = "FORBIDDEN"

    def __init__(self, says: str) -> None:
        super().__init__(says, fix="ask whoever gave you the code")


async def find_code_owner(conn: Connection, prefix: str) -> CodeOwner | None:
    """The grant whose code has this prefix, in any tenant."""
    row = await conn.fetchrow(FIND_OWNER, prefix)
    return None if row is None else CodeOwner(**row)


async def create_grant(
    conn: Connection, tenant: TenantId, grant: NewViewGrant, *, pepper: bytes, act: Act
) -> IssuedViewGrant:
    """Make a grant and its code, and append an event without the code."""
    bounds = grant.bounds
    if not act.at < bounds.expires_at <= act.at + LONGEST_VALIDITY:
        raise Invalid("`expires_at` lies outside of the next three years", fix="choose a time within them")
    await load_subject(conn, tenant, bounds)
    grant_id, code = ViewGrantId(clock.new_id()), GrantCode.generate(clock.random_bytes(ENTROPY_BYTES))
    code_hash = code.hash(pepper)
    scope = (bounds.scope, bounds.passport_id, bounds.battery_id)
    origin = (grant.terms, grant.may_delegate, grant.parent_id, grant.view_request_id)
    stored_code = (code.prefix, code_hash, compute_pepper_id(pepper))
    times = (act.at, act.actor_id, bounds.expires_at)
    await conn.execute(
        INSERT_GRANT, tenant, grant_id, grant.grantee, grant.audience, *scope, *origin, *stored_code, *times
    )
    payload: dict[str, Any] = {
        "grantee": grant.grantee,
        "audience": grant.audience,
        "scope": bounds.scope,
        "passport_id": _to_text(bounds.passport_id),
        "battery_id": _to_text(bounds.battery_id),
        "terms": grant.terms,
        "may_delegate": grant.may_delegate,
        "parent_id": _to_text(grant.parent_id),
        "view_request_id": _to_text(grant.view_request_id),
        "code_prefix": code.prefix,
        "code_hash_sha256": to_hex(sha256(code_hash)),
        "expires_at": format_time(bounds.expires_at),
    }
    await events.append_act(conn, act, tenant, "ViewGrant", grant_id, "VIEW_GRANTED", payload)
    return IssuedViewGrant(grant=await get_grant(conn, tenant, grant_id), code=code)


async def load_subject(conn: Connection, tenant: TenantId, bounds: GrantBounds) -> GrantSubject | None:
    """What the bounds name, as far as the tenant has it; None for everything."""
    if bounds.scope == "ALL":
        return None
    if bounds.battery_id is not None:
        passport = await conn.fetchval(FIND_BATTERY_PASSPORT, tenant, bounds.battery_id)
    else:
        passport = await conn.fetchval(FIND_PASSPORT, tenant, bounds.passport_id)
    if passport is None:
        label = f"passport `{bounds.passport_id}`"
        if bounds.battery_id is not None:
            label = f"battery `{bounds.battery_id}` of a product that has a passport"
        raise Invalid(f"there is no {label}", fix="look up the id of the product or battery")
    return GrantSubject(passport_id=PassportId(passport), battery_id=bounds.battery_id)


async def delegate_grant(
    conn: Connection,
    tenant: TenantId,
    parent_id: ViewGrantId,
    bounds: GrantBounds,
    *,
    grantee: str,
    pepper: bytes,
    now: datetime,
) -> IssuedViewGrant:
    """Make a delegate of a grant, in the name of its grantee. Refuses one that would exceed or outlast it."""
    parent = await fetch_one(conn, ViewGrantRow, LOCK_GRANT, tenant, parent_id, kind="view grant")
    require_grant_counts(parent, now)
    if not parent.may_delegate:
        raise DelegationRefused("this grant may not be delegated")
    if await conn.fetchval(COUNT_DELEGATES, tenant, parent_id) >= MOST_DELEGATES:
        raise DelegationRefused(f"this grant has {MOST_DELEGATES} delegates already")
    subject = await load_subject(conn, tenant, bounds)
    if (excess := find_excess(parent.bounds, bounds, subject)) is not None:
        raise DelegationRefused(excess)
    delegate = NewViewGrant(
        grantee=grantee, audience=parent.audience, bounds=bounds, terms=parent.terms, parent_id=parent_id
    )
    return await create_grant(conn, tenant, delegate, pepper=pepper, act=Act(None, now))


async def get_grant(conn: Connection, tenant: TenantId, grant: ViewGrantId) -> ViewGrantRow:
    return await fetch_one(conn, ViewGrantRow, SELECT_GRANT, tenant, grant, kind="view grant")


async def list_grants(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[ViewGrantRow]:
    """Grants, newest first."""
    return await fetch_rows(conn, ViewGrantRow, SELECT_GRANT_PAGE, tenant, *page)


def require_grant_counts(grant: ViewGrantRow, now: datetime) -> None:
    """Raise `GrantEnded` if the grant itself was revoked or has expired."""
    if grant.revoked_at is not None:
        raise GrantEnded("was revoked")
    if grant.expires_at <= now:
        raise GrantEnded("has expired")


async def share_grant(conn: Connection, tenant: TenantId, grant_id: ViewGrantId, now: datetime) -> ViewGrantRow:
    """A grant that counts, and so does its parent; neither is revoked before the transaction ends.

    The parent is locked first, as a revocation does it.
    """
    parent_id = (await get_grant(conn, tenant, grant_id)).parent_id
    if parent_id is not None:
        parent = await fetch_one(conn, ViewGrantRow, SHARE_GRANT, tenant, parent_id, kind="view grant")
        require_grant_counts(parent, now)
    grant = await fetch_one(conn, ViewGrantRow, SHARE_GRANT, tenant, grant_id, kind="view grant")
    require_grant_counts(grant, now)
    return grant


async def record_read(
    conn: Connection, tenant: TenantId, grant_id: ViewGrantId, read: GrantedRead, *, now: datetime
) -> None:
    """Put a read on record. Commit before anything of it is shown."""
    await share_grant(conn, tenant, grant_id, now)
    payload = {
        "passport_id": str(read.subject.passport_id),
        "battery_id": _to_text(read.subject.battery_id),
        "passport_version_id": str(read.passport_version_id),
        "audience": read.audience,
        "view_sha256": read.view_sha256,
        "form": read.form,
    }
    await events.append_act(conn, Act(None, now), tenant, "ViewGrant", grant_id, READ_EVENT, payload)


async def list_reads(conn: Connection, tenant: TenantId, grant: ViewGrantId, page: PageQuery) -> Sequence[EventRow]:
    """What was read under a grant, newest first, as far as its events are kept."""
    await get_grant(conn, tenant, grant)
    event_filter = EventFilter(aggregate_type="ViewGrant", aggregate_id=AggregateId(grant), event_type=READ_EVENT)
    return await list_events(conn, tenant, page, event_filter)


async def accept_terms(
    conn: Connection, tenant: TenantId, grant_id: ViewGrantId, terms: str, *, now: datetime
) -> ViewGrantRow:
    """Record that the grantee accepted the terms, whose hash is kept. Doing it again changes nothing."""
    grant = await fetch_one(conn, ViewGrantRow, LOCK_GRANT, tenant, grant_id, kind="view grant")
    require_grant_counts(grant, now)
    if grant.terms_accepted_at is None:
        await conn.execute(ACCEPT_TERMS, tenant, grant_id, now)
        payload = {"terms_sha256": to_hex(sha256(terms.encode()))}
        await events.append_act(conn, Act(None, now), tenant, "ViewGrant", grant_id, "VIEW_TERMS_ACCEPTED", payload)
    return await get_grant(conn, tenant, grant_id)


async def revoke_grant(
    conn: Connection, tenant: TenantId, grant_id: ViewGrantId, *, reason: str, act: Act
) -> ViewGrantRow:
    """Revoke a grant and all that was delegated from it. The next read is refused."""
    grant = await fetch_one(conn, ViewGrantRow, LOCK_GRANT, tenant, grant_id, kind="view grant")
    if grant.revoked_at is not None:
        raise Conflict("this grant was revoked already", fix="look at it; nothing is left to do")
    delegates = [row["view_grant_id"] for row in await conn.fetch(LOCK_DELEGATES, tenant, grant_id)]
    for each in (grant_id, *delegates):
        await conn.execute(REVOKE, tenant, each, act.at, act.actor_id, reason)
        await events.append_act(conn, act, tenant, "ViewGrant", each, "VIEW_GRANT_REVOKED", {"reason": reason})
    return await get_grant(conn, tenant, grant_id)


async def rehash_code(conn: Connection, owner: CodeOwner, code: GrantCode, pepper: bytes, *, now: datetime) -> None:
    """Hash a code again with the pepper in use, after it was used with another. Needs the owner's tenant."""
    new_hash, key = code.hash(pepper), (owner.tenant_id, owner.view_grant_id)
    pepper_id = compute_pepper_id(pepper)
    if await conn.fetchval(UPDATE_HASH, *key, owner.code_hash, new_hash, pepper_id):
        payload = {"pepper_id": pepper_id, "code_hash_sha256": to_hex(sha256(new_hash))}
        await events.append_act(conn, Act(None, now), key[0], "ViewGrant", key[1], "VIEW_GRANT_REHASHED", payload)


def _to_text(value: object | None) -> str | None:
    return None if value is None else str(value)
