"""The engine's clock in the hands of a test: `jobs.clock()` of the test's own database is replaced.

    async def test_…(clock: Clock):           the fixture, made of the `superuser` connection
        await clock.step(3600)                an hour later; time goes on from there
        await clock.stop_at(NOON)             and now it stands still
        await clock.step(60)                  until it is moved

Every session sees the new time from its next statement on. Nothing is put back: the database ends with the test.
"""

from datetime import datetime, timedelta

import asyncpg
import pytest

REPLACE = "CREATE OR REPLACE FUNCTION jobs.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$ SELECT {} $$"


class DatabaseClock:
    """Steps the clock of one database. `conn` must be allowed to replace the function."""

    def __init__(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._conn = conn
        self._ahead = timedelta()
        self._stopped: datetime | None = None

    async def now(self) -> datetime:
        moment = await self._conn.fetchval("SELECT jobs.clock()")
        assert isinstance(moment, datetime)
        return moment

    async def step(self, seconds: float) -> None:
        """Move on by `seconds`, or back if they are negative."""
        if self._stopped is not None:
            await self.stop_at(self._stopped + timedelta(seconds=seconds))
        else:
            self._ahead += timedelta(seconds=seconds)
            await self._replace(f"clock_timestamp() + make_interval(secs => {self._ahead.total_seconds()!r})")

    async def stop_at(self, moment: datetime) -> None:
        """It is `moment` until somebody steps the clock."""
        assert moment.tzinfo is not None
        self._stopped = moment
        await self._replace(f"timestamptz '{moment.isoformat()}'")

    async def _replace(self, body: str) -> None:
        await self._conn.execute(REPLACE.format(body))


@pytest.fixture
async def clock(superuser: "asyncpg.Connection[asyncpg.Record]") -> DatabaseClock:
    """Import it where it is used: `from tests.jobs.support.database_clock import Clock, clock  # noqa: F401`."""
    return DatabaseClock(superuser)
