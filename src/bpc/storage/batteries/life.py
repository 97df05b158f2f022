"""The life of a battery: placed on the market, repaired, waste, recycled; and what it was at a time.

Each change is a row that is only added, the new state of the battery, and an event on the battery's own chain. The
first event of that chain names the registration and the leaf that the battery came with.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final, LiteralString

from bpc.core.audit.events import Act, EventStream
from bpc.core.batteries.registration import BatteryEntry
from bpc.core.batteries.status import (
    BatteryChange,
    BatteryState,
    BatteryStatus,
    ChangeKind,
    OtherLife,
    apply_change,
    compute_state,
    find_step_fault,
    list_missing_statements,
)
from bpc.core.errors import Conflict, Invalid, UnknownResource
from bpc.core.formats.ids import ActorId, AggregateId, BatteryId, TenantId
from bpc.storage.audit import events
from bpc.storage.batteries.batteries import BatteryRow, get_battery, lock_battery
from bpc.storage.batteries.identification import fix_identifications
from bpc.storage.batteries.registration import insert_entries
from bpc.storage.connection import LATEST_TIME, Connection, fetch_rows

FIRST_CHANGE: Final[ChangeKind] = "BEGUN"  # of a record that goes on with another one

INSERT_CHANGE: Final[LiteralString] = """
    INSERT INTO battery_changes (tenant_id, battery_id, number, kind, status, effective_on, said, changed_at,
                                 changed_by)
    SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4, $5, $6::jsonb, $7, $8
      FROM battery_changes WHERE tenant_id = $1 AND battery_id = $2
"""
UPDATE_STATE: Final[LiteralString] = """
    UPDATE batteries SET status = $3, placed_on = $4, ceased_at = $5, successor = $6
     WHERE tenant_id = $1 AND battery_id = $2
"""
SELECT_CHANGES: Final[LiteralString] = """
    SELECT number, kind, status, effective_on, said::text AS said, changed_at, changed_by FROM battery_changes
     WHERE tenant_id = $1 AND battery_id = $2
     ORDER BY number
"""

HAS_EVENTS: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM events WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $3)
"""

IS_PROMISED: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM battery_transfers
                    WHERE tenant_id = $1 AND battery_id = $2 AND side = 'GIVES' AND state = 'ACCEPTED')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A change of a battery and who recorded it."""

    number: int
    kind: ChangeKind
    status: BatteryStatus
    effective_on: date
    said: Mapping[str, str]
    changed_at: datetime
    changed_by: ActorId | None

    def to_change(self) -> BatteryChange:
        return BatteryChange(
            kind=self.kind,
            status=self.status,
            effective_on=self.effective_on,
            said=self.said,
            changed_at=self.changed_at,
        )


class StepRefused(Conflict):
    """The battery is not where such a change may follow."""

    def __init__(self, battery: BatteryRow, says: str) -> None:
        super().__init__(
            f"battery `{battery.serial_number}` {says}",
            fix="look at its changes to see what it went through",
            details={"battery_id": str(battery.battery_id), "status": battery.status},
        )


async def change_battery(
    conn: Connection,
    tenant: TenantId,
    battery_id: BatteryId,
    kind: ChangeKind,
    *,
    status: BatteryStatus | None = None,
    effective_on: date,
    said: Mapping[str, str],
    act: Act,
) -> BatteryRow:
    """Record a change of a battery; `status` is the new one where there is one."""
    battery = await _lock_for_step(conn, tenant, battery_id, kind)
    state = to_state(battery)
    if missing := list_missing_statements(kind, said):
        raise Invalid(f"`{missing[0]}` is not said", fix=f"say {', '.join(missing)}", details={"missing": missing})
    if effective_on > act.at.date():
        raise Invalid("the day of the change is in the future", fix="record it when it has happened")
    change = BatteryChange(
        kind=kind, status=status or battery.status, effective_on=effective_on, said=said, changed_at=act.at
    )
    state_after = apply_change(state, change)
    await record_change(conn, tenant, battery, change, act=act)
    await conn.execute(
        UPDATE_STATE,
        tenant,
        battery_id,
        state_after.status,
        state_after.placed_on,
        state_after.ceased_at,
        state_after.successor,
    )
    if kind == "PLACED":
        await fix_identifications(conn, tenant, [battery.battery_product_id], act=act)
    return await get_battery(conn, tenant, battery_id)


async def begin_other_life(
    conn: Connection,
    tenant: TenantId,
    battery_id: BatteryId,
    entry: BatteryEntry,
    life: OtherLife,
    *,
    effective_on: date,
    said: Mapping[str, str],
    act: Act,
) -> BatteryRow:
    """Make the record of another life, linked with this one, which changes no more. Returns the new record."""
    battery = await _lock_for_step(conn, tenant, battery_id, "SUCCEEDED")
    _, battery_ids = await insert_entries(conn, tenant, [entry], status=life, predecessor=battery.address, act=act)
    successor = await get_battery(conn, tenant, battery_ids[0])
    link = {"successor": successor.address, **said}
    await change_battery(
        conn, tenant, battery_id, "SUCCEEDED", status=life, effective_on=effective_on, said=link, act=act
    )
    change = BatteryChange(
        kind=FIRST_CHANGE,
        status=life,
        effective_on=effective_on,
        said={"predecessor": battery.address, **said},
        changed_at=act.at,
    )
    await record_change(conn, tenant, successor, change, act=act)
    return successor


async def _lock_for_step(conn: Connection, tenant: TenantId, battery_id: BatteryId, kind: ChangeKind) -> BatteryRow:
    """The battery, locked, if such a change may follow and nobody else was promised the battery."""
    battery = await lock_battery(conn, tenant, battery_id)
    if fault := find_step_fault(to_state(battery), kind):
        raise StepRefused(battery, fault)
    if await conn.fetchval(IS_PROMISED, tenant, battery_id):
        raise StepRefused(battery, "is promised to another operator, who has accepted it")
    return battery


async def record_change(
    conn: Connection, tenant: TenantId, battery: BatteryRow, change: BatteryChange, *, act: Act
) -> None:
    """Add the row of a change and its event."""
    await conn.execute(
        INSERT_CHANGE,
        tenant,
        battery.battery_id,
        change.kind,
        change.status,
        change.effective_on,
        json.dumps(dict(change.said)),
        act.at,
        act.actor_id,
    )
    payload = {"status": change.status, "effective_on": change.effective_on.isoformat(), **change.said}
    event_type = {
        "PLACED": "BATTERY_PLACED_ON_MARKET",
        "REPAIRED": "BATTERY_REPAIRED",
        "WASTE": "BATTERY_BECAME_WASTE",
        "RECYCLED": "BATTERY_RECYCLED",
        "SUCCEEDED": "BATTERY_SUCCEEDED",
        "BEGUN": "BATTERY_LIFE_BEGUN",
    }[change.kind]
    await append_battery_event(conn, tenant, battery, event_type, payload, act=act)


async def append_battery_event(
    conn: Connection, tenant: TenantId, battery: BatteryRow, event_type: str, payload: Mapping[str, object], *, act: Act
) -> None:
    """Append to the battery's own chain, which begins with where the battery was registered."""
    stream = EventStream(tenant, "Battery", AggregateId(battery.battery_id))
    if not await conn.fetchval(HAS_EVENTS, *stream):
        origin = {"registration_id": str(battery.registration_id), "leaf": battery.leaf_number}
        await events.append(conn, stream, act.new_event("BATTERY_CHAIN_BEGUN", origin))
    await events.append(conn, stream, act.new_event(event_type, payload))


async def list_changes(
    conn: Connection, tenant: TenantId, battery: BatteryId, *, at: datetime | None = None
) -> Sequence[ChangeRow]:
    """What happened to a battery, oldest first; with `at`, what was on record at that time."""
    await require_registered(conn, tenant, battery, at)
    return [row for row in await _load_changes(conn, tenant, battery) if row.changed_at <= (at or LATEST_TIME)]


async def require_registered(
    conn: Connection, tenant: TenantId, battery_id: BatteryId, at: datetime | None
) -> BatteryRow:
    """The battery as it is now, if it was registered at that time; before, it is unknown."""
    battery = await get_battery(conn, tenant, battery_id)
    if at is not None and battery.registered_at > at:
        raise UnknownResource("battery", battery_id)
    return battery


async def get_battery_at(conn: Connection, tenant: TenantId, battery_id: BatteryId, at: datetime) -> BatteryRow:
    """The battery as it was on record at a time; unknown before it was registered."""
    battery = await require_registered(conn, tenant, battery_id, at)
    changes = [row.to_change() for row in await _load_changes(conn, tenant, battery_id)]
    was_placed_later = any(change.kind == "PLACED" for change in changes)
    state = compute_state(None if was_placed_later else battery.placed_on, changes, at)
    return replace(
        battery,
        status=state.status,
        placed_on=state.placed_on,
        ceased_at=state.ceased_at,
        successor=state.successor,
    )


def to_state(battery: BatteryRow) -> BatteryState:
    """Where the battery is in its life."""
    return BatteryState(
        status=battery.status,
        placed_on=battery.placed_on,
        ceased_at=battery.ceased_at,
        successor=battery.successor,
    )


async def _load_changes(conn: Connection, tenant: TenantId, battery: BatteryId) -> list[ChangeRow]:
    rows = await fetch_rows(conn, ChangeRow, SELECT_CHANGES, tenant, battery)
    return [replace(row, said=json.loads(str(row.said))) for row in rows]
