"""/v1/templates, /v1/schemas: the spreadsheets that suppliers fill in, and the JSON Schemas of their documents."""

import asyncio
from functools import cache
from typing import Final, Literal

import orjson
from starlette.responses import Response

from bpc.api.http.etag import IfNoneMatch, serve_bytes
from bpc.api.http.routing import RouteFamily
from bpc.core.documents.fact_members import build_document_schema
from bpc.core.documents.forms.template_plan import build_template
from bpc.core.documents.forms.template_words import Language
from bpc.core.exports.data_points import Category
from bpc.core.formats.file_types import XLSX
from bpc.printing.template_workbook import write_template_workbook

routes = RouteFamily("Documents")


@routes.open("/v1/templates/{category}", media_type=XLSX)
async def get_template(
    category: Literal["ev", "lmt", "industrial"],
    language: Literal["en", "de"] = "en",
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the spreadsheet that asks what a passport of this category needs. It needs no key: suppliers have none."""
    content = await asyncio.to_thread(_write_template, category, language)  # a tenth of a second, once
    return serve_bytes(content, XLSX, if_none_match, attachment=True, name=f"{category}-{language}.xlsx")


@cache
def _write_template(category: Category, language: Language) -> bytes:
    return write_template_workbook(build_template(category, language))


schema_routes = RouteFamily("Documents")

JSON_SCHEMA: Final = "application/schema+json"


@schema_routes.open(
    "/v1/schemas/{kind}",
    response_class=Response,
    responses={200: {"description": "The schema.", "content": {JSON_SCHEMA: {"schema": {"type": "object"}}}}},
)
async def get_document_schema(kind: Literal["BOM", "PCF", "DUE_DILIGENCE"]) -> Response:
    """Get the JSON Schema (2020-12) of documents of a kind. It needs no key: suppliers have none."""
    return Response(_encode_schema(kind), media_type=JSON_SCHEMA)


@cache
def _encode_schema(kind: str) -> bytes:
    return orjson.dumps(build_document_schema(kind))
