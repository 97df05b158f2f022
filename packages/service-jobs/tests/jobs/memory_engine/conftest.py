"""The in-memory engine with a clock that stands still, and two handlers."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from service_jobs.context import Context
from service_jobs.handler import Handler, Handlers
from service_jobs.memory.engine import MemoryEngine
from tests.jobs.memory_engine.manual_clock import ManualClock, RecordingDatabase


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def database() -> RecordingDatabase:
    return RecordingDatabase()


@pytest.fixture
async def engine(handlers: Handlers, clock: ManualClock, database: RecordingDatabase) -> AsyncIterator[MemoryEngine]:
    memory_engine = MemoryEngine(handlers, capacity=3, concurrency=1, clock=clock, transaction=database.transaction)
    yield memory_engine
    stopping = asyncio.create_task(memory_engine.stop(grace=0))
    while not stopping.done():
        await clock.move(60)


@pytest.fixture
def wait(handlers: Handlers) -> Handler[str, str]:
    """A handler whose jobs run until they are interrupted."""

    @handlers.job("wait", restartable=False, timeout=None)
    async def wait(ctx: Context, name: str) -> str:
        await asyncio.Event().wait()
        return name

    return wait


@pytest.fixture
def echo(handlers: Handlers) -> Handler[str, str]:
    @handlers.job("echo", restartable=False)
    async def echo(ctx: Context, name: str) -> str:
        return name

    return echo
