"""Exports in the database: what is asked for never changes, what was made is written once, lists come from an index."""

import asyncpg
import pytest
from tests.jobs.support.query_plans import explain_plan, list_nodes_on, require_no_full_scan

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import APP_ROLE, OWNER_ROLE, SYSTEM_ROLE
from bpc.storage.database import Database
from bpc.storage.passports import exports
from tests.storage import rows
from tests.storage.statements import act_as_role, try_statement

NO_RIGHT = "42501"
REFUSED = "BP001"
CHECK = "23514"
INSERT_MANY_EXPORTS = """
    INSERT INTO passport_exports (tenant_id, export_id, passport_version_id, format, audience, mime_type, file_name,
                                  job_id, created_at)
    SELECT v.tenant_id, gen_random_uuid(), v.passport_version_id, 'XML', 'tenant', 'application/xml', 'passport.xml',
           gen_random_uuid(), now() - n * interval '1 second'
      FROM passport_versions v, generate_series(1, 400) AS n
"""


@pytest.fixture(autouse=True)
async def signing_keys(database: Database) -> None:
    await rows.insert_signing_keys(database)


def update_export(assignments: str) -> str:
    return f"UPDATE passport_exports SET {assignments} WHERE export_id = $1"


READY = r"status = 'READY', content = '\x00', sha256 = sha256('\x00'), finished_at = now()"
FAILED = "status = 'FAILED', last_error = '{}', finished_at = now()"


async def test_a_ready_export_never_changes(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        export = await rows.insert_export(conn, tenant, status="READY")

    for role in (APP_ROLE, SYSTEM_ROLE, OWNER_ROLE):
        async with act_as_role(superuser, role, tenant):
            for change in (READY, FAILED, r"content = '\x01'", "finished_at = now()", "status = 'PENDING'"):
                assert await try_statement(superuser, update_export(change), export) == REFUSED, (role, change)


async def test_a_requested_export_never_changes_and_never_starts_again(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        pending, failed = (
            await rows.insert_export(conn, tenant),
            await rows.insert_export(conn, tenant, status="FAILED"),
        )

    async with act_as_role(superuser, OWNER_ROLE, tenant):
        for column, value in (("format", "'PDF'"), ("audience", "'public'"), ("file_name", "'x'"), ("job_id", "NULL")):
            assert await try_statement(superuser, update_export(f"{column} = {value}"), pending) == REFUSED
    for role in (APP_ROLE, SYSTEM_ROLE, OWNER_ROLE):
        async with act_as_role(superuser, role, tenant):
            assert await try_statement(superuser, update_export(READY), pending) == "UPDATE 1"
            assert await try_statement(superuser, update_export(FAILED), pending) == "UPDATE 1"
            assert (
                await try_statement(superuser, update_export("status = 'READY', finished_at = now()"), pending) == CHECK
            )
            assert (
                await try_statement(superuser, update_export("status = 'PENDING', last_error = NULL"), failed)
                == REFUSED
            )
            assert await try_statement(superuser, update_export(f"{READY}, last_error = NULL"), failed) == "UPDATE 1", (
                "tried again"
            )


async def test_only_retention_deletes_exports_and_a_version_only_after_its_exports(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        version = await rows.insert_passport_version(conn, tenant, status="REVOKED")
        await rows.insert_export(conn, tenant, version=version, status="READY")

    async with act_as_role(superuser, APP_ROLE, tenant):
        assert await try_statement(superuser, "DELETE FROM passport_exports") == NO_RIGHT
    async with act_as_role(superuser, SYSTEM_ROLE, tenant):
        assert await try_statement(superuser, "DELETE FROM passport_versions") == "23503"
        await superuser.execute("DELETE FROM passport_exports")
        assert await try_statement(superuser, "DELETE FROM passport_versions") == "DELETE 1"


async def test_the_exports_of_a_version_are_read_from_their_index(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, other_tenant: TenantId
) -> None:
    for tenant_id in (tenant, other_tenant):
        async with database.tenant(tenant_id) as conn:
            for _ in range(3):
                await rows.insert_passport_version(conn, tenant_id, status="SIGNED")
    await superuser.execute(INSERT_MANY_EXPORTS)
    await superuser.execute("VACUUM ANALYZE passport_exports")

    async with database.tenant(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        for statement, index in (
            (exports.SELECT_EXPORT_PAGE, "passport_exports_by_time"),
            (exports.SELECT_EXPORT, "passport_exports_pkey"),
        ):
            nodes = await explain_plan(conn, statement)

            require_no_full_scan(nodes)
            [scan] = list_nodes_on(nodes, "passport_exports")
            assert scan.index == index
            assert not [node for node in nodes if "Sort" in node.kind]
