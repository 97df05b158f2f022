"""`bpc snapshots`: what was known of a product at a time, sealed, over the API."""

from typing import Annotated

import typer

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.online.documents import SkuArgument
from bpc.cli.support.arguments import LimitOption, UrlOption, command_group, require_utf8
from bpc.cli.support.completion import complete_snapshots
from bpc.cli.support.output import AsJson, format_optional_time, print_json, print_line, print_table
from bpc.core.formats.ids import parse_uuid
from bpc.core.formats.timestamps import format_time

snapshots_app = command_group(
    "Create, list and show snapshots: what was known at a time.\n\nA sealed snapshot never changes; passports are "
    "compiled from it."
)


@snapshots_app.command("create")
async def create_snapshot(
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


@snapshots_app.command("list")
async def list_snapshots(limit: LimitOption = 50, url: UrlOption = None, as_json: AsJson = False) -> None:
    """List snapshots, the newest first."""
    async with open_api(url, as_json=as_json) as bpc:
        snapshots = await collect(bpc.list_all(bpc.list_snapshots), limit)
    print_models(
        snapshots,
        ("ID", "STATUS", "LABEL", "CREATED"),
        lambda each: (each.snapshot_id, each.status, each.label, format_time(each.created_at)),
        as_json=as_json,
    )


@snapshots_app.command("show")
async def show_snapshot(
    snapshot: Annotated[
        str,
        typer.Argument(metavar="ID", help="The snapshot's id.", show_default=False, autocompletion=complete_snapshots),
    ],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a snapshot and its facts."""
    snapshot_id = parse_uuid(snapshot)
    async with open_api(url, as_json=as_json) as bpc:
        row = await bpc.get_snapshot(snapshot_id)
        facts = [fact async for fact in bpc.list_all(bpc.list_snapshot_items, snapshot_id)]
    if as_json:
        print_json({**row.model_dump(mode="json"), "facts": [fact.model_dump(mode="json") for fact in facts]})
        return
    print_line(f"snapshot  {row.snapshot_id} ({row.status})")
    if row.label is not None:
        print_line(f"label     {row.label}")
    print_line(f"sealed    {format_optional_time(row.sealed_at) or 'not yet'}")
    print_line(f"sha256    {row.snapshot_hash or 'not yet'}")
    print_line(f"facts     {row.count:,}\n")
    rows = [(fact.fact_id, fact.fact_type, fact.fact_key, fact.source_path) for fact in facts]
    print_table(("ID", "TYPE", "KEY", "PLACE"), rows)
