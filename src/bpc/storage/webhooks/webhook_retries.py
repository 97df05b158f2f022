"""When a webhook delivery is tried again, and when an endpoint that fails is disabled.

Pure. The number of attempts is the same everywhere; how long a delivery is retried decides the longest pause:

    2, 4, 8 … s, doubled until the longest pause, then always the longest pause   together: as long as is set
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

ATTEMPTS: Final = 40
FIRST_PAUSE_SECONDS: Final = 2.0
FACTOR: Final = 2.0
# An endpoint that gets few events is not disabled because of two failures that are far apart.
MIN_FAILED_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """How long deliveries are retried, and how long an endpoint may fail. `disable_after=None`: for ever.

    `jitter` is the largest share of a pause that is added to it at random.
    """

    retry_for: timedelta = timedelta(hours=72)
    jitter: float = 0.2
    disable_after: timedelta | None = timedelta(hours=120)

    @property
    def longest_pause_seconds(self) -> float:
        """The longest pause between two attempts, such that all pauses together last `retry_for`."""
        total, pauses = self.retry_for.total_seconds(), ATTEMPTS - 1
        pause_seconds = [FIRST_PAUSE_SECONDS * FACTOR**number for number in range(pauses)]
        for count, total_seconds in ((count, sum(pause_seconds[:count])) for count in range(pauses)):
            longest = (total - total_seconds) / (pauses - count)
            if longest <= pause_seconds[count]:
                return longest
        return pause_seconds[-1]

    def is_persistent(self, failing_since: datetime, failed_attempts: int, moment: datetime) -> bool:
        """True if an endpoint has failed for so long and so often that it is disabled."""
        if self.disable_after is None or failed_attempts < MIN_FAILED_ATTEMPTS:
            return False
        return moment - failing_since >= self.disable_after
