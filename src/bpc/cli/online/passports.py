"""`bpc passports`: look at the passport of a product, and do what a day brings: compare, explain, replay, revoke."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import typer
from bpc_client import ApiError, Client
from bpc_client.models import PassportVersion, ReplayStep

from bpc.cli.offline.bundles import show_explanation
from bpc.cli.offline.differences import show_difference
from bpc.cli.offline.verify import NAME_WIDTH
from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.online.compile_runs import compile_many
from bpc.cli.online.lookup import find_passport, find_version, is_active
from bpc.cli.online.passport_gate import (
    VersionArgument,
    abandon_version,
    activate_version,
    show_version,
    sign_version,
    waive_entries,
)
from bpc.cli.online.readiness import check_products
from bpc.cli.online.what_if import try_changes
from bpc.cli.support.arguments import LimitOption, UrlOption, command_group, require_utf8
from bpc.cli.support.completion import complete_passports
from bpc.cli.support.list_options import (
    NameOption,
    SkuOption,
    SupplierOption,
    TextArgument,
    TextOption,
    parse_optional_when,
)
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_count,
    format_optional_time,
    print_json,
    print_line,
    print_result,
    replace_file,
)
from bpc.cli.support.progress import explain_interrupt, show_progress
from bpc.cli.support.times import SinceOption, UntilOption
from bpc.core.errors import Conflict
from bpc.core.formats.timestamps import format_time

REPLAY_FAULTS: Final = frozenset({"REPLAY_MISMATCH", "SIGNATURE_INVALID"})
COMPARABLE_STATUSES: Final = frozenset({"SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"})

VersionStatus: TypeAlias = Literal["COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"]

passports_app = command_group(
    "Show, compile, check, activate, compare, explain, replay and revoke passports.\n\n"
    "A passport is named by the SKU of its product, or by an id: of the passport, of its product or of one of its "
    "versions. An SKU means the current version, unless the command says otherwise."
)
PassportArgument = Annotated[
    str,
    typer.Argument(
        metavar="SKU|ID",
        help="The product's SKU, or the id of the passport or of one of its versions.",
        show_default=False,
        autocompletion=complete_passports,
    ),
]


@passports_app.command("list")
async def list_passports(
    text: TextArgument = None,
    sku: SkuOption = None,
    name: NameOption = None,
    status: Annotated[
        Literal["ACTIVE", "NONE"] | None,
        typer.Option("--status", help="Only those with an active version, or with none.", case_sensitive=False),
    ] = None,
    supplier: SupplierOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 50,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List passports with their products and current versions, the newest first.

    \b
    bpc passports list traction --status none
    bpc passports list --supplier "Example Cells GmbH" --since 30d
    """
    async with open_api(url, as_json=as_json) as bpc:
        matching_passports = bpc.list_all(
            bpc.list_passports,
            q=text,
            sku=sku,
            name=name,
            status=status,
            supplier=supplier,
            created_after=parse_optional_when(since),
            created_before=parse_optional_when(until),
        )
        passports = await collect(matching_passports, limit)
    print_models(
        passports,
        ("SKU", "NAME", "CURRENT VERSION", "ID"),
        lambda each: (
            each.sku,
            each.product_name,
            each.current_passport_version_id or "none is active",
            each.passport_id,
        ),
        as_json=as_json,
    )


passports_app.command("show")(show_version)


@passports_app.command("versions")
async def list_versions(
    passport: Annotated[
        str | None,
        typer.Argument(
            metavar="SKU|ID",
            help="The product's SKU, or the id of the passport or of one of its versions [default: all passports].",
            show_default=False,
            autocompletion=complete_passports,
        ),
    ] = None,
    text: TextOption = None,
    name: NameOption = None,
    status: Annotated[
        VersionStatus | None,
        typer.Option("--status", help="Only versions with this status.", case_sensitive=False),
    ] = None,
    supplier: SupplierOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 50,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List versions of a passport, or of all passports, the newest first.

    \b
    bpc passports versions A-1
    bpc passports versions --status signed --since 7d
    """
    async with open_api(url, as_json=as_json) as bpc:
        sku = None if passport is None else (await find_passport(bpc, passport)).sku
        matching_versions = bpc.list_all(
            bpc.list_all_passport_versions,
            q=text,
            sku=sku,
            name=name,
            status=status,
            supplier=supplier,
            created_after=parse_optional_when(since),
            created_before=parse_optional_when(until),
        )
        versions = await collect(matching_versions, limit)
    print_models(
        versions,
        ("SKU", "ID", "STATUS", "CREATED", "ACTIVATED", "FAIL", "WARN", "WAIVED"),
        lambda version: (
            version.sku,
            version.passport_version_id,
            version.status,
            format_time(version.created_at),
            format_optional_time(version.activated_at),
            version.fail_count,
            version.warn_count,
            version.waived_count,
        ),
        as_json=as_json,
    )


passports_app.command("compile")(compile_many)
passports_app.command("check")(check_products)
passports_app.command("what-if")(try_changes)
passports_app.command("activate")(activate_version)
passports_app.command("waive")(waive_entries)
passports_app.command("sign")(sign_version)
passports_app.command("abandon")(abandon_version)


@passports_app.command("revoke")
async def revoke_version(
    version: VersionArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a version for good. An SKU means the active version; the passport has no current one afterwards.

    \b
    bpc passports revoke A-1 --reason "The PCF report was withdrawn"
    """
    why = require_utf8("the reason", reason)
    async with open_api(url, as_json=as_json) as bpc:
        row = await find_version(bpc, version, is_active)
        result = await bpc.revoke_passport_version(row.passport_version_id, reason=why)
    says = f"version {result.passport_version_id} is {result.status}"
    print_result(result.model_dump(mode="json"), says, as_json=as_json)


@passports_app.command("replay")
async def replay_versions(
    versions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SKU|ID...", help="Products or versions.", show_default=False, autocompletion=complete_passports
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="The current version of every passport.")] = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Compile versions again from what is stored and compare every byte; exit 1 if one differs.

    Each result is recorded in the audit log.

    \b
    bpc passports replay A-1
    bpc passports replay --all
    """
    if every == bool(versions):
        raise typer.BadParameter("Use either SKU|ID or --all.")
    results: dict[str, Sequence[ReplayStep]] = {}
    async with open_api(url, as_json=as_json) as bpc:
        names = await _list_current(bpc) if every else list(versions or ())
        with (
            explain_interrupt(lambda: f"stopped after {len(results):,} of {len(names):,}; their results are recorded"),
            show_progress("replaying", as_json=as_json) as bar,
        ):
            for name in names:
                row = await find_version(bpc, name)
                steps = await _replay(bpc, row)
                results[str(row.passport_version_id)] = steps
                if wrong := _find_wrong(steps):
                    bar.print_line(f"{name}: {wrong.name}: {wrong.detail}")
                bar.update(len(results), len(names), "passports")
    _print_replays(results, as_json=as_json)
    if any(_find_wrong(steps) for steps in results.values()):
        raise typer.Exit(REFUSED)


@passports_app.command("diff")
async def compare_versions(
    version: PassportArgument,
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="SKU|ID",
            help="What to compare it with [default: the version before it].",
            show_default=False,
            autocompletion=complete_passports,
        ),
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two versions, and why; exit 1 if something does.

    One SKU compares its current version with the version before it.

    \b
    bpc passports diff A-1
    bpc passports diff 01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2 A-1
    """
    async with open_api(url, as_json=as_json) as bpc:
        after = await find_version(bpc, version if other is None else other)
        before = await _find_previous(bpc, after) if other is None else await find_version(bpc, version)
        bundles = [(await bpc.get_bundle(each.passport_version_id)).content for each in (before, after)]
    show_difference(*bundles, as_json=as_json)


@passports_app.command("why")
async def explain_field(
    version: PassportArgument,
    field: Annotated[
        str, typer.Argument(metavar="FIELD", help="The field's path, or the code of a finding.", show_default=False)
    ],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Explain how a field of a passport got its value, down to the cells of the documents.

    \b
    bpc passports why A-1 battery.capacity_kwh
    """
    async with open_api(url, as_json=as_json) as bpc:
        bundle = await bpc.get_bundle((await find_version(bpc, version)).passport_version_id)
    show_explanation(bundle.content, field, as_json=as_json)


@passports_app.command("open")
async def open_passport(
    version: PassportArgument,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write [default: a temporary file].")
    ] = None,
    no_viewer: Annotated[bool, typer.Option("--no-viewer", help="Only write the file.")] = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Open a passport as everybody may see it: as PDF, in the viewer of this machine."""
    async with open_api(url, as_json=as_json) as bpc:
        row = await find_version(bpc, version)
        request = await bpc.create_export(row.passport_version_id, format="PDF")
        await bpc.wait(request.job_id)
        content = (await bpc.get_export_content(request.export_id)).content
    file = out or Path(tempfile.mkdtemp(prefix="bpc-")) / f"{row.passport_version_id}.pdf"
    replace_file(file, content)
    is_open = not no_viewer and not as_json and typer.launch(str(file)) == 0
    print_result(
        {"file": file, "bytes": len(content), "passport_version_id": row.passport_version_id},
        f"{'opened' if is_open else 'wrote'} {file}",
        as_json=as_json,
    )


async def _list_current(bpc: Client) -> list[str]:
    current = [row.current_passport_version_id async for row in bpc.list_all(bpc.list_passports)]
    return [str(version) for version in current if version is not None]


async def _replay(bpc: Client, version: PassportVersion) -> Sequence[ReplayStep]:
    """All checks; a version that differs is a result and no error here."""
    try:
        return (await bpc.replay_passport_version(version.passport_version_id)).steps
    except ApiError as error:
        if error.code not in REPLAY_FAULTS:
            raise
        return [ReplayStep.model_validate(step) for step in error.details["steps"]]


def _find_wrong(steps: Sequence[ReplayStep]) -> ReplayStep | None:
    return next((step for step in steps if not step.ok), None)


def _print_replays(results: dict[str, Sequence[ReplayStep]], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "passport_version_id": version,
                    "ok": _find_wrong(steps) is None,
                    "steps": [step.model_dump(mode="json") for step in steps],
                }
                for version, steps in results.items()
            ]
        )
        return
    for version, steps in results.items():
        if len(results) == 1:
            _print_steps(steps)
        elif wrong := _find_wrong(steps):
            print_line(f"{version}: {wrong.name}: {wrong.detail}", colour="red")
    same = sum(_find_wrong(steps) is None for steps in results.values())
    print_line(f"{same:,} of {format_count(len(results), 'version')}: byte for byte the same")


def _print_steps(steps: Sequence[ReplayStep]) -> None:
    for step in steps:
        print_line("  ok" if step.ok else "fail", colour="green" if step.ok else "red", end="  ")
        print_line(f"{step.name.ljust(NAME_WIDTH)} {step.detail}")
    print_line("")


async def _find_previous(bpc: Client, version: PassportVersion) -> PassportVersion:
    """The version of the same passport that was issued before this one."""
    is_older = False
    async for each in bpc.list_all(bpc.list_passport_versions, version.passport_id):
        if is_older and each.status in COMPARABLE_STATUSES:
            return each
        is_older = is_older or each.passport_version_id == version.passport_version_id
    raise Conflict(
        f"version {version.passport_version_id} is the first of its passport",
        fix="name two versions: bpc passports diff SKU|ID SKU|ID",
    )
