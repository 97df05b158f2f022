"""/v1/battery-products: what passports are for."""

from typing import Annotated

from pydantic import AfterValidator, Field
from starlette.requests import Request as HttpRequest

from bpc.api.deciding import require_undenied
from bpc.api.models import Answer, Id, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.ids import BatteryProductId
from bpc.core.policies import Resource
from bpc.db import products

routes = Routes("Battery products")


def _sku(text: str) -> str:
    # Facts of a product are found by keys such as `component:<sku>:`; those of `A` must not hold those of `A:B`.
    if ":" in text:
        raise ValueError("a SKU has no `:`")
    return text


Sku = Annotated[Text, AfterValidator(_sku)]


class NewProduct(Request):
    sku: Sku = Field(description="Names one product of the tenant, for good. Without `:`.", examples=["SKU-123"])
    name: Text = Field(description="What people call it; passports show it.", examples=["Traction battery 75 kWh"])


class ProductMade(Answer):
    battery_product_id: Id


class BatteryProduct(Answer):
    battery_product_id: Id
    sku: str = Field(examples=["SKU-123"])
    name: str = Field(examples=["Traction battery 75 kWh"])
    is_active: bool
    created_at: Moment


@routes.write("/v1/battery-products", permission="tenant:admin", resource="BatteryProduct", status=201)
async def create_battery_product(work: Work, request: HttpRequest, body: NewProduct) -> ProductMade:
    """Create a product. A SKU that is taken is a CONFLICT that names its product."""
    require_undenied(work, request, [Resource(type="BatteryProduct", sku=body.sku)], "tenant:admin")
    made = await products.create(work.conn, work.tenant, sku=body.sku, name=body.name, act=work.act)
    return ProductMade.model_validate(made)


@routes.read("/v1/battery-products", permission="passport:read", resource="BatteryProduct")
async def list_battery_products(work: Work, paged: Paged) -> Page[BatteryProduct]:
    """List products, newest first."""
    rows = await products.page(work.conn, work.tenant, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.battery_product_id), BatteryProduct.model_validate)


@routes.read("/v1/battery-products/{battery_product_id}", permission="passport:read", resource="BatteryProduct")
async def get_battery_product(work: Work, battery_product_id: Id) -> BatteryProduct:
    """Get a product."""
    found = await products.get(work.conn, work.tenant, BatteryProductId(battery_product_id))
    return BatteryProduct.model_validate(found)
