"""Webhooks survive a weekend: a receiver that is down from Friday to Monday gets every event afterwards, exactly once.

The engine's clock is stepped from one attempt to the next, with the real policy: nobody waits.
"""

import json
from collections import Counter
from datetime import timedelta

from standardwebhooks import Webhook
from tests.jobs.support.database_clock import DatabaseClock, clock  # noqa: F401

from bpc.storage.webhooks import endpoints
from bpc.storage.webhooks.webhook_retries import ATTEMPTS
from tests.outbound.receiver import ReceivedRequest, Reply
from tests.tasks.delivery_rig import Admin, DeliveryRig

WEEKEND = timedelta(hours=64)  # from Friday 17:00 to Monday 9:00
NEXT_DUE = "SELECT max(scheduled_at) FROM jobs.job_status WHERE status = 'QUEUED'"


class OfficeHours:
    """A receiver with the published package. It is down until it is opened; then it takes each event."""

    def __init__(self, secret: str) -> None:
        self.webhook = Webhook(secret)
        self.is_open = False
        self.attempts: Counter[str] = Counter()
        self.events: Counter[str] = Counter()

    def __call__(self, got: ReceivedRequest) -> Reply:
        self.attempts[got.headers["webhook-id"]] += 1
        if not self.is_open:
            return Reply(status=503)
        self.webhook.verify(got.body, dict(got.headers))  # raises, and answers nothing, if it is not genuine
        self.events[json.loads(got.body)["event_id"]] += 1
        return Reply()


async def test_a_receiver_that_is_down_for_the_weekend_gets_every_event_afterwards(
    rig: DeliveryRig,
    superuser: Admin,
    clock: DatabaseClock,  # noqa: F811 (the fixture)
) -> None:
    office = OfficeHours(rig.issued.secret)
    rig.receiver.reply = office
    friday = await clock.now()
    await rig.append_events(3)

    while (upcoming := await superuser.fetchval(NEXT_DUE)) is not None:
        now = await clock.now()
        if now - friday > WEEKEND / 2 and len(rig.events) == 3:
            await rig.append_events(2)  # on Sunday
        office.is_open = now - friday >= WEEKEND
        await clock.step(max((upcoming - now).total_seconds(), 0) + 0.001)
        await rig.run_due_jobs(superuser)

    assert office.events == Counter(str(event.event_id) for event in rig.events)
    assert len(office.events) == 5
    assert {delivery.status for delivery in await rig.deliveries()} == {"DELIVERED"}
    assert await clock.now() - friday < timedelta(hours=72)
    assert 20 < max(office.attempts.values()) < ATTEMPTS
    async with rig.database.tenant(rig.tenant) as conn:
        endpoint = await endpoints.get_endpoint(conn, rig.tenant, rig.endpoint)
    assert (endpoint.is_active, endpoint.failing_since, endpoint.failed_attempts) == (True, None, 0)
