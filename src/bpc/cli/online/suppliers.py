"""`bpc suppliers`: who sends documents, how they write numbers, and whom to believe first, over the API."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any, Literal, NamedTuple

import typer
from bpc_client import Client
from bpc_client.models import Supplier

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.support.arguments import UrlOption, command_group, require_utf8
from bpc.cli.support.output import AsJson, format_optional_time, print_json, print_line
from bpc.core.errors import Invalid, NotFound

suppliers_app = command_group(
    "List, add and change who sends documents.\n\n"
    "Where documents differ, the supplier with rank 1 is believed first, then rank 2, then those without a rank; among "
    "equals the document that was stated last."
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The supplier's name.", show_default=False)]
RankOption = Annotated[
    str | None,
    typer.Option("--rank", metavar="NUMBER", help="Whom to believe first: 1, then 2 …; `none` takes the rank away."),
]
LOCALE_HELP = "Decimal separator of numbers in their tables: comma (1.000,5), point (1,000.5)"


@suppliers_app.command("list")
async def list_suppliers(url: UrlOption = None, as_json: AsJson = False) -> None:
    """List suppliers; the one to believe first is on top."""
    async with open_api(url, as_json=as_json) as bpc:
        suppliers = await collect(bpc.list_all(bpc.list_suppliers))
    suppliers.sort(key=lambda supplier: (supplier.rank is None, supplier.rank or 0, supplier.name))
    print_models(
        suppliers,
        ("name", "rank", "locale", "since", "supplier"),
        lambda each: (each.name, each.rank, each.locale, format_optional_time(each.created_at), str(each.supplier_id)),
        as_json=as_json,
    )


@suppliers_app.command("add")
async def add_supplier(
    name: NameArgument,
    locale: Annotated[Literal["comma", "point"] | None, typer.Option("--locale", help=f"{LOCALE_HELP}.")] = None,
    rank: RankOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Add a supplier. An upload that names a supplier adds it as well.

    \b
    bpc suppliers add "Example Cells GmbH" --locale comma --rank 1
    """
    number = _parse_rank(rank)
    async with open_api(url, as_json=as_json) as bpc:
        supplier = await bpc.create_supplier(name=require_utf8("the name", name), locale=locale)
        if number is not None:
            supplier = await bpc.rank_supplier(supplier.supplier_id, rank=number)
    _print_supplier(supplier, as_json=as_json)


@suppliers_app.command("change")
async def change_supplier(
    name: NameArgument,
    locale: Annotated[
        Literal["comma", "point", "unknown"] | None,
        typer.Option("--locale", help=f"{LOCALE_HELP}; unknown: no longer declared."),
    ] = None,
    rank: RankOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Change how a supplier writes numbers, or whom to believe first.

    \b
    bpc suppliers change "Example Cells GmbH" --rank 2

    What was read before stays as it was read. A change of rank needs the permission snapshot:build, every other change
    docs:upload.
    """
    number = _parse_rank(rank)
    if locale is None and rank is None:
        raise Invalid("there is nothing to change", fix="use --locale or --rank")
    async with open_api(url, as_json=as_json) as bpc:
        supplier = await find_supplier(bpc, name)
        if locale is not None:
            supplier = await bpc.change_supplier(supplier.supplier_id, locale=locale)
        if rank is not None:
            supplier = await bpc.rank_supplier(supplier.supplier_id, rank=number)
    _print_supplier(supplier, as_json=as_json)


async def find_supplier(bpc: Client, name: str) -> Supplier:
    """The supplier with this name."""
    page = await bpc.list_suppliers(name=require_utf8("the name", name))
    if not page.items:
        raise NotFound(f"there is no supplier `{name}`", fix="`bpc suppliers list` lists them")
    return page.items[0]


async def find_or_create_supplier(bpc: Client, name: str) -> Supplier:
    """The supplier with this name, which is created if there is none."""
    page = await bpc.list_suppliers(name=require_utf8("the name", name))
    return page.items[0] if page.items else await bpc.create_supplier(name=name)


class ColumnChange(NamedTuple):
    """What a person says that a column is; without a member it is left out."""

    header: str
    member: str | None
    unit: str | None


def parse_column_change(text: str) -> ColumnChange:
    """Read `Header=member`, `Header=member unit` or `Header=`."""
    header, separator, target = require_utf8("the column", text).rpartition("=")
    member, _, unit = target.strip().partition(" ")
    if not separator or not header.strip():
        raise Invalid(f"`{text}` does not say what a column is", fix='write it like "Gewicht=mass_kg g"')
    return ColumnChange(header.strip(), member or None, unit.strip() or None)


def change_columns(mapping: Mapping[str, Any], changes: Sequence[ColumnChange]) -> dict[str, Any]:
    """The mapping with what a person says about its columns; every sheet with such a header is changed."""
    new_mapping: dict[str, Any] = deepcopy(dict(mapping))
    columns = [column for sheet in new_mapping["sheets"] for column in sheet["columns"]]
    for change in changes:
        matching = [column for column in columns if column["header"] == change.header]
        if not matching:
            headers = ", ".join(f"`{column['header']}`" for column in columns)
            raise Invalid(f"there is no column `{change.header}`", fix=f"the columns are {headers}")
        for column in matching:
            column.update(member=change.member, unit=change.unit)
    return new_mapping


def _parse_rank(text: str | None) -> int | None:
    if text is None or text == "none":
        return None
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise Invalid(f"`{text}` is not a rank", fix="write a number from 1 on, or `none`")
    return int(text)


def _print_supplier(supplier: Supplier, *, as_json: bool) -> None:
    if as_json:
        print_json(supplier.model_dump(mode="json"))
        return
    print_line(f"supplier  {supplier.supplier_id}")
    print_line(f"name      {supplier.name}")
    print_line(f"locale    {supplier.locale or 'unknown'}")
    print_line(f"rank      {supplier.rank or 'none'}")
