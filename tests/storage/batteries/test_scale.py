"""Many batteries: what one costs in bytes, and that finding one reads a few pages however many there are."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bpc.core.audit.events import Act
from bpc.core.batteries.reading_rows import READING_KINDS, BatteryRef, NewReading
from bpc.core.batteries.registration import COLUMNS, REQUIRED
from bpc.core.batteries.row_files import read_rows
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import BatteryId, TenantId
from bpc.storage.batteries import batteries, readings, registration
from bpc.storage.batteries.identification import IdentificationRow, set_identification
from bpc.storage.batteries.readings import ReadingSource, store_readings
from bpc.storage.batteries.registration import register_batteries
from bpc.storage.connection import LATEST_TIME, Connection
from bpc.storage.database import Database
from bpc.storage.passports.products import create_product
from bpc.storage.passports.public_passports import FIND_ITEM
from tests.measurements import RecordMeasurement, choose_effort
from tests.storage.probes import Superuser

BATTERIES: Final = choose_effort(test=3_000, shown=1_000_000, campaign=1_000_000)
READINGS: Final = choose_effort(test=3_000, shown=1_000_000, campaign=10_000_000)
AT_ONCE: Final = 50_000
READ_OUT: Final = 100  # batteries that are read out
GTIN: Final = "09521234000013"
FEW_PAGES: Final = 25  # an index of ten million rows has four levels, and a battery is joined with three small tables
FIRST: Final = datetime(2025, 1, 1, tzinfo=UTC)
SIZES: Final = "SELECT pg_table_size($1::regclass), pg_indexes_size($1::regclass)"
PARTITION_SIZE: Final = """
    SELECT sum(pg_table_size(inhrelid)), sum(pg_indexes_size(inhrelid)) FROM pg_inherits
     WHERE inhparent = 'battery_readings'::regclass
"""


async def test_a_battery_among_many_is_found_by_a_few_pages_and_costs_a_few_hundred_bytes(
    database: Database, tenant: TenantId, act: Act, superuser: Superuser, record_measurement: RecordMeasurement
) -> None:
    battery, register_seconds = await _register(database, tenant, act)
    ids = [BatteryId(row[0]) for row in await superuser.fetch(f"SELECT battery_id FROM batteries LIMIT {READ_OUT}")]
    reading_seconds = await _read_out(database, tenant, ids, act)
    await superuser.execute("ANALYZE")

    async with database.tenant(tenant) as conn:
        pages = {
            "serial": await _count_pages(conn, batteries.SELECT_BY_SERIAL, tenant, f"S{BATTERIES // 2:08d}"),
            "gtin": await _count_pages(conn, batteries.SELECT_BY_GTIN, tenant, f"S{BATTERIES // 2:08d}", GTIN),
            "id": await _count_pages(conn, batteries.SELECT_BATTERY, tenant, battery),
            "link": await _count_pages(conn, batteries.SELECT_BY_LINK, tenant, "https://maker.example/1"),
        }
        code = (None, GTIN, None, "S00000001", None)
        await conn.fetch(FIND_ITEM, *code)  # the first time, the catalogue of six tables is read
        public_pages = await _count_pages(conn, FIND_ITEM, *code)
        series = (tenant, ids[0], "full_cycles", LATEST_TIME, FIRST, LATEST_TIME, 100)
        series_pages = await _count_pages(conn, readings.SELECT_SERIES, *series)
        latest_pages = await _count_pages(conn, readings.SELECT_LATEST, tenant, ids[0], READING_KINDS, LATEST_TIME)
    (rows, indexes), (leaves, _) = [
        (await superuser.fetch(SIZES, table))[0] for table in ("batteries", "battery_registrations")
    ]
    reading_rows, reading_indexes = (await superuser.fetch(PARTITION_SIZE))[0]

    assert max(pages.values()) <= FEW_PAGES, pages
    assert public_pages <= 3 * FEW_PAGES  # the function is planned each time, which reads the catalogue
    assert series_pages <= 20 * FEW_PAGES
    assert (rows + indexes + leaves) / BATTERIES < 1_000
    record_measurement(
        "batteries",
        batteries=BATTERIES,
        registered_a_second=round(BATTERIES / register_seconds),
        bytes_of_a_row=round(rows / BATTERIES),
        bytes_of_its_indexes=round(indexes / BATTERIES),
        bytes_of_its_leaf=round(leaves / BATTERIES),
        most_pages_of_a_lookup=max(pages.values()),
        pages_of_a_public_lookup=public_pages,
        readings=READINGS,
        readings_a_second=round(READINGS / reading_seconds),
        bytes_of_a_reading=round(reading_rows / READINGS),
        bytes_of_its_index=round(reading_indexes / READINGS),
        pages_of_the_latest=latest_pages,
        pages_of_a_series_of_100=series_pages,
    )


async def _register(database: Database, tenant: TenantId, act: Act) -> tuple[BatteryId, float]:
    """Register all, as files would; the id of one of them, and how long it took."""
    async with database.tenant(tenant) as conn:
        product = await create_product(conn, tenant, sku="P", name="Pack", act=act)
        target = IdentificationRow(battery_product_id=product.battery_product_id, scheme="GS1", gtin=GTIN)
        await set_identification(conn, tenant, target, act=act)
    battery, seconds = None, 0.0
    for start in range(0, BATTERIES, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, BATTERIES))
        lines = [f"P,S{number:08d},B{number // 1000},GLN:9521234000013,2025-01-01" for number in numbers]
        content = "\n".join(["sku,serial_number,batch_number,plant,manufactured_on", *lines]).encode()
        before = time.monotonic()
        async with database.tenant(tenant) as conn:
            outcome = await register_batteries(conn, tenant, read_rows(content, COLUMNS, REQUIRED), act=act)
        seconds += time.monotonic() - before
        assert outcome.registered == len(numbers)
        battery = outcome.battery_ids[0]
    assert battery is not None
    return battery, seconds


async def _read_out(database: Database, tenant: TenantId, ids: Sequence[BatteryId], act: Act) -> float:
    seconds = 0.0
    for start in range(0, READINGS, AT_ONCE):
        new_readings = [
            NewReading(
                line=1,
                battery=BatteryRef(battery_id=ids[number % len(ids)]),
                kind=("full_cycles", "capacity_fade_pct")[number // len(ids) % 2],
                recorded_at=FIRST + timedelta(seconds=number // len(ids)),
                number=f"{number % 1000}.000000",
            )
            for number in range(start, min(start + AT_ONCE, READINGS))
        ]
        before = time.monotonic()
        async with database.tenant(tenant) as conn:
            source = ReadingSource(source="BMS", content_hash=sha256(str(start).encode()))
            outcome = await store_readings(conn, tenant, new_readings, source, act=act)
        seconds += time.monotonic() - before
        assert outcome.stored == len(new_readings)
    return seconds


async def _count_pages(conn: Connection, statement: str, *arguments: Any) -> int:
    """The pages of tables and indexes that a statement touches, by the plan that is kept."""
    await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    text = await conn.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *arguments)
    plan = json.loads(text)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_what_is_registered_is_found_by_the_unique_index_before_there_are_statistics(
    database: Database, tenant: TenantId, act: Act, superuser: Superuser
) -> None:
    await superuser.execute("VACUUM ANALYZE batteries")  # which says that the table is empty
    lines = "\n".join(["sku,serial_number", *(f"P,S{number:04d}" for number in range(500))])
    async with database.tenant(tenant) as conn:
        product = (await create_product(conn, tenant, sku="P", name="Pack", act=act)).battery_product_id
        await register_batteries(conn, tenant, read_rows(lines.encode(), COLUMNS, REQUIRED), act=act)
        serials = [f"S{number:04d}" for number in range(500)]

        plans = [
            await _explain(conn, registration.SELECT_EXISTING, tenant, [product] * 500, serials),
            await _explain(conn, batteries.SELECT_REGISTERED_ITEMS, tenant, product, serials),
            await _explain(conn, readings.SELECT_BY_NUMBER, tenant, [None] * 500, ["P"] * 500, serials),
        ]

    assert ["batteries_serial_key" in plan for plan in plans] == [True] * 3
    assert ["batteries_of_product" in plan for plan in plans] == [False] * 3


async def _explain(conn: Connection, statement: str, *arguments: Any) -> str:
    rows = await conn.fetch(f"EXPLAIN {statement}", *arguments)
    return "\n".join(row[0] for row in rows)
