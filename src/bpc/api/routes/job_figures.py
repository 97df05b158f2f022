"""/v1/job-statistics, /v1/jobs/{job_id}/dependencies: how fast jobs go, and which of them wait for which."""

from datetime import timedelta
from typing import Annotated, Final

from fastapi import Query
from pydantic import Field
from service_jobs import queries
from service_jobs.job import Status

from bpc.api.http.models import Id, Moment, ResponseBody
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.storage import job_figures

routes = RouteFamily("Jobs", resource="Job")

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


@routes.read("/v1/job-statistics", permission="jobs:read")
async def get_job_statistics(
    ctx: Context,
    hours: Annotated[int, Query(ge=1, le=MOST_HOURS, description="How far to look back.", examples=[24])] = 24,
) -> JobStatistics:
    """Get how many jobs ended in each hour, how long they waited and how long they ran."""
    rows = await job_figures.count_by_hour(ctx.conn, ctx.tenant, since=ctx.act.at - timedelta(hours=hours))
    return JobStatistics(hours=[JobHour.model_validate(dict(row)) for row in rows])


@routes.read("/v1/jobs/{job_id}/dependencies", permission="jobs:read")
async def list_job_dependencies(ctx: Context, job_id: Id) -> JobDependencies:
    """List the jobs that a job waits for, and those that wait for it; at most 200 in all."""
    job = await queries.get_job(ctx.conn, ctx.tenant, job_id)
    rows = await job_figures.list_dependencies(ctx.conn, ctx.tenant, job.job_id, limit=MOST_DEPENDENCIES)
    sides = {
        side: [JobDependency.model_validate(dict(row)) for row in rows if row["direction"] == side]
        for side in ("needs", "needed_by")
    }
    return JobDependencies(**sides)
