"""`bpc batteries issue`, `runs`, `stop`, `resume`, `view`, `bundle`: passports of single batteries over the API."""

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import typer
from bpc_client import Client
from bpc_client.models import BatteryRun

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.online.batteries.battery_names import BatteryArgument, find_battery
from bpc.cli.online.batteries.commands import (
    CheckOption,
    batteries_app,
    refuse_rows,
)
from bpc.cli.online.batteries.row_parts import read_row_parts
from bpc.cli.online.remote_rules import require_published
from bpc.cli.support.arguments import LimitOption, UrlOption, require_utf8
from bpc.cli.support.completion import complete_packages, complete_skus
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_optional_time,
    print_bytes,
    print_json,
    print_line,
    print_progress,
    print_result,
    print_table,
    read_bytes,
    replace_file,
)
from bpc.cli.support.progress import explain_interrupt, show_progress
from bpc.core.formats.ids import NotAnId, parse_uuid
from bpc.core.items.view import merge_view

WAIT_SECONDS: Final = 10
MAX_REFUSALS_SHOWN: Final = 20
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it to this file.")]
AtOption = Annotated[str | None, typer.Option("--at", metavar="TIME", help="The passport of this time.")]


@batteries_app.command("issue")
async def issue(
    model: Annotated[
        str,
        typer.Option("--model", metavar="SKU", help="Their product.", show_default=False, autocompletion=complete_skus),
    ],
    items: Annotated[
        str,
        typer.Option("--items", metavar="FILE", help="CSV with a header, JSON lines, or Parquet; - is standard input."),
    ],
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="ID|NAME",
            help="Refuse unless the product's passport was compiled with this rule version, or with the newest "
            "published version of this package.",
            autocompletion=complete_packages,
        ),
    ] = None,
    reissue: Annotated[
        bool, typer.Option("--reissue", help="Issue batteries again whose passport would say something else now.")
    ] = False,
    check: CheckOption = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all are issued.")] = True,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Issue a passport for each battery of a file, below the active passport of their product.

    \b
    bpc batteries issue --model PACK-48 --items items.csv --rules "EU battery"

    Columns: serial_number, and optionally those of `bpc batteries register` and every state of a battery, such
    as remaining_capacity_ah. All rows are checked before the first is stored. A file that is issued twice changes
    nothing, so a command that was interrupted is simply run again.
    """
    parts, sku = list(read_row_parts(read_bytes(items))), require_utf8("the SKU", model)
    runs: list[UUID] = []
    totals: dict[str, int] = {"total": 0, "new": 0, "unchanged": 0}
    async with open_api(url, as_json=as_json) as bpc:
        version = None if rules is None else await _find_rules(bpc, rules)
        options: dict[str, Any] = {"sku": sku, "rule_package_version_id": version, "reissue": reissue}
        faults = await _check_parts(bpc, parts, options)
        if faults:
            refuse_rows(faults, as_json=as_json)
        for number, (_, content) in enumerate([] if check else parts, start=1):
            report = await bpc.create_item_run(content=content, **options)
            totals = {name: count + getattr(report, name) for name, count in totals.items()}
            runs += [] if report.run_id is None or report.run_id in runs else [report.run_id]
            if not as_json and len(parts) > 1:
                print_progress(f"part {number} of {len(parts)} accepted")
        results = [await _load_run(bpc, run, wait=wait, as_json=as_json) for run in runs]
    if as_json:
        print_json({**totals, "checked": True, "runs": [_run_to_json(run) for run in results]})
    elif check:
        print_line("all rows are good; nothing was stored")
    else:
        print_line(f"{totals['new']:,} batteries get a passport, {totals['unchanged']:,} have one that says the same")
        _print_runs(results)
    if wait and any(run.refused for run in results):
        raise typer.Exit(REFUSED)


@batteries_app.command("rebase")
async def rebase(
    model: Annotated[
        str,
        typer.Option("--model", metavar="SKU", help="Their product.", show_default=False, autocompletion=complete_skus),
    ],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Issue batteries again that pin an earlier version of their model, below the active passport of their product.

    \b
    bpc batteries rebase --model PACK-48

    A new version of the model changes no battery by itself. Batches are issued again first. Batteries keep what was
    stated of them. A command that was interrupted is simply run again: what pins the active version is left out.
    """
    sku, after, count, batches = require_utf8("the SKU", model), None, 0, 0
    runs: list[UUID] = []
    async with open_api(url, as_json=as_json) as bpc:
        while True:
            options: dict[str, Any] = {} if after is None else {"after": after}
            report = await bpc.rebase_batteries(sku=sku, **options)
            if report.batches:
                batches = max(batches, report.batches)
                await asyncio.sleep(1)
                continue
            count, after = count + report.new, report.after
            runs += [] if report.run_id is None else [report.run_id]
            if after is None:
                break
        results = [await _load_run(bpc, run, wait=True, as_json=as_json) for run in runs]
    if as_json:
        print_json({"new": count, "batches": batches, "runs": [_run_to_json(run) for run in results]})
    else:
        print_line(f"{count:,} batteries are issued again, {batches:,} batches before them")
        _print_runs(results)
    if any(run.refused for run in results):
        raise typer.Exit(REFUSED)


@batteries_app.command("runs")
async def list_runs(limit: LimitOption = 20, url: UrlOption = None, as_json: AsJson = False) -> None:
    """List runs that issue passports of batteries, newest first, and how far each is."""
    async with open_api(url, as_json=as_json) as bpc:
        runs = await collect(bpc.list_all(bpc.list_item_runs), limit)
    print_models(
        runs,
        ("run", "sku", "status", "issued", "refused", "total", "a second", "left", "requested"),
        lambda run: (
            str(run.run_id),
            run.sku,
            run.status,
            f"{run.issued:,}",
            f"{run.refused:,}",
            f"{run.total:,}",
            "" if run.rate is None else f"{run.rate:,}",
            "" if run.remaining_seconds is None else f"{run.remaining_seconds:,} s",
            format_optional_time(run.requested_at),
        ),
        as_json=as_json,
    )


@batteries_app.command("stop")
async def stop(run: RunArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Stop a run: batteries that wait stay as they are, until it is resumed."""
    async with open_api(url, as_json=as_json) as bpc:
        _print_run(await bpc.stop_item_run(UUID(str(parse_uuid(run)))), as_json=as_json)


@batteries_app.command("resume")
async def resume(
    run: RunArgument,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all are issued.")] = True,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Resume a run that was stopped, or whose jobs failed. What was issued stays; the rest is issued once."""
    async with open_api(url, as_json=as_json) as bpc:
        order = await bpc.resume_item_run(UUID(str(parse_uuid(run))))
        _print_run(await _load_run(bpc, order.run_id, wait=wait, as_json=as_json), as_json=as_json)


@batteries_app.command("view")
async def view(
    battery: BatteryArgument,
    audience: Annotated[
        Literal["public", "interest", "authority"], typer.Option("--audience", help="Who is to read it.")
    ] = "public",
    at: AtOption = None,
    out: OutOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the passport of a battery: model and battery as one, as far as an audience may see it.

    With --out, write the view as `bpc verify` takes it.
    """
    options: dict[str, Any] = {} if at is None else {"at": at}
    async with open_api(url, as_json=as_json) as bpc:
        battery_id = (await find_battery(bpc, battery)).battery_id
        content = (await bpc.get_battery_passport(battery_id, audience=audience, **options)).content
        newest = (await bpc.list_battery_passport_versions(battery_id)).items[0]
    if out is not None:
        _write_document(out, content, as_json=as_json)
    elif as_json:
        print_bytes(content + b"\n")
    else:
        passport = merge_view(content)
        print_line(f"verdict   {passport.verdict}")
        print_line(f"model     {passport.versions['model']}")
        if at is None and not newest.model_is_active:
            print_line("          the product has a newer one; `bpc batteries rebase` issues its batteries again")
        if "batch" in passport.versions:
            print_line(f"batch     {passport.versions['batch']}")
        rows = [(path, passport.layers[path], str(value)) for path, value in passport.fields.items()]
        print_table(("field", "layer", "value"), rows)


@batteries_app.command("bundle")
async def bundle(
    battery: BatteryArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.", show_default=False)],
    at: AtOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Fetch everything that is needed to verify a battery offline: `bpc verify` takes the file."""
    options: dict[str, Any] = {} if at is None else {"at": at}
    async with open_api(url, as_json=as_json) as bpc:
        battery_id = (await find_battery(bpc, battery)).battery_id
        content = (await bpc.get_battery_bundle(battery_id, **options)).content
    _write_document(out, content, as_json=as_json)


def _write_document(out: Path, content: bytes, *, as_json: bool) -> None:
    replace_file(out, content)
    print_result({"out": out, "bytes": len(content)}, f"{out}, {len(content):,} bytes", as_json=as_json)


async def _find_rules(bpc: Client, name: str) -> UUID:
    try:
        return UUID(str(parse_uuid(name)))
    except NotAnId:
        return (await require_published(bpc, require_utf8("the rules' name", name))).rule_package_version_id


async def _check_parts(bpc: Client, parts: list[tuple[int, bytes]], options: dict[str, Any]) -> list[dict[str, Any]]:
    faults = []
    for start, content in parts:
        report = await bpc.create_item_run(content=content, validate_only=True, **options)
        faults += [{**fault.model_dump(mode="json"), "line": fault.line + start} for fault in report.faults]
    return faults


async def _load_run(bpc: Client, run_id: UUID, *, wait: bool, as_json: bool) -> BatteryRun:
    """The run; with `wait`, once it has finished or was stopped. A bar shows rate and remaining time."""
    with show_progress("issuing", as_json=as_json) as bar, explain_interrupt(lambda: _explain(run_id)):
        while True:
            run = await bpc.get_item_run(run_id, wait_seconds=0 if bar.is_visible or not wait else WAIT_SECONDS)
            if not wait or run.status != "RUNNING":
                return run
            bar.update(run.issued + run.refused, run.total)
            if bar.is_visible:
                await asyncio.sleep(1)


def _explain(run_id: UUID) -> str:
    return f"the run goes on; look at it with `bpc batteries runs`, stop it with `bpc batteries stop {run_id}`"


def _run_to_json(run: BatteryRun) -> dict[str, Any]:
    return run.model_dump(mode="json")


def _print_run(run: BatteryRun, *, as_json: bool) -> None:
    if as_json:
        print_json(_run_to_json(run))
    else:
        _print_runs([run])


def _print_runs(runs: list[BatteryRun]) -> None:
    for run in runs:
        rate = "" if run.rate is None else f", {run.rate:,} a second"
        left = "" if run.remaining_seconds is None else f", {run.remaining_seconds:,} s left"
        counts = f"{run.issued:,} of {run.total:,} issued, {run.refused:,} refused"
        print_line(f"run {run.run_id} {run.status}: {counts}{rate}{left}")
        refusals = run.refusals[:MAX_REFUSALS_SHOWN]
        if refusals:
            print_table(("serial", "code", "why"), [(each.serial_number, each.code, each.says) for each in refusals])
