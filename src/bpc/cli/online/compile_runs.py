"""`bpc passports compile` and `bpc runs`: compile passports for many products over the API."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Literal
from uuid import UUID

import typer
from bpc_client import Client
from bpc_client.models import BulkItem, CompileRun, RunRequested

from bpc.cli.online.api_client import collect, open_api
from bpc.cli.online.product_list import read_items
from bpc.cli.online.remote_rules import require_published
from bpc.cli.online.run_report import (
    RunResult,
    count_finished,
    list_failures,
    listed_run_to_json,
    number_rows,
    run_to_json,
    sum_counts,
    write_report,
)
from bpc.cli.online.stopped_command import print_going_on, print_started_runs
from bpc.cli.support.arguments import LimitOption, UrlOption, command_group, require_utf8
from bpc.cli.support.completion import complete_packages, complete_runs, complete_skus
from bpc.cli.support.list_options import SkuOption, TextOption, parse_optional_when
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    print_json,
    print_line,
    print_table,
    read_bytes,
    replace_file,
)
from bpc.cli.support.progress import ProgressBar, explain_interrupt, show_progress
from bpc.cli.support.times import SinceOption, UntilOption
from bpc.core.errors import Invalid
from bpc.core.formats.ids import NotAnId, parse_uuid
from bpc.core.formats.timestamps import format_time

runs_app = command_group(
    "List, show and cancel runs, each of which compiles passports for many products.\n\n"
    "A run has a row for each product. Rows are independent: a row that fails reports why and stops no other row."
)

MAX_ROWS_PER_RUN: Final = 5_000  # limit of the API
LONGEST_WAIT: Final = 24 * 3600.0
MAX_FAILURES_SHOWN: Final = 20
LOOK_SECONDS: Final = 1.0  # asking for the rows of one status takes as long as the whole run

RunIdArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False, autocompletion=complete_runs)
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a CSV file with a line for each row.")
]


async def compile_many(
    skus: Annotated[
        list[str] | None,
        typer.Argument(metavar="SKU...", help="The products.", show_default=False, autocompletion=complete_skus),
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="ID|NAME",
            help="Id of a published rule version, or name of a package (its newest published version). "
            "[default with --failed-of: those of that run]",
            autocompletion=complete_packages,
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
    bpc passports compile A-1 A-2 --rules "Industrial batteries" --wait
    bpc passports compile --rules "Industrial batteries" --csv products.csv --activate --wait --report done.csv

    In the file, the first line names the columns; name and snapshot_id may be empty or left out. An unknown
    product is created if its row has a name. Without a snapshot_id, a snapshot of what is known of the SKU now is
    made.

    A passport whose active version says what a new one would say today is left out; --force compiles it anyway.
    A file of more than 5,000 products becomes several runs, with one summary and one report.
    """
    if [bool(skus), every, file is not None, failed_of is not None].count(True) != 1:
        raise typer.BadParameter("Use one of SKU, --all, --csv FILE and --failed-of RUN.")
    if rules is None and failed_of is None:
        raise typer.BadParameter("--rules is missing.")
    if report is not None and not wait:
        raise typer.BadParameter("--report needs --wait: it says how each row ended.")
    if report is not None and not report.parent.is_dir():  # before anything is compiled
        raise Invalid(f"there is no folder `{report.parent}` for the report", fix="create it, or choose another file")
    earlier_run = None if failed_of is None else parse_uuid(failed_of)
    products = [BulkItem(sku=require_utf8("the SKU", sku)) for sku in skus or ()]
    if file is not None:
        products = read_items(read_bytes(file))
    batches = _split_into_runs(products) or [None]
    runs: list[RunRequested] = []
    is_asking = False

    try:
        async with open_api(url, as_json=as_json) as bpc:
            version = await _choose_rules(bpc, rules, earlier_run, as_json=as_json)
            for items in batches:
                is_asking = True
                run = await bpc.bulk_compile(
                    rule_package_version_id=version,
                    items=items,
                    all=every or None,
                    failed_of=earlier_run,
                    activate=activate,
                    force=force or None,
                )
                runs.append(run)
                is_asking = False
            results = [await _load_run(bpc, run.run_id, wait=wait, rows=wait, as_json=as_json) for run in runs]
    except typer.Exit:
        print_started_runs(runs)
        raise
    except asyncio.CancelledError:  # Ctrl-C: the runs are the server's and go on
        print_going_on(runs, is_asking=is_asking)
        raise
    if report is not None:
        replace_file(report, write_report(results))
    _print_all(results, as_json=as_json)
    if wait and any(result.has_failed for result in results):
        raise typer.Exit(REFUSED)


@runs_app.command("list")
async def list_runs(
    sku: SkuOption = None,
    text: TextOption = None,
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="PACKAGE|ID",
            help="Only runs with this rule version, or with the newest published version of this package.",
            autocompletion=complete_packages,
        ),
    ] = None,
    status: Annotated[
        Literal["RUNNING", "FINISHED", "CANCELLED"] | None,
        typer.Option("--status", help="Only runs with this status.", case_sensitive=False),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 20,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first.

    \b
    bpc runs list --status running
    bpc runs list --sku A-1 --since 30d
    """
    async with open_api(url, as_json=as_json) as bpc:
        rule_version = None
        if rules is not None:
            rule_version = await _find_rule_version(bpc, require_utf8("the rules' name", rules), as_json=True)
        matching_runs = bpc.list_all(
            bpc.list_compile_runs,
            sku=sku,
            q=text,
            rule_package_version_id=rule_version,
            status=status,
            created_after=parse_optional_when(since),
            created_before=parse_optional_when(until),
        )
        runs = await collect(matching_runs, limit)
    if as_json:
        print_json([listed_run_to_json(run) for run in runs])
        return
    rows = [(run.run_id, run.status, run.rows, format_time(run.created_at)) for run in runs]
    print_table(("ID", "STATUS", "ROWS", "CREATED"), rows)


@runs_app.command("show")
async def show_run(
    run: RunIdArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all rows have finished.")] = False,
    report: ReportOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a run; exit 1 if a row failed."""
    run_id = parse_uuid(run)
    goes_on = f"run {run_id} goes on without this command\n  stop it: bpc runs cancel {run_id}"
    async with open_api(url, as_json=as_json) as bpc:
        with explain_interrupt(lambda: goes_on):
            result = await _load_run(bpc, run_id, wait=wait, rows=True, as_json=as_json)
    if report is not None:
        replace_file(report, write_report([result]))
    _print_run(result, as_json=as_json)
    if result.has_failed:
        raise typer.Exit(REFUSED)


@runs_app.command("cancel")
async def cancel_run(run: RunIdArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Stop a run: rows that have not started will not start."""
    run_id = parse_uuid(run)
    async with open_api(url, as_json=as_json) as bpc:
        result = RunResult(await bpc.cancel_compile_run(run_id), ())
    _print_run(result, as_json=as_json)


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
    """The run once it has finished; on a terminal with a progress bar, and with each failure as it happens."""
    with show_progress("compiling", as_json=as_json) as bar:
        failures = RunFailures(bpc, run_id, bar)

        async def look() -> CompileRun:
            run = await bpc.get_compile_run(run_id)
            failed_count = run.counts.get("FAILED", 0)
            label = f"passports, {failed_count:,} failed" if failed_count else "passports"
            bar.update(count_finished(run.rows, run.counts), run.rows, label)
            await failures.print_new(failed_count)
            return run

        return await bpc.wait_until(look, lambda run: run.finished_at is not None, seconds=LONGEST_WAIT)


class RunFailures:
    """Prints each row that failed once, above the bar; none without a terminal."""

    def __init__(self, bpc: Client, run_id: UUID, bar: ProgressBar) -> None:
        self._bpc = bpc
        self._run_id = run_id
        self._bar = bar
        self._rows: set[int] = set()
        self._looked_at = 0.0

    async def print_new(self, failed_count: int) -> None:
        """Print the rows that failed since the last time; `failed_count` is how many have failed in all."""
        now = time.monotonic()
        is_full = len(self._rows) >= MAX_FAILURES_SHOWN
        if (
            not self._bar.is_visible
            or is_full
            or failed_count == len(self._rows)
            or now - self._looked_at < LOOK_SECONDS
        ):
            return
        self._looked_at = now
        async for row in self._bpc.list_all(self._bpc.list_compile_run_rows, self._run_id, status="FAILED"):
            if row.row in self._rows or row.error is None:
                continue
            self._rows.add(row.row)
            self._bar.print_line(f"row {row.row}, {row.sku}: {row.error.code}: {row.error.message}")
            if len(self._rows) >= MAX_FAILURES_SHOWN:
                self._bar.print_line("more rows may fail: the summary and --report FILE name them")
                return


def _split_into_runs(items: list[BulkItem]) -> list[list[BulkItem] | None]:
    """The items of each run."""
    return [items[at : at + MAX_ROWS_PER_RUN] for at in range(0, len(items), MAX_ROWS_PER_RUN)]


def _print_run(result: RunResult, *, as_json: bool) -> None:
    if as_json:
        print_json({**run_to_json(result.run), "failures": list_failures([result])})
    else:
        _print_summary([result])


def _print_all(results: Sequence[RunResult], *, as_json: bool) -> None:
    """Several runs as one."""
    if not as_json:
        _print_summary(results)
        return
    rows, counts = sum(result.run.rows for result in results), sum_counts(results)
    print_json(
        {
            "rows": rows,
            "counts": counts,
            "progress": 100 * count_finished(rows, counts) // rows,
            "runs": [run_to_json(result.run) for result in results],
            "failures": list_failures(results),
        }
    )


def _print_summary(results: Sequence[RunResult]) -> None:
    for result in results:
        print_line(f"run       {result.run.run_id}")
    counts = ", ".join(f"{count:,} {status}" for status, count in sum_counts(results).items() if count)
    print_line(f"rows      {sum(result.run.rows for result in results):,}: {counts}")
    if (compliance := _describe_compliance(results)) is not None:
        print_line(f"entries   {compliance}")
    failures = [(number, row, row.error) for number, _, row in number_rows(results) if row.error is not None]
    for number, row, error in failures[:MAX_FAILURES_SHOWN]:
        print_line(f"row {number}, {row.sku}: {error.code}: {error.message}", colour="red")
    if len(failures) > MAX_FAILURES_SHOWN:
        print_line(f"and {len(failures) - MAX_FAILURES_SHOWN:,} more; --report FILE has them all")
    for result in results:
        if result.run.finished_at is None:
            print_line(f"          `bpc runs show {result.run.run_id} --wait` waits for the remaining rows")


def _describe_compliance(results: Sequence[RunResult]) -> str | None:
    """How many compliance entries are FAIL and WARN; None where an earlier release compiled a version."""
    fails, warns = [result.run.fail_count for result in results], [result.run.warn_count for result in results]
    if None in fails or None in warns:
        return None
    return f"{sum(count or 0 for count in fails):,} FAIL, {sum(count or 0 for count in warns):,} WARN"
