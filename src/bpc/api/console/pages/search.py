"""/console/search: any product, battery, document, rule, page or action by a text; as a page, and in the palette."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.errors import Refusal

pages = PageFamily("search")

SHORTEST_TEXT: Final = 2
MOST_OF_EACH: Final = 8
LONGEST_SERIAL: Final = 200
BATTERY_PAGE: Final = "/console/batteries/{battery_id}"


class Action(NamedTuple):
    """Something to do: its words, where it is done, and the permission for it."""

    label: str
    href: str
    permission: str


ACTIONS: Final[Sequence[Action]] = (
    Action(N_("Upload a document"), "/console/evidence", "docs:upload"),
    Action(N_("Make a rule package"), "/console/rules", "rules:write"),
    Action(N_("Show failed jobs"), "/console/jobs?status=DEAD_LETTER", "jobs:read"),
    Action(N_("Show running jobs"), "/console/jobs?status=RUNNING", "jobs:read"),
    Action(N_("Show figures of jobs"), "/console/jobs/statistics", "jobs:read"),
    Action(N_("Verify the record"), "/console/audit/verify", "audit:read"),
    Action(N_("Show public keys and the log"), "/console/audit/trust", "audit:read"),
    Action(N_("Show deliveries of webhooks"), "/console/administration/webhooks", "tenant:admin"),
    Action(N_("End sessions"), "/console/sessions", ""),
)


@pages.show("/console/search", title=N_("Find anything"))
async def show_results(visit: Visit) -> Response:
    """What the actor may see of each kind, the newest first. Sections of the menu are found by their name."""
    text = visit.query.get("q", "").strip()
    groups: list[dict[str, Any]] = []
    if len(text) >= SHORTEST_TEXT:
        finders = (_find_products, _find_batteries, _find_documents, _find_rules)
        groups = [group for find in finders if (group := await find(visit, text))]
        groups += [group for group in [_find_actions(visit, text)] if group]
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


async def _find_batteries(visit: Visit, text: str) -> dict[str, Any]:
    """Batteries whose label says this: a serial number, or what a code of GS1 holds."""
    if not visit.may("passport:read") or len(text) > LONGEST_SERIAL:
        return {}
    try:
        answer = await visit.api.get("/v1/batteries:lookup", text=text)
    except Refusal:  # it is nothing that a label says
        return {}
    has_page = BATTERY_PAGE in visit.request.app.state.console_paths
    hits = [
        {
            "href": BATTERY_PAGE.format(**each) if has_page else f"/console/products/{each['battery_product_id']}",
            "name": each["serial_number"],
            "beside": each["sku"],
        }
        for each in answer["items"][:MOST_OF_EACH]
    ]
    return {"label": N_("Batteries"), "hits": hits} if hits else {}


async def _find_rules(visit: Visit, text: str) -> dict[str, Any]:
    if not visit.may("rules:read"):
        return {}
    answer = await visit.api.get("/v1/rule-packages", q=text, limit=MOST_OF_EACH)
    hits = [
        {"href": f"/console/rules/{each['rule_package_id']}", "name": each["name"], "beside": each["description"] or ""}
        for each in answer["items"]
    ]
    return {"label": N_("Rules"), "hits": hits} if hits else {}


def _find_actions(visit: Visit, text: str) -> dict[str, Any]:
    hits = [
        {"href": action.href, "name": visit.translate(action.label), "beside": ""}
        for action in ACTIONS
        if (not action.permission or visit.may(action.permission))
        and text.lower() in visit.translate(action.label).lower()
    ]
    return {"label": N_("Actions"), "hits": hits} if hits else {}
