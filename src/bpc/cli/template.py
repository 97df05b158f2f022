"""`bpc template`: the file a supplier fills in. Needs no database and no settings."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from bpc.cli.files import print_bytes, replace_file
from bpc.cli.output import say
from bpc.core.errors import Conflict

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def template(
    kind: Annotated[Literal["BOM", "PCF", "DUE_DILIGENCE"], typer.Argument(help="What the document is about.")] = "BOM",
    form: Annotated[Literal["xlsx", "csv", "json"], typer.Option("--format", help="What the file shall be.")] = "xlsx",
    example: Annotated[bool, typer.Option("--example", help="Fill it in with an example.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="New file; `-` prints it. [default: KIND.FORMAT]")
    ] = None,
) -> None:
    """Write the file that a supplier fills in.

    It has a column for everything a document of that kind can say, and a row that explains each. Suppliers fill in what
    they know, below; what they leave empty is not said. docs/documents.md has the details.

    \b
    bpc template BOM --out bom.xlsx
    bpc template PCF --format csv --example --out -
    """
    from bpc.cli.template_files import written  # noqa: PLC0415 (writing spreadsheets is slow to import)

    content = written(kind, form, example=example)
    if out == Path("-"):
        print_bytes(content)
        return
    file = out or Path(f"{kind.lower().replace('_', '-')}.{form}")
    if file.exists():
        raise Conflict(f"`{file}` exists already", fix="choose another name, or move it away first")
    replace_file(file, content)
    say(f"{file} shows how it is filled in" if example else f"{file} is ready to be filled in")
