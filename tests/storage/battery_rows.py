"""A battery that went all its way, with its batch, a reading and its changes; and its passport, with its pack."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from zstandard import ZstdCompressor

from bpc.core.audit.events import Act
from bpc.core.batteries.reading_rows import BatteryRef, NewReading
from bpc.core.batteries.row_files import FileRow, RowFile
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import BatteryId, ItemChunkId, ItemRunId, PassportVersionId, TenantId
from bpc.core.items.chunk_tree import compute_chunk_root, derive_tree_seed, hash_item_leaf
from bpc.core.items.compile import ItemCompiler
from bpc.core.items.compile_order import build_batch_fact
from bpc.runtime import clock
from bpc.storage.batteries.identification import IdentificationRow, set_identification
from bpc.storage.batteries.life import change_battery
from bpc.storage.batteries.readings import ReadingSource, store_readings
from bpc.storage.batteries.registration import register_batteries
from bpc.storage.connection import Connection
from bpc.storage.items.pack_format import PackEntry, PackPlace, build_pack
from bpc.storage.passports.item_packing import build_dictionary, pack_item
from bpc.storage.passports.products import create_product
from tests.core.items import sample_layers as sample
from tests.storage.statements import insert_row


async def insert_battery_rows(conn: Connection, tenant: TenantId, act: Act) -> BatteryId:
    product = await create_product(conn, tenant, sku=f"PACK-{clock.new_id()}", name="Pack", act=act)
    await set_identification(
        conn, tenant, IdentificationRow(battery_product_id=product.battery_product_id, granularity="ITEM"), act=act
    )
    cells = {"sku": product.sku, "serial_number": "A1", "batch_number": "B1", "placed_on": "2025-08-01"}
    outcome = await register_batteries(conn, tenant, RowFile([FileRow(1, cells)], []), act=act)
    battery = outcome.battery_ids[0]
    reading = NewReading(
        line=1,
        battery=BatteryRef(battery_id=battery),
        kind="full_cycles",
        recorded_at=datetime(2025, 8, 1, tzinfo=UTC),
        number="7.000000",
    )
    await store_readings(conn, tenant, [reading], ReadingSource(source="BMS", content_hash=sha256(b"")), act=act)
    said = {"reason": "old", "performed_by": "GLN:9521234000006", "report": "R-1"}
    day = date(2025, 8, 2)
    await change_battery(conn, tenant, battery, "WASTE", status="waste", effective_on=day, said=said, act=act)
    await insert_row(
        conn,
        "battery_transfers",
        tenant_id=tenant,
        transfer_id=clock.new_id(),
        side="GIVES",
        other_tenant_id=clock.new_id(),
        state="COMPLETED",
        battery_id=battery,
        offer=b"{}",
        acceptance=b"{}",
        gives_statement=b"{}",
        takes_statement=b"{}",
        offered_at=act.at,
        expires_at=act.at + timedelta(days=1),
        accepted_at=act.at,
        ended_at=act.at,
    )
    await change_battery(conn, tenant, battery, "RECYCLED", effective_on=day, said=said, act=act)
    return battery


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemIds:
    """What the rows refer to, and what they are called."""

    tenant: TenantId
    run: ItemRunId
    chunk: ItemChunkId
    battery: BatteryId
    version: PassportVersionId


def build_item_pack(ids: ItemIds) -> tuple[bytes, PackPlace]:
    """A pack with the passport of a battery of the samples: to whom it belongs does not matter to those who read it."""
    item = sample.get_compiler().compile(sample.make_item_row(1))
    dictionary = build_dictionary([item.content])
    entry = PackEntry(sample.SIGNER.sign(item.receipt_hash), pack_item(item.content, dictionary))
    pack, [place] = build_pack(ids.tenant, ids.run, ids.chunk, dictionary, [entry])
    return pack, place


async def insert_batch_version(
    conn: Connection, tenant: TenantId, batch: UUID, model_version: UUID, *, at: datetime, key_id: str = "key-1"
) -> UUID:
    """An issued passport of a batch: the bytes are of a batch of the samples."""
    fact = build_batch_fact(sample.SKU, {"facility_id": "PLANT-90"})
    compiler = ItemCompiler(sample.open_sample_model(), sample.RUN, layer="batch")
    item = compiler.compile(sample.make_row(90, (fact,)))
    rules = await conn.fetchval(
        "SELECT rule_package_version_id FROM passport_versions WHERE passport_version_id = $1", model_version
    )
    version = clock.new_id()
    await insert_row(
        conn,
        "batch_passport_versions",
        tenant_id=tenant,
        passport_version_id=version,
        battery_batch_id=batch,
        model_version_id=model_version,
        rule_package_version_id=rules,
        model_receipt_hash=bytes(32),
        dsl_sha256=bytes(32),
        compiler_build_id="bpc-test",
        signing_key_id=key_id,
        secret="of nobody",
        facts=b"{}",
        requested_at=at,
        content=ZstdCompressor().compress(item.content),
        signature=sample.SIGNER.sign(item.receipt_hash),
        receipt_hash=item.receipt_hash,
        fail_count=0,
        warn_count=0,
        ended_at=at,
    )
    return version


async def insert_item_rows(
    conn: Connection, ids: ItemIds, model_version: UUID, *, at: datetime, key_id: str = "key-1"
) -> None:
    product = await conn.fetchval("SELECT battery_product_id FROM batteries WHERE battery_id = $1", ids.battery)
    model = await conn.fetchrow(
        "SELECT rule_package_version_id, receipt_hash FROM passport_versions WHERE passport_version_id = $1",
        model_version,
    )
    assert model is not None
    item = sample.get_compiler().compile(sample.make_item_row(1))
    batch = await conn.fetchval("SELECT battery_batch_id FROM batteries WHERE battery_id = $1", ids.battery)
    await insert_batch_version(conn, ids.tenant, batch, model_version, at=at, key_id=key_id)
    pack, place = build_item_pack(ids)
    seed = derive_tree_seed(bytes(32), ids.chunk)
    leaf = hash_item_leaf(ids.battery, ids.version, item.receipt_hash, "ISSUED")
    await insert_row(
        conn,
        "item_runs",
        tenant_id=ids.tenant,
        item_run_id=ids.run,
        battery_product_id=product,
        model_version_id=model_version,
        rule_package_version_id=model["rule_package_version_id"],
        model_receipt_hash=model["receipt_hash"],
        dsl_sha256=bytes(32),
        request_hash=sha256(ids.run.bytes),
        compiler_build_id="bpc-test",
        signing_key_id=key_id,
        secret="of nobody",
        total=1,
        unchanged=0,
        requested_at=at,
    )
    await insert_row(
        conn,
        "item_chunks",
        tenant_id=ids.tenant,
        item_chunk_id=ids.chunk,
        item_run_id=ids.run,
        battery_product_id=product,
        chunk_number=1,
        total=1,
        source_sha256=bytes(32),
        issued=1,
        refusals="[]",
        tree_seed=seed,
        root=compute_chunk_root([leaf], seed),
        leaf_hashes=leaf,
        pack_sha256=sha256(pack),
        pack_bytes=len(pack),
        started_at=at,
        issued_at=at,
    )
    await insert_row(
        conn,
        "item_passport_versions",
        tenant_id=ids.tenant,
        battery_id=ids.battery,
        passport_version_id=ids.version,
        item_chunk_id=ids.chunk,
        issued_at=at,
        leaf_number=0,
        pack_offset=place.offset,
        pack_length=place.length,
        fail_count=0,
        warn_count=0,
        status="ISSUED",
        receipt_hash=item.receipt_hash,
        input_hash=bytes(32),
    )


def name_items(tenant: TenantId, battery: UUID, run: UUID, chunk: UUID, version: UUID) -> ItemIds:
    return ItemIds(
        tenant=tenant,
        run=ItemRunId(run),
        chunk=ItemChunkId(chunk),
        battery=BatteryId(battery),
        version=PassportVersionId(version),
    )
