"""A session that sees all tenants, and the clock of the database."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from service_jobs.database import Sessions
from tests.jobs.support.database_clock import clock

__all__ = ["clock"]


@pytest.fixture
async def worker(sessions: Sessions) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A session as the chores get it."""
    conn = await sessions.connect_worker("test")
    yield conn
    await conn.close()
