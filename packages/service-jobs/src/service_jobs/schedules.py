"""Schedules: jobs that are submitted at the moments of a cron expression, by whichever worker looks first.

    await put_schedule(conn, tenant, Schedule(name="nightly", cron="30 2 * * *", type="report"))
    await submit_due_jobs(conn)           the chore that every worker runs

The job of a moment is submitted in the transaction that moves the schedule to its next moment. So each moment gets one
job however many workers look, and a worker that dies in between has changed nothing. The job's idempotency key is
`schedule:<name>:<moment>`. `catch_up` says what happens to moments that passed while no worker ran.
"""

import logging
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID

import asyncpg
import orjson

from service_jobs.context import Connection
from service_jobs.cron import CatchUp, Cron, DueMoments, find_due_moments
from service_jobs.handler import Handler, require_type_name
from service_jobs.job import InvalidInput, JobsRefusal, Subject, new_ids
from service_jobs.job_spec import JobColumns, Limit, SubmitOptions, require_restartable
from service_jobs.submission import submit_jobs

I = TypeVar("I")  # noqa: E741 (input)

log = logging.getLogger(__name__)

MAX_NAME_LENGTH: Final = 200
MAX_SCHEDULES_PER_TICK: Final = 100  # schedules that one run of the chore checks
TWO_WEEKS: Final = timedelta(days=14)
MAX_KEEP_SECONDS: Final = 2**31 - 1

SCHEDULE_COLUMNS: Final[LiteralString] = """
    name, cron, time_zone, type, payload::text AS payload, priority, max_attempts, keep_seconds, catch_up,
    paused, last_at, next_at, created_at, limit_key, limit_at_most, subject_kind, subject_id, subject_group
"""
UPSERT_SCHEDULE: Final[LiteralString] = f"""
    INSERT INTO jobs.schedule AS s (tenant_id, name, cron, time_zone, type, payload, priority, max_attempts,
                                    keep_seconds, catch_up, next_at, created_at, limit_key, limit_at_most,
                                    subject_kind, subject_id, subject_group)
    VALUES ($1, $2, $3, $4, $5, $6::text::json, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
        ON CONFLICT (tenant_id, name) DO UPDATE
       SET cron = excluded.cron, time_zone = excluded.time_zone, type = excluded.type, payload = excluded.payload,
           priority = excluded.priority, max_attempts = excluded.max_attempts, keep_seconds = excluded.keep_seconds,
           catch_up = excluded.catch_up, limit_key = excluded.limit_key, limit_at_most = excluded.limit_at_most,
           subject_kind = excluded.subject_kind, subject_id = excluded.subject_id,
           subject_group = excluded.subject_group,
           next_at = CASE WHEN (s.cron, s.time_zone) = (excluded.cron, excluded.time_zone) THEN s.next_at
                          ELSE excluded.next_at END
    RETURNING {SCHEDULE_COLUMNS}
"""
SELECT_SCHEDULES: Final[LiteralString] = f"""
    SELECT {SCHEDULE_COLUMNS} FROM jobs.schedule WHERE tenant_id = $1 ORDER BY name
"""
DELETE_SCHEDULE: Final[LiteralString] = "DELETE FROM jobs.schedule WHERE tenant_id = $1 AND name = $2 RETURNING name"
PAUSE_SCHEDULE: Final[LiteralString] = """
    UPDATE jobs.schedule SET paused = true WHERE tenant_id = $1 AND name = $2 RETURNING name
"""
SELECT_FOR_UPDATE: Final[LiteralString] = f"""
    SELECT {SCHEDULE_COLUMNS}, jobs.clock() AS now FROM jobs.schedule WHERE tenant_id = $1 AND name = $2 FOR UPDATE
"""
RESUME_SCHEDULE: Final[LiteralString] = """
    UPDATE jobs.schedule SET paused = false, next_at = $3 WHERE tenant_id = $1 AND name = $2
"""
# The clock is read once, in a subquery, so that the index can be searched for its value.
SELECT_DUE: Final[LiteralString] = """
    SELECT tenant_id, name FROM jobs.schedule
     WHERE NOT paused AND next_at <= (SELECT jobs.clock())
     ORDER BY next_at
     LIMIT $1
"""
SELECT_DUE_FOR_UPDATE: Final[LiteralString] = f"""
    SELECT {SCHEDULE_COLUMNS}, now
      FROM (SELECT jobs.clock() AS now OFFSET 0) AS clock, jobs.schedule
     WHERE tenant_id = $1 AND name = $2 AND NOT paused AND next_at <= now
       FOR UPDATE OF schedule SKIP LOCKED
"""
SET_NEXT_MOMENT: Final[LiteralString] = """
    UPDATE jobs.schedule SET last_at = coalesce($3, last_at), next_at = $4 WHERE tenant_id = $1 AND name = $2
"""


class ScheduleNotFound(JobsRefusal):
    """The tenant has no such schedule."""

    code = "NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no schedule `{name}`", fix="list the schedules to see their names", details={"schedule": name}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Which job is submitted when. `payload` is the JSON text of its input.

    `put_schedule` checks that the cron expression and the time zone are valid.
    """

    name: str
    cron: str
    time_zone: str = "UTC"
    type: str
    payload: str = "null"
    priority: int = 2
    max_attempts: int = 5
    keep_seconds: int = int(TWO_WEEKS.total_seconds())
    catch_up: CatchUp = CatchUp.ONE
    limit: Limit | None = None
    subject: Subject | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= MAX_NAME_LENGTH or not self.name.isprintable():
            raise InvalidInput(f"a schedule's name has 1 to {MAX_NAME_LENGTH} printable characters")
        require_type_name(self.type)
        if self.priority not in {0, 1, 2, 3} or self.max_attempts < 1 or not 0 <= self.keep_seconds <= MAX_KEEP_SECONDS:
            raise InvalidInput("priority must be 0 to 3, max_attempts at least 1 and keep_seconds at least 0")
        if self.catch_up not in set(CatchUp):
            raise InvalidInput(f"catch_up must be `skip`, `one` or `all`, not `{self.catch_up}`")
        object.__setattr__(self, "catch_up", CatchUp(self.catch_up))
        try:
            orjson.loads(self.payload)
        except orjson.JSONDecodeError as error:
            raise InvalidInput(f"the payload of schedule `{self.name}` is not JSON: {error}") from None

    @classmethod
    def from_input(
        cls,
        handler: Handler[I, Any],
        value: I,
        *,
        name: str,
        cron: str,
        time_zone: str = "UTC",
        priority: int = 2,
        catch_up: CatchUp = CatchUp.ONE,
        attempts: int = 5,
        ttl: timedelta = TWO_WEEKS,
        limit: Limit | None = None,
        subject: Subject | None = None,
    ) -> "Schedule":
        """For jobs of `handler`; `attempts` and `ttl` are used if the handler does not specify them."""
        require_restartable(handler, "be scheduled")
        return cls(
            name=name,
            cron=cron,
            time_zone=time_zone,
            type=handler.type,
            payload=handler.encode_input(value),
            priority=priority,
            max_attempts=handler.retry.attempts or attempts,
            keep_seconds=int((ttl if handler.ttl is None else handler.ttl).total_seconds()),
            catch_up=catch_up,
            limit=limit,
            subject=subject or handler.find_subject(value),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchedule:
    """A stored schedule. `last_at` is the last moment that got a job."""

    schedule: Schedule
    paused: bool
    last_at: datetime | None
    next_at: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """The job of one moment of a schedule."""

    tenant: UUID
    name: str
    moment: datetime
    job_id: UUID


async def put_schedule(conn: Connection, tenant: UUID, schedule: Schedule) -> StoredSchedule:
    """Create `schedule`, or change the one of its name; the next moment changes only if cron or time zone do.

    A paused schedule stays paused. Raises `InvalidInput` if the expression is not valid or never matches.
    """
    now = await conn.fetchval("SELECT jobs.clock()")
    row = await conn.fetchrow(
        UPSERT_SCHEDULE,
        tenant,
        schedule.name,
        schedule.cron,
        schedule.time_zone,
        schedule.type,
        schedule.payload,
        schedule.priority,
        schedule.max_attempts,
        schedule.keep_seconds,
        schedule.catch_up,
        _require_next_moment(Cron(schedule.cron, schedule.time_zone), now),
        now,
        *((None, None) if (limit := schedule.limit) is None else (limit.key, limit.at_most)),
        *((None, None, None) if (about := schedule.subject) is None else (about.kind, about.id, about.group)),
    )
    if row is None:
        raise RuntimeError("an upsert returned nothing")
    return _read_schedule(row)


async def list_schedules(conn: Connection, tenant: UUID) -> list[StoredSchedule]:
    """The tenant's schedules, by name."""
    return [_read_schedule(row) for row in await conn.fetch(SELECT_SCHEDULES, tenant)]


async def remove_schedule(conn: Connection, tenant: UUID, name: str) -> None:
    """Remove the schedule; the jobs it has submitted stay. Raises `ScheduleNotFound`."""
    if await conn.fetchval(DELETE_SCHEDULE, tenant, name) is None:
        raise ScheduleNotFound(name)


async def pause_schedule(conn: Connection, tenant: UUID, name: str) -> None:
    """Submit nothing until it is resumed. Raises `ScheduleNotFound`."""
    if await conn.fetchval(PAUSE_SCHEDULE, tenant, name) is None:
        raise ScheduleNotFound(name)


async def resume_schedule(conn: Connection, tenant: UUID, name: str) -> None:
    """Continue with the next moment from now; those of the pause are skipped, whatever `catch_up` says.

    Call it in a transaction. Raises `ScheduleNotFound`.
    """
    row = await conn.fetchrow(SELECT_FOR_UPDATE, tenant, name)
    if row is None:
        raise ScheduleNotFound(name)
    if row["paused"]:
        await conn.execute(
            RESUME_SCHEDULE, tenant, name, _require_next_moment(Cron(row["cron"], row["time_zone"]), row["now"])
        )


async def submit_due_jobs(conn: Connection) -> list[ScheduledJob]:
    """Submit all due jobs of all tenants, in one short transaction per schedule.

    A schedule whose expression is not valid any more or never matches again is paused. If its jobs cannot be submitted,
    that is logged and tried again in the next run. Neither delays the others.
    """
    submitted_jobs: list[ScheduledJob] = []
    for row in await conn.fetch(SELECT_DUE, MAX_SCHEDULES_PER_TICK):
        tenant, name = row["tenant_id"], row["name"]
        try:
            async with conn.transaction():
                submitted_jobs += await _submit_due_of_schedule(conn, tenant, name)
        except Exception:
            if conn.is_closed():
                raise
            log.exception("a schedule's jobs could not be submitted", extra=_build_log_fields(tenant, name))
    return submitted_jobs


async def _submit_due_of_schedule(conn: Connection, tenant: UUID, name: str) -> list[ScheduledJob]:
    row = await conn.fetchrow(SELECT_DUE_FOR_UPDATE, tenant, name)
    if row is None:  # another worker has it, or had it a moment ago
        return []
    try:
        due_moments = find_due_moments(
            Cron(row["cron"], row["time_zone"]), row["next_at"], row["now"], CatchUp(row["catch_up"])
        )
    except InvalidInput as error:  # the machine's time zones have changed, or a newer version wrote this row
        log.error("a schedule is paused: %s", error.says, extra=_build_log_fields(tenant, name))
        await pause_schedule(conn, tenant, name)
        return []
    ids = await _submit_moments(conn, tenant, row, due_moments)
    await conn.execute(
        SET_NEXT_MOMENT,
        tenant,
        name,
        due_moments.moments[-1] if due_moments.moments else None,
        due_moments.next_at or row["next_at"],
    )
    if due_moments.next_at is None:
        log.warning("a schedule is paused: it never matches again", extra=_build_log_fields(tenant, name))
        await pause_schedule(conn, tenant, name)
    return [
        ScheduledJob(tenant=tenant, name=name, moment=moment, job_id=job_id)
        for moment, job_id in zip(due_moments.moments, ids, strict=True)
    ]


async def _submit_moments(conn: Connection, tenant: UUID, row: asyncpg.Record, due_moments: DueMoments) -> list[UUID]:
    if not due_moments.moments:
        return []
    options = SubmitOptions(
        tenant=tenant,
        type=row["type"],
        priority=row["priority"],
        max_attempts=row["max_attempts"],
        keep_seconds=row["keep_seconds"],
        limit=row["limit_at_most"],
    )
    subject, count = Subject.from_row(row), len(due_moments.moments)
    columns = JobColumns(
        ids=new_ids(count),
        payloads=[row["payload"]] * count,
        limit_keys=None if row["limit_key"] is None else [row["limit_key"]] * count,
        subjects=None if subject is None else [subject] * count,
        keys=[build_moment_key(row["name"], moment) for moment in due_moments.moments],
    )
    return await submit_jobs(conn, options, columns)


def build_moment_key(name: str, moment: datetime) -> str:
    """The idempotency key of the job of one moment."""
    return f"schedule:{name}:{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _require_next_moment(cron: Cron, now: datetime) -> datetime:
    moment = cron.find_next_after(now)
    if moment is None:
        raise cron.build_never_error()
    return moment


def _read_schedule(row: asyncpg.Record) -> StoredSchedule:
    return StoredSchedule(
        schedule=Schedule(
            **{field.name: row[field.name] for field in fields(Schedule) if field.name in row.keys()},  # noqa: SIM118
            limit=None if row["limit_key"] is None else Limit(key=row["limit_key"], at_most=row["limit_at_most"]),
            subject=Subject.from_row(row),
        ),
        paused=row["paused"],
        last_at=row["last_at"],
        next_at=row["next_at"],
        created_at=row["created_at"],
    )


def _build_log_fields(tenant: UUID, name: str) -> dict[str, object]:
    return {"tenant_id": str(tenant), "schedule": name}
