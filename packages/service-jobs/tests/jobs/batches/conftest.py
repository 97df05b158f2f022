"""A handler, and a session that sees all tenants."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from service_jobs.context import Context
from service_jobs.database import Sessions
from service_jobs.handler import Handler, Handlers


@pytest.fixture
def double(handlers: Handlers) -> Handler[int, int]:
    @handlers.job("double")
    async def double(ctx: Context, number: int) -> int:
        return 2 * number

    return double


@pytest.fixture
async def worker(sessions: Sessions) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A session as the chores get it."""
    conn = await sessions.connect_worker("test")
    yield conn
    await conn.close()
