"""/console/gaps: products and the Commission's 71 data points: what is filled, what is missing, and who owes it.

Compiling on trial takes time, so the page is there at once and fetches the matrix afterwards, a piece of products at a
time.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from bpc.api.console.gap_sheets import write_gap_sheets
from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.exports.data_points import POINTS
from bpc.runtime import clock

pages = PageFamily("gaps")

PRODUCTS_OF_A_PIECE: Final = 20
MOST_EXPORTED: Final = 100
XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# How a state of a point reads, its sign in the matrix and its tone.
STATES: Final[Mapping[str, tuple[str, str, str]]] = {
    "filled": (N_("filled"), "✓", "good"),
    "missing": (N_("missing"), "!", "bad"),
    "failing": (N_("failing"), "✗", "bad"),
    "unreadable": (N_("unreadable"), "?", "bad"),
    "conflicting": (N_("conflicting"), "≠", "warn"),
    "implausible": (N_("implausible"), "~", "warn"),
    "not_shown": (N_("known, but not shown by the rules"), "–", "warn"),
    "empty": (N_("not mandatory and empty"), "○", "plain"),
    "not_asked": (N_("not asked for"), "·", "plain"),
}


@pages.show(
    "/console/gaps", title=N_("Gaps"), permission="passport:compile", command="bpc passports check --all --matrix"
)
async def show_gaps(visit: Visit) -> Response:
    """The page around the matrix, with the rules that can be chosen and the day of issue."""
    visit.require("passport:compile")
    packages = (await visit.api.get("/v1/rule-packages", limit=200))["items"] if visit.may("rules:read") else []
    return visit.render(
        "gaps/gaps.html.jinja",
        packages=packages,
        day=visit.query.get("issued_on") or clock.now().date().isoformat(),
        states=STATES,
    )


@pages.show("/console/gaps/piece", title=N_("Gaps"), permission="passport:compile")
async def show_piece(visit: Visit) -> Response:
    """A piece of the matrix: some products, each tried with the rules."""
    skus, next_cursor = await _choose_skus(visit)
    report: Mapping[str, Any] = {"products": [], "refused": []}
    if skus:
        report = await _check(visit, skus)
    return visit.render(
        "gaps/piece.html.jinja",
        products=report["products"],
        refused=report["refused"],
        rows=[_describe_product(product) for product in report["products"]],
        points=POINTS,
        states=STATES,
        next_cursor=next_cursor,
        is_first="cursor" not in visit.query,
    )


@pages.show("/console/gaps/export.xlsx", title=N_("Gaps"), permission="passport:compile")
async def export_gaps(visit: Visit) -> Response:
    """The matrix and what is to be done as a spreadsheet: the products of the filter, the first hundred of them."""
    visit.require("passport:compile")
    products: list[Mapping[str, Any]] = []
    cursor: str | None = None
    for _ in range(MOST_EXPORTED // PRODUCTS_OF_A_PIECE):
        answer = await visit.api.get(
            "/v1/battery-products",
            q=visit.query.get("q"),
            status="ACTIVE",
            cursor=cursor,
            limit=PRODUCTS_OF_A_PIECE,
        )
        if skus := [product["sku"] for product in answer["items"]]:
            products += (await _check(visit, skus))["products"]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    labels = {state: visit.translate(says) for state, (says, _, _) in STATES.items()}
    content = await asyncio.to_thread(write_gap_sheets, products, labels)
    headers = {"Content-Disposition": 'attachment; filename="gaps.xlsx"'}
    return Response(content, media_type=XLSX, headers=headers)


async def _check(visit: Visit, skus: Sequence[str]) -> Mapping[str, Any]:
    """Try products with the rules and the day that the query names."""
    body = {"skus": skus, "rule_package_id": visit.query.get("rules"), "issued_on": visit.query.get("issued_on")}
    report: Mapping[str, Any] = await visit.api.ask(
        "/v1/passports:check", {name: value for name, value in body.items() if value}
    )
    return report


async def _choose_skus(visit: Visit) -> tuple[Sequence[str], str | None]:
    answer = await visit.api.get(
        "/v1/battery-products",
        q=visit.query.get("q"),
        status="ACTIVE",
        cursor=visit.query.get("cursor"),
        limit=PRODUCTS_OF_A_PIECE,
    )
    return [product["sku"] for product in answer["items"]], answer["next_cursor"]


def _describe_product(product: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a product: the state of each point, and what is to be done, with who sent the documents."""
    counts: dict[str, int] = {}
    for point in product["points"]:
        counts[point["state"]] = counts.get(point["state"], 0) + 1
    todo = [issue for issue in product["issues"] if issue["severity"] == "error"]
    return {
        "sku": product["sku"],
        "category": product["category"],
        "is_ready": product["ready"],
        "points": product["points"],
        "counts": counts,
        "issues": product["issues"],
        "errors": len(todo),
        "debtors": sorted({each["supplier"] for issue in todo for each in issue["documents"] if each["supplier"]}),
    }
