"""`bpc rules list`: the rule packages and their versions, over the API."""

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bpc.cli.output import AsJson, print_json
from bpc.cli.text import checked_text
from bpc.cli.url import Url
from bpc.core.timestamps import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bpc.cli.rules_publishing import Package
    from bpc.client import Client
    from bpc.client.models import RuleVersion


class Listed(NamedTuple):
    package: "Package"
    versions: "Sequence[RuleVersion]"


def list_rules(
    package: Annotated[
        str | None, typer.Argument(metavar="PACKAGE", help="Only this one, by name or id.", show_default=False)
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List rule packages and their versions over the API.

    The newest are first. Passports are compiled by PUBLISHED versions.

    \b
    bpc rules list
    bpc rules list "Industrial batteries" --json
    """
    # Slow to import, and the other commands for rules ask nobody.
    from bpc.cli.online import ask  # noqa: PLC0415
    from bpc.cli.rules_publishing import NoSuchRules, package_of, packages, versions  # noqa: PLC0415

    name = None if package is None else checked_text("the package's name", package)

    async def work(bpc: "Client") -> list[Listed]:
        wanted = await packages(bpc) if name is None else [await package_of(bpc, name)]
        if None in wanted:
            raise NoSuchRules(f"there is no rule package called `{name}`")
        return [Listed(each, [one async for one in versions(bpc, each)]) for each in wanted if each is not None]

    found = ask(url, work, as_json=as_json)
    if as_json:
        print_json([_shown(each) for each in found])
        return
    from bpc.cli.table import print_table  # noqa: PLC0415 (rich is slow to import)

    rows = [row for each in found for row in _rows(each)]
    print_table(("PACKAGE", "VERSION", "STATUS", "PUBLISHED", "ID"), rows)


def _rows(listed: Listed) -> "Sequence[Sequence[object]]":
    """A line for each version; a package without one is a line as well."""
    name = listed.package.name
    if not listed.versions:
        return [(name, None, None, None, None)]
    return [(name, each.version, each.status, _time(each), each.rule_package_version_id) for each in listed.versions]


def _shown(listed: Listed) -> dict[str, object]:
    return {
        "rule_package_id": str(listed.package.rule_package_id),
        "name": listed.package.name,
        "versions": [
            {
                "rule_package_version_id": str(each.rule_package_version_id),
                "version": each.version,
                "status": each.status,
                "created_at": format_time(each.created_at),
                "published_at": _time(each),
            }
            for each in listed.versions
        ],
    }


def _time(version: "RuleVersion") -> str | None:
    return None if version.published_at is None else format_time(version.published_at)
