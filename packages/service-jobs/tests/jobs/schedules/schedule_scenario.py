"""What tests of schedules put, and how they look at it."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from service_jobs import schedules
from service_jobs.database import Sessions
from service_jobs.schedules import Schedule, StoredSchedule

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOURLY = Schedule(name="hourly", cron="0 * * * *", type="report", payload='{"of":"all"}', priority=1)


async def put_schedule(sessions: Sessions, tenant: UUID, schedule: Schedule) -> StoredSchedule:
    async with sessions.tenant(tenant) as conn:
        return await schedules.put_schedule(conn, tenant, schedule)


async def get_only_schedule(sessions: Sessions, tenant: UUID) -> StoredSchedule:
    async with sessions.tenant(tenant) as conn:
        [stored] = await schedules.list_schedules(conn, tenant)
        return stored


async def list_keys(sessions: Sessions, tenant: UUID) -> list[str]:
    async with sessions.tenant(tenant) as conn:
        rows = await conn.fetch("SELECT idempotency_key FROM jobs.job WHERE tenant_id = $1 ORDER BY 1", tenant)
        return [row["idempotency_key"] for row in rows]
