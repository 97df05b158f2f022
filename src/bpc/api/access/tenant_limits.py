"""Limits that keep one tenant from taking all of a process.

    HeavyRequestSlots   requests that compute for long: one at a time for a tenant, a few for all tenants
    TenantMemory        bytes of large bodies, or of large answers: half for one tenant, all of them for all tenants
    RequestTurns        requests that hold a connection of the database: half of the pool for one tenant

The processor of the event loop is shared by bpc.api.access.loop_shares.

A request that cannot be served soon is refused at once with RATE_LIMITED and Retry-After.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeAlias

from bpc.core.errors import Refusal
from bpc.core.formats.ids import TenantId

MAX_WAITING: Final = 8  # long requests of one tenant, including the one that runs
MAX_WAITING_TURNS: Final = 64  # requests of one tenant that wait for a turn
Payer: TypeAlias = TenantId | str  # who a request is counted for: a tenant, or the address of a stranger
ACTIVE_SECONDS: Final = 5.0  # so long after its last request a tenant counts as active


class RateLimited(Refusal):
    """A tenant or a key has reached its limit."""

    code = "RATE_LIMITED"

    def __init__(self, label: str, seconds: int) -> None:
        super().__init__(
            f"too many {label}",
            fix="wait as long as Retry-After says, then send it again",
            details={"retry_after": seconds},
        )


class TenantActivity:
    """Which tenants sent a request lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[Payer, float] = OrderedDict()  # in the order of their last request

    def note_request(self, tenant: Payer) -> None:
        self._seen[tenant] = self._clock()
        self._seen.move_to_end(tenant)
        oldest = next(iter(self._seen))
        if self._seen[oldest] < self._clock() - ACTIVE_SECONDS:
            del self._seen[oldest]

    def has_others(self, tenant: Payer) -> bool:
        """Whether another tenant is active."""
        newest = islice(reversed(self._seen.items()), 2)
        return any(other != tenant and at > self._clock() - ACTIVE_SECONDS for other, at in newest)

    def count_active(self) -> int:
        oldest_that_counts = self._clock() - ACTIVE_SECONDS
        return sum(at > oldest_that_counts for at in self._seen.values())


@dataclass(slots=True)
class _TenantQueue:
    """The long requests of one tenant."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class HeavyRequestSlots:
    """Slots for requests that compute for long; a tenant has at most one. `label` names them."""

    def __init__(self, count: int, *, most_waiting: int = MAX_WAITING, label: str = "long requests") -> None:
        self._all = asyncio.Semaphore(count)
        self._most_waiting = most_waiting
        self._label = label
        self._queues: dict[TenantId, _TenantQueue] = {}

    @asynccontextmanager
    async def take(self, tenant: TenantId) -> AsyncIterator[None]:
        """Wait for a slot and keep it until the block ends."""
        queue = self._queues.setdefault(tenant, _TenantQueue())
        if queue.waiting >= self._most_waiting:
            raise RateLimited(f"{self._label} at the same time", 10)
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


class TenantMemory:
    """Memory for large bodies or answers. `label` names them. Bytes are counted as they arrive."""

    def __init__(self, size: int, label: str = "large requests") -> None:
        self._size = size
        self._label = label
        self._taken: Counter[TenantId] = Counter()

    def take(self, tenant: TenantId, size: int) -> None:
        """Take `size` bytes, or raise `RateLimited`. A tenant that has nothing gets what is left, if that is enough."""
        is_first = not self._taken[tenant]
        most = self._size if is_first else self._size // 2
        if self._taken[tenant] + size > most or self._taken.total() + size > self._size:
            raise RateLimited(f"{self._label} at the same time", 5)
        self._taken[tenant] += size

    def release(self, tenant: TenantId, size: int) -> None:
        self._taken[tenant] -= size
        if not self._taken[tenant]:
            del self._taken[tenant]

    def count_taken(self) -> int:
        """Count the bytes that all tenants hold."""
        return self._taken.total()


@dataclass(slots=True)
class _TenantTurns:
    """The requests of one tenant that have their turn, and those that wait for theirs."""

    running: int = 0
    waiting: "deque[asyncio.Future[None]]" = field(default_factory=deque)


class RequestTurns:
    """Turns to hold a connection. A tenant has half of them while others are active, and never all.

    Requests whose key is not known yet belong to no tenant. Together they have a quarter. So has each address from
    which public pages are read.
    """

    def __init__(self, pool_size: int, activity: TenantActivity) -> None:
        self._shared = max(1, pool_size // 2)
        self._alone = max(1, pool_size - 2)
        self._strangers = max(1, pool_size // 4)
        self._activity = activity
        self._tenants: dict[Payer | None, _TenantTurns] = {}

    @asynccontextmanager
    async def take(self, tenant: Payer | None) -> AsyncIterator[None]:
        """Wait for a turn and keep it until the block ends. Raises `RateLimited` if too many wait."""
        turns = self._tenants.setdefault(tenant, _TenantTurns())
        if turns.waiting or turns.running >= self._count_turns(tenant):
            await self._wait(tenant, turns)
        else:
            turns.running += 1
        try:
            yield
        finally:
            self._give_back(tenant, turns)

    def count_running(self, tenant: Payer | None) -> int:
        """Count the requests of the tenant that have their turn."""
        return self._tenants[tenant].running if tenant in self._tenants else 0

    def _count_turns(self, tenant: Payer | None) -> int:
        if tenant is None or isinstance(tenant, str):
            return self._strangers
        return self._shared if self._activity.has_others(tenant) else self._alone

    async def _wait(self, tenant: Payer | None, turns: _TenantTurns) -> None:
        if len(turns.waiting) >= MAX_WAITING_TURNS:
            raise RateLimited("requests at the same time", 1)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turns.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given the turn at the same moment: the next one has it
                self._give_back(tenant, turns)
            else:
                with suppress(ValueError):  # whoever gave a turn back at the same moment has passed over it
                    turns.waiting.remove(turn)
            raise

    def _give_back(self, tenant: Payer | None, turns: _TenantTurns) -> None:
        turns.running -= 1
        while turns.waiting and turns.running < self._count_turns(tenant):
            turn = turns.waiting.popleft()
            if not turn.done():
                turns.running += 1
                turn.set_result(None)
        if not turns.running and not turns.waiting:
            self._tenants.pop(tenant, None)
