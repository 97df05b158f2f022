"""Endpoints and deliveries for the tests of webhooks."""

import json
from typing import Any, Final
from uuid import UUID

from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.connection import Connection
from tests.api.conftest import Api
from tests.storage.statements import insert_row

URL: Final = "https://example.com/hooks?battery=1"
FAULT: Final = {"code": "INTERNAL_ERROR", "message": "it answered 500", "retryable": True, "details": {"status": 500}}


async def create_endpoint(admin: Api, url: str = URL) -> Any:
    return await admin.post_json("/v1/webhook-endpoints", {"url": url})


async def list_event_types(admin: Api, kind: str, which: str) -> list[str]:
    listed = await admin.get_json("/v1/audit/events", params={"aggregate_type": kind, "aggregate_id": which})
    return [item["event_type"] for item in reversed(listed["items"])]


async def insert_delivery(conn: Connection, tenant: TenantId, endpoint: str, event: UUID, status: str) -> str:
    delivery = clock.new_id()
    await insert_row(
        conn,
        "webhook_deliveries",
        tenant_id=tenant,
        webhook_delivery_id=delivery,
        webhook_endpoint_id=endpoint,
        event_id=event,
        status=status,
        last_error=json.dumps(FAULT) if status == "FAILED" else None,
    )
    return str(delivery)
