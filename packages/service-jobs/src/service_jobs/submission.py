"""Submitting jobs: one statement per transaction, in the caller's transaction or in one of our own.

    async with database.tenant(tenant) as conn:
        ...                                                           # business data
        await jobs.submit(handler, value, tenant=tenant, conn=conn)   # committed with it, or not at all

Submissions without a connection share transactions: those that arrive while others are on their way to the database
go together in the next one. Ten coroutines that submit one job each cost one commit, and each returns only when its job
is durable.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from operator import eq
from typing import TYPE_CHECKING, Any, Final, LiteralString, Protocol, TypeVar, Unpack
from uuid import UUID

import asyncpg

from service_jobs.context import Connection, Context
from service_jobs.database import Sessions
from service_jobs.handler import Handler
from service_jobs.job import InvalidInput, JobsRefusal
from service_jobs.job_spec import JobColumns, JobSpec, JobSpecBuilder, SubmitArguments, SubmitOptions
from service_jobs.memory.store import JobOrigin
from service_jobs.telemetry import Metrics

if TYPE_CHECKING:
    from service_jobs.service import Jobs

I = TypeVar("I")  # noqa: E741 (input)

# Null if the ids are the requested ones, which is the usual case: thousands of them need not travel back.
SUBMIT: Final[LiteralString] = """
    SELECT nullif(jobs.submit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                              $19, $20), $3)
"""
SUBMIT_ONE: Final[LiteralString] = """
    SELECT jobs.submit_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
"""
WITH_LOCK_TIMEOUT: Final[LiteralString] = " FROM set_config('lock_timeout', '250ms', true)"
MAX_GROUP_SIZE: Final = 500  # jobs of single submissions that share a transaction
SUBMIT_TIMEOUT_SECONDS: Final = 30.0


async def submit_jobs(
    conn: Connection, options: SubmitOptions, columns: JobColumns, *, with_lock_timeout: bool = False
) -> list[UUID]:
    """Submit jobs in the transaction of `conn`. Returns an id for each, in order.

    With `with_lock_timeout` it raises `LockNotAvailableError` instead of waiting for a transaction that holds one of
    the keys.
    """
    ending = WITH_LOCK_TIMEOUT if with_lock_timeout else ""
    try:
        if fits_submit_one(options, columns):
            return [await conn.fetchval(SUBMIT_ONE + ending, *build_submit_one_arguments(options, columns))]
        ids: list[UUID] | None = await conn.fetchval(
            SUBMIT + ending,
            options.tenant,
            options.type,
            columns.ids,
            columns.payloads,
            columns.keys,
            columns.delays,
            columns.limit_keys,
            options.limit,
            options.priority,
            options.max_attempts,
            options.keep_seconds,
            options.batch,
            options.depends_on or None,
            options.correlation_id,
            options.actor,
            options.traceparent,
            options.service_id,
            *columns.split_subjects(),
        )
    except asyncpg.ForeignKeyViolationError as violation:
        raise _explain_missing_row(options, violation) from violation
    except asyncpg.InsufficientPrivilegeError as error:
        if not str(error).startswith("this transaction belongs to"):
            raise
        raise InvalidInput(str(error), fix="submit in a transaction of the job's tenant") from error
    return columns.ids if ids is None else ids


def fits_submit_one(options: SubmitOptions, columns: JobColumns) -> bool:
    """Whether this is one job that may run at once: `jobs.submit_one` is faster for it."""
    return columns.is_single_ready_job and not options.depends_on and options.batch is None


def build_submit_one_arguments(options: SubmitOptions, columns: JobColumns) -> Sequence[object]:
    """The arguments of `jobs.submit_one`."""
    subject = None if columns.subjects is None else columns.subjects[0]
    return (
        options.tenant,
        options.type,
        columns.ids[0],
        columns.payloads[0],
        None if columns.keys is None else columns.keys[0],
        options.priority,
        options.max_attempts,
        options.keep_seconds,
        options.correlation_id,
        options.actor,
        options.traceparent,
        options.service_id,
        *((None, None, None) if subject is None else (subject.kind, subject.id, subject.group)),
    )


def _explain_missing_row(options: SubmitOptions, error: asyncpg.ForeignKeyViolationError) -> JobsRefusal:
    if options.depends_on and not error.constraint_name:
        return InvalidInput(
            "a job that this one depends on does not exist",
            fix="submit it first, in this transaction or in one that is committed",
            details={"depends_on": [str(job_id) for job_id in options.depends_on]},
        )
    return InvalidInput(f"there is no tenant `{options.tenant}`", fix="create it first")


def count_new_jobs(metrics: Metrics, job_type: str, requested_ids: Sequence[UUID], job_ids: Sequence[UUID]) -> None:
    """Count the jobs that are new: one whose key was taken has another job's id."""
    metrics.count_enqueued(job_type, len(job_ids) if job_ids is requested_ids else sum(map(eq, requested_ids, job_ids)))


_Submission = tuple[SubmitOptions, JobSpec, "asyncio.Future[UUID]"]


class Submitter:
    """Gathers single submissions into shared transactions."""

    def __init__(self, sessions: Sessions, *, senders: int = 2) -> None:
        self._sessions = sessions
        self._waiting: deque[_Submission] = deque()
        self._idle_senders = senders
        self._senders: set[asyncio.Task[None]] = set()

    async def submit(self, options: SubmitOptions, spec: JobSpec) -> UUID:
        """Submit one job; it is durable when this returns."""
        future: asyncio.Future[UUID] = asyncio.get_running_loop().create_future()
        self._waiting.append((options, spec, future))
        if self._idle_senders:
            self._start_sender()
        return await future

    def _start_sender(self) -> None:
        self._idle_senders -= 1
        self._spawn(self._send_all())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        sender = asyncio.create_task(work)
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)

    async def _send_all(self) -> None:
        try:
            async with self._sessions.acquire() as conn:
                while not _is_closed(conn) and (group := self._take_next_group()):
                    await self._send_group(conn, group)
        except BaseException as error:
            while self._waiting:  # there is no connection: nobody is left waiting for one
                _set_exception(self._waiting.popleft(), error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._idle_senders += 1
            if self._waiting:  # they came while the connection was returned to the pool
                self._start_sender()

    def _take_next_group(self) -> list[_Submission]:
        group: list[_Submission] = []
        while self._waiting and len(group) < MAX_GROUP_SIZE:
            if group and self._waiting[0][0] != group[0][0]:
                break
            submission = self._waiting.popleft()
            if not submission[2].cancelled():
                group.append(submission)
        return group

    async def _send_alone(self, submission: _Submission) -> None:
        try:
            async with self._sessions.acquire() as conn:
                await self._send_group(conn, [submission], with_lock_timeout=False)
        except Exception as error:  # noqa: BLE001 (whoever submitted gets it)
            _set_exception(submission, error)

    async def _send_group(self, conn: Connection, group: list[_Submission], *, with_lock_timeout: bool = True) -> None:
        try:
            async with asyncio.timeout(SUBMIT_TIMEOUT_SECONDS):  # a network may swallow everything without an error
                ids = await submit_jobs(
                    conn,
                    group[0][0],
                    JobColumns.from_specs([spec for _, spec, _ in group]),
                    with_lock_timeout=with_lock_timeout,
                )
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            for submission in group:  # a submission that must wait does so alone, and does not delay the others
                self._spawn(self._send_alone(submission))
            return
        except BaseException as error:
            if isinstance(error, Exception) and len(group) > 1 and not _is_closed(conn):
                for submission in group:  # one of them is at fault; the others must not fail with it
                    await self._send_group(conn, [submission])
                return
            for submission in group:
                _set_exception(submission, error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, _, future), job_id in zip(group, ids, strict=True):
            if not future.done():
                future.set_result(job_id)


def _set_exception(submission: _Submission, error: BaseException) -> None:
    if not submission[2].done():
        submission[2].set_exception(error)


def _is_closed(conn: Connection) -> bool:
    try:
        return conn.is_closed()
    except asyncpg.InterfaceError:
        return True  # the pool has already taken the lost connection away


class SubmitTrigger(Protocol):
    """A second way to tell workers about new jobs, in addition to PostgreSQL's NOTIFY."""

    def publish(self, job_ids: Sequence[UUID]) -> None: ...


class FollowUps:
    """Submits the jobs that handlers submit with `ctx.submit`, when the execution ends."""

    def __init__(
        self,
        sessions: Sessions,
        spec_builder: JobSpecBuilder,
        metrics: Metrics,
        *,
        trigger: SubmitTrigger | None,
        submit_in_memory: Callable[[JobSpec, UUID, JobOrigin], object],
    ) -> None:
        self._sessions = sessions
        self._spec_builder = spec_builder
        self._metrics = metrics
        self._trigger = trigger
        self._submit_in_memory = submit_in_memory

    def build_spec(self, handler: Handler[Any, Any], value: Any, **options: Any) -> JobSpec:
        """Validate a follow-up job. Raises `InvalidInput` or `HandlerNotFound`."""
        return self._spec_builder.build_spec(handler, value, **options)

    async def submit_in_transaction(self, conn: Connection, ctx: Context) -> None:
        """Submit the restartable follow-up jobs of `ctx` in its transaction."""
        await self._submit_one_by_one(conn, [spec for spec in ctx.follow_ups if spec.handler.restartable], ctx)

    async def submit_for_memory_job(self, specs: Sequence[JobSpec], ctx: Context) -> None:
        """Submit restartable follow-ups of an in-memory job: in its transaction if it has one."""
        connection = self._sessions.tenant(ctx.tenant) if ctx.connection is None else nullcontext(ctx.connection)
        async with connection as conn:
            await self._submit_one_by_one(conn, specs, ctx)

    def get_single(self, ctx: Context) -> tuple[SubmitOptions, JobColumns] | None:
        """The one follow-up of `ctx`, if there is exactly one and `jobs.submit_one` can submit it."""
        if len(ctx.follow_ups) != 1 or not ctx.follow_ups[0].handler.restartable:
            return None
        [spec] = ctx.follow_ups
        options, columns = self._build_options(spec, ctx), JobColumns.from_specs([spec])
        return (options, columns) if fits_submit_one(options, columns) else None

    def count_single(self, ctx: Context, job_id: UUID) -> None:
        """Count the one follow-up of `ctx`, unless its key was taken."""
        [spec] = ctx.follow_ups
        count_new_jobs(self._metrics, spec.handler.type, [spec.job_id], [job_id])

    def submit_after_commit(self, ctx: Context) -> None:
        """After the commit: notify workers of the follow-ups, and submit those in memory. Raises `QueueFull`."""
        if self._trigger is not None:
            self._trigger.publish([spec.job_id for spec in ctx.follow_ups if spec.handler.restartable])
        for spec in ctx.follow_ups:
            if not spec.handler.restartable:
                origin = JobOrigin(ctx.correlation_id, ctx.actor, spec.traceparent, ctx.service_id)
                self._submit_in_memory(spec, ctx.tenant, origin)

    async def _submit_one_by_one(self, conn: Connection, specs: Sequence[JobSpec], ctx: Context) -> None:
        for spec in specs:
            ids = await submit_jobs(conn, self._build_options(spec, ctx), JobColumns.from_specs([spec]))
            count_new_jobs(self._metrics, spec.handler.type, [spec.job_id], ids)

    def _build_options(self, spec: JobSpec, ctx: Context) -> SubmitOptions:
        return self._spec_builder.build_options_for(
            spec, ctx.tenant, correlation_id=ctx.correlation_id, actor=ctx.actor, service_id=ctx.service_id
        )


# Queues: submit in a transaction that is already open, whether a request or a job opened it -------------------------


class SubmitQueue(Protocol):
    """Accepts jobs."""

    async def submit(self, handler: Handler[I, Any], value: I, **options: Unpack[SubmitArguments]) -> UUID:
        """Submit one job; if another job already has the `key`, return that one's id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQueue:
    """Submits in the transaction of `conn`. After the commit, pass `submitted_ids` to `Jobs.notify_committed`."""

    jobs: "Jobs"
    conn: Connection
    tenant: UUID
    correlation_id: str | None = None
    actor: str | None = None
    submitted_ids: list[UUID] = field(default_factory=list)

    async def submit(self, handler: Handler[I, Any], value: I, **options: Unpack[SubmitArguments]) -> UUID:
        job_id = await self.jobs.submit(
            handler,
            value,
            tenant=self.tenant,
            conn=self.conn,
            correlation_id=self.correlation_id,
            actor=self.actor,
            **options,
        )
        self.submitted_ids.append(job_id)
        return job_id


@dataclass(frozen=True, slots=True)
class JobQueue:
    """Submits follow-up jobs of a job that runs."""

    ctx: Context

    async def submit(self, handler: Handler[I, Any], value: I, **options: Unpack[SubmitArguments]) -> UUID:
        return self.ctx.submit(handler, value, **options)
