"""Both engines keep the promises of `conformance`: jobs in the database, and jobs in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import asyncpg
import pytest
from service_jobs.context import Context
from service_jobs.database import Sessions
from service_jobs.handler import Handler, Handlers
from service_jobs.job import Job, Retry
from service_jobs.memory.engine import MemoryEngine
from service_jobs.service import Jobs
from service_jobs.steps import register_steps
from service_jobs.worker import Worker, WorkerOptions

from bpc.core.formats.ids import TenantId
from bpc.storage.connection import APP_ROLE, SYSTEM_ROLE

pytest.register_assert_rewrite("tests.jobs.conformance")

from tests.jobs.conformance import continuing, failing, stopping, submitting  # noqa: E402 (asserts are rewritten now)
from tests.jobs.conformance.engine import CANCEL_GRACE, STOP_GRACE, Engine, Run  # noqa: E402

pytestmark = pytest.mark.external
for module in (submitting, failing, stopping, continuing):
    globals().update({name: test for name, test in vars(module).items() if name.startswith("test_")})

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)
Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class SharedEngine:
    """What both adapters have in common: handlers, tenants, and a table for effects."""

    restartable: bool

    def __init__(self, handlers: Handlers, sessions: Sessions, tenant: UUID, other_tenant: UUID) -> None:
        self.handlers = handlers
        self.sessions = sessions
        self.tenant = tenant
        self.other_tenant = other_tenant

    def job(
        self,
        job_type: str,
        *,
        retry: Retry = Retry(),  # noqa: B008 (frozen)
        timeout: float | None = 30.0,
        ttl: timedelta | None = None,
    ) -> Callable[[Run[I, O]], Handler[I, O]]:
        return self.handlers.job(
            job_type.replace(" ", "."), retry=retry, timeout=timeout, ttl=ttl, restartable=self.restartable
        )

    def steps(self, job_type: str, *steps: Callable[[Context, Any], Awaitable[Any]], retry: Retry) -> Handler[Any, Any]:
        return register_steps(self.handlers, job_type, *steps, retry=retry, restartable=self.restartable)

    async def note(self, ctx: Context, text: str) -> None:
        await (await ctx.transaction()).execute("INSERT INTO public.notes VALUES ($1)", text)

    async def notes(self) -> list[str]:
        async with self.sessions.acquire() as conn:
            return [row["text"] for row in await conn.fetch('SELECT text FROM public.notes ORDER BY text COLLATE "C"')]


class MemoryConformance(SharedEngine):
    restartable = False

    def __init__(self, *shared: Any) -> None:
        super().__init__(*shared)
        self.engine = self._engine(4)

    def _engine(self, concurrency: int) -> MemoryEngine:
        return MemoryEngine(
            self.handlers,
            concurrency=concurrency,
            cancel_grace=CANCEL_GRACE,
            transaction=self.sessions.tenant,
        )

    async def start(self, concurrency: int = 4) -> None:
        self.engine.concurrency = concurrency
        self.engine.start()

    async def stop(self) -> None:
        await self.engine.stop(STOP_GRACE)

    async def submit(self, handler: Handler[I, Any], value: I, *, tenant: UUID | None = None, **how: Any) -> UUID:
        return self.engine.submit(handler, value, tenant=tenant or self.tenant, **how)

    async def get_job(self, job_id: UUID, tenant: UUID | None = None) -> Job:
        return self.engine.get_job(tenant or self.tenant, job_id)

    async def list_jobs(self, tenant: UUID | None = None, **filters: Any) -> list[Job]:
        return [*self.engine.list_jobs(tenant or self.tenant, **filters)]

    async def get_result(self, job_id: UUID, tenant: UUID | None = None) -> Any:
        return self.engine.get_result_value(tenant or self.tenant, job_id)[1]

    async def cancel(self, job_id: UUID, tenant: UUID | None = None) -> None:
        self.engine.cancel(tenant or self.tenant, job_id)

    async def redrive(self, job_id: UUID, tenant: UUID | None = None) -> None:
        self.engine.redrive(tenant or self.tenant, job_id)


class PostgresConformance(SharedEngine):
    restartable = True

    def __init__(self, *shared: Any) -> None:
        super().__init__(*shared)
        self.jobs = Jobs(self.handlers, self.sessions)
        self.worker: Worker | None = None
        self.working: asyncio.Task[None] | None = None

    async def start(self, concurrency: int = 4) -> None:
        options = WorkerOptions(concurrency=concurrency, poll=0.05, cancel_grace=CANCEL_GRACE, stop_grace=STOP_GRACE)
        self.worker = Worker(self.jobs, options)
        self.working = asyncio.create_task(self.worker.run())

    async def stop(self) -> None:
        if self.worker is not None and self.working is not None:
            self.worker.stop()
            await self.working

    async def submit(self, handler: Handler[I, Any], value: I, *, tenant: UUID | None = None, **how: Any) -> UUID:
        return await self.jobs.submit(handler, value, tenant=tenant or self.tenant, **how)

    async def get_job(self, job_id: UUID, tenant: UUID | None = None) -> Job:
        return await self.jobs.get_job(tenant or self.tenant, job_id)

    async def list_jobs(self, tenant: UUID | None = None, **filters: Any) -> list[Job]:
        return [*await self.jobs.list_jobs(tenant or self.tenant, **filters)]

    async def get_result(self, job_id: UUID, tenant: UUID | None = None) -> Any:
        job = await self.get_job(job_id, tenant)
        return await self.jobs.get_result(self.handlers[job.type], job.tenant_id, job_id)

    async def cancel(self, job_id: UUID, tenant: UUID | None = None) -> None:
        await self.jobs.cancel(tenant or self.tenant, job_id)

    async def redrive(self, job_id: UUID, tenant: UUID | None = None) -> None:
        await self.jobs.redrive(tenant or self.tenant, job_id)


@pytest.fixture(params=[MemoryConformance, PostgresConformance], ids=["memory", "postgres"])
async def engine(
    request: pytest.FixtureRequest,
    handlers: Handlers,
    sessions: Sessions,
    superuser: Superuser,
    tenant: TenantId,
    other_tenant: TenantId,
) -> AsyncIterator[Engine]:
    await superuser.execute("CREATE TABLE public.notes (text text NOT NULL)")
    await superuser.execute(f"GRANT SELECT, INSERT ON public.notes TO {APP_ROLE}, {SYSTEM_ROLE}")
    conforming_engine = request.param(handlers, sessions, tenant, other_tenant)
    yield conforming_engine
    await conforming_engine.stop()
