"""/v1/jobs and /v1/job-types: the state of background jobs, and how each type is run. Inputs are never shown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Query
from pydantic import AliasChoices, Field, StringConstraints
from service_jobs import Job as JobRow
from service_jobs import Subject, queries
from service_jobs.job import JobConflict, Status
from starlette.requests import Request

from bpc.api.access.auth import require_allowed
from bpc.api.http.models import (
    CreatedAfter,
    CreatedBefore,
    Id,
    Moment,
    Page,
    Paging,
    ProductText,
    RequestBody,
    ResponseBody,
    Text,
    WaitSeconds,
    list_members,
)
from bpc.api.http.request_context import Context, RequestContext
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import Invalid
from bpc.core.formats.ids import TenantId
from bpc.core.policies import Resource
from bpc.pipeline.sign import SIGN_JOB_TYPE
from bpc.storage import job_figures, jobs
from bpc.storage.connection import Connection
from bpc.storage.jobs import SUBJECT_KINDS, SubjectKind
from bpc.storage.passports.product_names import load_product_names
from bpc.tasks.schedules import PERMISSION_BY_TYPE
from bpc.tasks.sign_transfers import JOB_TYPE as TRANSFER_JOB_TYPE

routes = RouteFamily("Jobs", resource="Job")

SIGN_PERMISSION: Final = "passport:sign"
SIGNING_JOB_TYPES: Final = frozenset({SIGN_JOB_TYPE, TRANSFER_JOB_TYPE})

JobType = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,100}$")]


class JobFault(ResponseBody):
    """Why an execution failed."""

    code: str = Field(examples=["VALIDATION_ERROR"])
    message: str
    retryable: bool = Field(description="True if a retry without any change may succeed.")
    details: dict[str, Any]
    next_step: str | None = Field(
        validation_alias=AliasChoices("fix", "next_step"),
        description="What to do about it; null if there is no advice.",
        examples=["correct the document and upload it as a new version"],
    )


class Progress(ResponseBody):
    """What a job reports while it runs."""

    percent: int | None = Field(description="0 to 100; null if unknown.", examples=[40])
    message: str | None = Field(examples=["30 of 75 pages"])
    updated_at: Moment


class JobSubject(ResponseBody):
    """What a job is about."""

    kind: str = Field(description=f"One of {', '.join(SUBJECT_KINDS)}.", examples=["passport_version"])
    id: str = Field(examples=["0190a7c4-0000-7000-8000-000000000001"])
    sku: str | None = Field(
        validation_alias=AliasChoices("group", "sku"),
        description="The product, if the job is about one.",
        examples=["SKU-123"],
    )
    product_name: str | None = Field(
        None, description="The name of that product.", examples=["Traction battery 75 kWh"]
    )


class Job(ResponseBody):
    job_id: Id
    type: str = Field(examples=["PARSE_FACTS"])
    status: Status
    subject: JobSubject | None = Field(description="What it is about; null if it is about the whole installation.")
    attempts: int = Field(description="Number of executions that were started.", examples=[1])
    max_attempts: int = Field(examples=[5])
    progress: Progress | None = Field(description="What the job last reported.")
    last_error: JobFault | None = Field(description="The error of the last failed execution.")
    created_at: Moment
    scheduled_at: Moment = Field(description="When it may start or be retried.")
    started_at: Moment | None
    finished_at: Moment | None
    lease_owner: str | None = Field(description="The worker that runs it; null unless it is RUNNING.")
    lease_expires_at: Moment | None = Field(
        description="When another worker may take it over, unless its worker renews the lease before."
    )
    priority: int = Field(description="0 is the most urgent, 3 the least.", examples=[2])
    cancel_requested: bool
    batch_id: Id | None
    correlation_id: str | None = Field(description="The correlation id of the request that submitted it.")
    service_id: str | None = Field(description="The service that submitted it.", examples=["bpc"])


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
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    subject_kind: Annotated[SubjectKind | None, Query(description="Requires `subject_id`.")] = None,
    subject_id: Annotated[Text | None, Query(description="Jobs about this one. Requires `subject_kind`.")] = None,
    sku: Annotated[Text | None, Query(description="Jobs about this product.", examples=["SKU-123"])] = None,
    q: ProductText = None,
) -> Page[Job]:
    """List jobs, newest first.

    Jobs are about a document version, a snapshot, a rule version, a passport version or a compile run; jobs that make
    passports are about a product, too. Those filters use an index of their own.

    `type` is applied to the rows of the other filters, so a page of a rare type may take long; limit it with
    `created_after` and `created_before`.
    """
    job_filter = JobFilter(
        job_type=type,
        status=status,
        created_after=created_after,
        created_before=created_before,
        subject=make_subject_filter(subject_kind, subject_id),
        subject_group=sku,
        text=q,
    )
    # Ids are created in the order of time, so the id alone is the position.
    before_id = None if page.after is None else page.after.id
    rows = await find_jobs(ctx.conn, ctx.tenant, job_filter, before_id=before_id, limit=page.limit + 1)
    jobs_page = page.build_page(rows, Job)
    return jobs_page.model_copy(update={"items": await _add_product_names(ctx, jobs_page.items)})


async def _add_product_names(ctx: RequestContext, items: Sequence[Job]) -> list[Job]:
    skus = [None if job.subject is None else job.subject.sku for job in items]
    names = await load_product_names(ctx.conn, ctx.tenant, skus)
    return [
        job.model_copy(update={"subject": job.subject.model_copy(update={"product_name": names.get(sku or "")})})
        if job.subject is not None
        else job
        for job, sku in zip(items, skus, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are asked for; the group of a subject is the SKU of the product."""

    job_type: str | None = None
    status: Status | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    subject: Subject | None = None
    subject_group: str | None = None
    text: str | None = None

    def to_members(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


async def find_jobs(
    conn: Connection, tenant: TenantId, job_filter: JobFilter, *, before_id: UUID | None, limit: int
) -> Sequence[JobRow]:
    """The newest jobs that match."""
    return await jobs.find_jobs(conn, tenant, **job_filter.to_members(), before_id=before_id, limit=limit)


def make_subject_filter(kind: str | None, subject_id: str | None) -> Subject | None:
    """The subject that jobs are filtered by; both parts are needed."""
    if kind is None and subject_id is None:
        return None
    if kind is None or subject_id is None:
        raise Invalid("`subject_kind` and `subject_id` belong together", fix="send both or neither")
    return Subject(kind, subject_id)


@routes.read("/v1/jobs/{job_id}", permission="jobs:read")
async def get_job(ctx: Context, request: Request, job_id: Id, wait_seconds: WaitSeconds = 0) -> Job:
    """Get a job. With `wait_seconds` the answer comes as soon as the job has ended."""
    job = await queries.get_job(ctx.conn, ctx.tenant, job_id)
    request.state.wait_seconds = 0 if job.status.is_over else wait_seconds
    [named_job] = await _add_product_names(ctx, [Job.model_validate(job)])
    return named_job


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
    if job.type in SIGNING_JOB_TYPES:
        require_allowed(ctx, request, SIGN_PERMISSION, Resource(type="Job", id=job_id))
    await jobs.retry_job(ctx.conn, ctx.tenant, job_id, act=ctx.act)
    return Job.model_validate(await queries.get_job(ctx.conn, ctx.tenant, job_id))


type_routes = RouteFamily("Jobs")


class JobTypeInfo(ResponseBody):
    """How jobs of one type are run."""

    type: str = Field(examples=["PARSE_FACTS"])
    description: str = Field(examples=["Reads the facts of an uploaded document."])
    restartable: bool = Field(description="True if its jobs are stored and survive a restart.")
    timeout_seconds: float | None = Field(
        validation_alias=AliasChoices("timeout", "timeout_seconds"),
        description="An execution that takes longer is interrupted; null if it may take any time.",
        examples=[300],
    )
    max_attempts: int = Field(description="How often a job is started before it is DEAD_LETTER.", examples=[5])
    first_delay_seconds: float = Field(
        validation_alias=AliasChoices("first_delay", "first_delay_seconds"),
        description="The pause after the first failed attempt; it grows with each attempt.",
        examples=[2],
    )
    longest_delay_seconds: float = Field(
        validation_alias=AliasChoices("longest_delay", "longest_delay_seconds"),
        description="The longest pause between two attempts.",
        examples=[1024],
    )
    keep_seconds: int = Field(description="How long a finished job is kept.", examples=[1209600])
    schedulable: bool = Field(description="True if a schedule can submit such jobs.")


class JobTypeList(ResponseBody):
    items: list[JobTypeInfo] = Field(description="By name.")


@type_routes.read("/v1/job-types", permission="jobs:read")
async def list_job_types(ctx: Context) -> JobTypeList:
    """List the types of jobs: what they do, how long they may take, how often they are tried."""
    return JobTypeList(
        items=[
            JobTypeInfo.model_validate({**list_members(spec), "schedulable": spec.type in PERMISSION_BY_TYPE})
            for spec in ctx.service.jobs.list_types()
        ]
    )


figure_routes = RouteFamily("Jobs", resource="Job")

MOST_HOURS: Final = 168
MOST_DEPENDENCIES: Final = 200


class JobHour(ResponseBody):
    """The jobs that ended in one hour. Times are in seconds; null if no job of the hour ever began."""

    since: Moment = Field(description="The beginning of the hour, in UTC.")
    succeeded: int = Field(examples=[120])
    failed: int = Field(examples=[2])
    cancelled: int = Field(examples=[0])
    wait_seconds_p50: float | None = Field(description="From creation to the last attempt: the median.", examples=[0.4])
    wait_seconds_p95: float | None = Field(description="Of 95 in 100 at most.", examples=[2.5])
    run_seconds_p50: float | None = Field(description="The last attempt: the median.", examples=[0.2])
    run_seconds_p95: float | None = Field(description="Of 95 in 100 at most.", examples=[1.1])


class JobStatistics(ResponseBody):
    most: int = Field(
        job_figures.MOST_COUNTED, description="Only so many of the newest jobs are counted.", examples=[50000]
    )
    hours: list[JobHour] = Field(description="By time. An hour in which no job ended is left out.")


class JobDependency(ResponseBody):
    """Another job. Its type and status are null once it is no longer kept."""

    job_id: Id = Field(validation_alias="other_id")
    type: str | None = Field(examples=["PARSE_FACTS"])
    status: Status | None
    met: bool = Field(description="True if nothing waits for it any more.")


class JobDependencies(ResponseBody):
    needs: list[JobDependency] = Field(description="Jobs that have to succeed before this one starts.")
    needed_by: list[JobDependency] = Field(description="Jobs that start after this one has succeeded.")


@figure_routes.read("/v1/job-statistics", permission="jobs:read")
async def get_job_statistics(
    ctx: Context,
    hours: Annotated[int, Query(ge=1, le=MOST_HOURS, description="How far to look back.", examples=[24])] = 24,
) -> JobStatistics:
    """Get how many jobs ended in each hour, how long they waited and how long they ran."""
    rows = await job_figures.count_by_hour(ctx.conn, ctx.tenant, since=ctx.act.at - timedelta(hours=hours))
    return JobStatistics(hours=[JobHour.model_validate(dict(row)) for row in rows])


@figure_routes.read("/v1/jobs/{job_id}/dependencies", permission="jobs:read")
async def list_job_dependencies(ctx: Context, job_id: Id) -> JobDependencies:
    """List the jobs that a job waits for, and those that wait for it; at most 200 in all."""
    job = await queries.get_job(ctx.conn, ctx.tenant, job_id)
    rows = await job_figures.list_dependencies(ctx.conn, ctx.tenant, job.job_id, limit=MOST_DEPENDENCIES)
    sides = {
        side: [JobDependency.model_validate(dict(row)) for row in rows if row["direction"] == side]
        for side in ("needs", "needed_by")
    }
    return JobDependencies(**sides)
