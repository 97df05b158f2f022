"""What tests of passports begin with: one over HTTP that can be compiled, and versions that are signed."""

from dataclasses import dataclass
from typing import Any

from bpc.api.service import Service
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.db.database import Database
from bpc.jobs import Worker
from tests.api.conftest import Api
from tests.pipeline.ready import SKU, published_rules, sealed_snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilable:
    """A passport, and what its versions are compiled of."""

    passport: str
    body: dict[str, str]


async def compilable(admin: Api, database: Database, tenant: TenantId, act: Act) -> Compilable:
    """A new product with its passport, a sealed snapshot and published rules."""
    product = (await admin.made("/v1/battery-products", {"sku": SKU, "name": "Cell"}))["battery_product_id"]
    passport = (await admin.made("/v1/passports", {"battery_product_id": product}))["passport_id"]
    async with database.tenant(tenant) as conn:
        snapshot = await sealed_snapshot(conn, tenant)
        rules = await published_rules(conn, tenant, act)
    return Compilable(passport=passport, body={"snapshot_id": str(snapshot), "rule_package_version_id": str(rules)})


async def requested(api: Api, given: Compilable) -> Any:
    """The answer to a compile request."""
    return await api.made(f"/v1/passports/{given.passport}/compile", given.body, status=202)


async def issued(api: Api, service: Service, given: Compilable) -> str:
    """The id of a new version that is SIGNED and has its QR code."""
    version = str((await requested(api, given))["passport_version_id"])
    await Worker(service.jobs).run_until_idle()
    return version
