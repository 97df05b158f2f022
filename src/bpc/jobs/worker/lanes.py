"""Whose turn it is: the lanes a worker knows of, and a ring of tenants that take turns. In memory, pure.

A lane is (tenant, limit key, priority). Tenants take turns, each for a small quantum, so one tenant's million jobs do
not keep another's one waiting; inside a tenant the lowest priority number goes first, and across tenants priority
means nothing, or one tenant would starve all others with it.

A lane remembers up to where it has been claimed and is next searched above that, a little behind (transactions
commit out of order). Dead index entries of finished jobs, which a long transaction keeps from being vacuumed, are so
never looked at again. What commits later than that is found by the scout, which looks at the lane's true start.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final
from uuid import UUID

QUANTUM: Final = 5
MOST_LANES: Final = 100
BEHIND_SECONDS: Final = 0.1
LIMITED_REST: Final = 0.25
MOST_REMEMBERED: Final = 20_000

Key = tuple[UUID, str, int]


class Lane:
    """One lane and where to look in it next."""

    __slots__ = ("_marks", "above", "active", "limit_key", "priority", "rests_until", "tenant")

    def __init__(self, tenant: UUID, limit_key: str, priority: int) -> None:
        self.tenant = tenant
        self.limit_key = limit_key
        self.priority = priority
        self.above = 0
        self.active = False
        self.rests_until = 0.0  # its limit was reached: who frees a slot says so
        self._marks: deque[tuple[float, int]] = deque()

    def claimed_to(self, seq: int, now: float) -> None:
        """Jobs up to `seq` were claimed just now."""
        self._marks.append((now, seq))

    def advance(self, now: float) -> None:
        """Look only above what was claimed a while ago."""
        while self._marks and self._marks[0][0] <= now - BEHIND_SECONDS:
            self.above = max(self.above, self._marks.popleft()[1])

    def starts_at(self, seq: int) -> None:
        """The scout saw a job at `seq`: make sure that it will be found."""
        self.above = min(self.above, seq - 1)
        if self._marks:
            self._marks = deque(mark for mark in self._marks if mark[1] < seq)


class Lanes:
    """All lanes that may have something, arranged by tenant."""

    def __init__(self, first: UUID | None = None) -> None:
        self._first = first  # the tenant that always goes first, if it has anything
        self._known: dict[Key, Lane] = {}
        self._of: dict[UUID, dict[int, deque[Lane]]] = {}  # active lanes by tenant and priority
        self._ring: deque[UUID] = deque()

    def __len__(self) -> int:
        """Tenants that may have something to do."""
        return len(self._ring)

    def found(self, tenant: UUID, limit_key: str, priority: int, seq: int | None = None, now: float = 0.0) -> None:
        """There is something in this lane. A tenant that had nothing goes to the front.

        With `seq` somebody only looked, `now`, and saw it there: a lane whose limit was reached goes on resting.
        """
        lane = self._known.get((tenant, limit_key, priority))
        if lane is None:
            lane = self._remember(tenant, limit_key, priority)
        if seq is not None:
            lane.starts_at(seq)
            if lane.rests_until > now:
                return
        if lane.active:
            return
        lane.active = True
        of = self._of.setdefault(tenant, {})
        if not of:
            self._ring.appendleft(tenant)
        of.setdefault(priority, deque()).append(lane)

    def pick(self, room: int, now: float) -> tuple[list[tuple[Lane, int]], list[tuple[Lane, int]]]:
        """Lanes to claim `room` jobs from, and how many from each: those without a limit, and those with one."""
        plain: list[tuple[Lane, int]] = []
        limited: list[tuple[Lane, int]] = []
        if room <= 0 or not self._ring:
            return plain, limited
        if self._first in self._of and self._ring[0] != self._first:
            self._ring.remove(self._first)
            self._ring.appendleft(self._first)
        share = max(QUANTUM, -(-room // min(len(self._ring), MOST_LANES)))
        picked: set[int] = set()
        idle_turns = 0
        while room > 0 and len(picked) < MOST_LANES and idle_turns < len(self._ring):
            tenant = self._ring[0]
            self._ring.rotate(-1)
            lane = self._next_of(tenant)
            if id(lane) in picked:  # this tenant has no other lane of this priority
                idle_turns += 1
                continue
            idle_turns = 0
            picked.add(id(lane))
            lane.advance(now)
            # A limited lane rarely gives more than a few, and there may be many of them.
            most = min(QUANTUM if lane.limit_key else share, room)
            room -= most
            (limited if lane.limit_key else plain).append((lane, most))
        return plain, limited

    def took(self, lane: Lane, asked: int, seqs: Iterable[int], now: float) -> None:
        """`seqs` were claimed of the `asked` for. Fewer means that the lane is empty, or its limit is reached."""
        highest, count = 0, 0
        for seq in seqs:
            count += 1
            highest = max(highest, seq)
        if count:
            lane.claimed_to(highest, now)
        if count < asked:
            if lane.limit_key:
                lane.rests_until = now + LIMITED_REST
            self._rest(lane)

    def _next_of(self, tenant: UUID) -> Lane:
        by_priority = self._of[tenant]
        lanes = by_priority[min(by_priority)]
        lanes.rotate(-1)  # lanes of one priority take turns too
        return lanes[-1]

    def _rest(self, lane: Lane) -> None:
        if not lane.active:
            return
        lane.active = False
        by_priority = self._of[lane.tenant]
        by_priority[lane.priority].remove(lane)
        if not by_priority[lane.priority]:
            del by_priority[lane.priority]
        if not by_priority:
            del self._of[lane.tenant]
            self._ring.remove(lane.tenant)

    def _remember(self, tenant: UUID, limit_key: str, priority: int) -> Lane:
        if len(self._known) >= MOST_REMEMBERED:  # forget the oldest that rests; it would start from the beginning again
            for key, lane in self._known.items():
                if not lane.active:
                    del self._known[key]
                    break
        lane = self._known[tenant, limit_key, priority] = Lane(tenant, limit_key, priority)
        return lane
