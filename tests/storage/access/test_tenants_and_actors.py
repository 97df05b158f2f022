"""Specification of tenants: made with their roles and on record, found by slug, deactivated and taken back."""

import asyncio

import pytest

from bpc import fresh
from bpc.core.access import PERMISSIONS, ROLES
from bpc.core.errors import Conflict, Invalid
from bpc.core.events import Act
from bpc.core.ids import ActorId, TenantId
from bpc.db import actors, events, tenants
from bpc.db.actors import ActorNotActive, RoleUnknown
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.tenants import SYSTEM_TENANT, Tenant, TenantUnknown

pytestmark = pytest.mark.external


async def recorded(conn: Connection, aggregate_type: str) -> list[tuple[str, str]]:
    """Event types and canonical payloads of a tenant's aggregates of one type, in their order."""
    found = await conn.fetch(
        """SELECT event_type, payload_canonical FROM events WHERE aggregate_type = $1
            ORDER BY aggregate_id, aggregate_version""",
        aggregate_type,
    )
    return [(row["event_type"], row["payload_canonical"].decode()) for row in found]


async def every(database: Database) -> dict[str, Tenant]:
    async with database.system() as conn:
        return {tenant.slug: tenant for tenant in await tenants.every(conn)}


async def test_a_new_tenant_is_active_and_on_record(database: Database, act: Act) -> None:
    created = await tenants.create(database, slug="acme", name="Acme Ltd.", act=act)

    async with database.tenant(created) as conn:
        found = await tenants.by_slug(conn, "acme")
        on_record = await recorded(conn, "Tenant")
        verified = await events.verify_tenant(conn, created)
    assert (found.tenant_id, found.slug, found.name, found.is_active) == (created, "acme", "Acme Ltd.", True)
    assert on_record == [("TENANT_CREATED", '{"name":"Acme Ltd.","slug":"acme"}')]
    assert (verified.chains, verified.faults) == (4, ())  # the tenant and its three roles


async def test_a_new_tenant_has_the_three_roles_with_the_permissions_of_the_matrix(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        found = await conn.fetch(
            """SELECT r.name, array_agg(p.permission) AS permissions
                 FROM roles r JOIN role_permissions p USING (tenant_id, role_id) GROUP BY r.name"""
        )
        on_record = await recorded(conn, "Role")

    assert {row["name"]: set(row["permissions"]) for row in found} == {name: set(ROLES[name]) for name in ROLES}
    assert [event_type for event_type, _ in on_record] == ["ROLE_CREATED"] * 3


async def test_the_database_knows_exactly_the_permissions_of_the_product(database: Database) -> None:
    async with database.system() as conn:
        found = {row["permission"] for row in await conn.fetch("SELECT permission FROM permissions")}

    assert found == set(PERMISSIONS)


async def test_every_installation_has_the_tenant_of_jobs_that_belong_to_none(database: Database) -> None:
    found = await every(database)

    assert list(found) == ["system"]
    assert (found["system"].tenant_id, found["system"].is_active) == (SYSTEM_TENANT, True)


@pytest.mark.parametrize("slug", ["abc", "a" * 64, "0-9", "---", "acme-2"])
async def test_a_slug_is_3_to_64_of_small_letters_digits_and_hyphens(database: Database, act: Act, slug: str) -> None:
    await tenants.create(database, slug=slug, name="Name", act=act)

    assert slug in await every(database)


async def test_any_other_slug_is_refused_and_nothing_of_the_tenant_stays(database: Database, act: Act) -> None:
    for slug in ("ab", "a" * 65, "", "Acme", "a_b", "a b", "acme\n", "\nacme", "äbc", "acme/x", "١٢٣"):
        with pytest.raises(Invalid, match="3 to 64 of a-z, 0-9 and `-`") as refused:
            await tenants.create(database, slug=slug, name="Name", act=act)
        assert refused.value.code == "VALIDATION_ERROR"

    assert list(await every(database)) == ["system"]


async def test_a_slug_that_is_taken_is_a_conflict_and_leaves_the_first_tenant_as_it_was(
    database: Database, tenant: TenantId, act: Act
) -> None:
    with pytest.raises(Conflict, match="a tenant with this slug exists already"):
        await tenants.create(database, slug="acme", name="Impostor", act=act)

    found = (await every(database))["acme"]
    assert (found.tenant_id, found.name) == (tenant, "Acme")


async def test_of_many_who_want_a_slug_at_once_one_gets_it_whole(database: Database, act: Act) -> None:
    said = await asyncio.gather(
        *(tenants.create(database, slug="wanted", name=f"Nr {n}", act=act) for n in range(8)), return_exceptions=True
    )

    assert sorted(type(outcome).__name__ for outcome in said) == ["Conflict"] * 7 + ["UUID"]
    async with database.tenant((await every(database))["wanted"].tenant_id) as conn:
        assert await conn.fetchval("SELECT count(*) FROM roles") == 3


async def test_a_slug_nobody_has_is_not_found_and_the_error_says_where_to_look(
    database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    async with database.system() as conn:
        with pytest.raises(TenantUnknown, match="there is no tenant `nobody`") as refused:
            await tenants.by_slug(conn, "nobody")
    async with database.tenant(tenant) as conn:
        with pytest.raises(TenantUnknown):  # there is one, but not as far as this tenant can see
            await tenants.by_slug(conn, "rival")

    assert refused.value.code == "NOT_FOUND"
    assert "bpc tenant list" in (refused.value.fix or "")


async def test_a_tenant_is_deactivated_and_taken_back_and_both_are_on_record(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    acme = (await every(database))["acme"]

    seen = []
    for active in (False, True):
        await tenants.set_active(database, acme, active=active, act=act)
        now = await every(database)
        seen.append((now["acme"].is_active, now["rival"].is_active))

    async with database.tenant(tenant) as conn:
        on_record = await recorded(conn, "Tenant")
    assert seen == [(False, True), (True, True)]
    assert on_record[1:] == [("TENANT_CHANGED", '{"is_active":false}'), ("TENANT_CHANGED", '{"is_active":true}')]


async def test_tenants_are_listed_by_slug_to_the_system_and_alone_to_themselves(
    database: Database, other_tenant: TenantId, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        alone = [found.slug for found in await tenants.every(conn)]

    assert list(await every(database)) == ["acme", "rival", "system"]
    assert alone == ["acme"]


# Actors ----------------------------------------------------------------------------------------------------


async def test_a_new_actor_has_its_roles_and_is_on_record(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        roles = ["ComplianceOfficer", "Auditor", "Auditor"]
        actor = await actors.create(conn, tenant, kind="USER", display_name="Ada", roles=roles, act=act)

        await actors.require(conn, tenant, actor)
        has = await conn.fetch(
            "SELECT name FROM actor_roles JOIN roles USING (tenant_id, role_id) WHERE actor_id = $1 ORDER BY name",
            actor,
        )
        on_record = await recorded(conn, "Actor")
    assert [row["name"] for row in has] == ["Auditor", "ComplianceOfficer"]
    assert on_record == [
        ("ACTOR_CREATED", '{"display_name":"Ada","roles":["Auditor","ComplianceOfficer"],"type":"USER"}')
    ]


async def test_an_unknown_role_is_refused_with_the_ones_there_are_and_the_actor_is_not_made(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async def with_roles(*roles: str) -> None:
        async with database.tenant(tenant) as conn:
            await actors.create(conn, tenant, kind="USER", display_name="Ada", roles=list(roles), act=act)

    for roles in (["Root"], ["Admin", "Root"], ["admin"]):
        with pytest.raises(RoleUnknown, match=f"there is no role `{roles[-1]}`") as refused:
            await with_roles(*roles)
        assert refused.value.fix == "the tenant's roles are `Admin`, `Auditor`, `ComplianceOfficer`"

    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM actors") == 0
        assert await recorded(conn, "Actor") == []


async def test_an_actor_that_is_unknown_inactive_or_anothers_is_refused(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    async with database.tenant(other_tenant) as conn:
        foreign = await actors.create(conn, other_tenant, kind="SERVICE", display_name="B", roles=[], act=act)
    async with database.tenant(tenant) as conn:
        inactive = await actors.create(conn, tenant, kind="SERVICE", display_name="A", roles=[], act=act)
        await conn.execute("UPDATE actors SET is_active = false WHERE actor_id = $1", inactive)

        for actor in (ActorId(fresh.new_id()), inactive, foreign):
            with pytest.raises(ActorNotActive, match=str(actor)):
                await actors.require(conn, tenant, actor)


async def test_what_an_actor_does_is_on_record_under_its_name(database: Database, tenant: TenantId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        first = await actors.create(conn, tenant, kind="USER", display_name="Ada", roles=[], act=act)
        second = await actors.create(
            conn, tenant, kind="USER", display_name="Bob", roles=[], act=Act(first, fresh.now())
        )
        by = await conn.fetchval("SELECT actor_id FROM events WHERE aggregate_id = $1", second)

    assert by == first
