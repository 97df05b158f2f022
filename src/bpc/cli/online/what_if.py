"""`bpc passports what-if`: which active passports other rules, or documents not yet accepted, would change."""

from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Final, Literal

import typer
from bpc_client import Client
from bpc_client.models import DocumentToTry, PassportWhatIf, WhatIfReport

from bpc.cli.online.api_client import open_api
from bpc.cli.support.arguments import UrlOption, require_utf8
from bpc.cli.support.completion import complete_skus
from bpc.cli.support.output import AsJson, format_count, print_json, print_line, print_table, read_bytes
from bpc.cli.support.progress import show_progress
from bpc.core.errors import Invalid
from bpc.core.formats.ids import parse_uuid
from bpc.core.readiness.difference import format_value

ANY_TYPE: Final = "application/octet-stream"  # the API detects the format
DocumentKind = Literal["BOM", "PCF", "DUE_DILIGENCE"]
KindOption = Annotated[DocumentKind | None, typer.Option("--kind", help="Kind of the documents.")]


async def try_changes(
    skus: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SKU...",
            help="With --rules: the products [default: all].",
            show_default=False,
            autocompletion=complete_skus,
        ),
    ] = None,
    rules: Annotated[
        str | None, typer.Option("--rules", metavar="FILE", help="A file of rules to try; `-` is standard input.")
    ] = None,
    document: Annotated[
        list[str] | None, typer.Option("--document", metavar="FILE", help="A document to try; may be repeated.")
    ] = None,
    kind: KindOption = None,
    replaces: Annotated[
        str | None,
        typer.Option("--replaces", metavar="ID", help="The document that the file would be a new version of."),
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Say which fields of which active passports would change. Nothing is stored.

    Rules are tried on the facts that each passport was compiled from. Documents are read and merged with what is known
    now; what would change without them is not listed.

    \b
    bpc passports what-if --rules draft.bpc
    bpc passports what-if --document pcf-2027.xlsx --kind PCF
    """
    if (rules is None) == (not document):
        raise typer.BadParameter("Use either --rules FILE or --document FILE.")
    if document and (kind is None or skus):
        raise typer.BadParameter("--document needs --kind, and takes no SKU.")
    if rules is not None and kind is not None:
        raise typer.BadParameter("--kind goes with --document.")
    if replaces is not None and len(document or ()) != 1:
        raise typer.BadParameter("--replaces goes with one --document.")
    source = None if rules is None else _read_text(rules)
    documents = None if kind is None else [_read_document(file, kind, replaces) for file in document or ()]
    chosen_skus = [require_utf8("the SKU", sku) for sku in skus or ()] or None
    checked_count, passports = 0, list[PassportWhatIf]()
    async with open_api(url, as_json=as_json) as bpc:
        with show_progress("trying", as_json=as_json) as bar:
            async for report in _iterate_reports(bpc, chosen_skus, source, documents):
                checked_count += report.checked
                passports += report.passports
                bar.update(checked_count, 0, "passports")
    _print_changes(checked_count, passports, as_json=as_json)


def _read_text(file: str) -> str:
    try:
        return read_bytes(file).decode()
    except UnicodeDecodeError:
        raise Invalid(f"`{file}` is not UTF-8 text", fix="save the rules in UTF-8") from None


def _read_document(file: str, kind: DocumentKind, replaces: str | None) -> DocumentToTry:
    return DocumentToTry(
        kind=kind,
        mime_type=ANY_TYPE,
        content_base64=b64encode(read_bytes(file)).decode(),
        document_id=None if replaces is None else parse_uuid(replaces),
    )


async def _iterate_reports(
    bpc: Client, skus: list[str] | None, source: str | None, documents: list[DocumentToTry] | None
) -> AsyncIterator[WhatIfReport]:
    """Ask piece by piece, in the order of SKUs."""
    every = True if skus is None and documents is None else None
    after: str | None = None
    while True:
        report = await bpc.try_passports(skus=skus, all=every, after=after, dsl_source=source, documents=documents)
        yield report
        after = report.next_after
        if after is None:
            return


def _print_changes(checked_count: int, passports: Sequence[PassportWhatIf], *, as_json: bool) -> None:
    if as_json:
        print_json({"checked": checked_count, "passports": [each.model_dump(mode="json") for each in passports]})
        return
    rows = [
        (each.sku, change.path, format_value(change.before), format_value(change.after))
        for each in passports
        for change in each.fields
    ]
    if rows:
        print_table(["SKU", "FIELD", "NOW", "WOULD BE"], rows)
    for each in passports:
        for entry in each.compliance:
            before, after = (None if side is None else side["status"] for side in (entry.before, entry.after))
            print_line(f"{each.sku}: compliance {entry.code}: {before or 'absent'} would be {after or 'absent'}")
        for failure in each.failures:
            print_line(f"{each.sku}: {failure.field} would have no value: {failure.message}", colour="red")
        for problem in each.problems:
            print_line(f"{each.sku}: {problem}", colour="red")
    print_line(f"{len(passports):,} of {format_count(checked_count, 'active passport')} would change")
