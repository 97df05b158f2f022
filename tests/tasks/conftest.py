"""Fixtures of the tests of webhook deliveries."""

from collections.abc import AsyncIterator

import pytest
from service_jobs import Handlers, Jobs

from bpc.core.audit.events import Act
from bpc.core.formats.ids import (
    TenantId,
)
from bpc.core.webhooks import WEBHOOK_TYPES
from bpc.outbound import Guard
from bpc.runtime.telemetry import JobMetrics
from bpc.storage.database import Database
from bpc.storage.jobs import open_job_sessions
from bpc.storage.webhooks import endpoints
from bpc.tasks.deliver_webhooks import declare_deliver_job
from tests.outbound.receiver import Receiver
from tests.tasks.delivery_rig import DeliveryRig


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as started:
        yield started


@pytest.fixture
def send_seconds() -> float:
    """How long a delivery may take. A test in which the receiver does not answer sets a short time."""
    return 30.0


@pytest.fixture
async def rig(
    database: Database, tenant: TenantId, act: Act, receiver: Receiver, send_seconds: float
) -> AsyncIterator[DeliveryRig]:
    handlers = Handlers()
    guard = Guard(allow=("127.0.0.1",), https_only=False, max_seconds=send_seconds)
    handler = declare_deliver_job(handlers, guard=guard, open_transaction=database.tenant, metrics=JobMetrics())
    async with database.tenant(tenant) as conn:
        issued = await endpoints.create_endpoint(conn, tenant, url=receiver.url, act=act)
        for webhook_type in sorted(set(WEBHOOK_TYPES.values())):  # several events may have one type
            await endpoints.subscribe(conn, tenant, issued.webhook_endpoint_id, webhook_type, act=act)
    async with open_job_sessions(database) as sessions:
        yield DeliveryRig(database, tenant, act, receiver, Jobs(handlers, sessions), handler, issued)
