"""Jobs at every stage of their life, made by the engine's own functions and without a worker.

[job] = await submitted(sessions, tenant)
await running(sessions, tenant, job, owner="w1")
await ended(sessions, tenant, job, "DEAD_LETTER")      runs it first if it does not run yet
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from service_jobs.context import Connection
from service_jobs.database import Sessions
from service_jobs.job import JobError, new_ids

SUBMIT = """
    SELECT jobs.submit($1, $2, $3, $4, NULL, $5, $6, 2, $7::int::smallint, 5, 86400, NULL, $8, 'corr', 'tester', NULL)
"""
LEASE = """
    WITH taken AS (
      DELETE FROM jobs.job_ready WHERE tenant_id = $1 AND job_id = $2
      RETURNING type, attempt, priority, limit_key)
    INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, started_at, lease_until)
    SELECT $1, $2, type, $3, attempt + 1, priority, limit_key, jobs.clock(), jobs.clock() + $4::interval FROM taken
"""
ATTEMPT = "SELECT owner, attempt FROM jobs.job_lease WHERE tenant_id = $1 AND job_id = $2"
SETTLE = "SELECT jobs.settle($1, $2, $3, $4, $5, $6, $7, 0)"
WORKER = """
    INSERT INTO jobs.job_worker (owner, types, started_at, heartbeat_at) VALUES ($1, $2, jobs.clock(), jobs.clock())
"""
ERROR = JobError(code="INTERNAL_ERROR", message="it broke", retryable=True).to_json()


async def submit_stage_jobs(
    sessions: Sessions,
    tenant: UUID,
    count: int = 1,
    *,
    job_type: str = "work",
    delay: float | None = None,
    limit_key: str | None = None,
    priority: int = 2,
    needs: Sequence[UUID] | None = None,
    payload: str = '{"secret": "hush"}',
) -> list[UUID]:
    async with sessions.tenant(tenant) as conn:
        ids: list[UUID] = await conn.fetchval(
            SUBMIT,
            tenant,
            job_type,
            new_ids(count),
            [payload] * count,
            None if delay is None else [delay] * count,
            None if limit_key is None else [limit_key] * count,
            priority,
            needs,
        )
        return ids


async def start_job(
    sessions: Sessions, tenant: UUID, job: UUID, *, owner: str = "somebody", seconds: float = 60
) -> None:
    worker = await sessions.connect_worker("test")
    try:
        assert await worker.execute(LEASE, tenant, job, owner, timedelta(seconds=seconds)) == "INSERT 0 1"
    finally:
        await worker.close()


async def end_job(
    sessions: Sessions, tenant: UUID, job: UUID, status: str, *, result: str = "null", error: str = ERROR
) -> None:
    async with sessions.tenant(tenant) as conn:
        lease = await conn.fetchrow(ATTEMPT, tenant, job)
    if lease is None:
        await start_job(sessions, tenant, job)
        await end_job(sessions, tenant, job, status, result=result, error=error)
        return
    succeeded = status == "SUCCEEDED"
    result_and_error = (result, None) if succeeded else (None, error)
    async with sessions.tenant(tenant) as conn:
        became = await conn.fetchval(SETTLE, tenant, job, lease["owner"], lease["attempt"], status, *result_and_error)
    assert became == ("QUEUED" if status == "RETRY" else status)


async def register_worker(conn: Connection, owner: str, types: Sequence[str]) -> None:
    """A worker that knows `types` and has just given a sign of life."""
    await conn.execute(WORKER, owner, types)
