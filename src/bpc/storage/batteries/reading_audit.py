"""Comparing readings of batteries with the events of their deliveries.

    event READINGS_RECEIVED ─► how many were stored, and the hash of all of them ─► the readings of that delivery

The database computes the hashes in one pass over the readings of a tenant. Events of builds that kept no hash tell only
how many readings there were.
"""

from typing import Final, LiteralString

import orjson

from bpc.core.audit.state import ADDED, CHANGED, DELETED, StateFault
from bpc.core.formats.ids import TenantId
from bpc.storage.batteries.readings import HASH_OF_READINGS
from bpc.storage.connection import Connection

READINGS_TABLE: Final = "battery_readings"
MAX_FAULTS: Final = 1000
SELECT_DELIVERIES: Final[LiteralString] = f"""
    SELECT r.delivery_id, count(*) AS stored, {HASH_OF_READINGS} AS sha256
      FROM battery_readings r WHERE r.tenant_id = $1 GROUP BY r.delivery_id
"""
SELECT_EVENTS: Final[LiteralString] = """
    SELECT aggregate_id, payload_canonical FROM events
     WHERE tenant_id = $1 AND aggregate_type = 'ReadingDelivery' AND event_type = 'READINGS_RECEIVED'
     ORDER BY aggregate_id
"""


async def verify_readings(conn: Connection, tenant: TenantId) -> tuple[int, list[StateFault]]:
    """How many readings were compared, and which deliveries do not hold what was stored with them."""
    stored = {row["delivery_id"]: row for row in await conn.fetch(SELECT_DELIVERIES, tenant)}
    count, faults = sum(row["stored"] for row in stored.values()), list[StateFault]()
    for event in await conn.fetch(SELECT_EVENTS, tenant):
        payload, row = orjson.loads(event["payload_canonical"]), stored.pop(event["aggregate_id"], None)
        number = 0 if row is None else row["stored"]
        if number != payload["stored"]:
            says = f"{number} readings of this delivery are there, and its event says {payload['stored']}"
            problem = DELETED if number < payload["stored"] else ADDED
            faults.append(_make_fault(event["aggregate_id"], problem, says))
        elif row is not None and row["sha256"].hex() != payload.get("stored_sha256", row["sha256"].hex()):
            faults.append(_make_fault(event["aggregate_id"], CHANGED, "a reading of this delivery was changed"))
    for delivery in sorted(stored):
        faults.append(_make_fault(delivery, ADDED, "no event says that these readings were received"))
    return count, faults[:MAX_FAULTS]


def _make_fault(delivery: object, problem: str, says: str) -> StateFault:
    return StateFault(table=READINGS_TABLE, row_id=str(delivery), column=None, problem=problem, says=says)
