"""Permissions that came with a later release, for tenants that are older: their three first roles get them, once.

A role that lacks a permission could not be given it otherwise: nobody hands out what they do not have. Each change is
an event of the role. PERMISSIONS_ADDED in the chain of the tenant says which were added: an administrator who takes one
away again is not overruled by the next upgrade. Roles with other names stay as they are.
"""

from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.policies import MATRIX_ROLES, MIGRATION_OF_PERMISSION, ROLES
from bpc.storage.access import policies, tenants_and_actors
from bpc.storage.audit import events
from bpc.storage.connection import SYSTEM_ROLE, Connection
from bpc.storage.database import begin_transaction

SELECT_OLDER_TENANTS: Final[LiteralString] = """
    SELECT t.tenant_id, now() AS at, array_agg(substr(m.name, 6, length(m.name) - 9)) AS migrations FROM tenants t
      JOIN schema_migrations m ON m.component = 'bpc' AND m.name LIKE '%\\_added\\_permissions.sql'
     WHERE t.created_at < m.applied_at
     GROUP BY t.tenant_id
     ORDER BY t.tenant_id
"""
SELECT_ADDED: Final[LiteralString] = """
    SELECT DISTINCT jsonb_array_elements_text(payload -> 'permissions') FROM events
     WHERE tenant_id = $1 AND aggregate_type = 'Tenant' AND aggregate_id = $1 AND event_type = 'PERMISSIONS_ADDED'
"""


async def add_permissions_to_older_tenants(conn: Connection) -> None:
    """Do it for every tenant that needs it, each in a transaction of the system role."""
    async with begin_transaction(conn, SYSTEM_ROLE):
        rows = await conn.fetch(SELECT_OLDER_TENANTS)
    for row in rows:
        tenant = TenantId(row["tenant_id"])
        expected = {name for name, migration in MIGRATION_OF_PERMISSION.items() if migration in row["migrations"]}
        async with begin_transaction(conn, SYSTEM_ROLE, tenant):
            await policies.lock_access(conn, tenant)
            additions = expected - {record[0] for record in await conn.fetch(SELECT_ADDED, tenant)}
            if additions:
                await _add_permissions(conn, tenant, additions, row["at"])


async def _add_permissions(conn: Connection, tenant: TenantId, additions: set[str], at: datetime) -> None:
    act = Act(None, at)
    for role in await tenants_and_actors.find_roles(conn, tenant, ROLES):
        # A role of that name which somebody made poorer is not the one that every tenant starts with.
        missing = additions & set(ROLES[role.name]) - set(role.permissions)
        if set(MATRIX_ROLES[role.name]) <= set(role.permissions) and missing:
            await tenants_and_actors.add_role_permissions(conn, tenant, role, sorted(missing), act=act)
    payload = {"permissions": sorted(additions)}
    await events.append_act(conn, act, tenant, "Tenant", tenant, "PERMISSIONS_ADDED", payload)
