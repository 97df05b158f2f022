"""The processor of the event loop, shared between tenants.

Everything that a request computes in the event loop is measured, in CPU time of the thread, and paid by its tenant, or
by its address as long as it has no tenant. While the loop is busy and others are active, whoever has used more than
its share waits before its next request begins, and between the parts of a long query. Whoever is alone never waits.

    with shares.measure() as meter:                # the tasks that the block starts are measured too
        await run_metered(answer(), meter)
    meter.bill(tenant)                             # inside, as soon as the tenant is known
    await shares.wait_for_share(tenant)
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import coroutine
from typing import Any, Final

from bpc.api.access.tenant_limits import Payer, TenantActivity

BUSY_SHARE: Final = 0.5  # of a processor: with less in use, nobody waits
DIVIDED_SHARE: Final = 0.8  # of a processor: what active tenants have together while the loop is busy
SMALLEST_SHARE: Final = 0.05
MAX_CREDIT_SECONDS: Final = 0.1  # what a tenant may use at once after a pause
MAX_DEBT_SECONDS: Final = (
    1.0  # what it has to wait for at most: who was alone for an hour has taken nothing from others
)
LONGEST_WAIT_SECONDS: Final = 2.0  # for one look; a tenant far beyond its share looks again
BUSY_WINDOW_SECONDS: Final = 0.1


@dataclass(slots=True)
class _Account:
    """What a tenant may still use, in seconds; negative if it has used more than its share."""

    credit: float
    filled_at: float


@dataclass(slots=True)
class _Line:
    """The tasks of a tenant that wait for its share, in the order in which they came."""

    first: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class CpuMeter:
    """What one request has used of the loop. It is billed to nobody until the tenant is known."""

    __slots__ = ("_pay", "_payer", "_unbilled")

    def __init__(self, pay: Callable[[Payer, float], None]) -> None:
        self._pay = pay
        self._payer: Payer | None = None
        self._unbilled = 0.0

    def bill(self, payer: Payer) -> None:
        self._payer = payer
        self._pay(payer, self._unbilled)
        self._unbilled = 0.0

    def add(self, seconds: float) -> None:
        if self._payer is None:
            self._unbilled += seconds
        else:
            self._pay(self._payer, seconds)


_METER: Final[ContextVar[CpuMeter | None]] = ContextVar("cpu_meter", default=None)


class LoopShares:
    """The shares of one event loop."""

    def __init__(self, activity: TenantActivity, clock: Callable[[], float] = time.monotonic) -> None:
        self._activity = activity
        self._clock = clock
        self._accounts: dict[Payer, _Account] = {}
        self._lines: dict[Payer, _Line] = {}
        self._window_began = clock()
        self._used_in_window = 0.0
        self._is_busy = False  # the loop, in the last whole window
        self._has_held_back = False  # anybody, in this window

    @contextmanager
    def measure(self) -> Iterator[CpuMeter]:
        """A meter for a request. Tasks that the block starts are measured too, in the loop of `install_meter`."""
        meter = CpuMeter(self.pay)
        token = _METER.set(meter)
        try:
            yield meter
        finally:
            _METER.reset(token)

    def pay(self, payer: Payer, seconds: float) -> None:
        """Take from what the tenant may use."""
        account = self._find_account(payer)
        account.credit = max(account.credit - seconds, -MAX_DEBT_SECONDS)
        self._used_in_window += seconds
        self._look_at_window()

    def count_wait(self, payer: Payer) -> float:
        """Count the seconds until the tenant has a share again; 0 if it may go on."""
        self._look_at_window()
        if not self._is_busy or not self._activity.has_others(payer):
            return 0.0
        account = self._find_account(payer)
        if account.credit >= 0:
            return 0.0
        self._has_held_back = True
        return -account.credit / self._compute_share()

    async def wait_for_share(self, payer: Payer) -> None:
        """Wait while the tenant has used more than its share and others are active.

        The tasks of a tenant wait in a line, and only the first of them looks at the time. If all did, the thousand
        tasks of its queries would wake up at the same moment, and whoever comes then would wait for all of them.
        """
        line = self._lines.get(payer)
        if line is None:
            if self.count_wait(payer) <= 0:
                return
            line = self._lines[payer] = _Line()
        line.length += 1
        try:
            async with line.first:
                while (seconds := self.count_wait(payer)) > 0:  # noqa: ASYNC110 (time itself is waited for)
                    await asyncio.sleep(min(seconds, LONGEST_WAIT_SECONDS))
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[payer]

    def _compute_share(self) -> float:
        return max(SMALLEST_SHARE, DIVIDED_SHARE / max(1, self._activity.count_active()))

    def _find_account(self, payer: Payer) -> _Account:
        now = self._clock()
        account = self._accounts.get(payer)
        if account is None:
            self._forget_full_accounts(now)
            account = self._accounts[payer] = _Account(MAX_CREDIT_SECONDS, now)
        seconds_passed = now - account.filled_at
        if seconds_passed > 0.01:  # not at each of thousands of steps
            account.credit = min(MAX_CREDIT_SECONDS, account.credit + seconds_passed * self._compute_share())
            account.filled_at = now
        return account

    def _forget_full_accounts(self, now: float) -> None:
        """Forget tenants whose account is full again: they begin with a full one."""
        longest = MAX_CREDIT_SECONDS / SMALLEST_SHARE
        for payer, account in list(self._accounts.items()):
            pause = now - account.filled_at
            if pause > 2 * longest and account.credit + pause * SMALLEST_SHARE > 0:
                del self._accounts[payer]

    def _look_at_window(self) -> None:
        seconds_passed = self._clock() - self._window_began
        if seconds_passed >= BUSY_WINDOW_SECONDS:
            # Whoever is held back uses less. That must not end the busy time: they would all begin at once.
            self._is_busy = self._used_in_window / seconds_passed >= BUSY_SHARE or self._has_held_back
            self._window_began, self._used_in_window, self._has_held_back = self._clock(), 0.0, False


# Measuring: each step of a task is timed. Tasks that a request starts are measured with it, by the loop's task factory.

SHORT_STEP_SECONDS: Final = 0.0003


class StepClock:
    """The CPU time of steps. Reading it is a system call, which costs more than most steps.

    A short step counts as long as it took by the clock on the wall. Only after a longer one, during which the thread
    may have waited for a processor, is the CPU time read: what was used since the last reading and is not counted yet.
    """

    __slots__ = ("_read_at", "_step_seconds")

    def __init__(self) -> None:
        self._read_at = 0.0
        self._step_seconds = 0.0

    def measure(self, seconds: float) -> float:
        """The CPU time of a step that has just ended and took so many seconds."""
        if seconds < SHORT_STEP_SECONDS:
            self._step_seconds += seconds
            return seconds
        now = time.thread_time()
        cpu_seconds = now - self._read_at - self._step_seconds
        self._read_at, self._step_seconds = now, 0.0
        return min(seconds, max(0.0, cpu_seconds))


_STEPS: Final = StepClock()


def install_meter(loop: asyncio.AbstractEventLoop) -> None:
    """Measure the tasks of this loop that are started inside `measure`."""

    def create_task(
        task_loop: asyncio.AbstractEventLoop, task_coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> "asyncio.Task[Any]":
        meter = _METER.get()
        if meter is not None and asyncio.iscoroutine(task_coroutine):
            task_coroutine = run_metered(task_coroutine, meter)
        return asyncio.Task(task_coroutine, loop=task_loop, **options)

    loop.set_task_factory(create_task)  # type: ignore[arg-type]


async def run_metered(steps: Coroutine[Any, Any, Any], meter: CpuMeter) -> Any:
    """Run a coroutine and add the CPU time of each of its steps to the meter."""
    return await _drive(steps, meter)


@coroutine
def _drive(steps: Coroutine[Any, Any, Any], meter: CpuMeter) -> Any:
    resume: Callable[[Any], Any] = steps.send
    value: Any = None
    read_clock, measure = time.perf_counter, _STEPS.measure
    try:
        while True:
            began = read_clock()
            try:
                step_result = resume(value)
            except StopIteration as end:
                return end.value
            finally:
                meter.add(measure(read_clock() - began))
            try:
                value, resume = (yield step_result), steps.send
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 (it is for the coroutine inside)
                value, resume = error, steps.throw
    finally:
        steps.close()
