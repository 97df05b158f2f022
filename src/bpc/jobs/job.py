"""A job as people see it, whichever engine keeps it. Without its payload, which may be large or private."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from bpc.jobs.errors import JobError
from bpc.jobs.outcome import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is known of a job at one moment. All times are UTC; `attempts` are executions that were started.

    It has a `lease_owner` exactly while it runs, and a `finished_at` exactly when it is over.
    """

    tenant_id: UUID
    job_id: UUID
    type: str
    status: Status
    priority: int
    attempts: int
    max_attempts: int
    idempotency_key: str | None
    limit_key: str | None
    batch_id: UUID | None
    progress: dict[str, Any] | None
    last_error: JobError | None
    created_at: datetime
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    lease_owner: str | None
    lease_expires_at: datetime | None
    cancel_requested: bool
    correlation_id: str | None
    actor: str | None

    @property
    def is_over(self) -> bool:
        return self.status.is_over

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "Job":
        """From a row of the view `jobs.job_status`; JSON may come as text or as what it says."""
        values = {name: row[name] for name in COLUMNS}
        error = _json(values["last_error"])
        return cls(
            **values
            | {
                "status": Status(values["status"]),
                "limit_key": values["limit_key"] or None,  # stored as '' so that it can be part of a key
                "progress": _json(values["progress"]),
                "last_error": None if error is None else JobError.read(error),
            }
        )


COLUMNS = tuple(field.name for field in fields(Job))


def _json(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str | bytes) else value
