"""Which jobs tenants may schedule, and how their input becomes an order.

Most jobs carry out a request that was made once and fixed everything: they make no sense a second time. These do:

    INGEST_DOCUMENT   fetch a file regularly; the same bytes as last time make no new version
    RENEW_ITEMS       issue batteries again that have new readings or another status
    REPLAY_AUDIT      compile a tenant's active passports again, beside the audit of every night
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from service_jobs import Defaults, Handler, Limit
from service_jobs.cron import CatchUp
from service_jobs.schedules import Schedule

from bpc.core.errors import Conflict, Invalid, NotFound
from bpc.core.formats.ids import ActorId, DocumentId, TenantId
from bpc.core.outbound_urls import MAX_URL_LENGTH
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.connection import Connection
from bpc.storage.evidence import documents
from bpc.storage.passports.products import find_products_by_sku
from bpc.tasks.ingest import INGEST_JOB_TYPE, INGEST_LIMIT, IngestOrder
from bpc.tasks.job_types import TaskJobs, list_nightly_schedules
from bpc.tasks.renew_items import RENEW_JOB_TYPE, RenewOrder
from bpc.tasks.replay_audit import AUDIT_JOB_TYPE, AuditOrder

# What else the caller must be allowed to do: a schedule does it again and again in the caller's name.
PERMISSION_BY_TYPE: Final[Mapping[str, str]] = {
    INGEST_JOB_TYPE: "docs:upload",
    RENEW_JOB_TYPE: "passport:compile",
    AUDIT_JOB_TYPE: "passport:replay",
}
NIGHTLY_NAMES: Final = frozenset(schedule.name for schedule in list_nightly_schedules())
MAX_SAMPLE: Final = 1_000_000
ModelT = TypeVar("ModelT", bound=BaseModel)


class ScheduledIngestion(BaseModel):
    """The input of a schedule of INGEST_DOCUMENT."""

    model_config = ConfigDict(extra="forbid")

    document_id: UUID
    file_url: str = Field(min_length=1, max_length=MAX_URL_LENGTH)
    mime_type: str | None = Field(None, min_length=1, max_length=200)


class ScheduledRenewal(BaseModel):
    """The input of a schedule of RENEW_ITEMS."""

    model_config = ConfigDict(extra="forbid")

    sku: str = Field(min_length=1, max_length=200)


class ScheduledAudit(BaseModel):
    """The input of a schedule of REPLAY_AUDIT."""

    model_config = ConfigDict(extra="forbid")

    sample: int = Field(strict=True, ge=1, le=MAX_SAMPLE)


class NotSchedulable(Invalid):
    """Jobs of this type carry out one request."""

    def __init__(self, job_type: str) -> None:
        super().__init__(
            f"jobs of type `{job_type[:100]}` cannot be scheduled",
            fix=f"use one of {', '.join(sorted(PERMISSION_BY_TYPE))}",
            details={"type": job_type[:100]},
        )


def require_schedulable(job_type: str) -> str:
    """The permission that a schedule of this type needs. Raises `NotSchedulable`."""
    if job_type not in PERMISSION_BY_TYPE:
        raise NotSchedulable(job_type)
    return PERMISSION_BY_TYPE[job_type]


async def build_schedule(
    conn: Connection,
    tenant: TenantId,
    task_jobs: TaskJobs,
    *,
    name: str,
    job_type: str,
    job_input: object,
    cron: str,
    time_zone: str,
    catch_up: CatchUp,
    actor: ActorId | None,
    defaults: Defaults,
) -> Schedule:
    """A schedule of a type that allows it, with a checked input. Raises `NotSchedulable` or `Invalid`."""
    require_schedulable(job_type)
    if tenant == SYSTEM_TENANT and name in NIGHTLY_NAMES:
        raise Conflict(
            f"`{name}` is a schedule of the product itself", fix="pause or resume it, or choose another name"
        )
    handler, order, limit = await _build_order(conn, tenant, task_jobs, job_type, job_input, actor)
    schedule = Schedule.from_input(
        handler,
        order,
        name=name,
        cron=cron,
        time_zone=time_zone,
        catch_up=catch_up,
        attempts=defaults.attempts,
        ttl=defaults.ttl,
    )
    return replace(schedule, limit=limit)


async def _build_order(
    conn: Connection, tenant: TenantId, task_jobs: TaskJobs, job_type: str, job_input: object, actor: ActorId | None
) -> tuple[Handler[Any, Any], object, Limit | None]:
    if job_type == INGEST_JOB_TYPE:
        ingestion = _parse_input(ScheduledIngestion, job_input)
        document = await documents.get_document(conn, tenant, DocumentId(ingestion.document_id))
        task_jobs.sources.require_allowed(ingestion.file_url)
        order = IngestOrder(
            document_id=document.document_id,
            file_url=ingestion.file_url,
            mime_type=ingestion.mime_type,
            actor_id=actor,
        )
        return task_jobs.ingest, order, INGEST_LIMIT
    if job_type == RENEW_JOB_TYPE:
        renewal = _parse_input(ScheduledRenewal, job_input)
        if renewal.sku not in await find_products_by_sku(conn, tenant, [renewal.sku]):
            raise NotFound(f"there is no battery product with the SKU `{renewal.sku}`", fix="create it first")
        return task_jobs.renew_items, RenewOrder(sku=renewal.sku, actor_id=actor), None
    audit = _parse_input(ScheduledAudit, job_input)
    return task_jobs.replay_audit.tenant, AuditOrder(sample=audit.sample), None


def _parse_input(model: type[ModelT], value: object) -> ModelT:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = [
            {"at": ".".join(str(part) for part in ("input", *problem["loc"])), "says": problem["msg"]}
            for problem in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        first = problems[0]
        raise Invalid(
            f"the input of the schedule is not valid: `{first['at']}`: {first['says']}",
            fix=f"it has {', '.join(f'`{name}`' for name in model.model_fields)}",
            details={"problems": problems},
        ) from None
