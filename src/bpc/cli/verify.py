"""`bpc verify`: is this bundle or view what it claims to be. Needs no database and no settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from bpc.cli.files import read_bytes
from bpc.cli.output import REFUSED, AsJson, print_json, say
from bpc.core.errors import Invalid
from bpc.core.key_set import read_key_set
from bpc.core.signing import BadKey, PublicKey, checked_public_key, from_base64
from bpc.core.verify.bundle import is_view, verify_either
from bpc.core.verify.report import Report
from bpc.core.verify.signature import Pin
from bpc.core.verify.view import CLAIM

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_NAME_WIDTH: Final = 16


@app.command()
def verify(
    file: Annotated[str, typer.Argument(metavar="BUNDLE|VIEW", help="The file to check; `-` is standard input.")],
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="BASE64", help="The issuer's public key, as you know it.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Public keys you trust: one a line, or an issuer's bpc-keys.json."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a bundle or a view, step by step.

    Everything is computed anew from the file alone: hashes, the computation the rules ask for, the signature, the QR
    code, and at last the compile itself. Exits 1 if a step does not hold.

    Without a key, whoever signed it may have been anybody: give the issuer's, which you got on another way.

    \b
    bpc verify bundle.zip --key 3q2+7w…
    bpc verify view.json --keys issuers.txt --json
    curl -o keys.json https://issuer.example/.well-known/bpc-keys.json && bpc verify bundle.zip --keys keys.json
    """
    data = read_bytes(file)
    pinned = _pinned(key or [], keys)
    report = verify_either(data, pinned=pinned)
    if as_json:
        print_json({"ok": report.ok, "issuer": report.issuer, "steps": [step._asdict() for step in report.steps]})
    else:
        _print(report, view=is_view(data), pinned=bool(pinned))
    if not report.ok:
        raise typer.Exit(REFUSED)


def _pinned(given: Sequence[str], file: Path | None) -> list[Pin]:
    keys: list[Pin] = [_key(text, "--key") for text in given]
    if file is None:
        return keys
    found = _read_keys(file)
    if not found:  # a list of trusted keys that is empty trusts nobody, and must not pass for no list
        raise Invalid(f"`{file}` holds no key", fix="write one public key a line, in base64")
    return keys + found


def _read_keys(file: Path) -> list[Pin]:
    """The keys of a file: a set that an issuer publishes, or a list that a person wrote, where `#` starts a comment.

    In a set keys have names, and each is trusted for what names it only.
    """
    data = read_bytes(str(file))
    if data.lstrip().startswith(b"{"):
        return list(read_key_set(data))
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise Invalid(f"`{file}` is not a text of keys", fix="write one public key a line, in base64") from None
    texts = [(number, line.split("#")[0].strip()) for number, line in enumerate(lines, 1)]
    return [_key(text, f"{file}, line {number}") for number, text in texts if text]


def _key(text: str, where: str) -> PublicKey:
    try:
        return checked_public_key(from_base64(text))
    except BadKey as refused:
        raise Invalid(f"{where}: {refused.says}", fix="give the public key as `bpc keygen` printed it") from None


def _print(report: Report, *, view: bool, pinned: bool) -> None:
    for step in report.steps:
        mark, colour = ("  ok", "green") if step.ok else ("fail", "red")
        say(mark, colour=colour, end="  ")
        say(f"{step.name.ljust(_NAME_WIDTH)} {step.detail}")
    say("")
    what = "view" if view else "bundle"
    if view and not pinned and report.failed == ("signature",):
        say(
            "Do not rely on this view yet: who signed it was not checked. Give the issuer's key with --key.",
            colour="red",
        )
    elif not report.ok:
        say(f"Do not rely on this {what}: {', '.join(report.failed)} failed.", colour="red", bold=True)
    elif view:
        say(CLAIM)
    elif report.issuer == "unpinned":
        say("Everything in this bundle fits together. Who signed it was not checked: give the issuer's key with --key.")
    else:
        say("This bundle is what its issuer signed, and exactly what its rules give for its facts.", colour="green")
