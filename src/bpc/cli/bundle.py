"""`bpc bundle`: everything a stranger needs to check a passport version, fetched over the API."""

from pathlib import Path
from typing import Annotated

import typer

from bpc.cli.files import replace_file
from bpc.cli.online import ask
from bpc.cli.output import AsJson, print_json, say
from bpc.cli.url import Url
from bpc.client import Client, Stored
from bpc.core.ids import parse_uuid

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def bundle(
    version: Annotated[
        str, typer.Argument(metavar="VERSION_ID", help="The passport version's id.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the bundle of a passport version over the API.

    Anyone can check it with `bpc verify`. It holds all facts: it is for those who may see everything.

    \b
    bpc bundle 01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2 --out bundle.zip
    """
    version_id = parse_uuid(version)

    async def fetch(bpc: Client) -> Stored:
        return await bpc.get_bundle(version_id)

    fetched = ask(url, fetch, as_json=as_json)
    replace_file(out, fetched.content)
    if as_json:
        print_json({"file": str(out), "bytes": len(fetched.content), "sha256": (fetched.etag or "").strip('"')})
    else:
        say(f"wrote {out}: {len(fetched.content):,} bytes; `bpc verify {out}` checks it")
