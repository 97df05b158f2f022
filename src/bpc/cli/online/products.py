"""`bpc products`: find products, rename them, and say for which no new passports are made, over the API."""

from typing import Annotated

import typer
from bpc_client import Client
from bpc_client.models import BatteryProduct

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.support.arguments import LimitOption, UrlOption, command_group, make_utf8_check, require_utf8
from bpc.cli.support.list_options import ActivityOption, NameOption, SupplierOption, TextArgument, parse_optional_when
from bpc.cli.support.output import AsJson, format_day, format_yes_no, print_json, print_line
from bpc.cli.support.times import SinceOption, UntilOption
from bpc.core.errors import NotFound

products_app = command_group(
    "Find, rename, deactivate and reactivate products.\n\n"
    "A SKU never changes. A new name is in the passports that are compiled from then on; those that were issued keep "
    "theirs. No new version is compiled for a product that is deactivated."
)

SkuArgument = Annotated[str, typer.Argument(metavar="SKU", help="The product's SKU.", show_default=False)]
ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.", callback=make_utf8_check("the reason")),
]


@products_app.command("list")
async def list_products(
    text: TextArgument = None,
    name: NameOption = None,
    status: ActivityOption = None,
    supplier: SupplierOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 1000,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List products, the newest first.

    \b
    bpc products list traction --status active --since 30d
    """
    async with open_api(url, as_json=as_json) as bpc:
        matching_products = bpc.list_all(
            bpc.list_battery_products,
            q=text,
            name=name,
            status=status,
            supplier=supplier,
            created_after=parse_optional_when(since),
            created_before=parse_optional_when(until),
        )
        products = await collect(matching_products, limit)
    print_models(
        products,
        ("sku", "name", "active", "since"),
        lambda each: (each.sku, each.name, format_yes_no(each.is_active), format_day(each.created_at)),
        as_json=as_json,
    )


@products_app.command("show")
async def show_product(sku: SkuArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Show a product and its passport."""
    async with open_api(url, as_json=as_json) as bpc:
        product = await find_product(bpc, sku)
        passports = (await bpc.list_passports(sku=product.sku)).items
    passport = passports[0] if passports else None
    if as_json:
        members = {} if passport is None else passport.model_dump(mode="json")
        version = members.get("current_passport_version_id")
        print_json(
            product.model_dump(mode="json")
            | {"passport_id": members.get("passport_id"), "current_passport_version_id": version}
        )
        return
    _print_product(product)
    print_line(f"passport  {'none' if passport is None else passport.passport_id}")
    current = None if passport is None else passport.current_passport_version_id
    print_line(f"current   {current or 'none'}")


@products_app.command("rename")
async def rename_product(
    sku: SkuArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.", show_default=False)],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Rename a product. Passports that were issued keep the name of their time."""
    new_name = require_utf8("the name", name)
    async with open_api(url, as_json=as_json) as bpc:
        product = await bpc.change_battery_product((await find_product(bpc, sku)).battery_product_id, name=new_name)
    _print_changed(product, as_json=as_json)


@products_app.command("deactivate")
async def deactivate_product(
    sku: SkuArgument, reason: ReasonOption = None, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Compile no new version for a product. Its versions stay as they are."""
    async with open_api(url, as_json=as_json) as bpc:
        product_id = (await find_product(bpc, sku)).battery_product_id
        product = await bpc.deactivate_battery_product(product_id, reason=reason)
    _print_changed(product, as_json=as_json)


@products_app.command("reactivate")
async def reactivate_product(
    sku: SkuArgument, reason: ReasonOption = None, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Compile new versions for a product again."""
    async with open_api(url, as_json=as_json) as bpc:
        product_id = (await find_product(bpc, sku)).battery_product_id
        product = await bpc.reactivate_battery_product(product_id, reason=reason)
    _print_changed(product, as_json=as_json)


async def find_product(bpc: Client, sku: str) -> BatteryProduct:
    """The product with this SKU."""
    page = await bpc.list_battery_products(sku=require_utf8("the SKU", sku))
    if not page.items:
        raise NotFound(f"there is no product `{sku}`", fix="`bpc products list` lists them")
    return page.items[0]


def _print_changed(product: BatteryProduct, *, as_json: bool) -> None:
    if as_json:
        print_json(product.model_dump(mode="json"))
    else:
        _print_product(product)


def _print_product(product: BatteryProduct) -> None:
    print_line(f"product   {product.battery_product_id}")
    print_line(f"sku       {product.sku}")
    print_line(f"name      {product.name}")
    print_line(f"active    {format_yes_no(product.is_active)}")
