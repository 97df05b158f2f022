"""Schedules: jobs that are submitted when their time comes, by whichever worker looks first.

    await put(conn, tenant, Schedule(name="nightly", cron="30 2 * * *", time_zone="Europe/Berlin", type="report"))
    await tick(conn)           the chore, run by every worker

A moment's job is submitted in the transaction that moves the schedule to its next moment, so each moment is seen
once however many workers look, and a worker that dies in between has changed nothing. The job's idempotency key is
`schedule:<name>:<moment>`. What to do about moments that passed while no worker ran is said by `catch_up`.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID

import asyncpg
import orjson

from bpc.jobs.context import Connection
from bpc.jobs.cron import CatchUp, Cron, Due, due
from bpc.jobs.errors import InvalidInput, JobsRefusal
from bpc.jobs.handler import TYPE_NAME, Handler
from bpc.jobs.ids import new_ids
from bpc.jobs.submitting import Manner, Rows, submit

I = TypeVar("I")  # noqa: E741 (input)

log = logging.getLogger(__name__)

LONGEST_NAME: Final = 200
MOST: Final = 100  # schedules that one tick looks at
TWO_WEEKS: Final = timedelta(days=14)
LONGEST_KEPT: Final = 2**31 - 1

COLUMNS: Final[LiteralString] = """
    name, cron, time_zone, type, payload::text AS payload, priority, max_attempts, keep_seconds, catch_up,
    paused, last_at, next_at, created_at
"""
PUT: Final[LiteralString] = f"""
    INSERT INTO jobs.schedule AS s (tenant_id, name, cron, time_zone, type, payload, priority, max_attempts,
                                    keep_seconds, catch_up, next_at, created_at)
    VALUES ($1, $2, $3, $4, $5, $6::text::json, $7, $8, $9, $10, $11, $12)
        ON CONFLICT (tenant_id, name) DO UPDATE
       SET cron = excluded.cron, time_zone = excluded.time_zone, type = excluded.type, payload = excluded.payload,
           priority = excluded.priority, max_attempts = excluded.max_attempts, keep_seconds = excluded.keep_seconds,
           catch_up = excluded.catch_up,
           next_at = CASE WHEN (s.cron, s.time_zone) = (excluded.cron, excluded.time_zone) THEN s.next_at
                          ELSE excluded.next_at END
    RETURNING {COLUMNS}
"""
EVERY: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM jobs.schedule WHERE tenant_id = $1 ORDER BY name
"""
REMOVE: Final[LiteralString] = "DELETE FROM jobs.schedule WHERE tenant_id = $1 AND name = $2 RETURNING name"
PAUSE: Final[LiteralString] = """
    UPDATE jobs.schedule SET paused = true WHERE tenant_id = $1 AND name = $2 RETURNING name
"""
LOCKED: Final[LiteralString] = f"""
    SELECT {COLUMNS}, jobs.clock() AS now FROM jobs.schedule WHERE tenant_id = $1 AND name = $2 FOR UPDATE
"""
RESUME: Final[LiteralString] = """
    UPDATE jobs.schedule SET paused = false, next_at = $3 WHERE tenant_id = $1 AND name = $2
"""
# The clock is asked once, in a query of its own, so that the index can be searched for what it says.
FIND_DUE: Final[LiteralString] = """
    SELECT tenant_id, name FROM jobs.schedule
     WHERE NOT paused AND next_at <= (SELECT jobs.clock())
     ORDER BY next_at
     LIMIT $1
"""
TAKE: Final[LiteralString] = f"""
    SELECT {COLUMNS}, now
      FROM (SELECT jobs.clock() AS now OFFSET 0) AS clock, jobs.schedule
     WHERE tenant_id = $1 AND name = $2 AND NOT paused AND next_at <= now
       FOR UPDATE OF schedule SKIP LOCKED
"""
MOVE: Final[LiteralString] = """
    UPDATE jobs.schedule SET last_at = coalesce($3, last_at), next_at = $4 WHERE tenant_id = $1 AND name = $2
"""


class ScheduleNotFound(JobsRefusal):
    """There is no such schedule, as far as this tenant can see."""

    code = "NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule `{name}`", fix="look at those there are", details={"schedule": name})


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Which job is submitted when. `payload` is the JSON text of its input; `of` makes it from a handler's input.

    Whether there is such a time is found out when it is `put`.
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

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= LONGEST_NAME or not self.name.isprintable():
            raise InvalidInput(f"a schedule's name has 1 to {LONGEST_NAME} printable characters")
        if not TYPE_NAME.fullmatch(self.type):
            raise InvalidInput(f"`{self.type[:100]}` cannot name a type of job")
        if self.priority not in {0, 1, 2, 3} or self.max_attempts < 1 or not 0 <= self.keep_seconds <= LONGEST_KEPT:
            raise InvalidInput("priority is 0 to 3, there is at least one attempt, and seconds to keep are 0 or more")
        if self.catch_up not in set(CatchUp):
            raise InvalidInput(f"catch_up is `skip`, `one` or `all`, not `{self.catch_up}`")
        object.__setattr__(self, "catch_up", CatchUp(self.catch_up))
        try:
            orjson.loads(self.payload)
        except orjson.JSONDecodeError as wrong:
            raise InvalidInput(f"the payload of schedule `{self.name}` is not JSON: {wrong}") from None

    @classmethod
    def of(
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
    ) -> "Schedule":
        """For jobs of `handler`, as it says they are to be run; `attempts` and `ttl` are for what it leaves open."""
        if not handler.restartable:
            raise InvalidInput(
                f"jobs of type `{handler.type}` live in memory and cannot be scheduled",
                fix="register the handler with `restartable=True`",
            )
        return cls(
            name=name,
            cron=cron,
            time_zone=time_zone,
            type=handler.type,
            payload=handler.input_text(value),
            priority=priority,
            max_attempts=handler.retry.attempts or attempts,
            keep_seconds=int((ttl if handler.ttl is None else handler.ttl).total_seconds()),
            catch_up=catch_up,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A schedule as it is kept. `last_at` is the last moment that got a job."""

    schedule: Schedule
    paused: bool
    last_at: datetime | None
    next_at: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The job of one moment of a schedule."""

    tenant: UUID
    name: str
    moment: datetime
    job_id: UUID


async def put(conn: Connection, tenant: UUID, schedule: Schedule) -> Scheduled:
    """Make `schedule`, or change the one of its name; only another time of happening changes what comes next.

    It stays paused if it is. Raises `InvalidInput` if its time cannot be read, or never comes.
    """
    now = await conn.fetchval("SELECT jobs.clock()")
    row = await conn.fetchrow(
        PUT,
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
        _next(Cron(schedule.cron, schedule.time_zone), now),
        now,
    )
    if row is None:
        raise RuntimeError("an upsert returned nothing")
    return _read(row)


async def every(conn: Connection, tenant: UUID) -> list[Scheduled]:
    """The tenant's schedules, by name."""
    return [_read(row) for row in await conn.fetch(EVERY, tenant)]


async def remove(conn: Connection, tenant: UUID, name: str) -> None:
    """Forget the schedule; jobs it has submitted stay. Raises `ScheduleNotFound`."""
    if await conn.fetchval(REMOVE, tenant, name) is None:
        raise ScheduleNotFound(name)


async def pause(conn: Connection, tenant: UUID, name: str) -> None:
    """Submit nothing until it is resumed. Raises `ScheduleNotFound`."""
    if await conn.fetchval(PAUSE, tenant, name) is None:
        raise ScheduleNotFound(name)


async def resume(conn: Connection, tenant: UUID, name: str) -> None:
    """Go on with the next moment from now; those of the pause are not made up for, whatever `catch_up` says.

    Call it in a transaction. Raises `ScheduleNotFound`.
    """
    row = await conn.fetchrow(LOCKED, tenant, name)
    if row is None:
        raise ScheduleNotFound(name)
    if row["paused"]:
        await conn.execute(RESUME, tenant, name, _next(Cron(row["cron"], row["time_zone"]), row["now"]))


async def tick(conn: Connection) -> list[Submitted]:
    """Submit what is due, of all tenants, one short transaction per schedule.

    A schedule that cannot be read any more, or never happens again, is paused; one whose jobs cannot be submitted is
    logged and tried again with the next tick. Neither holds up the others.
    """
    submitted: list[Submitted] = []
    for found in await conn.fetch(FIND_DUE, MOST):
        tenant, name = found["tenant_id"], found["name"]
        try:
            async with conn.transaction():
                submitted += await _submit_due(conn, tenant, name)
        except Exception:
            if conn.is_closed():
                raise
            log.exception("a schedule's jobs could not be submitted", extra=_about(tenant, name))
    return submitted


async def _submit_due(conn: Connection, tenant: UUID, name: str) -> list[Submitted]:
    row = await conn.fetchrow(TAKE, tenant, name)
    if row is None:  # somebody else has it, or had it a moment ago
        return []
    try:
        ready = due(Cron(row["cron"], row["time_zone"]), row["next_at"], row["now"], CatchUp(row["catch_up"]))
    except InvalidInput as wrong:  # the machine's time zones have changed, or who wrote this row knew more than we do
        log.error("a schedule is paused: %s", wrong.says, extra=_about(tenant, name))
        await pause(conn, tenant, name)
        return []
    ids = await _submit(conn, tenant, row, ready)
    await conn.execute(
        MOVE, tenant, name, ready.moments[-1] if ready.moments else None, ready.next_at or row["next_at"]
    )
    if ready.next_at is None:
        log.warning("a schedule is paused: it never happens again", extra=_about(tenant, name))
        await pause(conn, tenant, name)
    return [
        Submitted(tenant=tenant, name=name, moment=moment, job_id=job_id)
        for moment, job_id in zip(ready.moments, ids, strict=True)
    ]


async def _submit(conn: Connection, tenant: UUID, row: asyncpg.Record, ready: Due) -> list[UUID]:
    if not ready.moments:
        return []
    manner = Manner(
        tenant=tenant,
        type=row["type"],
        priority=row["priority"],
        max_attempts=row["max_attempts"],
        keep_seconds=row["keep_seconds"],
    )
    jobs = Rows(
        ids=new_ids(len(ready.moments)),
        payloads=[row["payload"]] * len(ready.moments),
        keys=[key_of(row["name"], moment) for moment in ready.moments],
    )
    return await submit(conn, manner, jobs)


def key_of(name: str, moment: datetime) -> str:
    """The idempotency key of the job of one moment."""
    return f"schedule:{name}:{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _next(cron: Cron, now: datetime) -> datetime:
    found = cron.next_after(now)
    if found is None:
        raise cron.never()
    return found


def _read(row: asyncpg.Record) -> Scheduled:
    schedule = Schedule(
        name=row["name"],
        cron=row["cron"],
        time_zone=row["time_zone"],
        type=row["type"],
        payload=row["payload"],
        priority=row["priority"],
        max_attempts=row["max_attempts"],
        keep_seconds=row["keep_seconds"],
        catch_up=CatchUp(row["catch_up"]),
    )
    return Scheduled(
        schedule=schedule,
        paused=row["paused"],
        last_at=row["last_at"],
        next_at=row["next_at"],
        created_at=row["created_at"],
    )


def _about(tenant: UUID, name: str) -> dict[str, object]:
    return {"tenant_id": str(tenant), "schedule": name}
