"""`bpc canonicalize`: any JSON in, its canonical bytes out. Needs no database and no settings."""

from typing import Annotated

import typer

from bpc.cli.files import print_bytes, read_bytes
from bpc.cli.flags import QuickCommand
from bpc.core.canon import canonicalize
from bpc.core.digest import sha256, to_hex
from bpc.core.errors import Invalid

app = typer.Typer(add_completion=False, rich_markup_mode=None)


# The file is what is left over: a declared argument would be converted, and that is slow (bpc.cli.flags).
@app.command(cls=QuickCommand, context_settings={"allow_extra_args": True}, options_metavar="[OPTIONS] [FILE|-]")
def canonicalize_command(
    context: typer.Context,
    *,
    show_hash: Annotated[bool, typer.Option("--hash", help="Print the SHA-256 of the bytes instead.")] = False,
) -> None:
    """Write the canonical bytes of a JSON document.

    It is read from FILE, or from standard input without one or with `-`.

    Two documents that say the same give the same bytes (BPC-CJSON-1), so their hashes can be compared. A document
    without canonical form, such as one with a fraction or a doubled key, is refused with its place.

    \b
    bpc canonicalize bom.json > bom.canonical
    echo '{"b": 2, "a": 1}' | bpc canonicalize --hash
    """
    file, *others = context.args or ["-"]
    if others:
        raise typer.BadParameter(f"Got {len(context.args)} files, and takes one.", context)
    try:
        data = canonicalize(read_bytes(file))
    except Invalid as refused:  # the reason in one line, for scripts that canonicalise many
        says = refused.says if refused.fix is None else f"{refused.says}; {refused.fix}"
        raise Invalid(says, details=refused.details) from refused
    if show_hash:
        typer.echo(to_hex(sha256(data)))
    else:
        print_bytes(data)
