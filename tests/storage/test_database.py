"""Specification of the pool: each use is a transaction with a role and a tenant, and leaves nothing behind.

An error inside is rolled back and becomes a refusal, and the pool keeps working.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from itertools import product

import asyncpg
import pytest

from bpc.core.errors import Conflict, DatabaseUnavailable
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage import database as database_module
from bpc.storage.connection import APP_ROLE, SYSTEM_ROLE, Connection
from bpc.storage.database import Database, PowerfulLogin, open_database, require_plain_login
from tests.storage import evidence_rows
from tests.storage.probes import get_backend_pid, is_working
from tests.storage.statements import insert_row

pytestmark = pytest.mark.external


# What happens inside a use ---------------------------------------------------------------------------------


class Unrelated(Exception):
    """Not a matter of the database."""


async def test_an_error_of_the_caller_is_raised_unchanged_and_rolls_everything_back(
    single_connection: Database, database: Database, tenant: TenantId
) -> None:
    raised = Unrelated()

    async def change_my_mind() -> None:
        async with single_connection.tenant(tenant) as conn:
            await evidence_rows.insert_document_version(conn, tenant)
            raise raised

    with pytest.raises(Unrelated) as caught:
        await change_my_mind()

    assert caught.value is raised
    async with single_connection.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM documents") == 0


@pytest.mark.parametrize(
    ("statement", "arguments", "error"),
    [
        ("SELECT * FROM no_such_table", (), asyncpg.UndefinedTableError),
        ("SELECT 1 / 0", (), asyncpg.DivisionByZeroError),
        ("INSERT INTO roles (tenant_id, name) VALUES (NULL, NULL)", (), asyncpg.PostgresError),
        ("SELECT $1::int", ("not a number",), asyncpg.DataError),
        ("SELECT $1::int", (1, 2), asyncpg.InterfaceError),
    ],
    ids=["no such table", "division", "not null", "wrong argument", "one argument too many"],
)
async def test_an_error_in_sql_is_raised_unchanged_and_the_connection_is_used_again(
    single_connection: Database, statement: str, arguments: tuple[object, ...], error: type[Exception]
) -> None:
    async with single_connection.system() as conn:
        before = await get_backend_pid(conn)

    async def mistake() -> None:
        async with single_connection.system() as conn:
            await conn.execute(statement, *arguments)

    with pytest.raises(error):
        await mistake()

    async with single_connection.system() as conn:
        assert await get_backend_pid(conn) == before


async def test_two_statements_at_once_on_one_connection_are_a_bug_and_not_an_outage(
    single_connection: Database,
) -> None:
    async def both_at_once() -> None:
        async with single_connection.system() as conn:
            await asyncio.gather(conn.execute("SELECT pg_sleep(0.05)"), conn.execute("SELECT 1"))

    with pytest.raises(asyncpg.InterfaceError, match="another operation is in progress"):
        await both_at_once()
    assert await is_working(single_connection)


async def test_a_violated_constraint_becomes_a_refusal_and_the_connection_is_used_again(
    single_connection: Database, database: Database, tenant: TenantId
) -> None:
    async with single_connection.tenant(tenant) as conn:
        before = await get_backend_pid(conn)

    async def twice() -> None:
        async with single_connection.tenant(tenant) as conn:
            for _ in range(2):
                await insert_row(conn, "roles", tenant_id=tenant, role_id=clock.new_id(), name="Twice")

    with pytest.raises(Conflict, match="a role with this name already exists"):
        await twice()

    async with single_connection.tenant(tenant) as conn:
        assert await get_backend_pid(conn) == before
        assert await conn.fetchval("SELECT count(*) FROM roles WHERE name = 'Twice'") == 0


async def test_a_nested_transaction_can_be_rolled_back_alone(database: Database, tenant: TenantId) -> None:
    async def inner(conn: Connection, name: str, *, fails: bool) -> None:
        async with conn.transaction():
            await insert_row(conn, "roles", tenant_id=tenant, role_id=clock.new_id(), name=name)
            if fails:
                raise Unrelated

    async with database.tenant(tenant) as conn:
        await inner(conn, "Kept", fails=False)
        with pytest.raises(Unrelated):
            await inner(conn, "Dropped", fails=True)
        with pytest.raises(asyncpg.UniqueViolationError):
            await inner(conn, "Admin", fails=False)
        assert await conn.fetchval("SELECT current_user || '/' || current_tenant()") == f"{APP_ROLE}/{tenant}"

    async with database.tenant(tenant) as conn:
        names = [row["name"] for row in await conn.fetch("SELECT name FROM roles ORDER BY name")]
    assert names == ["Admin", "Auditor", "ComplianceOfficer", "Kept"]


# Between two uses ------------------------------------------------------------------------------------------


async def test_role_tenant_and_settings_end_with_their_use_however_it_ends(
    single_connection: Database, database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    async def use_carelessly(use: AbstractAsyncContextManager[Connection], *, ends_badly: bool) -> None:
        async with use as conn:
            pids.add(await get_backend_pid(conn))
            # Not LOCAL: what careless code would do.
            await conn.execute(f"SET ROLE {SYSTEM_ROLE}; SET app.tenant_id = '{tenant}'; SET statement_timeout = '9s'")
            if ends_badly:
                raise Unrelated

    pids: set[int] = set()
    states: set[tuple[object, ...]] = set()
    for bound_tenant, ends_badly in product((None, tenant, other_tenant), (False, True)):
        use = (
            single_connection.tenant(bound_tenant) if bound_tenant == tenant else single_connection.system(bound_tenant)
        )
        with suppress(Unrelated):
            await use_carelessly(use, ends_badly=ends_badly)
        now = await single_connection.pool.fetchrow(
            "SELECT pg_backend_pid(), current_user, current_tenant(), current_setting('statement_timeout')"
        )
        assert now is not None
        pids.add(now[0])
        states.add(tuple(now)[1:])

    assert len(pids) == 1, "the connection was used again"
    assert states == {(APP_ROLE, None, "0")}


async def test_each_transaction_has_its_own_role_and_tenant(
    single_connection: Database, database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    uses = [
        (single_connection.tenant(tenant), (APP_ROLE, tenant)),
        (single_connection.tenant(other_tenant), (APP_ROLE, other_tenant)),
        (single_connection.system(), (SYSTEM_ROLE, None)),
        (single_connection.system(tenant), (SYSTEM_ROLE, tenant)),
        (single_connection.system(), (SYSTEM_ROLE, None)),
        (single_connection.tenant(tenant), (APP_ROLE, tenant)),
    ]

    for use, expected in uses:
        async with use as conn:
            now = await conn.fetchrow("SELECT current_user, current_tenant()")
            assert now is not None
            assert tuple(now) == expected


async def test_sessions_of_the_pool_use_utc_and_the_public_schema_only(single_connection: Database) -> None:
    async with single_connection.system() as conn:
        settings = [await conn.fetchval(f"SHOW {name}") for name in ("TimeZone", "search_path", "application_name")]

    assert settings == ["UTC", "public", "bpc"]


async def test_with_more_users_than_connections_all_wait_and_all_succeed(address: Address) -> None:
    database = await open_database(address, pool_size=2)
    at_once, most, served = 0, 0, 0

    async def use() -> None:
        nonlocal at_once, most, served
        async with database.system() as conn:
            at_once += 1
            most = max(most, at_once)
            await conn.execute("SELECT pg_sleep(0.005)")
            at_once -= 1
            served += 1

    await asyncio.gather(*(use() for _ in range(20)))
    await database.close()

    assert (served, most) == (20, 2)


async def test_waiting_too_long_for_a_connection_means_that_the_database_is_unavailable(
    single_connection: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "ACQUIRE_SECONDS", 0.02)

    async with single_connection.system():
        with pytest.raises(DatabaseUnavailable) as refused:
            await is_working(single_connection)

    assert refused.value.retryable
    assert refused.value.says.startswith("all 1 database connections have been busy")
    assert await is_working(single_connection)


async def test_a_cancelled_task_returns_its_connection_clean(
    single_connection: Database, database: Database, tenant: TenantId
) -> None:
    inside = asyncio.Event()

    async def use() -> None:
        async with single_connection.tenant(tenant) as conn:
            await evidence_rows.insert_document_version(conn, tenant)
            inside.set()
            await conn.execute("SELECT pg_sleep(60)")

    using = asyncio.create_task(use())
    await inside.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using

    async with single_connection.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM documents") == 0


async def test_a_service_in_prod_is_no_superuser(superuser: Connection, database: Database) -> None:
    async with database.plain() as conn:
        await require_plain_login(conn)

    with pytest.raises(PowerfulLogin) as refused:
        await require_plain_login(superuser)
    assert (refused.value.code, refused.value.hint) == ("CONFIG_MISSING", "use a plain login")
