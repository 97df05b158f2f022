"""Readings of batteries: sent one by one or by file, read as the latest values, as a series and as a picture."""

import asyncio
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.battery_policies import require_batteries_not_denied
from bpc.api.http.models import (
    FilterMoment,
    Hash,
    Id,
    IdOf,
    LongText,
    Moment,
    RequestBody,
    ResponseBody,
    SentMoment,
    Text,
)
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.batteries.registration import RowFaultBody, StateAt, ValidateOnly, read_row_file
from bpc.core.audit.signing import from_base64, parse_public_key, verify_signature
from bpc.core.batteries.reading_rows import (
    COLUMNS,
    READING_KINDS,
    REQUIRED,
    NewReading,
    check_readings,
    is_epcis,
    read_epcis_rows,
)
from bpc.core.batteries.registration import parse_party
from bpc.core.batteries.row_files import FileRow, RowFault, RowFile, RowsRefused, describe_faults
from bpc.core.batteries.series_picture import draw_series
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import BatteryId
from bpc.core.formats.timestamps import format_time
from bpc.storage.batteries import batteries, life, readings
from bpc.storage.batteries.readings import ReadingOutcome, ReadingSource
from bpc.storage.connection import EARLIEST_TIME, LATEST_TIME

routes = RouteFamily("Readings", resource="Battery")

MAX_SERIES_PAGE: Final = 1_000
MAX_SENT: Final = 1_000
SVG: Final = "image/svg+xml"
Source = Literal["BMS", "WORKSHOP", "OTHER"]
Kind = Annotated[
    Literal[READING_KINDS],  # type: ignore[valid-type]
    Query(description="The kind of the readings: a member of a battery's state."),
]
SenderQuery = Annotated[Text | None, Query(description="Who sends it: GLN, EORI, VAT or LEI, like `LEI:…`.")]
SignatureQuery = Annotated[
    Text | None, Query(description="The sender's Ed25519 signature over the SHA-256 of the file, base64.")
]
KeyQuery = Annotated[Text | None, Query(description="The sender's public key, 32 bytes in base64.")]


def _to_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class SentReading(RequestBody):
    kind: Text = Field(examples=["capacity_fade_pct"])
    recorded_at: SentMoment
    value: Annotated[LongText, BeforeValidator(_to_text)] = Field(
        description="A decimal number or a text, as the kind wants it.", examples=["4.5"]
    )


class SentReadings(RequestBody):
    source: Source = Field(description="What the values are from.")
    sender: Text | None = Field(None, description="Who sends them: GLN, EORI, VAT or LEI.")
    readings: list[SentReading] = Field(min_length=1, max_length=MAX_SENT)


class DeliveryReport(ResponseBody):
    """What became of the readings that were sent."""

    received: int
    stored: int = Field(description="Those that are new. The same reading again is not stored twice.")
    corrected: int = Field(description="Those of them whose kind and time had another value before.")
    delivery_id: Id | None = None
    faults_total: int = 0
    faults: list[RowFaultBody] = Field([], description="The first hundred rows with faults; only with `validate_only`.")


class BatteryReading(ResponseBody):
    kind: str = Field(examples=["capacity_fade_pct"])
    recorded_at: Moment
    received_at: Moment
    number: str | None = Field(description="Its value with six decimals, if that is a number.", examples=["4.500000"])
    text: str | None


class BatteryReadings(ResponseBody):
    items: list[BatteryReading]


class SealedReadings(ResponseBody):
    """What a snapshot seals of a kind: how many readings there are, and the hash of all of them."""

    kind: str
    count: int
    first_recorded_at: str
    last_recorded_at: str
    sha256: Hash


class SealedSeries(ResponseBody):
    items: list[SealedReadings]


@routes.write("/v1/batteries/{battery_id}/readings", permission="battery:readings", status=201)
async def add_battery_readings(ctx: Context, battery_id: IdOf[BatteryId], body: SentReadings) -> DeliveryReport:
    """Send readings of a battery, in any order. The same reading again changes nothing."""
    await batteries.get_battery(ctx.conn, ctx.tenant, battery_id)
    rows = [
        FileRow(number, {"kind": sent.kind, "recorded_at": format_time(sent.recorded_at), "value": sent.value})
        for number, sent in enumerate(body.readings, start=1)
    ]
    new_readings, faults = check_readings(rows, received_at=ctx.act.at, battery=battery_id)
    content = canonical_json.encode([dict(row.cells) for row in rows])
    source = _make_source(body.source, body.sender, sha256(content), None, None)
    return await _store(ctx, RowFile(rows, faults), new_readings, source, validate_only=False)


@routes.write("/v1/batteries:readings", permission="battery:readings", takes_file=True, heavy=True)
async def add_reading_file(
    ctx: Context,
    request: Request,
    source: Annotated[Source, Query(description="What the values are from.")],
    sender: SenderQuery = None,
    signature: SignatureQuery = None,
    public_key: KeyQuery = None,
    validate_only: ValidateOnly = False,
) -> DeliveryReport:
    """Send readings of many batteries: CSV, JSON lines, or an EPCIS document.

    Columns: `kind`, `recorded_at`, `value`, and either `battery_id`, or `serial_number` with `gtin` or `sku`. All rows
    are checked first. If one has a fault, nothing is stored, and the answer names the rows. A signature is checked and
    kept with its key; whether the key is the sender's is for the reader to decide.
    """
    content: bytes = request.state.upload.file.content
    delivery_source = _make_source(source, sender, sha256(content), signature, public_key)
    if is_epcis(content):
        file = await asyncio.to_thread(read_epcis_rows, content)
    else:
        file = await read_row_file(request, ctx.service, COLUMNS, REQUIRED)
    new_readings, faults = await asyncio.to_thread(_check_file, file, ctx.act.at)
    refs = [reading.battery for reading in new_readings]
    await require_batteries_not_denied(ctx, request, refs, "battery:readings")
    return await _store(ctx, RowFile(file.rows, faults), new_readings, delivery_source, validate_only=validate_only)


@routes.read("/v1/batteries/{battery_id}/readings", permission="passport:read")
async def list_battery_readings(
    ctx: Context,
    battery_id: IdOf[BatteryId],
    kind: Kind | None = None,
    recorded_after: Annotated[FilterMoment | None, Query(description="From this time on, inclusive.")] = None,
    recorded_before: Annotated[FilterMoment | None, Query(description="Before this time, exclusive.")] = None,
    at: StateAt = None,
    newest: Annotated[int, Query(ge=1, le=MAX_SERIES_PAGE, description="The largest number of readings.")] = 100,
) -> BatteryReadings:
    """Read the latest value of each kind; with `kind`, the newest readings of that kind, oldest first.

    For the page before, send the time of the first reading as `recorded_before`.
    """
    await life.require_registered(ctx.conn, ctx.tenant, battery_id, at)
    known_at = at or LATEST_TIME
    if kind is None:
        if recorded_after is not None or recorded_before is not None:
            raise Invalid("a period is of one kind", fix="send `kind` too")
        rows = await readings.list_latest_readings(ctx.conn, ctx.tenant, battery_id, at=known_at)
    else:
        after, before = recorded_after or EARLIEST_TIME, recorded_before or LATEST_TIME
        rows = await readings.list_series(
            ctx.conn, ctx.tenant, battery_id, kind, after=after, before=before, at=known_at, limit=newest
        )
    return BatteryReadings(items=[BatteryReading.model_validate(row) for row in rows])


@routes.read("/v1/batteries/{battery_id}/series", permission="passport:read")
async def list_battery_series(ctx: Context, battery_id: IdOf[BatteryId], at: StateAt = None) -> SealedSeries:
    """Read, for each kind, how many readings there are and the hash of the whole series, as a snapshot seals it."""
    battery = await life.require_registered(ctx.conn, ctx.tenant, battery_id, at)
    facts = await readings.build_reading_facts(ctx.conn, ctx.tenant, battery_id, battery.sku, at=at or LATEST_TIME)
    series = [fact.payload for fact in facts if fact.fact_type == "ReadingSeries"]
    return SealedSeries(items=[SealedReadings.model_validate(payload) for payload in series])


@routes.read("/v1/batteries/{battery_id}/readings.svg", permission="passport:read", media_type=SVG)
async def draw_battery_readings(ctx: Context, battery_id: IdOf[BatteryId], kind: Kind, at: StateAt = None) -> Response:
    """Draw the readings of a kind over time, as a small picture; with `at`, as they were known at that time."""
    battery = await life.require_registered(ctx.conn, ctx.tenant, battery_id, at)
    rows = await readings.list_series(
        ctx.conn, ctx.tenant, battery_id, kind, at=at or LATEST_TIME, limit=MAX_SERIES_PAGE
    )
    points: list[tuple[datetime, str]] = [(row.recorded_at, row.number) for row in rows if row.number is not None]
    return Response(draw_series(f"{kind} of {battery.serial_number}", points), media_type=SVG)


async def _store(
    ctx: Context, file: RowFile, new_readings: list[NewReading], source: ReadingSource, *, validate_only: bool
) -> DeliveryReport:
    if file.faults and not validate_only:
        raise RowsRefused(file.faults, len(file.rows))
    if validate_only:
        _, stored_faults = await readings.resolve_batteries(ctx.conn, ctx.tenant, new_readings)
        return _to_report(ReadingOutcome(received=len(file.rows)), [*file.faults, *stored_faults])
    outcome = await readings.store_readings(ctx.conn, ctx.tenant, new_readings, source, act=ctx.act)
    if outcome.faults:
        raise RowsRefused(outcome.faults, len(file.rows))
    return _to_report(outcome, [])


def _check_file(file: RowFile, received_at: datetime) -> tuple[list[NewReading], list[RowFault]]:
    named_lines = {fault.line for fault in file.faults}
    new_readings, faults = check_readings(
        [row for row in file.rows if row.line not in named_lines], received_at=received_at
    )
    return new_readings, sorted([*file.faults, *faults], key=lambda fault: fault.line)


def _make_source(
    source: str, sender: str | None, content_hash: Digest, signature: str | None, public_key: str | None
) -> ReadingSource:
    if (signature is None) != (public_key is None):
        raise Invalid("a signature needs its public key", fix="send both, or neither")
    raw_signature = raw_key = None
    if signature is not None and public_key is not None:
        raw_signature, raw_key = from_base64(signature, size=64), parse_public_key(from_base64(public_key, size=32))
        verify_signature(raw_key, content_hash, raw_signature)
    return ReadingSource(
        source=source,
        sender=None if sender is None else parse_party(sender, "sender"),
        content_hash=content_hash,
        signature=raw_signature,
        public_key=raw_key,
    )


def _to_report(outcome: ReadingOutcome, faults: list[RowFault]) -> DeliveryReport:
    fault_list: list[Any] = describe_faults(faults)
    return DeliveryReport(
        received=outcome.received,
        stored=outcome.stored,
        corrected=outcome.corrected,
        delivery_id=outcome.delivery_id,
        faults_total=len(faults),
        faults=fault_list,
    )
