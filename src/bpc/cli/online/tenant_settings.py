"""`bpc tenants settings`: what a tenant decides for itself, over the API."""

from typing import Annotated, Final, Literal

import typer

from bpc.cli.support.arguments import UrlOption
from bpc.cli.support.output import AsJson, print_json, print_line
from bpc.core.passport.gate import ActivationBlocker

BlockerName = Literal["fail", "fail-and-warn", "nothing"]
BLOCKERS: Final[dict[BlockerName, ActivationBlocker]] = {
    "fail": "FAIL",
    "fail-and-warn": "FAIL_AND_WARN",
    "nothing": "NOTHING",
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
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the settings of a tenant, or change them over the API.

    \b
    bpc tenants settings
    bpc tenants settings --activation-blocked-by fail-and-warn
    bpc tenants settings --minimum-branch-coverage 90

    The tenant is the one of the API key. Changing a setting needs the permission tenant:admin.
    """
    from bpc.cli.online.api_client import open_api  # noqa: PLC0415 (slow to import)

    async with open_api(url, as_json=as_json) as bpc:
        if blocked_by is None and coverage is None:
            settings = await bpc.get_tenant_settings()
        else:
            settings = await bpc.change_tenant_settings(
                activation_blocked_by=None if blocked_by is None else BLOCKERS[blocked_by],
                minimum_branch_coverage_pct=coverage,
            )
    if as_json:
        print_json(settings.model_dump(mode="json"))
        return
    print_line(f"activation blocked by    {settings.activation_blocked_by}")
    print_line(f"minimum branch coverage  {settings.minimum_branch_coverage_pct} %")
