"""Specification of tenants: made with their roles and on record, found by slug, deactivated and taken back."""

import asyncio

import pytest

from bpc.cli.support.output import find_fix
from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Invalid, UnknownResource
from bpc.core.formats.ids import ActorId, TenantId
from bpc.core.policies import PERMISSIONS, ROLES
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.access.tenants_and_actors import (
    SYSTEM_TENANT,
    RoleNameUnknown,
    TenantRow,
)
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.database import Database

pytestmark = pytest.mark.external


async def list_events(conn: Connection, aggregate_type: str) -> list[tuple[str, str]]:
    """Event types and canonical payloads of a tenant's aggregates of one type, in their order."""
    rows = await conn.fetch(
        """SELECT event_type, payload_canonical FROM events WHERE aggregate_type = $1
            ORDER BY aggregate_id, aggregate_version""",
        aggregate_type,
    )
    return [(row["event_type"], row["payload_canonical"].decode()) for row in rows]


async def load_tenants_by_slug(database: Database) -> dict[str, TenantRow]:
    async with database.system() as conn:
        return {tenant.slug: tenant for tenant in await tenants_and_actors.list_tenants(conn)}


async def test_a_new_tenant_is_active_and_has_an_event(database: Database, act: Act) -> None:
    created = await tenants_and_actors.create_tenant(database, slug="acme", name="Acme Ltd.", act=act)

    async with database.tenant(created) as conn:
        tenant_row = await tenants_and_actors.get_tenant_by_slug(conn, "acme")
        on_record = await list_events(conn, "Tenant")
        verified = await events.verify_tenant(conn, created)
    assert (tenant_row.tenant_id, tenant_row.slug, tenant_row.name, tenant_row.is_active) == (
        created,
        "acme",
        "Acme Ltd.",
        True,
    )
    assert on_record == [("TENANT_CREATED", '{"name":"Acme Ltd.","slug":"acme"}')]
    assert (verified.chains, verified.faults) == (4, ())  # the tenant and its three roles


async def test_a_new_tenant_has_the_three_roles_with_the_permissions_of_the_matrix(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        role_rows = await conn.fetch(
            """SELECT r.name, array_agg(p.permission) AS permissions
                 FROM roles r JOIN role_permissions p USING (tenant_id, role_id) GROUP BY r.name"""
        )
        on_record = await list_events(conn, "Role")

    assert {row["name"]: set(row["permissions"]) for row in role_rows} == {name: set(ROLES[name]) for name in ROLES}
    assert [event_type for event_type, _ in on_record] == ["ROLE_CREATED"] * 3


async def test_the_database_knows_exactly_the_permissions_of_the_product(database: Database) -> None:
    async with database.system() as conn:
        permissions = {row["permission"] for row in await conn.fetch("SELECT permission FROM permissions")}

    assert permissions == set(PERMISSIONS)


async def test_every_installation_has_the_system_tenant(database: Database) -> None:
    by_slug = await load_tenants_by_slug(database)

    assert list(by_slug) == ["system"]
    assert (by_slug["system"].tenant_id, by_slug["system"].is_active) == (SYSTEM_TENANT, True)


@pytest.mark.parametrize("slug", ["abc", "a" * 64, "0-9", "---", "acme-2"])
async def test_a_slug_is_3_to_64_of_small_letters_digits_and_hyphens(database: Database, act: Act, slug: str) -> None:
    await tenants_and_actors.create_tenant(database, slug=slug, name="Name", act=act)

    assert slug in await load_tenants_by_slug(database)


async def test_any_other_slug_is_refused_and_nothing_of_the_tenant_stays(database: Database, act: Act) -> None:
    for slug in ("ab", "a" * 65, "", "Acme", "a_b", "a b", "acme\n", "\nacme", "äbc", "acme/x", "١٢٣"):
        with pytest.raises(Invalid, match="3 to 64 of a-z, 0-9 and `-`") as refused:
            await tenants_and_actors.create_tenant(database, slug=slug, name="Name", act=act)
        assert refused.value.code == "VALIDATION_ERROR"

    assert list(await load_tenants_by_slug(database)) == ["system"]


async def test_a_slug_that_is_taken_is_a_conflict_and_leaves_the_first_tenant_as_it_was(
    database: Database, tenant: TenantId, act: Act
) -> None:
    with pytest.raises(Conflict, match="a tenant with this slug already exists"):
        await tenants_and_actors.create_tenant(database, slug="acme", name="Impostor", act=act)

    tenant_row = (await load_tenants_by_slug(database))["acme"]
    assert (tenant_row.tenant_id, tenant_row.name) == (tenant, "Acme")


async def test_of_many_concurrent_requests_for_a_slug_exactly_one_succeeds(database: Database, act: Act) -> None:
    outcomes = await asyncio.gather(
        *(tenants_and_actors.create_tenant(database, slug="wanted", name=f"Nr {n}", act=act) for n in range(8)),
        return_exceptions=True,
    )

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict"] * 7 + ["UUID"]
    async with database.tenant((await load_tenants_by_slug(database))["wanted"].tenant_id) as conn:
        assert await conn.fetchval("SELECT count(*) FROM roles") == 3


async def test_an_unknown_slug_is_not_found_and_the_error_says_where_to_look(
    database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    async with database.system() as conn:
        with pytest.raises(UnknownResource, match="there is no tenant `nobody`") as refused:
            await tenants_and_actors.get_tenant_by_slug(conn, "nobody")
    async with database.tenant(tenant) as conn:
        with pytest.raises(UnknownResource):  # there is one, but not as far as this tenant can see
            await tenants_and_actors.get_tenant_by_slug(conn, "rival")

    assert refused.value.code == "NOT_FOUND"
    assert find_fix(refused.value) == "`bpc tenants list` shows them"


async def test_deactivating_and_activating_a_tenant_both_append_an_event(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    acme = (await load_tenants_by_slug(database))["acme"]

    states = []
    for active in (False, True):
        await tenants_and_actors.set_tenant_active(database, acme, active=active, act=act)
        now = await load_tenants_by_slug(database)
        states.append((now["acme"].is_active, now["rival"].is_active))

    async with database.tenant(tenant) as conn:
        on_record = await list_events(conn, "Tenant")
    assert states == [(False, True), (True, True)]
    assert on_record[1:] == [("TENANT_CHANGED", '{"is_active":false}'), ("TENANT_CHANGED", '{"is_active":true}')]


async def test_the_system_lists_all_tenants_by_slug_and_a_tenant_sees_only_itself(
    database: Database, other_tenant: TenantId, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        alone = [tenant_row.slug for tenant_row in await tenants_and_actors.list_tenants(conn)]

    assert list(await load_tenants_by_slug(database)) == ["acme", "rival", "system"]
    assert alone == ["acme"]


# Actors ----------------------------------------------------------------------------------------------------


async def test_a_new_actor_has_its_roles_and_an_event(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        roles = ["ComplianceOfficer", "Auditor", "Auditor"]
        actor = await tenants_and_actors.create_actor(
            conn, tenant, kind="USER", display_name="Ada", roles=roles, act=act
        )

        await tenants_and_actors.require_active_actor(conn, tenant, actor)
        has = await conn.fetch(
            "SELECT name FROM actor_roles JOIN roles USING (tenant_id, role_id) WHERE actor_id = $1 ORDER BY name",
            actor,
        )
        on_record = await list_events(conn, "Actor")
    assert [row["name"] for row in has] == ["Auditor", "ComplianceOfficer"]
    assert on_record == [
        ("ACTOR_CREATED", '{"display_name":"Ada","roles":["Auditor","ComplianceOfficer"],"type":"USER"}')
    ]


async def test_an_unknown_role_is_refused_with_the_existing_roles_and_no_actor_is_created(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async def with_roles(*roles: str) -> None:
        async with database.tenant(tenant) as conn:
            await tenants_and_actors.create_actor(
                conn, tenant, kind="USER", display_name="Ada", roles=list(roles), act=act
            )

    for roles in (["Root"], ["Admin", "Root"], ["admin"]):
        with pytest.raises(RoleNameUnknown, match=f"there is no role `{roles[-1]}`") as refused:
            await with_roles(*roles)
        assert refused.value.fix == "the tenant's roles are `Admin`, `Auditor`, `ComplianceOfficer`"

    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM actors") == 0
        assert await list_events(conn, "Actor") == []


async def test_an_unknown_inactive_or_foreign_actor_is_refused(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    async with database.tenant(other_tenant) as conn:
        foreign = await tenants_and_actors.create_actor(
            conn, other_tenant, kind="SERVICE", display_name="B", roles=[], act=act
        )
    async with database.tenant(tenant) as conn:
        inactive = await tenants_and_actors.create_actor(
            conn, tenant, kind="SERVICE", display_name="A", roles=[], act=act
        )
        await conn.execute("UPDATE actors SET is_active = false WHERE actor_id = $1", inactive)

        for actor in (ActorId(clock.new_id()), inactive, foreign):
            with pytest.raises(UnknownResource, match=f"there is no active actor `{actor}`"):
                await tenants_and_actors.require_active_actor(conn, tenant, actor)


async def test_the_events_of_an_actor_name_it(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        first = await tenants_and_actors.create_actor(conn, tenant, kind="USER", display_name="Ada", roles=[], act=act)
        second = await tenants_and_actors.create_actor(
            conn, tenant, kind="USER", display_name="Bob", roles=[], act=Act(first, clock.now())
        )
        by = await conn.fetchval("SELECT actor_id FROM events WHERE aggregate_id = $1", second)

    assert by == first
