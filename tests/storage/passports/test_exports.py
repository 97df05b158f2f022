"""Exports in the database: what is asked for never changes, what was made is written once, lists come from an index."""

import asyncpg
import pytest

from bpc.core.ids import TenantId
from bpc.db import exports
from bpc.db.database import Database
from bpc.db.roles import APP, OWNER, SYSTEM
from tests.db import rows
from tests.db.rows import acting, outcome
from tests.jobs.test_explain import assert_no_walk, on, plan_of

NO_RIGHT = "42501"
REFUSED = "BP001"
CHECK = "23514"
MANY = """
    INSERT INTO passport_exports (tenant_id, export_id, passport_version_id, format, audience, mime_type, file_name,
                                  job_id, created_at)
    SELECT v.tenant_id, gen_random_uuid(), v.passport_version_id, 'XML', 'tenant', 'application/xml', 'passport.xml',
           gen_random_uuid(), now() - n * interval '1 second'
      FROM passport_versions v, generate_series(1, 400) AS n
"""


@pytest.fixture(autouse=True)
async def keys(database: Database) -> None:
    await rows.signing_keys(database)


def setting(what: str) -> str:
    return f"UPDATE passport_exports SET {what} WHERE export_id = $1"


READY = r"status = 'READY', content = '\x00', sha256 = sha256('\x00'), finished_at = now()"
FAILED = "status = 'FAILED', last_error = '{}', finished_at = now()"


async def test_what_is_ready_never_changes(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        export = await rows.an_export(conn, tenant, status="READY")

    for role in (APP, SYSTEM, OWNER):
        async with acting(superuser, role, tenant):
            for change in (READY, FAILED, r"content = '\x01'", "finished_at = now()", "status = 'PENDING'"):
                assert await outcome(superuser, setting(change), export) == REFUSED, (role, change)


async def test_what_was_asked_for_never_changes_and_nothing_begins_again(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        pending, failed = await rows.an_export(conn, tenant), await rows.an_export(conn, tenant, status="FAILED")

    async with acting(superuser, OWNER, tenant):
        for column, value in (("format", "'PDF'"), ("audience", "'public'"), ("file_name", "'x'"), ("job_id", "NULL")):
            assert await outcome(superuser, setting(f"{column} = {value}"), pending) == REFUSED
    for role in (APP, SYSTEM, OWNER):
        async with acting(superuser, role, tenant):
            assert await outcome(superuser, setting(READY), pending) == "UPDATE 1"
            assert await outcome(superuser, setting(FAILED), pending) == "UPDATE 1"
            assert await outcome(superuser, setting("status = 'READY', finished_at = now()"), pending) == CHECK
            assert await outcome(superuser, setting("status = 'PENDING', last_error = NULL"), failed) == REFUSED
            assert await outcome(superuser, setting(f"{READY}, last_error = NULL"), failed) == "UPDATE 1", "tried again"


async def test_only_retention_deletes_and_a_version_goes_after_its_exports(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        version = await rows.a_passport_version(conn, tenant, status="REVOKED")
        await rows.an_export(conn, tenant, version=version, status="READY")

    async with acting(superuser, APP, tenant):
        assert await outcome(superuser, "DELETE FROM passport_exports") == NO_RIGHT
    async with acting(superuser, SYSTEM, tenant):
        assert await outcome(superuser, "DELETE FROM passport_versions") == "23503"
        await superuser.execute("DELETE FROM passport_exports")
        assert await outcome(superuser, "DELETE FROM passport_versions") == "DELETE 1"


async def test_the_exports_of_a_version_are_read_from_their_index(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, other_tenant: TenantId
) -> None:
    for each in (tenant, other_tenant):
        async with database.tenant(each) as conn:
            for _ in range(3):
                await rows.a_passport_version(conn, each, status="SIGNED")
    await superuser.execute(MANY)
    await superuser.execute("VACUUM ANALYZE passport_exports")

    async with database.tenant(tenant) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        for statement, index in ((exports.PAGE, "passport_exports_by_time"), (exports.ONE, "passport_exports_pkey")):
            nodes = await plan_of(conn, statement)

            assert_no_walk(nodes)
            [scan] = on(nodes, "passport_exports")
            assert scan.index == index
            assert not [node for node in nodes if "Sort" in node.kind]
