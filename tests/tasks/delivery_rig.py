"""What tests of webhook deliveries work with: a tenant with an endpoint at a receiver, and the jobs that deliver."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
from service_jobs import Handler, Jobs, queries
from service_jobs.testing import InlineRun, run_inline
from tests.jobs.support.run_workers import run_worker, wait_until_all_over

from bpc.core.audit.events import Act, AuditEvent
from bpc.core.formats.ids import (
    TenantId,
    WebhookDeliveryId,
    WebhookEndpointId,
)
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage.database import Database
from bpc.storage.jobs import cancel_job
from bpc.storage.webhooks import deliveries
from bpc.storage.webhooks.deliveries import DeliveryRow
from bpc.storage.webhooks.endpoints import IssuedWebhookSecret
from bpc.storage.webhooks.webhook_fanout import append_and_announce
from bpc.tasks.deliver_webhooks import DeliveryOrder, DeliveryOutcome
from tests.outbound.receiver import ReceivedRequest, Receiver, Reply

Admin: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
ROOT = Path(__file__).resolve().parents[2]
COUNT_DUE = """
    SELECT count(*) FROM jobs.job_status
     WHERE status = 'RUNNING' OR (status = 'QUEUED' AND scheduled_at <= jobs.clock())
"""
ONLY = "SELECT webhook_delivery_id FROM webhook_deliveries"


@dataclass
class DeliveryRig:
    """A tenant with an endpoint at a receiver, and the jobs that deliver."""

    database: Database
    tenant: TenantId
    act: Act
    receiver: Receiver
    jobs: Jobs
    handler: Handler[DeliveryOrder, DeliveryOutcome]
    issued: IssuedWebhookSecret
    events: list[AuditEvent] = field(default_factory=list)

    @property
    def endpoint(self) -> WebhookEndpointId:
        return self.issued.webhook_endpoint_id

    async def append_events(self, count: int = 1, event_type: str = "PASSPORT_SIGNED") -> None:
        async with self.database.tenant(self.tenant) as conn:
            for number in range(count):
                aggregate, payload = clock.new_id(), {"number": number}
                event = await append_and_announce(
                    conn, self.act, self.tenant, "PassportVersion", aggregate, event_type, payload
                )
                self.events.append(event)

    async def run_worker(self, seconds: float = 60) -> None:
        """Let a worker do all there is to do."""
        async with run_worker(self.jobs):
            await wait_until_all_over(self.jobs, self.tenant, seconds)

    async def run_due_jobs(self, superuser: Admin) -> None:
        """Let a worker do what is due now. What is due later stays queued."""
        async with run_worker(self.jobs), asyncio.timeout(60):
            while await superuser.fetchval(COUNT_DUE):
                await asyncio.sleep(0.005)

    async def deliveries(self) -> list[DeliveryRow]:
        async with self.database.tenant(self.tenant) as conn:
            ids = await conn.fetch(f"{ONLY} ORDER BY created_at, webhook_delivery_id")
            return [await deliveries.get_delivery(conn, self.tenant, WebhookDeliveryId(row[0])) for row in ids]

    async def delivery(self) -> DeliveryRow:
        [only_delivery] = await self.deliveries()
        return only_delivery

    async def job_status(self) -> str:
        async with self.database.tenant(self.tenant) as conn:
            return str(
                (await queries.get_job(conn, self.tenant, await conn.fetchval("SELECT job_id FROM jobs.job"))).status
            )

    async def cancel(self, reason: str | None = None) -> None:
        """Cancel a job, as people do."""
        async with self.database.tenant(self.tenant) as conn:
            job_id = await conn.fetchval("SELECT job_id FROM jobs.job LIMIT 1")
            await cancel_job(conn, self.tenant, job_id, act=self.act, reason=reason)

    async def run_once(self, **options: Any) -> InlineRun[DeliveryOutcome]:
        """One execution of the only delivery's job, here and now; what it wrote is committed as the engine does."""
        async with self.database.tenant(self.tenant) as conn:
            order = DeliveryOrder(webhook_delivery_id=await conn.fetchval(ONLY))
            return await run_inline(self.handler, order, tenant=self.tenant, conn=conn, **options)


def answer_with(*statuses: int, **headers: str) -> Callable[[ReceivedRequest], Reply]:
    """Answer with these, one after the other, the last for ever."""
    left = list(statuses)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Reply(status=left.pop(0) if len(left) > 1 else left[0], headers=named)


def format_url(address: Address) -> str:
    return address.url or str(address)
