"""Tenants, with the three roles each starts with."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

import asyncpg

from bpc import fresh
from bpc.core.access import ROLES
from bpc.core.errors import NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, TenantId
from bpc.db import events
from bpc.db.connection import Connection
from bpc.db.database import Database

SYSTEM_TENANT: Final = TenantId(UUID("00000000-0000-4000-8000-000000000001"))

INSERT: Final[LiteralString] = "INSERT INTO tenants (tenant_id, slug, name) VALUES ($1, $2, $3)"
INSERT_ROLE: Final[LiteralString] = "INSERT INTO roles (tenant_id, role_id, name) VALUES ($1, $2, $3)"
INSERT_PERMISSIONS: Final[LiteralString] = """
    INSERT INTO role_permissions (tenant_id, role_id, permission) SELECT $1, $2, unnest($3::text[])
"""
BY_SLUG: Final[LiteralString] = "SELECT tenant_id, slug, name, is_active, created_at FROM tenants WHERE slug = $1"
ALL: Final[LiteralString] = "SELECT tenant_id, slug, name, is_active, created_at FROM tenants ORDER BY slug"
SET_ACTIVE: Final[LiteralString] = "UPDATE tenants SET is_active = $2 WHERE tenant_id = $1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A company, whose data nobody else sees."""

    tenant_id: TenantId
    slug: str
    name: str
    is_active: bool
    created_at: datetime


class TenantUnknown(NotFound):
    """No tenant has this slug."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"there is no tenant `{slug}`", fix="`bpc tenant list` shows them")


async def create(database: Database, *, slug: str, name: str, act: Act) -> TenantId:
    """A new tenant with its roles, in one transaction of the system role."""
    tenant = TenantId(fresh.new_id())
    async with database.system(tenant) as conn:
        await conn.execute(INSERT, tenant, slug, name)
        for role, permissions in ROLES.items():
            await _add_role(conn, tenant, role, permissions, act)
        stream = Stream(tenant, "Tenant", AggregateId(tenant))
        await events.append(conn, stream, act.says("TENANT_CREATED", {"slug": slug, "name": name}))
    return tenant


async def set_active(database: Database, tenant: Tenant, *, active: bool, act: Act) -> None:
    """Deactivate a tenant, or take it back; its keys open nothing while it is inactive."""
    async with database.system(tenant.tenant_id) as conn:
        await conn.execute(SET_ACTIVE, tenant.tenant_id, active)
        stream = Stream(tenant.tenant_id, "Tenant", AggregateId(tenant.tenant_id))
        await events.append(conn, stream, act.says("TENANT_CHANGED", {"is_active": active}))


async def find(database: Database, slug: str) -> Tenant:
    """The tenant called `slug`, in a transaction of its own."""
    async with database.system() as conn:
        return await by_slug(conn, slug)


async def by_slug(conn: Connection, slug: str) -> Tenant:
    row = await conn.fetchrow(BY_SLUG, slug)
    if row is None:
        raise TenantUnknown(slug)
    return _tenant(row)


async def every(conn: Connection) -> list[Tenant]:
    """All tenants; only the system role sees more than one."""
    return [_tenant(row) for row in await conn.fetch(ALL)]


async def _add_role(conn: Connection, tenant: TenantId, name: str, permissions: Sequence[str], act: Act) -> None:
    role = fresh.new_id()
    await conn.execute(INSERT_ROLE, tenant, role, name)
    await conn.execute(INSERT_PERMISSIONS, tenant, role, list(permissions))
    said = act.says("ROLE_CREATED", {"name": name, "permissions": list(permissions)})
    await events.append(conn, Stream(tenant, "Role", AggregateId(role)), said)


def _tenant(row: asyncpg.Record) -> Tenant:
    return Tenant(
        tenant_id=TenantId(row["tenant_id"]),
        slug=row["slug"],
        name=row["name"],
        is_active=row["is_active"],
        created_at=row["created_at"],
    )
