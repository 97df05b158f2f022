"""What the tests of the in-memory engine share: a clock that a test moves, and a database that records calls."""

import asyncio
import contextlib
import heapq
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

ACME, RIVAL = UUID(int=1), UUID(int=2)
NOON = datetime(2027, 2, 18, 12, tzinfo=UTC)


class ManualClock:
    """Stands still until it is moved; then everything happens that was due, in order."""

    def __init__(self) -> None:
        self._now = NOON
        self._timers: list[tuple[datetime, int, ManualTimer]] = []
        self._order = count()

    def now(self) -> datetime:
        return self._now

    def call_after(self, seconds: float, call: Callable[[], object]) -> "ManualTimer":
        timer = ManualTimer(call)
        heapq.heappush(self._timers, (self._now + timedelta(seconds=seconds), next(self._order), timer))
        return timer

    async def move(self, seconds: float) -> None:
        until = self._now + timedelta(seconds=seconds)
        await wait_until_settled()
        while self._timers and self._timers[0][0] <= until:
            self._now, _, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                timer.call()
            await wait_until_settled()
        self._now = until


class ManualTimer:
    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None


async def wait_until_settled() -> None:
    """Everything that can happen at this moment has happened."""
    for _ in range(30):
        await asyncio.sleep(0)


class RecordingDatabase:
    """A database that remembers which transactions were committed."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refuses = 0

    @contextlib.asynccontextmanager
    async def transaction(self, tenant: UUID) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        self.log.append("begin")
        try:
            yield self
        except BaseException:
            self.log.append("rollback")
            raise
        if self.refuses:
            self.refuses -= 1
            raise OSError("the commit was refused")
        self.log.append("commit")
