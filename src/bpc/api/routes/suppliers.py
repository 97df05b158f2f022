"""/v1/suppliers: who sends documents, how they write numbers, and whom to believe first."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from bpc.api.http.models import Id, IdOf, Moment, Page, Paging, RequestBody, ResponseBody, Text
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.documents import SupplierName
from bpc.core.errors import Conflict
from bpc.core.formats.ids import SupplierId
from bpc.storage.evidence import suppliers
from bpc.storage.evidence.suppliers import NumberLocale

routes = RouteFamily("Suppliers", resource="Supplier")


class NewSupplier(RequestBody):
    name: SupplierName = Field(description="Unique within the tenant.")
    locale: NumberLocale | None = Field(
        None, description="The decimal separator of numbers that are texts in its tables; null: not declared."
    )


class SupplierChange(RequestBody):
    locale: Literal["comma", "point", "unknown"] = Field(
        description="The decimal separator of numbers in its tables; `unknown`: no longer declared."
    )


class SupplierRank(RequestBody):
    rank: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="1 is believed first; null: after all suppliers with a rank.", examples=[1]
    )


class Supplier(ResponseBody):
    supplier_id: Id
    name: str = Field(examples=["Example Cells GmbH"])
    locale: NumberLocale | None = Field(description="The decimal separator of numbers in its tables; null: unknown.")
    rank: int | None = Field(description="1 is believed first; null: after all suppliers with a rank.", examples=[1])
    created_at: Moment


@routes.write("/v1/suppliers", permission="docs:upload", status=201)
async def create_supplier(ctx: Context, body: NewSupplier) -> Supplier:
    """Create a supplier. An upload that names a supplier creates it as well."""
    supplier = await suppliers.create_supplier(ctx.conn, ctx.tenant, name=body.name, locale=body.locale, act=ctx.act)
    if supplier is None:
        raise Conflict("a supplier with this name already exists", fix="use it, or choose another name")
    return Supplier.model_validate(supplier)


@routes.read("/v1/suppliers", permission="docs:read")
async def list_suppliers(
    ctx: Context,
    page: Paging,
    name: Annotated[
        Text | None, Query(description="Only the supplier with this name.", examples=["Example Cells GmbH"])
    ] = None,
) -> Page[Supplier]:
    """List suppliers, newest first."""
    return page.build_page(await suppliers.list_suppliers(ctx.conn, ctx.tenant, page.query, name=name), Supplier)


@routes.read("/v1/suppliers/{supplier_id}", permission="docs:read")
async def get_supplier(ctx: Context, supplier_id: IdOf[SupplierId]) -> Supplier:
    """Get a supplier."""
    return Supplier.model_validate(await suppliers.get_supplier(ctx.conn, ctx.tenant, supplier_id))


@routes.write("/v1/suppliers/{supplier_id}", permission="docs:upload", method="PATCH")
async def change_supplier(ctx: Context, supplier_id: IdOf[SupplierId], body: SupplierChange) -> Supplier:
    """Change how a supplier writes numbers. Files that were read before stay as they were read."""
    supplier = await suppliers.lock_supplier(ctx.conn, ctx.tenant, supplier_id)
    locale: NumberLocale | None = None if body.locale == "unknown" else body.locale
    return Supplier.model_validate(
        await suppliers.set_supplier_locale(ctx.conn, ctx.tenant, supplier, locale, act=ctx.act)
    )


@routes.write("/v1/suppliers/{supplier_id}:rank", permission="snapshot:build")
async def rank_supplier(ctx: Context, supplier_id: IdOf[SupplierId], body: SupplierRank) -> Supplier:
    """Set whom to believe first where documents differ, until somebody decides a conflict.

    Suppliers with a rank come before those without; of several with the same rank, the newest statement counts.
    """
    supplier = await suppliers.lock_supplier(ctx.conn, ctx.tenant, supplier_id)
    return Supplier.model_validate(
        await suppliers.set_supplier_rank(ctx.conn, ctx.tenant, supplier, body.rank, act=ctx.act)
    )
