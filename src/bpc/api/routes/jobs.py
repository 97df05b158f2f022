"""/v1/jobs: how what was asked for is getting on. What a job was given is never shown."""

import json
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import BeforeValidator, Field, StringConstraints
from starlette.requests import Request as HttpRequest

from bpc.api.deciding import require_allowed
from bpc.api.models import Answer, Id, Moment, Page, Request, Text
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.policies import Resource
from bpc.db import jobs
from bpc.jobs import queries
from bpc.jobs.errors import JobConflict
from bpc.jobs.outcome import Status

routes = Routes("Jobs")

SIGN: Final = "SIGN_PASSPORT"
MAY_SIGN: Final = "passport:sign"

# The engine writes times in its own way: `+00:00`, and no fraction where it is zero.
Said = Annotated[
    Moment, BeforeValidator(lambda given: datetime.fromisoformat(given) if isinstance(given, str) else given)
]
JobType = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,100}$")]


class JobFault(Answer):
    """Why an execution failed."""

    code: str = Field(examples=["VALIDATION_ERROR"])
    message: str
    retryable: bool = Field(description="Whether it was or would be worth another try as it is.")
    details: dict[str, Any]


class Progress(Answer):
    """What a job says of itself while it runs."""

    percent: int | None = Field(description="0 to 100; null where it does not know.", examples=[40])
    message: str | None = Field(examples=["30 of 75 pages"])
    updated_at: Said


class Job(Answer):
    job_id: Id
    type: str = Field(examples=["PARSE_FACTS"])
    status: Status
    attempts: int = Field(description="Executions that were started.", examples=[1])
    max_attempts: int = Field(examples=[5])
    progress: Progress | None = Field(description="How far it says it is.")
    last_error: JobFault | None = Field(description="Of the last execution that failed.")
    created_at: Moment
    scheduled_at: Moment = Field(description="When it may start, or start again.")
    started_at: Moment | None
    finished_at: Moment | None
    priority: int = Field(description="0 is the most urgent, 3 the least.", examples=[2])
    cancel_requested: bool
    batch_id: Id | None
    correlation_id: str | None = Field(description="Of the request that asked for it.")


class JobResult(Answer):
    status: Status
    result: Any = Field(description="What it returned; null unless it SUCCEEDED.")
    error: JobFault | None = Field(description="What it ended with; null if it SUCCEEDED.")


class CancelJob(Request):
    reason: Text | None = Field(None, examples=["uploaded by mistake"])


@routes.read("/v1/jobs", permission="jobs:read", resource="Job")
async def list_jobs(
    work: Work,
    paged: Paged,
    type: Annotated[JobType | None, Query(examples=["PARSE_FACTS"])] = None,  # noqa: A002 (the name of the filter)
    status: Annotated[Status | None, Query()] = None,
    created_after: Annotated[Moment | None, Query(description="From this moment on.")] = None,
    created_before: Annotated[Moment | None, Query(description="Before this moment, which is not included.")] = None,
) -> Page[Job]:
    """List jobs, newest first.

    `type` is applied to what the other filters find, so a page of a rare type among many jobs may take long;
    `created_after` and `created_before` bound it.
    """
    rows = await queries.page(
        work.conn,
        work.tenant,
        job_type=type,
        status=status,
        created_after=created_after,
        created_before=created_before,
        before_id=None
        if paged.after is None
        else paged.after.id,  # made in the order of time: the id alone is the place
        limit=paged.limit + 1,
    )
    return paged.page(rows, lambda row: Place(row.created_at, row.job_id), Job.model_validate)


@routes.read("/v1/jobs/{job_id}", permission="jobs:read", resource="Job")
async def get_job(work: Work, job_id: Id) -> Job:
    """Get a job."""
    return Job.model_validate(await queries.get(work.conn, work.tenant, job_id))


@routes.read("/v1/jobs/{job_id}/result", permission="jobs:read", resource="Job", errors=("CONFLICT",))
async def get_job_result(work: Work, job_id: Id) -> JobResult:
    """Get what a job returned, or the error it ended with; CONFLICT while it is not over."""
    status, text, error = await queries.result_text(work.conn, work.tenant, job_id)
    if not status.is_over:
        raise JobConflict(
            f"job `{job_id}` is not over yet: it is {status}",
            fix="ask again later",
            details={"job_id": str(job_id), "status": status.value},
        )
    if status is Status.SUCCEEDED:
        return JobResult(status=status, result=None if text is None else json.loads(text), error=None)
    return JobResult(status=status, result=None, error=None if error is None else JobFault.model_validate(error))


@routes.write("/v1/jobs/{job_id}:cancel", permission="jobs:admin", resource="Job")
async def cancel_job(work: Work, job_id: Id, body: CancelJob | None = None) -> Job:
    """Cancel a job: at once if it waits; if it runs, it is asked to stop."""
    reason = None if body is None else body.reason
    await jobs.cancel(work.conn, work.tenant, job_id, act=work.act, reason=reason)
    return Job.model_validate(await queries.get(work.conn, work.tenant, job_id))


@routes.write("/v1/jobs/{job_id}:retry", permission="jobs:admin", resource="Job")
async def retry_job(work: Work, request: HttpRequest, job_id: Id) -> Job:
    """Run a job again that ended FAILED or DEAD_LETTER, or was cancelled. One that signs needs `passport:sign` too."""
    found = await queries.get(work.conn, work.tenant, job_id)
    if found.type == SIGN:
        require_allowed(work, request, MAY_SIGN, Resource(type="Job", id=job_id))
    await jobs.retry(work.conn, work.tenant, job_id, act=work.act)
    return Job.model_validate(await queries.get(work.conn, work.tenant, job_id))
