"""Specification of the migrations: one schema, whoever runs them and how often, and no surprise on start-up."""

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import asyncpg
import pytest

from bpc import fresh
from bpc.core.digest import sha256
from bpc.db.address import Address
from bpc.db.migrate import (
    Migration,
    MigrationBlocked,
    MigrationEdited,
    MigrationFailed,
    MigrationsMissing,
    State,
    compare,
    migrate,
    our_migrations,
    read_migrations,
    require_current,
)
from bpc.db.roles import RolesMissing
from tests.conftest import TestServer
from tests.measuring import effort
from tools.schema import SCHEMA, dumped

OURS = our_migrations()
WAITS_FOR_TENANTS = """
    SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'tenants'::regclass AND NOT granted)
"""


async def migrated(address: Address, migrations: list[Migration] = OURS) -> list[str]:
    conn = await asyncpg.connect(**address.connect_arguments())
    try:
        return await migrate(conn, migrations)
    finally:
        await conn.close()


async def as_application(address: Address) -> "asyncpg.Connection[asyncpg.Record]":
    conn: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(**address.connect_arguments())
    await conn.execute("SET ROLE bpc_app")
    return conn


def a_migration(version: int, sql: str) -> Migration:
    return Migration(
        component="bpc", version=version, name=f"{version:04}_more.sql", sql=sql, sha256=sha256(sql.encode())
    )


def migrate_in_a_process(address: Address) -> list[str]:
    return asyncio.run(migrated(address))


@pytest.mark.external
async def test_running_them_twice_does_nothing_the_second_time(empty_address: Address) -> None:
    assert await migrated(empty_address) == [migration.name for migration in OURS]
    assert await migrated(empty_address) == []


@pytest.mark.external
async def test_several_processes_at_once_make_one_schema_and_none_fails(empty_address: Address) -> None:
    count = effort(test=4, shown=10, campaign=10)

    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as processes:
        applied = await asyncio.to_thread(lambda: list(processes.map(migrate_in_a_process, [empty_address] * count)))

    assert sorted(name for names in applied for name in names) == sorted(migration.name for migration in OURS)
    conn = await asyncpg.connect(**empty_address.connect_arguments())
    assert (await require_current(conn, OURS)).state is State.CURRENT
    await conn.close()


@pytest.mark.external
async def test_an_applied_file_that_was_edited_is_refused_by_name(empty_address: Address) -> None:
    await migrated(empty_address)
    edited = [replace(OURS[0], sha256=sha256(OURS[0].sql.encode() + b"\n")), *OURS[1:]]

    conn = await asyncpg.connect(**empty_address.connect_arguments())
    for attempt in (migrate, require_current, compare):
        with pytest.raises(MigrationEdited, match=OURS[0].name):
            await attempt(conn, edited)
    await conn.close()


@pytest.mark.external
async def test_a_database_that_lacks_some_is_refused_at_start_with_the_command_to_run(empty_address: Address) -> None:
    conn = await asyncpg.connect(**empty_address.connect_arguments())
    with pytest.raises(MigrationsMissing) as before:
        await require_current(conn, OURS)
    await migrate(conn, OURS[:2])
    with pytest.raises(MigrationsMissing) as half:
        await require_current(conn, OURS)
    await conn.close()

    assert before.value.fix == "run `bpc migrate`"
    assert half.value.details == {"pending": [migration.name for migration in OURS[2:]]}


@pytest.mark.external
async def test_a_database_that_is_ahead_serves_the_older_build(empty_address: Address) -> None:
    newer = a_migration(len(OURS) + 1, "CREATE TABLE later (x int)")
    await migrated(empty_address, [*OURS, newer])

    conn = await asyncpg.connect(**empty_address.connect_arguments())
    found = await require_current(conn, OURS)
    await conn.close()

    assert (found.state, found.unknown) == (State.AHEAD, (newer.name,))


@pytest.mark.external
async def test_a_migration_that_fails_leaves_nothing_behind_and_can_be_repeated(empty_address: Address) -> None:
    broken = a_migration(len(OURS) + 1, "CREATE TABLE half (x int); SELECT 1 / 0")

    with pytest.raises(MigrationFailed, match="division by zero"):
        await migrated(empty_address, [*OURS, broken])

    conn = await asyncpg.connect(**empty_address.connect_arguments())
    assert await conn.fetchval("SELECT to_regclass('public.half')") is None
    await conn.close()
    assert await migrated(empty_address, [*OURS, a_migration(broken.version, "CREATE TABLE half (x int)")])


@pytest.mark.external
async def test_a_migration_that_waits_for_a_table_keeps_nobody_else_from_it_and_is_tried_again(
    address: Address,
) -> None:
    """The outage everybody has once: a report runs, a migration waits for it, and all requests wait behind that."""
    newer = a_migration(len(OURS) + 1, "ALTER TABLE tenants ADD COLUMN later int")
    report, request = await as_application(address), await as_application(address)
    running = report.transaction()
    await running.start()
    await report.fetch("SELECT * FROM tenants")
    migrating = asyncio.create_task(migrated(address, [*OURS, newer]))
    async with asyncio.timeout(60):
        while not await request.fetchval(WAITS_FOR_TENANTS):
            await asyncio.sleep(0.01)

    async with asyncio.timeout(20):
        await request.fetch("SELECT * FROM tenants")

    assert not migrating.done()
    await running.rollback()
    assert await migrating == [newer.name]
    await report.close()
    await request.close()


@pytest.mark.external
async def test_a_migration_that_never_gets_its_table_ends_with_a_name_and_a_way_out(address: Address) -> None:
    newer = a_migration(len(OURS) + 1, "CREATE TABLE half (x int); ALTER TABLE tenants ADD COLUMN later int")
    report, ours = await as_application(address), await asyncpg.connect(**address.connect_arguments())
    running = report.transaction()
    await running.start()
    await report.fetch("SELECT * FROM tenants")

    with pytest.raises(MigrationBlocked) as refused:
        await migrate(ours, [*OURS, newer], patience=0.1)

    assert newer.name in refused.value.says
    assert f"process {report.get_server_pid()} of the database" in (refused.value.fix or "")
    assert await ours.fetchval("SELECT to_regclass('public.half')") is None
    await report.close()
    await ours.close()


@pytest.mark.external
async def test_however_many_wait_for_a_table_they_leave_it_to_others_between_two_attempts(address: Address) -> None:
    newer = a_migration(len(OURS) + 1, "ALTER TABLE tenants ADD COLUMN later int")
    report, request = await as_application(address), await as_application(address)
    running = report.transaction()
    await running.start()
    await report.fetch("SELECT * FROM tenants")
    migrating = [asyncio.create_task(migrated(address, [*OURS, newer])) for _ in range(5)]
    waiting = 0
    for _ in range(150):  # for three seconds, in which five would try five times and more if they did not wait together
        waiting += await request.fetchval(WAITS_FOR_TENANTS)
        await asyncio.sleep(0.02)

    assert 0 < waiting < 120  # two attempts of 0.8 s, and pauses of 0.5 s and 1 s
    assert not any(task.done() for task in migrating)
    await running.rollback()
    assert sorted(await asyncio.gather(*migrating)) == [[], [], [], [], [newer.name]]
    await report.close()
    await request.close()


@pytest.mark.external
async def test_the_table_of_migrations_may_be_in_use_too(address: Address) -> None:
    report, ours = (
        await asyncpg.connect(**address.connect_arguments()),
        await asyncpg.connect(**address.connect_arguments()),
    )
    running = report.transaction()
    await running.start()
    await report.execute("SET LOCAL ROLE bpc_owner; LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE")

    with pytest.raises(MigrationBlocked, match="the look at what is applied"):
        await migrate(ours, OURS, patience=0.1)
    await running.rollback()

    assert await migrate(ours, OURS) == []
    await report.close()
    await ours.close()


async def test_the_migrations_make_exactly_schema_sql(server: TestServer, address: Address) -> None:
    if server.is_external:
        pytest.skip("schema.sql is written with the embedded server's pg_dump")

    assert dumped(server.admin.at(address.database)) == SCHEMA.read_text(), "run `make cases` and read the diff"


@pytest.mark.parametrize(
    "names", [["0001_a.sql", "0003_b.sql"], ["0002_a.sql"], ["0001_a.sql", "0001_b.sql"], ["1_a.sql"]]
)
def test_a_gap_a_doubled_number_or_a_wrong_name_is_our_mistake_and_stops_us(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("SELECT 1")

    with pytest.raises(ValueError, match="is not migration"):
        read_migrations("bpc", tmp_path)


@pytest.mark.external
async def test_a_login_that_may_make_roles_but_does_not_own_the_database_is_told_what_an_administrator_has_to_run(
    server: TestServer, empty_address: Address
) -> None:
    login = f"maker_{fresh.new_id().hex[:8]}"
    admin = await asyncpg.connect(**server.admin.at(empty_address.database).connect_arguments())
    await admin.execute(f"CREATE ROLE {login} CREATEROLE; GRANT bpc_owner, bpc_app, bpc_system TO {login}")
    await admin.execute("REVOKE ALL ON SCHEMA public FROM bpc_owner, bpc_app, bpc_system")
    await admin.execute(f'ALTER DATABASE "{empty_address.database}" OWNER TO CURRENT_USER')
    try:
        await admin.execute(f"SET SESSION AUTHORIZATION {login}")
        with pytest.raises(RolesMissing) as refused:
            await migrate(admin, OURS)
        await admin.execute("RESET SESSION AUTHORIZATION")
        for statement in cast("list[str]", refused.value.details["sql"]):
            await admin.execute(statement)
        await admin.execute(f"SET SESSION AUTHORIZATION {login}")

        assert await migrate(admin, OURS) == [migration.name for migration in OURS]
    finally:
        await admin.execute("RESET SESSION AUTHORIZATION")
        await admin.execute(f"DROP OWNED BY {login}; DROP ROLE {login}")
        await admin.close()


def test_no_migration_needs_an_extension() -> None:
    for migration in OURS:
        assert "CREATE EXTENSION" not in migration.sql.upper()
