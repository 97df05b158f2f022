"""Roles: names for sets of permissions. A tenant starts with three and may add its own."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

import asyncpg

from bpc import fresh
from bpc.core.errors import NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, RoleId, TenantId
from bpc.db import administrators, events
from bpc.db.connection import Connection
from bpc.db.pages import Ask

INSERT: Final[LiteralString] = """
    INSERT INTO roles (tenant_id, role_id, name, created_at) VALUES ($1, $2, $3, $4)
"""
ADD_PERMISSIONS: Final[LiteralString] = """
    INSERT INTO role_permissions (tenant_id, role_id, permission) SELECT $1, $2, unnest($3::text[])
"""
DROP_PERMISSIONS: Final[LiteralString] = "DELETE FROM role_permissions WHERE tenant_id = $1 AND role_id = $2"
COLUMNS: Final[LiteralString] = """
    r.role_id, r.name, r.created_at,
    array(SELECT rp.permission FROM role_permissions rp
           WHERE rp.tenant_id = r.tenant_id AND rp.role_id = r.role_id ORDER BY rp.permission) AS permissions
"""
ONE: Final[LiteralString] = f"SELECT {COLUMNS} FROM roles r WHERE r.tenant_id = $1 AND r.role_id = $2"
PAGE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM roles r
     WHERE r.tenant_id = $1 AND (r.created_at, r.role_id) < ($2, $3)
     ORDER BY r.created_at DESC, r.role_id DESC
     LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What whoever has it may do."""

    role_id: RoleId
    name: str
    permissions: tuple[str, ...]
    created_at: datetime


class RoleIdUnknown(NotFound):
    """The tenant has no role with this id."""

    def __init__(self, role: RoleId) -> None:
        super().__init__(f"there is no role `{role}`", fix="GET /v1/roles lists those there are")


async def create(conn: Connection, tenant: TenantId, *, name: str, permissions: Collection[str], act: Act) -> Role:
    """A new role, on record. Its permissions are known ones."""
    role, given = RoleId(fresh.new_id()), sorted(set(permissions))
    await conn.execute(INSERT, tenant, role, name, act.at)
    await conn.execute(ADD_PERMISSIONS, tenant, role, given)
    said = act.says("ROLE_CREATED", {"name": name, "permissions": given})
    await events.append(conn, Stream(tenant, "Role", AggregateId(role)), said)
    return Role(role_id=role, name=name, permissions=tuple(given), created_at=act.at)


async def get(conn: Connection, tenant: TenantId, role: RoleId) -> Role:
    row = await conn.fetchrow(ONE, tenant, role)
    if row is None:
        raise RoleIdUnknown(role)
    return _role(row)


async def page(conn: Connection, tenant: TenantId, ask: Ask) -> Sequence[Role]:
    """Roles, newest first."""
    return [_role(row) for row in await conn.fetch(PAGE, tenant, *ask)]


async def set_permissions(
    conn: Connection, tenant: TenantId, role: RoleId, permissions: Collection[str], *, act: Act
) -> Role:
    """Give a role these permissions and no others, on record; somebody must stay who can administer access."""
    await administrators.lock(conn, tenant)
    await get(conn, tenant, role)
    given = sorted(set(permissions))
    await conn.execute(DROP_PERMISSIONS, tenant, role)
    await conn.execute(ADD_PERMISSIONS, tenant, role, given)
    await administrators.require_one(conn, tenant, act.at)
    said = act.says("ROLE_CHANGED", {"permissions": given})
    await events.append(conn, Stream(tenant, "Role", AggregateId(role)), said)
    return await get(conn, tenant, role)


def _role(row: asyncpg.Record) -> Role:
    return Role(**{**dict(row), "permissions": tuple(row["permissions"])})
