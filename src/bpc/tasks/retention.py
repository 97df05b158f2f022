"""Retention: remove data whose retention period has ended, and record the removal.

    RETENTION_SWEEP   every night, in the tenant `system`: submits a RETENTION for each tenant, with the night's cutoffs
    RETENTION         one part: removes a limited number of rows, records that, submits the next part if there is more

The removal, its RetentionApplied event, the anchors in that event and the job of the next part are one transaction. So
the audit log always says what is gone, even if a worker dies, and no part runs twice. A part that removes nothing
records nothing. While the schedule is paused, no part removes anything.
"""

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Self
from uuid import UUID

from service_jobs import LOW, Context, Defaults, Handler, Handlers
from service_jobs.schedules import Schedule

from bpc.core.audit.checkpoint import RETENTION_EVENT_TYPE, UNCUT_AGGREGATE_TYPE, describe_anchors
from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time
from bpc.runtime.settings import Settings
from bpc.storage.access import view_requests
from bpc.storage.audit import events, retention
from bpc.storage.audit.retention import EventPosition
from bpc.storage.connection import EARLIEST_TIME, LOWEST_ID, Connection
from bpc.storage.database import use_system_role
from bpc.storage.jobs import (
    SweepOrder,
    SweepOutcome,
    make_subject,
    make_sweep_schedule,
    submit_to_all_tenants,
)
from bpc.storage.server_time import require_agreeing_clock, require_agreeing_log

SWEEP: Final = "RETENTION_SWEEP"
NIGHTLY: Final = "17 3 * * *"  # UTC
PRIORITY: Final = LOW  # after all jobs that somebody waits for


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """Older data is removed: contents by upload time, versions and exports by their end, events by their own time."""

    document_versions: datetime
    passport_versions: datetime
    passport_exports: datetime
    events: datetime

    @classmethod
    def from_settings(cls, settings: Settings, now: datetime) -> Self:
        return cls(
            document_versions=now - timedelta(days=settings.retention_document_versions_days),
            passport_versions=now - timedelta(days=settings.retention_passport_versions_days),
            passport_exports=now - timedelta(days=settings.jobs_ttl_days),
            events=now - timedelta(days=settings.retention_events_days),
        )


class CutoffRefused(Conflict):
    """A cutoff lies in the future, or data would be removed before its time."""

    def __init__(self, name: str, cutoff: datetime, limit: datetime) -> None:
        super().__init__(
            f"retention would remove `{name}` from before {format_time(cutoff)}, "
            f"and nothing younger than {format_time(limit)} may go",
            fix="raise the retention period of it, or lower BPC_RETENTION_FLOOR_DAYS",
            details={"cutoff": format_time(cutoff), "limit": format_time(limit), "name": name},
        )


def require_allowed_cutoffs(cutoffs: Cutoffs, now: datetime, *, floor_days: int) -> None:
    """Raise `CutoffRefused` unless each cutoff is in the past and at least as old as the floor. `now`: the database's.

    Exports can be made again at any time: only the future is closed to them.
    """
    for name, cutoff in asdict(cutoffs).items():
        limit = now if name == "passport_exports" else now - timedelta(days=floor_days)
        if cutoff > limit:
            raise CutoffRefused(name, cutoff, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOrder:
    """One part of one run. The walk over the events continues after `walked_at` and `walked_id`."""

    run_id: UUID
    part: int = 1
    cutoffs: Cutoffs
    walked_at: datetime = EARLIEST_TIME
    walked_id: UUID = LOWEST_ID

    @property
    def walk_position(self) -> EventPosition:
        return EventPosition(occurred_at=self.walked_at, event_id=self.walked_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedCounts:
    """How many rows were removed."""

    document_versions: int = 0
    passport_versions: int = 0
    passport_exports: int = 0
    events: int = 0
    webhook_deliveries: int = 0
    anchors: int = 0

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def __add__(self, other: Self) -> "RemovedCounts":
        other_counts = asdict(other)
        return RemovedCounts(**{name: count + other_counts[name] for name, count in asdict(self).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionResult:
    """What a part removed, and the order of the next part; None after the last part."""

    counts: RemovedCounts
    next_order: RetentionOrder | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOutcome:
    """What a part removed, and the job of the next part. While retention is paused, nothing is removed."""

    run_id: UUID
    part: int
    removed: RemovedCounts
    is_paused: bool
    next_job_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSize:
    """How much one part removes at most. A content may be as large as an upload, a version as large as its proof."""

    contents: int = 50
    versions: int = 200
    exports: int = 200
    events: int = 5_000
    words: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionJobs:
    """Both jobs."""

    sweep: Handler[SweepOrder, SweepOutcome]
    part: Handler[RetentionOrder, PartOutcome]


def make_nightly_schedule(defaults: Defaults = Defaults()) -> Schedule:  # noqa: B008 (frozen)
    """When the sweep runs, in the tenant `system`."""
    return make_sweep_schedule(retention.SCHEDULE_NAME, NIGHTLY, SWEEP, defaults, priority=PRIORITY)


def declare_retention_jobs(
    handlers: Handlers,
    *,
    settings: Settings,
    defaults: Defaults = Defaults(),  # noqa: B008 (frozen)
    size: PartSize = PartSize(),  # noqa: B008 (frozen)
) -> RetentionJobs:
    """Both jobs."""

    @handlers.job(
        "RETENTION",
        subject=lambda order: make_subject("retention_run", order.run_id),
        description="Removes some of the data whose retention time is over.",
    )
    async def remove_part(ctx: Context, order: RetentionOrder) -> PartOutcome:
        conn = await ctx.transaction()
        outcome = PartOutcome(
            run_id=order.run_id, part=order.part, removed=RemovedCounts(), is_paused=False, next_job_id=None
        )
        async with use_system_role(conn):
            if await retention.is_paused(conn):  # it may have been paused since this run began
                return replace(outcome, is_paused=True)
            now = await require_agreeing_clock(conn)
            await require_agreeing_log(conn, now)
            require_allowed_cutoffs(order.cutoffs, now, floor_days=settings.retention_floor)
            result = await remove_expired(conn, TenantId(ctx.tenant), order, act=Act(None, now), size=size)
        next_job_id = None
        if result.next_order is not None:
            key = f"retention:{order.run_id}:{result.next_order.part}"
            next_job_id = ctx.submit(remove_part, result.next_order, key=key, priority=PRIORITY)
        return replace(outcome, removed=result.counts, next_job_id=next_job_id)

    @handlers.job(SWEEP, description="Submits the nightly retention of every tenant.")
    async def sweep(ctx: Context, _: SweepOrder) -> SweepOutcome:
        conn = await ctx.transaction()
        now = await require_agreeing_clock(conn)
        await require_agreeing_log(conn, now)
        order = RetentionOrder(run_id=ctx.job_id, cutoffs=Cutoffs.from_settings(settings, now))
        require_allowed_cutoffs(order.cutoffs, now, floor_days=settings.retention_floor)
        key = f"retention:{order.run_id}:1"
        return await submit_to_all_tenants(conn, remove_part, order, key=key, priority=PRIORITY, defaults=defaults)

    return RetentionJobs(sweep=sweep, part=remove_part)


async def remove_expired(
    conn: Connection,
    tenant: TenantId,
    order: RetentionOrder,
    *,
    act: Act,
    size: PartSize = PartSize(),  # noqa: B008 (frozen)
) -> RetentionResult:
    """Remove and record one part of the data older than the cutoffs, in a transaction of the system role."""
    await events.lock_anchors(conn, tenant)
    cutoffs = order.cutoffs
    contents = await retention.remove_content(
        conn, tenant, before=cutoffs.document_versions, limit=size.contents, at=act.at
    )
    versions = await retention.remove_versions(conn, tenant, before=cutoffs.passport_versions, limit=size.versions)
    exports = await retention.remove_exports(conn, tenant, before=cutoffs.passport_exports, limit=size.exports)
    words = await view_requests.remove_old_words(conn, tenant, limit=size.words, act=act)  # each with its own event
    walk = await retention.remove_events(
        conn, tenant, before=cutoffs.events, after=order.walk_position, page_size=size.events
    )
    counts = RemovedCounts(
        document_versions=len(contents),
        passport_versions=len(versions.ids),
        passport_exports=versions.exports + exports,
        events=len(walk.events),
        webhook_deliveries=walk.webhook_deliveries,
        anchors=len(walk.anchors),
    )
    if counts:
        payload: dict[str, object] = {
            "run_id": str(order.run_id),
            "part": order.part,
            "cutoffs": {name: format_time(moment) for name, moment in asdict(cutoffs).items()},
            "counts": asdict(counts),
            "document_version_ids": sorted(map(str, contents)),
            "passport_version_ids": sorted(str(version) for version in versions.ids),
            "anchors": describe_anchors(walk.anchors),
        }
        if walk.events:
            payload["removed"] = retention.describe_removed(walk.events)
        event = await events.append_act(conn, act, tenant, UNCUT_AGGREGATE_TYPE, tenant, RETENTION_EVENT_TYPE, payload)
        await events.insert_retention_anchors(conn, tenant, event, walk.anchors)
        await retention.insert_removed_events(conn, tenant, event, walk.events)
    is_full = (
        words == size.words
        or len(contents) == size.contents
        or len(versions.ids) == size.versions
        or exports == size.exports
    )
    if walk.next_position is None and not is_full:
        return RetentionResult(counts=counts, next_order=None)
    position = walk.next_position or order.walk_position
    next_order = replace(order, part=order.part + 1, walked_at=position.occurred_at, walked_id=position.event_id)
    return RetentionResult(counts=counts, next_order=next_order)
