"""/v1/schedules: jobs that are submitted again and again, by a cron expression. Their inputs are never shown."""

from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints
from service_jobs.cron import CatchUp
from service_jobs.schedules import StoredSchedule, list_schedules
from starlette.requests import Request

from bpc.api.access.auth import require_allowed
from bpc.api.http.models import Id, Moment, RequestBody, ResponseBody, Text
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.api.routes.jobs import JobSubject, JobType
from bpc.core.formats.ids import TenantId
from bpc.core.policies import Resource
from bpc.storage import schedules
from bpc.tasks.schedules import build_schedule, require_schedulable

routes = RouteFamily("Jobs", resource="Schedule")

CronText = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class NewSchedule(RequestBody):
    name: Text = Field(description="Unique in the tenant.", examples=["supplier-a-weekly"])
    type: JobType = Field(
        description="INGEST_DOCUMENT, RENEW_ITEMS or REPLAY_AUDIT; `/v1/job-types` says which can be scheduled.",
        examples=["INGEST_DOCUMENT"],
    )
    cron: CronText = Field(description="Minute, hour, day, month and day of the week.", examples=["30 5 * * 1"])
    time_zone: Text = Field("UTC", description="The time zone of `cron`.", examples=["Europe/Berlin"])
    catch_up: CatchUp = Field(
        CatchUp.ONE,
        description="What happens to moments that passed while no worker ran: one job for all of them, one for each, "
        "or none.",
    )
    input: dict[str, Any] = Field(
        description="Of INGEST_DOCUMENT: `document_id`, `file_url` and optionally `mime_type`. Of RENEW_ITEMS: `sku`, "
        "the product. Of REPLAY_AUDIT: `sample`, the number of active passports to compile again.",
        examples=[{"document_id": "0190a7c4-0000-7000-8000-000000000001", "file_url": "https://example.com/bom.csv"}],
    )


class ScheduleChanges(RequestBody):
    """What changes. The name and the type stay."""

    cron: CronText | None = Field(None, description="Left out, it stays as it is.", examples=["30 5 * * 1"])
    time_zone: Text | None = Field(None, description="Left out, it stays as it is.", examples=["Europe/Berlin"])
    catch_up: CatchUp | None = Field(None, description="Left out, it stays as it is.")
    input: dict[str, Any] | None = Field(None, description="Left out, it stays as it is.", examples=[{"sample": 100}])


class ScheduleState(ResponseBody):
    schedule_id: Id = Field(description="Also the id of its events in the audit log.")
    name: str = Field(examples=["supplier-a-weekly"])
    type: str = Field(examples=["INGEST_DOCUMENT"])
    cron: str = Field(examples=["30 5 * * 1"])
    time_zone: str = Field(examples=["Europe/Berlin"])
    catch_up: CatchUp
    subject: JobSubject | None = Field(description="What its jobs are about.")
    paused: bool
    last_at: Moment | None = Field(description="The last moment for which a job was submitted.")
    next_at: Moment | None = Field(description="The next moment; null while it is paused.")
    created_at: Moment

    @classmethod
    def from_row(cls, tenant: TenantId, row: StoredSchedule) -> Self:
        schedule = row.schedule
        return cls(
            schedule_id=schedules.compute_schedule_id(tenant, schedule.name),
            name=schedule.name,
            type=schedule.type,
            cron=schedule.cron,
            time_zone=schedule.time_zone,
            catch_up=schedule.catch_up,
            subject=None if schedule.subject is None else JobSubject.model_validate(schedule.subject),
            paused=row.paused,
            last_at=row.last_at,
            next_at=None if row.paused else row.next_at,
            created_at=row.created_at,
        )


class ScheduleList(ResponseBody):
    items: list[ScheduleState] = Field(description="By name; a tenant has at most 100.")


@routes.write(
    "/v1/schedules", permission="jobs:admin", status=201, errors=("NOT_FOUND", "CONFLICT", "OUTBOUND_BLOCKED")
)
async def create_schedule(ctx: Context, request: Request, body: NewSchedule) -> ScheduleState:
    """Submit a job at every moment that `cron` matches.

    A schedule acts in your name, so it needs what its jobs need: INGEST_DOCUMENT `docs:upload`, RENEW_ITEMS
    `passport:compile`, REPLAY_AUDIT `passport:replay`. RENEW_ITEMS issues batteries of a product again that have new
    readings or another status.
    """
    require_allowed(ctx, request, require_schedulable(body.type), Resource(type="Schedule"))
    schedule = await build_schedule(
        ctx.conn,
        ctx.tenant,
        ctx.service.task_jobs,
        name=body.name,
        job_type=body.type,
        job_input=body.input,
        cron=body.cron,
        time_zone=body.time_zone,
        catch_up=body.catch_up,
        actor=ctx.act.actor_id,
        defaults=ctx.service.jobs.defaults,
    )
    row = await schedules.create_schedule(ctx.conn, ctx.tenant, schedule, act=ctx.act)
    return ScheduleState.from_row(ctx.tenant, row)


@routes.read("/v1/schedules", permission="jobs:read")
async def list_job_schedules(ctx: Context) -> ScheduleList:
    """List the schedules, by name."""
    rows = await list_schedules(ctx.conn, ctx.tenant)
    return ScheduleList(items=[ScheduleState.from_row(ctx.tenant, row) for row in rows])


@routes.read("/v1/schedules/{schedule_id}", permission="jobs:read")
async def get_schedule(ctx: Context, schedule_id: Id) -> ScheduleState:
    """Get a schedule."""
    return ScheduleState.from_row(ctx.tenant, await schedules.find_schedule(ctx.conn, ctx.tenant, schedule_id))


@routes.write(
    "/v1/schedules/{schedule_id}", permission="jobs:admin", method="PUT", errors=("CONFLICT", "OUTBOUND_BLOCKED")
)
async def change_schedule(ctx: Context, request: Request, schedule_id: Id, body: ScheduleChanges) -> ScheduleState:
    """Change a schedule. The next moment changes only if `cron` or `time_zone` do."""
    schedule = (await schedules.find_schedule(ctx.conn, ctx.tenant, schedule_id)).schedule
    require_allowed(ctx, request, require_schedulable(schedule.type), Resource(type="Schedule", id=schedule_id))
    changes = {name: value for name, value in body.model_dump(exclude={"input"}).items() if value is not None}
    new_schedule = replace(schedule, **changes)
    if body.input is not None:
        new_schedule = await build_schedule(
            ctx.conn,
            ctx.tenant,
            ctx.service.task_jobs,
            name=schedule.name,
            job_type=schedule.type,
            job_input=body.input,
            cron=new_schedule.cron,
            time_zone=new_schedule.time_zone,
            catch_up=new_schedule.catch_up,
            actor=ctx.act.actor_id,
            defaults=ctx.service.jobs.defaults,
        )
    row = await schedules.change_schedule(ctx.conn, ctx.tenant, new_schedule, act=ctx.act)
    return ScheduleState.from_row(ctx.tenant, row)


@routes.write("/v1/schedules/{schedule_id}", permission="jobs:admin", method="DELETE")
async def delete_schedule(ctx: Context, schedule_id: Id) -> ScheduleState:
    """Delete a schedule. The jobs that it has submitted stay."""
    row = await schedules.find_schedule(ctx.conn, ctx.tenant, schedule_id)
    await schedules.remove_schedule(ctx.conn, ctx.tenant, row.schedule.name, act=ctx.act)
    return ScheduleState.from_row(ctx.tenant, row)


@routes.write("/v1/schedules/{schedule_id}:pause", permission="jobs:admin")
async def pause_schedule(ctx: Context, schedule_id: Id) -> ScheduleState:
    """Pause a schedule: it submits nothing until it is resumed."""
    row = await schedules.find_schedule(ctx.conn, ctx.tenant, schedule_id)
    await schedules.pause_schedule(ctx.conn, ctx.tenant, row.schedule.name, act=ctx.act)
    return await get_schedule(ctx, schedule_id)


@routes.write("/v1/schedules/{schedule_id}:resume", permission="jobs:admin")
async def resume_schedule(ctx: Context, schedule_id: Id) -> ScheduleState:
    """Resume a schedule with its next moment; those of the pause are left out."""
    row = await schedules.find_schedule(ctx.conn, ctx.tenant, schedule_id)
    await schedules.resume_schedule(ctx.conn, ctx.tenant, row.schedule.name, act=ctx.act)
    return await get_schedule(ctx, schedule_id)
