"""`bpc granted`: what a grantee does with the code of a grant. The code is never an argument of a command."""

import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Final, Literal, cast
from uuid import UUID

import typer
from bpc_client import Client
from bpc_client.models import OwnGrant

from bpc.cli.online.api_client import end_refusals
from bpc.cli.support.arguments import UrlOption, command_group
from bpc.cli.support.output import AsJson, escape_controls, format_optional_time, print_line, print_result, replace_file
from bpc.cli.support.service import locate_service
from bpc.core.errors import Invalid
from bpc.core.view_grants import GrantCode

GrantedForm = Literal["view", "pdf", "bundle"]
FILE_NAMES: Final[dict[GrantedForm, str]] = {
    "view": "passport.view.json",
    "pdf": "passport.pdf",
    "bundle": "passport.zip",
}
CODE_VARIABLE: Final = "BPC_GRANT_CODE_FILE"

granted_app = command_group(
    "Fetch what a grant lets you read, with the code that the issuer sent you.\n\n"
    "The code comes from a file (--code-file or BPC_GRANT_CODE_FILE), or is asked for; it is never an argument, which "
    "other people of the machine could see. Each read is on record at the issuer."
)

CodeOption = Annotated[
    Path | None,
    typer.Option("--code-file", metavar="FILE", help="The file with the code; `-` is standard input [default: ask]."),
]


@granted_app.command("show")
async def show_grant(code_file: CodeOption = None, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Show what the grant says: whose view of what, until when, and its terms."""
    async with _open_service(url, code_file, as_json=as_json) as bpc:
        grant = await bpc.get_own_grant()
    _print_grant(grant, as_json=as_json)


@granted_app.command("accept-terms")
async def accept_terms(code_file: CodeOption = None, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Accept the terms of the grant, which comes before the first read. `bpc granted show` prints them."""
    async with _open_service(url, code_file, as_json=as_json) as bpc:
        grant = await bpc.accept_grant_terms()
    _print_grant(grant, as_json=as_json)


@granted_app.command("fetch")
async def fetch_granted(
    passport_id: Annotated[UUID, typer.Argument(metavar="ID", help="The id on the label, of a passport or a battery.")],
    form: Annotated[GrantedForm, typer.Option("--form", help="The signed view, a PDF, or the bundle.")] = "view",
    version: Annotated[
        UUID | None, typer.Option("--version", metavar="ID", help="An older version [default: the one in force].")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to write it.")] = None,
    code_file: CodeOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Fetch what you may see of a passport or a battery. `bpc verify` checks a view or a bundle.

    \b
    bpc granted fetch b3a4fefe-7d3f-4e88-9a0f-7d1c2fa0b4e4 --code-file code.txt --url https://passports.example
    """
    async with _open_service(url, code_file, as_json=as_json) as bpc:
        fetch = {"view": bpc.get_granted_view, "pdf": bpc.get_granted_print, "bundle": bpc.get_granted_bundle}[form]
        content = (await fetch(passport_id, version=version)).content
    place = out or Path(FILE_NAMES[form])
    replace_file(place, content)
    print_result({"out": place, "bytes": len(content)}, f"wrote {escape_controls(str(place))}", as_json=as_json)


def _open_service(url: str | None, code_file: Path | None, *, as_json: bool) -> AbstractAsyncContextManager[Client]:
    service = locate_service(url)
    return end_refusals(Client(service.url, _read_code(code_file).text), service.url, as_json=as_json)


def _read_code(code_file: Path | None) -> GrantCode:
    """The code of the grant. Asked for only where somebody can answer."""
    named = code_file or (Path(os.environ[CODE_VARIABLE]) if CODE_VARIABLE in os.environ else None)
    if named is None and not sys.stdin.isatty():
        raise Invalid("there is no code", fix=f"name its file with --code-file or {CODE_VARIABLE}")
    if named is None:
        text = cast("str", typer.prompt("Code of the grant", hide_input=True, err=True))
    else:
        text = sys.stdin.read() if str(named) == "-" else named.read_text()
    return GrantCode.parse(text.strip())


def _print_grant(grant: OwnGrant, *, as_json: bool) -> None:
    end = format_optional_time(grant.expires_at)
    says = f"{grant.grantee}: the view `{grant.audience}`, scope {grant.scope}, until {end}"
    print_result(grant.model_dump(mode="json"), says, as_json=as_json)
    if not as_json:
        is_accepted = grant.terms_accepted_at is not None
        state = "accepted" if is_accepted else "accept them with `bpc granted accept-terms`"
        print_line(f"terms ({state}): {grant.terms}")
