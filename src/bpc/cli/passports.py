"""`bpc passports`: passports for many products at once, over the API."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final
from uuid import UUID

import typer

from bpc.cli.files import read_bytes, replace_file
from bpc.cli.online import ask
from bpc.cli.output import REFUSED, AsJson, print_json, say
from bpc.cli.rules_publishing import rules_named
from bpc.cli.text import checked_text
from bpc.cli.url import Url
from bpc.client import Client
from bpc.client.models import BulkItem, CompileRun, CompileRunRow, ListedRun, RunRequested
from bpc.core.errors import Invalid
from bpc.core.ids import NotAnId, parse_uuid
from bpc.core.timestamps import format_time

app = typer.Typer(
    help="Compile passports of many products at once, over the API.\n\n"
    "A run has a row for each product. Each row is done for itself: one that fails says why and stops no other.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

COLUMNS: Final = ("sku", "name", "snapshot_id")
REPORT: Final = ("row", "sku", "status", "passport_version_id", "error_code", "error_message", "run_id")
MOST_ROWS: Final = 5_000  # of one run: what the API takes at once
LONGEST_WAIT: Final = 24 * 3600.0
FAILED_SHOWN: Final = 20

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write a CSV file with a line for each row.")
]


@app.command("compile")
def compile_many(
    rules: Annotated[
        str,
        typer.Option("--rules", metavar="ID|NAME", help="A published rule version, or a package: its newest such."),
    ],
    every: Annotated[bool, typer.Option("--all", help="Every active product.")] = False,
    file: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="The products: sku, name, snapshot_id; `-` is stdin.")
    ] = None,
    activate: Annotated[bool, typer.Option("--activate", help="Activate each version once it is issued.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all rows are over; exit 1 if one failed.")] = False,
    report: Report = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Ask for passports of many products.

    \b
    bpc passports compile --rules "Industrial batteries" --csv products.csv --activate --wait --report done.csv

    In the file, the first line names the columns; name and snapshot_id may be empty or left out. A product that is not
    there is created if its row has a name. Without a snapshot, the newest facts about the SKU are sealed as one.

    A file of more than 5,000 products becomes several runs, with one summary and one report.
    """
    if every == (file is not None):
        raise typer.BadParameter("Say either --all or --csv FILE.")
    if report is not None and not wait:
        raise typer.BadParameter("--report needs --wait: it says how each row ended.")
    if report is not None and not report.parent.is_dir():  # before anything is compiled that it should tell of
        raise Invalid(f"there is no folder `{report.parent}` for the report", fix="make it, or name another file")
    named = checked_text("the rules' name", rules)
    parts = [None] if file is None else _parts(_items(read_bytes(file)))
    asked: list[RunRequested] = []

    async def work(bpc: Client) -> list[Ended]:
        version = await _rules(bpc, named, as_json=as_json)
        for items in parts:
            made = await bpc.bulk_compile(
                rule_package_version_id=version, items=items, all=every or None, activate=activate
            )
            asked.append(made)
        if wait:
            return [await _followed(bpc, each.run_id, as_json=as_json) for each in asked]
        return [Ended(await bpc.get_compile_run(each.run_id), ()) for each in asked]

    try:
        ended = ask(url, work, as_json=as_json)
    except typer.Exit:
        _say_begun(asked)
        raise
    if report is not None:
        replace_file(report, _report(ended))
    _print_all(ended, as_json=as_json)
    if wait and any(each.has_failed for each in ended):
        raise typer.Exit(REFUSED)


@app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=200, help="At most so many.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first."""

    async def work(bpc: Client) -> Sequence[ListedRun]:
        return (await bpc.list_compile_runs(limit=limit)).items

    found = ask(url, work, as_json=as_json)
    if as_json:
        print_json([_listed(run) for run in found])
        return
    from bpc.cli.table import print_table  # noqa: PLC0415 (rich is slow to import)

    rows = [(run.run_id, run.rows, format_time(run.created_at), _cancelled(run)) for run in found]
    print_table(["ID", "ROWS", "ASKED FOR", ""], rows)


@app.command("run")
def show_run(
    run: RunId,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all rows are over.")] = False,
    report: Report = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show how a run stands; exit 1 if a row failed."""
    run_id = parse_uuid(run)

    async def work(bpc: Client) -> Ended:
        if wait:
            return await _followed(bpc, run_id, as_json=as_json)
        return Ended(await bpc.get_compile_run(run_id), await _rows(bpc, run_id))

    ended = ask(url, work, as_json=as_json)
    if report is not None:
        replace_file(report, _report([ended]))
    _print(ended, as_json=as_json)
    if ended.has_failed:
        raise typer.Exit(REFUSED)


@app.command()
def cancel(run: RunId, url: Url = None, as_json: AsJson = False) -> None:
    """Let no row of a run begin that has not begun."""
    run_id = parse_uuid(run)

    async def work(bpc: Client) -> Ended:
        return Ended(await bpc.cancel_compile_run(run_id), ())

    _print(ask(url, work, as_json=as_json), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run, and its rows if they were asked for."""

    run: CompileRun
    rows: Sequence[CompileRunRow]

    @property
    def has_failed(self) -> bool:
        return self.run.counts.get("FAILED", 0) > 0


async def _rules(bpc: Client, named: str, *, as_json: bool) -> UUID:
    """The rule version of an id, which the API looks for itself, or the one that a package's name means now."""
    with suppress(NotAnId):
        return parse_uuid(named)
    found = await rules_named(bpc, named)
    if not as_json:
        say(f"rules     {found.rule_package_version_id} (version {found.version} of {named})")
    return found.rule_package_version_id


async def _followed(bpc: Client, run_id: UUID, *, as_json: bool) -> Ended:
    """The run when it is over, shown as it goes on."""
    with _progress(shown=not as_json and sys.stderr.isatty()) as show:

        async def look() -> CompileRun:
            run = await bpc.get_compile_run(run_id)
            show(run)
            return run

        run = await bpc.until(look, lambda run: run.finished_at is not None, seconds=LONGEST_WAIT)
    return Ended(run, await _rows(bpc, run_id))


async def _rows(bpc: Client, run_id: UUID) -> list[CompileRunRow]:
    return [row async for row in bpc.list_all(bpc.list_compile_run_rows, run_id)]


@contextmanager
def _progress(*, shown: bool) -> Iterator[Callable[[CompileRun], None]]:
    """A bar on a terminal, gone when the run is over; nothing anywhere else."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 (slow to import, and only a terminal needs it)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    columns = TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TextColumn("passports{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def show(run: CompileRun) -> None:
            failed = run.counts.get("FAILED", 0)
            over = run.rows - run.counts.get("WAITING", 0) - run.counts.get("COMPILING", 0)
            bar.update(task, completed=over, total=run.rows, description=f", {failed:,} failed" if failed else "")

        yield show


def _items(data: bytes) -> list[BulkItem]:
    """The rows of a CSV file; the first line names the columns."""
    try:
        text = data.decode("utf-8-sig")
        # European spreadsheets write semicolons: whichever there is more of in the first line separates the columns.
        separator = max(",;\t", key=text.partition("\n")[0].count)
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        columns = reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
        if "sku" not in columns:
            raise Invalid("the file has no column `sku`", fix=f"its first line names the columns: {', '.join(COLUMNS)}")
        if unknown := next((name for name in columns if name not in COLUMNS), None):
            raise Invalid(f"nobody knows the column `{unknown}`", fix=f"there are {', '.join(COLUMNS)}")
        if twice := next((name for name in columns if columns.count(name) > 1), None):
            raise Invalid(f"the column `{twice}` is there twice", fix="leave one of them out")
        found: dict[str, int] = {}
        items = [_item(row, reader.line_num, found) for row in reader if any(row.values())]
    except UnicodeDecodeError:
        raise Invalid("the file is not UTF-8 text", fix="save it as CSV in UTF-8") from None
    except csv.Error as wrong:
        raise Invalid(f"the file is not CSV: {wrong}") from None
    if not items:
        raise Invalid("the file names no product", fix="write a line for each, below the one that names the columns")
    return items


def _parts(items: list[BulkItem]) -> list[list[BulkItem]]:
    """The items of each run."""
    return [items[at : at + MOST_ROWS] for at in range(0, len(items), MOST_ROWS)]


def _item(row: Mapping[str | None, str | None], line: int, found: dict[str, int]) -> BulkItem:
    sku, name, snapshot = (row.get(column) or None for column in COLUMNS)
    if sku is None or None in row:
        says = "has no SKU" if sku is None else "has more cells than there are columns"
        raise Invalid(f"line {line} {says}", fix="write a cell for each column, and quote one that has a comma")
    if sku in found:
        raise Invalid(
            f"lines {found[sku]} and {line} have the same SKU", fix="a product has one passport: name it once"
        )
    found[sku] = line
    return BulkItem(sku=sku, name=name, snapshot_id=None if snapshot is None else parse_uuid(snapshot))


def _numbered(ended: Sequence[Ended]) -> Iterator[tuple[int, UUID, CompileRunRow]]:
    """The rows of all runs, each with its place in the whole and its run."""
    before = 0
    for each in ended:
        for row in each.rows:
            yield before + row.row, each.run.run_id, row
        before += each.run.rows


def _report(ended: Sequence[Ended]) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(REPORT)
    for number, run_id, row in _numbered(ended):
        code, message = ("", "") if row.error is None else (row.error.code, row.error.message)
        version = row.passport_version_id or ""
        writer.writerow([number, _cell(row.sku), row.status, version, code, _cell(message), run_id])
    return file.getvalue().encode()


def _cell(text: str) -> str:
    """A text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _print(ended: Ended, *, as_json: bool) -> None:
    if as_json:
        print_json({**_shown(ended.run), "failures": _failures([ended])})
    else:
        _say_all([ended])


def _print_all(ended: Sequence[Ended], *, as_json: bool) -> None:
    """Several runs as one."""
    if not as_json:
        _say_all(ended)
        return
    rows, counts = sum(each.run.rows for each in ended), _counts(ended)
    over = rows - counts.get("WAITING", 0) - counts.get("COMPILING", 0)
    print_json(
        {
            "rows": rows,
            "counts": counts,
            "progress": 100 * over // rows,
            "runs": [_shown(each.run) for each in ended],
            "failures": _failures(ended),
        }
    )


def _say_all(ended: Sequence[Ended]) -> None:
    for each in ended:
        say(f"run       {each.run.run_id}")
    counts = ", ".join(f"{count:,} {status}" for status, count in _counts(ended).items() if count)
    say(f"rows      {sum(each.run.rows for each in ended):,}: {counts}")
    failed = [(number, row, row.error) for number, _, row in _numbered(ended) if row.error is not None]
    for number, row, error in failed[:FAILED_SHOWN]:
        say(f"row {number}, {row.sku}: {error.code}: {error.message}", colour="red")
    if len(failed) > FAILED_SHOWN:
        say(f"and {len(failed) - FAILED_SHOWN:,} more; --report FILE has them all")
    for each in ended:
        if each.run.finished_at is None:
            say(f"          `bpc passports run {each.run.run_id} --wait` waits for the rest")


def _say_begun(asked: Sequence[RunRequested]) -> None:
    """What a refusal does not undo, for who would ask for all of it again."""
    before = 0
    for each in asked:
        rows = f"rows {before + 1:,} to {before + each.rows:,}"
        typer.echo(f"run {each.run_id} has begun before that: {rows}; `bpc passports run` shows it", err=True)
        before += each.rows


def _counts(ended: Sequence[Ended]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in ended:
        total.update(each.run.counts)
    return dict(total)


def _failures(ended: Sequence[Ended]) -> list[dict[str, object]]:
    return [_failure(number, run_id, row) for number, run_id, row in _numbered(ended) if row.error is not None]


def _shown(run: CompileRun) -> dict[str, object]:
    return {
        **_listed(run),
        "counts": dict(run.counts),
        "progress": run.progress,
        "started_at": None if run.started_at is None else format_time(run.started_at),
        "finished_at": None if run.finished_at is None else format_time(run.finished_at),
    }


def _listed(run: CompileRun | ListedRun) -> dict[str, object]:
    return {
        "run_id": str(run.run_id),
        "rule_package_version_id": str(run.rule_package_version_id),
        "activate": run.activate,
        "rows": run.rows,
        "created_at": format_time(run.created_at),
        "cancelled_at": None if run.cancelled_at is None else format_time(run.cancelled_at),
    }


def _failure(number: int, run_id: UUID, row: CompileRunRow) -> dict[str, object]:
    return {
        "row": number,
        "sku": row.sku,
        "code": None if row.error is None else row.error.code,
        "message": None if row.error is None else row.error.message,
        "job_id": None if row.job_id is None else str(row.job_id),
        "run_id": str(run_id),
    }


def _cancelled(run: ListedRun) -> str:
    return "" if run.cancelled_at is None else "cancelled"
