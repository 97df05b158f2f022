"""Jobs that need other jobs, and what a test does with them."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
from service_jobs.context import Connection
from service_jobs.handler import Handler
from service_jobs.service import Jobs
from service_jobs.worker import claims
from service_jobs.worker.lanes import Lane

SETTLE = "SELECT jobs.settle($1, $2, 'w', $3, $4, $5, NULL, 0)"
PLACES = """
    SELECT j.job_id,
           CASE WHEN l.job_id IS NOT NULL THEN 'runs' WHEN r.job_id IS NOT NULL THEN 'ready'
                WHEN w.job_id IS NOT NULL THEN 'later' WHEN j.status <> 'QUEUED' THEN j.status
                WHEN EXISTS (SELECT FROM jobs.job_dependency d WHERE d.job_id = j.job_id AND NOT d.met) THEN 'blocked'
                ELSE 'nowhere' END AS place
      FROM jobs.job j
      LEFT JOIN jobs.job_lease l ON l.job_id = j.job_id
      LEFT JOIN jobs.job_ready r ON r.job_id = j.job_id
      LEFT JOIN jobs.job_later w ON w.job_id = j.job_id
     WHERE j.tenant_id = $1
"""
ERROR = """
    SELECT last_error ->> 'code', last_error ->> 'message', last_error ->> 'because_of' FROM jobs.job WHERE job_id = $1
"""
WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
CHAIN = """
    WITH job AS (
      INSERT INTO jobs.job (tenant_id, job_id, type, max_attempts, awaited, payload, created_at, scheduled_at,
                            keep_seconds)
      SELECT $1, job_id, 'work', 5, true, 'null', jobs.clock(), jobs.clock(), 60 FROM unnest($3::uuid[]) AS job_id)
    INSERT INTO jobs.job_dependency (tenant_id, job_id, needs_id)
    SELECT $1, job_id, needs_id FROM unnest($3::uuid[], $2::uuid[]) AS link (job_id, needs_id)
"""
BLOCKED_SESSIONS = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ANY ($1)"


class DependencyScenario:
    """One tenant's jobs, with a worker that does what it is told."""

    def __init__(self, jobs: Jobs, handler: Handler[None, None], tenant: UUID, worker: Connection) -> None:
        self._jobs = jobs
        self._handler = handler
        self._worker = worker
        self.tenant = tenant

    async def submit(self, *needs: UUID, **how: Any) -> UUID:
        return await self._jobs.submit(self._handler, None, tenant=self.tenant, depends_on=needs, **how)

    async def submit_many(self, count: int, *needs: UUID, **how: Any) -> list[UUID]:
        return await self._jobs.submit_many(self._handler, [None] * count, tenant=self.tenant, depends_on=needs, **how)

    async def start_all(self) -> None:
        """Claim all that is ready."""
        lanes = [(Lane(self.tenant, "", priority), 1000) for priority in range(4)]
        await claims.complete_and_claim(self._worker, "w", [], lanes, ["work"], 60.0)

    async def end(self, job: UUID, ending: str = "SUCCEEDED", conn: Connection | None = None) -> str:
        """End a job that runs."""
        on = conn or self._worker
        attempt = await on.fetchval("SELECT attempt FROM jobs.job_lease WHERE job_id = $1", job)
        result = "1" if ending == "SUCCEEDED" else None
        became: str = await on.fetchval(SETTLE, self.tenant, job, attempt, ending, result)
        return became

    async def run(self, job: UUID, ending: str = "SUCCEEDED") -> str:
        await self.start_all()
        return await self.end(job, ending)

    async def complete(self, *jobs: UUID) -> frozenset[UUID]:
        """Complete jobs that run, as a worker does: all in one statement. Returns those that were refused."""
        done = [claims.Completion(self.tenant, job, 1, "1") for job in sorted(jobs)]
        refused, _ = await claims.complete_and_claim(self._worker, "w", done, [], ["work"], 60.0)
        return refused

    async def cancel(self, job: UUID) -> str:
        async with self._jobs.sessions.tenant(self.tenant) as conn:
            became: str = await conn.fetchval("SELECT jobs.cancel($1, $2, NULL)", self.tenant, job)
            return became

    async def redrive(self, job: UUID) -> str:
        async with self._jobs.sessions.tenant(self.tenant) as conn:
            became: str = await conn.fetchval("SELECT jobs.redrive($1, $2)", self.tenant, job)
            return became

    async def list_places(self, *jobs: UUID) -> list[str]:
        place_by_job = {row["job_id"]: row["place"] for row in await self._worker.fetch(PLACES, self.tenant)}
        return [place_by_job[job] for job in jobs]


async def wait_until_waiting(watch: Connection, *waiting: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Return when all of these sessions wait for a lock."""
    pids = [conn.get_server_pid() for conn in waiting]
    async with asyncio.timeout(60):
        while await watch.fetchval(BLOCKED_SESSIONS, pids) < len(pids):
            await asyncio.sleep(0.01)


async def wait_until_lock_waiter(superuser: Connection) -> None:
    async with asyncio.timeout(60):
        while not await superuser.fetchval(WAITING):
            await asyncio.sleep(0.01)
            await superuser.execute("SELECT pg_stat_clear_snapshot()")  # it may be in a transaction
