"""Actors: the people and programs that do things, and the roles they have. They are deactivated, never deleted."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

import asyncpg

from bpc import fresh
from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import ActorId, AggregateId, TenantId
from bpc.db import administrators, events
from bpc.db.connection import Connection
from bpc.db.pages import Ask

ActorType = Literal["USER", "API_CLIENT", "SERVICE"]

INSERT: Final[LiteralString] = """
    INSERT INTO actors (tenant_id, actor_id, type, display_name, email, created_at)
    VALUES ($1, $2, $3::actor_type, $4, $5, $6)
"""
ADD_ROLE: Final[LiteralString] = """
    INSERT INTO actor_roles (tenant_id, actor_id, role_id)
    SELECT tenant_id, $2, role_id FROM roles WHERE tenant_id = $1 AND name = $3
    ON CONFLICT DO NOTHING
    RETURNING role_id
"""
DROP_ROLES: Final[LiteralString] = "DELETE FROM actor_roles WHERE tenant_id = $1 AND actor_id = $2"
ROLE_NAMES: Final[LiteralString] = "SELECT name FROM roles WHERE tenant_id = $1 ORDER BY name LIMIT 20"
EXISTS: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM actors WHERE tenant_id = $1 AND actor_id = $2 AND is_active)
"""
COLUMNS: Final[LiteralString] = """
    a.actor_id, a.type::text AS type, a.display_name, a.email, a.is_active, a.created_at,
    array(SELECT r.name FROM actor_roles ar
            JOIN roles r ON r.tenant_id = ar.tenant_id AND r.role_id = ar.role_id
           WHERE ar.tenant_id = a.tenant_id AND ar.actor_id = a.actor_id ORDER BY r.name) AS roles
"""
ONE: Final[LiteralString] = f"SELECT {COLUMNS} FROM actors a WHERE a.tenant_id = $1 AND a.actor_id = $2"
PAGE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM actors a
     WHERE a.tenant_id = $1 AND (a.created_at, a.actor_id) < ($2, $3)
     ORDER BY a.created_at DESC, a.actor_id DESC
     LIMIT $4
"""
PERMISSIONS: Final[LiteralString] = """
    SELECT DISTINCT rp.permission FROM actor_roles ar
      JOIN role_permissions rp ON rp.tenant_id = ar.tenant_id AND rp.role_id = ar.role_id
     WHERE ar.tenant_id = $1 AND ar.actor_id = $2
"""
LOCK: Final[LiteralString] = "SELECT FROM actors WHERE tenant_id = $1 AND actor_id = $2 FOR NO KEY UPDATE"
CHANGE: Final[LiteralString] = """
    UPDATE actors SET display_name = $3, email = $4, is_active = $5 WHERE tenant_id = $1 AND actor_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody or something with roles; while inactive, none of its keys opens anything."""

    actor_id: ActorId
    type: ActorType
    display_name: str
    email: str | None
    is_active: bool
    roles: tuple[str, ...]
    created_at: datetime


class RoleUnknown(NotFound):
    """The tenant has no such role."""

    def __init__(self, name: str, known: list[str]) -> None:
        roles = ", ".join(f"`{role}`" for role in known)
        fix = f"the tenant's roles are {roles}" if known else "this tenant has no roles"
        super().__init__(f"there is no role `{name}`", fix=fix)


class ActorNotActive(NotFound):
    """The tenant has no such active actor."""

    def __init__(self, actor: ActorId) -> None:
        super().__init__(f"there is no active actor `{actor}`", fix="GET /v1/actors lists those there are")


class ActorUnknown(NotFound):
    """The tenant has no such actor, active or not."""

    def __init__(self, actor: ActorId) -> None:
        super().__init__(f"there is no actor `{actor}`", fix="GET /v1/actors lists those there are")


async def create(
    conn: Connection,
    tenant: TenantId,
    *,
    kind: ActorType,
    display_name: str,
    roles: list[str],
    act: Act,
    email: str | None = None,
) -> ActorId:
    """A new actor with `roles`, on record."""
    actor = ActorId(fresh.new_id())
    await conn.execute(INSERT, tenant, actor, kind, display_name, email, act.at)
    names = await _add_roles(conn, tenant, actor, roles)
    said = act.says("ACTOR_CREATED", {"type": kind, "display_name": display_name, "roles": names})
    await events.append(conn, Stream(tenant, "Actor", AggregateId(actor)), said)
    return actor


async def require(conn: Connection, tenant: TenantId, actor: ActorId) -> None:
    """Raise `ActorNotActive` unless `actor` is an active actor of `tenant`."""
    if not await conn.fetchval(EXISTS, tenant, actor):
        raise ActorNotActive(actor)


async def get(conn: Connection, tenant: TenantId, actor: ActorId) -> Actor:
    row = await conn.fetchrow(ONE, tenant, actor)
    if row is None:
        raise ActorUnknown(actor)
    return _actor(row)


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Actor]:
    """Actors, newest first."""
    return [_actor(row) for row in await conn.fetch(PAGE, tenant, *ask)]


async def permissions_of(conn: Connection, tenant: TenantId, actor: ActorId) -> frozenset[str]:
    """What the roles of an actor give it."""
    return frozenset(row["permission"] for row in await conn.fetch(PERMISSIONS, tenant, actor))


async def change(
    conn: Connection, tenant: TenantId, actor: ActorId, changes: Mapping[str, str | bool | None], *, act: Act
) -> Actor:
    """Change `display_name`, `email` or `is_active`, on record; somebody must stay who can administer access."""
    await administrators.lock(conn, tenant)
    before = await _locked(conn, tenant, actor)
    if changes.get("is_active") is False and actor == act.actor_id:
        raise Conflict("nobody deactivates themselves", fix="ask another administrator")
    after = {name: changes.get(name, getattr(before, name)) for name in ("display_name", "email", "is_active")}
    await conn.execute(CHANGE, tenant, actor, *after.values())
    await administrators.require_one(conn, tenant, act.at)
    # An e-mail address is not put where it could never be removed from again.
    told = {name: value for name, value in after.items() if name in changes and name != "email"}
    payload = {**told, "email_changed": "email" in changes}
    await events.append(conn, Stream(tenant, "Actor", AggregateId(actor)), act.says("ACTOR_CHANGED", payload))
    return await get(conn, tenant, actor)


async def set_roles(conn: Connection, tenant: TenantId, actor: ActorId, roles: Collection[str], *, act: Act) -> Actor:
    """Give an actor these roles and no others, on record; somebody must stay who can administer access."""
    await administrators.lock(conn, tenant)
    await _locked(conn, tenant, actor)
    await conn.execute(DROP_ROLES, tenant, actor)
    names = await _add_roles(conn, tenant, actor, roles)
    await administrators.require_one(conn, tenant, act.at)
    said = act.says("ACTOR_CHANGED", {"roles": names})
    await events.append(conn, Stream(tenant, "Actor", AggregateId(actor)), said)
    return await get(conn, tenant, actor)


async def _add_roles(conn: Connection, tenant: TenantId, actor: ActorId, roles: Collection[str]) -> list[str]:
    names = sorted(set(roles))
    for role in names:
        if await conn.fetchval(ADD_ROLE, tenant, actor, role) is None:
            raise RoleUnknown(role, [row["name"] for row in await conn.fetch(ROLE_NAMES, tenant)])
    return names


async def _locked(conn: Connection, tenant: TenantId, actor: ActorId) -> Actor:
    await conn.execute(LOCK, tenant, actor)
    return await get(conn, tenant, actor)


def _actor(row: asyncpg.Record) -> Actor:
    return Actor(**{**dict(row), "roles": tuple(row["roles"])})
