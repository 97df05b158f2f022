"""Steps in the lives of many batteries, from one document: all of them are recorded, or none.

A step whose event is on record already is passed over, so a document that is sent twice changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.batteries.epcis_steps import LifeStep
from bpc.core.batteries.row_files import RowFault
from bpc.core.errors import Refusal
from bpc.core.formats.ids import BatteryId, TenantId
from bpc.storage.batteries.life import change_battery
from bpc.storage.batteries.readings import NOT_REGISTERED, find_referenced
from bpc.storage.connection import Connection

SELECT_EVENTS: Final[LiteralString] = """
    SELECT battery_id, kind, said ->> 'event' AS event FROM battery_changes
     WHERE tenant_id = $1 AND battery_id = ANY($2::uuid[]) AND said ? 'event'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """How many steps were recorded, how many were on record before, and what is wrong."""

    recorded: int = 0
    unchanged: int = 0
    faults: Sequence[RowFault] = ()


async def apply_steps(
    conn: Connection, tenant: TenantId, steps: Sequence[LifeStep], *, validate_only: bool, act: Act
) -> StepOutcome:
    """Record steps in their order. With a fault, or if they are only to be checked, nothing is recorded."""
    transaction = conn.transaction()
    await transaction.start()
    try:
        outcome = await _try_steps(conn, tenant, steps, act)
    except BaseException:
        await transaction.rollback()
        raise
    await (transaction.rollback() if outcome.faults or validate_only else transaction.commit())
    return outcome


async def _try_steps(conn: Connection, tenant: TenantId, steps: Sequence[LifeStep], act: Act) -> StepOutcome:
    matches = await find_referenced(conn, tenant, [step.battery for step in steps])
    ids = sorted({row["battery_id"] for row in matches.values()})
    told = {tuple(row) for row in await conn.fetch(SELECT_EVENTS, tenant, ids)}
    faults, recorded = list[RowFault](), 0
    for step in steps:
        match = matches.get(step.battery)
        if match is None:
            faults.append(RowFault(step.line, NOT_REGISTERED))
            continue
        name: tuple[UUID, str, str] = match["battery_id"], step.kind, step.said["event"]
        if name in told:
            continue
        told.add(name)
        recorded += 1
        try:
            async with conn.transaction():
                await change_battery(
                    conn,
                    tenant,
                    BatteryId(match["battery_id"]),
                    step.kind,
                    status=step.status,
                    effective_on=step.effective_on,
                    said=step.said,
                    act=act,
                )
        except Refusal as refusal:
            faults.append(RowFault(step.line, refusal.says))
    unchanged = len(steps) - recorded - sum(1 for step in steps if step.battery not in matches)
    return StepOutcome(recorded=recorded, unchanged=unchanged, faults=sorted(faults, key=lambda fault: fault.line))
