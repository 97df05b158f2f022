"""Specification of a webhook delivery and its job: the delivery ends with its job, and slow endpoints delay nobody."""

import asyncio
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from asyncpg.transaction import Transaction
from service_jobs import Jobs, Retry
from service_jobs.job import JobConflict
from tests.jobs.support.run_workers import run_worker, wait_until, wait_until_all_over, wait_until_status

from bpc.core.audit.events import Act
from bpc.core.formats.ids import (
    DocumentId,
    DocumentVersionId,
    TenantId,
)
from bpc.pipeline.facts import ParseOrder
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.access import tenants_and_actors
from bpc.storage.database import Database
from bpc.storage.jobs import open_job_sessions
from bpc.storage.webhooks import endpoints
from bpc.tasks.ingest import INGEST_LIMIT, IngestOrder
from bpc.tasks.job_types import declare_job_types
from bpc.worker import run
from tests.measurements import allow_seconds
from tests.outbound.receiver import Reply
from tests.tasks.delivery_rig import ROOT, Admin, DeliveryRig, answer_with, format_url

# Somebody cancelled them while they ran, and then their worker was gone.
LEASED_TO_THE_DEAD = """
    WITH taken AS (DELETE FROM jobs.job_ready RETURNING tenant_id, job_id, type, priority, limit_key)
    INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, started_at, lease_until,
                                cancel_requested)
    SELECT tenant_id, job_id, type, 'gone', 1, priority, limit_key, jobs.clock(), jobs.clock(), true FROM taken
"""


@pytest.fixture
def send_seconds() -> float:
    return 0.5


async def test_a_delivery_ends_when_its_job_is_cancelled_before_it_runs(rig: DeliveryRig) -> None:
    await rig.append_events(2)

    await rig.cancel(reason="not needed any more")

    stopped, waiting = sorted(await rig.deliveries(), key=lambda delivery: delivery.status)
    assert (stopped.status, stopped.attempt, waiting.status) == ("FAILED", 0, "PENDING")
    assert stopped.last_error == {"code": "JOB_CANCELLED", "message": "not needed any more", "retryable": False}


@pytest.mark.parametrize("attempts", [0, 1], ids=["during its first attempt", "between two"])
async def test_a_delivery_ends_when_its_job_is_cancelled_while_it_is_sent(rig: DeliveryRig, attempts: int) -> None:
    rig.receiver.reply = answer_with(503) if attempts else lambda _: Reply(raw=b"", then_wait=True)
    await rig.append_events()

    async with run_worker(rig.jobs):
        await wait_until(lambda: bool(rig.receiver.received))
        async with asyncio.timeout(60):
            while (await rig.delivery()).attempt < attempts:
                await asyncio.sleep(0.01)
        await rig.cancel()
        await wait_until_all_over(rig.jobs, rig.tenant)

    delivery = await rig.delivery()
    assert await rig.job_status() == "CANCELLED"
    assert delivery.status == "FAILED"
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "JOB_CANCELLED"


async def test_deliveries_of_cancelled_jobs_end_when_their_worker_dies(
    rig: DeliveryRig, address: Address, superuser: Admin
) -> None:
    """One of two that is being sent was cancelled, the other one had its last attempt."""
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    await rig.append_events(2)
    await superuser.execute("UPDATE jobs.job SET max_attempts = 1")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.tasks.sender_process", format_url(address), cwd=ROOT
    )
    try:
        await wait_until(lambda: len(rig.receiver.received) == 2)
        process.send_signal(signal.SIGSTOP)  # or it would hear of it
        await rig.cancel()
    finally:
        process.kill()
        await process.wait()

    await rig.run_worker()

    ended = {(one.status, (one.last_error or {})["code"]) for one in await rig.deliveries()}
    assert ended == {("FAILED", "JOB_CANCELLED"), ("FAILED", "JOB_LEASE_LOST")}
    assert len(rig.receiver.received) == 2


async def _hold_delivery(superuser: Admin, delivery: UUID) -> Transaction:
    """A transaction in which somebody has written to a delivery and not gone on."""
    transaction = superuser.transaction()
    await transaction.start()
    await superuser.execute("UPDATE webhook_deliveries SET attempt = attempt WHERE webhook_delivery_id = $1", delivery)
    return transaction


async def test_cancelling_a_job_whose_delivery_is_locked_soon_answers_to_try_again(
    rig: DeliveryRig, superuser: Admin
) -> None:
    await rig.append_events()
    frozen = await _hold_delivery(superuser, (await rig.delivery()).webhook_delivery_id)

    async with asyncio.timeout(10):
        with pytest.raises(JobConflict) as refused:
            await rig.cancel()

    assert refused.value.fix == "try again"
    assert await rig.job_status() == "QUEUED"
    await frozen.rollback()
    await rig.cancel()
    assert (await rig.job_status(), (await rig.delivery()).status) == ("CANCELLED", "FAILED")


async def test_a_frozen_worker_does_not_stop_others_from_ending_the_jobs_of_dead_workers(
    rig: DeliveryRig, superuser: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.append_events(3)
    await superuser.execute(LEASED_TO_THE_DEAD)
    first = await superuser.fetchval("SELECT job_id FROM jobs.job_lease WHERE lease_until < jobs.clock()")
    delivery = await superuser.fetchval(
        "SELECT payload ->> 'webhook_delivery_id' FROM jobs.job WHERE job_id = $1", first
    )
    frozen = await _hold_delivery(superuser, UUID(delivery))

    async with run_worker(rig.jobs):
        async with asyncio.timeout(120):
            while Counter(one.status for one in await rig.deliveries()) != {"FAILED": 2, "PENDING": 1}:
                await asyncio.sleep(0.02)
        await frozen.rollback()
        await wait_until_all_over(rig.jobs, rig.tenant)

    assert {one.status for one in await rig.deliveries()} == {"FAILED"}
    log_messages = [record.getMessage() for record in caplog.records if "cannot be ended yet" in record.getMessage()]
    assert len(log_messages) == 1
    assert log_messages[0].startswith(f"job {first} cannot be ended yet")  # and no heartbeat was missed


async def test_a_cancelled_job_whose_delivery_is_locked_ends_when_the_lock_is_released(
    rig: DeliveryRig, superuser: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    await rig.append_events()
    async with run_worker(rig.jobs):
        await wait_until(lambda: bool(rig.receiver.received))
        frozen = await _hold_delivery(superuser, (await rig.delivery()).webhook_delivery_id)
        await rig.cancel()
        await wait_until(lambda: "1 ends could not be written" in caplog.text)
        assert (await rig.job_status(), (await rig.delivery()).status) == ("RUNNING", "PENDING")
        rig.receiver.reply = answer_with(200)
        await rig.append_events()  # meanwhile it does other things
        await wait_until(lambda: len(rig.receiver.received) == 2)
        await frozen.rollback()
        await wait_until_all_over(rig.jobs, rig.tenant)

    assert sorted(one.status for one in await rig.deliveries()) == ["DELIVERED", "FAILED"]


async def test_a_delivery_ends_when_its_job_takes_too_long(rig: DeliveryRig, superuser: Admin) -> None:
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    rig.handler.timeout = 0.05
    rig.handler.retry = Retry(attempts=2, first_delay=0.0)
    await rig.append_events()
    await superuser.execute("UPDATE jobs.job SET max_attempts = 2")

    await rig.run_worker()

    delivery = await rig.delivery()
    assert (delivery.status, await rig.job_status()) == ("FAILED", "DEAD_LETTER")
    assert delivery.last_error is not None
    assert delivery.last_error["code"] == "JOB_TIMEOUT"


async def test_a_slow_endpoint_does_not_delay_other_tenants(
    rig: DeliveryRig, database: Database, other_tenant: TenantId
) -> None:
    rig.receiver.reply = lambda got: Reply(raw=b"", then_wait=True) if got.target == "/hook" else Reply()
    await rig.append_events(10)
    async with database.tenant(other_tenant) as conn:
        quick = await endpoints.create_endpoint(conn, other_tenant, url=rig.receiver.url + "/quick", act=rig.act)
        queued = await endpoints.send_test_event(conn, other_tenant, quick.webhook_endpoint_id, act=rig.act)

    async with run_worker(rig.jobs):
        await wait_until(lambda: "/hook/quick" in [got.target for got in rig.receiver.received], seconds=10)

    waited_for = [got.headers["webhook-id"] for got in rig.receiver.received]
    assert waited_for.index(str(queued.webhook_delivery_id)) <= 4


async def test_servers_that_do_not_answer_do_not_delay_other_jobs(
    rig: DeliveryRig, database: Database, other_tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    """Of two tenants, webhooks and ingestions each; a third one's document is read at once."""
    rig.receiver.reply = lambda _: Reply(raw=b"", then_wait=True)
    third = await tenants_and_actors.create_tenant(database, slug="third", name="Third", act=act)
    settings = Settings(
        env="test",
        data_dir=tmp_path,
        outbound_allow=("127.0.0.1",),
        jobs_concurrency=1,
        jobs_cpu_processes=1,
        jobs_stop_grace_seconds=1,
    )
    work = declare_job_types(settings, database=database, key_ring=KeyRing({}))
    await rig.append_events(3)
    async with database.tenant(other_tenant) as conn:
        for _ in range(3):
            theirs = await endpoints.create_endpoint(conn, other_tenant, url=rig.receiver.url, act=act)
            await endpoints.send_test_event(conn, other_tenant, theirs.webhook_endpoint_id, act=act)
    async with open_job_sessions(database) as sessions:
        jobs = Jobs(work.handlers, sessions)
        for each in (rig.tenant, other_tenant):
            document = DocumentId(clock.new_id())
            order = IngestOrder(document_id=document, file_url=rig.receiver.url, mime_type=None, actor_id=None)
            for _ in range(3):
                await jobs.submit(work.task_jobs.ingest, order, tenant=each, limit=INGEST_LIMIT)
        async with run.run_worker(settings, database, key_ring=KeyRing({})):
            await wait_until(lambda: len(rig.receiver.received) == 8)
            began = time.monotonic()
            unknown = ParseOrder(document_version_id=DocumentVersionId(clock.new_id()), actor_id=None)
            job = await jobs.submit(work.pipeline_jobs.parse, unknown, tenant=third)
            await wait_until_status(jobs, third, job, "FAILED", seconds=allow_seconds(5))
            assert time.monotonic() - began < allow_seconds(5)

    assert len(rig.receiver.received) == 8  # two of each kind and tenant
