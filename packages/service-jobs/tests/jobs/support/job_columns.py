"""What tests of workers share: a quick retry, and a column of a job."""

from uuid import UUID

from service_jobs.job import Retry
from service_jobs.service import Jobs

SOON = Retry(attempts=5, first_delay=0.02, longest_delay=0.02)


async def fetch_column(jobs: Jobs, tenant: UUID, job_id: UUID, name: str) -> object:
    async with jobs.sessions.tenant(tenant) as conn:
        return await conn.fetchval(f"SELECT {name} FROM jobs.job WHERE tenant_id = $1 AND job_id = $2", tenant, job_id)
