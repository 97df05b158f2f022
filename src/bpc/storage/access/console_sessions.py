"""Sessions of the console: began, found, used, ended. The secret of the cookie is never stored, only its hash."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, LiteralString

import asyncpg

from bpc.core.audit.events import Act
from bpc.core.console_access import SESSION_ENTROPY_BYTES, LinkRefused, SessionSecret, is_session_over
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import ActorId, ConsoleSessionId, TenantId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.storage.access.api_requests import LAST_USED_INTERVAL, Caller, build_caller_members
from bpc.storage.access.tenants_and_actors import require_active_actor
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.database import begin_tenant_transaction
from bpc.storage.error_mapping import WRITE_ERRORS

log = get_logger(__name__)

SignIn = Literal["LINK", "OIDC"]
# Whoever is taken out of a group at the provider has lost its roles here after this time.
ROLES_VALID_FOR: Final = timedelta(minutes=5)

SELECT_SESSION_CALLER: Final[LiteralString] = """
    SELECT tenant_id, api_key_id, actor_id, actor_type, key_hash, expires_at, revoked_at, last_used_at, is_active,
           roles, permissions, policies, created_at, actor_name, tenant_name, tenant_slug, issuer, roles_read_at
      FROM find_console_session($1, $2)
"""
INSERT_SESSION: Final[LiteralString] = """
    INSERT INTO console_sessions (tenant_id, session_id, actor_id, secret_hash, sign_in, link_hash, device, created_at,
                                  expires_at, last_used_at, issuer, roles_read_at, provider_tokens)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $8, $10, $11, $12)
"""
# One request at a time asks the provider; if it never comes back, another may.
CLAIM_READING: Final[LiteralString] = """
    UPDATE console_sessions SET reading_since = $3
     WHERE tenant_id = $1 AND session_id = $2 AND ended_at IS NULL AND roles_read_at = $4
       AND (reading_since IS NULL OR reading_since <= $5)
    RETURNING provider_tokens
"""
RELEASE_READING: Final[LiteralString] = """
    UPDATE console_sessions SET reading_since = NULL WHERE tenant_id = $1 AND session_id = $2 AND ended_at IS NULL
"""
UPDATE_READING: Final[LiteralString] = """
    UPDATE console_sessions
       SET roles_read_at = $3, reading_since = NULL, provider_tokens = coalesce($4, provider_tokens)
     WHERE tenant_id = $1 AND session_id = $2 AND ended_at IS NULL
"""
IS_READING_DONE: Final[LiteralString] = """
    SELECT roles_read_at > $3 OR ended_at IS NOT NULL FROM console_sessions WHERE tenant_id = $1 AND session_id = $2
"""
SELECT_TOKENS: Final[LiteralString] = """
    SELECT provider_tokens FROM console_sessions WHERE tenant_id = $1 AND session_id = $2
"""
FORGET_TOKENS: Final[LiteralString] = """
    UPDATE console_sessions SET provider_tokens = NULL
     WHERE tenant_id = $1 AND ended_at IS NULL AND expires_at <= $2 AND provider_tokens IS NOT NULL
"""
UPDATE_LAST_USED: Final[LiteralString] = """
    UPDATE console_sessions SET last_used_at = $3
     WHERE tenant_id = $1 AND session_id = $2 AND ended_at IS NULL AND last_used_at <= $4
"""
END_SESSIONS: Final[LiteralString] = """
    UPDATE console_sessions SET ended_at = $2, provider_tokens = NULL
     WHERE tenant_id = $1 AND ended_at IS NULL AND ($3::uuid IS NULL OR session_id = $3)
       AND ($4::uuid IS NULL OR actor_id = $4)
    RETURNING session_id
"""
SELECT_SESSIONS: Final[LiteralString] = """
    SELECT s.session_id, s.actor_id, a.display_name, s.sign_in, s.device, s.created_at, s.expires_at, s.ended_at,
           s.last_used_at
      FROM console_sessions s
      JOIN actors a ON a.tenant_id = s.tenant_id AND a.actor_id = s.actor_id
"""
SELECT_SESSION: Final[LiteralString] = f"{SELECT_SESSIONS} WHERE s.tenant_id = $1 AND s.session_id = $2"
SELECT_OPEN_PAGE: Final[LiteralString] = make_page_query(
    SELECT_SESSIONS,
    time="s.created_at",
    key="s.session_id",
    where="""AND s.ended_at IS NULL AND s.expires_at > $5 AND s.last_used_at > $6
             AND ($7::uuid IS NULL OR s.actor_id = $7)""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCaller(Caller):
    """An actor who is signed in to the console. Compare the hash of the secret before using anything of it."""

    created_at: datetime
    actor_name: str
    tenant_name: str
    tenant_slug: str
    issuer: str | None
    roles_read_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSessionRow:
    """A session in a list, without the hash of its secret."""

    session_id: ConsoleSessionId
    actor_id: ActorId
    display_name: str
    sign_in: SignIn
    device: str
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    last_used_at: datetime | None


async def find_session_caller(conn: Connection, secret: SessionSecret) -> SessionCaller | None:
    """The owner of the session that a cookie names: the one query before the tenant is known."""
    row = await conn.fetchrow(SELECT_SESSION_CALLER, secret.tenant_id, secret.session_id)
    return None if row is None else SessionCaller(**dict(row) | build_caller_members(row))


async def start_session(
    conn: Connection,
    tenant: TenantId,
    actor: ActorId,
    *,
    sign_in: SignIn,
    device: str,
    valid_for: timedelta,
    act: Act,
    link_hash: Digest | None = None,
    issuer: str | None = None,
    seal_tokens: Callable[[ConsoleSessionId], str | None] = lambda _: None,
) -> SessionSecret:
    """Begin a session and append an event; return the secret of its cookie, which is shown only now.

    `link_hash` is the hash of the link, or of the answer of the provider `issuer`. `seal_tokens` gives the tokens of
    that provider as they are stored. Raises `LinkRefused` if the link has begun a session before: the database has the
    last word.
    """
    await require_active_actor(conn, tenant, actor)
    session = ConsoleSessionId(clock.new_id())
    secret = SessionSecret.generate(tenant, session, clock.random_bytes(SESSION_ENTROPY_BYTES))
    expires_at = act.at + valid_for
    values = (actor, secret.hash(), sign_in, link_hash, device, act.at, expires_at)
    of_provider = (None, None, None) if issuer is None else (issuer, act.at, seal_tokens(session))
    await conn.execute(FORGET_TOKENS, tenant, act.at)
    try:
        await conn.execute(INSERT_SESSION, tenant, session, *values, *of_provider)
    except asyncpg.UniqueViolationError:
        raise LinkRefused("this sign-in link was used already") from None
    payload = {
        "actor_id": str(actor),
        "sign_in": sign_in,
        "device": device,
        "expires_at": format_time(expires_at),
        "link_hash": None if link_hash is None else to_hex(link_hash),
        "secret_hash_sha256": to_hex(sha256(secret.hash())),
        "issuer": issuer,
    }
    await events.append_act(conn, act, tenant, "ConsoleSession", session, "CONSOLE_SESSION_STARTED", payload)
    return secret


async def record_session_use(conn: Connection, caller: Caller, now: datetime) -> None:
    """Write when the session was last used, at most once a minute, in a transaction of its own."""
    if caller.last_used_at is not None and caller.last_used_at > now - LAST_USED_INTERVAL:
        return
    try:
        async with begin_tenant_transaction(conn, caller.tenant_id):
            values = (caller.tenant_id, caller.api_key_id, now, now - LAST_USED_INTERVAL)
            await conn.execute(UPDATE_LAST_USED, *values)
    except WRITE_ERRORS as error:  # a full disk must not keep anybody from reading
        log.warning("the use of a session could not be recorded", reason=str(error)[:200])


async def claim_reading(
    conn: Connection, caller: SessionCaller, now: datetime, *, patience: timedelta
) -> asyncpg.Record | None:
    """Take over asking the provider about the person of a session: its tokens; None if another request does."""
    values = (caller.tenant_id, caller.api_key_id, now, caller.roles_read_at, now - patience)
    return await conn.fetchrow(CLAIM_READING, *values)


async def release_reading(conn: Connection, tenant: TenantId, session: ConsoleSessionId) -> None:
    """Let another request ask the provider: this one got no answer."""
    await conn.execute(RELEASE_READING, tenant, session)


async def record_reading(
    conn: Connection, tenant: TenantId, session: ConsoleSessionId, now: datetime, sealed_tokens: str | None
) -> None:
    """Write that the provider has told the groups of the person just now; None keeps the tokens."""
    await conn.execute(UPDATE_READING, tenant, session, now, sealed_tokens)


async def is_reading_done(
    conn: Connection, tenant: TenantId, session: ConsoleSessionId, before: datetime | None
) -> bool:
    """Whether the provider has answered since, or the session has ended."""
    return bool(await conn.fetchval(IS_READING_DONE, tenant, session, before))


async def load_tokens(conn: Connection, tenant: TenantId, session: ConsoleSessionId) -> str | None:
    """The encrypted tokens of the provider."""
    tokens: str | None = await conn.fetchval(SELECT_TOKENS, tenant, session)
    return tokens


def has_old_roles(caller: SessionCaller, now: datetime, *, age: timedelta = ROLES_VALID_FOR) -> bool:
    """Whether the provider of this session has not said for so long which groups its person is in."""
    return caller.issuer is not None and (caller.roles_read_at is None or caller.roles_read_at + age <= now)


def is_caller_over(caller: SessionCaller, *, idle: timedelta, now: datetime) -> bool:
    """Whether the session of this caller is over."""
    return is_session_over(
        ended_at=caller.revoked_at,
        expires_at=caller.expires_at,
        last_used_at=caller.last_used_at or caller.created_at,
        idle=idle,
        now=now,
    )


async def end_sessions(
    conn: Connection,
    tenant: TenantId,
    *,
    act: Act,
    session: ConsoleSessionId | None = None,
    actor: ActorId | None = None,
) -> int:
    """End one session, all of an actor, or all of the tenant; append an event to each; return how many."""
    rows = await conn.fetch(END_SESSIONS, tenant, act.at, session, actor)
    for row in rows:
        await events.append_act(conn, act, tenant, "ConsoleSession", row[0], "CONSOLE_SESSION_ENDED", {})
    return len(rows)


async def get_session(conn: Connection, tenant: TenantId, session: ConsoleSessionId) -> ConsoleSessionRow:
    return await fetch_one(conn, ConsoleSessionRow, SELECT_SESSION, tenant, session, kind="session")


async def list_open_sessions(
    conn: Connection,
    tenant: TenantId,
    page: PageQuery,
    *,
    idle: timedelta,
    now: datetime,
    actor: ActorId | None = None,
) -> Sequence[ConsoleSessionRow]:
    """Sessions that are not over, newest first: of one actor, or of all."""
    return await fetch_rows(conn, ConsoleSessionRow, SELECT_OPEN_PAGE, tenant, *page, now, now - idle, actor)
