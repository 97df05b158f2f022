"""When a job that failed runs again: how often, after which pause, and how much of the pause is left to chance."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a job is started, and how long it waits in between (back-off). `attempts=None`: the engine decides.

    With `jitter`, each delay is longer by a random share of itself, up to `jitter`: jobs that failed together do not
    all come back together. A delay is never shorter than without it. An error may ask for a longer delay
    (`retry_after`), up to `longest_requested_delay`; without that, up to `longest_delay`.
    """

    attempts: int | None = None
    first_delay: float = 2.0
    factor: float = 2.0
    longest_delay: float = 1024.0
    jitter: float = 0.0
    longest_requested_delay: float | None = None

    def __post_init__(self) -> None:
        if self.attempts is not None and self.attempts < 1:
            raise ValueError("attempts must be at least 1")
        if self.first_delay < 0 or self.factor < 1 or self.longest_delay < 0:
            raise ValueError("delays must not be negative, and factor must be at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter must be between 0 and 1")
        if self.longest_requested_delay is not None and self.longest_requested_delay < 0:
            raise ValueError("delays must not be negative, and factor must be at least 1")

    def delay_after(self, attempt: int, *, chance: float = 0.0) -> float:
        """Seconds to wait after execution number `attempt` failed; `chance`, from 0 to 1, chooses the jitter."""
        return self._compute_delay(attempt) * (1 + self.jitter * chance)

    def limit_request(self, seconds: float) -> float:
        """Seconds to wait at least, of those that an error asked for."""
        longest = self.longest_delay if self.longest_requested_delay is None else self.longest_requested_delay
        return min(seconds, longest)

    def _compute_delay(self, attempt: int) -> float:
        try:
            return min(self.longest_delay, self.first_delay * self.factor ** (attempt - 1))
        except OverflowError:  # the power is too large for a float; the longest delay was reached long before
            return self.longest_delay


def draw_chance() -> float:
    """A random number from 0 to 1."""
    return int.from_bytes(os.urandom(4), "big") / 0xFFFF_FFFF  # noqa: TID251 (nobody hands it randomness)
