"""Tenants, the roles each has, and its actors: the people and programs that do things.

A role is a name for a set of permissions; a tenant starts with three and may add its own. Actors are deactivated, never
deleted. Every change of roles and actors keeps at least one administrator (bpc.storage.access.policies).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, NotFound, UnknownResource
from bpc.core.formats.ids import ActorId, RoleId, TenantId
from bpc.core.policies import ROLES
from bpc.runtime import clock
from bpc.storage.access import policies
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.database import Database

SYSTEM_TENANT: Final = TenantId(UUID("00000000-0000-4000-8000-000000000001"))

INSERT_TENANT: Final[LiteralString] = "INSERT INTO tenants (tenant_id, slug, name) VALUES ($1, $2, $3)"
SELECT_TENANTS: Final[LiteralString] = "SELECT tenant_id, slug, name, is_active, created_at FROM tenants"
SELECT_TENANT_BY_SLUG: Final[LiteralString] = f"{SELECT_TENANTS} WHERE slug = $1"
SELECT_ALL_TENANTS: Final[LiteralString] = f"{SELECT_TENANTS} ORDER BY slug"
SELECT_PUBLIC_HOSTS: Final[LiteralString] = """
    SELECT public_host, tenant_id FROM tenants WHERE public_host IS NOT NULL
"""
SELECT_PUBLIC_HOST: Final[LiteralString] = "SELECT public_host FROM tenants WHERE tenant_id = $1"
SELECT_OTHER_OF_HOST: Final[LiteralString] = "SELECT slug FROM tenants WHERE public_host = $1 AND tenant_id <> $2"
UPDATE_PUBLIC_HOST: Final[LiteralString] = "UPDATE tenants SET public_host = $2 WHERE tenant_id = $1"
UPDATE_TENANT_ACTIVE: Final[LiteralString] = "UPDATE tenants SET is_active = $2 WHERE tenant_id = $1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """A company. No other tenant sees its data."""

    tenant_id: TenantId
    slug: str
    name: str
    is_active: bool
    created_at: datetime


async def create_tenant(database: Database, *, slug: str, name: str, act: Act) -> TenantId:
    """Create a tenant with its three roles, in one transaction of the system role."""
    tenant = TenantId(clock.new_id())
    async with database.system(tenant) as conn:
        await conn.execute(INSERT_TENANT, tenant, slug, name)
        for role, permissions in ROLES.items():
            await _insert_role(conn, tenant, role, permissions, act=act)
        payload = {"slug": slug, "name": name}
        await events.append_act(conn, act, tenant, "Tenant", tenant, "TENANT_CREATED", payload)
    return tenant


async def set_tenant_active(database: Database, tenant: TenantRow, *, active: bool, act: Act) -> None:
    """Deactivate a tenant or activate it again; while it is inactive, its API keys are refused."""
    async with database.system(tenant.tenant_id) as conn:
        await conn.execute(UPDATE_TENANT_ACTIVE, tenant.tenant_id, active)
        payload = {"is_active": active}
        await events.append_act(conn, act, tenant.tenant_id, "Tenant", tenant.tenant_id, "TENANT_CHANGED", payload)


class DomainTaken(Conflict):
    """Another tenant has this domain."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"the tenant `{slug}` has this domain", fix="remove it there first", details={"tenant": slug})


async def list_public_hosts(database: Database) -> Mapping[str, TenantId]:
    """The domains under which single tenants have their public pages."""
    async with database.system() as conn:
        rows = await conn.fetch(SELECT_PUBLIC_HOSTS)
    return {row["public_host"]: TenantId(row["tenant_id"]) for row in rows}


async def find_public_host(conn: Connection, tenant: TenantId) -> str | None:
    host: str | None = await conn.fetchval(SELECT_PUBLIC_HOST, tenant)
    return host


async def change_public_host(conn: Connection, tenant: TenantId, host: str | None, *, act: Act) -> None:
    """Assign a domain to a tenant or take it away (None), with an event if it changes. Needs the system role."""
    before: str | None = await conn.fetchval(f"{SELECT_PUBLIC_HOST} FOR UPDATE", tenant)
    if before == host:
        return
    owner = None if host is None else await conn.fetchval(SELECT_OTHER_OF_HOST, host, tenant)
    if owner is not None:
        raise DomainTaken(owner)
    await conn.execute(UPDATE_PUBLIC_HOST, tenant, host)
    payload = {"public_host": {"from": before, "to": host}}
    await events.append_act(conn, act, tenant, "Tenant", tenant, "TENANT_DOMAIN_CHANGED", payload)


async def find_tenant(database: Database, slug: str) -> TenantRow:
    """The tenant with this slug, in a transaction of its own. Raises `UnknownResource`."""
    async with database.system() as conn:
        return await get_tenant_by_slug(conn, slug)


async def get_tenant_by_slug(conn: Connection, slug: str) -> TenantRow:
    row = await conn.fetchrow(SELECT_TENANT_BY_SLUG, slug)
    if row is None:
        raise UnknownResource("tenant", slug)
    return TenantRow(**row)


async def list_tenants(conn: Connection) -> list[TenantRow]:
    """All tenants; only the system role sees more than one."""
    return await fetch_rows(conn, TenantRow, SELECT_ALL_TENANTS)


# Roles ------------------------------------------------------------------------------------------------------------

INSERT_ROLE: Final[LiteralString] = """
    INSERT INTO roles (tenant_id, role_id, name, created_at) VALUES ($1, $2, $3, $4)
"""
INSERT_PERMISSIONS: Final[LiteralString] = """
    INSERT INTO role_permissions (tenant_id, role_id, permission) SELECT $1, $2, unnest($3::text[])
"""
DELETE_PERMISSIONS: Final[LiteralString] = "DELETE FROM role_permissions WHERE tenant_id = $1 AND role_id = $2"
SELECT_ROLES: Final[LiteralString] = """
    SELECT r.role_id, r.name, r.created_at,
           array(SELECT rp.permission FROM role_permissions rp
                  WHERE rp.tenant_id = r.tenant_id AND rp.role_id = r.role_id ORDER BY rp.permission) AS permissions
      FROM roles r
"""
SELECT_ROLE: Final[LiteralString] = f"{SELECT_ROLES} WHERE r.tenant_id = $1 AND r.role_id = $2"
SELECT_ROLES_BY_NAME: Final[LiteralString] = f"""
    {SELECT_ROLES} WHERE r.tenant_id = $1 AND r.name = ANY($2::text[]) ORDER BY r.name
"""
SELECT_ROLE_PAGE: Final[LiteralString] = make_page_query(SELECT_ROLES, time="r.created_at", key="r.role_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRow:
    """A set of permissions; an actor with the role has them."""

    role_id: RoleId
    name: str
    permissions: Sequence[str]
    created_at: datetime


async def create_role(
    conn: Connection, tenant: TenantId, *, name: str, permissions: Collection[str], act: Act
) -> RoleRow:
    """Create a role, and append an event. The caller has checked that the permissions exist."""
    return await _insert_role(conn, tenant, name, sorted(set(permissions)), act=act)


async def _insert_role(
    conn: Connection, tenant: TenantId, name: str, permissions: Sequence[str], *, act: Act
) -> RoleRow:
    role = RoleId(clock.new_id())
    await conn.execute(INSERT_ROLE, tenant, role, name, act.at)
    await conn.execute(INSERT_PERMISSIONS, tenant, role, list(permissions))
    payload = {"name": name, "permissions": list(permissions)}
    await events.append_act(conn, act, tenant, "Role", role, "ROLE_CREATED", payload)
    return RoleRow(role_id=role, name=name, permissions=permissions, created_at=act.at)


async def get_role(conn: Connection, tenant: TenantId, role: RoleId) -> RoleRow:
    return await fetch_one(conn, RoleRow, SELECT_ROLE, tenant, role, kind="role")


async def find_roles(conn: Connection, tenant: TenantId, names: Collection[str]) -> list[RoleRow]:
    """The roles with these names, by name; a name that no role has is left out."""
    return await fetch_rows(conn, RoleRow, SELECT_ROLES_BY_NAME, tenant, list(names))


async def list_roles(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[RoleRow]:
    """Roles, newest first."""
    return await fetch_rows(conn, RoleRow, SELECT_ROLE_PAGE, tenant, *page)


async def set_role_permissions(
    conn: Connection, tenant: TenantId, role: RoleId, permissions: Collection[str], *, act: Act
) -> RoleRow:
    """Replace the permissions of a role, and append an event. Refuses if no administrator would be left."""
    await policies.lock_access(conn, tenant)
    await get_role(conn, tenant, role)
    sorted_permissions = sorted(set(permissions))
    await conn.execute(DELETE_PERMISSIONS, tenant, role)
    await conn.execute(INSERT_PERMISSIONS, tenant, role, sorted_permissions)
    await policies.require_administrator(conn, tenant, act.at)
    payload = {"permissions": sorted_permissions}
    await events.append_act(conn, act, tenant, "Role", role, "ROLE_CHANGED", payload)
    return await get_role(conn, tenant, role)


async def add_role_permissions(
    conn: Connection, tenant: TenantId, role: RoleRow, permissions: Collection[str], *, act: Act
) -> None:
    """Add permissions that a role does not have, and append an event with all that it has then."""
    await conn.execute(INSERT_PERMISSIONS, tenant, role.role_id, list(permissions))
    payload = {"permissions": sorted({*role.permissions, *permissions})}
    await events.append_act(conn, act, tenant, "Role", role.role_id, "ROLE_CHANGED", payload)


# Actors -----------------------------------------------------------------------------------------------------------

ActorType = Literal["USER", "API_CLIENT", "SERVICE"]

INSERT_ACTOR: Final[LiteralString] = """
    INSERT INTO actors (tenant_id, actor_id, type, display_name, email, created_at)
    VALUES ($1, $2, $3::actor_type, $4, $5, $6)
"""
INSERT_ACTOR_ROLE: Final[LiteralString] = """
    INSERT INTO actor_roles (tenant_id, actor_id, role_id)
    SELECT tenant_id, $2, role_id FROM roles WHERE tenant_id = $1 AND name = $3
    ON CONFLICT DO NOTHING
    RETURNING role_id
"""
DELETE_ACTOR_ROLES: Final[LiteralString] = "DELETE FROM actor_roles WHERE tenant_id = $1 AND actor_id = $2"
SELECT_ROLE_NAMES: Final[LiteralString] = "SELECT name FROM roles WHERE tenant_id = $1 ORDER BY name LIMIT 20"
ACTIVE_ACTOR_EXISTS: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM actors WHERE tenant_id = $1 AND actor_id = $2 AND is_active)
"""
SELECT_ACTORS: Final[LiteralString] = f"""
    SELECT a.actor_id, a.type::text AS type, a.display_name, a.email, a.is_active, a.created_at,
           {policies.ROLE_NAMES_OF_ACTOR} AS roles
      FROM actors a
"""
SELECT_ACTOR: Final[LiteralString] = f"{SELECT_ACTORS} WHERE a.tenant_id = $1 AND a.actor_id = $2"
SELECT_ACTOR_PAGE: Final[LiteralString] = make_page_query(SELECT_ACTORS, time="a.created_at", key="a.actor_id")
SELECT_ACTOR_PERMISSIONS: Final[LiteralString] = """
    SELECT DISTINCT rp.permission FROM actor_roles ar
      JOIN role_permissions rp ON rp.tenant_id = ar.tenant_id AND rp.role_id = ar.role_id
     WHERE ar.tenant_id = $1 AND ar.actor_id = $2
"""
LOCK_ACTOR: Final[LiteralString] = "SELECT FROM actors WHERE tenant_id = $1 AND actor_id = $2 FOR NO KEY UPDATE"
UPDATE_ACTOR: Final[LiteralString] = """
    UPDATE actors SET display_name = $3, email = $4, is_active = $5 WHERE tenant_id = $1 AND actor_id = $2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorRow:
    """A person or a program with roles; while it is inactive, its API keys are refused."""

    actor_id: ActorId
    type: ActorType
    display_name: str
    email: str | None
    is_active: bool
    roles: Sequence[str]
    created_at: datetime


class RoleNameUnknown(NotFound):
    """The tenant has no role with this name."""

    def __init__(self, name: str, existing: list[str]) -> None:
        roles = ", ".join(f"`{role}`" for role in existing)
        fix = f"the tenant's roles are {roles}" if existing else "this tenant has no roles"
        super().__init__(f"there is no role `{name}`", fix=fix)


async def create_actor(
    conn: Connection,
    tenant: TenantId,
    *,
    kind: ActorType,
    display_name: str,
    roles: list[str],
    act: Act,
    email: str | None = None,
) -> ActorId:
    """Create an actor with `roles`, and append an event."""
    actor = ActorId(clock.new_id())
    await conn.execute(INSERT_ACTOR, tenant, actor, kind, display_name, email, act.at)
    names = await _insert_roles(conn, tenant, actor, roles)
    payload = {"type": kind, "display_name": display_name, "roles": names}
    await events.append_act(conn, act, tenant, "Actor", actor, "ACTOR_CREATED", payload)
    return actor


async def require_active_actor(conn: Connection, tenant: TenantId, actor: ActorId) -> None:
    """Raise `UnknownResource` unless `actor` is an active actor of `tenant`."""
    if not await conn.fetchval(ACTIVE_ACTOR_EXISTS, tenant, actor):
        raise UnknownResource("active actor", actor)


async def get_actor(conn: Connection, tenant: TenantId, actor: ActorId) -> ActorRow:
    return await fetch_one(conn, ActorRow, SELECT_ACTOR, tenant, actor, kind="actor")


async def list_actors(conn: Connection, tenant: TenantId, page: PageQuery) -> Sequence[ActorRow]:
    """Actors, newest first."""
    return await fetch_rows(conn, ActorRow, SELECT_ACTOR_PAGE, tenant, *page)


async def load_permissions(conn: Connection, tenant: TenantId, actor: ActorId) -> frozenset[str]:
    """The permissions that the roles of an actor give it."""
    return frozenset(row["permission"] for row in await conn.fetch(SELECT_ACTOR_PERMISSIONS, tenant, actor))


async def change_actor(
    conn: Connection, tenant: TenantId, actor: ActorId, changes: Mapping[str, str | bool | None], *, act: Act
) -> ActorRow:
    """Change `display_name`, `email` or `is_active`, and append an event. Refuses if no administrator would be left."""
    await policies.lock_access(conn, tenant)
    before = await _lock_actor(conn, tenant, actor)
    if changes.get("is_active") is False and actor == act.actor_id:
        raise Conflict("you cannot deactivate yourself", fix="ask another administrator")
    after = {name: changes.get(name, getattr(before, name)) for name in ("display_name", "email", "is_active")}
    await conn.execute(UPDATE_ACTOR, tenant, actor, *after.values())
    await policies.require_administrator(conn, tenant, act.at)
    # Events are never changed, so they hold no e-mail address: it must stay possible to remove one.
    payload = {name: value for name, value in after.items() if name in changes and name != "email"}
    payload["email_changed"] = "email" in changes
    await events.append_act(conn, act, tenant, "Actor", actor, "ACTOR_CHANGED", payload)
    return await get_actor(conn, tenant, actor)


async def set_actor_roles(
    conn: Connection,
    tenant: TenantId,
    actor: ActorId,
    roles: Collection[str],
    *,
    act: Act,
    keeps_administrator: bool = True,
) -> ActorRow:
    """Replace the roles of an actor, and append an event. Refuses if no administrator would be left.

    Where a provider of sign-ins has decided (`keeps_administrator` is false), nothing is refused.
    """
    await policies.lock_access(conn, tenant)
    await _lock_actor(conn, tenant, actor)
    await conn.execute(DELETE_ACTOR_ROLES, tenant, actor)
    names = await _insert_roles(conn, tenant, actor, roles)
    if keeps_administrator:
        await policies.require_administrator(conn, tenant, act.at)
    await events.append_act(conn, act, tenant, "Actor", actor, "ACTOR_CHANGED", {"roles": names})
    return await get_actor(conn, tenant, actor)


async def _insert_roles(conn: Connection, tenant: TenantId, actor: ActorId, roles: Collection[str]) -> list[str]:
    names = sorted(set(roles))
    for role in names:
        if await conn.fetchval(INSERT_ACTOR_ROLE, tenant, actor, role) is None:
            raise RoleNameUnknown(role, [row["name"] for row in await conn.fetch(SELECT_ROLE_NAMES, tenant)])
    return names


async def _lock_actor(conn: Connection, tenant: TenantId, actor: ActorId) -> ActorRow:
    await conn.execute(LOCK_ACTOR, tenant, actor)
    return await get_actor(conn, tenant, actor)
