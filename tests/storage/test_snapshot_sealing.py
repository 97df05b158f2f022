"""Specification of sealed snapshots: no item is added or removed, also while another transaction seals it."""

import asyncio
from contextlib import nullcontext
from itertools import product

import pytest

from bpc.core.errors import Conflict
from bpc.core.formats.ids import SnapshotId, TenantId
from bpc.storage.connection import APP_ROLE, Connection
from bpc.storage.database import Database
from bpc.storage.error_mapping import SnapshotAlreadySealed
from tests.storage import evidence_rows
from tests.storage.probes import NO_RIGHT, REFUSED, ROLES, Superuser, get_backend_pid
from tests.storage.statements import act_as_role, insert_row, try_statement

pytestmark = pytest.mark.external


async def test_items_are_added_to_and_removed_from_an_open_snapshot_but_not_a_sealed_one(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    add = "INSERT INTO snapshot_items (tenant_id, snapshot_id, fact_id) VALUES ($1, $2, $3)"
    remove = "DELETE FROM snapshot_items WHERE snapshot_id = $1"
    async with database.tenant(tenant) as conn:
        inside, outside = await evidence_rows.insert_fact(conn, tenant), await evidence_rows.insert_fact(conn, tenant)
        row_ids = {
            status: await evidence_rows.insert_snapshot(conn, tenant, status=status, fact=inside)
            for status in evidence_rows.SNAPSHOT_STATUSES
        }

    for role, (status, snapshot) in product(ROLES, row_ids.items()):
        async with act_as_role(superuser, role, tenant):
            results = [
                await try_statement(superuser, add, tenant, snapshot, outside),
                await try_statement(superuser, remove, snapshot),
            ]
            update_result = await try_statement(superuser, "UPDATE snapshot_items SET snapshot_id = $1", snapshot)
        assert results == ([REFUSED, REFUSED] if status == "SEALED" else ["INSERT 0 1", "DELETE 1"]), (role, status)
        assert update_result in {NO_RIGHT, REFUSED}


async def test_a_temporary_table_does_not_make_a_sealed_snapshot_look_open(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        fact, snapshot = (
            await evidence_rows.insert_fact(conn, tenant),
            await evidence_rows.insert_snapshot(conn, tenant, status="SEALED"),
        )

    async with act_as_role(superuser, APP_ROLE, tenant):
        await superuser.execute("CREATE TEMPORARY TABLE data_snapshots AS SELECT * FROM data_snapshots")
        await superuser.execute("UPDATE data_snapshots SET status = 'BUILDING'")
        added = await try_statement(
            superuser, "INSERT INTO snapshot_items (tenant_id, snapshot_id, fact_id) VALUES ($1, $2, $3)",
            tenant, snapshot, fact,
        )  # fmt: skip

    assert added == REFUSED


async def test_a_temporary_type_does_not_make_a_sealed_snapshot_look_open(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        fact, snapshot = (
            await evidence_rows.insert_fact(conn, tenant),
            await evidence_rows.insert_snapshot(conn, tenant, status="SEALED"),
        )

    async with act_as_role(superuser, APP_ROLE, tenant):
        await superuser.execute(
            "CREATE TEMPORARY TABLE snapshot_items (tenant_id uuid, fact_id uuid, snapshot_id uuid)"
        )
        added = await try_statement(
            superuser, "INSERT INTO public.snapshot_items (tenant_id, snapshot_id, fact_id) VALUES ($1, $2, $3)",
            tenant, snapshot, fact,
        )  # fmt: skip

    assert added == REFUSED


@pytest.fixture
async def ready_snapshot_and_fact(database: Database, tenant: TenantId) -> tuple[SnapshotId, object]:
    """A snapshot that can be sealed, and a fact that is not in it."""
    async with database.tenant(tenant) as conn:
        return await evidence_rows.insert_snapshot(conn, tenant, status="READY"), await evidence_rows.insert_fact(
            conn, tenant
        )


async def wait_until_blocked(superuser: Connection, pid: int) -> None:
    """Return when the backend `pid` waits for another's lock."""
    while not await superuser.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid):
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "not sealed after all"])
async def test_an_item_added_while_a_snapshot_is_being_sealed_waits_and_is_then_refused(
    database: Database,
    superuser: Superuser,
    tenant: TenantId,
    ready_snapshot_and_fact: tuple[SnapshotId, object],
    is_sealed: bool,
) -> None:
    snapshot, fact = ready_snapshot_and_fact
    started = asyncio.get_running_loop().create_future()

    async def add_item() -> None:
        async with database.tenant(tenant) as conn:
            started.set_result(await get_backend_pid(conn))
            await insert_row(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact)

    class ChangedMyMind(Exception):
        pass

    adding: list[asyncio.Task[None]] = []

    async def seal() -> None:
        async with database.tenant(tenant) as conn:
            await evidence_rows.seal_snapshot(conn, snapshot)
            adding.append(asyncio.create_task(add_item()))
            await asyncio.wait_for(wait_until_blocked(superuser, await started), 60)
            if not is_sealed:
                raise ChangedMyMind

    with nullcontext() if is_sealed else pytest.raises(ChangedMyMind):
        await seal()
    (outcome_of_insert,) = await asyncio.gather(*adding, return_exceptions=True)

    count = await superuser.fetchval("SELECT count(*) FROM snapshot_items WHERE snapshot_id = $1", snapshot)
    if is_sealed:
        assert isinstance(outcome_of_insert, SnapshotAlreadySealed)
        assert count == 0
    else:
        assert outcome_of_insert is None
        assert count == 1


async def test_sealing_waits_for_items_that_are_being_added_and_contains_them(
    database: Database, superuser: Superuser, tenant: TenantId, ready_snapshot_and_fact: tuple[SnapshotId, object]
) -> None:
    snapshot, fact = ready_snapshot_and_fact
    started = asyncio.get_running_loop().create_future()

    async def seal() -> None:
        async with database.tenant(tenant) as conn:
            started.set_result(await get_backend_pid(conn))
            await evidence_rows.seal_snapshot(conn, snapshot)

    async with database.tenant(tenant) as conn:
        await insert_row(conn, "snapshot_items", tenant_id=tenant, snapshot_id=snapshot, fact_id=fact)
        sealing = asyncio.create_task(seal())
        await asyncio.wait_for(wait_until_blocked(superuser, await started), 60)
    await sealing

    sealed = await superuser.fetchval("SELECT snapshot_canonical FROM data_snapshots WHERE snapshot_id = $1", snapshot)
    assert str(fact).encode() in sealed, "the fact's key is its id"


async def test_a_refusal_reaches_the_caller_as_a_conflict_that_says_why(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await evidence_rows.insert_document_version(conn, tenant, status="REJECTED")

    with pytest.raises(Conflict, match="a document version's status only moves forward") as refused:
        async with database.tenant(tenant) as conn:
            await conn.execute("UPDATE document_versions SET status = 'UPLOADED'")

    assert refused.value.details == {"constraint": "document_versions_status_forward"}
    assert not refused.value.retryable
