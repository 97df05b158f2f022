"""Tokens that a process took from the buckets of keys, and hands out itself: not every request has to write.

    try_take ─► a token of the slice, or None ─► take ─► a new slice from the bucket in the database

A slice is gone from the bucket when it is taken, so all processes together never give more tokens than the bucket had.
A slice is for one second; what is left of it then is lost. The first has one token, and each that was used up in its
second doubles the next, up to a tenth of the burst: whoever asks seldom takes one token each time, and loses none.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bpc.storage.access.api_requests import Caller, TokenBucketState, take_tokens
from bpc.storage.connection import Connection

SLICE_SECONDS: Final = 1.0
SLICES_OF_BURST: Final = 10
MAX_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class _Slice:
    """Tokens of one key; `in_bucket` were left there."""

    size: int
    tokens: int
    in_bucket: float
    taken_at: float


class RateSlices:
    """The slices of one process, for buckets of one size."""

    def __init__(self, burst: int, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.burst = burst
        self.rate = rate
        self._clock = clock
        self._slices: OrderedDict[bytes, _Slice] = OrderedDict()

    def try_take(self, caller: Caller) -> TokenBucketState | None:
        """A token of the slice that this process has, if there is one."""
        part = self._slices.get(caller.key_hash)
        seconds = 0.0 if part is None else self._clock() - part.taken_at
        if part is None or not part.tokens or seconds > SLICE_SECONDS:
            return None
        part.tokens -= 1
        return TokenBucketState(min(self.burst, part.in_bucket + part.tokens + seconds * self.rate), 0.0)

    async def take(self, conn: Connection, caller: Caller) -> TokenBucketState:
        """A token of the slice, or of a new one. Without any, `wait` says when there is one."""
        state = self.try_take(caller)
        if state is not None:
            return state
        size = self._choose_size(caller.key_hash)
        count, in_bucket, wait = await take_tokens(
            conn, caller.tenant_id, caller.key_hash, burst=self.burst, rate=self.rate, most=size
        )
        if not count:
            return TokenBucketState(in_bucket, wait)
        left = self._add(caller.key_hash, size, count - 1, in_bucket)
        return TokenBucketState(min(self.burst, in_bucket + left), 0.0)

    def clear(self) -> None:
        """Forget what was taken."""
        self._slices.clear()

    def _choose_size(self, key: bytes) -> int:
        part = self._slices.get(key)
        if part is None:
            return 1
        if part.tokens or self._clock() - part.taken_at > SLICE_SECONDS:
            return max(1, part.size - part.tokens)
        return min(2 * part.size, max(1, self.burst // SLICES_OF_BURST))

    def _add(self, key: bytes, size: int, tokens: int, in_bucket: float) -> int:
        """Keep what was taken, with what another request took meanwhile; return how many there are."""
        now, before = self._clock(), self._slices.get(key)
        if before is not None and now - before.taken_at <= SLICE_SECONDS:
            tokens += before.tokens
        self._slices[key] = _Slice(size, tokens, in_bucket, now)
        self._slices.move_to_end(key)
        if len(self._slices) > MAX_REMEMBERED:
            self._slices.popitem(last=False)
        return tokens
