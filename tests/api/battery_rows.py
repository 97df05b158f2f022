"""Rows of a filled tenant: a product with batteries in several states."""

from datetime import date, timedelta
from pathlib import Path
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.batteries.row_files import FileRow, RowFile
from bpc.core.batteries.transfer_offers import DEFAULT_VALIDITY, TransferAcceptance, encode_acceptance
from bpc.core.formats.ids import BatteryId, TenantId, TransferId
from bpc.runtime import clock
from bpc.storage.access.tenants_and_actors import create_tenant
from bpc.storage.batteries.batches import NewBatch, create_missing_batches, find_batches
from bpc.storage.batteries.identification import IdentificationRow, set_identification
from bpc.storage.batteries.life import change_battery
from bpc.storage.batteries.registration import register_batteries
from bpc.storage.batteries.transfers import NewOffer, offer_battery
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.items.packs import PackFolder
from bpc.storage.passports.products import create_product, find_products_by_sku
from tests.api.conftest import KEY_ID
from tests.api.tenant_data import FilledTenant, StoredTenant, add_id, get_id
from tests.storage.battery_rows import build_item_pack, insert_item_rows, name_items
from tests.storage.statements import insert_row

BATTERIES = {
    "A1": "battery_id",
    "A2": "old_battery_id",
    "A3": "waste_battery_id",
    "A4": "spare_battery_id",
    "A5": "given_battery_id",
    "A6": "offered_battery_id",
    "A7": "promised_battery_id",
}
PARTY = "GLN:9521234000006"


async def insert_batteries(conn: Connection, tenant_data: FilledTenant, act: Act) -> None:
    tenant, mark, ids = tenant_data.tenant, tenant_data.mark, tenant_data.ids
    product = await create_product(conn, tenant, sku=str(clock.new_id()), name=f"{mark} pack", act=act)
    target = IdentificationRow(battery_product_id=product.battery_product_id, scheme="GS1", gtin="09521234000013")
    await set_identification(conn, tenant, target, act=act)
    rows = [
        FileRow(line, {"sku": product.sku, "serial_number": serial, "batch_number": mark})
        for line, serial in enumerate(BATTERIES, start=1)
    ]
    outcome = await register_batteries(conn, tenant, RowFile(rows, []), act=act)
    batch = product.battery_product_id, mark
    ids["battery_sku"] = product.sku
    model = (await find_products_by_sku(conn, tenant, [ids["model_sku"]]))[ids["model_sku"]].battery_product_id
    await create_missing_batches(conn, tenant, [NewBatch(battery_product_id=model, batch_number=mark)], act=act)
    ids["model_batch_id"] = str((await find_batches(conn, tenant, [(model, mark)]))[model, mark])
    ids["battery_batch_id"] = str((await find_batches(conn, tenant, [batch]))[batch])
    for name, battery in zip(BATTERIES.values(), outcome.battery_ids, strict=True):
        ids[name] = str(battery)
    items = name_items(
        tenant,
        outcome.battery_ids[0],
        *(add_id(tenant_data, name) for name in ("item_run_id", "chunk_id", "item_version_id")),
    )
    await insert_item_rows(conn, items, get_id(tenant_data, "public_version_id"), at=act.at, key_id=KEY_ID)
    for battery in outcome.battery_ids[2:]:
        said = {"reason": f"{mark} is old", "performed_by": PARTY}
        await change_battery(
            conn,
            tenant,
            BatteryId(battery),
            "WASTE",
            status="waste",
            effective_on=date(2025, 8, 1),
            said=said,
            act=act,
        )


async def insert_transfers(database: Database, tenant_data: FilledTenant, act: Act) -> None:
    """Offers of the tenant, and offers to it by a partner, of which nobody searches for a text."""
    tenant, ids = tenant_data.tenant, tenant_data.ids
    partner = await create_tenant(database, slug=f"partner-{tenant.hex[-8:]}", name="Partner", act=act)
    async with database.tenant(tenant) as conn:
        offers = {"transfer_id": "offered_battery_id", "withdrawn_transfer_id": "promised_battery_id"}
        for name, battery in offers.items():
            ids[name] = str(await _offer(conn, tenant, partner, BatteryId(get_id(tenant_data, battery)), act))
        await _insert_completed(conn, tenant_data, partner, act)
    async with database.tenant(partner) as conn:
        product = await create_product(conn, partner, sku="PARTNER", name="Pack", act=act)
        rows = [FileRow(line, {"sku": product.sku, "serial_number": f"P{line}"}) for line in (1, 2)]
        batteries = (await register_batteries(conn, partner, RowFile(rows, []), act=act)).battery_ids
        for name, battery_id in zip(("accepted_transfer_id", "declined_transfer_id"), batteries, strict=True):
            said = {"reason": "it is old", "performed_by": PARTY}
            day = date(2025, 8, 1)
            await change_battery(
                conn, partner, battery_id, "WASTE", status="waste", effective_on=day, said=said, act=act
            )
            ids[name] = str(await _offer(conn, partner, tenant, battery_id, act))


async def _offer(conn: Connection, giver: TenantId, taker: TenantId, battery: BatteryId, act: Act) -> TransferId:
    offer = NewOffer(battery_id=battery, to_tenant_id=taker, operator=PARTY, expires_at=act.at + DEFAULT_VALIDITY)
    return (await offer_battery(conn, giver, offer, act=act)).transfer_id


async def _insert_completed(conn: Connection, tenant_data: FilledTenant, partner: TenantId, act: Act) -> None:
    text = f'{{"mark":"{tenant_data.mark}"}}'.encode()
    await insert_row(
        conn,
        "battery_transfers",
        tenant_id=tenant_data.tenant,
        transfer_id=add_id(tenant_data, "completed_transfer_id"),
        side="TAKES",
        other_tenant_id=partner,
        state="COMPLETED",
        battery_id=get_id(tenant_data, "battery_id"),
        offer=await conn.fetchval("SELECT offer FROM battery_transfers LIMIT 1"),
        acceptance=_make_acceptance(tenant_data, act),
        entry=text,
        gives_statement=text,
        takes_statement=text,
        offered_at=act.at - timedelta(days=1),
        expires_at=act.at,
        accepted_at=act.at,
        ended_at=act.at,
    )


def _make_acceptance(tenant_data: FilledTenant, act: Act) -> bytes:
    return encode_acceptance(
        TransferAcceptance(
            tenant_id=tenant_data.tenant,
            operator=PARTY,
            battery_id=BatteryId(get_id(tenant_data, "battery_id")),
            life="re-used",
            effective_on=date(2025, 8, 1),
            accepted_at=act.at,
        )
    )


def write_packs(data_dir: Path, stored: StoredTenant) -> None:
    """The pack of the tenant's battery, where the API reads it."""
    ids = stored["ids"]
    names = ("battery_id", "item_run_id", "chunk_id", "item_version_id")
    items = name_items(TenantId(UUID(stored["tenant"])), *(UUID(ids[name]) for name in names))
    PackFolder(data_dir).write(build_item_pack(items)[0])
