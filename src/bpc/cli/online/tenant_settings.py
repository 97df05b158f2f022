"""`bpc tenants settings` and `branding`: what a tenant decides for itself, over the API."""

from base64 import b64encode
from typing import Annotated, Final, Literal

import typer

from bpc.cli.support.arguments import UrlOption, require_utf8
from bpc.cli.support.output import AsJson, print_json, print_line, read_bytes
from bpc.core.branding import Palette
from bpc.core.passport.gate import ActivationBlocker
from bpc.core.view_grants import BundleReaders

BlockerName = Literal["fail", "fail-and-warn", "nothing"]
BLOCKERS: Final[dict[BlockerName, ActivationBlocker]] = {
    "fail": "FAIL",
    "fail-and-warn": "FAIL_AND_WARN",
    "nothing": "NOTHING",
}
ReaderName = Literal["nobody", "authorities", "grantees", "everybody"]
READERS: Final[dict[ReaderName, BundleReaders]] = {
    "nobody": "NOBODY",
    "authorities": "AUTHORITIES",
    "grantees": "GRANTEES",
    "everybody": "EVERYBODY",
}


async def change_settings(
    blocked_by: Annotated[
        BlockerName | None,
        typer.Option("--activation-blocked-by", help="Which compliance entries block the activation of a version."),
    ] = None,
    coverage: Annotated[
        int | None,
        typer.Option(
            "--minimum-branch-coverage",
            metavar="PERCENT",
            min=0,
            max=100,
            help="How many branches of rules their tests must reach before the rules are published.",
        ),
    ] = None,
    bundles_for: Annotated[
        ReaderName | None,
        typer.Option("--bundles-for", help="Who may have bundles of public versions, which hold everything."),
    ] = None,
    words_days: Annotated[
        int | None,
        typer.Option(
            "--keep-request-words",
            metavar="DAYS",
            min=1,
            max=3650,
            help="How long the words of a request to see more are kept after its decision.",
        ),
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the settings of a tenant, or change them over the API.

    \b
    bpc tenants settings
    bpc tenants settings --activation-blocked-by fail-and-warn
    bpc tenants settings --minimum-branch-coverage 90
    bpc tenants settings --bundles-for authorities

    The tenant is the one of the API key. Changing a setting needs the permission tenant:admin.
    """
    from bpc.cli.online.api_client import open_api  # noqa: PLC0415 (slow to import)

    async with open_api(url, as_json=as_json) as bpc:
        if {blocked_by, coverage, bundles_for, words_days} == {None}:
            settings = await bpc.get_tenant_settings()
        else:
            settings = await bpc.change_tenant_settings(
                activation_blocked_by=None if blocked_by is None else BLOCKERS[blocked_by],
                minimum_branch_coverage_pct=coverage,
                bundles_for=None if bundles_for is None else READERS[bundles_for],
                request_words_days=words_days,
            )
    if as_json:
        print_json(settings.model_dump(mode="json"))
        return
    print_line(f"activation blocked by    {settings.activation_blocked_by}")
    print_line(f"minimum branch coverage  {settings.minimum_branch_coverage_pct} %")
    print_line(f"bundles for              {settings.bundles_for}")
    print_line(f"request words are kept   {settings.request_words_days} days")


async def change_branding(
    name: Annotated[
        str | None, typer.Option("--name", help="What stands above the verdict; an empty text removes it.")
    ] = None,
    palette: Annotated[
        Palette | None, typer.Option("--palette", help="The colour of headings and links, in light and dark.")
    ] = None,
    logo: Annotated[
        str | None,
        typer.Option("--logo", metavar="FILE", help="A PNG, JPEG or WebP, which is drawn anew; `none` removes it."),
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show how the public pages of a tenant look, or change it over the API.

    \b
    bpc tenants branding
    bpc tenants branding --name "ACME Batteries" --palette ocean --logo logo.png

    The tenant is the one of the API key. Changing it needs the permission tenant:admin.
    """
    from bpc.cli.online.api_client import open_api  # noqa: PLC0415 (slow to import)

    async with open_api(url, as_json=as_json) as bpc:
        if name is None and palette is None and logo is None:
            branding = await bpc.get_tenant_branding()
        else:
            branding = await bpc.change_tenant_branding(
                name=None if name is None else require_utf8("the name", name),
                palette=palette,
                logo=None if logo is None else "" if logo == "none" else b64encode(read_bytes(logo)).decode(),
            )
    if as_json:
        print_json(branding.model_dump(mode="json"))
        return
    print_line(f"name     {branding.name or '(none)'}")
    print_line(f"palette  {branding.palette}")
    print_line(f"logo     {branding.logo_sha256 or '(none)'}")
