"""Retention: what has outlived its time goes, and that it went is on record.

    RETENTION_SWEEP   every night, in the tenant `system`: a RETENTION for each tenant, with the cutoffs of that night
    RETENTION         one part: a bounded piece of what goes, the event that says so, and the next part if there is more

What a part removes, its RetentionApplied event, the anchors that event vouches for and the job of the next part are one
transaction. So at every moment the record says what is gone, wherever a worker dies, and a part is never done twice.
A part that finds nothing to remove puts nothing on record. While the schedule is paused, no part removes anything.
"""

from dataclasses import asdict, replace
from dataclasses import dataclass as plain_dataclass
from datetime import datetime, timedelta
from typing import Final, Self
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.anchors import APPLIED, NEVER_CUT, claim
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, TenantId
from bpc.core.timestamps import format_time
from bpc.db import anchors, events, retention
from bpc.db.connection import Connection
from bpc.db.database import as_system
from bpc.db.jobs import submit_to_all
from bpc.db.retention import BEGINNING, LOWEST, Place
from bpc.jobs import LOW, Context, Handler, Handlers
from bpc.jobs.schedules import Schedule
from bpc.settings import Settings

SWEEP: Final = "RETENTION_SWEEP"
NIGHTLY: Final = "17 3 * * *"  # UTC
PRIORITY: Final = LOW  # behind everything that somebody waits for

# What one transaction removes at most. A content may have the size of the largest upload, a version that of its proof.
CONTENTS: Final = 50
VERSIONS: Final = 200
EXPORTS: Final = 200
EVENTS: Final = 5_000


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """How many days what is kept."""

    events: int
    passport_versions: int
    document_versions: int
    exports: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            events=settings.retention_events_days,
            passport_versions=settings.retention_passport_versions_days,
            document_versions=settings.retention_document_versions_days,
            exports=settings.jobs_ttl_days,
        )


@dataclass(frozen=True, kw_only=True)
class Cutoffs:
    """What is older goes: contents by their upload, versions and exports by their end, events by when they occurred."""

    document_versions: datetime
    passport_versions: datetime
    passport_exports: datetime
    events: datetime

    @classmethod
    def at(cls, now: datetime, periods: Periods) -> Self:
        return cls(
            document_versions=now - timedelta(days=periods.document_versions),
            passport_versions=now - timedelta(days=periods.passport_versions),
            passport_exports=now - timedelta(days=periods.exports),
            events=now - timedelta(days=periods.events),
        )


@dataclass(frozen=True, kw_only=True)
class SweepOrder:
    """A round over all tenants."""


@dataclass(frozen=True, kw_only=True)
class RetentionOrder:
    """One part of one run. The walk over the events goes on behind `walked_at` and `walked_id`."""

    run_id: UUID
    part: int = 1
    cutoffs: Cutoffs
    walked_at: datetime = BEGINNING
    walked_id: UUID = LOWEST

    @property
    def walked(self) -> Place:
        return Place(occurred_at=self.walked_at, event_id=self.walked_id)


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many of what is gone."""

    document_versions: int = 0
    passport_versions: int = 0
    passport_exports: int = 0
    events: int = 0
    webhook_deliveries: int = 0
    anchors: int = 0

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def __add__(self, other: Self) -> "Counts":
        theirs = asdict(other)
        return Counts(**{name: count + theirs[name] for name, count in asdict(self).items()})


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a part did, and the order of the part that follows; None after the last."""

    counts: Counts
    following: RetentionOrder | None


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What one part removes at most."""

    contents: int = CONTENTS
    versions: int = VERSIONS
    exports: int = EXPORTS
    events: int = EVENTS


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Both jobs."""

    sweep: Handler[SweepOrder, None]
    part: Handler[RetentionOrder, None]


def nightly() -> Schedule:
    """When the sweep comes, for the tenant `system`."""
    return Schedule(name=retention.SCHEDULE, cron=NIGHTLY, type=SWEEP, payload="{}", priority=PRIORITY)


def retention_jobs(handlers: Handlers, *, periods: Periods, size: Size = Size()) -> Retention:  # noqa: B008 (frozen)
    @handlers.job("RETENTION")
    async def part(ctx: Context, order: RetentionOrder) -> None:
        conn = await ctx.transaction()
        async with as_system(conn):
            if await retention.is_on_hold(conn):  # since the night this run began
                return
            done = await apply(conn, TenantId(ctx.tenant), order, act=Act(None, fresh.now()), size=size)
        if done.following is not None:
            key = f"retention:{order.run_id}:{done.following.part}"
            ctx.submit(part, done.following, key=key, priority=PRIORITY)

    @handlers.job(SWEEP)
    async def sweep(ctx: Context, _: SweepOrder) -> None:
        order = RetentionOrder(run_id=ctx.job_id, cutoffs=Cutoffs.at(fresh.now(), periods))
        key = f"retention:{order.run_id}:1"
        await submit_to_all(await ctx.transaction(), part, order, key=key, priority=PRIORITY)

    return Retention(sweep=sweep, part=part)


async def apply(
    conn: Connection,
    tenant: TenantId,
    order: RetentionOrder,
    *,
    act: Act,
    size: Size = Size(),  # noqa: B008 (frozen)
) -> Done:
    """Remove one part of what is older than the cutoffs, on record, in a transaction of the system role."""
    await anchors.alone(conn, tenant)
    before = order.cutoffs
    contents = await retention.remove_content(
        conn, tenant, before=before.document_versions, most=size.contents, at=act.at
    )
    versions = await retention.remove_versions(conn, tenant, before=before.passport_versions, most=size.versions)
    exports = await retention.remove_exports(conn, tenant, before=before.passport_exports, most=size.exports)
    walked = await retention.remove_events(conn, tenant, before=before.events, since=order.walked, page=size.events)
    counts = Counts(
        document_versions=contents,
        passport_versions=len(versions.ids),
        passport_exports=versions.exports + exports,
        events=walked.events,
        webhook_deliveries=walked.webhook_deliveries,
        anchors=len(walked.anchors),
    )
    if counts:
        payload = {
            "run_id": str(order.run_id),
            "part": order.part,
            "cutoffs": {name: format_time(moment) for name, moment in asdict(before).items()},
            "counts": asdict(counts),
            "passport_version_ids": sorted(str(version) for version in versions.ids),
            "anchors": claim(walked.anchors),
        }
        stream = Stream(tenant, NEVER_CUT, AggregateId(tenant))
        applied = await events.append(conn, stream, act.says(APPLIED, payload))
        await anchors.vouch(conn, tenant, applied, walked.anchors)
    is_full = contents == size.contents or len(versions.ids) == size.versions or exports == size.exports
    if walked.further is None and not is_full:
        return Done(counts=counts, following=None)
    further = walked.further or order.walked
    following = replace(order, part=order.part + 1, walked_at=further.occurred_at, walked_id=further.event_id)
    return Done(counts=counts, following=following)
