"""A database that is lent again is like a new one, whatever the test before did to it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from bpc.core.audit.events import Act
from bpc.storage.access import tenants_and_actors
from tests.databases import DatabaseStock
from tests.fixtures import TestServer

COUNT_ROWS = "SELECT (SELECT count(*) FROM tenants), (SELECT count(*) FROM events), (SELECT count(*) FROM permissions)"
# Each leaves something that removing rows does not take away.
CHANGES = {
    "a column": "ALTER TABLE tenants ADD COLUMN left_over int",
    "a table that others refer to": "CREATE TABLE left_over (n int PRIMARY KEY); INSERT INTO left_over VALUES (1);"
    " ALTER TABLE tenants ADD COLUMN n int REFERENCES left_over",
    "a trigger that is off": "ALTER TABLE events DISABLE TRIGGER ALL",
    "a right": "GRANT DELETE ON events TO bpc_app",
    "a policy": "ALTER TABLE tenants DISABLE ROW LEVEL SECURITY",
    "a function": "CREATE FUNCTION left_over() RETURNS int LANGUAGE sql RETURN 1",
    "a missing constraint": "ALTER TABLE permissions DROP CONSTRAINT permissions_pkey CASCADE",
    "statistics": "INSERT INTO permissions VALUES ('x'); ANALYZE permissions",
    "a setting": "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = %L', current_database(), '1MB'); END $$",
    "large files": "INSERT INTO permissions SELECT repeat('x', 100) || n FROM generate_series(1, 20000) AS n",
}


@pytest.fixture
async def stock(server: TestServer, template_name: str) -> AsyncIterator[DatabaseStock]:
    opened = DatabaseStock(server.admin, server.login, template_name, server.copy_strategy)
    yield opened
    await opened.close()


async def test_rows_are_removed_where_nobody_may_remove_them_and_those_of_the_template_are_back(
    stock: DatabaseStock, act: Act
) -> None:
    async with stock.lend() as lent, lent.use_pool() as database, lent.use_superuser() as superuser:
        new = await superuser.fetchrow(COUNT_ROWS)
        await tenants_and_actors.create_tenant(database, slug="acme", name="Acme", act=act)
        await superuser.execute("DELETE FROM schema_migrations; UPDATE tenants SET name = 'changed'")
        await superuser.execute("SELECT setval('jobs.job_ready_seq_seq', 500)")
        used = await superuser.fetchrow(COUNT_ROWS)
    async with stock.lend() as again, again.use_superuser() as superuser:
        assert again is lent
        assert await superuser.fetchrow(COUNT_ROWS) == new != used
        assert await superuser.fetchval("SELECT count(*) FROM schema_migrations") > 0
        assert await superuser.fetchval("SELECT count(*) FROM tenants WHERE name = 'changed'") == 0
        assert await superuser.fetchval("SELECT nextval('jobs.job_ready_seq_seq')") == 1


async def test_a_table_that_a_test_made_is_gone(stock: DatabaseStock) -> None:
    async with stock.lend() as lent, lent.use_superuser() as superuser:
        await superuser.execute("CREATE TABLE left_over (n int PRIMARY KEY, words text)")
    async with stock.lend() as again, again.use_superuser() as superuser:
        assert again is lent
        assert await superuser.fetchval("SELECT to_regclass('left_over')") is None


@pytest.mark.every_case
@pytest.mark.parametrize("change", CHANGES)
async def test_a_database_is_not_lent_again_once_more_than_rows_was_changed(stock: DatabaseStock, change: str) -> None:
    async with stock.lend() as lent, lent.use_superuser() as superuser:
        await superuser.execute(CHANGES[change])
    async with stock.lend() as next_one:
        assert next_one is not lent


async def test_connections_stay_open_and_forget_what_was_set(stock: DatabaseStock) -> None:
    async with stock.lend() as lent, lent.use_pool() as database, lent.use_superuser() as superuser:
        pid = await superuser.fetchval("SELECT pg_backend_pid()")
        await superuser.execute("SET session_replication_role = replica; SET ROLE bpc_app; LISTEN something")
        async with database.plain() as conn:
            pool_pid = await conn.fetchval("SELECT pg_backend_pid()")
    async with stock.lend() as again, again.use_pool() as database, again.use_superuser() as superuser:
        assert await superuser.fetchval("SELECT pg_backend_pid()") == pid
        assert await superuser.fetchval("SELECT current_user") == await superuser.fetchval("SELECT session_user")
        assert await superuser.fetchval("SHOW session_replication_role") == "origin"
        assert await superuser.fetch("SELECT pg_listening_channels()") == []
        async with database.plain() as conn:
            assert await conn.fetchval("SELECT pg_backend_pid()") == pool_pid


async def test_a_session_and_a_lock_that_a_test_left_are_ended(stock: DatabaseStock, server: TestServer) -> None:
    async with stock.lend() as lent:
        arguments = server.admin.with_database(lent.address.database).connect_arguments()
        left = await asyncpg.connect(**arguments)
        await left.execute("BEGIN; LOCK TABLE events; SELECT pg_advisory_lock(1)")
    async with stock.lend() as again, again.use_superuser() as superuser:
        assert again is lent
        assert await superuser.fetchval("SELECT pg_try_advisory_lock(1)")
    left.terminate()


async def test_a_pool_whose_connections_did_not_come_back_is_replaced(stock: DatabaseStock) -> None:
    async with stock.lend() as lent, lent.use_pool() as database:
        await database.pool.acquire()
        database.pool.terminate()
    async with stock.lend() as again, again.use_pool() as other, other.plain() as conn:
        assert other is not database
        assert await conn.fetchval("SELECT 1") == 1
