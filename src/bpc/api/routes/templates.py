"""/v1/templates: the spreadsheets that suppliers fill in, by category of batteries."""

import asyncio
from functools import cache
from typing import Literal

from starlette.responses import Response

from bpc.api.http.etag import IfNoneMatch, serve_bytes
from bpc.api.http.routing import RouteFamily
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
