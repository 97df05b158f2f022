"""`bpc passports`: compile passports for many products over the API."""

import asyncio
import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final
from uuid import UUID

import typer
from bpc_client import Client
from bpc_client.models import BulkItem, CompileRun, CompileRunRow, ListedRun, RunRequested

from bpc.cli.online.api_client import open_api
from bpc.cli.online.passport_gate import activate_version, show_version, waive_entries
from bpc.cli.online.product_list import read_items
from bpc.cli.online.readiness import check_products
from bpc.cli.online.remote_rules import require_published
from bpc.cli.online.what_if import try_changes
from bpc.cli.support.arguments import UrlOption, command_group, require_utf8
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    print_json,
    print_line,
    print_table,
    read_bytes,
    replace_file,
    show_progress,
)
from bpc.core.errors import Invalid
from bpc.core.formats.ids import NotAnId, parse_uuid
from bpc.core.formats.timestamps import format_time

passports_app = command_group(
    "Check and compile passports for many products over the API; waive entries; activate versions.\n\n"
    "A run has a row for each product. Rows are independent: a row that fails reports why and stops no other row."
)

COUNT_COLUMNS: Final = ("fail_count", "warn_count", "waived_count")
REPORT_COLUMNS: Final = (
    "row",
    "sku",
    "status",
    "passport_version_id",
    "error_code",
    "error_message",
    "run_id",
    *COUNT_COLUMNS,
)
MAX_ROWS_PER_RUN: Final = 5_000  # limit of the API
LONGEST_WAIT: Final = 24 * 3600.0
MAX_FAILURES_SHOWN: Final = 20

RunIdArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a CSV file with a line for each row.")
]


@passports_app.command("compile")
async def compile_many(
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="ID|NAME",
            help="Id of a published rule version, or name of a package (its newest published version). "
            "[default with --failed-of: those of that run]",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every active product.")] = False,
    file: Annotated[
        str | None,
        typer.Option("--csv", metavar="FILE", help="The products: sku, name, snapshot_id; `-` reads standard input."),
    ] = None,
    failed_of: Annotated[
        str | None, typer.Option("--failed-of", metavar="RUN", help="The rows of an earlier run that failed.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compile also passports that would say the same as their active version.")
    ] = False,
    activate: Annotated[bool, typer.Option("--activate", help="Activate each version once it is issued.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all rows have finished; exit 1 if one failed.")
    ] = False,
    report: ReportOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Start a run that compiles passports for many products.

    \b
    bpc passports compile --rules "Industrial batteries" --csv products.csv --activate --wait --report done.csv

    In the file, the first line names the columns; name and snapshot_id may be empty or left out. An unknown
    product is created if its row has a name. Without a snapshot_id, a snapshot of what is known of the SKU now is
    made.

    A passport whose active version says what a new one would say today is left out; --force compiles it all the same.
    A file of more than 5,000 products becomes several runs, with one summary and one report.
    """
    if [every, file is not None, failed_of is not None].count(True) != 1:
        raise typer.BadParameter("Use one of --all, --csv FILE and --failed-of RUN.")
    if rules is None and failed_of is None:
        raise typer.BadParameter("--rules is missing.")
    if report is not None and not wait:
        raise typer.BadParameter("--report needs --wait: it says how each row ended.")
    if report is not None and not report.parent.is_dir():  # before anything is compiled
        raise Invalid(f"there is no folder `{report.parent}` for the report", fix="create it, or choose another file")
    earlier_run = None if failed_of is None else parse_uuid(failed_of)
    batches = [None] if file is None else _split_into_runs(read_items(read_bytes(file)))
    requested: list[RunRequested] = []

    try:
        async with open_api(url, as_json=as_json) as bpc:
            version = await _choose_rules(bpc, rules, earlier_run, as_json=as_json)
            for items in batches:
                run = await bpc.bulk_compile(
                    rule_package_version_id=version,
                    items=items,
                    all=every or None,
                    failed_of=earlier_run,
                    activate=activate,
                    force=force or None,
                )
                requested.append(run)
            results = [await _load_run(bpc, run.run_id, wait=wait, rows=wait, as_json=as_json) for run in requested]
    except typer.Exit:
        _print_started_runs(requested)
        raise
    except asyncio.CancelledError:  # Ctrl-C: the runs are the server's and go on
        _print_going_on(requested)
        raise
    if report is not None:
        replace_file(report, _write_report(results))
    _print_all(results, as_json=as_json)
    if wait and any(result.has_failed for result in results):
        raise typer.Exit(REFUSED)


@passports_app.command("list")
async def list_runs(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=200, help="Maximum number to show.")] = 20,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first."""
    async with open_api(url, as_json=as_json) as bpc:
        runs = (await bpc.list_compile_runs(limit=limit)).items
    if as_json:
        print_json([_listed_run_to_json(run) for run in runs])
        return
    rows = [
        (run.run_id, run.rows, format_time(run.created_at), "" if run.cancelled_at is None else "cancelled")
        for run in runs
    ]
    print_table(["ID", "ROWS", "CREATED", ""], rows)


@passports_app.command("run")
async def show_run(
    run: RunIdArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all rows have finished.")] = False,
    report: ReportOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a run; exit 1 if a row failed."""
    run_id = parse_uuid(run)
    async with open_api(url, as_json=as_json) as bpc:
        result = await _load_run(bpc, run_id, wait=wait, rows=True, as_json=as_json)
    if report is not None:
        replace_file(report, _write_report([result]))
    _print_run(result, as_json=as_json)
    if result.has_failed:
        raise typer.Exit(REFUSED)


@passports_app.command()
async def cancel(run: RunIdArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Stop a run: rows that have not started will not start."""
    run_id = parse_uuid(run)
    async with open_api(url, as_json=as_json) as bpc:
        result = RunResult(await bpc.cancel_compile_run(run_id), ())
    _print_run(result, as_json=as_json)


passports_app.command("version")(show_version)
passports_app.command("waive")(waive_entries)
passports_app.command("activate")(activate_version)


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run, and its rows if they were loaded."""

    run: CompileRun
    rows: Sequence[CompileRunRow]

    @property
    def has_failed(self) -> bool:
        return self.run.counts.get("FAILED", 0) > 0


async def _choose_rules(bpc: Client, name: str | None, earlier_run: UUID | None, *, as_json: bool) -> UUID:
    """The rules that are named, or those of the earlier run."""
    if name is None and earlier_run is not None:
        return (await bpc.get_compile_run(earlier_run)).rule_package_version_id
    return await _find_rule_version(bpc, require_utf8("the rules' name", name or ""), as_json=as_json)


async def _find_rule_version(bpc: Client, name: str, *, as_json: bool) -> UUID:
    """The id itself, or the newest published version of the package with this name."""
    with suppress(NotAnId):
        return parse_uuid(name)
    version = await require_published(bpc, name)
    if not as_json:
        print_line(f"rules     {version.rule_package_version_id} (version {version.version} of {name})")
    return version.rule_package_version_id


async def _load_run(bpc: Client, run_id: UUID, *, wait: bool, rows: bool, as_json: bool) -> RunResult:
    run = await (_wait_for_run(bpc, run_id, as_json=as_json) if wait else bpc.get_compile_run(run_id))
    return RunResult(run, [row async for row in bpc.list_all(bpc.list_compile_run_rows, run_id)] if rows else ())


async def _wait_for_run(bpc: Client, run_id: UUID, *, as_json: bool) -> CompileRun:
    """The run once it has finished, with a progress bar on a terminal."""
    with show_progress("compiling", as_json=as_json) as update:

        async def look() -> CompileRun:
            run = await bpc.get_compile_run(run_id)
            if update is not None:
                failed = run.counts.get("FAILED", 0)
                label = f"passports, {failed:,} failed" if failed else "passports"
                update(_count_finished(run.rows, run.counts), run.rows, label)
            return run

        return await bpc.wait_until(look, lambda run: run.finished_at is not None, seconds=LONGEST_WAIT)


def _count_finished(rows: int, counts: Mapping[str, int]) -> int:
    return rows - counts.get("WAITING", 0) - counts.get("COMPILING", 0)


def _split_into_runs(items: list[BulkItem]) -> list[list[BulkItem]]:
    """The items of each run."""
    return [items[at : at + MAX_ROWS_PER_RUN] for at in range(0, len(items), MAX_ROWS_PER_RUN)]


def _number_rows(results: Sequence[RunResult]) -> Iterator[tuple[int, UUID, CompileRunRow]]:
    """The rows of all runs, each with its number in the whole and its run."""
    before = 0
    for result in results:
        for row in result.rows:
            yield before + row.row, result.run.run_id, row
        before += result.run.rows


def _write_report(results: Sequence[RunResult]) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(REPORT_COLUMNS)
    for number, run_id, row in _number_rows(results):
        code, message = ("", "") if row.error is None else (row.error.code, row.error.message)
        version = row.passport_version_id or ""
        ending = code, _escape_formula(message), run_id, *(getattr(row, name) for name in COUNT_COLUMNS)
        writer.writerow([number, _escape_formula(row.sku), row.status, version, *ending])
    return file.getvalue().encode()


def _escape_formula(text: str) -> str:
    """The text, quoted if a spreadsheet would take it for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _print_run(result: RunResult, *, as_json: bool) -> None:
    if as_json:
        print_json({**_run_to_json(result.run), "failures": _list_failures([result])})
    else:
        _print_summary([result])


def _print_all(results: Sequence[RunResult], *, as_json: bool) -> None:
    """Several runs as one."""
    if not as_json:
        _print_summary(results)
        return
    rows, counts = sum(result.run.rows for result in results), _sum_counts(results)
    print_json(
        {
            "rows": rows,
            "counts": counts,
            "progress": 100 * _count_finished(rows, counts) // rows,
            "runs": [_run_to_json(result.run) for result in results],
            "failures": _list_failures(results),
        }
    )


def _print_summary(results: Sequence[RunResult]) -> None:
    for result in results:
        print_line(f"run       {result.run.run_id}")
    counts = ", ".join(f"{count:,} {status}" for status, count in _sum_counts(results).items() if count)
    print_line(f"rows      {sum(result.run.rows for result in results):,}: {counts}")
    if (compliance := _describe_compliance(results)) is not None:
        print_line(f"entries   {compliance}")
    failed = [(number, row, row.error) for number, _, row in _number_rows(results) if row.error is not None]
    for number, row, error in failed[:MAX_FAILURES_SHOWN]:
        print_line(f"row {number}, {row.sku}: {error.code}: {error.message}", colour="red")
    if len(failed) > MAX_FAILURES_SHOWN:
        print_line(f"and {len(failed) - MAX_FAILURES_SHOWN:,} more; --report FILE has them all")
    for result in results:
        if result.run.finished_at is None:
            print_line(f"          `bpc passports run {result.run.run_id} --wait` waits for the remaining rows")


def _describe_compliance(results: Sequence[RunResult]) -> str | None:
    """How many compliance entries are FAIL and WARN; None where an earlier release compiled a version."""
    fails, warns = [result.run.fail_count for result in results], [result.run.warn_count for result in results]
    if None in fails or None in warns:
        return None
    return f"{sum(count or 0 for count in fails):,} FAIL, {sum(count or 0 for count in warns):,} WARN"


def _print_started_runs(requested: Sequence[RunRequested]) -> None:
    """After a refusal: runs that were started before it and go on."""
    before = 0
    for run in requested:
        rows = f"rows {before + 1:,} to {before + run.rows:,}"
        typer.echo(f"run {run.run_id} was already started: {rows}; `bpc passports run` shows it", err=True)
        before += run.rows


def _print_going_on(requested: Sequence[RunRequested]) -> None:
    """After Ctrl-C: what goes on without this command, how to look at it and how to stop it."""
    if not requested:
        typer.echo("stopped before a run was started: nothing is compiled", err=True)
    for run in requested:
        typer.echo(
            f"run {run.run_id} goes on without this command: {run.rows:,} rows\n"
            f"  look at it: bpc passports run {run.run_id} --wait\n"
            f"  stop it:    bpc passports cancel {run.run_id}",
            err=True,
        )


def _sum_counts(results: Sequence[RunResult]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for result in results:
        total.update(result.run.counts)
    return total


def _list_failures(results: Sequence[RunResult]) -> list[dict[str, object]]:
    return [
        {
            "row": number,
            "sku": row.sku,
            "code": row.error.code,
            "message": row.error.message,
            "job_id": row.job_id,
            "run_id": run_id,
        }
        for number, run_id, row in _number_rows(results)
        if row.error is not None
    ]


def _run_to_json(run: CompileRun) -> dict[str, object]:
    return {
        **_listed_run_to_json(run),
        "counts": dict(run.counts),
        "progress": run.progress,
        "fail_count": run.fail_count,
        "warn_count": run.warn_count,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
    }


def _listed_run_to_json(run: CompileRun | ListedRun) -> dict[str, object]:
    return {
        "run_id": run.run_id,
        "rule_package_version_id": run.rule_package_version_id,
        "activate": run.activate,
        "skip_unchanged": run.skip_unchanged,
        "rows": run.rows,
        "created_at": run.created_at,
        "cancelled_at": run.cancelled_at,
    }


passports_app.command("check")(check_products)
passports_app.command("what-if")(try_changes)
