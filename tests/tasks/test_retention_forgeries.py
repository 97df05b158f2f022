"""Specification of retention: whoever can switch the triggers off and forges an anchor is detected."""

import pytest

from bpc.core.audit.events import EventStream
from bpc.core.formats.ids import TenantId
from bpc.storage.audit import events
from bpc.storage.database import Database
from tests.tasks.retention_fixtures import (
    NOW,
    YEARS_AGO,
    Superuser,
    append_chain,
    find_faults,
    run_all_parts,
)

UNVOUCHED = "no RetentionApplied event vouches for the anchor its chain begins at"


ANCHOR_AT_2 = """
    INSERT INTO event_anchors (tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash FROM events
     WHERE aggregate_id = $1 AND aggregate_version = 2
        ON CONFLICT (tenant_id, aggregate_type, aggregate_id) DO UPDATE
       SET aggregate_version = excluded.aggregate_version, event_hash = excluded.event_hash
"""


LIST_IT = """
    INSERT INTO retention_anchors (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT a.tenant_id, e.event_id, a.aggregate_type, a.aggregate_id, a.aggregate_version, a.event_hash
      FROM event_anchors a JOIN events e ON e.tenant_id = a.tenant_id AND e.event_type = $2
     WHERE a.aggregate_id = $1
"""


@pytest.fixture
async def cut_chain(database: Database, tenant: TenantId) -> EventStream:
    """A chain of four whose first event retention has removed."""
    return await append_chain(database, tenant, YEARS_AGO, NOW, NOW, NOW)


@pytest.mark.parametrize("is_listed", ["RetentionApplied", "TENANT_CREATED", None])
async def test_a_forged_anchor_is_detected(
    database: Database, superuser: Superuser, tenant: TenantId, cut_chain: EventStream, is_listed: str | None
) -> None:
    await append_chain(database, tenant, YEARS_AGO)
    untouched = await append_chain(database, tenant, NOW, NOW, NOW)
    await run_all_parts(database, tenant)
    assert await find_faults(database, tenant) == []

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute(ANCHOR_AT_2, untouched.aggregate_id)
        await superuser.execute("DELETE FROM events WHERE aggregate_id = $1 AND aggregate_version <= 2", untouched[2])
        if is_listed is not None:
            await superuser.execute(LIST_IT, untouched.aggregate_id, is_listed)

    fault_list = await find_faults(database, tenant)
    assert ("Document", 2, UNVOUCHED) in fault_list
    if is_listed == "RetentionApplied":
        assert ("Tenant", 2, "the anchors listed under it do not have the hash it claims") in fault_list
    async with database.tenant(tenant) as conn:
        of_chain = (await events.verify_chain(conn, untouched)).faults
        assert UNVOUCHED in [fault.says for fault in of_chain]


async def test_an_anchor_that_was_moved_without_an_event_is_detected(
    database: Database, superuser: Superuser, tenant: TenantId, cut_chain: EventStream
) -> None:
    await run_all_parts(database, tenant)

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute(ANCHOR_AT_2, cut_chain.aggregate_id)
        await superuser.execute("DELETE FROM events WHERE aggregate_id = $1 AND aggregate_version = 2", cut_chain[2])

    assert await find_faults(database, tenant) == [("Document", 2, UNVOUCHED)]


async def test_a_chain_removed_with_its_anchor_is_detected_without_a_checkpoint(
    database: Database, superuser: Superuser, tenant: TenantId, cut_chain: EventStream
) -> None:
    await run_all_parts(database, tenant)

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute("DELETE FROM event_anchors WHERE aggregate_id = $1", cut_chain.aggregate_id)
        await superuser.execute("DELETE FROM events WHERE aggregate_id = $1", cut_chain.aggregate_id)

    assert await find_faults(database, tenant) == [("Document", 1, "the anchor that retention left here is gone")]
    async with database.tenant(tenant) as conn:
        assert [fault.says for fault in (await events.verify_chain(conn, cut_chain)).faults] == [
            "the anchor that retention left here is gone"
        ]
