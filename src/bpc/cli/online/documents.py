"""`bpc documents`: what documents say, over the API."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer
from bpc_client.models import MappingProposed

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.online.document_list import DocumentArgument, list_documents, show_document
from bpc.cli.online.lookup import find_document
from bpc.cli.online.suppliers import change_columns, find_or_create_supplier, parse_column_change
from bpc.cli.support.arguments import UrlOption, command_group, require_utf8
from bpc.cli.support.completion import complete_documents, complete_skus
from bpc.cli.support.output import AsJson, format_optional_time, print_json, print_line, print_table, read_bytes
from bpc.core.errors import Invalid
from bpc.core.passport.value_words import format_member

documents_app = command_group(
    "List and show documents; correct and withdraw what they say.\n\n"
    "A document says what its newest accepted version says. Where documents about one product differ, the supplier "
    "with the best rank is believed, then the document that was stated last, until somebody decides."
)

SkuArgument = Annotated[
    str, typer.Argument(metavar="SKU", help="The product.", show_default=False, autocompletion=complete_skus)
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")]

documents_app.command("list")(list_documents)
documents_app.command("show")(show_document)


@documents_app.command("withdraw")
async def withdraw_document(
    document: DocumentArgument, reason: ReasonOption, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Withdraw a document: what it says no longer counts.

    \b
    bpc documents withdraw ERP-4711 --reason "The supplier sent the wrong battery"

    Its versions, its facts and passports that were compiled from them stay. Upload a version to let it say something
    again.
    """
    async with open_api(url, as_json=as_json) as bpc:
        row = await find_document(bpc, document)
        statement = await bpc.withdraw_document(row.document_id, reason=require_utf8("the reason", reason))
    if as_json:
        print_json(statement.model_dump(mode="json"))
    else:
        print_line(f"document {row.document_id} is withdrawn")


@documents_app.command("statements")
async def list_statements(document: DocumentArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """List what a document said, and since when, newest first.

    The newest statement that is VALIDATED or WITHDRAWN counts. UPLOADED is not read yet; REJECTED never counted.
    """
    async with open_api(url, as_json=as_json) as bpc:
        row = await find_document(bpc, document)
        statements = await collect(bpc.list_all(bpc.list_document_statements, row.document_id))
    print_models(
        statements,
        ("no", "since", "status", "version", "file", "reason"),
        lambda statement: (
            str(statement.sequence),
            format_optional_time(statement.stated_at),
            statement.status or "WITHDRAWN",
            str(statement.document_version_id or ""),
            statement.file_name or "",
            statement.reason or "",
        ),
        as_json=as_json,
    )


@documents_app.command("conflicts")
async def list_conflicts(sku: SkuArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """List where the documents about a product differ. The first value of a member is the one that counts.

    Until somebody decides, the supplier with the best rank is believed, then the document that was stated last.
    """
    async with open_api(url, as_json=as_json) as bpc:
        conflicts = (await bpc.list_conflicts(sku=require_utf8("the SKU", sku))).conflicts
    if as_json:
        print_json([conflict.model_dump(mode="json") for conflict in conflicts])
        return
    if not conflicts:
        print_line(f"the documents about `{sku}` do not differ")
        return
    rows = [
        (
            conflict.fact_key,
            conflict.member,
            ("yes, decided" if conflict.decided else "yes, not decided") if number == 0 else "no",
            "cannot be read" if value.unreadable is not None else format_member(conflict.member, value.value),
            value.source_path,
            value.file_name or "",
            value.supplier or "",
            str(value.document_id),
        )
        for conflict in conflicts
        for number, value in enumerate(conflict.values)
    ]
    print_table(("fact", "member", "counts", "value", "place", "file", "supplier", "document"), rows)


@documents_app.command("resolve")
async def resolve_conflict(
    sku: SkuArgument,
    member: Annotated[
        str, typer.Argument(metavar="MEMBER", help="The member that documents differ about.", show_default=False)
    ],
    document: Annotated[
        str,
        typer.Option(
            "--document", metavar="ID|REF", help="The document to believe.", autocompletion=complete_documents
        ),
    ],
    reason: ReasonOption,
    fact: Annotated[
        str | None,
        typer.Option("--fact", metavar="KEY", help="Key of the fact, if several differ about this member."),
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Decide which document to believe about a member.

    \b
    bpc documents resolve A-1 mass_kg --document ERP-4711 --reason "It was weighed"
    """
    why = require_utf8("the reason", reason)
    async with open_api(url, as_json=as_json) as bpc:
        document_id = (await find_document(bpc, document)).document_id
        conflicts = (await bpc.list_conflicts(sku=require_utf8("the SKU", sku))).conflicts
        matching = [c for c in conflicts if c.member == member and fact in {None, c.fact_key}]
        if not matching:
            raise Invalid(
                f"the documents about `{sku}` do not differ about `{member}`",
                fix=f"`bpc documents conflicts {sku}` lists what they differ about",
            )
        if len(matching) > 1:
            keys = ", ".join(sorted(conflict.fact_key for conflict in matching))
            raise Invalid(f"several facts differ about `{member}`: {keys}", fix="choose one with --fact")
        [conflict] = matching
        answer = await bpc.resolve_conflict(
            sku=sku,
            fact_type=conflict.fact_type,
            fact_key=conflict.fact_key,
            member=member,
            document_id=document_id,
            reason=why,
        )
    if as_json:
        print_json(answer.model_dump(mode="json"))
    else:
        print_line(f"{member} of {conflict.fact_key} is what document {document_id} says")


@documents_app.command("map")
async def map_columns(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A table: XLSX or CSV.", show_default=False)],
    kind: Annotated[
        Literal["BOM", "PCF", "DUE_DILIGENCE"],
        typer.Option("--kind", help="The kind of document that it is.", case_sensitive=False),
    ],
    supplier: Annotated[
        str | None, typer.Option("--supplier", metavar="NAME", help="Who sends such tables; needed to accept.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="HEADER=MEMBER",
            help='What a column is, with a unit if its header has none: "Gewicht=mass_kg g"; "Gewicht=" leaves it out. '
            "Repeat it for more columns.",
        ),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Keep the mapping for the supplier: it is used from the next upload on.")
    ] = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Propose which column of a table is which member, and keep it for a supplier.

    \b
    bpc documents map bom.xlsx --kind BOM
    bpc documents map bom.xlsx --kind BOM --set "Gewicht=mass_kg g" --supplier "Example Cells GmbH" --accept

    Columns that are known by name or by a synonym are mapped. Columns that are only similar, or unknown, are left out
    until you say what they are.
    """
    if accept and supplier is None:
        raise Invalid("there is no supplier to keep the mapping for", fix="name it with --supplier")
    content, settings = read_bytes(file), [parse_column_change(change) for change in changes or ()]
    async with open_api(url, as_json=as_json) as bpc:
        proposal = await bpc.propose_column_mapping(content=content, kind=kind)
        if proposal.mapping is None:
            problems = [remark.model_dump() for remark in proposal.problems]
            first = f": `{problems[0]['at']}` {problems[0]['says']}" if problems else ""
            raise Invalid(
                f"no table was recognised{first}", fix="check the file and --kind", details={"problems": problems}
            )
        mapping = change_columns(proposal.mapping, settings)
        column_mapping = None
        if accept and supplier is not None:
            owner = await find_or_create_supplier(bpc, supplier)
            column_mapping = await bpc.accept_column_mapping(owner.supplier_id, kind=kind, mapping=mapping)
    if as_json:
        version = None if column_mapping is None else column_mapping.version
        print_json({**proposal.model_dump(mode="json"), "mapping": mapping, "accepted_version": version})
        return
    _print_proposal(proposal, mapping)
    if column_mapping is None:
        print_line("nothing is kept; add --supplier NAME --accept to use this mapping from the next upload on")
    else:
        print_line(f"version {column_mapping.version} of the mapping for {kind} is in force for {supplier}")


def _print_proposal(proposal: MappingProposed, mapping: Mapping[str, Any]) -> None:
    columns = {(sheet["name"], column["header"]): column for sheet in mapping["sheets"] for column in sheet["columns"]}
    rows = []
    for sheet in proposal.sheets:
        for column in sheet.columns:
            target = columns.get((sheet.name, column.header), {})
            member = " ".join(text for text in (target.get("member"), target.get("unit")) if text)
            examples = ", ".join(column.examples)
            rows.append((column.place, column.header, member or "left out", column.confidence, column.why, examples))
    print_table(("place", "header", "member", "confidence", "why", "examples"), rows)
    for remark in proposal.warnings:
        print_line(f"warning   {remark.at} {remark.says}", colour="yellow")
