"""What the core is never allowed to fetch itself: the time and randomness."""

import os
from datetime import UTC, datetime
from uuid import UUID

from bpc.core.ids import random_uuid


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (the one place that looks at the clock)


def entropy(count: int) -> bytes:
    return os.urandom(count)  # noqa: TID251 (the one source of randomness)


def new_id() -> UUID:
    return random_uuid(entropy(16))
