"""`bpc batteries batch`: passports of batches, which the batteries of a batch lie below."""

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import typer
from bpc_client import Client
from bpc_client.models import BatchVersion, BatteryBatch

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.support.arguments import LimitOption, UrlOption, command_group, require_utf8
from bpc.cli.support.completion import complete_skus
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_optional_time,
    print_bytes,
    print_json,
    print_line,
    print_result,
    print_table,
    replace_file,
)
from bpc.core.errors import Invalid, NotFound
from bpc.core.formats.ids import NotAnId, parse_uuid
from bpc.core.items.view import merge_view

PAUSE_SECONDS: Final = 0.25

batch_app = command_group(
    "Issue the passport of a batch, and look at it.\n\n"
    "A batch lies below the active passport of its product. Batteries of it that are issued from then on lie below the "
    "batch and pin it by hash. A batch is named by its number or its id."
)

BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="Its number or its id.", show_default=False)]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="SKU", help="Its product, if several have this number.", autocompletion=complete_skus
    ),
]
AtOption = Annotated[str | None, typer.Option("--at", metavar="TIME", help="The passport of this time.")]


@batch_app.command("issue")
async def issue(
    batch: BatchArgument,
    model: ModelOption = None,
    place: Annotated[str | None, typer.Option("--place", help="The address of the plant.")] = None,
    country: Annotated[
        str | None, typer.Option("--country", metavar="CODE", help="The country of the plant, two letters.")
    ] = None,
    plant: Annotated[
        str | None, typer.Option("--plant", metavar="ID", help="The plant, if it is not on record.")
    ] = None,
    day: Annotated[
        str | None, typer.Option("--made-on", metavar="DAY", help="The day of manufacture, if it is not on record.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is issued.")] = True,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Issue the passport of a batch below the active passport of its product.

    \b
    bpc batteries batch issue 2027-08 --country DE

    Saying the same again below the same model changes nothing.
    """
    statements = {
        "manufacturing_place": place,
        "manufacturing_country": country,
        "facility_id": plant,
        "manufactured_on": day,
    }
    body: dict[str, Any] = {name: value for name, value in statements.items() if value is not None}
    async with open_api(url, as_json=as_json) as bpc:
        batch_id = (await find_batch(bpc, batch, model)).battery_batch_id
        version = await bpc.issue_batch_passport(batch_id, **body)
        while wait and version.status == "REQUESTED":
            await asyncio.sleep(PAUSE_SECONDS)
            listed_versions = (await bpc.list_batch_passport_versions(batch_id)).items
            version = next(each for each in listed_versions if each.passport_version_id == version.passport_version_id)
    _print_version(version, as_json=as_json)
    if version.status == "REFUSED":
        raise typer.Exit(REFUSED)


@batch_app.command("list")
async def list_batches(
    model: ModelOption = None, limit: LimitOption = 20, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """List batches, newest first."""
    filters: dict[str, Any] = {} if model is None else {"sku": require_utf8("the SKU", model)}
    async with open_api(url, as_json=as_json) as bpc:
        batches = await collect(bpc.list_all(bpc.list_batches, **filters), limit)
    print_models(
        batches,
        ("batch", "sku", "id", "plant", "made on", "created"),
        lambda batch: (
            batch.batch_number,
            batch.sku,
            str(batch.battery_batch_id),
            batch.plant or "",
            "" if batch.manufactured_on is None else str(batch.manufactured_on),
            format_optional_time(batch.created_at),
        ),
        as_json=as_json,
    )


@batch_app.command("versions")
async def list_versions(
    batch: BatchArgument, model: ModelOption = None, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """List the versions of a batch's passport, newest first. The first that was not refused counts."""
    async with open_api(url, as_json=as_json) as bpc:
        versions = (
            await bpc.list_batch_passport_versions((await find_batch(bpc, batch, model)).battery_batch_id)
        ).items
    print_models(
        versions,
        ("version", "status", "model", "requested", "why"),
        lambda version: (
            str(version.passport_version_id),
            version.status,
            str(version.model_version_id),
            format_optional_time(version.requested_at),
            version.refusal or "",
        ),
        as_json=as_json,
    )


@batch_app.command("view")
async def view(
    batch: BatchArgument,
    model: ModelOption = None,
    audience: Annotated[
        Literal["public", "interest", "authority"], typer.Option("--audience", help="Who is to read it.")
    ] = "public",
    at: AtOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write it to this file.")] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the passport of a batch: model and batch as one, as far as an audience may see it.

    With --out, write the view as `bpc verify` takes it.
    """
    options: dict[str, Any] = {} if at is None else {"at": at}
    async with open_api(url, as_json=as_json) as bpc:
        batch_id = (await find_batch(bpc, batch, model)).battery_batch_id
        content = (await bpc.get_batch_passport(batch_id, audience=audience, **options)).content
    if out is not None:
        _write_document(out, content, as_json=as_json)
    elif as_json:
        print_bytes(content + b"\n")
    else:
        passport = merge_view(content)
        print_line(f"verdict   {passport.verdict}")
        print_line(f"model     {passport.versions['model']}")
        rows = [(path, passport.layers[path], str(value)) for path, value in passport.fields.items()]
        print_table(("field", "layer", "value"), rows)


@batch_app.command("bundle")
async def bundle(
    batch: BatchArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.", show_default=False)],
    model: ModelOption = None,
    at: AtOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Fetch everything that is needed to verify a batch offline: `bpc verify` takes the file."""
    options: dict[str, Any] = {} if at is None else {"at": at}
    async with open_api(url, as_json=as_json) as bpc:
        batch_id = (await find_batch(bpc, batch, model)).battery_batch_id
        content = (await bpc.get_batch_bundle(batch_id, **options)).content
    _write_document(out, content, as_json=as_json)


def _write_document(out: Path, content: bytes, *, as_json: bool) -> None:
    replace_file(out, content)
    print_result({"out": out, "bytes": len(content)}, f"{out}, {len(content):,} bytes", as_json=as_json)


async def find_batch(bpc: Client, text: str, model: str | None) -> BatteryBatch:
    """The batch with this id, or with this number."""
    number = require_utf8("the batch", text)
    try:
        return await bpc.get_batch(UUID(str(parse_uuid(number))))
    except NotAnId:
        filters: dict[str, Any] = {} if model is None else {"sku": require_utf8("the SKU", model)}
        matches = (await bpc.list_batches(batch_number=number, **filters)).items
    if not matches:
        raise NotFound(f"there is no batch `{number}`", fix="`bpc batteries batch list` lists them")
    if len(matches) > 1:
        skus = ", ".join(match.sku for match in matches)
        raise Invalid(f"several products have a batch `{number}`", fix=f"name one with --model: {skus}")
    return matches[0]


def _print_version(version: BatchVersion, *, as_json: bool) -> None:
    if as_json:
        print_json(version.model_dump(mode="json"))
        return
    print_line(f"version   {version.passport_version_id}")
    print_line(f"status    {version.status}")
    print_line(f"model     {version.model_version_id}")
    if version.refusal is not None:
        print_line(f"why       {version.refusal}")
    if version.fail_count is not None:
        print_line(f"findings  {version.fail_count} FAIL, {version.warn_count} WARN")
