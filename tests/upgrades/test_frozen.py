"""Upgrading: what an earlier version stored is there afterwards, to the last byte, and this version goes on with it.

Each frozen database was made by the code of its time (tools/freeze_database.py), with something of everything in it.
"""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from bpc_client import Client

from bpc.core.audit.signing import from_base64, parse_public_key
from bpc.core.verify.bundle import verify_bundle
from bpc.runtime.postgres.address import Address
from bpc.storage.migrate import list_migrations
from tests.cli.program import Program, start_command
from tests.fixtures import TestServer
from tests.upgrades.frozen_databases import (
    Frozen,
    list_frozen_databases,
    load_byte_columns,
    load_columns,
    make_url,
    read_all_tables,
    restore_frozen,
)

pytestmark = pytest.mark.usefixtures("template_name")  # whose making brings the roles to a server that is not ours
# An upgrade adds to these, and changes nothing in them: permissions of a later release, and the events that say so.
GROWING = ("public.schema_migrations", "public.permissions", "public.role_permissions", "public.events")
MAY_BE_EMPTY = {"jobs.job_dependency"}  # none of our jobs needs another
LEASES_OF_THE_DEAD = "SELECT count(*) FROM jobs.job_lease WHERE owner LIKE 'frozen%'"
VERSIONS = "SELECT passport_version_id FROM passport_versions ORDER BY 1"
SECONDS = 60

frozen_databases = pytest.mark.parametrize(
    "frozen", list_frozen_databases(), ids=[each.folder.name for each in list_frozen_databases()]
)


def make_program(frozen: Frozen, address: Address, data_dir: Path) -> Program:
    """This version, with the database and the keys of the one before."""
    settings = {**frozen.facts["settings"], "BPC_WORKER_ID": "upgraded", "BPC_OUTBOUND_ALLOW": ""}
    return Program(data_dir, {**settings, "DATABASE_URL": make_url(address)})


async def run_json(bpc: Program, *arguments: str | Path, code: int = 0) -> Any:
    result = await asyncio.to_thread(bpc.run, *arguments, "--json")
    assert result.code == code, result
    return result.json()


def list_checks(doctor: dict[str, Any], health: str) -> list[str]:
    return [check["check"] for check in doctor["checks"] if check["health"] == health]


@pytest.mark.external
@frozen_databases
async def test_an_upgrade_leaves_everything_that_was_stored_as_it_was(
    frozen: Frozen, server: TestServer, empty_address: Address, data_dir: Path
) -> None:
    bpc, pending = make_program(frozen, empty_address, data_dir), _list_pending(frozen)
    await restore_frozen(frozen, server, empty_address)
    conn = await asyncpg.connect(**server.admin.with_database(empty_address.database).connect_arguments())
    columns = await load_columns(conn)
    before = await read_all_tables(conn, columns)

    doctor = await run_json(bpc, "doctor", code=1 if pending else 0)
    check_report = await run_json(bpc, "migrate", "--check", code=1 if pending else 0)
    applied = await run_json(bpc, "migrate")
    after = await read_all_tables(conn, columns)
    await conn.close()

    # Where jobs waited when it was frozen, no worker runs them now.
    faults = [entry for entry in doctor["checks"] if entry["health"] == "fail" and entry["check"] != "workers"]
    assert [entry["check"] for entry in faults] == (["migrations"] if pending else [])
    assert [entry["fix"] for entry in faults] == ["run `bpc migrate`"] * bool(pending)
    assert check_report["pending"] == applied["applied"] == pending
    assert {name: len(table.rows) for name, table in before.items()} == frozen.facts["rows"]
    assert {name for name, table in before.items() if not table.rows} <= MAY_BE_EMPTY
    assert set(frozen.facts["job_statuses"]) == {"CANCELLED", "DEAD_LETTER", "FAILED", "QUEUED", "SUCCEEDED"}
    assert [name for name in before if name not in GROWING and before[name] != after[name]] == []
    assert all(set(before[name].rows) <= set(after[name].rows) for name in GROWING)
    assert (await run_json(bpc, "migrate", "--check"))["state"] == "current"
    waiting = [name for name in list_checks(doctor, "fail") if name == "workers"]
    assert list_checks(await run_json(bpc, "doctor", code=1 if waiting else 0), "fail") == waiting
    # Retention of `bygone` was run as if it were 2041: cutoffs in its future are a fault, and the only ones.
    audited = {entry["tenant"]: entry for entry in (await run_json(bpc, "audit", "verify", code=1))["tenants"]}
    assert {slug for slug, entry in audited.items() if entry["faults"]} == {"bygone"}
    assert {fault["says"].split("`")[0] for fault in audited["bygone"]["faults"]} == {"retention removed "}
    assert [entry["state_faults"] for entry in audited.values()] == [[]] * 4
    await run_json(bpc, "audit", "verify", "--checkpoint", frozen.checkpoint)


@pytest.mark.external
@frozen_databases
async def test_this_version_verifies_and_finishes_what_an_old_version_left(
    frozen: Frozen, server: TestServer, empty_address: Address, data_dir: Path
) -> None:
    bpc = make_program(frozen, empty_address, data_dir)
    await restore_frozen(frozen, server, empty_address)
    conn = await asyncpg.connect(**server.admin.with_database(empty_address.database).connect_arguments())
    assert await conn.fetchval(LEASES_OF_THE_DEAD) > 0
    issued = [row[0] for row in await conn.fetch(VERSIONS)]

    with start_command(bpc, "up", "--port", "0") as (_, ready_message):
        async with Client(ready_message["url"], frozen.facts["api_key"]) as old_key:
            await asyncio.gather(*(old_key.wait(UUID(job), seconds=SECONDS) for job in frozen.facts["waiting_jobs"]))
            replayed = [await old_key.replay_passport_version(version) for version in issued]
            bundles = [(await old_key.get_bundle(version)).content for version in issued]
            audited = await old_key.verify_events()
        async with asyncio.timeout(SECONDS):
            while await conn.fetchval(LEASES_OF_THE_DEAD):
                await asyncio.sleep(0.05)
    await conn.close()

    public = parse_public_key(from_base64(frozen.facts["public_key_base64"]))
    assert len(issued) >= 4
    assert [result.status for result in replayed] == ["OK"] * len(issued)
    assert [verify_bundle(bundle, pins=[public]).ok for bundle in bundles] == [True] * len(issued)
    assert audited.ok


@frozen_databases
async def test_a_byte_changed_by_an_upgrade_is_detected(
    frozen: Frozen, server: TestServer, empty_address: Address
) -> None:
    await restore_frozen(frozen, server, empty_address)
    conn = await asyncpg.connect(**server.admin.with_database(empty_address.database).connect_arguments())
    columns = await load_columns(conn)
    before = await read_all_tables(conn, columns)
    await conn.execute("SET session_replication_role = replica")  # or the triggers would refuse it

    unseen, empty = [], []
    for table, column in await load_byte_columns(conn):
        changing = conn.transaction()
        await changing.start()
        changed = await conn.execute(
            f'UPDATE {table} SET "{column}" = set_byte("{column}", 0, get_byte("{column}", 0) # 1)'
            f' WHERE ctid = (SELECT min(ctid) FROM {table} WHERE length("{column}") > 0)'
        )
        if changed != "UPDATE 1":
            empty.append(f"{table}.{column}")
        elif (await read_all_tables(conn, {table: columns[table]}))[table] == before[table]:
            unseen.append(f"{table}.{column}")
        await changing.rollback()
    await conn.close()

    assert (unseen, empty) == ([], [])


def _list_pending(frozen: Frozen) -> list[str]:
    return [migration.name for migration in list_migrations() if migration.name not in frozen.facts["migrations"]]
