"""What tests of passports begin with: one over HTTP that can be compiled, and versions that are signed."""

from dataclasses import dataclass
from typing import Any

from service_jobs import Worker

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.pipeline.compile_fixtures import SKU, create_sealed_snapshot, publish_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportInputs:
    """A passport, and what its versions are compiled of."""

    passport: str
    body: dict[str, str]


async def create_passport_inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    """A new product with its passport, a sealed snapshot and published rules."""
    product = (await admin.post_json("/v1/battery-products", {"sku": SKU, "name": "Cell"}))["battery_product_id"]
    passport = (await admin.post_json("/v1/passports", {"battery_product_id": product}))["passport_id"]
    async with database.tenant(tenant) as conn:
        snapshot = await create_sealed_snapshot(conn, tenant)
        rules = await publish_rules(conn, tenant, act)
    return PassportInputs(passport=passport, body={"snapshot_id": str(snapshot), "rule_package_version_id": str(rules)})


async def request_version(api: Api, inputs: PassportInputs) -> Any:
    """The answer to a compile request."""
    return await api.post_json(f"/v1/passports/{inputs.passport}/compile", inputs.body, status=202)


async def issue_version(api: Api, service: Service, inputs: PassportInputs) -> str:
    """The id of a new version that is SIGNED and has its QR code."""
    version = str((await request_version(api, inputs))["passport_version_id"])
    await Worker(service.jobs).run_until_idle()
    return version
