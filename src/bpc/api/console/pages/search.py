"""/console/search: any product, document or passport by a text; as a page, and as what the palette shows."""

from typing import Any, Final

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit

pages = PageFamily("search")

SHORTEST_TEXT: Final = 2
MOST_OF_EACH: Final = 8


@pages.show("/console/search", title=N_("Find anything"))
async def show_results(visit: Visit) -> Response:
    """What the actor may see of each kind, the newest first. Sections of the menu are found by their name."""
    text = visit.query.get("q", "").strip()
    groups: list[dict[str, Any]] = []
    if len(text) >= SHORTEST_TEXT:
        groups = [group for group in [await _find_products(visit, text), await _find_documents(visit, text)] if group]
    sections = [entry for entry in visit.frame.menu if text.lower() in visit.translate(entry.label).lower()]
    template = "search/results.html.jinja" if visit.is_part else "search/search.html.jinja"
    return visit.render(template, text=text, groups=groups, sections=sections)


async def _find_products(visit: Visit, text: str) -> dict[str, Any]:
    if not visit.may("passport:read"):
        return {}
    answer = await visit.api.get("/v1/battery-products", q=text, limit=MOST_OF_EACH)
    hits = [
        {"href": f"/console/products/{each['battery_product_id']}", "name": each["sku"], "beside": each["name"]}
        for each in answer["items"]
    ]
    return {"label": N_("Products"), "hits": hits} if hits else {}


async def _find_documents(visit: Visit, text: str) -> dict[str, Any]:
    if not visit.may("docs:read"):
        return {}
    answer = await visit.api.get("/v1/documents", q=text, limit=MOST_OF_EACH)
    hits = [
        {
            "href": f"/console/evidence/{each['document_id']}",
            "name": each["name"] or each["external_ref"],
            "beside": each["supplier"] or "",
        }
        for each in answer["items"]
    ]
    return {"label": N_("Evidence"), "hits": hits} if hits else {}
