"""Bulk compiles over HTTP, for tests: facts in, runs and their rows out."""

from typing import Any

from service_jobs import Worker

from bpc.api.http.request_context import Service
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.tasks.product_facts import insert_product_facts


async def insert_facts(database: Database, tenant: TenantId, *skus: str) -> None:
    async with database.tenant(tenant) as conn:
        await insert_product_facts(conn, tenant, *skus)


async def request_run(api: Api, rules: str, *items: dict[str, Any], **more: Any) -> str:
    body = {"rule_package_version_id": rules, "items": list(items), **more}
    return str((await api.post_json("/v1/passports:bulk-compile", body, status=202))["run_id"])


async def list_rows(api: Api, run: str, **query: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await api.get_json(f"/v1/compile-runs/{run}/rows", params=query))["items"]
    return items


async def run_all_jobs(service: Service) -> None:
    await Worker(service.jobs).run_until_idle()
