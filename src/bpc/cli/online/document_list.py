"""`bpc documents list` and `bpc documents show`: the documents of the service and their versions, over the API."""

from typing import Annotated, Literal

import typer
from bpc_client.models import Document, DocumentRemark, DocumentVersion, DocumentVersionRead

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.online.lookup import find_document
from bpc.cli.support.arguments import LimitOption, UrlOption, make_utf8_check, require_utf8
from bpc.cli.support.completion import complete_documents, complete_suppliers
from bpc.cli.support.list_options import ActivityOption, NameOption, SkuOption, parse_optional_when
from bpc.cli.support.output import AsJson, print_json, print_line, print_table
from bpc.cli.support.times import SinceOption, UntilOption
from bpc.core.formats.timestamps import format_time

DocumentArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID|REF",
        help="The document's id, or its reference.",
        show_default=False,
        autocompletion=complete_documents,
    ),
]


async def list_documents(
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT",
            help="Only documents whose name or reference contains this, in upper or lower case.",
            show_default=False,
            callback=make_utf8_check("the text"),
        ),
    ] = None,
    ref: Annotated[str | None, typer.Option("--ref", metavar="REF", help="Only documents with this reference.")] = None,
    name: NameOption = None,
    kind: Annotated[
        Literal["BOM", "PCF", "DUE_DILIGENCE", "OTHER"] | None,
        typer.Option("--kind", help="Only documents of this kind.", case_sensitive=False),
    ] = None,
    supplier: Annotated[
        str | None,
        typer.Option(
            "--supplier",
            metavar="NAME",
            help="Only documents of this supplier.",
            callback=make_utf8_check("the supplier"),
            autocompletion=complete_suppliers,
        ),
    ] = None,
    sku: SkuOption = None,
    status: ActivityOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 50,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List documents, the newest first, with products that they are about.

    \b
    bpc documents list --sku A-1 --kind PCF
    bpc documents list materials --supplier "Example Cells GmbH" --since 30d
    """
    async with open_api(url, as_json=as_json) as bpc:
        matching_documents = bpc.list_all(
            bpc.list_documents,
            external_ref=None if ref is None else require_utf8("the reference", ref),
            q=text,
            name=name,
            kind=kind,
            supplier=supplier,
            sku=sku,
            status=status,
            created_after=parse_optional_when(since),
            created_before=parse_optional_when(until),
        )
        documents = await collect(matching_documents, limit)
    print_models(
        documents,
        ("ID", "KIND", "NAME", "REFERENCE", "SUPPLIER", "PRODUCTS", "CREATED"),
        lambda each: (
            each.document_id,
            each.kind,
            each.name,
            each.external_ref,
            each.supplier,
            ", ".join(product.sku for product in each.products or ()),
            format_time(each.created_at),
        ),
        as_json=as_json,
    )


async def show_document(document: DocumentArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Show a document, its versions, and what was wrong in the newest one.

    \b
    bpc documents show ERP-4711
    """
    async with open_api(url, as_json=as_json) as bpc:
        row = await find_document(bpc, document)
        versions = [each async for each in bpc.list_all(bpc.list_document_versions, row.document_id)]
        newest = await bpc.get_document_version(versions[0].document_version_id) if versions else None
    if as_json:
        print_json(
            {
                **row.model_dump(mode="json"),
                "versions": [each.model_dump(mode="json") for each in versions],
                "problems": [] if newest is None else [remark.model_dump() for remark in newest.problems],
                "warnings": [] if newest is None else [remark.model_dump() for remark in newest.warnings],
            }
        )
        return
    _print_document(row, versions, newest)


def _print_document(row: Document, versions: list[DocumentVersion], newest: DocumentVersionRead | None) -> None:
    print_line(f"document   {row.document_id}")
    print_line(f"kind       {row.kind}")
    print_line(f"reference  {row.external_ref or 'none'}")
    print_line(f"supplier   {row.supplier or 'none'}\n")
    print_table(
        ("VERSION", "STATUS", "UPLOADED", "BYTES", "TYPE", "ID"),
        [
            (
                each.version,
                each.status,
                format_time(each.uploaded_at),
                each.size,
                each.mime_type,
                each.document_version_id,
            )
            for each in versions
        ],
    )
    if newest is not None:
        _print_remarks(newest.problems, "problem", "red")
        _print_remarks(newest.warnings, "warning", "yellow")


def _print_remarks(remarks: list[DocumentRemark], what: str, colour: str) -> None:
    for remark in remarks:
        print_line(f"{what}   {remark.at} {remark.says}", colour=colour)
