"""Fixtures of the tests of the steps: the jobs, and everything that a passport is compiled from."""

from collections.abc import AsyncIterator

import pytest
from service_jobs import Jobs

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from bpc.storage.jobs import open_job_sessions
from tests.pipeline.compile_fixtures import CompileInputs, PipelineRunner, create_compile_inputs, make_runner


@pytest.fixture
async def inputs(database: Database, tenant: TenantId, act: Act) -> CompileInputs:
    async with database.tenant(tenant) as conn:
        return await create_compile_inputs(conn, tenant, act)


@pytest.fixture
async def runner(database: Database, act: Act) -> PipelineRunner:
    return await make_runner(database, act)


@pytest.fixture
async def jobs(database: Database, runner: PipelineRunner) -> AsyncIterator[Jobs]:
    async with open_job_sessions(database) as sessions:
        opened = Jobs(runner.handlers, sessions)
        yield opened
        await opened.close()
