"""Specification of the plans: lists of who may do what are read from an index, a page at a time, however long."""

from collections.abc import AsyncIterator
from typing import Final, LiteralString
from uuid import UUID

import asyncpg
import pytest
from tests.jobs.support.query_plans import explain_plan, list_nodes_on, require_no_full_scan

from bpc.core.formats.ids import TenantId
from bpc.storage.access import api_keys, policies, tenants_and_actors
from bpc.storage.connection import Connection
from bpc.storage.database import Database

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
    "actors": (tenants_and_actors.SELECT_ACTOR_PAGE, "actors", "actors_by_time"),
    "roles": (tenants_and_actors.SELECT_ROLE_PAGE, "roles", "roles_by_time"),
    "api keys": (api_keys.SELECT_KEY_PAGE, "api_keys", "api_keys_by_time"),
    "policies": (policies.SELECT_POLICY_PAGE, "policies", "policies_by_time"),
}


@pytest.fixture
async def full_tenant_conn(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> AsyncIterator[Connection]:
    """A request's transaction in a tenant with 5,000 of everything."""
    for fill in FILL:
        await superuser.execute(fill.replace("{many}", str(MANY)).replace("$1", f"'{TENANT}'::uuid"))
    await superuser.execute("VACUUM ANALYZE")
    async with database.tenant(TENANT) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        yield conn


async def test_every_list_is_read_from_the_index_with_its_order(full_tenant_conn: Connection) -> None:
    for name, (statement, relation, index) in LISTS.items():
        nodes = await explain_plan(full_tenant_conn, statement)

        require_no_full_scan(nodes)
        [scan] = [node for node in list_nodes_on(nodes, relation) if node.index == index]
        assert "ROW(" in scan.condition, name
        assert "tenant_id" in scan.condition, name
        assert not [node for node in nodes if "Sort" in node.kind and index in str(node.raw)], name


async def test_the_versions_of_policies_are_found_by_their_policy(full_tenant_conn: Connection) -> None:
    nodes = await explain_plan(full_tenant_conn, policies.SELECT_VERSION_PAGE)

    assert [scan.index for scan in list_nodes_on(nodes, "policy_versions")] == ["policy_versions_by_time"]
    assert not [node for node in nodes if "Sort" in node.kind]
    for scan in list_nodes_on(await explain_plan(full_tenant_conn, policies.SELECT_ACTIVE_VERSIONS), "policy_versions"):
        assert "Seq Scan" not in scan.kind
        assert "policy_id" in scan.condition


async def test_a_request_reads_only_active_policies(full_tenant_conn: Connection) -> None:
    nodes = await explain_plan(full_tenant_conn, policies.SELECT_ACTIVE_POLICIES)

    assert {node.index for node in nodes if node.index} & {"policy_versions_active"}
    assert not [node for node in list_nodes_on(nodes, "policy_versions") if "Seq Scan" in node.kind]
