"""Upgrading: what an earlier version stored is there afterwards, to the last byte, and this version goes on with it.

Each frozen database was made by the code of its time (tools/freeze_database.py), with something of everything in it.
"""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from bpc.client import Client
from bpc.core.signing import checked_public_key, from_base64
from bpc.core.verify.bundle import verify_bundle
from bpc.db.address import Address
from bpc.db.migrate import our_migrations
from tests.cli.program import Program
from tests.cli.started import started
from tests.conftest import TestServer
from tests.upgrades.frozen_databases import (
    Frozen,
    byte_columns_of,
    columns_of,
    every_frozen_database,
    everything,
    put_back,
    url_of,
)

pytestmark = pytest.mark.usefixtures("template")  # whose making brings the roles to a server that is not ours
GROWS = "public.schema_migrations"
MAY_BE_EMPTY = {"jobs.job_dependency"}  # none of our jobs needs another
LEASES_OF_THE_DEAD = "SELECT count(*) FROM jobs.job_lease WHERE owner LIKE 'frozen%'"
VERSIONS = "SELECT passport_version_id FROM passport_versions ORDER BY 1"
SECONDS = 60

frozen_databases = pytest.mark.parametrize(
    "frozen", every_frozen_database(), ids=[each.folder.name for each in every_frozen_database()]
)


def installed(frozen: Frozen, address: Address, data_dir: Path) -> Program:
    """This version, with the database and the keys of the one before."""
    settings = {**frozen.facts["settings"], "BPC_WORKER_ID": "upgraded", "BPC_OUTBOUND_ALLOW": ""}
    return Program(data_dir, {**settings, "DATABASE_URL": url_of(address)})


async def asked(bpc: Program, *arguments: str | Path, code: int = 0) -> Any:
    ended = await asyncio.to_thread(bpc.run, *arguments, "--json")
    assert ended.code == code, ended
    return ended.json()


def checks(doctor: dict[str, Any], health: str) -> list[str]:
    return [each["check"] for each in doctor["checks"] if each["health"] == health]


@pytest.mark.external
@frozen_databases
async def test_an_upgrade_leaves_everything_that_was_stored_as_it_was(
    frozen: Frozen, server: TestServer, empty_address: Address, data_dir: Path
) -> None:
    bpc, pending = installed(frozen, empty_address, data_dir), _since(frozen)
    await put_back(frozen, server, empty_address)
    conn = await asyncpg.connect(**server.admin.at(empty_address.database).connect_arguments())
    columns = await columns_of(conn)
    before = await everything(conn, columns)

    doctor = await asked(bpc, "doctor", code=1 if pending else 0)
    listed = await asked(bpc, "migrate", "--check", code=1 if pending else 0)
    applied = await asked(bpc, "migrate")
    after = await everything(conn, columns)
    await conn.close()

    assert checks(doctor, "fail") == (["migrations"] if pending else [])
    assert [each["fix"] for each in doctor["checks"] if each["health"] == "fail"] == ["run `bpc migrate`"] * bool(
        pending
    )
    assert listed["pending"] == applied["applied"] == pending
    assert {name: len(table.rows) for name, table in before.items()} == frozen.facts["rows"]
    assert {name for name, table in before.items() if not table.rows} <= MAY_BE_EMPTY
    assert set(frozen.facts["job_statuses"]) == {"CANCELLED", "DEAD_LETTER", "FAILED", "QUEUED", "SUCCEEDED"}
    assert [name for name in before if name != GROWS and before[name] != after[name]] == []
    assert set(before[GROWS].rows) <= set(after[GROWS].rows)
    assert (await asked(bpc, "migrate", "--check"))["state"] == "current"
    assert checks(await asked(bpc, "doctor"), "fail") == []
    assert {each["tenant"]: each["faults"] for each in (await asked(bpc, "audit", "verify"))["tenants"]} == {
        slug: [] for slug in ("bygone", "dev", "frozen", "system")
    }
    await asked(bpc, "audit", "verify", "--checkpoint", frozen.checkpoint)


@pytest.mark.external
@frozen_databases
async def test_what_an_old_version_left_is_opened_checked_and_done_by_this_one(
    frozen: Frozen, server: TestServer, empty_address: Address, data_dir: Path
) -> None:
    bpc = installed(frozen, empty_address, data_dir)
    await put_back(frozen, server, empty_address)
    conn = await asyncpg.connect(**server.admin.at(empty_address.database).connect_arguments())
    assert await conn.fetchval(LEASES_OF_THE_DEAD) > 0
    issued = [row[0] for row in await conn.fetch(VERSIONS)]

    with started(bpc, "up", "--port", "0") as (_, told):
        async with Client(told["url"], frozen.facts["api_key"]) as old_key:
            await asyncio.gather(*(old_key.wait(UUID(job), seconds=SECONDS) for job in frozen.facts["waiting_jobs"]))
            replayed = [await old_key.replay_passport_version(version) for version in issued]
            bundles = [(await old_key.get_bundle(version)).content for version in issued]
            audited = await old_key.verify_events()
        async with asyncio.timeout(SECONDS):
            while await conn.fetchval(LEASES_OF_THE_DEAD):
                await asyncio.sleep(0.05)
    await conn.close()

    public = checked_public_key(from_base64(frozen.facts["public_key_base64"]))
    assert len(issued) >= 4
    assert [each.status for each in replayed] == ["OK"] * len(issued)
    assert [verify_bundle(bundle, pinned=[public]).ok for bundle in bundles] == [True] * len(issued)
    assert audited.ok


@frozen_databases
async def test_a_byte_that_an_upgrade_changed_would_be_seen(
    frozen: Frozen, server: TestServer, empty_address: Address
) -> None:
    await put_back(frozen, server, empty_address)
    conn = await asyncpg.connect(**server.admin.at(empty_address.database).connect_arguments())
    columns = await columns_of(conn)
    before = await everything(conn, columns)
    await conn.execute("SET session_replication_role = replica")  # or the triggers would refuse it

    unseen, empty = [], []
    for table, column in await byte_columns_of(conn):
        changing = conn.transaction()
        await changing.start()
        changed = await conn.execute(
            f'UPDATE {table} SET "{column}" = set_byte("{column}", 0, get_byte("{column}", 0) # 1)'
            f' WHERE ctid = (SELECT min(ctid) FROM {table} WHERE length("{column}") > 0)'
        )
        if changed != "UPDATE 1":
            empty.append(f"{table}.{column}")
        elif (await everything(conn, {table: columns[table]}))[table] == before[table]:
            unseen.append(f"{table}.{column}")
        await changing.rollback()
    await conn.close()

    assert (unseen, empty) == ([], [])


def _since(frozen: Frozen) -> list[str]:
    return [each.name for each in our_migrations() if each.name not in frozen.facts["migrations"]]
