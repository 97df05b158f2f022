"""Readings of batteries: stored once each, in any order; the latest of each kind, a window, and whole series.

A value of the same kind and time that differs from the stored one is a new revision, and counts from when it was
received. What was known at a time is read without what came later.

A delivery may have 100,000 readings and a battery 200,000: what is computed for all of them is computed in a thread.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

import asyncpg
import orjson

from bpc.core.audit.events import EMPTY_CHAIN, Act
from bpc.core.batteries.reading_rows import READING_KINDS, BatteryRef, NewReading, build_reading_payload
from bpc.core.batteries.row_files import RowFault
from bpc.core.errors import Conflict
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.readings import (
    READING_FACT_TYPE,
    ReadingRef,
    build_series_fact,
    group_series,
)
from bpc.core.facts.schemas import SCHEMA_VERSION
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import BatteryId, FactId, TenantId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.connection import EARLIEST_TIME, LATEST_TIME, ROWS_AT_ONCE, Connection, fetch_rows, split_rows

MAX_SERIES: Final = 200_000  # readings of one battery that a snapshot reads
FEW_READINGS: Final = 200  # that are not worth a thread
NOT_REGISTERED: Final = "names no battery that is registered"
NO_FACT: Final = FactId(UUID(int=0))  # a reading of a battery has no fact until a snapshot seals it

SELECT_BY_ID: Final[LiteralString] = """
    SELECT w.place, b.battery_id, b.ceased_at IS NOT NULL OR b.successor IS NOT NULL AS is_over
      FROM unnest($2::uuid[]) WITH ORDINALITY AS w(battery_id, place)
      JOIN batteries b ON b.tenant_id = $1 AND b.battery_id = w.battery_id
"""
# `>=` with an order, as in `registration.SELECT_EXISTING`: the unique index also while there are no statistics.
SELECT_BY_NUMBER: Final[LiteralString] = """
    SELECT w.place, b.battery_id, b.ceased_at IS NOT NULL OR b.successor IS NOT NULL AS is_over
      FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS w(gtin, sku, serial, place)
     CROSS JOIN LATERAL (
       SELECT coalesce((SELECT battery_product_id FROM battery_identifications WHERE tenant_id = $1 AND gtin = w.gtin),
                       (SELECT battery_product_id FROM battery_products WHERE tenant_id = $1 AND sku = w.sku)) AS id
       OFFSET 0) AS p
     CROSS JOIN LATERAL (
       SELECT * FROM batteries
        WHERE tenant_id = $1 AND (serial_number, battery_product_id) >= (w.serial, p.id)
        ORDER BY serial_number, battery_product_id LIMIT 1) AS b
     WHERE b.serial_number = w.serial AND b.battery_product_id = p.id
"""
# A hash over the hashes of rows, in their order. Times are microseconds since 1970; the text is last, since it may hold
# line feeds. The readings `r` are those of one delivery.
HASH_OF_READINGS: Final[LiteralString] = """
    sha256(coalesce(string_agg(
      sha256(convert_to(concat_ws(E'\\n', r.battery_id, r.kind, (extract(epoch FROM r.recorded_at) * 1000000)::bigint,
        (extract(epoch FROM r.received_at) * 1000000)::bigint, r.revision, coalesce('n' || r.number, 't' || r.text)),
        'UTF8')), ''::bytea
      ORDER BY r.battery_id, r.kind COLLATE "C", r.recorded_at, r.revision), ''))
"""
INSERT_READINGS: Final[LiteralString] = f"""
    WITH sent AS (
      SELECT w.battery_id, w.kind, w.recorded_at, w.number::numeric(30, 6) AS number, w.text, c.revision
        FROM json_to_recordset($4::json)
             AS w(battery_id uuid, kind text, recorded_at timestamptz, number text, text text)
        LEFT JOIN LATERAL (
          SELECT r.revision, r.number, r.text FROM battery_readings r
           WHERE r.tenant_id = $1 AND r.battery_id = w.battery_id AND r.kind = w.kind AND r.recorded_at = w.recorded_at
           ORDER BY r.revision DESC LIMIT 1) AS c ON true
       WHERE c.revision IS NULL
          OR (c.number, c.text) IS DISTINCT FROM (w.number::numeric(30, 6), w.text)
    ), inserted AS (
      INSERT INTO battery_readings (tenant_id, battery_id, delivery_id, kind, recorded_at, received_at, revision,
                                    number, text)
      SELECT $1, battery_id, $2, kind, recorded_at, $3, coalesce(revision + 1, 0), number, text FROM sent
      ON CONFLICT DO NOTHING
      RETURNING battery_id, kind, recorded_at, received_at, revision, number, text
    )
    SELECT (SELECT count(*) FROM sent) AS expected, count(*) AS stored,
           count(*) FILTER (WHERE revision > 0) AS corrected, {HASH_OF_READINGS} AS sha256
      FROM inserted r
"""
INSERT_DELIVERY: Final[LiteralString] = """
    INSERT INTO reading_deliveries (tenant_id, delivery_id, source, sender, sha256, signature, public_key, received,
                                    received_at, received_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""
# Of each kind the newest that was known at $4, from the end of its part of the index.
SELECT_LATEST: Final[LiteralString] = """
    SELECT w.kind, r.recorded_at, r.received_at, r.number::text AS number, r.text
      FROM unnest($3::text[]) AS w(kind)
     CROSS JOIN LATERAL (
       SELECT recorded_at, received_at, number, text FROM battery_readings
        WHERE tenant_id = $1 AND battery_id = $2 AND kind = w.kind AND received_at <= $4
        ORDER BY recorded_at DESC, revision DESC LIMIT 1) AS r
     ORDER BY w.kind
"""
SELECT_SERIES: Final[LiteralString] = """
    SELECT * FROM (
      SELECT DISTINCT ON (recorded_at) kind, recorded_at, received_at, number::text AS number, text
        FROM battery_readings
       WHERE tenant_id = $1 AND battery_id = $2 AND kind = $3 AND received_at <= $4 AND recorded_at >= $5
         AND recorded_at < $6
       ORDER BY recorded_at DESC, revision DESC LIMIT $7) AS newest
     ORDER BY recorded_at
"""
SELECT_ALL: Final[LiteralString] = """
    SELECT DISTINCT ON (kind, recorded_at) kind, recorded_at, received_at, number::text AS number, text
      FROM battery_readings
     WHERE tenant_id = $1 AND battery_id = $2 AND received_at <= $3
     ORDER BY kind, recorded_at, revision DESC LIMIT $4
"""
SELECT_WITH_READINGS: Final[LiteralString] = """
    SELECT w.battery_id FROM unnest($2::uuid[]) AS w(battery_id)
     WHERE EXISTS (SELECT FROM battery_readings r WHERE r.tenant_id = $1 AND r.battery_id = w.battery_id)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSource:
    """Where readings come from: what sent them, the hash of the bytes, and the sender's signature if there is one."""

    source: str
    content_hash: Digest
    sender: str | None = None
    signature: bytes | None = None
    public_key: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRow:
    """A reading that counts."""

    kind: str
    recorded_at: datetime
    received_at: datetime
    number: str | None
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOutcome:
    """What became of the readings of a delivery."""

    received: int
    stored: int = 0
    corrected: int = 0
    faults: Sequence[RowFault] = ()
    delivery_id: UUID | None = None


class SimultaneousReadings(Conflict):
    """Another delivery has just stored readings of the same batteries, kinds and times."""

    code = "EVENT_VERSION_CONFLICT"

    def __init__(self) -> None:
        super().__init__("another delivery has just stored readings of the same time", fix="send it again")


async def store_readings(
    conn: Connection, tenant: TenantId, readings: Sequence[NewReading], source: ReadingSource, *, act: Act
) -> ReadingOutcome:
    """Store the readings that are new, under one event. If a row names no battery in use, nothing is stored."""
    battery_ids, faults = await resolve_batteries(conn, tenant, readings)
    if faults or not readings:
        return ReadingOutcome(received=len(readings), faults=faults)
    delivery = clock.new_id()
    await conn.execute(
        INSERT_DELIVERY,
        tenant,
        delivery,
        source.source,
        source.sender,
        source.content_hash,
        source.signature,
        source.public_key,
        len(readings),
        act.at,
        act.actor_id,
    )
    stored, corrected, stored_hash = await _insert_readings(conn, tenant, delivery, readings, battery_ids, act)
    payload = {
        "source": source.source,
        "sha256": to_hex(source.content_hash),
        "received": len(readings),
        "stored": stored,
        "stored_sha256": to_hex(stored_hash),
        **({} if source.sender is None else {"sender": source.sender}),
    }
    await events.append_act(
        conn, act, tenant, "ReadingDelivery", delivery, "READINGS_RECEIVED", payload, head=EMPTY_CHAIN
    )
    return ReadingOutcome(received=len(readings), stored=stored, corrected=corrected, delivery_id=delivery)


async def list_latest_readings(
    conn: Connection, tenant: TenantId, battery: BatteryId, *, at: datetime = LATEST_TIME
) -> Sequence[ReadingRow]:
    """The newest reading of each kind that was known at a time."""
    return await fetch_rows(conn, ReadingRow, SELECT_LATEST, tenant, battery, READING_KINDS, at)


async def list_series(
    conn: Connection,
    tenant: TenantId,
    battery: BatteryId,
    kind: str,
    *,
    after: datetime = EARLIEST_TIME,
    before: datetime = LATEST_TIME,
    at: datetime = LATEST_TIME,
    limit: int,
) -> Sequence[ReadingRow]:
    """The newest readings of a kind in a period, oldest first, as they were known at a time."""
    return await fetch_rows(conn, ReadingRow, SELECT_SERIES, tenant, battery, kind, at, after, before, limit)


async def build_reading_facts(
    conn: Connection, tenant: TenantId, battery: BatteryId, sku: str, *, at: datetime = LATEST_TIME
) -> list[SnapshotFact]:
    """What a snapshot seals of a battery's readings: of each kind the newest, in a bounded window, and its series."""
    async with conn.transaction():
        cursor = await conn.cursor(SELECT_ALL, tenant, battery, at, MAX_SERIES + 1)
        records: list[asyncpg.Record] = []
        while part := await cursor.fetch(ROWS_AT_ONCE):
            records += part
    if len(records) > MAX_SERIES:
        raise Conflict(f"the battery has more than {MAX_SERIES:,} readings", fix="ask for a shorter time")
    if len(records) <= FEW_READINGS:
        return _build_facts(sku, records)
    return await asyncio.to_thread(_build_facts, sku, records)


def _build_facts(sku: str, records: Iterable[asyncpg.Record]) -> list[SnapshotFact]:
    rows = [ReadingRow(**record) for record in records]
    facts = {(row.kind, format_time(row.recorded_at)): _to_fact(sku, row) for row in rows}
    series = group_series(
        ReadingRef(NO_FACT, kind, moment, sha256(canonical_json.encode(dict(fact.payload))))
        for (kind, moment), fact in facts.items()
    )
    window = [facts[kind.kind, reading.recorded_at] for kind in series for reading in kind.window]
    return [*window, *(build_series_fact(sku, each) for each in series)]


async def load_reading_facts(
    conn: Connection, tenant: TenantId, sku: str, batteries: Sequence[BatteryId]
) -> Mapping[UUID, Sequence[SnapshotFact]]:
    """What a snapshot seals of the readings of each battery that has some."""
    facts = dict[UUID, Sequence[SnapshotFact]]()
    for part in split_rows(batteries):
        for row in await conn.fetch(SELECT_WITH_READINGS, tenant, part):
            facts[row[0]] = await build_reading_facts(conn, tenant, BatteryId(row[0]), sku)
    return facts


def _to_fact(sku: str, row: ReadingRow) -> SnapshotFact:
    payload = build_reading_payload(sku, row.kind, row.recorded_at, row.number, row.text)
    return SnapshotFact(
        fact_type=READING_FACT_TYPE,
        fact_key=f"reading:{sku}:{row.kind}:{format_time(row.recorded_at)}",
        schema_version=SCHEMA_VERSION,
        payload=payload,
    )


async def _insert_readings(
    conn: Connection,
    tenant: TenantId,
    delivery: UUID,
    readings: Sequence[NewReading],
    battery_ids: Mapping[BatteryRef, BatteryId],
    act: Act,
) -> tuple[int, int, Digest]:
    """How many were stored, how many of them correct an earlier value, and the hash of all that were stored."""
    # One text: the driver packs a list member by member, on the event loop.
    text = await asyncio.to_thread(_encode_readings, readings, battery_ids)
    row = await conn.fetchrow(INSERT_READINGS, tenant, delivery, act.at, text)
    if row is None or row["expected"] != row["stored"]:
        raise SimultaneousReadings
    return row["stored"], row["corrected"], Digest(row["sha256"])


def _encode_readings(readings: Sequence[NewReading], battery_ids: Mapping[BatteryRef, BatteryId]) -> str:
    return orjson.dumps(
        [
            {
                "battery_id": str(battery_ids[reading.battery]),
                "kind": reading.kind,
                "recorded_at": reading.recorded_at,
                "number": reading.number,
                "text": reading.text,
            }
            for reading in readings
        ]
    ).decode()


async def resolve_batteries(
    conn: Connection, tenant: TenantId, readings: Sequence[NewReading]
) -> tuple[dict[BatteryRef, BatteryId], list[RowFault]]:
    """The battery of each reading, and a fault for each that names none in use."""
    matches = await find_referenced(conn, tenant, [reading.battery for reading in readings])
    return await asyncio.to_thread(_match_readings, readings, matches)


def _match_readings(
    readings: Sequence[NewReading], matches: Mapping[BatteryRef, asyncpg.Record]
) -> tuple[dict[BatteryRef, BatteryId], list[RowFault]]:
    battery_ids, faults = dict[BatteryRef, BatteryId](), list[RowFault]()
    for reading in readings:
        match = matches.get(reading.battery)
        if match is None:
            faults.append(RowFault(reading.line, NOT_REGISTERED))
        elif match["is_over"]:
            faults.append(
                RowFault(reading.line, "names a battery whose passport has ceased or that lives on elsewhere")
            )
        else:
            battery_ids[reading.battery] = BatteryId(match["battery_id"])
    return battery_ids, faults


async def find_referenced(
    conn: Connection, tenant: TenantId, refs: Sequence[BatteryRef]
) -> dict[BatteryRef, asyncpg.Record]:
    """The batteries that are meant, by how they are named: `battery_id`, and whether its record `is_over`."""
    by_id, by_number = await asyncio.to_thread(_split_references, refs)
    matches = dict[BatteryRef, asyncpg.Record]()
    for part in split_rows(by_id):
        rows = await conn.fetch(SELECT_BY_ID, tenant, [ref.battery_id for ref in part])
        matches |= {part[row["place"] - 1]: row for row in rows}
    for part in split_rows(by_number):
        columns = [ref.gtin for ref in part], [ref.sku for ref in part], [ref.serial for ref in part]
        rows = await conn.fetch(SELECT_BY_NUMBER, tenant, *columns)
        matches |= {part[row["place"] - 1]: row for row in rows}
    return matches


def _split_references(refs: Sequence[BatteryRef]) -> tuple[list[BatteryRef], list[BatteryRef]]:
    """Each once: those by id, and those by number."""
    names = dict.fromkeys(refs)
    return [ref for ref in names if ref.battery_id is not None], [ref for ref in names if ref.battery_id is None]
