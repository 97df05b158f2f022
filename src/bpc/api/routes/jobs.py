"""/v1/jobs: the state of background jobs. Their inputs are never shown."""

import json
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import BeforeValidator, Field, StringConstraints
from service_jobs import queries
from service_jobs.job import JobConflict, Status
from starlette.requests import Request

from bpc.api.access.auth import require_allowed
from bpc.api.http.models import Id, Moment, Page, Paging, RequestBody, ResponseBody, Text
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.policies import Resource
from bpc.storage import jobs

routes = RouteFamily("Jobs", resource="Job")

SIGN_JOB_TYPE: Final = "SIGN_PASSPORT"
SIGN_PERMISSION: Final = "passport:sign"

# The engine writes times with `+00:00`, and without a fraction of zero.
EngineMoment = Annotated[
    Moment, BeforeValidator(lambda value: datetime.fromisoformat(value) if isinstance(value, str) else value)
]
JobType = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,100}$")]


class JobFault(ResponseBody):
    """Why an execution failed."""

    code: str = Field(examples=["VALIDATION_ERROR"])
    message: str
    retryable: bool = Field(description="True if a retry without any change may succeed.")
    details: dict[str, Any]


class Progress(ResponseBody):
    """What a job reports while it runs."""

    percent: int | None = Field(description="0 to 100; null if unknown.", examples=[40])
    message: str | None = Field(examples=["30 of 75 pages"])
    updated_at: EngineMoment


class Job(ResponseBody):
    job_id: Id
    type: str = Field(examples=["PARSE_FACTS"])
    status: Status
    attempts: int = Field(description="Number of executions that were started.", examples=[1])
    max_attempts: int = Field(examples=[5])
    progress: Progress | None = Field(description="What the job last reported.")
    last_error: JobFault | None = Field(description="The error of the last failed execution.")
    created_at: Moment
    scheduled_at: Moment = Field(description="When it may start or be retried.")
    started_at: Moment | None
    finished_at: Moment | None
    priority: int = Field(description="0 is the most urgent, 3 the least.", examples=[2])
    cancel_requested: bool
    batch_id: Id | None
    correlation_id: str | None = Field(description="The correlation id of the request that submitted it.")


class JobResult(ResponseBody):
    status: Status
    result: Any = Field(description="The result; null unless it SUCCEEDED.")
    error: JobFault | None = Field(description="The error it ended with; null if it SUCCEEDED.")


class CancelJob(RequestBody):
    reason: Text | None = Field(None, examples=["uploaded by mistake"])


@routes.read("/v1/jobs", permission="jobs:read")
async def list_jobs(
    ctx: Context,
    page: Paging,
    type: Annotated[JobType | None, Query(examples=["PARSE_FACTS"])] = None,  # noqa: A002 (the name of the filter)
    status: Annotated[Status | None, Query()] = None,
    created_after: Annotated[Moment | None, Query(description="From this time on, inclusive.")] = None,
    created_before: Annotated[Moment | None, Query(description="Before this time, exclusive.")] = None,
) -> Page[Job]:
    """List jobs, newest first.

    `type` is applied to the rows of the other filters, so a page of a rare type may take long; limit it with
    `created_after` and `created_before`.
    """
    rows = await queries.list_jobs(
        ctx.conn,
        ctx.tenant,
        job_type=type,
        status=status,
        created_after=created_after,
        created_before=created_before,
        # Ids are created in the order of time, so the id alone is the position.
        before_id=None if page.after is None else page.after.id,
        limit=page.limit + 1,
    )
    return page.build_page(rows, Job)


@routes.read("/v1/jobs/{job_id}", permission="jobs:read")
async def get_job(ctx: Context, job_id: Id) -> Job:
    """Get a job."""
    return Job.model_validate(await queries.get_job(ctx.conn, ctx.tenant, job_id))


@routes.read("/v1/jobs/{job_id}/result", permission="jobs:read", errors=("CONFLICT",))
async def get_job_result(ctx: Context, job_id: Id) -> JobResult:
    """Get the result of a job, or the error it ended with. The answer is CONFLICT until the job has ended."""
    status, text, error = await queries.get_result_text(ctx.conn, ctx.tenant, job_id)
    if not status.is_over:
        raise JobConflict(
            f"job `{job_id}` has not ended: it is {status}",
            fix="try again later",
            details={"job_id": str(job_id), "status": status.value},
        )
    if status is Status.SUCCEEDED:
        return JobResult(status=status, result=None if text is None else json.loads(text), error=None)
    return JobResult(status=status, result=None, error=None if error is None else JobFault.model_validate(error))


@routes.write("/v1/jobs/{job_id}:cancel", permission="jobs:admin")
async def cancel_job(ctx: Context, job_id: Id, body: CancelJob | None = None) -> Job:
    """Cancel a job. A waiting job is cancelled at once; a running job is told to stop."""
    reason = None if body is None else body.reason
    await jobs.cancel_job(ctx.conn, ctx.tenant, job_id, act=ctx.act, reason=reason)
    return Job.model_validate(await queries.get_job(ctx.conn, ctx.tenant, job_id))


@routes.write("/v1/jobs/{job_id}:retry", permission="jobs:admin")
async def retry_job(ctx: Context, request: Request, job_id: Id) -> Job:
    """Retry a job that is FAILED, DEAD_LETTER or cancelled. A job that signs also needs `passport:sign`."""
    job = await queries.get_job(ctx.conn, ctx.tenant, job_id)
    if job.type == SIGN_JOB_TYPE:
        require_allowed(ctx, request, SIGN_PERMISSION, Resource(type="Job", id=job_id))
    await jobs.retry_job(ctx.conn, ctx.tenant, job_id, act=ctx.act)
    return Job.model_validate(await queries.get_job(ctx.conn, ctx.tenant, job_id))
