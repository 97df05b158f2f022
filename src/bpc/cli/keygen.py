"""`bpc keygen`: a new signing key. Needs no database and no settings."""

from pathlib import Path
from typing import Annotated

import typer

from bpc import fresh
from bpc.cli.files import write_secret
from bpc.cli.output import AsJson, print_json, say
from bpc.core.signing import Seed, public_key_of, to_base64

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def keygen(
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="New file for the private key (base64, mode 0600).")
    ],
    as_json: AsJson = False,
) -> None:
    """Make a new signing key.

    The private half of an Ed25519 key goes into a file that only you can read, the public half onto the screen.
    A file that exists is never overwritten.

    \b
    bpc keygen --out passport-2027.key
    """
    seed = Seed(fresh.entropy(32))
    write_secret(out, to_base64(seed))
    public = to_base64(public_key_of(seed))
    if as_json:
        print_json({"file": str(out), "public_key": public})
    else:
        say(f"private key  {out} (keep it secret, keep a copy)")
        say(f"public key   {public}")
        say("to sign with it, set BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64 to the file's content and BPC_SIGNING_KEY_ID")
        say("to a name of its own")
