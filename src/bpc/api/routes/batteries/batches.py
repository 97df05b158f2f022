"""/v1/batches, and how the batteries of a product are identified."""

from datetime import date
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from bpc.api.access.battery_policies import require_products_not_denied
from bpc.api.http.models import Day, Id, IdOf, Moment, Page, Paging, RequestBody, ResponseBody, SkuFilter, Text
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.batteries.registration import find_serial_fault, parse_party
from bpc.core.errors import Invalid, NotFound
from bpc.core.formats.ids import BatteryBatchId, BatteryProductId
from bpc.core.identifiers.addresses import AddressScheme, Granularity, parse_base_url
from bpc.core.identifiers.gs1 import parse_gtin
from bpc.core.identifiers.operators import OperatorScheme
from bpc.storage.batteries import batches, identification
from bpc.storage.batteries.batches import NewBatch
from bpc.storage.batteries.identification import IdentificationRow, check_operator, load_identities

batch_routes = RouteFamily("Batches", resource="BatteryBatch")
identification_routes = RouteFamily("Battery products", resource="BatteryProduct")


class NewBatchBody(RequestBody):
    sku: Text = Field(description="The SKU of the product.", examples=["PACK-48"])
    batch_number: Text = Field(description="Unique among the batches of the product.", examples=["2027-08"])
    plant: Text | None = Field(
        None, description="Where it was made: GLN, EORI, VAT or LEI.", examples=["GLN:9521234000013"]
    )
    manufactured_on: Day | None = None


class BatteryBatch(ResponseBody):
    battery_batch_id: Id
    battery_product_id: Id
    sku: str = Field(examples=["PACK-48"])
    batch_number: str = Field(examples=["2027-08"])
    plant: str | None
    manufactured_on: date | None
    created_at: Moment


class IdentificationBody(RequestBody):
    granularity: Granularity = Field(
        "ITEM", description="What gets a passport: the model, each batch, or each battery."
    )
    scheme: AddressScheme = Field("OWN", description="What the code on a battery says.")
    gtin: Text | None = Field(None, description="Needed for GS1.", examples=["9521234000013"])
    base_url: Text | None = Field(
        None, description="The host that addresses are under.", examples=["https://id.example.com"]
    )
    operator_scheme: OperatorScheme | None = Field(None, description="How the operator is identified.")
    operator_id: Text | None = Field(None, description="Who answers for the batteries.", examples=["9521234000006"])


class BatteryIdentification(ResponseBody):
    """How the batteries of a product are identified."""

    battery_product_id: Id
    granularity: Granularity
    scheme: AddressScheme
    gtin: str | None = Field(examples=["09521234000013"])
    base_url: str | None
    operator_scheme: OperatorScheme | None
    operator_id: str | None
    fixed_at: Moment | None = Field(
        description="When the first battery was placed on the market: since then only the operator may change."
    )


@batch_routes.write("/v1/batches", permission="battery:register", status=201, errors=("NOT_FOUND",))
async def create_batch(ctx: Context, request: Request, body: NewBatchBody) -> BatteryBatch:
    """Create a batch. A number that the product has already is CONFLICT and names the batch."""
    await require_products_not_denied(ctx, request, [body.sku], "battery:register")
    identity = (await load_identities(ctx.conn, ctx.tenant, [body.sku])).get(body.sku)
    if identity is None:
        raise NotFound(f"there is no product `{body.sku}`", fix="list them with GET /v1/battery-products")
    if fault := find_serial_fault(body.batch_number, identity.scheme):
        raise Invalid(f"the batch number {fault}", fix="write it as it is printed on the batteries")
    batch = NewBatch(
        battery_product_id=identity.battery_product_id,
        batch_number=body.batch_number,
        plant=None if body.plant is None else parse_party(body.plant, "plant"),
        manufactured_on=None if body.manufactured_on is None else date.fromisoformat(body.manufactured_on),
    )
    return BatteryBatch.model_validate(await batches.create_batch(ctx.conn, ctx.tenant, batch, act=ctx.act))


@batch_routes.read("/v1/batches", permission="passport:read")
async def list_batches(
    ctx: Context,
    page: Paging,
    sku: SkuFilter = None,
    batch_number: Annotated[Text | None, Query(description="Only with this number.")] = None,
) -> Page[BatteryBatch]:
    """List batches, newest first."""
    rows = await batches.list_batches(ctx.conn, ctx.tenant, page.query, sku=sku, batch_number=batch_number)
    return page.build_page(rows, BatteryBatch)


@batch_routes.read("/v1/batches/{battery_batch_id}", permission="passport:read")
async def get_batch(ctx: Context, battery_batch_id: IdOf[BatteryBatchId]) -> BatteryBatch:
    """Get a batch."""
    return BatteryBatch.model_validate(await batches.get_batch(ctx.conn, ctx.tenant, battery_batch_id))


@identification_routes.read("/v1/battery-products/{battery_product_id}/identification", permission="passport:read")
async def get_battery_identification(ctx: Context, battery_product_id: IdOf[BatteryProductId]) -> BatteryIdentification:
    """Get how the batteries of a product are identified."""
    row = await identification.get_identification(ctx.conn, ctx.tenant, battery_product_id)
    return BatteryIdentification.model_validate(row)


@identification_routes.write(
    "/v1/battery-products/{battery_product_id}/identification", permission="battery:register", method="PUT"
)
async def set_battery_identification(
    ctx: Context, battery_product_id: IdOf[BatteryProductId], body: IdentificationBody
) -> BatteryIdentification:
    """Say how the batteries of a product are identified. Once one is registered, only the operator may change."""
    if (body.scheme == "GS1") != (body.gtin is not None):
        raise Invalid("a GTIN is sent exactly if the scheme is GS1", fix="send `gtin`, or another `scheme`")
    if (body.operator_scheme is None) != (body.operator_id is None):
        raise Invalid("an operator has both a scheme and an identifier", fix="send both, or neither")
    operator = check_operator(body.operator_scheme, body.operator_id)
    target = IdentificationRow(
        battery_product_id=battery_product_id,
        granularity=body.granularity,
        scheme=body.scheme,
        gtin=None if body.gtin is None else parse_gtin(body.gtin),
        base_url=None if body.base_url is None else parse_base_url(body.base_url),
        operator_scheme=None if operator is None else operator.scheme,
        operator_id=None if operator is None else operator.value,
    )
    row = await identification.set_identification(ctx.conn, ctx.tenant, target, act=ctx.act)
    return BatteryIdentification.model_validate(row)
