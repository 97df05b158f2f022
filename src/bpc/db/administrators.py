"""Administrators: whoever has `access:admin` by a role, and can take back what policies say.

After every change of actors, roles or policies there is one: active, and one that no policy ever keeps from changing
policies. Such changes wait for each other, so that two of them cannot each leave the other's administrator.
"""

from datetime import datetime
from typing import Final, LiteralString

from bpc.core.errors import Conflict
from bpc.core.ids import ActorId, TenantId
from bpc.core.policies import Asked, Resource, always_allowed
from bpc.db import policies_in_force
from bpc.db.connection import Connection

PERMISSION: Final = "access:admin"

LOCK: Final[LiteralString] = "SELECT pg_advisory_xact_lock(hashtextextended('administrators/' || $1::text, 0))"
ALL: Final[LiteralString] = """
    SELECT a.actor_id, a.type::text AS type,
           array(SELECT r.name FROM actor_roles ar
                   JOIN roles r ON r.tenant_id = ar.tenant_id AND r.role_id = ar.role_id
                  WHERE ar.tenant_id = a.tenant_id AND ar.actor_id = a.actor_id) AS roles
      FROM actors a
     WHERE a.tenant_id = $1 AND a.is_active
       AND EXISTS (SELECT FROM actor_roles ar
                     JOIN role_permissions rp ON rp.tenant_id = ar.tenant_id AND rp.role_id = ar.role_id
                    WHERE ar.tenant_id = a.tenant_id AND ar.actor_id = a.actor_id AND rp.permission = 'access:admin')
"""


class NobodyLeft(Conflict):
    """Nobody could change access any more."""

    def __init__(self) -> None:
        super().__init__(
            "this would leave no active actor that can administer access",
            fix="see that another active actor has `access:admin` by a role and that no policy denies it that",
        )


async def lock(conn: Connection, tenant: TenantId) -> None:
    """From here to the end of the transaction, nobody else changes who may do what."""
    await conn.execute(LOCK, str(tenant))


async def require_one(conn: Connection, tenant: TenantId, now: datetime) -> None:
    """Raise `NobodyLeft` unless an administrator is there, as things stand in this transaction."""
    policies = [found.policy for found in await policies_in_force.all_of(conn, tenant)]
    for row in await conn.fetch(ALL, tenant):
        asked = Asked(
            actor_id=ActorId(row["actor_id"]),
            actor_type=row["type"],
            roles=row["roles"],
            permission=PERMISSION,
            resource=Resource(type="Policy"),
            now=now,
        )
        if always_allowed(asked, policies):
            return
    raise NobodyLeft
