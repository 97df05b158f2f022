"""/console/conflicts: where documents say different things about one product, and who decides which one to believe."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit

pages = PageFamily(
    "conflicts", notices={"decided": N_("It is decided. From now on this document is believed about it.")}
)

# Each product takes a call that reads all of its documents.
PRODUCTS_OF_A_PIECE: Final = 10


@pages.show(
    "/console/conflicts", title=N_("Conflicts"), permission="docs:read", command="bpc get '/v1/conflicts?sku=SKU'"
)
async def show_conflicts(visit: Visit) -> Response:
    """The page around the conflicts; they are fetched once it is there."""
    visit.require("docs:read")
    return visit.render("conflicts/conflicts.html.jinja")


@pages.show("/console/conflicts/piece", title=N_("Conflicts"), permission="docs:read")
async def show_piece(visit: Visit) -> Response:
    """The conflicts of one product, or of some products after another."""
    skus, next_cursor = await _choose_skus(visit)
    products = [await visit.api.get("/v1/conflicts", sku=sku) for sku in skus]
    wants_decided = bool(visit.query.get("decided"))
    return visit.render(
        "conflicts/piece.html.jinja",
        products=[
            {"sku": product["sku"], "conflicts": conflicts}
            for product in products
            if (conflicts := _choose_conflicts(product, with_decided=wants_decided))
        ],
        looked_at=len(products),
        next_cursor=next_cursor,
    )


@pages.submit("/console/conflicts/decide", permission="snapshot:build")
async def decide_conflict(visit: Visit) -> Response:
    """Believe one document about one member."""
    names = ("sku", "fact_type", "fact_key", "member", "document_id", "reason")
    await visit.submit("POST", "/v1/conflicts:resolve", {name: visit.form.get(name) for name in names})
    return visit.go_to("/console/conflicts", done="decided", sku=visit.form.get("sku") or "")


async def _choose_skus(visit: Visit) -> tuple[Sequence[str], str | None]:
    if sku := visit.query.get("sku"):
        return [sku], None
    if not visit.may("passport:read"):
        return [], None
    answer = await visit.api.get(
        "/v1/battery-products", status="ACTIVE", cursor=visit.query.get("cursor"), limit=PRODUCTS_OF_A_PIECE
    )
    return [product["sku"] for product in answer["items"]], answer["next_cursor"]


def _choose_conflicts(product: Mapping[str, Any], *, with_decided: bool) -> list[Mapping[str, Any]]:
    return [conflict for conflict in product["conflicts"] if with_decided or not conflict["decided"]]
