"""How an execution ended, and what follows from it. Pure.

Retry(2 s, doubled, at most 1024 s):   1st failure -> 2 s, 2nd -> 4 s, 3rd -> 8 s, 4th -> 16 s, 5th -> DEAD_LETTER
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple

from bpc.jobs.errors import JobCancelled, JobError, JobTimedOut


class Status(StrEnum):
    """What a job is, as people see it."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    DEAD_LETTER = "DEAD_LETTER"

    @property
    def is_over(self) -> bool:
        return self not in {Status.QUEUED, Status.RUNNING}


class Ending(StrEnum):
    """What one execution makes of its job: four ways to be over, and two to run again."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DEAD_LETTER = "DEAD_LETTER"
    CANCELLED = "CANCELLED"
    RETRY = "RETRY"
    RELEASE = "RELEASE"  # it was interrupted through no fault of its own, and this does not count


class Why(Enum):
    """Why an execution is being interrupted."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    LOST = "lost"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a job is started, and how long it rests in between. `attempts` None leaves it to the engine."""

    attempts: int | None = None
    first_delay: float = 2.0
    factor: float = 2.0
    longest_delay: float = 1024.0

    def __post_init__(self) -> None:
        if self.attempts is not None and self.attempts < 1:
            raise ValueError("a job is started at least once")
        if self.first_delay < 0 or self.factor < 1 or self.longest_delay < 0:
            raise ValueError("delays are not negative and do not shrink")

    def delay_after(self, attempt: int) -> float:
        """Seconds to wait after execution number `attempt` failed."""
        try:
            return min(self.longest_delay, self.first_delay * self.factor ** (attempt - 1))
        except OverflowError:  # no float is that large; the longest delay was reached long before
            return self.longest_delay


class Outcome(NamedTuple):  # a tuple, because one is made for every execution
    """The end of one execution. `result` is JSON text, as it is stored."""

    ending: Ending
    result: str | None = None
    error: JobError | None = None
    delay: float = 0.0
    keeps_effects: bool = False  # what was written in the job's transaction is committed with this end


def succeeded(result: str) -> Outcome:
    return Outcome(ending=Ending.SUCCEEDED, result=result, keeps_effects=True)


def refused(error: JobError, *, keeps_effects: bool = False) -> Outcome:
    """Final at once: trying again would end the same way."""
    return Outcome(ending=Ending.FAILED, error=error, keeps_effects=keeps_effects)


def failed(error: JobError, *, attempt: int, most: int, retry: Retry, at_least: float = 0.0) -> Outcome:
    """Execution number `attempt` of at most `most` failed with `error`.

    `at_least` is a rest that was asked for: the job rests no shorter, unless that is longer than the longest delay.
    """
    if not error.retryable:
        return refused(error)
    if attempt >= most:
        return Outcome(ending=Ending.DEAD_LETTER, error=error)
    delay = max(retry.delay_after(attempt), min(at_least, retry.longest_delay))
    return Outcome(ending=Ending.RETRY, error=error, delay=delay)


def timed_out(seconds: float, *, attempt: int, most: int, retry: Retry) -> Outcome:
    error = JobError.of(JobTimedOut(f"the job took longer than the {seconds:g} s its handler allows"))
    return failed(error, attempt=attempt, most=most, retry=retry)


def cancelled() -> Outcome:
    return Outcome(ending=Ending.CANCELLED, error=JobError.of(JobCancelled("it was cancelled while it ran")))


def released() -> Outcome:
    return Outcome(ending=Ending.RELEASE)
