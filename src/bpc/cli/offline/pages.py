"""`bpc page export`: the public page of a bundle as a folder that any web server can serve. Needs no database."""

import json
from pathlib import Path
from typing import Annotated

import typer

from bpc.cli.support.arguments import command_group
from bpc.cli.support.output import AsJson, escape_controls, print_result, read_bytes, replace_file
from bpc.core.audit.signing import read_key_set
from bpc.core.branding import Branding, Palette, require_brand_name
from bpc.core.errors import Invalid
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.receipt import read_receipt
from bpc.core.status.status_list import read_status_list
from bpc.core.tlog.policy import parse_policy
from bpc.printing.logo import draw_logo
from bpc.printing.web_page.static_twin import build_static_pages
from bpc.runtime import clock

page_app = command_group("Export the public page of a passport.")


@page_app.callback()
def list_page_commands() -> None:
    """Export the public page of a passport."""  # with a callback, one command is a group too


@page_app.command("export")
def export_page(
    file: Annotated[str, typer.Argument(metavar="BUNDLE", help="The bundle; `-` is standard input.")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder to write; it is made if needed.")],
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Public address of the pages, as in https://passports.example.")
    ],
    issuer: Annotated[str, typer.Option("--issuer", help="Name of the issuer, as the page shows it.")] = "",
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Key set to check with [default: the bundle's own key]."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Logs and witnesses to check the log proof with.")
    ] = None,
    status: Annotated[
        Path | None,
        typer.Option(
            "--status", metavar="FILE", help="Signed status list; the page says `in force` while it is valid."
        ),
    ] = None,
    brand: Annotated[str, typer.Option("--brand", metavar="NAME", help="What stands above the verdict.")] = "",
    palette: Annotated[Palette, typer.Option("--palette", help="The colour of headings and links.")] = "standard",
    logo: Annotated[
        Path | None, typer.Option("--logo", metavar="FILE", help="A PNG, JPEG or WebP, which is drawn anew.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Export the public page of a passport as a folder of files.

    The folder has the page in every language, the signed view, the keys and the program that checks them in a browser.
    Any web server can serve it, for example as a back-up. It holds public data only, and says of which day it is.

    \b
    bpc page export bundle.zip --url https://passports.example --out site
    """
    if not url.startswith(("https://", "http://")):
        raise Invalid("`--url` is not an address", fix="write it as https://passports.example")
    root = url.rstrip("/")
    bundle = read_bundle(read_bytes(file))
    key_bytes = None if keys is None else keys.read_bytes()
    policy_bytes = None if policy is None else policy.read_bytes()
    if key_bytes is not None:
        read_key_set(key_bytes)
    if policy_bytes is not None:
        parse_policy(policy_bytes)
    status_list = None if status is None else status.read_bytes()
    if status_list is not None:
        read_status_list(status_list)
    passport_id = read_receipt(bundle["receipt.json"]).passport_id
    files = build_static_pages(
        bundle,
        host=root.partition("://")[2],
        address=f"{root}/p/{passport_id}",
        issuer=issuer,
        exported_day=clock.now().date().isoformat(),
        keys=None if key_bytes is None else json.loads(key_bytes),
        policy=None if policy_bytes is None else policy_bytes.decode(),
        status_list=status_list,
        brand=Branding(name=require_brand_name(brand) if brand else None, palette=palette),
        logo=None if logo is None else draw_logo(logo.read_bytes()),
    )
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        replace_file(out / name, content)
    says = f"wrote {escape_controls(str(out / 'index.html'))} and {len(files) - 1} other files"
    print_result({"out": out, "files": sorted(files)}, says, as_json=as_json)
