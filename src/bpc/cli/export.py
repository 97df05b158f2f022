"""`bpc export`: a bundle as a PDF, JSON-LD, XML or a list of data points. Needs no database and no settings."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc.cli.files import print_bytes, read_bytes, replace_file
from bpc.cli.output import AsJson, print_json, say, visible
from bpc.core.bundle import read_bundle
from bpc.core.exports.disclosed import AUDIENCES
from bpc.core.exports.disclosed import Audience as Whom
from bpc.core.exports.formats import Format as Form
from bpc.core.exports.formats import audience_for
from bpc.printing import exported

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Format(StrEnum):
    pdf = "pdf"
    json_ld = "json-ld"
    xml = "xml"
    data_points = "data-points"


class Audience(StrEnum):
    public = "public"
    interest = "interest"
    authority = "authority"
    tenant = "tenant"


FORMS: Final[Mapping[Format, Form]] = {
    Format.pdf: "PDF",
    Format.json_ld: "JSON_LD",
    Format.xml: "XML",
    Format.data_points: "DATA_POINTS",
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
    whom: Whom = audience_for(name, None if audience is None else audience.value)
    made = exported(read_bundle(read_bytes(file)), name, whom)
    if out is None:
        print_bytes(made)
        return
    replace_file(out, made)
    if as_json:
        print_json({"audience": whom, "bytes": len(made), "format": format_.value, "out": str(out)})
    else:
        say(f"wrote {visible(str(out))}: for {AUDIENCES[whom]}, {len(made):,} bytes")
