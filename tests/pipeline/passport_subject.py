"""What every event of a passport version says of its passport: its product and its SKU."""

from bpc.core.formats.ids import PassportId, TenantId
from bpc.storage.database import Database
from bpc.storage.passports import passports, products


async def load_subject_payload(database: Database, tenant: TenantId, passport: PassportId) -> dict[str, str]:
    """The members that name the passport, its product and its SKU."""
    async with database.tenant(tenant) as conn:
        product_id = (await passports.get_passport(conn, tenant, passport)).battery_product_id
        product = await products.get_product(conn, tenant, product_id)
    return {"passport_id": str(passport), "battery_product_id": str(product_id), "sku": product.sku}
