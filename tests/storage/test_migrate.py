"""Specification of the migrations: one schema, whoever runs them and how often, and no surprise on start-up."""

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import asyncpg
import pytest

from bpc.cli.support.output import find_fix
from bpc.core.formats.hashes import sha256
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage.connection import RolesMissing
from bpc.storage.migrate import (
    Migration,
    MigrationBlocked,
    MigrationEdited,
    MigrationFailed,
    MigrationsMissing,
    SchemaState,
    compare_schema,
    list_migrations,
    migrate,
    read_migrations,
    require_current_schema,
)
from tests.fixtures import TestServer
from tests.measurements import choose_effort
from tools.schema import SCHEMA, dump_schema

ALL_MIGRATIONS = list_migrations()
WAITS_FOR_TENANTS = """
    SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'tenants'::regclass AND NOT granted)
"""


async def migrate_database(address: Address, migrations: list[Migration] = ALL_MIGRATIONS) -> list[str]:
    conn = await asyncpg.connect(**address.connect_arguments())
    try:
        return await migrate(conn, migrations)
    finally:
        await conn.close()


async def connect_as_app(address: Address) -> "asyncpg.Connection[asyncpg.Record]":
    conn: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(**address.connect_arguments())
    await conn.execute("SET ROLE bpc_app")
    return conn


def make_migration(version: int, sql: str) -> Migration:
    return Migration(
        component="bpc", version=version, name=f"{version:04}_more.sql", sql=sql, sha256=sha256(sql.encode())
    )


def migrate_in_process(address: Address) -> list[str]:
    return asyncio.run(migrate_database(address))


@pytest.mark.external
async def test_running_the_migrations_again_does_nothing(empty_address: Address) -> None:
    assert await migrate_database(empty_address) == [migration.name for migration in ALL_MIGRATIONS]
    assert await migrate_database(empty_address) == []


@pytest.mark.external
async def test_several_processes_migrate_at_once_and_none_fails(empty_address: Address) -> None:
    count = choose_effort(test=4, shown=10, campaign=10)

    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as processes:
        applied = await asyncio.to_thread(lambda: list(processes.map(migrate_in_process, [empty_address] * count)))

    assert sorted(name for names in applied for name in names) == sorted(migration.name for migration in ALL_MIGRATIONS)
    conn = await asyncpg.connect(**empty_address.connect_arguments())
    assert (await require_current_schema(conn, ALL_MIGRATIONS)).state is SchemaState.CURRENT
    await conn.close()


@pytest.mark.external
async def test_an_applied_file_that_was_edited_is_refused_by_name(empty_address: Address) -> None:
    await migrate_database(empty_address)
    edited = [replace(ALL_MIGRATIONS[0], sha256=sha256(ALL_MIGRATIONS[0].sql.encode() + b"\n")), *ALL_MIGRATIONS[1:]]

    conn = await asyncpg.connect(**empty_address.connect_arguments())
    for attempt in (migrate, require_current_schema, compare_schema):
        with pytest.raises(MigrationEdited, match=ALL_MIGRATIONS[0].name):
            await attempt(conn, edited)
    await conn.close()


@pytest.mark.external
async def test_a_database_that_lacks_migrations_is_refused_at_start_with_the_command_to_run(
    empty_address: Address,
) -> None:
    conn = await asyncpg.connect(**empty_address.connect_arguments())
    with pytest.raises(MigrationsMissing) as before:
        await require_current_schema(conn, ALL_MIGRATIONS)
    await migrate(conn, ALL_MIGRATIONS[:2])
    with pytest.raises(MigrationsMissing) as half:
        await require_current_schema(conn, ALL_MIGRATIONS)
    await conn.close()

    assert find_fix(before.value) == "run `bpc migrate`"
    assert half.value.details == {"pending": [migration.name for migration in ALL_MIGRATIONS[2:]]}


@pytest.mark.external
async def test_a_database_that_is_ahead_serves_the_older_build(empty_address: Address) -> None:
    newer = make_migration(len(ALL_MIGRATIONS) + 1, "CREATE TABLE later (x int)")
    await migrate_database(empty_address, [*ALL_MIGRATIONS, newer])

    conn = await asyncpg.connect(**empty_address.connect_arguments())
    comparison = await require_current_schema(conn, ALL_MIGRATIONS)
    await conn.close()

    assert (comparison.state, comparison.unknown) == (SchemaState.AHEAD, (newer.name,))


@pytest.mark.external
async def test_a_migration_that_fails_leaves_nothing_behind_and_can_be_repeated(empty_address: Address) -> None:
    broken = make_migration(len(ALL_MIGRATIONS) + 1, "CREATE TABLE half (x int); SELECT 1 / 0")

    with pytest.raises(MigrationFailed, match="division by zero"):
        await migrate_database(empty_address, [*ALL_MIGRATIONS, broken])

    conn = await asyncpg.connect(**empty_address.connect_arguments())
    assert await conn.fetchval("SELECT to_regclass('public.half')") is None
    await conn.close()
    assert await migrate_database(
        empty_address, [*ALL_MIGRATIONS, make_migration(broken.version, "CREATE TABLE half (x int)")]
    )


@pytest.mark.external
async def test_a_migration_that_waits_for_a_table_does_not_block_others_and_is_tried_again(
    address: Address,
) -> None:
    """The outage everybody has once: a report runs, a migration waits for it, and all requests wait behind that."""
    newer = make_migration(len(ALL_MIGRATIONS) + 1, "ALTER TABLE tenants ADD COLUMN later int")
    report, request = await connect_as_app(address), await connect_as_app(address)
    running = report.transaction()
    await running.start()
    await report.fetch("SELECT * FROM tenants")
    migrating = asyncio.create_task(migrate_database(address, [*ALL_MIGRATIONS, newer]))
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
async def test_a_migration_that_never_gets_its_table_fails_with_its_name_and_a_next_step(address: Address) -> None:
    newer = make_migration(
        len(ALL_MIGRATIONS) + 1, "CREATE TABLE half (x int); ALTER TABLE tenants ADD COLUMN later int"
    )
    report, migrator = await connect_as_app(address), await asyncpg.connect(**address.connect_arguments())
    running = report.transaction()
    await running.start()
    await report.fetch("SELECT * FROM tenants")

    with pytest.raises(MigrationBlocked) as refused:
        await migrate(migrator, [*ALL_MIGRATIONS, newer], patience=0.1)

    assert newer.name in refused.value.says
    assert f"process {report.get_server_pid()} of the database" in (find_fix(refused.value) or "")
    assert await migrator.fetchval("SELECT to_regclass('public.half')") is None
    await report.close()
    await migrator.close()


@pytest.mark.external
async def test_any_number_of_waiting_migrations_leave_the_table_to_others_between_attempts(address: Address) -> None:
    newer = make_migration(len(ALL_MIGRATIONS) + 1, "ALTER TABLE tenants ADD COLUMN later int")
    report, request = await connect_as_app(address), await connect_as_app(address)
    running = report.transaction()
    await running.start()
    await report.fetch("SELECT * FROM tenants")
    migrating = [asyncio.create_task(migrate_database(address, [*ALL_MIGRATIONS, newer])) for _ in range(5)]
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
    report, migrator = (
        await asyncpg.connect(**address.connect_arguments()),
        await asyncpg.connect(**address.connect_arguments()),
    )
    running = report.transaction()
    await running.start()
    await report.execute("SET LOCAL ROLE bpc_owner; LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE")

    with pytest.raises(MigrationBlocked, match="reading the applied migrations"):
        await migrate(migrator, ALL_MIGRATIONS, patience=0.1)
    await running.rollback()

    assert await migrate(migrator, ALL_MIGRATIONS) == []
    await report.close()
    await migrator.close()


async def test_the_migrations_make_exactly_schema_sql(server: TestServer, address: Address) -> None:
    if server.is_external:
        pytest.skip("schema.sql is written with the embedded server's pg_dump")

    assert dump_schema(server.admin.with_database(address.database)) == SCHEMA.read_text(), (
        "run `make cases` and read the diff"
    )


@pytest.mark.parametrize(
    "names", [["0001_a.sql", "0003_b.sql"], ["0002_a.sql"], ["0001_a.sql", "0001_b.sql"], ["1_a.sql"]]
)
def test_a_gap_a_duplicate_number_or_a_wrong_file_name_is_an_error(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("SELECT 1")

    with pytest.raises(ValueError, match="is not migration"):
        read_migrations("bpc", tmp_path)


@pytest.mark.external
async def test_a_login_that_does_not_own_the_database_is_told_what_an_administrator_has_to_run(
    server: TestServer, empty_address: Address
) -> None:
    login = f"maker_{clock.new_id().hex[-8:]}"
    admin = await asyncpg.connect(**server.admin.with_database(empty_address.database).connect_arguments())
    await admin.execute(f"CREATE ROLE {login} CREATEROLE; GRANT bpc_owner, bpc_app, bpc_system TO {login}")
    await admin.execute("REVOKE ALL ON SCHEMA public FROM bpc_owner, bpc_app, bpc_system")
    await admin.execute(f'ALTER DATABASE "{empty_address.database}" OWNER TO CURRENT_USER')
    try:
        await admin.execute(f"SET SESSION AUTHORIZATION {login}")
        with pytest.raises(RolesMissing) as refused:
            await migrate(admin, ALL_MIGRATIONS)
        await admin.execute("RESET SESSION AUTHORIZATION")
        for statement in cast("list[str]", refused.value.details["sql"]):
            await admin.execute(statement)
        await admin.execute(f"SET SESSION AUTHORIZATION {login}")

        assert await migrate(admin, ALL_MIGRATIONS) == [migration.name for migration in ALL_MIGRATIONS]
    finally:
        await admin.execute("RESET SESSION AUTHORIZATION")
        await admin.execute(f"DROP OWNED BY {login}; DROP ROLE {login}")
        await admin.close()


def test_no_migration_needs_an_extension() -> None:
    for migration in ALL_MIGRATIONS:
        assert "CREATE EXTENSION" not in migration.sql.upper()
