"""Specification of the pool without a server, with a lost one, and with one that asks to try again."""

import asyncio
import socket
from pathlib import Path

import asyncpg
import pytest

from bpc.cli.support.output import find_fix
from bpc.core.errors import DatabaseUnavailable
from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.database import Database, open_database
from tests.storage.probes import Superuser, get_backend_pid, is_working

pytestmark = pytest.mark.external


def find_unused_address() -> Address:
    """An address where nothing listens."""
    with socket.socket() as unused_socket:
        unused_socket.bind(("127.0.0.1", 0))
        port = unused_socket.getsockname()[1]
    return Address(host="127.0.0.1", port=port, user="bpc", database="bpc")


# Reaching the server ---------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_unavailable_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    no_socket = Address(host=str(tmp_path), port=5432, user="bpc", database="bpc")

    for address in (find_unused_address(), no_socket):
        with pytest.raises(DatabaseUnavailable, match="PostgreSQL cannot be reached") as refused:
            await open_database(address, pool_size=1)

        assert refused.value.code == "DB_UNAVAILABLE"
        assert refused.value.retryable
        assert "bpc doctor" in (find_fix(refused.value) or "")


async def test_a_login_or_a_database_that_does_not_exist_is_unavailable_and_shows_no_password(
    address: Address,
) -> None:
    stranger = Address.parse(f"postgresql://nobody_at_all:hunter2@/{address.database}?host={address.host}")

    for wrong in (stranger, address.with_database("no_such_database")):
        with pytest.raises(DatabaseUnavailable, match="the database refuses this login") as refused:
            await open_database(wrong, pool_size=1)

        assert "hunter2" not in f"{refused.value.says} {find_fix(refused.value)} {refused.value.details}"
        assert "DATABASE_URL" in (find_fix(refused.value) or "")


async def test_the_server_is_restarted_once_and_then_the_connection_is_tried_again() -> None:
    restarts = []

    with pytest.raises(DatabaseUnavailable):
        await open_database(find_unused_address(), pool_size=1, restart_server=lambda: restarts.append("revive"))

    assert restarts == ["revive"]


async def test_a_closed_pool_is_unavailable_and_can_be_closed_again(single_connection: Database) -> None:
    assert await is_working(single_connection)
    await single_connection.close()

    with pytest.raises(DatabaseUnavailable):
        await is_working(single_connection)

    await single_connection.close()


# Losing the server in the middle ---------------------------------------------------------------------------


async def test_a_connection_that_is_cut_in_a_transaction_is_unavailable_and_replaced(
    single_connection: Database, superuser: Superuser
) -> None:
    for what_comes_next in ("SELECT 1", "COMMIT"):
        pids: list[int] = []

        async def cut(statement: str, pids: list[int]) -> None:
            async with single_connection.system() as conn:
                pids.append(await get_backend_pid(conn))
                await superuser.execute("SELECT pg_terminate_backend($1, 5000)", pids[0])
                if statement != "COMMIT":
                    await conn.execute(statement)

        with pytest.raises(DatabaseUnavailable) as refused:
            await cut(what_comes_next, pids)

        assert refused.value.retryable
        assert await is_working(single_connection)
        async with single_connection.system() as conn:
            assert await get_backend_pid(conn) != pids[0]


async def test_a_connection_that_is_cut_while_a_statement_runs_is_unavailable(
    single_connection: Database, superuser: Superuser
) -> None:
    pid = asyncio.get_running_loop().create_future()

    async def sleep() -> None:
        async with single_connection.system() as conn:
            pid.set_result(await get_backend_pid(conn))
            await conn.execute("SELECT pg_sleep(60)")

    sleeping = asyncio.create_task(sleep())
    await superuser.execute("SELECT pg_terminate_backend($1, 5000)", await pid)

    with pytest.raises(DatabaseUnavailable):
        await sleeping
    assert await is_working(single_connection)


async def test_a_connection_cut_while_idle_causes_at_most_one_error(
    single_connection: Database, superuser: Superuser
) -> None:
    async with single_connection.system() as conn:
        pid = await get_backend_pid(conn)
    await superuser.execute("SELECT pg_terminate_backend($1, 5000)", pid)

    try:
        assert await is_working(single_connection)
    except DatabaseUnavailable:  # the driver had not heard of it yet
        assert await is_working(single_connection)


async def test_a_connection_that_cannot_be_reset_is_replaced_and_the_commit_still_succeeds(
    address: Address, single_connection: Database
) -> None:
    async def fail(conn: object) -> None:
        raise asyncpg.ConnectionDoesNotExistError("gone between commit and reset")

    pool = await asyncpg.create_pool(**address.connect_arguments(), min_size=1, max_size=1, reset=fail)
    database = Database(pool, address)
    pids = []
    for _ in range(2):
        async with database.system() as conn:
            pids.append(await get_backend_pid(conn))
    await database.close()

    assert pids[0] != pids[1]


# Asked to try again ----------------------------------------------------------------------------------------


async def test_a_statement_or_a_lock_that_takes_too_long_is_to_be_tried_again(
    database: Database, tenant: TenantId
) -> None:
    async def too_slow() -> None:
        async with database.system() as conn:
            await conn.execute("SET LOCAL statement_timeout = '10ms'; SELECT pg_sleep(10)")

    async def too_late() -> None:
        async with database.system(tenant) as first, database.system(tenant) as second:
            await first.execute("SELECT FROM tenants FOR UPDATE")
            await second.execute("SET LOCAL lock_timeout = '10ms'; SELECT FROM tenants FOR UPDATE")

    for wait in (too_slow, too_late):
        with pytest.raises(DatabaseUnavailable, match="could not complete the transaction") as refused:
            await wait()
        assert refused.value.retryable
    assert await is_working(database)


async def test_of_two_transactions_in_a_deadlock_one_is_done_and_one_is_to_be_tried_again(
    database: Database, superuser: Superuser, tenant: TenantId, other_tenant: TenantId
) -> None:
    holding = asyncio.Barrier(2)
    await superuser.execute(  # found at once, instead of after a second
        f"ALTER DATABASE \"{database.address.database}\" SET deadlock_timeout = '20ms'"
    )

    async def rename(first: TenantId, second: TenantId) -> None:
        async with database.system() as conn:
            await conn.execute("UPDATE tenants SET name = 'x' WHERE tenant_id = $1", first)
            await holding.wait()
            await conn.execute("UPDATE tenants SET name = 'x' WHERE tenant_id = $1", second)

    outcomes = await asyncio.gather(rename(tenant, other_tenant), rename(other_tenant, tenant), return_exceptions=True)

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["DatabaseUnavailable", "NoneType"]
    assert "deadlock" in str(outcomes)


async def test_a_transaction_that_cannot_be_serialized_is_to_be_tried_again(
    database: Database, tenant: TenantId
) -> None:
    async def update_stale_row() -> None:
        async with database.system(tenant) as conn:
            await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await conn.fetch("SELECT name FROM tenants")
            async with database.system(tenant) as faster:
                await faster.execute("UPDATE tenants SET name = 'faster' WHERE tenant_id = $1", tenant)
            await conn.execute("UPDATE tenants SET name = 'slower' WHERE tenant_id = $1", tenant)

    with pytest.raises(DatabaseUnavailable, match="could not complete the transaction"):
        await update_stale_row()

    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT name FROM tenants") == "faster"
