"""How long it takes to derive the tables from events, and how much memory."""

import time
import tracemalloc

import asyncpg

from bpc.core.audit.events import EMPTY_CHAIN, Act, AuditEvent, ChainHead, EventStream
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.runtime import clock
from bpc.storage.audit.verification import verify_audit
from bpc.storage.database import Database, freeze_view
from tests.measurements import RecordMeasurement, choose_effort


async def test_a_long_history_is_verified_in_bounded_memory(
    database: Database,
    tenant: TenantId,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    record_measurement: RecordMeasurement,
) -> None:
    """Products, each created and renamed: two events and a row."""
    count = choose_effort(test=1_000, shown=50_000, campaign=500_000)
    await _insert_products(superuser, tenant, act, count)

    async with database.tenant(tenant) as conn:
        await freeze_view(conn)
        started_at = time.perf_counter()
        verification = await verify_audit(conn, tenant)
        seconds = time.perf_counter() - started_at
    async with database.tenant(tenant) as conn:
        await freeze_view(conn)
        tracemalloc.start()
        await verify_audit(conn, tenant)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert verification.is_intact
    assert verification.state is not None
    assert verification.state.rows > count
    assert peak < 40_000_000, "memory does not grow with the number of events"
    record_measurement(
        "audit-verify",
        events=verification.chains.events,
        rows=verification.state.rows,
        seconds=round(seconds, 2),
        seconds_per_100000_events=round(seconds / verification.chains.events * 100_000, 2),
        peak_python_megabytes=round(peak / 1_000_000, 1),
    )


async def _insert_products(
    superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, act: Act, count: int
) -> None:
    """Insert as many products and their events, as the product would have, but all at once."""
    events, products = [], []
    for number in range(count):
        product, sku = clock.new_id(), f"SKU-{number}"
        stream = EventStream(tenant, "BatteryProduct", AggregateId(product))
        creation = act.new_event("PRODUCT_CREATED", {"sku": sku, "name": "Cell"})
        first = AuditEvent.chain_after(EMPTY_CHAIN, stream, creation)
        change = act.new_event("PRODUCT_RENAMED", {"from": "Cell", "to": "Pack"})
        second = AuditEvent.chain_after(ChainHead(1, first.event_hash), stream, change)
        products.append((tenant, product, sku, "Pack", True, act.at))
        events += [
            (
                tenant,
                event.event_id,
                stream.aggregate_type,
                stream.aggregate_id,
                event.version,
                event.event_type,
                event.occurred_at,
                event.actor_id,
                event.payload_canonical.decode(),
                event.payload_canonical,
                event.payload_hash,
                event.prev_event_hash,
                event.event_hash,
            )
            for event in (first, second)
        ]
    columns = ["tenant_id", "battery_product_id", "sku", "name", "is_active", "created_at"]
    await superuser.copy_records_to_table("battery_products", records=products, columns=columns)
    event_columns = [
        *("tenant_id", "event_id", "aggregate_type", "aggregate_id", "aggregate_version", "event_type", "occurred_at"),
        *("actor_id", "payload", "payload_canonical", "payload_hash", "prev_event_hash", "event_hash"),
    ]
    await superuser.copy_records_to_table("events", records=events, columns=event_columns)
    await superuser.execute("ANALYZE events, battery_products")
