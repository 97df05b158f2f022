"""Denied access, on record: in a transaction of its own, and bounded, so that being denied cannot fill the log.

At most ten events in any second for an actor, one by one; what is beyond is counted, and the count is an event of its
own within a second.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bpc import fresh
from bpc.core.errors import Refusal
from bpc.core.events import Act, Stream
from bpc.core.ids import ActorId, AggregateId, TenantId
from bpc.db import events
from bpc.db.database import Database
from bpc.logs import logger

ONE_BY_ONE: Final = 10
WINDOW_SECONDS: Final = 1.0
log = logger(__name__)


@dataclass(slots=True)
class _Lately:
    """When an actor's last denials were written, and how many more there were since the last count."""

    written: deque[float] = field(default_factory=deque)
    more: int = 0

    def takes(self, now: float) -> bool:
        self.forget(now)
        if len(self.written) >= ONE_BY_ONE:
            return False
        self.written.append(now)
        return True

    def forget(self, now: float) -> None:
        while self.written and self.written[0] <= now - WINDOW_SECONDS:
            self.written.popleft()


class Denials:
    """The denials of one process."""

    def __init__(self) -> None:
        self._lately: dict[tuple[TenantId, ActorId], _Lately] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    async def note(
        self, database: Database, tenant: TenantId, actor: ActorId, at: datetime, payload: Mapping[str, object]
    ) -> None:
        """Put one on record, or count it. The caller holds no connection: this takes one."""
        log.warning("access denied", actor_id=str(actor), **payload)
        lately = self._lately.get((tenant, actor)) or self._begin(database, tenant, actor)
        if lately.takes(asyncio.get_running_loop().time()):
            await _append(database, tenant, actor, Act(actor, at), payload)
        else:
            lately.more += 1

    async def close(self) -> None:
        """Write what is still only counted."""
        self._closing.set()
        await asyncio.gather(*self._tasks)

    def _begin(self, database: Database, tenant: TenantId, actor: ActorId) -> _Lately:
        lately = self._lately[tenant, actor] = _Lately()
        task = asyncio.create_task(self._count(database, tenant, actor, lately))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return lately

    async def _count(self, database: Database, tenant: TenantId, actor: ActorId, lately: _Lately) -> None:
        """Write the count once a second, until the actor has been quiet for one."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WINDOW_SECONDS):
                    await self._closing.wait()
            lately.forget(asyncio.get_running_loop().time())
            more, lately.more = lately.more, 0
            if more:
                await _append_count(database, tenant, actor, more)
            elif not lately.written or self._closing.is_set():
                del self._lately[tenant, actor]
                return


async def _append_count(database: Database, tenant: TenantId, actor: ActorId, more: int) -> None:
    payload = {"count": more, "reason": "more within one second"}
    try:
        await _append(database, tenant, actor, Act(actor, fresh.now()), payload)
    except Refusal as refusal:  # nobody waits for this one; each of them is in the log already
        log.error("denials could not be put on record", actor_id=str(actor), count=more, reason=refusal.says)


async def _append(
    database: Database, tenant: TenantId, actor: ActorId, act: Act, payload: Mapping[str, object]
) -> None:
    async with database.tenant(tenant) as conn:
        await events.append(conn, Stream(tenant, "Actor", AggregateId(actor)), act.says("ACCESS_DENIED", payload))
