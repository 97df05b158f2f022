"""Options that narrow a list over the API, the same for every command that lists something."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import typer

from bpc.cli.support.arguments import make_utf8_check
from bpc.cli.support.completion import complete_skus, complete_suppliers
from bpc.cli.support.times import parse_when

TextArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TEXT",
        help="Only those whose SKU or name contains this, in upper or lower case.",
        show_default=False,
        callback=make_utf8_check("the text"),
    ),
]
TextOption = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="TEXT",
        help="Only those whose SKU or name contains this, in upper or lower case.",
        callback=make_utf8_check("the text"),
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="TEXT", help="Only those whose name contains this.", callback=make_utf8_check("the name")
    ),
]
SkuOption = Annotated[
    str | None,
    typer.Option(
        "--sku",
        metavar="SKU",
        help="Only those about this product.",
        callback=make_utf8_check("the SKU"),
        autocompletion=complete_skus,
    ),
]
SupplierOption = Annotated[
    str | None,
    typer.Option(
        "--supplier",
        metavar="NAME",
        help="Only those that documents of this supplier are about.",
        callback=make_utf8_check("the supplier"),
        autocompletion=complete_suppliers,
    ),
]
Activity: TypeAlias = Literal["ACTIVE", "INACTIVE"]
ActivityOption = Annotated[
    Activity | None,
    typer.Option("--status", help="Only those that are, or are not, active.", case_sensitive=False),
]


def parse_optional_when(text: str | None) -> datetime | None:
    """The time of an option that may be left out."""
    return None if text is None else parse_when(text)
