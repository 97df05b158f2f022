"""Record denied access as audit events, each in its own transaction, at a bounded rate.

At most ten events a second for each actor, and over a longer time one in half a minute; a tenant has ten times that
for all its actors. Further denials are counted, and the count is written as one event within a second. While they go
on, that second doubles, up to five minutes: a revoked key that is tried for a day writes a few thousand events, however
often and however slowly it is tried.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from bpc.core.audit.events import Act, EventStream
from bpc.core.errors import Refusal
from bpc.core.formats.ids import ActorId, AggregateId, TenantId
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.storage.audit import events
from bpc.storage.database import Database

MAX_PER_WINDOW: Final = 10
WINDOW_SECONDS: Final = 1.0
LONGEST_FACTOR: Final = 300  # of the window, while denials go on
ACTOR_BURST: Final = 200  # events of an actor, which fill up again
ACTOR_SECONDS: Final = 30.0  # until there is one more
TENANT_FACTOR: Final = 10  # what a tenant may write, for all its actors
MAX_REMEMBERED: Final = 10_000  # actors and tenants
log = get_logger(__name__)


@dataclass(slots=True)
class _RecentDenials:
    """When the last denials of an actor were written, and how many more are only counted."""

    written: deque[float] = field(default_factory=deque)
    suppressed: int = 0
    factor: int = 1

    @property
    def window(self) -> float:
        """Seconds in which at most so many are written."""
        return WINDOW_SECONDS * self.factor

    def take_count(self) -> int:
        """How many were only counted; if there were any, the next window is longer."""
        count, self.suppressed = self.suppressed, 0
        self.factor = min(2 * self.factor, LONGEST_FACTOR) if count else 1
        return count

    def try_take(self, now: float) -> bool:
        self.forget(now)
        if len(self.written) >= MAX_PER_WINDOW:
            return False
        self.written.append(now)
        return True

    def forget(self, now: float) -> None:
        while self.written and self.written[0] <= now - self.window:
            self.written.popleft()


class DenialBudget:
    """Events that may be written over hours, by actor and by tenant: a burst, then one after some time."""

    def __init__(self) -> None:
        self._left: OrderedDict[UUID, tuple[float, float]] = OrderedDict()  # events left, and when that was

    def try_take(self, tenant: TenantId, actor: ActorId, now: float) -> bool:
        """Take an event from the actor's budget and from the tenant's, unless one of them is used up."""
        of_actor = self._count_left(actor, ACTOR_BURST, 1 / ACTOR_SECONDS, now)
        of_tenant = self._count_left(tenant, ACTOR_BURST * TENANT_FACTOR, TENANT_FACTOR / ACTOR_SECONDS, now)
        if min(of_actor, of_tenant) < 1:
            return False
        for key, left in ((actor, of_actor), (tenant, of_tenant)):
            self._left[key] = (left - 1, now)
            self._left.move_to_end(key)
        while len(self._left) > MAX_REMEMBERED:
            self._left.popitem(last=False)
        return True

    def _count_left(self, key: UUID, most: float, rate: float, now: float) -> float:
        left, at = self._left.get(key, (most, now))
        return min(most, left + (now - at) * rate)


class Denials:
    """The denials of one process."""

    def __init__(self) -> None:
        self._budget = DenialBudget()
        self._recent: dict[tuple[TenantId, ActorId], _RecentDenials] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    async def record(
        self, database: Database, tenant: TenantId, actor: ActorId, at: datetime, payload: Mapping[str, object]
    ) -> None:
        """Record a denial, or count it. This takes a connection, so the caller must not hold one."""
        log.warning("access denied", actor_id=str(actor), **payload)
        recent = self._recent.get((tenant, actor)) or self._start_counter(database, tenant, actor)
        now = asyncio.get_running_loop().time()
        if recent.try_take(now) and self._budget.try_take(tenant, actor, now):
            await _append(database, tenant, actor, Act(actor, at), payload)
        else:
            recent.suppressed += 1

    async def close(self) -> None:
        """Write the counts that are not written yet."""
        self._closing.set()
        await asyncio.gather(*self._tasks)

    def _start_counter(self, database: Database, tenant: TenantId, actor: ActorId) -> _RecentDenials:
        recent = self._recent[tenant, actor] = _RecentDenials()
        task = asyncio.create_task(self._write_counts(database, tenant, actor, recent))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return recent

    async def _write_counts(self, database: Database, tenant: TenantId, actor: ActorId, recent: _RecentDenials) -> None:
        """Write the count at the end of each window, until the actor had no denials in one."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(recent.window):
                    await self._closing.wait()
            recent.forget(asyncio.get_running_loop().time())
            suppressed_count = recent.take_count()
            if suppressed_count:
                await _append_count(database, tenant, actor, suppressed_count)
            elif not recent.written or self._closing.is_set():
                del self._recent[tenant, actor]
                return


async def _append_count(database: Database, tenant: TenantId, actor: ActorId, count: int) -> None:
    payload = {"count": count, "reason": "more within one second"}
    try:
        await _append(database, tenant, actor, Act(actor, clock.now()), payload)
    except Refusal as refusal:  # nobody waits for this event, and each denial is in the log
        log.error("denials could not be recorded", actor_id=str(actor), count=count, reason=refusal.says)


async def _append(
    database: Database, tenant: TenantId, actor: ActorId, act: Act, payload: Mapping[str, object]
) -> None:
    async with database.tenant(tenant) as conn:
        await events.append(
            conn, EventStream(tenant, "Actor", AggregateId(actor)), act.new_event("ACCESS_DENIED", payload)
        )
