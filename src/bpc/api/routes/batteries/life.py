"""What becomes of a battery: repaired, waste, recycled, or another life under a new record; and its history."""

import asyncio
from datetime import date
from typing import Any, Final

from pydantic import Field
from starlette.requests import Request

from bpc.api.access.battery_policies import require_batteries_not_denied, require_products_not_denied
from bpc.api.http.models import DAY_FORMS, Day, Id, IdOf, LongText, Moment, RequestBody, ResponseBody, Text
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.batteries.registration import Battery, RowFaultBody, StateAt, ValidateOnly
from bpc.core.batteries.epcis_steps import read_epcis_steps
from bpc.core.batteries.registration import REQUIRED, check_entries, parse_party
from bpc.core.batteries.row_files import FileRow, RowsRefused, describe_faults
from bpc.core.batteries.status import BatteryStatus, ChangeKind, OtherLife
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import BatteryId
from bpc.storage.batteries import life, life_steps
from bpc.storage.batteries.batteries import BatteryFilter, list_batteries
from bpc.storage.batteries.identification import load_identities
from bpc.storage.connection import PageQuery

routes = RouteFamily("Batteries", resource="Battery")

_ONE_ROW: Final = PageQuery.after_cursor(None, 1)


class BatteryStep(RequestBody):
    effective_on: Day = Field(description=f"The day on which it happened. {DAY_FORMS}")
    performed_by: Text = Field(description="Who did it: GLN, EORI, VAT or LEI.", examples=["GLN:9521234000006"])
    reason: LongText = Field(description="Why; it is recorded.", examples=["it was handed in by its owner"])


class Recycling(RequestBody):
    effective_on: Day = Field(description=f"The day on which it was recycled. {DAY_FORMS}")
    performed_by: Text = Field(description="The recycler: GLN, EORI, VAT or LEI.", examples=["GLN:9521234000006"])
    report: LongText = Field(description="The recycler's report: its number or address.", examples=["R-2041-17"])


class OtherLifeBody(RequestBody):
    life: OtherLife = Field(description="What it was prepared for.")
    effective_on: Day = Field(description=f"The day on which the new life begins. {DAY_FORMS}")
    performed_by: Text = Field(description="Who prepared it: GLN, EORI, VAT or LEI.", examples=["GLN:9521234000006"])
    sku: Text = Field(description="The product that it is now.", examples=["STORAGE-5"])
    serial_number: Text = Field(description="Its serial number as that product.", examples=["S0001"])
    address: Text | None = Field(None, description="Its identification link, if the product uses IEC 61406.")


class BatteryChangeBody(ResponseBody):
    number: int
    kind: ChangeKind
    status: BatteryStatus = Field(description="The status after it.")
    effective_on: date = Field(description="The day on which it happened.")
    said: dict[str, str] = Field(description="What was said of it.")
    changed_at: Moment = Field(description="When it was recorded.")
    changed_by: Id | None


class BatteryHistory(ResponseBody):
    items: list[BatteryChangeBody]


class LifeEventsReport(ResponseBody):
    """What became of the events of a document."""

    events: int = Field(description="How many events the document has.")
    recorded: int = Field(description="Steps that were recorded.")
    unchanged: int = Field(description="Steps whose event was on record before.")
    faults_total: int = 0
    faults: list[RowFaultBody] = Field(
        [], description="The first hundred faults, by the number of the event; only with `validate_only`."
    )


@routes.write("/v1/batteries:events", permission="battery:status", takes_file=True, heavy=True)
async def add_battery_events(ctx: Context, request: Request, validate_only: ValidateOnly = False) -> LifeEventsReport:
    """Record the steps of lives in a document of EPCIS 2: repaired, waste, recycled.

    The steps are recorded in the order of their times, all or none. An event that is sent again changes nothing. Events
    that tell of no step are passed over; readings and owners in the same document go to `/v1/batteries:readings`.
    """
    file = await asyncio.to_thread(read_epcis_steps, request.state.upload.file.content)
    await require_batteries_not_denied(ctx, request, [step.battery for step in file.steps], "battery:status")
    outcome = await life_steps.apply_steps(
        ctx.conn, ctx.tenant, file.steps, validate_only=validate_only or bool(file.faults), act=ctx.act
    )
    faults = sorted([*file.faults, *outcome.faults], key=lambda fault: fault.line)
    if faults and not validate_only:
        raise RowsRefused(faults, file.events)
    fault_list: list[Any] = describe_faults(faults)
    return LifeEventsReport(
        events=file.events,
        recorded=outcome.recorded,
        unchanged=outcome.unchanged,
        faults_total=len(faults),
        faults=fault_list,
    )


@routes.read("/v1/batteries/{battery_id}/changes", permission="passport:read")
async def list_battery_changes(ctx: Context, battery_id: IdOf[BatteryId], at: StateAt = None) -> BatteryHistory:
    """List what happened to a battery, oldest first; with `at`, what was on record at that time."""
    rows = await life.list_changes(ctx.conn, ctx.tenant, battery_id, at=at)
    return BatteryHistory(items=[BatteryChangeBody.model_validate(row) for row in rows])


@routes.write("/v1/batteries/{battery_id}:repair", permission="battery:status")
async def repair_battery(ctx: Context, battery_id: IdOf[BatteryId], body: BatteryStep) -> Battery:
    """Record that a battery was repaired. Its status stays as it is."""
    return await _change(ctx, battery_id, "REPAIRED", body, None)


@routes.write("/v1/batteries/{battery_id}:declare-waste", permission="battery:status")
async def declare_battery_waste(ctx: Context, battery_id: IdOf[BatteryId], body: BatteryStep) -> Battery:
    """Declare a battery waste. Only another life or recycling follows."""
    return await _change(ctx, battery_id, "WASTE", body, "waste")


@routes.write("/v1/batteries/{battery_id}:recycle", permission="battery:status")
async def recycle_battery(ctx: Context, battery_id: IdOf[BatteryId], body: Recycling) -> Battery:
    """Record that a battery was recycled: its passport ceases, and its address says so for ever."""
    return await _change(ctx, battery_id, "RECYCLED", body, None)


@routes.write("/v1/batteries/{battery_id}:begin-other-life", permission="battery:status", status=201)
async def begin_other_life(ctx: Context, request: Request, battery_id: IdOf[BatteryId], body: OtherLifeBody) -> Battery:
    """Begin another life of a battery that is waste: a new record, linked with this one, which changes no more."""
    await require_products_not_denied(ctx, request, [body.sku], "battery:status")
    identities = await load_identities(ctx.conn, ctx.tenant, [body.sku])
    cells = {name: getattr(body, name) for name in (*REQUIRED, "address") if getattr(body, name) is not None}
    entries, faults = check_entries([FileRow(1, cells)], identities)
    if faults:
        raise Invalid(faults[0].says, fix="correct it and send it again")
    filters = BatteryFilter(sku=body.sku, serial_number=body.serial_number)
    if await list_batteries(ctx.conn, ctx.tenant, filters, _ONE_ROW):
        raise Conflict("the product has a battery with this serial number", fix="choose another serial number")
    successor = await life.begin_other_life(
        ctx.conn,
        ctx.tenant,
        battery_id,
        entries[0],
        body.life,
        effective_on=date.fromisoformat(body.effective_on),
        said={"performed_by": parse_party(body.performed_by, "operator")},
        act=ctx.act,
    )
    return Battery.model_validate(successor)


async def _change(
    ctx: Context, battery_id: BatteryId, kind: ChangeKind, body: BatteryStep | Recycling, status: BatteryStatus | None
) -> Battery:
    statements = {name: value for name, value in body.model_dump().items() if name != "effective_on"}
    statements["performed_by"] = parse_party(body.performed_by, "operator")
    battery = await life.change_battery(
        ctx.conn,
        ctx.tenant,
        battery_id,
        kind,
        status=status,
        effective_on=date.fromisoformat(body.effective_on),
        said=statements,
        act=ctx.act,
    )
    return Battery.model_validate(battery)
