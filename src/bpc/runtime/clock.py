"""The clock and the source of randomness: the only module that reads either."""

import os
from datetime import UTC, datetime
from uuid import UUID

from bpc.core.formats.ids import make_random_uuid


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (the one place that looks at the clock)


def random_bytes(count: int) -> bytes:
    return os.urandom(count)  # noqa: TID251 (the one source of randomness)


def new_id() -> UUID:
    return make_random_uuid(random_bytes(16))
