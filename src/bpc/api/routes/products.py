"""/v1/battery-products: the products that passports are for: created, found, renamed, deactivated."""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query
from pydantic import AfterValidator, Field
from starlette.requests import Request

from bpc.api.access.auth import require_allowed, require_not_denied
from bpc.api.http.models import (
    ActivityFilter,
    ActivityReason,
    CreatedAfter,
    CreatedBefore,
    Id,
    IdOf,
    Moment,
    Page,
    Paging,
    RequestBody,
    ResponseBody,
    SearchText,
    SkuFilter,
    SupplierFilter,
    Text,
)
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.formats.ids import BatteryProductId
from bpc.core.policies import Resource
from bpc.storage.passports import products
from bpc.storage.passports.product_search import ProductFilter

routes = RouteFamily("Battery products", resource="BatteryProduct")


def _require_plain_sku(text: str) -> str:
    # Facts of a product have keys such as `component:<sku>:`; the prefix of `A` must not match facts of `A:B`.
    if ":" in text:
        raise ValueError("a SKU must not contain `:`")
    return text


Sku = Annotated[Text, AfterValidator(_require_plain_sku)]


class NewProduct(RequestBody):
    sku: Sku = Field(
        description="Identifies one product of the tenant and never changes. It must not contain `:`.",
        examples=["SKU-123"],
    )
    name: Text = Field(description="The name for people; passports show it.", examples=["Traction battery 75 kWh"])


class ProductChange(RequestBody):
    name: Text = Field(
        description="The new name. Versions of the passport keep the name that they were issued with.",
        examples=["Traction battery 75 kWh"],
    )


class ProductMade(ResponseBody):
    battery_product_id: Id


class BatteryProduct(ResponseBody):
    battery_product_id: Id
    sku: str = Field(examples=["SKU-123"])
    name: str = Field(examples=["Traction battery 75 kWh"])
    is_active: bool = Field(description="False: deactivated; no new version of its passport is compiled.")
    created_at: Moment


async def _read_product_filter(
    ctx: Context,
    request: Request,
    q: Annotated[
        SearchText | None,
        Query(
            description="Only where the SKU or the name of the product contains this, in any case.",
            examples=["75 kwh"],
        ),
    ] = None,
    sku: SkuFilter = None,
    name: Annotated[
        SearchText | None,
        Query(description="Only products whose name contains this, in upper or lower case.", examples=["75 kwh"]),
    ] = None,
    supplier: SupplierFilter = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
) -> ProductFilter:
    """A filter by supplier shows what documents are about, so it needs the right to read them."""
    if supplier is not None:
        require_allowed(ctx, request, "docs:read", Resource(type="Document"))
    return ProductFilter(
        sku=sku, name=name, text=q, supplier=supplier, created_after=created_after, created_before=created_before
    )


# The filters of lists of products, passports and versions; each list has a filter by status of its own.
ProductFilters = Annotated[ProductFilter, Depends(_read_product_filter)]


@routes.write("/v1/battery-products", permission="tenant:admin", status=201)
async def create_battery_product(ctx: Context, request: Request, body: NewProduct) -> ProductMade:
    """Create a product. If the SKU is taken, the answer is CONFLICT and names its product."""
    require_not_denied(ctx, request, [Resource(type="BatteryProduct", sku=body.sku)], "tenant:admin")
    product = await products.create_product(ctx.conn, ctx.tenant, sku=body.sku, name=body.name, act=ctx.act)
    return ProductMade.model_validate(product)


@routes.read("/v1/battery-products", permission="passport:read")
async def list_battery_products(
    ctx: Context, filters: ProductFilters, page: Paging, status: ActivityFilter = None
) -> Page[BatteryProduct]:
    """List products, newest first. `supplier` also needs `docs:read`."""
    rows = await products.list_products(ctx.conn, ctx.tenant, replace(filters, status=status), page.query)
    return page.build_page(rows, BatteryProduct)


@routes.read("/v1/battery-products/{battery_product_id}", permission="passport:read")
async def get_battery_product(ctx: Context, battery_product_id: IdOf[BatteryProductId]) -> BatteryProduct:
    """Get a product."""
    product = await products.get_product(ctx.conn, ctx.tenant, battery_product_id)
    return BatteryProduct.model_validate(product)


@routes.write("/v1/battery-products/{battery_product_id}", permission="tenant:admin", method="PATCH")
async def change_battery_product(
    ctx: Context, battery_product_id: IdOf[BatteryProductId], body: ProductChange
) -> BatteryProduct:
    """Rename a product. Its SKU never changes. Stored versions replay as before: they have the name of their time."""
    product = await products.rename_product(ctx.conn, ctx.tenant, battery_product_id, body.name, act=ctx.act)
    return BatteryProduct.model_validate(product)


@routes.write("/v1/battery-products/{battery_product_id}:deactivate", permission="tenant:admin")
async def deactivate_battery_product(
    ctx: Context, battery_product_id: IdOf[BatteryProductId], reason: ActivityReason
) -> BatteryProduct:
    """Deactivate a product: no new version of its passport is compiled. Versions that are there stay as they are."""
    product = await products.set_product_activity(
        ctx.conn, ctx.tenant, battery_product_id, is_active=False, reason=reason, act=ctx.act
    )
    return BatteryProduct.model_validate(product)


@routes.write("/v1/battery-products/{battery_product_id}:reactivate", permission="tenant:admin")
async def reactivate_battery_product(
    ctx: Context, battery_product_id: IdOf[BatteryProductId], reason: ActivityReason
) -> BatteryProduct:
    """Reactivate a product: new versions of its passport can be compiled again."""
    product = await products.set_product_activity(
        ctx.conn, ctx.tenant, battery_product_id, is_active=True, reason=reason, act=ctx.act
    )
    return BatteryProduct.model_validate(product)
