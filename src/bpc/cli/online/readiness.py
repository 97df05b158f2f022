"""`bpc passports check`: what products still need for their passports, as a table, a matrix, JSON or a spreadsheet."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import typer
from bpc_client import Client
from bpc_client.models import Issue, PassportCheckReport, ProductReadiness, RefusedProduct

from bpc.cli.online.api_client import open_api
from bpc.cli.online.remote_rules import require_published
from bpc.cli.support.arguments import UrlOption, require_utf8
from bpc.cli.support.completion import complete_skus
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    print_json,
    print_line,
    print_table,
    replace_file,
)
from bpc.cli.support.progress import show_progress
from bpc.core.exports.data_points import POINTS
from bpc.core.facts.provenance import describe_place
from bpc.core.formats.ids import NotAnId, parse_uuid

MAX_SKUS_PER_REQUEST: Final = 100  # limit of the API
COLUMNS: Final = ("SKU", "SEVERITY", "KIND", "POINT", "FIELD", "MEMBER", "TEMPLATE", "DOCUMENT", "SAYS")
# One character for each state of a data point in the matrix.
MARKS: Final = {
    "filled": "+",
    "missing": "M",
    "failing": "F",
    "unreadable": "U",
    "conflicting": "C",
    "implausible": "I",
    "not_shown": "N",
    "empty": "o",
    "not_asked": ".",
}
LEGEND: Final = (
    "+ filled, M missing, F failing, U unreadable, C conflicting, I implausible, N not shown by the rules, "
    "o empty and not mandatory, . not to be filled"
)


async def check_products(
    skus: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SKU...",
            help="The products.",
            show_default=False,
            autocompletion=complete_skus,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every active product.")] = False,
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="ID|NAME",
            help="Id of a rule version, or name of a package (its newest published version). "
            "[default: the only package that has a published version]",
        ),
    ] = None,
    day: Annotated[
        str | None, typer.Option("--on", metavar="DATE", help="The day of issue to assume [default: today].")
    ] = None,
    matrix: Annotated[bool, typer.Option("--matrix", help="Print products by data points.")] = False,
    xlsx: Annotated[
        Path | None, typer.Option("--xlsx", metavar="FILE", help="Write issues and matrix as a spreadsheet.")
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Say what products still need for their passports; exit 1 if one is not ready.

    Compiles without storing and lists everything at once: each point that is missing, failing, unreadable, conflicting
    or implausible, with its data point, field, member, column of the template and document.

    \b
    bpc passports check SKU-1 SKU-2
    bpc passports check --all --xlsx readiness.xlsx
    bpc passports check --all --matrix
    """
    if bool(skus) == every:
        raise typer.BadParameter("Name products, or use --all.")
    chosen_skus = [require_utf8("the SKU", sku) for sku in skus or ()]
    products: list[ProductReadiness] = []
    refusals: list[RefusedProduct] = []
    async with open_api(url, as_json=as_json) as bpc:
        version = None if rules is None else await _find_version(bpc, require_utf8("the rules' name", rules))
        with show_progress("checking", as_json=as_json) as bar:
            async for report in iterate_reports(bpc, chosen_skus or None, version, day):
                version = report.rule_package_version_id
                products += report.products
                refusals += report.refused
                bar.update(len(products), max(len(chosen_skus), len(products)), "products")
    if xlsx is not None:
        replace_file(xlsx, write_workbook(products))
    _print_results(products, refusals, version, matrix=matrix, as_json=as_json)
    if xlsx is not None and not as_json:
        print_line(f"wrote {xlsx}")
    if refusals or not all(product.ready for product in products):
        raise typer.Exit(REFUSED)


async def _find_version(bpc: Client, name: str) -> UUID:
    with suppress(NotAnId):
        return parse_uuid(name)
    return (await require_published(bpc, name)).rule_package_version_id


async def iterate_reports(
    bpc: Client, skus: Sequence[str] | None, version: UUID | None, day: str | None
) -> AsyncIterator[PassportCheckReport]:
    """Ask piece by piece. The first answer says which rules it used; the others use the same."""
    if skus is not None:
        unique = list(dict.fromkeys(skus))
        for start in range(0, len(unique), MAX_SKUS_PER_REQUEST):
            piece = unique[start : start + MAX_SKUS_PER_REQUEST]
            report = await bpc.check_passports(skus=piece, rule_package_version_id=version, issued_on=day)
            version = report.rule_package_version_id
            yield report
        return
    after: str | None = None
    while True:
        report = await bpc.check_passports(all=True, after=after, rule_package_version_id=version, issued_on=day)
        yield report
        version, after = report.rule_package_version_id, report.next_after
        if after is None:
            return


def _print_results(
    products: Sequence[ProductReadiness],
    refusals: Sequence[RefusedProduct],
    version: UUID | None,
    *,
    matrix: bool,
    as_json: bool,
) -> None:
    if as_json:
        print_json(
            {
                "rule_package_version_id": version,
                "products": [product.model_dump(mode="json") for product in products],
                "refused": [each.model_dump(mode="json") for each in refusals],
            }
        )
        return
    if matrix:
        _print_matrix(products)
    elif rows := [row for product in products for row in _list_rows(product)]:
        print_table(COLUMNS, rows)
    for each in refusals:
        print_line(f"{each.sku}: {each.code}: {each.message}", colour="red")
    _print_summary(products)


def _print_summary(products: Sequence[ProductReadiness]) -> None:
    ready = sum(product.ready for product in products)
    kinds = Counter(issue.kind for product in products for issue in product.issues)
    entries: Counter[str] = Counter()
    for product in products:
        entries.update(product.compliance)
    issues = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in sorted(kinds.items())) or "none"
    print_line(f"products  {len(products):,}: {ready:,} ready, {len(products) - ready:,} not ready")
    print_line(f"issues    {issues}")
    print_line(f"entries   {entries['FAIL']:,} FAIL, {entries['WARN']:,} WARN")


def _list_rows(product: ProductReadiness) -> Iterator[tuple[str, ...]]:
    for issue in product.issues:
        yield (product.sku, issue.severity, issue.kind.replace("_", " "), *_describe_issue(issue))


def _describe_issue(issue: Issue) -> tuple[str, ...]:
    """The points, fields, members, template cells and documents of an issue, and its sentence."""
    documents = (
        ", ".join(
            filter(
                None,
                (
                    each.file_name or f"document {each.document_id}",
                    None if each.place is None else describe_place(each.place),
                    each.supplier,
                ),
            )
        )
        for each in issue.documents
    )
    return (
        ", ".join(str(number) for number in issue.points),
        ", ".join(issue.labels[:3]) + (" …" if len(issue.labels) > 3 else ""),
        ", ".join(issue.members),
        ", ".join(f"{cell.sheet}: {cell.column}" for cell in issue.cells),
        "; ".join(documents),
        issue.message,
    )


def _print_matrix(products: Sequence[ProductReadiness]) -> None:
    width = max((len(product.sku) for product in products), default=3)
    tens = "".join(str(point.number // 10) if point.number % 10 == 0 else " " for point in POINTS)
    ones = "".join(str(point.number % 10) for point in POINTS)
    print_line(f"{'':{width}}  {'':10}  {tens}")
    print_line(f"{'SKU':{width}}  {'CATEGORY':10}  {ones}", bold=True)
    for product in products:
        marks = "".join(MARKS[point.state] for point in product.points)
        print_line(f"{product.sku:{width}}  {product.category or '?':10}  {marks}")
    print_line(LEGEND)


# The spreadsheet ----------------------------------------------------------------------------------------------------

ISSUE_HEADERS: Final = (
    "SKU", "Category", "Severity", "Kind", "Data points", "Fields", "Members", "Template", "Documents", "Code",
    "Place in the rules", "What is wrong",
)  # fmt: skip
MAX_CELL_CHARS: Final = 32_767  # limit of the format
STATE_COLOURS: Final = {
    "filled": "#C6E0B4",
    "missing": "#F8CBAD",
    "failing": "#FF9999",
    "unreadable": "#F4B084",
    "conflicting": "#FFE699",
    "implausible": "#FFD966",
    "not_shown": "#DDEBF7",
}


def write_workbook(products: Sequence[ProductReadiness]) -> bytes:
    """A spreadsheet with three sheets: products, issues, and products by data points."""
    import io  # noqa: PLC0415 (with the library, which is slow to import)

    import xlsxwriter  # type: ignore[import-untyped]  # noqa: PLC0415

    buffer = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(buffer, options) as book:
        bold = book.add_format({"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"})
        _fill_products(book.add_worksheet("Products"), products, bold)
        _fill_issues(book.add_worksheet("Issues"), products, bold)
        _fill_matrix(book, book.add_worksheet("Matrix"), products, bold)
    return buffer.getvalue()


def _fill_products(sheet: Any, products: Sequence[ProductReadiness], bold: Any) -> None:
    sheet.freeze_panes(1, 1)
    sheet.set_column(0, 6, 14)
    sheet.write_row(0, 0, ("SKU", "Category", "Ready", "Compiles", "Errors", "Warnings", "FAIL", "WARN"), bold)
    for number, product in enumerate(products, 1):
        severities = Counter(issue.severity for issue in product.issues)
        values = (
            product.sku,
            product.category or "",
            "yes" if product.ready else "no",
            "yes" if product.compiles else "no",
            severities["error"],
            severities["warning"],
            product.compliance.get("FAIL", 0),
            product.compliance.get("WARN", 0),
        )
        sheet.write_row(number, 0, values)


def _fill_issues(sheet: Any, products: Sequence[ProductReadiness], bold: Any) -> None:
    sheet.freeze_panes(1, 1)
    sheet.set_column(0, 10, 18)
    sheet.set_column(11, 11, 90)
    sheet.write_row(0, 0, ISSUE_HEADERS, bold)
    rows = ((product, issue) for product in products for issue in product.issues)
    count = 0
    for count, (product, issue) in enumerate(rows, 1):
        points, _, members, cells, documents, says = _describe_issue(issue)
        head = product.sku, product.category or "", issue.severity, issue.kind.replace("_", " "), points
        tail = ", ".join(issue.labels), members, cells, documents, issue.code or "", issue.place or "", says
        sheet.write_row(count, 0, [text[:MAX_CELL_CHARS] for text in (*head, *tail)])
    sheet.autofilter(0, 0, max(count, 1), len(ISSUE_HEADERS) - 1)


def _fill_matrix(book: Any, sheet: Any, products: Sequence[ProductReadiness], bold: Any) -> None:
    formats = {state: book.add_format({"bg_color": colour}) for state, colour in STATE_COLOURS.items()}
    sheet.freeze_panes(2, 2)
    sheet.set_column(0, 1, 16)
    sheet.set_column(2, len(POINTS) + 1, 12)
    sheet.write_row(0, 0, ("SKU", "Category", *(point.number for point in POINTS)), bold)
    sheet.write_row(1, 0, ("", "", *(point.name for point in POINTS)), bold)
    for number, product in enumerate(products, 2):
        sheet.write_row(number, 0, (product.sku, product.category or ""))
        for point in product.points:
            sheet.write(number, point.number + 1, point.state.replace("_", " "), formats.get(point.state))
