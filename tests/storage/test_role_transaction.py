"""Specification of transactions that begin with a role and a tenant: one round trip, and nothing of it stays."""

import asyncio
from contextlib import suppress

import asyncpg
import pytest

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import APP_ROLE, SYSTEM_ROLE, Connection, RoleTransaction
from bpc.storage.database import Database, begin_tenant_transaction, begin_transaction
from tests.storage import evidence_rows

pytestmark = pytest.mark.external

WHO = "SELECT current_user::text, nullif(current_setting('app.tenant_id', true), '')"


async def _ask_who(conn: Connection) -> tuple[str, str | None]:
    row = await conn.fetchrow(WHO)
    assert row is not None
    return row[0], row[1]


async def test_role_and_tenant_are_set_with_the_begin_and_before_any_statement(
    database: Database, tenant: TenantId
) -> None:
    statements: list[str] = []
    async with database.plain() as conn:
        with conn.query_logger(lambda record: statements.append(record.query)):
            async with begin_transaction(conn, SYSTEM_ROLE, tenant):
                assert await _ask_who(conn) == (SYSTEM_ROLE, str(tenant))
            assert await _ask_who(conn) == (APP_ROLE, None)

    begin, who, commit, *_ = statements
    assert begin == f"BEGIN; SET LOCAL ROLE {SYSTEM_ROLE}; SET LOCAL app.tenant_id = '{tenant}'"
    assert (who, commit) == (WHO, "COMMIT;")


async def test_a_transaction_inside_is_a_savepoint(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await evidence_rows.insert_document_version(conn, tenant)
        with suppress(asyncpg.DivisionByZeroError):
            async with conn.transaction():
                await evidence_rows.insert_document_version(conn, tenant)
                await conn.execute("SELECT 1 / 0")
        assert await conn.fetchval("SELECT count(*) FROM documents") == 1

    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM documents") == 1


async def test_one_inside_another_takes_on_its_role_and_is_rolled_back_alone(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        with suppress(asyncpg.DivisionByZeroError):
            async with begin_transaction(conn, SYSTEM_ROLE):
                assert await _ask_who(conn) == (SYSTEM_ROLE, str(tenant))
                await conn.execute("SELECT 1 / 0")
        assert await _ask_who(conn) == (APP_ROLE, str(tenant))


async def test_settings_that_are_refused_leave_no_transaction_open(
    single_connection: Database, tenant: TenantId
) -> None:
    async with single_connection.plain() as conn:
        with pytest.raises(asyncpg.InvalidParameterValueError):
            async with RoleTransaction(conn, "SET LOCAL ROLE nobody_of_this_name"):
                pytest.fail("it must not begin")
        assert not conn.is_in_transaction()
        async with begin_tenant_transaction(conn, tenant):
            assert await _ask_who(conn) == (APP_ROLE, str(tenant))


async def test_one_that_is_cancelled_while_it_begins_leaves_nothing_to_the_next(
    single_connection: Database, tenant: TenantId
) -> None:
    async def begin_slowly() -> None:
        async with (
            single_connection.plain() as conn,
            RoleTransaction(conn, f"SET LOCAL app.tenant_id = '{tenant}'; SELECT pg_sleep(5)"),
        ):
            pytest.fail("it must not begin")

    task = asyncio.create_task(begin_slowly())
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async with single_connection.plain() as conn:
        assert not conn.is_in_transaction()
        assert await _ask_who(conn) == (APP_ROLE, None)


async def test_it_is_never_taken_for_one_inside_another(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        with pytest.raises(asyncpg.InterfaceError, match="already"):
            async with RoleTransaction(conn, f"SET LOCAL ROLE {SYSTEM_ROLE}"):
                pytest.fail("it must not begin")
        assert await _ask_who(conn) == (APP_ROLE, str(tenant))
