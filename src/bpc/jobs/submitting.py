"""Submitting: one function call per transaction, in the caller's transaction or in one of our own.

    async with database.tenant(tenant) as conn:
        ...                                                 # business data
        await jobs.submit(handler, value, tenant=tenant, conn=conn)   # committed with it, or not at all

Submissions of our own that arrive while others are on their way to the database share the next transaction: ten
coroutines that submit one job each cost one commit, and each returns only when its job is durable.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID

import asyncpg

from bpc.jobs.context import Connection, Limit, Wish, can_be_stored
from bpc.jobs.errors import InvalidInput, JobsRefusal
from bpc.jobs.sessions import Sessions

# Null if the ids are those that were given, which is by far the most usual: thousands need not travel back.
SUBMIT: Final[LiteralString] = """
    SELECT nullif(jobs.submit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16), $3)
"""
SUBMIT_ONE: Final[LiteralString] = "SELECT jobs.submit_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
QUICKLY: Final[LiteralString] = " FROM set_config('lock_timeout', '250ms', true)"
MOST_AT_ONCE: Final = 500  # jobs of single submissions that share a transaction
LONGEST_KEY: Final = 500
LONGEST_SUBMIT: Final = 30.0
LONGEST_DELAY: Final = 10 * 366 * 86_400.0

CRITICAL: Final = 0
HIGH: Final = 1
NORMAL: Final = 2
LOW: Final = 3


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How jobs of one submission are made, as far as they have it in common. Equal manners can share a call."""

    tenant: UUID
    type: str
    priority: int
    max_attempts: int
    keep_seconds: int
    limit: int | None = None
    batch: UUID | None = None
    depends_on: tuple[UUID, ...] = ()
    correlation_id: str | None = None
    actor: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Jobs of one manner, column by column; a column that no job uses is None."""

    ids: list[UUID]
    payloads: list[str]
    keys: Sequence[str | None] | None = None
    delays: Sequence[float] | None = None
    limit_keys: Sequence[str | None] | None = None

    @classmethod
    def of(cls, wishes: Sequence[Wish]) -> "Rows":
        return cls(
            ids=[wish.job_id for wish in wishes],
            payloads=[wish.payload for wish in wishes],
            keys=_used([wish.key for wish in wishes]),
            delays=_used([wish.delay for wish in wishes]),
            limit_keys=_used([None if wish.limit is None else wish.limit.key for wish in wishes]),
        )

    @property
    def is_one_that_may_run(self) -> bool:
        return len(self.ids) == 1 and self.delays is None and self.limit_keys is None


def _used(column: list[T]) -> list[T] | None:
    return column if any(column) else None


async def submit(conn: Connection, manner: Manner, rows: Rows, *, quickly: bool = False) -> list[UUID]:
    """Submit jobs in the transaction of `conn`. Returns an id for each, in order.

    `quickly` raises `LockNotAvailableError` instead of waiting for a transaction that has one of the keys.
    """
    try:
        if is_one_job(manner, rows):
            return [await _submit_one(conn, manner, rows, SUBMIT_ONE + (QUICKLY if quickly else ""))]
        others: list[UUID] | None = await conn.fetchval(
            SUBMIT + (QUICKLY if quickly else ""),
            manner.tenant,
            manner.type,
            rows.ids,
            rows.payloads,
            rows.keys,
            rows.delays,
            rows.limit_keys,
            manner.limit,
            manner.priority,
            manner.max_attempts,
            manner.keep_seconds,
            manner.batch,
            manner.depends_on or None,
            manner.correlation_id,
            manner.actor,
            manner.traceparent,
        )
    except asyncpg.ForeignKeyViolationError as missing:
        raise _missing(manner, missing) from missing
    except asyncpg.InsufficientPrivilegeError as wrong:
        if not str(wrong).startswith("this transaction belongs to"):
            raise
        raise InvalidInput(str(wrong), fix="submit in a transaction of the tenant the job is for") from wrong
    return rows.ids if others is None else others


def is_one_job(manner: Manner, rows: Rows) -> bool:
    """Whether `jobs.submit_one` can make it."""
    return rows.is_one_that_may_run and not manner.depends_on and manner.batch is None


async def _submit_one(conn: Connection, manner: Manner, rows: Rows, statement: str) -> UUID:
    job_id: UUID = await conn.fetchval(statement, *one_job(manner, rows))
    return job_id


def one_job(manner: Manner, rows: Rows) -> Sequence[object]:
    """What `jobs.submit_one` is called with for a job that may run at once."""
    return (
        manner.tenant,
        manner.type,
        rows.ids[0],
        rows.payloads[0],
        None if rows.keys is None else rows.keys[0],
        manner.priority,
        manner.max_attempts,
        manner.keep_seconds,
        manner.correlation_id,
        manner.actor,
        manner.traceparent,
    )


def _missing(manner: Manner, said: asyncpg.ForeignKeyViolationError) -> JobsRefusal:
    if manner.depends_on and not said.constraint_name:
        return InvalidInput(
            "a job that this one depends on does not exist",
            fix="submit it first, in this transaction or in one that is committed",
            details={"depends_on": [str(job_id) for job_id in manner.depends_on]},
        )
    return InvalidInput(f"there is no tenant `{manner.tenant}`", fix="create it first")


def checked(wish: Wish) -> Wish:
    """`wish`, if the database can keep it. Raises `InvalidInput`."""
    check_key(wish.key)
    check_manner(wish.priority, wish.delay)
    return wish


def check_key(key: str | None) -> None:
    """Raise `InvalidInput` unless `key` can be an idempotency key, or is none."""
    if key is None:
        return
    if not 1 <= len(key) <= LONGEST_KEY:
        raise InvalidInput(f"an idempotency key has 1 to {LONGEST_KEY} characters, not {len(key)}")
    if not can_be_stored(key):
        raise InvalidInput("the idempotency key cannot be stored", fix="use UTF-8 text without NUL")


def check_keys(keys: Sequence[str | None]) -> None:
    """The same for many, which are nearly always all right: then they are looked at as one."""
    given = [key for key in keys if key is not None]
    lengths = set(map(len, given))
    if given and (min(lengths) < 1 or max(lengths) > LONGEST_KEY or not can_be_stored("".join(given))):
        for key in given:
            check_key(key)


def check_manner(priority: int, delay: float) -> None:
    """Raise `InvalidInput` unless jobs can have this priority and delay."""
    if priority not in {CRITICAL, HIGH, NORMAL, LOW}:
        raise InvalidInput(f"priority is 0 (critical), 1 (high), 2 (normal) or 3 (low), not {priority}")
    if not 0 <= delay <= LONGEST_DELAY:
        raise InvalidInput(f"a delay is 0 seconds to ten years, not {delay:g}")


class Submitter:
    """Gathers single submissions into shared transactions."""

    def __init__(self, sessions: Sessions, *, lanes: int = 2) -> None:
        self._sessions = sessions
        self._waiting: deque[tuple[Manner, Wish, asyncio.Future[UUID]]] = deque()
        self._idle = lanes
        self._senders: set[asyncio.Task[None]] = set()

    async def submit(self, manner: Manner, wish: Wish) -> UUID:
        """Submit one job; it is durable when this returns."""
        future: asyncio.Future[UUID] = asyncio.get_running_loop().create_future()
        self._waiting.append((manner, wish, future))
        if self._idle:
            self._start()
        return await future

    def _start(self) -> None:
        self._idle -= 1
        self._spawn(self._send_all())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        sender = asyncio.create_task(work)
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)

    async def _send_all(self) -> None:
        try:
            async with self._sessions.plain() as conn:
                while not _is_lost(conn) and (group := self._next_group()):
                    await self._send(conn, group)
        except BaseException as error:
            while self._waiting:  # no connection: nobody is left waiting for one
                future = self._waiting.popleft()[2]
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._idle += 1
            if self._waiting:  # they came while the connection was given back
                self._start()

    def _next_group(self) -> list[tuple[Manner, Wish, "asyncio.Future[UUID]"]]:
        group: list[tuple[Manner, Wish, asyncio.Future[UUID]]] = []
        while self._waiting and len(group) < MOST_AT_ONCE:
            if group and self._waiting[0][0] != group[0][0]:
                break
            taken = self._waiting.popleft()
            if not taken[2].cancelled():
                group.append(taken)
        return group

    async def _send_alone(self, one: tuple[Manner, Wish, "asyncio.Future[UUID]"]) -> None:
        try:
            async with self._sessions.plain() as conn:
                await self._send(conn, [one], quickly=False)
        except Exception as error:  # noqa: BLE001 (handed to whoever submitted)
            if not one[2].done():
                one[2].set_exception(error)

    async def _send(
        self, conn: Connection, group: list[tuple[Manner, Wish, "asyncio.Future[UUID]"]], *, quickly: bool = True
    ) -> None:
        try:
            async with asyncio.timeout(LONGEST_SUBMIT):  # a network may swallow everything without an error
                ids = await submit(conn, group[0][0], Rows.of([wish for _, wish, _ in group]), quickly=quickly)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            for one in group:  # whoever has to wait does so alone, and not at the expense of the others
                self._spawn(self._send_alone(one))
            return
        except BaseException as error:
            if isinstance(error, Exception) and len(group) > 1 and not _is_lost(conn):
                for one in group:  # one of them is at fault; the others are not to suffer
                    await self._send(conn, [one])
                return
            for _, _, future in group:  # handed to whoever submitted
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, _, future), job_id in zip(group, ids, strict=True):
            if not future.done():
                future.set_result(job_id)


def _is_lost(conn: Connection) -> bool:
    try:
        return conn.is_closed()
    except asyncpg.InterfaceError:
        return True  # the pool has already taken the lost connection away


def limit_of(limits: Iterable[Limit | None]) -> int | None:
    """The one limit of jobs submitted together; they may have different keys but not different limits."""
    found = {limit.at_most for limit in limits if limit is not None}
    if len(found) > 1:
        raise InvalidInput("jobs of one submission must have the same limit", fix="submit them apart")
    return next(iter(found), None)
