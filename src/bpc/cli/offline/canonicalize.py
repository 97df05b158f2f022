"""`bpc canonicalize`: any JSON in, its canonical bytes out. Needs no database and no settings."""

from typing import Annotated

import typer

from bpc.cli.support.arguments import QuickCommand
from bpc.cli.support.output import AsJson, print_bytes, print_json, read_bytes
from bpc.core.errors import Invalid
from bpc.core.formats.canonical_json import canonicalize
from bpc.core.formats.hashes import sha256, to_hex

canonicalize_app = typer.Typer(add_completion=False, rich_markup_mode=None)


# The file is an extra argument: a declared argument would be converted, which is slow (bpc.cli.support.arguments).
@canonicalize_app.command(
    cls=QuickCommand, context_settings={"allow_extra_args": True}, options_metavar="[OPTIONS] [FILE|-]"
)
def canonicalize_command(
    context: typer.Context,
    *,
    show_hash: Annotated[bool, typer.Option("--hash", help="Print the SHA-256 of the bytes instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write JSON in canonical form: one exact spelling.

    Reads FILE, or standard input without FILE or with `-`.

    Two documents with the same content give the same bytes (BPC-CJSON-1), so their hashes can be compared. A document
    that has no canonical form (for example with a fraction or a duplicate key) is refused with the position.

    \b
    bpc canonicalize bom.json > bom.canonical
    echo '{"b": 2, "a": 1}' | bpc canonicalize --hash
    """
    file, *others = context.args or ["-"]
    if others:
        raise typer.BadParameter(f"Got {len(context.args)} files; expected one.", context)
    try:
        data = canonicalize(read_bytes(file))
    except Invalid as refusal:  # the reason in one line, for scripts
        says = refusal.says if refusal.fix is None else f"{refusal.says}; {refusal.fix}"
        raise Invalid(says, details=refusal.details) from refusal
    if as_json:
        print_json({"canonical": data.decode(), "bytes": len(data), "sha256": to_hex(sha256(data))})
    elif show_hash:
        typer.echo(to_hex(sha256(data)))
    else:
        print_bytes(data)
