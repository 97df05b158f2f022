"""People who sign in with a provider: who they are here, and the roles that their groups give them."""

from collections.abc import Sequence
from typing import Final, LiteralString

from bpc.core.audit.events import Act
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import ActorId, TenantId
from bpc.core.policies import ROLE_ONLY_PERMISSIONS
from bpc.storage.access import policies, tenants_and_actors
from bpc.storage.audit import events
from bpc.storage.connection import Connection

SELECT_ACTOR: Final[LiteralString] = """
    SELECT actor_id FROM actor_identities WHERE tenant_id = $1 AND identity_hash = $2
"""
INSERT_IDENTITY: Final[LiteralString] = """
    INSERT INTO actor_identities (tenant_id, identity_hash, actor_id, issuer, created_at) VALUES ($1, $2, $3, $4, $5)
"""
# The roles of these names that exist, without those that let somebody hand out rights, unless that was said.
SELECT_GIVEN_ROLES: Final[LiteralString] = """
    SELECT r.name FROM roles r
     WHERE r.tenant_id = $1 AND r.name = ANY($2::text[])
       AND ($3 OR NOT EXISTS (SELECT FROM role_permissions rp
                               WHERE rp.tenant_id = r.tenant_id AND rp.role_id = r.role_id
                                 AND rp.permission = ANY($4::text[])))
     ORDER BY r.name
"""


async def list_given_roles(
    conn: Connection, tenant: TenantId, names: Sequence[str], *, administration: bool
) -> list[str]:
    """Those of the named roles that groups may give in this tenant."""
    rows = await conn.fetch(SELECT_GIVEN_ROLES, tenant, names, administration, sorted(ROLE_ONLY_PERMISSIONS))
    return [row["name"] for row in rows]


async def find_person(conn: Connection, tenant: TenantId, identity_hash: Digest) -> ActorId | None:
    """Who this is here, if they have signed in before."""
    actor: ActorId | None = await conn.fetchval(SELECT_ACTOR, tenant, identity_hash)
    return actor


async def find_or_create_person(
    conn: Connection, tenant: TenantId, identity_hash: Digest, *, issuer: str, display_name: str, act: Act
) -> ActorId:
    """Who this is here; a new actor without roles if nobody has signed in as them before."""
    await policies.lock_access(conn, tenant)
    actor = await find_person(conn, tenant, identity_hash)
    if actor is not None:
        return actor
    actor = await tenants_and_actors.create_actor(
        conn, tenant, kind="USER", display_name=display_name, roles=[], act=act
    )
    await conn.execute(INSERT_IDENTITY, tenant, identity_hash, actor, issuer, act.at)
    payload = {"issuer": issuer, "identity_hash": to_hex(identity_hash)}
    await events.append_act(conn, act, tenant, "Actor", actor, "ACTOR_IDENTIFIED", payload)
    return actor


async def follow_groups(
    conn: Connection, tenant: TenantId, actor: ActorId, names: Sequence[str], *, administration: bool, act: Act
) -> Sequence[str]:
    """Give an actor the roles of its groups, and no others; return them."""
    await policies.lock_access(conn, tenant)
    roles = await list_given_roles(conn, tenant, names, administration=administration)
    before = await tenants_and_actors.get_actor(conn, tenant, actor)
    if sorted(before.roles) != roles:
        await tenants_and_actors.set_actor_roles(conn, tenant, actor, roles, act=act, keeps_administrator=False)
    return roles
