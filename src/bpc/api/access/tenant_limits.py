"""Shares: what a process has little of, shared between tenants so that none can take it all.

    Places   for requests that compute for long: one at a time for a tenant, a few for all
    Room     for large bodies: half of the bytes for a tenant, all for all

Who cannot be served soon is told so at once, and when to come again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from bpc.core.errors import Refusal
from bpc.core.ids import TenantId

MOST_WAITING: Final = 8  # long requests of one tenant, the one that runs among them


class TooManyAtOnce(Refusal):
    """A tenant's share is used up."""

    code = "RATE_LIMITED"

    def __init__(self, what: str, seconds: int) -> None:
        super().__init__(
            f"too many {what} at the same time",
            fix="wait as long as Retry-After says, then send it again",
            details={"retry_after": seconds},
        )


@dataclass(slots=True)
class _Queue:
    """The long requests of one tenant."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class Places:
    """So many requests at a time, and of each tenant one."""

    def __init__(self, count: int) -> None:
        self._all = asyncio.Semaphore(count)
        self._queues: dict[TenantId, _Queue] = {}

    @asynccontextmanager
    async def of(self, tenant: TenantId) -> AsyncIterator[None]:
        """Wait for a place, and have it until the block ends."""
        queue = self._queues.setdefault(tenant, _Queue())
        if queue.waiting >= MOST_WAITING:
            raise TooManyAtOnce("long requests", 10)
        queue.waiting += 1
        try:
            async with queue.turn, self._all:
                yield
        finally:
            queue.waiting -= 1
            if not queue.waiting:
                del self._queues[tenant]

    def waiting(self, tenant: TenantId) -> int:
        """Requests of the tenant that have a place or wait for one."""
        return self._queues[tenant].waiting if tenant in self._queues else 0


class Room:
    """So many bytes for all, half of them for one tenant; counted as they arrive, whatever was announced."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: Counter[TenantId] = Counter()

    def take(self, tenant: TenantId, size: int) -> None:
        """Take `size` bytes, or raise `TooManyAtOnce`."""
        if self._taken[tenant] + size > self._size // 2 or self._taken.total() + size > self._size:
            raise TooManyAtOnce("large requests", 5)
        self._taken[tenant] += size

    def give_back(self, tenant: TenantId, size: int) -> None:
        self._taken[tenant] -= size
        if not self._taken[tenant]:
            del self._taken[tenant]
