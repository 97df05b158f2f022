"""`bpc passports version`, `waive` and `activate`: one version before it becomes the current one, over the API."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from bpc_client import ApiError
from bpc_client.models import ComplianceEntryState, EntryToWaive, PassportVersion, VersionCompliance, Waiver

from bpc.cli.online.api_client import open_api
from bpc.cli.support.arguments import UrlOption, require_utf8
from bpc.cli.support.output import AsJson, print_json, print_line, print_result, print_table
from bpc.core.errors import Invalid
from bpc.core.formats.ids import parse_uuid

BLOCKED: Final = "COMPLIANCE_BLOCKED"
NOTABLE_STATUSES: Final = ("FAIL", "WARN")

VersionArgument = Annotated[
    str, typer.Argument(metavar="VERSION", help="The passport version's id.", show_default=False)
]


async def show_version(version: VersionArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Show a version with its FAIL and WARN entries, findings in its evidence included, and its waivers."""
    version_id = parse_uuid(version)
    async with open_api(url, as_json=as_json) as bpc:
        row = await bpc.get_passport_version(version_id)
        compliance = await bpc.get_compliance(version_id)
        waivers = [waiver async for waiver in bpc.list_all(bpc.list_waivers, version_id)]
    entries = [entry for entry in compliance.entries if entry.status in NOTABLE_STATUSES]
    if as_json:
        print_json(
            {
                **row.model_dump(mode="json"),
                **compliance.model_dump(mode="json", exclude={"entries"}),
                "entries": [entry.model_dump(mode="json") for entry in entries],
                "waivers": [waiver.model_dump(mode="json") for waiver in waivers],
            }
        )
        return
    _print_version(row, compliance)
    if entries:
        print_line("")
        print_table(("STATUS", "SOURCE", "FIELD", "CODE", "WAIVED", "MESSAGE"), _list_entry_rows(entries, waivers))


async def waive_entries(
    version: VersionArgument,
    entries: Annotated[
        list[str],
        typer.Option("--entry", metavar="FIELD:CODE", help="What to waive: the field and the code. Repeatable."),
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Waive compliance entries of a version: they do not block it.

    \b
    bpc passports waive 0f0e… --entry circularity.recycled.cobalt:R12 --reason "Not due before 2031"

    `bpc passports version` lists the entries. A waiver counts for this version only. It needs the permission
    passport:waive.
    """
    version_id = parse_uuid(version)
    names, why = [_parse_entry(entry) for entry in entries], require_utf8("the reason", reason)
    async with open_api(url, as_json=as_json) as bpc:
        result = await bpc.waive_passport_version(version_id, entries=names, reason=why)
    print_result(
        result.model_dump(mode="json"),
        f"version {version_id}: {result.fail_count} FAIL, {result.warn_count} WARN, {result.waived_count} waived",
        f"next: `bpc passports activate {version_id}`",
        as_json=as_json,
    )


async def activate_version(version: VersionArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Make a signed version the current one of its passport.

    Compliance entries that block it are listed. Correct their cause and compile again, or have them waived.
    """
    version_id = parse_uuid(version)
    async with open_api(url, as_json=as_json) as bpc:
        try:
            result = await bpc.activate_passport_version(version_id)
        except ApiError as refused:
            if refused.code == BLOCKED and not as_json:
                _print_blocking(refused.details)
            raise
    superseded = result.superseded_passport_version_id
    says = f"version {version_id} is {result.status}" + ("" if superseded is None else f"; it supersedes {superseded}")
    print_result(result.model_dump(mode="json"), says, as_json=as_json)


def _parse_entry(text: str) -> EntryToWaive:
    """`FIELD:CODE`. The field of a rule has no colon; that of a finding is its key, which has some."""
    written = require_utf8("an entry", text)
    is_finding = written.startswith("finding:")
    field, colon, code = written.rpartition(":") if is_finding else written.partition(":")
    if not field or not colon or not code:
        raise Invalid(f"`{text}` is not an entry", fix="write the field, a colon and the code: --entry FIELD:CODE")
    return EntryToWaive(code=code, field=field)


def _print_version(row: PassportVersion, compliance: VersionCompliance) -> None:
    print_line(f"version     {row.passport_version_id} ({row.status})")
    print_line(f"passport    {row.passport_id}")
    print_line(f"compliance  {row.fail_count} FAIL, {row.warn_count} WARN, {row.waived_count} waived")
    print_line(f"findings    {compliance.finding_fail_count} FAIL, {compliance.finding_warn_count} WARN")
    print_line(f"blocked by  {compliance.activation_blocked_by}")


def _list_entry_rows(entries: Sequence[ComplianceEntryState], waivers: Sequence[Waiver]) -> list[tuple[str, ...]]:
    reasons = {(waiver.field, waiver.code): waiver.reason for waiver in waivers}
    return [
        (
            entry.status,
            entry.source,
            entry.field,
            entry.code,
            reasons.get((entry.field, entry.code), ""),
            entry.message,
        )
        for entry in entries
    ]


def _print_blocking(details: Any) -> None:
    rows = [(entry["status"], entry["field"], entry["code"], entry["message"]) for entry in details["entries"]]
    print_table(("STATUS", "FIELD", "CODE", "MESSAGE"), rows)
    print_line("")
