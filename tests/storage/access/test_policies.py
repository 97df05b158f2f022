"""Specification of the plans: lists of who may do what are read from an index, a page at a time, however long."""

from collections.abc import AsyncIterator
from typing import Final, LiteralString
from uuid import UUID

import asyncpg
import pytest

from bpc.core.ids import TenantId
from bpc.db import access_roles, actors, apikeys, policies, policies_in_force
from bpc.db.connection import Connection
from bpc.db.database import Database
from tests.jobs.test_explain import assert_no_walk, on, plan_of

pytestmark = pytest.mark.external

TENANT: Final = TenantId(UUID(int=0xA))
MANY: Final = 5_000
FILL: Final[tuple[LiteralString, ...]] = (
    "INSERT INTO tenants (tenant_id, slug, name) VALUES ($1, 'full', 'Full')",
    """INSERT INTO actors (tenant_id, actor_id, type, display_name, created_at)
       SELECT $1, gen_random_uuid(), 'USER', 'a', now() - n * interval '1 s' FROM generate_series(1, {many}) n""",
    """INSERT INTO roles (tenant_id, role_id, name, created_at)
       SELECT $1, gen_random_uuid(), 'r' || n, now() - n * interval '1 s' FROM generate_series(1, {many}) n""",
    "INSERT INTO role_permissions SELECT $1, role_id, 'docs:read' FROM roles WHERE tenant_id = $1",
    """INSERT INTO actor_roles (tenant_id, actor_id, role_id)
       SELECT $1, a.actor_id, r.role_id
         FROM (SELECT actor_id, row_number() OVER () AS n FROM actors WHERE tenant_id = $1) a
         JOIN (SELECT role_id, row_number() OVER () AS n FROM roles WHERE tenant_id = $1) r USING (n)""",
    """INSERT INTO api_key_prefixes (key_prefix, tenant_id)
       SELECT 'k' || n, $1 FROM generate_series(1, {many}) n""",
    """INSERT INTO api_keys (tenant_id, api_key_id, actor_id, key_prefix, key_hash, created_at)
       SELECT $1, gen_random_uuid(), a.actor_id, 'k' || a.n, sha256(a.n::text::bytea), now() - a.n * interval '1 s'
         FROM (SELECT actor_id, row_number() OVER () AS n FROM actors WHERE tenant_id = $1) a""",
    """INSERT INTO policies (tenant_id, policy_id, name, created_at)
       SELECT $1, gen_random_uuid(), 'p' || n, now() - n * interval '1 s' FROM generate_series(1, {many}) n""",
    """INSERT INTO policy_versions (tenant_id, policy_version_id, policy_id, version, is_active, effect, target,
                                    policy_json, policy_canonical, policy_hash)
       SELECT $1, gen_random_uuid(), p.policy_id, v, v = 3 AND p.n <= 100, 'DENY', '*', '{}', '{}', sha256('x')
         FROM (SELECT policy_id, row_number() OVER () AS n FROM policies WHERE tenant_id = $1) p,
              generate_series(1, 3) v""",
)
LISTS: Final[dict[str, tuple[LiteralString, str, str]]] = {
    "actors": (actors.PAGE, "actors", "actors_by_time"),
    "roles": (access_roles.PAGE, "roles", "roles_by_time"),
    "api keys": (apikeys.PAGE, "api_keys", "api_keys_by_time"),
    "policies": (policies.PAGE, "policies", "policies_by_time"),
}


@pytest.fixture
async def looking(database: Database, superuser: "asyncpg.Connection[asyncpg.Record]") -> AsyncIterator[Connection]:
    """A request's transaction in a tenant with 5,000 of everything."""
    for fill in FILL:
        await superuser.execute(fill.replace("{many}", str(MANY)).replace("$1", f"'{TENANT}'::uuid"))
    await superuser.execute("VACUUM ANALYZE")
    async with database.tenant(TENANT) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        yield conn


async def test_every_list_is_read_backwards_from_the_index_that_has_its_order(looking: Connection) -> None:
    for name, (statement, relation, index) in LISTS.items():
        nodes = await plan_of(looking, statement)

        assert_no_walk(nodes)
        [scan] = [node for node in on(nodes, relation) if node.index == index]
        assert "ROW(" in scan.condition, name
        assert "tenant_id" in scan.condition, name
        assert not [node for node in nodes if "Sort" in node.kind and index in str(node.raw)], name


async def test_the_versions_of_policies_are_found_by_their_policy(looking: Connection) -> None:
    nodes = await plan_of(looking, policies.VERSIONS)

    assert [scan.index for scan in on(nodes, "policy_versions")] == ["policy_versions_by_time"]
    assert not [node for node in nodes if "Sort" in node.kind]
    for scan in on(await plan_of(looking, policies.ACTIVE), "policy_versions"):
        assert "Seq Scan" not in scan.kind
        assert "policy_id" in scan.condition


async def test_what_every_request_reads_of_policies_is_only_what_is_in_force(looking: Connection) -> None:
    nodes = await plan_of(looking, policies_in_force.ALL)

    assert {node.index for node in nodes if node.index} & {"policy_versions_active"}
    assert not [node for node in on(nodes, "policy_versions") if "Seq Scan" in node.kind]
