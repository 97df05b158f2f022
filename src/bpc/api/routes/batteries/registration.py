"""/v1/batteries: single batteries: registered one by one or by file, listed, found by what their labels say."""

import asyncio
from datetime import date
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from bpc.api.access.battery_policies import require_products_not_denied
from bpc.api.http.models import (
    DAY_FORMS,
    CreatedAfter,
    CreatedBefore,
    Day,
    FilterMoment,
    Id,
    IdOf,
    LongText,
    Moment,
    Page,
    Paging,
    RequestBody,
    ResponseBody,
    SkuFilter,
    Text,
)
from bpc.api.http.request_body import SentUpload
from bpc.api.http.request_context import Context, Service
from bpc.api.http.routing import RouteFamily
from bpc.core.batteries.registration import COLUMNS, REQUIRED
from bpc.core.batteries.row_files import FileRow, RowFile, RowsRefused, describe_faults, read_rows
from bpc.core.batteries.status import BatteryStatus
from bpc.core.errors import Invalid
from bpc.core.formats.ids import BatteryId
from bpc.core.identifiers.addresses import AddressScheme, LookupText, read_lookup_text
from bpc.core.identifiers.gs1 import Gs1Item, parse_gtin
from bpc.storage.batteries import batteries, life
from bpc.storage.batteries.batteries import BatteryFilter
from bpc.storage.batteries.registration import RegistrationOutcome, list_skus, register_batteries
from bpc.storage.connection import PageQuery

routes = RouteFamily("Batteries", resource="Battery")

# What a person has most often: a label, or a list of batteries from the line that makes them.
LOOKUP_HELP: Final = "What a code or a label says: an address, a GS1 text, or a serial number."


class NewBattery(RequestBody):
    sku: Text = Field(description="The SKU of its product.", examples=["PACK-48"])
    serial_number: Text = Field(description="Unique among the batteries of the product.", examples=["A0000001"])
    batch_number: Text | None = Field(None, description="Its batch, which is created if there is none.")
    plant: Text | None = Field(
        None, description="Where it was made: GLN, EORI, VAT or LEI.", examples=["GLN:9521234000013"]
    )
    manufactured_on: Day | None = None
    placed_on: Day | None = Field(None, description="When it was placed on the market, if it was.")
    address: Text | None = Field(None, description="Its identification link, if its product uses IEC 61406.")


class Battery(ResponseBody):
    ordered_by = "registered_at"

    battery_id: Id
    battery_product_id: Id
    sku: str = Field(examples=["PACK-48"])
    serial_number: str = Field(examples=["A0000001"])
    batch_number: str | None
    battery_batch_id: Id | None
    plant: str | None
    manufactured_on: date | None
    placed_on: date | None
    status: BatteryStatus = Field(description="Data point 67.")
    ceased_at: Moment | None = Field(description="When it was recycled: its passport has ceased.")
    address: str = Field(description="What its code says.", examples=["/01/09521234000013/21/A0000001"])
    scheme: AddressScheme
    successor: str | None = Field(description="The address under which it lives on, with another operator.")
    predecessor: str | None = Field(description="The address that it had in its life before.")
    registered_at: Moment


class BatteryMatches(ResponseBody):
    """The batteries that a label names; several only if it has nothing but a serial number."""

    items: list[Battery]


class RowFaultBody(ResponseBody):
    line: int
    column: str | None
    says: str


class RegistrationReport(ResponseBody):
    """What became of the rows of a file."""

    total: int = Field(description="The rows of the file.")
    registered: int = Field(description="Batteries that are new.")
    unchanged: int = Field(description="Batteries that were registered before, with the same data.")
    registration_id: Id | None = Field(None, description="The event that covers the new ones; null if nothing is new.")
    faults_total: int = 0
    faults: list[RowFaultBody] = Field([], description="The first hundred rows with faults; only with `validate_only`.")


class MarketPlacement(RequestBody):
    placed_on: Day = Field(description=f"The day on which it was placed on the market. {DAY_FORMS}")
    said: LongText | None = Field(None, description="A remark, which is recorded.")


class PublicAddress(ResponseBody):
    """What everybody may know of an address."""

    ceased: bool = Field(description="True: the battery was recycled and its passport has ceased.")
    ceased_at: Moment | None
    successor: str | None = Field(description="The address under which the battery lives on.")


_FIRST_PAGE: Final = PageQuery.after_cursor(None, 1)
ValidateOnly = Annotated[bool, Query(description="Only check the rows and report; nothing is stored.")]
StateAt = Annotated[FilterMoment | None, Query(description="As it was on record at this time.")]


@routes.write("/v1/batteries", permission="battery:register", status=201)
async def create_battery(ctx: Context, request: Request, body: NewBattery) -> Battery:
    """Register one battery. The same battery again changes nothing; with other data it is refused."""
    await require_products_not_denied(ctx, request, [body.sku], "battery:register")
    cells = {name: value for name, value in body.model_dump().items() if value is not None}
    file = RowFile([FileRow(1, cells)], [])
    outcome = await register_batteries(ctx.conn, ctx.tenant, file, act=ctx.act)
    if outcome.faults:
        raise Invalid(outcome.faults[0].says, fix="correct it and send it again", details=_describe(outcome))
    if outcome.battery_ids:
        return Battery.model_validate(await batteries.get_battery(ctx.conn, ctx.tenant, outcome.battery_ids[0]))
    filters = BatteryFilter(sku=body.sku, serial_number=body.serial_number)
    rows = await batteries.list_batteries(ctx.conn, ctx.tenant, filters, _FIRST_PAGE)
    return Battery.model_validate(rows[0])


@routes.write("/v1/batteries:register", permission="battery:register", takes_file=True, heavy=True)
async def register_battery_file(
    ctx: Context, request: Request, validate_only: ValidateOnly = False
) -> RegistrationReport:
    """Register the batteries of a file: CSV with a header, or JSON lines; up to 100,000 rows.

    Columns: `sku`, `serial_number`, and optionally `batch_number`, `plant`, `manufactured_on`, `placed_on`, `address`.
    All rows are checked first. If one has a fault, nothing is stored, and the answer names the rows. A file that is
    sent twice changes nothing. All batteries of a file are covered by one event.
    """
    file = await read_row_file(request, ctx.service, COLUMNS, REQUIRED)
    skus = await asyncio.to_thread(list_skus, file)
    await require_products_not_denied(ctx, request, skus, "battery:register")
    outcome = await register_batteries(ctx.conn, ctx.tenant, file, validate_only=validate_only, act=ctx.act)
    if outcome.faults and not validate_only:
        raise RowsRefused(outcome.faults, outcome.total)
    return RegistrationReport(
        total=outcome.total,
        registered=outcome.registered,
        unchanged=outcome.unchanged,
        registration_id=outcome.registration_id,
        **_describe(outcome),
    )


@routes.read("/v1/batteries", permission="passport:read")
async def list_batteries(
    ctx: Context,
    page: Paging,
    sku: SkuFilter = None,
    serial_number: Annotated[Text | None, Query(description="Only with this serial number.")] = None,
    batch_number: Annotated[Text | None, Query(description="Only of batches with this number.")] = None,
    status: Annotated[BatteryStatus | None, Query(description="Only in this status.")] = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
) -> Page[Battery]:
    """List batteries, those registered last first."""
    filters = BatteryFilter(
        sku=sku,
        serial_number=serial_number,
        batch_number=batch_number,
        status=status,
        registered_after=created_after,
        registered_before=created_before,
    )
    return page.build_page(await batteries.list_batteries(ctx.conn, ctx.tenant, filters, page.query), Battery)


@routes.read("/v1/batteries:lookup", permission="passport:read")
async def look_up_battery(
    ctx: Context,
    text: Annotated[LongText | None, Query(description=LOOKUP_HELP)] = None,
    gtin: Annotated[Text | None, Query(description="The GTIN; `serial_number` is needed too.")] = None,
    serial_number: Annotated[Text | None, Query(description="The serial number alone, or with `gtin`.")] = None,
) -> BatteryMatches:
    """Find batteries by what a label says. A bare serial number may be that of batteries of several products."""
    lookup = _read_lookup(text, gtin, serial_number)
    rows = await batteries.find_batteries(ctx.conn, ctx.tenant, lookup)
    return BatteryMatches(items=[Battery.model_validate(row) for row in rows])


@routes.read("/v1/batteries/{battery_id}", permission="passport:read")
async def get_battery(ctx: Context, battery_id: IdOf[BatteryId], at: StateAt = None) -> Battery:
    """Get a battery, as it is or as it was on record at a time."""
    if at is not None:
        return Battery.model_validate(await life.get_battery_at(ctx.conn, ctx.tenant, battery_id, at))
    return Battery.model_validate(await batteries.get_battery(ctx.conn, ctx.tenant, battery_id))


@routes.write("/v1/batteries/{battery_id}:place-on-market", permission="battery:register")
async def place_battery_on_market(ctx: Context, battery_id: IdOf[BatteryId], body: MarketPlacement) -> Battery:
    """Say when a battery was placed on the market. From then on its product keeps its way to identify batteries."""
    remark = {} if body.said is None else {"remark": body.said}
    battery = await life.change_battery(
        ctx.conn,
        ctx.tenant,
        battery_id,
        "PLACED",
        effective_on=date.fromisoformat(body.placed_on),
        said=remark,
        act=ctx.act,
    )
    return Battery.model_validate(battery)


async def read_row_file(request: Request, service: Service, columns: Any, required_columns: Any) -> RowFile:
    """The rows of the file of a request."""
    upload: SentUpload = request.state.upload
    content = upload.file.content
    if not content:
        raise Invalid("the file is empty", fix="send rows as CSV or JSON lines")
    if len(content) > service.settings.upload_max_bytes:
        raise Invalid("the file is too large", fix="split it", details={"most": service.settings.upload_max_bytes})
    return await asyncio.to_thread(read_rows, content, columns, required_columns)


def _read_lookup(text: str | None, gtin: str | None, serial: str | None) -> LookupText:
    if text is not None and gtin is None and serial is None:
        return read_lookup_text(text)
    if text is None and serial is not None:
        if gtin is None:
            return LookupText(serial=serial)
        return LookupText(item=Gs1Item(gtin=parse_gtin(gtin), serial=serial))
    raise Invalid("it is not clear what to look for", fix="send `text`, or `serial_number` with or without `gtin`")


def _describe(outcome: RegistrationOutcome) -> dict[str, Any]:
    return {"faults_total": len(outcome.faults), "faults": describe_faults(outcome.faults)}
