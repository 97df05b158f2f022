"""Jobs and audit events in GraphQL: what runs, and what happened."""

import strawberry

from bpc.api.graphql.scalars import Hash, Id, Json, Moment
from bpc.db import audit
from bpc.jobs import Job as Known


@strawberry.type(description="Why a job failed.")
class JobError:
    code: str
    message: str
    details: Json


@strawberry.type(description="Work that was asked for. What it was given is never shown.")
class Job:
    job_id: Id
    type: str
    status: str
    attempts: int
    max_attempts: int
    progress: Json | None
    last_error: JobError | None
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None

    @classmethod
    def of(cls, row: Known) -> "Job":
        error = row.last_error
        return cls(
            job_id=Id(row.job_id),
            type=row.type,
            status=str(row.status),
            attempts=row.attempts,
            max_attempts=row.max_attempts,
            progress=None if row.progress is None else Json(row.progress),
            last_error=None
            if error is None
            else JobError(code=error.code, message=error.message, details=Json(dict(error.details))),
            created_at=Moment(row.created_at),
            started_at=None if row.started_at is None else Moment(row.started_at),
            finished_at=None if row.finished_at is None else Moment(row.finished_at),
        )


@strawberry.type(description="What happened, linked by hash to what happened before.")
class Event:
    event_id: Id
    aggregate_type: str
    aggregate_id: Id
    aggregate_version: int
    event_type: str
    occurred_at: Moment
    actor_id: Id | None
    payload: Json
    payload_hash: Hash
    prev_event_hash: Hash | None
    event_hash: Hash

    @classmethod
    def of(cls, row: audit.Recorded) -> "Event":
        return cls(
            event_id=Id(row.event_id),
            aggregate_type=row.aggregate_type,
            aggregate_id=Id(row.aggregate_id),
            aggregate_version=row.aggregate_version,
            event_type=row.event_type,
            occurred_at=Moment(row.occurred_at),
            actor_id=None if row.actor_id is None else Id(row.actor_id),
            payload=Json(row.payload),
            payload_hash=Hash(row.payload_hash),
            prev_event_hash=None if row.prev_event_hash is None else Hash(row.prev_event_hash),
            event_hash=Hash(row.event_hash),
        )
