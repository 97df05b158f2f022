"""`bpc get`: any GET of the API, as it answers."""

from typing import Annotated

import typer

from bpc.cli.files import print_bytes
from bpc.cli.online import ask
from bpc.cli.output import AsJson
from bpc.cli.text import checked_text
from bpc.cli.url import Url
from bpc.client import Client
from bpc.core.errors import Invalid

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def get(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Such as /v1/documents?limit=3.", show_default=False)],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Get anything from the API, printed as it is.

    \b
    bpc get '/v1/documents?limit=3'
    """
    wanted = checked_text("the path", path)
    if not wanted.startswith("/") or wanted.startswith("//") or not wanted.isprintable():
        raise Invalid(f"`{path}` is no path of the API", fix="write it like /v1/documents")

    async def fetch(bpc: Client) -> bytes:
        return await bpc.get(wanted)

    content = ask(url, fetch, as_json=as_json)
    print_bytes(content if content.endswith(b"\n") else content + b"\n")
