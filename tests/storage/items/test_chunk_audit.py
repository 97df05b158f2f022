"""The audit of chunks reads each chunk and each event once, also where the database has no statistics of them yet."""

import json
from uuid import UUID

from bpc.core.audit.events import EMPTY_CHAIN, Act
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.items.chunk_audit import SELECT_EVENTS_WITHOUT_CHUNK, verify_item_chunks
from tests.storage import rows
from tests.storage.battery_rows import insert_battery_rows, insert_item_rows, name_items
from tests.storage.probes import Superuser

PAGES_OF_A_CHUNK = 20  # its event, its key, and the way to both in the indexes; comparing each with each takes 180
COPY_CHUNKS = """
    INSERT INTO item_chunks (tenant_id, item_chunk_id, item_run_id, battery_product_id, chunk_number, total,
                             source_sha256, issued, refusals, tree_seed, root, leaf_hashes, started_at, issued_at)
    SELECT c.tenant_id, w.id, c.item_run_id, c.battery_product_id, 1 + w.place, 1, c.source_sha256, 0, '[]',
           c.tree_seed, c.root, '', c.started_at, c.issued_at
      FROM item_chunks c, unnest($1::uuid[]) WITH ORDINALITY AS w(id, place)
     WHERE c.chunk_number = 1
"""


async def test_a_chunk_more_costs_a_few_pages_however_many_there_are(
    database: Database, tenant: TenantId, act: Act, superuser: Superuser
) -> None:
    await _insert_first_chunk(database, tenant, act)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("ALTER TABLE item_chunks SET (autovacuum_enabled = false)")
    count = 400

    await _add_chunks(database, superuser, tenant, act, [clock.new_id() for _ in range(count)])

    async with database.tenant(tenant) as conn:
        text = await conn.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {SELECT_EVENTS_WITHOUT_CHUNK}", tenant)
    plan = json.loads(text)[0]["Plan"]
    assert (plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]) / count < PAGES_OF_A_CHUNK


async def test_an_event_without_its_chunk_is_named(
    database: Database, tenant: TenantId, act: Act, superuser: Superuser
) -> None:
    await _insert_first_chunk(database, tenant, act)
    lost = clock.new_id()

    async with database.tenant(tenant) as conn:
        await events.append_act(
            conn, act, tenant, "ItemBatch", AggregateId(lost), "ITEMS_ISSUED", {"count": 1}, head=EMPTY_CHAIN
        )
        _, faults = await verify_item_chunks(conn, tenant)

    assert [(fault.row_id, fault.problem) for fault in faults if fault.row_id == str(lost)] == [(str(lost), "DELETED")]


async def test_a_chunk_of_an_earlier_release_is_compared_by_the_leaves_that_it_had(
    database: Database, tenant: TenantId, act: Act, superuser: Superuser
) -> None:
    """Its event names no version of leaves: those of version 1."""
    await _insert_first_chunk(database, tenant, act)
    row = await superuser.fetchrow("SELECT item_chunk_id, root, pack_sha256 FROM item_chunks")
    assert row is not None
    payload = {"count": 1, "root": row["root"].hex(), "pack_sha256": row["pack_sha256"].hex()}
    async with database.tenant(tenant) as conn:
        chunk = AggregateId(row["item_chunk_id"])
        await events.append_act(conn, act, tenant, "ItemBatch", chunk, "ITEMS_ISSUED", payload, head=EMPTY_CHAIN)

        before = await verify_item_chunks(conn, tenant)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE item_passport_versions SET receipt_hash = sha256(receipt_hash)")
    async with database.tenant(tenant) as conn:
        after = await verify_item_chunks(conn, tenant)

    assert (before, len(after[1])) == ((1, []), 1)


async def _insert_first_chunk(database: Database, tenant: TenantId, act: Act) -> None:
    await rows.insert_signing_keys(database)
    async with database.system(tenant) as conn:
        model = await rows.insert_passport_version(
            conn, tenant, status="ACTIVE", qr_png=b"png", qr_payload="{}", activated_at=act.at
        )
        battery = await insert_battery_rows(conn, tenant, act)
        await insert_item_rows(conn, name_items(tenant, battery, *(clock.new_id() for _ in range(3))), model, at=act.at)


async def _add_chunks(
    database: Database, superuser: Superuser, tenant: TenantId, act: Act, chunk_ids: list[UUID]
) -> None:
    """Chunks in which all batteries were refused, each with its event."""
    await superuser.execute(COPY_CHUNKS, chunk_ids)
    async with database.tenant(tenant) as conn:
        for chunk in chunk_ids:
            await events.append_act(
                conn, act, tenant, "ItemBatch", AggregateId(chunk), "ITEMS_ISSUED", {"count": 0}, head=EMPTY_CHAIN
            )
