"""`bpc view`: what one audience may see of a bundle. Needs no database and no settings."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from bpc.cli.files import print_bytes, read_bytes, replace_file
from bpc.cli.output import AsJson, print_json, say, visible
from bpc.core.bundle import read_bundle
from bpc.core.view import make_view

app = typer.Typer(add_completion=False, rich_markup_mode=None)

# Everybody; persons with a legitimate interest; notified bodies, market surveillance and the Commission.
Audience = Literal["public", "interest", "authority"]


@app.command()
def view(
    file: Annotated[str, typer.Argument(metavar="BUNDLE", help="The bundle; `-` is standard input.")],
    audience: Annotated[Audience, typer.Option("--audience", help="Who is going to see it.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; standard output without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show one audience its part of a passport, checkably.

    The view holds the fields of that audience, and of all others salted hashes only. Whoever has it and the issuer's
    public key can check with `bpc verify` that the values are in the signed passport and that none was left out.

    \b
    bpc view bundle.zip --audience public --out view.json
    """
    made = make_view(read_bundle(read_bytes(file)), audience)
    if out is None:
        print_bytes(made)
        return
    replace_file(out, made)
    if as_json:
        print_json({"audience": audience, "out": str(out), "bytes": len(made)})
    else:
        say(f"wrote {visible(str(out))}: what the audience `{audience}` may see, {len(made):,} bytes")
