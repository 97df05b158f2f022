"""What finding one battery costs among many, and what readings cost: to store, to keep, and to read again.

The batteries are rows made by the database itself, past all rules, because only their number matters: three products,
with codes of GS1, of ours and of IEC 61406. Readings are stored by the product, in deliveries of 100,000, in random
order of batteries and times. A read is EXPLAIN (ANALYZE, BUFFERS) of the very statement: the pages that it touches do
not depend on who else uses the machine.

    BENCH_BATTERIES=10000000        batteries
    BENCH_READINGS=10000000         readings, of a tenth as many batteries
    BENCH_SECONDS=3600              stop storing readings after so long
    BENCH_FOLDER=folder             where; about 8 GB for ten million of each
"""

import asyncio
import json
import os
import random  # noqa: TID251 - which battery and which time comes next must not follow their order
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from bench import Table
from bench.pipeline import Bench, open_bench
from bpc.core.audit.events import Act
from bpc.core.batteries.reading_rows import READING_KINDS, BatteryRef, NewReading
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import BatteryId
from bpc.runtime import clock, logs
from bpc.storage.batteries import batteries, readings
from bpc.storage.batteries.readings import ReadingSource
from bpc.storage.connection import EARLIEST_TIME, LATEST_TIME
from bpc.storage.passports import products

BATTERIES: Final = int(os.environ.get("BENCH_BATTERIES", "1000000"))
READINGS: Final = int(os.environ.get("BENCH_READINGS", "1000000"))
SECONDS: Final = float(os.environ.get("BENCH_SECONDS", "inf"))
FOLDER: Final = os.environ.get("BENCH_FOLDER", "")
DELIVERY: Final = 100_000
SAMPLES: Final = 50
SCHEMES: Final = ("GS1", "OWN", "IEC61406")
KINDS: Final = ("capacity_fade_pct", "full_cycles", "remaining_capacity_ah", "round_trip_efficiency_pct")
GTIN: Final = "09521234000013"
FIRST_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
INSERT_BATTERIES: Final = """
    INSERT INTO batteries (tenant_id, battery_id, battery_product_id, registration_id, registered_at, leaf_number,
                           manufactured_on, placed_on, serial_number, link)
    SELECT $1, gen_random_uuid(), ($2::uuid[])[1 + n % 3], $3, now() - n * interval '1 second', n % 100000,
           '2026-01-01', '2026-02-01', 'S' || lpad(n::text, 9, '0'),
           CASE n % 3 WHEN 2 THEN 'https://maker.example/i/' || lpad(n::text, 9, '0') END
      FROM generate_series($4::int, $5::int) AS n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A statement that was explained for some batteries."""

    name: str
    statement: str
    arguments: Sequence[Sequence[Any]]


def run() -> Iterable[Table]:
    logs.configure(level="warn", json=True, component="bench")
    with tempfile.TemporaryDirectory(prefix="bpc-bench-", ignore_cleanup_errors=True, dir=FOLDER or None) as folder:
        Path(folder).chmod(0o711)
        yield from asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> list[Table]:
    async with open_bench(folder) as bench:
        ids = await _fill_batteries(bench)
        samples = await bench.superuser.fetch(
            "SELECT b.battery_id, battery_product_id, b.serial_number, b.link, i.gtin FROM batteries b"
            " JOIN battery_identifications i USING (tenant_id, battery_product_id) WHERE b.battery_id = ANY($1)",
            random.sample(ids, 3 * SAMPLES),
        )
        finding = await _explain(bench, _list_lookups(bench, samples))
        stored = await _store_readings(bench, ids)
        await bench.superuser.execute("VACUUM ANALYZE")
        with_readings = ids[:SAMPLES]
        series = await _explain(bench, _list_series(bench, with_readings))
        size = await bench.superuser.fetchval(
            "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('battery_readings') WHERE isleaf"
        )
        table_size = await bench.superuser.fetchval(
            "SELECT sum(pg_table_size(relid)) FROM pg_partition_tree('battery_readings') WHERE isleaf"
        )
    names = ("", "pages, median", "pages, most", "ms, median", "rows")
    load = f"{os.cpu_count()} processors, load {os.getloadavg()[1]:.1f}"
    return [
        Table(title=f"Finding one of {BATTERIES:,} batteries, {load}", columns=names, rows=tuple(finding)),
        Table(
            title=f"{stored[-1][0]:,} readings stored, {load}",
            columns=("", "value"),
            rows=(
                *_describe_storing(stored),
                ("bytes each", f"{float(size) / stored[-1][0]:,.0f}"),
                ("of them the index", f"{float(size - table_size) / stored[-1][0]:,.0f}"),
            ),
        ),
        Table(title=f"Reading them, {load}", columns=names, rows=tuple(series)),
    ]


async def _fill_batteries(bench: Bench) -> list[UUID]:
    """Batteries of three products; the ids of a tenth of them, in no order."""
    registration, act, product_ids = clock.new_id(), Act(None, clock.now()), []
    async with bench.database.tenant(bench.tenant) as conn:
        for scheme in SCHEMES:
            product = await products.create_product(conn, bench.tenant, sku=f"PACK-{scheme}", name=scheme, act=act)
            product_ids.append(product.battery_product_id)
    superuser = bench.superuser
    for setting in ("max_wal_size = '8GB'", "checkpoint_timeout = '30min'"):
        await superuser.execute(f"ALTER SYSTEM SET {setting}")
    await superuser.execute("SELECT pg_reload_conf()")
    await superuser.execute("SET session_replication_role = replica")
    for scheme, product_id in zip(SCHEMES, product_ids, strict=True):
        await superuser.execute(
            "INSERT INTO battery_identifications (tenant_id, battery_product_id, granularity, scheme, gtin, base_url,"
            " changed_at) VALUES ($1, $2, 'ITEM', $3, $4, 'https://id.example', now())",
            *(bench.tenant, product_id, scheme, GTIN if scheme == "GS1" else None),
        )
    await superuser.execute(
        "INSERT INTO battery_registrations (tenant_id, registration_id, total, root, leaf_hashes, registered_at)"
        " VALUES ($1, $2, 1, $3, $3, now())",
        *(bench.tenant, registration, bytes(32)),
    )
    indexes = await superuser.fetch(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'batteries' AND indexname NOT LIKE '%key'"
        " AND indexname <> 'batteries_pkey'"
    )
    for index in indexes:  # made again when the rows are there: the same index, in a fraction of the time
        await superuser.execute(f"DROP INDEX {index['indexname']}")
    for first in range(1, BATTERIES + 1, 500_000):
        last = min(first + 499_999, BATTERIES)
        await superuser.execute(INSERT_BATTERIES, bench.tenant, product_ids, registration, first, last)
        _tell(f"{last:,} batteries")
    for index in indexes:
        await superuser.execute(index["indexdef"])
    await superuser.execute("SET session_replication_role = origin")
    await superuser.execute("VACUUM ANALYZE batteries")
    await superuser.execute("ANALYZE battery_identifications")
    await superuser.execute("ANALYZE battery_products")
    rows = await superuser.fetch("SELECT battery_id FROM batteries ORDER BY battery_id LIMIT $1", BATTERIES // 10)
    ids = [row[0] for row in rows]
    random.shuffle(ids)
    return ids


def _list_lookups(bench: Bench, samples: Sequence[Any]) -> list[Read]:
    linked = [row for row in samples if row["link"] is not None]
    tenant, [gs1] = bench.tenant, {row["battery_product_id"] for row in samples if row["gtin"] is not None}
    of_gs1 = [row for row in samples if row["battery_product_id"] == gs1]
    public = "SELECT * FROM find_public_item($1, $2, NULL, $3, NULL)"
    return [
        Read(name="by id", statement=batteries.SELECT_BATTERY, arguments=[(tenant, row[0]) for row in samples]),
        Read(
            name="by serial number",
            statement=batteries.SELECT_BY_SERIAL,
            arguments=[(tenant, row["serial_number"]) for row in samples],
        ),
        Read(
            name="by GTIN and serial number",
            statement=batteries.SELECT_BY_GTIN,
            arguments=[(tenant, row["serial_number"], GTIN) for row in of_gs1],
        ),
        Read(
            name="by the link of its code",
            statement=batteries.SELECT_BY_LINK,
            arguments=[(tenant, row["link"]) for row in linked],
        ),
        Read(name="public, by id", statement=public, arguments=[(row[0], None, None) for row in samples]),
        Read(
            name="public, by GTIN and serial number",
            statement=public,
            arguments=[(None, GTIN, row["serial_number"]) for row in of_gs1],
        ),
    ]


def _list_series(bench: Bench, ids: Sequence[UUID]) -> list[Read]:
    tenant, ends = bench.tenant, (LATEST_TIME, EARLIEST_TIME, LATEST_TIME)
    return [
        Read(
            name="the latest of each kind",
            statement=readings.SELECT_LATEST,
            arguments=[(tenant, each, list(READING_KINDS), LATEST_TIME) for each in ids],
        ),
        Read(
            name="a series of one kind",
            statement=readings.SELECT_SERIES,
            arguments=[(tenant, each, KINDS[0], *ends, 1000) for each in ids],
        ),
        Read(
            name="all of a battery, for a snapshot",
            statement=readings.SELECT_ALL,
            arguments=[(tenant, each, LATEST_TIME, readings.MAX_SERIES + 1) for each in ids],
        ),
    ]


async def _explain(bench: Bench, reads: Sequence[Read]) -> list[tuple[str, ...]]:
    rows = list[tuple[str, ...]]()
    async with bench.database.tenant(bench.tenant) as conn:
        for read in reads:
            pages, times, row_counts = [], [], []
            for arguments in read.arguments:
                text = await conn.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {read.statement}", *arguments)
                [report] = json.loads(text)
                plan = report["Plan"]
                pages.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
                times.append(report["Execution Time"])
                row_counts.append(plan["Actual Rows"])
            rows.append(
                (
                    read.name,
                    f"{statistics.median(pages):,.0f}",
                    f"{max(pages):,}",
                    f"{statistics.median(times):.2f}",
                    f"{statistics.median(row_counts):,.0f}",
                )
            )
            _tell(f"{rows[-1]}")
    return rows


async def _store_readings(bench: Bench, ids: Sequence[UUID]) -> list[tuple[int, float, float, float]]:
    """After each delivery: how many are stored, seconds, and those of a processor, Python's and PostgreSQL's."""
    started = time.monotonic(), time.process_time(), bench.measure_postgres_seconds()
    looks, count = [(0, 0.0, 0.0, 0.0)], 0
    while count < READINGS and time.monotonic() - started[0] < SECONDS:
        size = min(DELIVERY, READINGS - count)
        rows = [_make_reading(ids, count + number) for number in range(size)]
        source = ReadingSource(source="BMS", content_hash=sha256(str(count).encode()))
        before = time.process_time()
        async with bench.database.tenant(bench.tenant) as conn:
            await readings.store_readings(conn, bench.tenant, rows, source, act=Act(None, clock.now()))
        count += size
        looks.append(
            (
                count,
                time.monotonic() - started[0],
                looks[-1][2] + time.process_time() - before,
                bench.measure_postgres_seconds() - started[2],
            )
        )
        _tell(f"{count:,} readings, {looks[-1][2] / count * 1e6:,.0f} + {looks[-1][3] / count * 1e6:,.0f} µs each")
    return looks


def _make_reading(ids: Sequence[UUID], number: int) -> NewReading:
    """Each battery in turn, so that a delivery is of as many batteries as it can be."""
    turn, at = divmod(number, len(ids))
    kind = KINDS[turn % len(KINDS)]
    moment = FIRST_DAY + timedelta(days=turn // len(KINDS), seconds=at % 86_400)
    return NewReading(
        line=number,
        battery=BatteryRef(battery_id=BatteryId(ids[at])),
        kind=kind,
        recorded_at=moment,
        number=f"{number % 100}.{number % 997:03d}000",
    )


def _describe_storing(looks: Sequence[tuple[int, float, float, float]]) -> list[tuple[str, str]]:
    count, seconds, python, postgres = looks[-1]
    size = max(1, len(looks) // 10)
    first, last = (looks[0], looks[size]), (looks[-1 - size], looks[-1])
    return [
        ("a second", f"{count / seconds:,.0f}"),
        ("Python µs each", f"{python / count * 1e6:,.1f}"),
        ("PostgreSQL µs each", f"{postgres / count * 1e6:,.1f}"),
        *(
            (
                f"PostgreSQL µs each, {name} tenth",
                f"{(end[3] - start[3]) / (end[0] - start[0]) * 1e6:,.1f}",
            )
            for name, (start, end) in (("first", first), ("last", last))
        ),
    ]


def _tell(says: str) -> None:
    print(f"battery_reads: {time.strftime('%H:%M:%S')} {says}", file=sys.stderr, flush=True)
