"""`bpc batteries`: single batteries over the API: registered by file, found, read out, and what becomes of them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

import typer
from bpc_client.models import Battery

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.online.batteries.batches import batch_app
from bpc.cli.online.batteries.battery_names import BatteryArgument, find_battery
from bpc.cli.online.batteries.labels import print_labels
from bpc.cli.online.batteries.row_parts import read_row_parts
from bpc.cli.online.batteries.transfers import transfer_app
from bpc.cli.support.arguments import LimitOption, UrlOption, command_group
from bpc.cli.support.output import (
    REFUSED,
    AsJson,
    format_optional_time,
    print_json,
    print_line,
    print_progress,
    print_refusal,
    print_table,
    read_bytes,
)

batteries_app = command_group(
    "Register batteries, issue their passports, find them, print labels, send readings, end their lives.\n\n"
    "A battery has a serial number, a product and an address that its code shows. It is named by its id, its address, "
    "the text of its code, or its serial number."
)
batteries_app.add_typer(batch_app, name="batch")
batteries_app.add_typer(transfer_app, name="transfer")

batteries_app.command("labels")(print_labels)

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="CSV with a header, JSON lines, or Parquet; - is standard input.", show_default=False
    ),
]
DayOption = Annotated[
    str, typer.Option("--on", metavar="DAY", help="The day on which it happened.", show_default=False)
]
PartyOption = Annotated[
    str, typer.Option("--by", metavar="WHO", help="Who did it: GLN, EORI, VAT or LEI.", show_default=False)
]
CheckOption = Annotated[bool, typer.Option("--check", help="Only check the rows; store nothing.")]


@batteries_app.command("register")
async def register(
    file: FileArgument, check: CheckOption = False, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Register the batteries of a file. All rows are checked before the first is stored.

    \b
    bpc batteries register items.csv

    Columns: sku, serial_number, and optionally batch_number, plant, manufactured_on, placed_on, address. A file that is
    registered twice changes nothing, so a command that was interrupted is simply run again.
    """
    parts = list(read_row_parts(read_bytes(file)))
    totals: dict[str, int] = {"total": 0, "registered": 0, "unchanged": 0}
    async with open_api(url, as_json=as_json) as bpc:
        faults = await _check_parts(partial(bpc.register_battery_file, validate_only=True), parts, as_json=as_json)
        if faults:
            refuse_rows(faults, as_json=as_json)
        for number, (_, content) in enumerate([] if check else parts, start=1):
            report = await bpc.register_battery_file(content=content)
            totals = {name: count + getattr(report, name) for name, count in totals.items()}
            if not as_json and len(parts) > 1:
                print_progress(f"part {number} of {len(parts)} registered")
    if as_json:
        print_json({**totals, "checked": True})
    elif check:
        print_line("all rows are good; nothing was stored")
    else:
        print_line(f"{totals['registered']:,} batteries registered, {totals['unchanged']:,} were registered before")


@batteries_app.command("list")
async def list_all(
    sku: Annotated[str | None, typer.Option("--sku", metavar="SKU", help="Only of this product.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", metavar="NUMBER", help="Only of this batch.")] = None,
    status: Annotated[
        Literal["original", "re-used", "repurposed", "remanufactured", "waste"] | None,
        typer.Option("--status", help="Only in this status."),
    ] = None,
    limit: LimitOption = 1000,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List batteries, those registered last first."""
    async with open_api(url, as_json=as_json) as bpc:
        matching = bpc.list_all(bpc.list_batteries, sku=sku, batch_number=batch, status=status)
        batteries = await collect(matching, limit)
    print_models(
        batteries,
        ("serial", "sku", "batch", "status", "address"),
        lambda each: (each.serial_number, each.sku, each.batch_number, _format_status(each), each.address),
        as_json=as_json,
    )


@batteries_app.command("show")
async def show(
    battery: BatteryArgument,
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="As it was on record at this time.")] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show a battery, the latest of its readings and what happened to it."""
    options: dict[str, Any] = {} if at is None else {"at": at}
    async with open_api(url, as_json=as_json) as bpc:
        battery_id = (await find_battery(bpc, battery)).battery_id
        shown_battery = await bpc.get_battery(battery_id, **options)
        readings = (await bpc.list_battery_readings(battery_id, **options)).items
        changes = (await bpc.list_battery_changes(battery_id, **options)).items
    if as_json:
        lists = {
            "readings": [each.model_dump(mode="json") for each in readings],
            "changes": [each.model_dump(mode="json") for each in changes],
        }
        print_json({**shown_battery.model_dump(mode="json"), **lists})
        return
    _print_battery(shown_battery)
    print_table(
        ("reading", "value", "recorded"),
        [(each.kind, each.number or each.text, format_optional_time(each.recorded_at)) for each in readings],
    )
    print_table(
        ("change", "status", "on", "said"),
        [(each.kind, each.status, str(each.effective_on), ", ".join(each.said.values())) for each in changes],
    )


@batteries_app.command("readings")
async def send_readings(
    file: FileArgument,
    source: Annotated[
        Literal["BMS", "WORKSHOP", "OTHER"],
        typer.Option("--source", help="What the values are from.", show_default=False),
    ],
    check: CheckOption = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Send readings of batteries: CSV, JSON lines, Parquet, or an EPCIS document.

    \b
    bpc batteries readings states.csv --source WORKSHOP

    Columns: kind, recorded_at, value, and either battery_id, or serial_number with gtin or sku. A large file is sent in
    parts; all of them are checked before the first is stored. The same file again changes nothing.
    """
    parts = list(read_row_parts(read_bytes(file)))
    totals: dict[str, int] = {"received": 0, "stored": 0, "corrected": 0}
    deliveries: list[str] = []
    async with open_api(url, as_json=as_json) as bpc:
        if check or len(parts) > 1:
            send = partial(bpc.add_reading_file, source=source, validate_only=True)
            if faults := await _check_parts(send, parts, as_json=as_json):
                refuse_rows(faults, as_json=as_json)
        for number, (_, content) in enumerate([] if check else parts, start=1):
            report = await bpc.add_reading_file(content=content, source=source)
            totals = {name: count + getattr(report, name) for name, count in totals.items()}
            deliveries += [] if report.delivery_id is None else [str(report.delivery_id)]
            if not as_json and len(parts) > 1:
                print_progress(f"part {number} of {len(parts)} stored")
    if as_json:
        print_json({**totals, "delivery_ids": deliveries, "checked": True})
    elif check:
        print_line("all rows are good; nothing was stored")
    else:
        says = f"{totals['stored']:,} of {totals['received']:,} readings are new"
        print_line(f"{says}, {totals['corrected']:,} correct others")


@batteries_app.command("events")
async def send_events(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="An EPCIS 2.0 document; - is standard input.", show_default=False)
    ],
    check: CheckOption = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Record what EPCIS events tell of the lives of batteries: repaired, waste, recycled.

    \b
    bpc batteries events events.jsonld --check

    All steps are recorded, in the order of their times, or none. The same event again changes nothing. Readings and
    owners in the same document are sent with `bpc batteries readings`.
    """
    async with open_api(url, as_json=as_json) as bpc:
        report = await bpc.add_battery_events(content=read_bytes(file), validate_only=check)
    if report.faults:
        refuse_rows([fault.model_dump(mode="json") for fault in report.faults], as_json=as_json)
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    steps = f"{report.recorded:,} steps {'would be recorded' if check else 'recorded'}"
    print_line(f"{report.events:,} events: {steps}, {report.unchanged:,} were on record before")


@batteries_app.command("place")
async def place_on_market(
    battery: BatteryArgument, on: DayOption, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Say when a battery was placed on the market."""
    async with open_api(url, as_json=as_json) as bpc:
        battery_id = (await find_battery(bpc, battery)).battery_id
        _print_result(await bpc.place_battery_on_market(battery_id, placed_on=on), as_json=as_json)


@batteries_app.command("repair")
async def repair(
    battery: BatteryArgument,
    on: DayOption,
    by: PartyOption,
    reason: Annotated[str, typer.Option("--reason")],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Record that a battery was repaired."""
    async with open_api(url, as_json=as_json) as bpc:
        battery_id = (await find_battery(bpc, battery)).battery_id
        _print_result(
            await bpc.repair_battery(battery_id, effective_on=on, performed_by=by, reason=reason), as_json=as_json
        )


@batteries_app.command("waste")
async def declare_waste(
    battery: BatteryArgument,
    on: DayOption,
    by: PartyOption,
    reason: Annotated[str, typer.Option("--reason")],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Declare a battery waste."""
    async with open_api(url, as_json=as_json) as bpc:
        battery_id = (await find_battery(bpc, battery)).battery_id
        changed = await bpc.declare_battery_waste(battery_id, effective_on=on, performed_by=by, reason=reason)
        _print_result(changed, as_json=as_json)


@batteries_app.command("new-life")
async def begin_other_life(
    battery: BatteryArgument,
    life: Annotated[
        Literal["re-used", "repurposed", "remanufactured"],
        typer.Option("--life", help="What it was prepared for.", show_default=False),
    ],
    on: DayOption,
    by: PartyOption,
    sku: Annotated[str, typer.Option("--sku", help="The product that it is now.", show_default=False)],
    serial: Annotated[str, typer.Option("--serial", help="Its serial number there.", show_default=False)],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Begin another life of a battery that is waste, with yourself. For another operator: `transfer offer`."""
    async with open_api(url, as_json=as_json) as bpc:
        battery_id = (await find_battery(bpc, battery)).battery_id
        successor = await bpc.begin_other_life(
            battery_id, life=life, effective_on=on, performed_by=by, sku=sku, serial_number=serial
        )
        _print_result(successor, as_json=as_json)


@batteries_app.command("recycle")
async def recycle(
    battery: BatteryArgument,
    on: DayOption,
    by: PartyOption,
    report: Annotated[str, typer.Option("--report")],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Record that a battery was recycled: its passport ceases, and its address says so for ever."""
    async with open_api(url, as_json=as_json) as bpc:
        battery_id = (await find_battery(bpc, battery)).battery_id
        _print_result(
            await bpc.recycle_battery(battery_id, effective_on=on, performed_by=by, report=report), as_json=as_json
        )


async def _check_parts(
    check: Callable[..., Awaitable[Any]], parts: list[tuple[int, bytes]], *, as_json: bool
) -> list[dict[str, Any]]:
    faults = []
    for number, (start, content) in enumerate(parts, start=1):
        report = await check(content=content)
        faults += [{**fault.model_dump(mode="json"), "line": fault.line + start} for fault in report.faults]
        if not as_json and len(parts) > 1:
            print_progress(f"part {number} of {len(parts)} checked")
    return faults


def refuse_rows(faults: list[dict[str, Any]], *, as_json: bool) -> None:
    first = faults[0]
    if not as_json:
        print_table(
            ("line", "column", "what is wrong"), [(each["line"], each["column"], each["says"]) for each in faults]
        )
    says = f"line {first['line']}: {first['says']}"
    print_refusal("VALIDATION_ERROR", says, "correct the rows; nothing was stored", {"faults": faults}, as_json=as_json)
    raise typer.Exit(REFUSED)


def _print_result(battery: Battery, *, as_json: bool) -> None:
    if as_json:
        print_json(battery.model_dump(mode="json"))
    else:
        _print_battery(battery)


def _print_battery(battery: Battery) -> None:
    print_line(f"battery   {battery.battery_id}")
    print_line(f"serial    {battery.serial_number}")
    print_line(f"sku       {battery.sku}")
    print_line(f"status    {_format_status(battery)}")
    print_line(f"address   {battery.address}")
    if battery.successor is not None:
        print_line(f"lives on  {battery.successor}")


def _format_status(battery: Battery) -> str:
    return battery.status if battery.ceased_at is None else f"recycled {format_optional_time(battery.ceased_at)}"
