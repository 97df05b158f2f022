"""Two sessions that see all tenants, and a scenario."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from service_jobs.context import Connection, Context
from service_jobs.database import Sessions
from service_jobs.handler import Handler, Handlers
from service_jobs.service import Jobs
from tests.jobs.dependencies.dependency_scenario import DependencyScenario

from bpc.core.formats.ids import TenantId


@pytest.fixture
def work(handlers: Handlers) -> Handler[None, None]:
    @handlers.job("work")
    async def work(ctx: Context, value: None) -> None: ...

    return work


@pytest.fixture
async def worker(sessions: Sessions) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    conn = await sessions.connect_worker("test")
    yield conn
    await conn.close()


@pytest.fixture
async def second(sessions: Sessions) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    conn = await sessions.connect_worker("second")
    yield conn
    await conn.close()


@pytest.fixture
async def scenario(jobs: Jobs, work: Handler[None, None], tenant: TenantId, worker: Connection) -> DependencyScenario:
    return DependencyScenario(jobs, work, tenant, worker)
