"""A battery that may be transferred to another tenant, and an offer of it."""

from typing import Any

import pytest

from bpc.core.formats.ids import TenantId
from tests.api.conftest import Api
from tests.api.transfer_fixtures import STEP


@pytest.fixture
async def waste_battery(admin: Api, other_admin: Api) -> str:
    """A battery that is waste; the other tenant has a product for its other life."""
    await admin.post_json("/v1/battery-products", {"sku": "PACK-48", "name": "Pack"})
    await other_admin.post_json("/v1/battery-products", {"sku": "STORAGE-5", "name": "Storage"})
    body = {"sku": "PACK-48", "serial_number": "A1", "manufactured_on": "2024-01-02", "placed_on": "2024-02-03"}
    battery_id = str((await admin.post_json("/v1/batteries", body))["battery_id"])
    await admin.post_json(f"/v1/batteries/{battery_id}:declare-waste", STEP, status=200)
    return battery_id


@pytest.fixture
def offer(waste_battery: str, other_tenant: TenantId) -> dict[str, Any]:
    return {"battery_id": waste_battery, "to_tenant_id": str(other_tenant), "operator": "GLN:9521234000006"}
