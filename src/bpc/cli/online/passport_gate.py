"""`bpc passports show`, `waive`, `activate`, `sign` and `abandon`: one version until it is current, over the API."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from bpc_client import ApiError
from bpc_client.models import ComplianceEntryState, EntryToWaive, PassportVersion, VersionCompliance, Waiver

from bpc.cli.online.api_client import open_api
from bpc.cli.online.lookup import find_version, is_compiling, is_signed
from bpc.cli.support.arguments import UrlOption, require_utf8
from bpc.cli.support.completion import complete_passports
from bpc.cli.support.output import (
    AsJson,
    escape_controls,
    format_optional_time,
    print_json,
    print_line,
    print_result,
    print_table,
)
from bpc.core.errors import Invalid

BLOCKED: Final = "COMPLIANCE_BLOCKED"
NOTABLE_STATUSES: Final = ("FAIL", "WARN")

VersionArgument = Annotated[
    str,
    typer.Argument(
        metavar="SKU|ID",
        help="The product's SKU, or the id of a passport version.",
        show_default=False,
        autocompletion=complete_passports,
    ),
]


async def show_version(version: VersionArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Show a passport: its product, its current version, and what blocks it.

    The entries that are FAIL or WARN are listed, findings in the evidence included, with their waivers. The id of a
    version shows that version.

    \b
    bpc passports show A-1
    """
    async with open_api(url, as_json=as_json) as bpc:
        row = await find_version(bpc, version)
        version_id = row.passport_version_id
        passport = await bpc.get_passport(row.passport_id)
        product = await bpc.get_battery_product(passport.battery_product_id)
        compliance = await bpc.get_compliance(version_id)
        waivers = [waiver async for waiver in bpc.list_all(bpc.list_waivers, version_id)]
    entries = [entry for entry in compliance.entries if entry.status in NOTABLE_STATUSES]
    if as_json:
        print_json(
            {
                "sku": product.sku,
                "name": product.name,
                "battery_product_id": product.battery_product_id,
                "is_current": passport.current_passport_version_id == version_id,
                **row.model_dump(mode="json"),
                **compliance.model_dump(mode="json", exclude={"entries"}),
                "entries": [entry.model_dump(mode="json") for entry in entries],
                "waivers": [waiver.model_dump(mode="json") for waiver in waivers],
            }
        )
        return
    print_line(f"product     {product.sku}, {product.name}")
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
    bpc passports waive A-1 --entry circularity.recycled.cobalt:R12 --reason "Not due before 2031"

    An SKU means the newest version that is not activated yet. `bpc passports show` lists the entries. A waiver counts
    for this version only. It needs the permission passport:waive.
    """
    names, why = [_parse_entry(entry) for entry in entries], require_utf8("the reason", reason)
    async with open_api(url, as_json=as_json) as bpc:
        version_id = (await find_version(bpc, version, is_signed)).passport_version_id
        result = await bpc.waive_passport_version(version_id, entries=names, reason=why)
    print_result(
        result.model_dump(mode="json"),
        f"version {version_id}: {result.fail_count} FAIL, {result.warn_count} WARN, {result.waived_count} waived",
        f"next: `bpc passports activate {version_id}`",
        as_json=as_json,
    )


async def activate_version(version: VersionArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Make a signed version the current one of its passport.

    An SKU means the newest version that is not activated yet. Compliance entries that block it are listed. Correct
    their cause and compile again, or have them waived.

    \b
    bpc passports activate A-1
    """
    async with open_api(url, as_json=as_json) as bpc:
        version_id = (await find_version(bpc, version, is_signed)).passport_version_id
        try:
            result = await bpc.activate_passport_version(version_id)
        except ApiError as error:
            if error.code == BLOCKED and not as_json:
                _print_blocking(error.details)
            raise
    superseded_id = result.superseded_passport_version_id
    says = f"version {version_id} is {result.status}" + (
        "" if superseded_id is None else f"; it supersedes {superseded_id}"
    )
    print_result(result.model_dump(mode="json"), says, as_json=as_json)


async def sign_version(version: VersionArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Sign a version again that stayed COMPILING because its job failed.

    Correct the cause first: `bpc jobs list --status FAILED` shows it. It needs the permission passport:sign.
    """
    async with open_api(url, as_json=as_json) as bpc:
        version_id = (await find_version(bpc, version, is_compiling)).passport_version_id
        result = await bpc.sign_passport_version(version_id)
    print_result(
        result.model_dump(mode="json"),
        f"version {version_id} is being signed by job {result.job_id}",
        f"next: `bpc passports show {version_id}`",
        as_json=as_json,
    )


async def abandon_version(
    version: VersionArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Give up a version that is still COMPILING: it is never signed.

    Its status stays. Compile the passport again for a version that can be signed. It needs the permission
    passport:compile.
    """
    why = require_utf8("the reason", reason)
    async with open_api(url, as_json=as_json) as bpc:
        version_id = (await find_version(bpc, version, is_compiling)).passport_version_id
        result = await bpc.abandon_passport_version(version_id, reason=why)
    print_result(result.model_dump(mode="json"), f"version {version_id} is given up: {why}", as_json=as_json)


def _parse_entry(text: str) -> EntryToWaive:
    """`FIELD:CODE`. The field of a rule has no colon; that of a finding is its key, which has some."""
    entry = require_utf8("an entry", text)
    is_finding = entry.startswith("finding:")
    field, colon, code = entry.rpartition(":") if is_finding else entry.partition(":")
    if not field or not colon or not code:
        raise Invalid(f"`{text}` is not an entry", fix="write the field, a colon and the code: --entry FIELD:CODE")
    return EntryToWaive(code=code, field=field)


def _print_version(row: PassportVersion, compliance: VersionCompliance) -> None:
    print_line(f"version     {row.passport_version_id} ({row.status})")
    print_line(f"passport    {row.passport_id}")
    if row.abandoned_at is not None:
        print_line(f"given up    {format_optional_time(row.abandoned_at)}: {escape_controls(row.abandon_reason or '')}")
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
