"""`bpc export`: a bundle as a PDF, JSON-LD, XML or a list of data points. Needs no database and no settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from bpc.cli.files import print_bytes, read_bytes, replace_file
from bpc.cli.output import AsJson, print_json, say, visible
from bpc.core.bundle import read_bundle
from bpc.core.exports.disclosed import AUDIENCES, Audience
from bpc.core.exports.formats import Format as Form
from bpc.core.exports.formats import audience_for
from bpc.printing import exported

app = typer.Typer(add_completion=False, rich_markup_mode=None)


Format = Literal["pdf", "json-ld", "xml", "data-points"]
FORMS: Final[Mapping[Format, Form]] = {
    "pdf": "PDF",
    "json-ld": "JSON_LD",
    "xml": "XML",
    "data-points": "DATA_POINTS",
}


@app.command()
def export(
    file: Annotated[str, typer.Argument(metavar="BUNDLE", help="The bundle; `-` is standard input.")],
    format_: Annotated[Format, typer.Option("--format", help="What to make of it.")],
    audience: Annotated[
        Audience | None,
        typer.Option(
            "--audience",
            help="Whom it is for; `tenant` is everything. Without it: PDF public, all others tenant.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; standard output without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a passport, or write it in another form.

    The bundle must be whole and signed, but whose key signed it is not asked: `bpc verify` with `--key` does that.

    \b
    bpc export bundle.zip --format pdf --out passport.pdf
    bpc export bundle.zip --format data-points
    """
    name = FORMS[format_]
    whom = audience_for(name, audience)
    made = exported(read_bundle(read_bytes(file)), name, whom)
    if out is None:
        print_bytes(made)
        return
    replace_file(out, made)
    if as_json:
        print_json({"audience": whom, "bytes": len(made), "format": format_, "out": str(out)})
    else:
        say(f"wrote {visible(str(out))}: for {AUDIENCES[whom]}, {len(made):,} bytes")
