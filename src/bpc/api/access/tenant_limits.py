"""Limits that keep one tenant from taking all of a process.

    HeavyRequestSlots   requests that compute for long: one at a time for a tenant, a few for all tenants
    BodyMemory          bytes of large bodies: half of them for one tenant, all of them for all tenants

A request that cannot be served soon is refused at once with RATE_LIMITED and Retry-After.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from bpc.core.errors import Refusal
from bpc.core.formats.ids import TenantId

MAX_WAITING: Final = 8  # long requests of one tenant, including the one that runs


class RateLimited(Refusal):
    """A tenant or a key has reached its limit."""

    code = "RATE_LIMITED"

    def __init__(self, label: str, seconds: int) -> None:
        super().__init__(
            f"too many {label}",
            fix="wait as long as Retry-After says, then send it again",
            details={"retry_after": seconds},
        )


@dataclass(slots=True)
class _TenantQueue:
    """The long requests of one tenant."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class HeavyRequestSlots:
    """Slots for requests that compute for long; a tenant has at most one."""

    def __init__(self, count: int) -> None:
        self._all = asyncio.Semaphore(count)
        self._queues: dict[TenantId, _TenantQueue] = {}

    @asynccontextmanager
    async def take(self, tenant: TenantId) -> AsyncIterator[None]:
        """Wait for a slot and keep it until the block ends."""
        queue = self._queues.setdefault(tenant, _TenantQueue())
        if queue.waiting >= MAX_WAITING:
            raise RateLimited("long requests at the same time", 10)
        queue.waiting += 1
        try:
            async with queue.turn, self._all:
                yield
        finally:
            queue.waiting -= 1
            if not queue.waiting:
                del self._queues[tenant]

    def count_waiting(self, tenant: TenantId) -> int:
        """Count the requests of the tenant that have a slot or wait for one."""
        return self._queues[tenant].waiting if tenant in self._queues else 0


class BodyMemory:
    """Memory for large bodies. Bytes are counted as they arrive, not by Content-Length."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: Counter[TenantId] = Counter()

    def take(self, tenant: TenantId, size: int) -> None:
        """Take `size` bytes, or raise `RateLimited`."""
        if self._taken[tenant] + size > self._size // 2 or self._taken.total() + size > self._size:
            raise RateLimited("large requests at the same time", 5)
        self._taken[tenant] += size

    def release(self, tenant: TenantId, size: int) -> None:
        self._taken[tenant] -= size
        if not self._taken[tenant]:
            del self._taken[tenant]
