"""Actors: the people and programs that do things, and the roles they have."""

from typing import Final, Literal, LiteralString

from bpc import fresh
from bpc.core.errors import NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import ActorId, AggregateId, TenantId
from bpc.db import events
from bpc.db.connection import Connection

ActorType = Literal["USER", "API_CLIENT", "SERVICE"]

INSERT: Final[LiteralString] = """
    INSERT INTO actors (tenant_id, actor_id, type, display_name, email) VALUES ($1, $2, $3::actor_type, $4, $5)
"""
ADD_ROLE: Final[LiteralString] = """
    INSERT INTO actor_roles (tenant_id, actor_id, role_id)
    SELECT tenant_id, $2, role_id FROM roles WHERE tenant_id = $1 AND name = $3
    ON CONFLICT DO NOTHING
    RETURNING role_id
"""
ROLE_NAMES: Final[LiteralString] = "SELECT name FROM roles WHERE tenant_id = $1 ORDER BY name"
EXISTS: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM actors WHERE tenant_id = $1 AND actor_id = $2 AND is_active)
"""


class RoleUnknown(NotFound):
    """The tenant has no such role."""

    def __init__(self, name: str, known: list[str]) -> None:
        roles = ", ".join(f"`{role}`" for role in known)
        fix = f"the tenant's roles are {roles}" if known else "this tenant has no roles"
        super().__init__(f"there is no role `{name}`", fix=fix)


class ActorUnknown(NotFound):
    """The tenant has no such active actor."""

    def __init__(self, actor: ActorId) -> None:
        super().__init__(f"there is no active actor `{actor}`")


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
    await conn.execute(INSERT, tenant, actor, kind, display_name, email)
    names = sorted(set(roles))
    for role in names:
        if await conn.fetchval(ADD_ROLE, tenant, actor, role) is None:
            raise RoleUnknown(role, [row["name"] for row in await conn.fetch(ROLE_NAMES, tenant)])
    said = act.says("ACTOR_CREATED", {"type": kind, "display_name": display_name, "roles": names})
    await events.append(conn, Stream(tenant, "Actor", AggregateId(actor)), said)
    return actor


async def require(conn: Connection, tenant: TenantId, actor: ActorId) -> None:
    """Raise `ActorUnknown` unless `actor` is an active actor of `tenant`."""
    if not await conn.fetchval(EXISTS, tenant, actor):
        raise ActorUnknown(actor)
