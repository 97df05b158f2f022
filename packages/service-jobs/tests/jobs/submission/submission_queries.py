"""What tests of submitting ask the database, and the input of a job."""

import asyncio
from uuid import UUID

from pydantic import BaseModel
from service_jobs.context import Connection
from service_jobs.service import Jobs

QUEUED = "SELECT job_id FROM jobs.job WHERE tenant_id = $1 ORDER BY job_id"
IN_TURN = "SELECT job_id FROM jobs.job_ready WHERE tenant_id = $1 ORDER BY seq"
PAYLOADS = "SELECT job_id, payload::text AS payload FROM jobs.job WHERE tenant_id = $1"
SLOTS = "SELECT slot FROM jobs.job_slot WHERE tenant_id = $1 AND limit_key = $2 ORDER BY slot"
WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class Page(BaseModel):
    """What a `print` job takes."""

    number: int


async def count_jobs(jobs: Jobs, tenant: UUID, query: str, *more: object) -> list[UUID]:
    async with jobs.sessions.tenant(tenant) as conn:
        return [row[0] for row in await conn.fetch(query, tenant, *more)]


async def wait_until_lock_waiter(superuser: Connection) -> None:
    """Return when a session of this database waits for a lock."""
    async with asyncio.timeout(60):
        while not await superuser.fetchval(WAITING):
            await asyncio.sleep(0.01)
            await superuser.execute("SELECT pg_stat_clear_snapshot()")  # it may be in a transaction
