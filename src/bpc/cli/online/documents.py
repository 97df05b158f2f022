"""`bpc documents` and `bpc snapshot`: what documents say, over the API."""

from typing import Annotated

import typer

from bpc.cli.online.api_client import open_api
from bpc.cli.support.arguments import UrlOption, command_group, require_utf8
from bpc.cli.support.output import AsJson, format_optional_time, print_json, print_line, print_table
from bpc.core.errors import Invalid
from bpc.core.formats.ids import parse_uuid
from bpc.core.passport.why import format_member

documents_app = command_group(
    "Show, correct and withdraw what documents say.\n\n"
    "A document says what its newest accepted version says. Where documents about one product differ, the supplier with "
    "the best rank is believed, then the document that was stated last, until somebody decides."
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
