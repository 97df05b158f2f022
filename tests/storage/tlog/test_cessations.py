"""That a passport ceased is in the log: the recycling of its battery joins it, and is missed if it is not there."""

from pathlib import Path
from typing import Any

from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.audit.retention_check import verify_retention
from bpc.storage.database import Database
from tests.storage.tlog.log_fixtures import make_sequencer


async def _find_faults(database: Database, tenant: TenantId) -> list[str]:
    async with database.tenant(tenant) as conn:
        verified = await verify_retention(conn, tenant, now=clock.now(), floor_days=0)
    return [fault.says for fault in verified.faults]


async def test_a_recycled_battery_is_an_entry_and_one_kept_out_of_the_log_is_named(
    database: Database, tenant: TenantId, tmp_path: Path, superuser: Any
) -> None:
    stream = EventStream(tenant, "Battery", AggregateId(clock.new_id()))
    async with database.tenant(tenant) as conn:
        for event_type in ("BATTERY_BECAME_WASTE", "BATTERY_RECYCLED"):
            await events.append(conn, stream, Act(None, clock.now()).new_event(event_type, {}))
    assert await _find_faults(database, tenant) == []

    await make_sequencer(database, tmp_path).run_once()

    rows = await superuser.fetch("SELECT kind FROM log_openings WHERE aggregate_id = $1", stream.aggregate_id)
    assert [row["kind"] for row in rows] == ["PASSPORT_CEASED"]
    await superuser.execute("SET session_replication_role = replica; DELETE FROM log_openings")
    assert "BATTERY_RECYCLED is neither in the transparency log nor on its way there" in (
        await _find_faults(database, tenant)
    )
