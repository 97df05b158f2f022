"""`bpc facts`: what was read from documents, over the API."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.online.lookup import find_document_version
from bpc.cli.support.arguments import LimitOption, UrlOption, command_group, require_utf8
from bpc.cli.support.completion import complete_documents, complete_facts
from bpc.cli.support.list_options import SkuOption, SupplierOption, TextOption, parse_optional_when
from bpc.cli.support.output import AsJson, format_count, print_json, print_line, print_table
from bpc.cli.support.times import SinceOption, UntilOption
from bpc.core.formats.ids import parse_uuid
from bpc.core.formats.timestamps import format_time
from bpc.core.passport.value_words import format_member

facts_app = command_group(
    "List and show facts: what was read from documents, each with its place.\n\n"
    "A fact is about what its key names, like `battery:A-1` or `component:A-1:cathode`."
)


@facts_app.command("list")
async def list_facts(
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="TEXT", help="Only facts whose key starts with this, like battery:A-1."),
    ] = None,
    sku: SkuOption = None,
    fact_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only facts of this type.")] = None,
    document: Annotated[
        str | None,
        typer.Option(
            "--document",
            metavar="ID|REF",
            help="Only facts of this document version, or of the newest version of this document.",
            autocompletion=complete_documents,
        ),
    ] = None,
    text: TextOption = None,
    supplier: SupplierOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 50,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List facts, the newest first; with --key in the order of keys, descending.

    \b
    bpc facts list --sku A-1
    bpc facts list --supplier "Example Cells GmbH" --since 7d
    bpc facts list --document ERP-4711 --json
    """
    async with open_api(url, as_json=as_json) as bpc:
        version = None if document is None else await find_document_version(bpc, document)
        pages = bpc.list_all(
            bpc.list_facts,
            fact_type=None if fact_type is None else require_utf8("the type", fact_type),
            fact_key_prefix=None if key is None else require_utf8("the key", key),
            document_version_id=version,
            sku=sku,
            q=text,
            supplier=supplier,
            created_after=parse_optional_when(since),
            created_before=parse_optional_when(until),
        )
        facts = await collect(pages, limit)
    print_models(
        facts,
        ("ID", "TYPE", "KEY", "PLACE", "MEMBERS"),
        lambda fact: (fact.fact_id, fact.fact_type, fact.fact_key, fact.source_path, _shorten(fact.payload)),
        as_json=as_json,
    )


@facts_app.command("show")
async def show_fact(
    fact: Annotated[
        str, typer.Argument(metavar="ID", help="The fact's id.", show_default=False, autocompletion=complete_facts)
    ],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a fact: its members, and every place in documents that says it."""
    fact_id = parse_uuid(fact)
    async with open_api(url, as_json=as_json) as bpc:
        row = await bpc.get_fact(fact_id)
    if as_json:
        print_json(row.model_dump(mode="json"))
        return
    print_line(f"fact     {row.fact_id}")
    print_line(f"type     {row.fact_type}, version {row.schema_version}")
    print_line(f"key      {row.fact_key}")
    print_line(f"read     {format_time(row.created_at)}")
    print_line(f"sha256   {row.payload_hash}\n")
    print_table(("MEMBER", "VALUE"), [(name, format_member(name, value)) for name, value in row.payload.items()])
    print_line(f"\nfound in {format_count(row.sources_total, 'place')}")
    print_table(("DOCUMENT VERSION", "PLACE"), [(each.document_version_id, each.source_path) for each in row.sources])


def _shorten(payload: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {format_member(name, value)}" for name, value in payload.items())
