"""`bpc documents` and `bpc snapshot`: what documents say, over the API."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer
from bpc_client.models import MappingProposed

from bpc.cli.online.api_client import open_api
from bpc.cli.online.suppliers import change_columns, find_or_create_supplier, parse_column_change
from bpc.cli.support.arguments import UrlOption, command_group, require_utf8
from bpc.cli.support.output import AsJson, format_optional_time, print_json, print_line, print_table, read_bytes
from bpc.core.errors import Invalid
from bpc.core.formats.ids import parse_uuid
from bpc.core.passport.why import format_member

documents_app = command_group(
    "Show, correct and withdraw what documents say.\n\n"
    "A document says what its newest accepted version says. Where documents about one product differ, the supplier "
    "with the best rank is believed, then the document that was stated last, until somebody decides."
)

DocumentArgument = Annotated[str, typer.Argument(metavar="DOCUMENT", help="The document's id.", show_default=False)]
SkuArgument = Annotated[str, typer.Argument(metavar="SKU", help="The product.", show_default=False)]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")]


@documents_app.command("withdraw")
async def withdraw_document(
    document: DocumentArgument, reason: ReasonOption, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Withdraw a document: what it says no longer counts.

    \b
    bpc documents withdraw 0f0e… --reason "The supplier sent the wrong battery"

    Its versions, its facts and passports that were compiled from them stay. Upload a version to let it say something
    again.
    """
    async with open_api(url, as_json=as_json) as bpc:
        statement = await bpc.withdraw_document(parse_uuid(document), reason=require_utf8("the reason", reason))
    if as_json:
        print_json(statement.model_dump(mode="json"))
    else:
        print_line(f"document {document} is withdrawn")


@documents_app.command("statements")
async def list_statements(document: DocumentArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """List what a document said, and since when, newest first.

    The newest statement that is VALIDATED or WITHDRAWN counts. UPLOADED is not read yet; REJECTED never counted.
    """
    async with open_api(url, as_json=as_json) as bpc:
        statements = [statement async for statement in bpc.list_all(bpc.list_document_statements, parse_uuid(document))]
    if as_json:
        print_json([statement.model_dump(mode="json") for statement in statements])
        return
    rows = [
        (
            str(statement.sequence),
            format_optional_time(statement.stated_at),
            statement.status or "WITHDRAWN",
            str(statement.document_version_id or ""),
            statement.file_name or "",
            statement.reason or "",
        )
        for statement in statements
    ]
    print_table(("no", "since", "status", "version", "file", "reason"), rows)


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
    document: Annotated[str, typer.Option("--document", metavar="ID", help="The document to believe.")],
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
    bpc documents resolve A-1 mass_kg --document 0f0e… --reason "It was weighed"
    """
    believed, why = parse_uuid(document), require_utf8("the reason", reason)
    async with open_api(url, as_json=as_json) as bpc:
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
            document_id=believed,
            reason=why,
        )
    if as_json:
        print_json(answer.model_dump(mode="json"))
    else:
        print_line(f"{member} of {conflict.fact_key} is what document {believed} says")


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
        accepted = None
        if accept and supplier is not None:
            owner = await find_or_create_supplier(bpc, supplier)
            accepted = await bpc.accept_column_mapping(owner.supplier_id, kind=kind, mapping=mapping)
    if as_json:
        version = None if accepted is None else accepted.version
        print_json({**proposal.model_dump(mode="json"), "mapping": mapping, "accepted_version": version})
        return
    _print_proposal(proposal, mapping)
    if accepted is None:
        print_line("nothing is kept; add --supplier NAME --accept to use this mapping from the next upload on")
    else:
        print_line(f"version {accepted.version} of the mapping for {kind} is in force for {supplier}")


def _print_proposal(proposal: MappingProposed, mapping: Mapping[str, Any]) -> None:
    mapped = {(sheet["name"], column["header"]): column for sheet in mapping["sheets"] for column in sheet["columns"]}
    rows = []
    for sheet in proposal.sheets:
        for column in sheet.columns:
            target = mapped.get((sheet.name, column.header), {})
            member = " ".join(text for text in (target.get("member"), target.get("unit")) if text)
            examples = ", ".join(column.examples)
            rows.append((column.place, column.header, member or "left out", column.confidence, column.why, examples))
    print_table(("place", "header", "member", "confidence", "why", "examples"), rows)
    for remark in proposal.warnings:
        print_line(f"warning   {remark.at} {remark.says}", colour="yellow")


async def seal_snapshot(
    sku: SkuArgument,
    label: Annotated[str | None, typer.Option("--label", metavar="TEXT", help="A name for people.")] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Seal a snapshot of what is known of a product now."""
    name = None if label is None else require_utf8("the label", label)
    async with open_api(url, as_json=as_json) as bpc:
        snapshot = await bpc.create_snapshot(sku=require_utf8("the SKU", sku), label=name)
    if as_json:
        print_json(snapshot.model_dump(mode="json"))
        return
    print_line(f"snapshot  {snapshot.snapshot_id}")
    if snapshot.open_conflicts:
        print_line(f"conflicts {snapshot.open_conflicts} not decided; `bpc documents conflicts {sku}` lists them")
