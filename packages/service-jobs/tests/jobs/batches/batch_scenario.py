"""What tests of batches submit, and how they look at them."""

from typing import Any
from uuid import UUID

import asyncpg
from service_jobs import batches
from service_jobs.batches import Batch, BatchFinisher, SubmittedBatch
from service_jobs.database import Sessions
from service_jobs.handler import Handler
from service_jobs.job import BatchId, new_ids
from service_jobs.job_spec import BatchFollowUp, JobSpec, SubmitOptions

SUMMARY = BatchFollowUp(type="summary", payload='{"of":"them"}', priority=1, max_attempts=3, keep_seconds=60)


def build_specs(handler: Handler[int, int], count: int, **options: Any) -> list[JobSpec]:
    return [
        JobSpec(handler=handler, job_id=job_id, payload=handler.encode_input(n), **options)
        for n, job_id in enumerate(new_ids(count))
    ]


def build_options(tenant: UUID, **options: Any) -> SubmitOptions:
    named: dict[str, Any] = {"type": "double", "priority": 2, "max_attempts": 5, "keep_seconds": 86_400} | options
    return SubmitOptions(tenant=tenant, **named)


async def submit_batch(sessions: Sessions, tenant: UUID, some: list[JobSpec], **options: Any) -> SubmittedBatch:
    async with sessions.tenant(tenant) as conn:
        return await batches.submit_batch(conn, build_options(tenant), some, **options)


async def get_batch(sessions: Sessions, tenant: UUID, batch_id: UUID) -> Batch:
    async with sessions.tenant(tenant) as conn:
        return await batches.get_batch(conn, tenant, batch_id)


async def finish_batches(conn: "asyncpg.Connection[asyncpg.Record]") -> list[BatchId]:
    """One run of the chore by somebody who remembers nothing."""
    return await BatchFinisher().run(conn)


def get_counts(batch: Batch) -> tuple[int, int, int, int, int]:
    return batch.queued, batch.running, batch.succeeded, batch.failed, batch.cancelled
