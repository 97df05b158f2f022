"""Specification of the pool: every use is a transaction with a role and a tenant, and nothing of it is left behind.

Whatever goes wrong inside is rolled back and comes out in our words, and the pool goes on working.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from itertools import product
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest

from bpc import fresh
from bpc.core.errors import Conflict, DatabaseUnavailable
from bpc.core.ids import TenantId
from bpc.db import database as database_module
from bpc.db.address import Address
from bpc.db.connection import Connection
from bpc.db.database import Database, open_database
from bpc.db.roles import APP, SYSTEM
from tests.db import rows

pytestmark = pytest.mark.external

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
async def one(address: Address) -> AsyncIterator[Database]:
    """A pool with a single connection: whoever comes next gets the one that was used before."""
    opened = await open_database(address, pool_size=1)
    yield opened
    await opened.close()


async def pid_of(conn: Connection) -> int:
    return int(await conn.fetchval("SELECT pg_backend_pid()"))


async def works(database: Database) -> bool:
    async with database.system() as conn:
        return bool(await conn.fetchval("SELECT true"))


def nowhere() -> Address:
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return Address(host="127.0.0.1", port=port, user="bpc", database="bpc")


# Reaching the server ---------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_unavailable_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    no_socket = Address(host=str(tmp_path), port=5432, user="bpc", database="bpc")

    for address in (nowhere(), no_socket):
        with pytest.raises(DatabaseUnavailable, match="PostgreSQL cannot be reached") as refused:
            await open_database(address, pool_size=1)

        assert refused.value.code == "DB_UNAVAILABLE"
        assert refused.value.retryable
        assert "bpc doctor" in (refused.value.fix or "")


async def test_a_login_or_a_database_that_does_not_exist_is_unavailable_and_shows_no_password(
    address: Address,
) -> None:
    stranger = Address.parse(f"postgresql://nobody_at_all:hunter2@/{address.database}?host={address.host}")

    for wrong in (stranger, address.at("no_such_database")):
        with pytest.raises(DatabaseUnavailable, match="the database refuses this login") as refused:
            await open_database(wrong, pool_size=1)

        assert "hunter2" not in f"{refused.value.says} {refused.value.fix} {refused.value.details}"
        assert "DATABASE_URL" in (refused.value.fix or "")


async def test_whoever_can_bring_the_server_back_is_asked_once_and_then_it_is_tried_again() -> None:
    asked = []

    with pytest.raises(DatabaseUnavailable):
        await open_database(nowhere(), pool_size=1, revive=lambda: asked.append("revive"))

    assert asked == ["revive"]


async def test_a_closed_pool_is_unavailable_and_can_be_closed_again(one: Database) -> None:
    assert await works(one)
    await one.close()

    with pytest.raises(DatabaseUnavailable):
        await works(one)

    await one.close()


# Losing the server in the middle ---------------------------------------------------------------------------


async def test_a_connection_that_is_cut_in_a_transaction_is_unavailable_and_replaced(
    one: Database, superuser: Superuser
) -> None:
    for what_comes_next in ("SELECT 1", "COMMIT"):
        pids: list[int] = []

        async def cut(statement: str, pids: list[int]) -> None:
            async with one.system() as conn:
                pids.append(await pid_of(conn))
                await superuser.execute("SELECT pg_terminate_backend($1, 5000)", pids[0])
                if statement != "COMMIT":
                    await conn.execute(statement)

        with pytest.raises(DatabaseUnavailable) as refused:
            await cut(what_comes_next, pids)

        assert refused.value.retryable
        assert await works(one)
        async with one.system() as conn:
            assert await pid_of(conn) != pids[0]


async def test_a_connection_that_is_cut_while_a_statement_runs_is_unavailable(
    one: Database, superuser: Superuser
) -> None:
    pid = asyncio.get_running_loop().create_future()

    async def sleep() -> None:
        async with one.system() as conn:
            pid.set_result(await pid_of(conn))
            await conn.execute("SELECT pg_sleep(60)")

    sleeping = asyncio.create_task(sleep())
    await superuser.execute("SELECT pg_terminate_backend($1, 5000)", await pid)

    with pytest.raises(DatabaseUnavailable):
        await sleeping
    assert await works(one)


async def test_a_connection_that_was_cut_while_idle_costs_nobody_more_than_one_error(
    one: Database, superuser: Superuser
) -> None:
    async with one.system() as conn:
        pid = await pid_of(conn)
    await superuser.execute("SELECT pg_terminate_backend($1, 5000)", pid)

    try:
        assert await works(one)
    except DatabaseUnavailable:  # the driver had not heard of it yet
        assert await works(one)


async def test_a_connection_that_cannot_be_reset_is_replaced_and_what_was_committed_stays_good_news(
    address: Address, one: Database
) -> None:
    async def fail(conn: object) -> None:
        raise asyncpg.ConnectionDoesNotExistError("gone between commit and reset")

    pool = await asyncpg.create_pool(**address.connect_arguments(), min_size=1, max_size=1, reset=fail)
    database = Database(pool, address)
    pids = []
    for _ in range(2):
        async with database.system() as conn:
            pids.append(await pid_of(conn))
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
        with pytest.raises(DatabaseUnavailable, match="asks to try again") as refused:
            await wait()
        assert refused.value.retryable
    assert await works(database)


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

    said = await asyncio.gather(rename(tenant, other_tenant), rename(other_tenant, tenant), return_exceptions=True)

    assert sorted(type(outcome).__name__ for outcome in said) == ["DatabaseUnavailable", "NoneType"]
    assert "deadlock" in str(said)


async def test_a_transaction_that_cannot_be_serialized_is_to_be_tried_again(
    database: Database, tenant: TenantId
) -> None:
    async def overtaken() -> None:
        async with database.system(tenant) as conn:
            await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await conn.fetch("SELECT name FROM tenants")
            async with database.system(tenant) as faster:
                await faster.execute("UPDATE tenants SET name = 'faster' WHERE tenant_id = $1", tenant)
            await conn.execute("UPDATE tenants SET name = 'slower' WHERE tenant_id = $1", tenant)

    with pytest.raises(DatabaseUnavailable, match="asks to try again"):
        await overtaken()

    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT name FROM tenants") == "faster"


# What happens inside a use ---------------------------------------------------------------------------------


class ChangedMyMind(Exception):
    """Not a matter of the database."""


async def test_an_error_that_is_not_the_databases_passes_unchanged_and_takes_everything_back(
    one: Database, database: Database, tenant: TenantId
) -> None:
    raised = ChangedMyMind()

    async def change_my_mind() -> None:
        async with one.tenant(tenant) as conn:
            await rows.a_document_version(conn, tenant)
            raise raised

    with pytest.raises(ChangedMyMind) as caught:
        await change_my_mind()

    assert caught.value is raised
    async with one.tenant(tenant) as conn:
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
async def test_a_mistake_of_ours_passes_unchanged_and_the_connection_is_used_again(
    one: Database, statement: str, arguments: tuple[object, ...], error: type[Exception]
) -> None:
    async with one.system() as conn:
        before = await pid_of(conn)

    async def mistake() -> None:
        async with one.system() as conn:
            await conn.execute(statement, *arguments)

    with pytest.raises(error):
        await mistake()

    async with one.system() as conn:
        assert await pid_of(conn) == before


async def test_two_statements_at_once_on_one_connection_are_a_mistake_of_ours_and_not_the_servers(
    one: Database,
) -> None:
    async def both_at_once() -> None:
        async with one.system() as conn:
            await asyncio.gather(conn.execute("SELECT pg_sleep(0.05)"), conn.execute("SELECT 1"))

    with pytest.raises(asyncpg.InterfaceError, match="another operation is in progress"):
        await both_at_once()
    assert await works(one)


async def test_what_the_database_refuses_comes_out_in_our_words_and_the_connection_is_used_again(
    one: Database, database: Database, tenant: TenantId
) -> None:
    async with one.tenant(tenant) as conn:
        before = await pid_of(conn)

    async def twice() -> None:
        async with one.tenant(tenant) as conn:
            for _ in range(2):
                await rows.insert(conn, "roles", tenant_id=tenant, role_id=fresh.new_id(), name="Twice")

    with pytest.raises(Conflict, match="a role with this name exists already"):
        await twice()

    async with one.tenant(tenant) as conn:
        assert await pid_of(conn) == before
        assert await conn.fetchval("SELECT count(*) FROM roles WHERE name = 'Twice'") == 0


async def test_a_nested_transaction_can_be_taken_back_alone(database: Database, tenant: TenantId) -> None:
    async def inner(conn: Connection, name: str, *, fails: bool) -> None:
        async with conn.transaction():
            await rows.insert(conn, "roles", tenant_id=tenant, role_id=fresh.new_id(), name=name)
            if fails:
                raise ChangedMyMind

    async with database.tenant(tenant) as conn:
        await inner(conn, "Kept", fails=False)
        with pytest.raises(ChangedMyMind):
            await inner(conn, "Dropped", fails=True)
        with pytest.raises(asyncpg.UniqueViolationError):
            await inner(conn, "Admin", fails=False)
        assert await conn.fetchval("SELECT current_user || '/' || current_tenant()") == f"{APP}/{tenant}"

    async with database.tenant(tenant) as conn:
        names = [row["name"] for row in await conn.fetch("SELECT name FROM roles ORDER BY name")]
    assert names == ["Admin", "Auditor", "ComplianceOfficer", "Kept"]


# Between two uses ------------------------------------------------------------------------------------------


async def test_role_tenant_and_settings_end_with_their_use_however_it_ends(
    one: Database, database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    async def use_of(use: AbstractAsyncContextManager[Connection], *, ends_badly: bool) -> None:
        async with use as conn:
            pids.add(await pid_of(conn))
            # Not LOCAL: what careless code would do.
            await conn.execute(f"SET ROLE {SYSTEM}; SET app.tenant_id = '{tenant}'; SET statement_timeout = '9s'")
            if ends_badly:
                raise ChangedMyMind

    pids: set[int] = set()
    seen: set[tuple[object, ...]] = set()
    for asked, ends_badly in product((None, tenant, other_tenant), (False, True)):
        use = one.tenant(asked) if asked == tenant else one.system(asked)
        with suppress(ChangedMyMind):
            await use_of(use, ends_badly=ends_badly)
        now = await one.pool.fetchrow(
            "SELECT pg_backend_pid(), current_user, current_tenant(), current_setting('statement_timeout')"
        )
        assert now is not None
        pids.add(now[0])
        seen.add(tuple(now)[1:])

    assert len(pids) == 1, "the connection was used again"
    assert seen == {(APP, None, "0")}


async def test_each_use_has_the_role_and_the_tenant_it_asks_for_whatever_came_before(
    one: Database, database: Database, tenant: TenantId, other_tenant: TenantId
) -> None:
    uses = [
        (one.tenant(tenant), (APP, tenant)),
        (one.tenant(other_tenant), (APP, other_tenant)),
        (one.system(), (SYSTEM, None)),
        (one.system(tenant), (SYSTEM, tenant)),
        (one.system(), (SYSTEM, None)),
        (one.tenant(tenant), (APP, tenant)),
    ]

    for use, expected in uses:
        async with use as conn:
            now = await conn.fetchrow("SELECT current_user, current_tenant()")
            assert now is not None
            assert tuple(now) == expected


async def test_sessions_of_the_pool_speak_utc_and_look_in_our_schema_only(one: Database) -> None:
    async with one.system() as conn:
        settings = [await conn.fetchval(f"SHOW {name}") for name in ("TimeZone", "search_path", "application_name")]

    assert settings == ["UTC", "public", "bpc"]


async def test_more_users_than_connections_wait_for_their_turn_and_all_get_it(address: Address) -> None:
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


async def test_who_waits_too_long_for_a_connection_is_told_that_the_database_is_unavailable(
    one: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "ACQUIRE_SECONDS", 0.02)

    async with one.system():
        with pytest.raises(DatabaseUnavailable) as refused:
            await works(one)

    assert refused.value.retryable
    assert refused.value.says.startswith("all 1 database connections have been busy")
    assert await works(one)


async def test_a_user_who_is_cancelled_gives_the_connection_back_without_a_trace(
    one: Database, database: Database, tenant: TenantId
) -> None:
    inside = asyncio.Event()

    async def use() -> None:
        async with one.tenant(tenant) as conn:
            await rows.a_document_version(conn, tenant)
            inside.set()
            await conn.execute("SELECT pg_sleep(60)")

    using = asyncio.create_task(use())
    await inside.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using

    async with one.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM documents") == 0
