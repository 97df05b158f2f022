"""/v1/suppliers: who sends documents, how they write numbers, whom to believe first, and what their columns mean."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from service_jobs import LimitExceeded
from starlette.requests import Request

from bpc.api.http.models import Id, IdOf, Moment, Page, Paging, RequestBody, ResponseBody, Text
from bpc.api.http.request_body import SentUpload
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.documents import DocumentRemark, SupplierName
from bpc.api.routes.uploads import check_file
from bpc.core.documents.column_mapping import MappingProblems, parse_mapping
from bpc.core.documents.elements import FACT_TYPES
from bpc.core.documents.mapping_proposal import propose_mapping
from bpc.core.documents.number_texts import NumberLocale
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import SupplierId
from bpc.storage.evidence import suppliers
from bpc.storage.evidence.suppliers import TableKind

routes = RouteFamily("Suppliers", resource="Supplier")


class NewSupplier(RequestBody):
    name: SupplierName = Field(description="Unique within the tenant.")
    locale: NumberLocale | None = Field(
        None, description="The decimal separator of numbers that are texts in its tables; null: not declared."
    )


class SupplierChange(RequestBody):
    locale: Literal["comma", "point", "unknown"] = Field(
        description="The decimal separator of numbers in its tables; `unknown`: no longer declared.", examples=["comma"]
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


class NewColumnMapping(RequestBody):
    kind: TableKind = Field(description="The kind of the supplier's documents that it is for.", examples=["BOM"])
    mapping: dict[str, Any] = Field(
        description="The sheets that are read, with their columns; `POST /v1/documents:propose-mapping` proposes one.",
        examples=[
            {
                "sheets": [
                    {
                        "name": "",
                        "fact_types": ["Battery"],
                        "header_row": 1,
                        "columns": [{"header": "Gewicht", "member": "mass_kg", "unit": "kg"}],
                    }
                ]
            }
        ],
    )


class SupplierColumnMapping(ResponseBody):
    """A version of what a supplier's columns mean. The newest version of a kind is in force."""

    ordered_by = "accepted_at"

    column_mapping_id: Id
    kind: TableKind
    version: int = Field(examples=[1])
    mapping: dict[str, Any]
    accepted_at: Moment
    accepted_by: Id | None = Field(description="The actor; null if it is not known.")


class ColumnProposal(ResponseBody):
    """A column of a table, and the member that it seems to be."""

    header: str
    place: str = Field(description="Where the header is.", examples=["BOM!C3"])
    examples: list[str] = Field(description="Some of its values.")
    member: str | None = Field(description="The member; null: no known member has this name.")
    unit: str | None
    confidence: Literal["exact", "synonym", "similar", "none"] = Field(
        description="Columns with `exact` and `synonym` are in the proposed mapping; check `similar` ones."
    )
    why: str
    needs_unit: bool = Field(description="Whether the header names no unit, and the member needs one.")


class SheetProposal(ResponseBody):
    """A table of a file, and its columns."""

    name: str = Field(description="The name of the sheet; empty for CSV.")
    fact_types: list[str] = Field(examples=[["Battery"]])
    orientation: Literal["rows", "columns"]
    header_row: int
    header_rows: int
    columns: list[ColumnProposal]


class MappingProposed(ResponseBody):
    """What the columns of a file seem to be, and the mapping of those that are certain."""

    sheets: list[SheetProposal]
    mapping: dict[str, Any] | None = Field(
        description="To be accepted as it is, or corrected; null if the file has no table that is known."
    )
    problems: list[DocumentRemark] = Field(description="Why there is no proposal.")
    warnings: list[DocumentRemark]


class MappingInvalid(Invalid):
    """The mapping cannot be used; every reason is in the details."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        path, says = problems[0]
        more = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
        super().__init__(
            f"the mapping cannot be used: `{path}` {says}{more}",
            fix="correct it, or begin with what POST /v1/documents:propose-mapping answers",
            details={"problems": [{"at": at, "says": reason} for at, reason in problems]},
        )


@routes.write("/v1/suppliers/{supplier_id}/column-mappings", permission="docs:upload", status=201)
async def accept_column_mapping(
    ctx: Context, supplier_id: IdOf[SupplierId], body: NewColumnMapping
) -> SupplierColumnMapping:
    """Accept what the columns of a supplier's tables mean, from the next upload on.

    Files that were read before stay as they were read. To read one again, upload it again: under the new mapping it is
    a new version. Accepting the mapping that is in force changes nothing.
    """
    mapping = parse_mapping(body.mapping)
    if isinstance(mapping, MappingProblems):
        raise MappingInvalid(mapping.problems)
    foreign_types = [
        (f"$.sheets[{index}].fact_types", f"has {name}, which documents of kind {body.kind} do not have")
        for index, sheet in enumerate(mapping.sheets)
        for name in sheet.fact_types
        if name not in FACT_TYPES[body.kind]
    ]
    if foreign_types:
        raise MappingInvalid(foreign_types)
    supplier = await suppliers.lock_supplier(ctx.conn, ctx.tenant, supplier_id)
    row = await suppliers.insert_column_mapping(
        ctx.conn, ctx.tenant, supplier.supplier_id, body.kind, mapping.as_json(), act=ctx.act
    )
    return SupplierColumnMapping.model_validate(row)


@routes.read("/v1/suppliers/{supplier_id}/column-mappings", permission="docs:read")
async def list_column_mappings(
    ctx: Context,
    supplier_id: IdOf[SupplierId],
    page: Paging,
    kind: Annotated[TableKind | None, Query(description="Only those for documents of this kind.")] = None,
) -> Page[SupplierColumnMapping]:
    """List what the columns of a supplier's tables mean, newest first. The newest of each kind is in force."""
    supplier = (await suppliers.get_supplier(ctx.conn, ctx.tenant, supplier_id)).supplier_id
    rows = await suppliers.list_column_mappings(ctx.conn, ctx.tenant, supplier, page.query, kind=kind)
    return page.build_page(rows, SupplierColumnMapping)


@routes.ask("/v1/documents:propose-mapping", permission="docs:upload", resource="Document", takes_file=True, heavy=True)
async def propose_column_mapping(
    ctx: Context,
    request: Request,
    kind: Annotated[TableKind, Query(description="The kind of document that it is.", examples=["BOM"])],
) -> MappingProposed:
    """Propose what the columns of a table (XLSX or CSV) mean. Nothing is stored.

    The body is the file itself, or a form (multipart/form-data) with one file.
    """
    upload: SentUpload = request.state.upload
    if upload.fields:
        raise Invalid("the form has fields", fix="send only the file, and `kind` in the query")
    file = await check_file(upload, None, ctx.service.settings.upload_max_bytes)
    try:
        proposal = await ctx.service.readers.run(propose_mapping, (kind, file.mime_type, file.content))
    except LimitExceeded as error:
        raise Invalid(error.says, fix="send a smaller part of the file") from error
    mapping = proposal.to_mapping().as_json() if proposal.sheets else None
    return MappingProposed(
        sheets=[SheetProposal.model_validate(sheet.as_json()) for sheet in proposal.sheets],
        mapping=mapping,
        problems=[DocumentRemark.model_validate(note) for note in proposal.problems.as_json()],
        warnings=[DocumentRemark.model_validate(note) for note in proposal.warnings.as_json()],
    )
