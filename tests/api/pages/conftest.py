"""Passports that access is asked for: with batteries that have passports, and without."""

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.item_fixtures import SKU, find_battery, issue_items, issue_model
from tests.api.pages.access_scenario import IssuedPassports
from tests.api.passport_fixtures import create_passport_inputs, issue_version
from tests.pipeline.compile_fixtures import SKU as COMPILED_SKU


@pytest.fixture
async def issued(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> IssuedPassports:
    other = await create_passport_inputs(admin, database, tenant, act)
    version = await issue_version(admin, service, other)
    await admin.post_json(f"/v1/passport-versions/{version}/activate", {}, status=200)
    await issue_model(admin, service, database, tenant, act)
    await issue_items(admin, service)
    [passport] = (await admin.get_json("/v1/passports", params={"sku": SKU}))["items"]
    battery, neighbour = [await find_battery(admin, serial) for serial in ("A1", "A2")]
    return IssuedPassports(
        model=passport["passport_id"], battery=battery, neighbour=neighbour, other_model=other.passport
    )


@pytest.fixture
async def plain(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> IssuedPassports:
    """A model whose batteries are registered and have no passport of their own, and another one without a version."""
    inputs = await create_passport_inputs(admin, database, tenant, act)
    version = await issue_version(admin, service, inputs)
    await admin.post_json(f"/v1/passport-versions/{version}/activate", {}, status=200)
    other = await admin.post_json("/v1/battery-products", {"sku": "OTHER", "name": "Other"})
    body = {"battery_product_id": other["battery_product_id"]}
    other_model = (await admin.post_json("/v1/passports", body))["passport_id"]
    batteries = [
        (await admin.post_json("/v1/batteries", {"sku": COMPILED_SKU, "serial_number": serial}))["battery_id"]
        for serial in ("A1", "A2")
    ]
    return IssuedPassports(model=inputs.passport, battery=batteries[0], neighbour=batteries[1], other_model=other_model)
