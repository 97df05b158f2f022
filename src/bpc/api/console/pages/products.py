"""/console/products: the products that passports are for."""

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit

pages = PageFamily(
    "products",
    notices={
        "created": N_("The product is there."),
        "renamed": N_("The product has its new name."),
        "changed": N_("The product was changed."),
    },
)


@pages.show("/console/products", title=N_("Products"), permission="passport:read", command="bpc products list")
async def show_products(visit: Visit) -> Response:
    """The products of the tenant, newest first, by a text in their SKU or name."""
    answer = await visit.api.get(
        "/v1/battery-products",
        q=visit.query.get("q"),
        status=visit.query.get("status"),
        cursor=visit.query.get("cursor"),
    )
    return visit.render("products/list.html.jinja", products=answer["items"], next_cursor=answer["next_cursor"])


@pages.submit("/console/products", permission="tenant:admin")
async def create_product(visit: Visit) -> Response:
    body = {"sku": visit.form.get("sku"), "name": visit.form.get("name")}
    answer = await visit.submit("POST", "/v1/battery-products", body)
    return visit.go_to(f"/console/products/{answer.body['battery_product_id']}", done="created")


@pages.show(
    "/console/products/{battery_product_id}",
    title=N_("Product"),
    permission="passport:read",
    command="bpc products show SKU",
)
async def show_product(visit: Visit) -> Response:
    """One product: its passports and what may be done with it."""
    product = await visit.api.get(f"/v1/battery-products/{visit.path['battery_product_id']}")
    passports = await visit.api.get("/v1/passports", sku=product["sku"])
    return visit.render("products/product.html.jinja", product=product, passports=passports["items"])


@pages.submit("/console/products/{battery_product_id}/rename", permission="tenant:admin")
async def rename_product(visit: Visit) -> Response:
    path = f"/v1/battery-products/{visit.path['battery_product_id']}"
    await visit.submit("PATCH", path, {"name": visit.form.get("name")})
    return visit.go_to(f"/console/products/{visit.path['battery_product_id']}", done="renamed")
