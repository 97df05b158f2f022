"""Schedules of a tenant's jobs, each change with an event and its actor.

A schedule has a name. In the audit log it has an id, which is computed from its tenant and its name: so the history of
a schedule that was removed and created again is one chain.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID, uuid5

from service_jobs import schedules
from service_jobs.schedules import Schedule, ScheduleNotFound, StoredSchedule

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time
from bpc.storage.audit import events
from bpc.storage.connection import Connection

AGGREGATE_TYPE: Final = "Schedule"
MAX_SCHEDULES: Final = 100  # of one tenant


class ScheduleExists(Conflict):
    """The name is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is a schedule `{name}` already",
            fix="change that one, or choose another name",
            details={"schedule": name},
        )


def compute_schedule_id(tenant: TenantId, name: str) -> UUID:
    """The id of a schedule, in the audit log and over the API."""
    return uuid5(tenant, f"schedule:{name}")


async def find_schedule(conn: Connection, tenant: TenantId, schedule_id: UUID) -> StoredSchedule:
    """The schedule with this id. Raises `ScheduleNotFound`."""
    for entry in await schedules.list_schedules(conn, tenant):
        if compute_schedule_id(tenant, entry.schedule.name) == schedule_id:
            return entry
    raise ScheduleNotFound(str(schedule_id))


async def create_schedule(conn: Connection, tenant: TenantId, schedule: Schedule, *, act: Act) -> StoredSchedule:
    """Create a schedule and append an event. Raises `ScheduleExists` if the name is taken."""
    present = await schedules.list_schedules(conn, tenant)
    if any(entry.schedule.name == schedule.name for entry in present):
        raise ScheduleExists(schedule.name)
    if len(present) >= MAX_SCHEDULES:
        raise Conflict(f"a tenant has at most {MAX_SCHEDULES} schedules", fix="remove one that is not needed")
    entry = await schedules.put_schedule(conn, tenant, schedule)
    await _append_event(conn, tenant, entry, "SCHEDULE_CREATED", act)
    return entry


async def change_schedule(conn: Connection, tenant: TenantId, schedule: Schedule, *, act: Act) -> StoredSchedule:
    """Replace the schedule of the same name and append an event."""
    entry = await schedules.put_schedule(conn, tenant, schedule)
    await _append_event(conn, tenant, entry, "SCHEDULE_CHANGED", act)
    return entry


async def pause_schedule(conn: Connection, tenant: TenantId, name: str, *, act: Act) -> None:
    """Submit nothing until the schedule is resumed, and append an event. Raises `ScheduleNotFound`."""
    await schedules.pause_schedule(conn, tenant, name)
    await _append_event(conn, tenant, await _load_schedule(conn, tenant, name), "SCHEDULE_PAUSED", act)


async def resume_schedule(conn: Connection, tenant: TenantId, name: str, *, act: Act) -> None:
    """Continue with the next moment from now on, and append an event. Raises `ScheduleNotFound`."""
    await schedules.resume_schedule(conn, tenant, name)
    await _append_event(conn, tenant, await _load_schedule(conn, tenant, name), "SCHEDULE_RESUMED", act)


async def remove_schedule(conn: Connection, tenant: TenantId, name: str, *, act: Act) -> None:
    """Remove a schedule, whose jobs stay, and append an event. Raises `ScheduleNotFound`."""
    entry = await _load_schedule(conn, tenant, name)
    await schedules.remove_schedule(conn, tenant, name)
    await _append_event(conn, tenant, entry, "SCHEDULE_REMOVED", act)


async def _load_schedule(conn: Connection, tenant: TenantId, name: str) -> StoredSchedule:
    for entry in await schedules.list_schedules(conn, tenant):
        if entry.schedule.name == name:
            return entry
    raise ScheduleNotFound(name)


async def _append_event(conn: Connection, tenant: TenantId, entry: StoredSchedule, event_type: str, act: Act) -> None:
    """The event says when which jobs are submitted, but not with which input: that may hold a secret."""
    schedule = entry.schedule
    payload: Mapping[str, object] = {
        "name": schedule.name,
        "type": schedule.type,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "catch_up": str(schedule.catch_up),
        "paused": entry.paused,
        "next_at": format_time(entry.next_at),
    }
    schedule_id = compute_schedule_id(tenant, schedule.name)
    await events.append_act(conn, act, tenant, AGGREGATE_TYPE, schedule_id, event_type, payload)
