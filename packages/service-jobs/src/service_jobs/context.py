"""The context: what a handler knows about its job and can do while it runs.

A handler's writes are fenced: once the lease is lost, each of them raises `LeaseLost` and nothing of this execution is
kept. `ctx.transaction()` opens the transaction in which the job ends.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, TypeVarTuple
from uuid import UUID

import asyncpg
import orjson
from asyncpg.pool import PoolConnectionProxy

from service_jobs.job import InvalidInput, JobConflict, LeaseLost, Subject
from service_jobs.telemetry import get_traceparent

if TYPE_CHECKING:
    from service_jobs.handler import Handler
    from service_jobs.job_spec import JobSpec, Limit

    Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
else:
    Connection = asyncpg.Connection | PoolConnectionProxy
ProgressCallback: TypeAlias = Callable[[int, int], None]  # done, total
T = TypeVar("T")
Args = TypeVarTuple("Args")
I = TypeVar("I")  # noqa: E741 (input)


class Lease(NamedTuple):  # a tuple, because every execution creates one
    """Identifies one execution of one job. Only the holder may write for it; `attempt` never repeats."""

    tenant: UUID
    job_id: UUID
    type: str
    owner: str
    attempt: int


class FunctionRunner(Protocol):
    """Runs a function away from the event loop, usually in a child process."""

    async def run(
        self, function: Callable[..., T], arguments: tuple[Any, ...], *, on_progress: ProgressCallback | None = None
    ) -> T: ...


class ContextBackend(Protocol):
    """The part of an engine that contexts call."""

    async def save(self, lease: Lease, column: str, text: str) -> bool:
        """Write `checkpoint`, `step` or `progress` of a job; False if the lease is lost."""
        ...

    async def begin(self, ctx: "Context") -> Connection:
        """Open the transaction in which the job ends, bound to its tenant."""
        ...

    async def end_step(self, ctx: "Context", text: str) -> bool:
        """Write the note `text` of a finished step; False if the lease is lost.

        What the step did in the transaction and the jobs it submitted are committed with the note; afterwards the
        context has neither.
        """
        ...

    async def compute(
        self, function: Callable[..., T], arguments: tuple[Any, ...], on_progress: ProgressCallback | None
    ) -> T:
        """Run `function` in a child process, which is killed when the job is cancelled or runs out of time."""
        ...

    def build_spec(self, handler: "Handler[Any, Any]", value: Any, **options: Any) -> "JobSpec":
        """Validate a follow-up job."""
        ...


class Context:
    """The first argument of a handler. It belongs to one execution."""

    __slots__ = (
        *("_backend", "_cancel_event", "_transaction_lock", "actor", "cancel_requested", "checkpoint", "closed"),
        *(
            "connection",
            "correlation_id",
            "deadline",
            "follow_ups",
            "lease",
            "max_attempts",
            "service_id",
            "step",
            "step_output",
        ),
        *("subject", "traceparent", "uncounted"),
    )

    def __init__(
        self,
        backend: ContextBackend,
        lease: Lease,
        *,
        max_attempts: int,
        uncounted: int = 0,
        checkpoint: Any = None,
        step: str | None = None,
        step_output: Any = None,
        correlation_id: str | None = None,
        actor: str | None = None,
        traceparent: str | None = None,
        service_id: str | None = None,
        subject: Subject | None = None,
    ) -> None:
        """`step` is the stored note of the last finished step; `step_output` is what that step returned in memory."""
        self._backend = backend
        self.step = step
        self.step_output = step_output
        self._cancel_event: asyncio.Event | None = None
        self.lease = lease
        self.max_attempts = max_attempts
        self.uncounted = uncounted
        self.checkpoint = checkpoint
        self.correlation_id = correlation_id
        self.actor = actor
        self.traceparent = traceparent
        self.service_id = service_id  # of the service that submitted the job, or the first of a chain of jobs
        self.subject = subject
        self.deadline: float | None = None  # on the clock of the event loop
        self.cancel_requested = False
        self.connection: Connection | None = None
        self.closed = False  # the job ended without this execution
        self._transaction_lock: asyncio.Lock | None = None
        self.follow_ups: list[JobSpec] = []

    @classmethod
    def from_row(cls, backend: ContextBackend, lease: Lease, row: "asyncpg.Record") -> "Context":
        """From a row of `jobs.job`."""
        checkpoint = row["checkpoint"]
        return cls(
            backend,
            lease,
            max_attempts=row["max_attempts"],
            uncounted=row["uncounted"],
            checkpoint=None if checkpoint is None else orjson.loads(checkpoint),
            step=row["step"],
            correlation_id=row["correlation_id"],
            actor=row["actor"],
            traceparent=row["traceparent"],
            service_id=row["service_id"],
            subject=Subject.from_row(row),
        )

    @property
    def tenant(self) -> UUID:
        return self.lease.tenant

    @property
    def job_id(self) -> UUID:
        return self.lease.job_id

    @property
    def type(self) -> str:
        return self.lease.type

    @property
    def attempt(self) -> int:
        """1 for the first execution and for the first after a redrive."""
        return self.lease.attempt - self.uncounted

    def remaining(self) -> float | None:
        """Seconds until the handler's timeout; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - asyncio.get_running_loop().time())

    async def wait_for_cancel(self) -> None:
        """Return when the job is asked to stop: for handlers that have something to clean up."""
        if self._cancel_event is None:
            self._cancel_event = asyncio.Event()
        if self.cancel_requested:
            self._cancel_event.set()
        await self._cancel_event.wait()

    def request_cancel(self) -> None:
        """Called by the engine."""
        self.cancel_requested = True
        if self._cancel_event is not None:
            self._cancel_event.set()

    async def save_checkpoint(self, data: Any) -> None:
        """Store `data` (JSON); the next execution gets it as `ctx.checkpoint`. Raises `LeaseLost`."""
        await self._save_json("checkpoint", data)
        self.checkpoint = data

    async def report_progress(self, percent: int | None = None, message: str | None = None) -> None:
        """Store how far the job is, for people who watch it. Raises `LeaseLost`."""
        if percent is not None and not 0 <= percent <= 100:
            raise InvalidInput(f"progress must be 0 to 100 percent, not {percent}")
        now = datetime.now(UTC)  # noqa: TID251 (a library of its own: nobody hands it the time)
        await self._save_json("progress", {"percent": percent, "message": message, "updated_at": now.isoformat()})

    async def transaction(self) -> Connection:
        """Open the transaction that ends this job, or return it if it is open.

        Everything that the handler does on this connection is committed together with the job's success, its result
        and its follow-up jobs, or not at all. In a job of several steps, the transaction ends with the step.
        """
        if self._transaction_lock is None:
            self._transaction_lock = asyncio.Lock()
        async with self._transaction_lock:  # a handler may have several tasks
            if self.closed:
                raise LeaseLost
            if self.connection is None:
                self.connection = await self._backend.begin(self)
            return self.connection

    def create_successor(self) -> "Context":
        """Called by the engine: a context to end this execution with while its handler ignores that it was stopped."""
        self.closed = True
        return Context(
            self._backend,
            self.lease,
            max_attempts=self.max_attempts,
            uncounted=self.uncounted,
            checkpoint=self.checkpoint,
            step=self.step,
            step_output=self.step_output,
            correlation_id=self.correlation_id,
            actor=self.actor,
            traceparent=self.traceparent,
            service_id=self.service_id,
            subject=self.subject,
        )

    async def compute(
        self, function: Callable[[*Args], T], *arguments: *Args, on_progress: ProgressCallback | None = None
    ) -> T:
        """Run a module-level `function` in a child process, so that it blocks neither renewals nor other jobs.

        If the function calls `service_jobs.report_progress`, `on_progress` is called here with the same numbers.
        """
        return await self._backend.compute(function, arguments, on_progress)

    def submit(
        self,
        handler: "Handler[I, Any]",
        value: I,
        *,
        key: str | None = None,
        priority: int = 2,
        delay: float = 0.0,
        limit: "Limit | None" = None,
        depends_on: Sequence[UUID] = (),
        subject: Subject | None = None,
    ) -> UUID:
        """Submit a follow-up job when this execution succeeds (or returns a `Rejection`), in the same transaction.

        In a job of several steps, it is submitted when the step ends, together with what the step wrote.
        Returns the id of the new job; if another job already has the `key`, no job is created. A `subject` without a
        group gets the group of this job's subject.
        """
        spec = self._backend.build_spec(
            handler,
            value,
            key=key,
            priority=priority,
            delay=delay,
            limit=limit,
            depends_on=depends_on,
            subject=subject,
            group=None if self.subject is None else self.subject.group,
            traceparent=get_traceparent() or self.traceparent,
        )
        self.follow_ups.append(spec)
        return spec.job_id

    async def save_step(self, note: str, output: Any = None) -> None:
        """Called between the steps of a job: store the `note` of the finished step; in memory, also its `output`.

        From here on, what the step did in the transaction and the jobs it submitted stay, whatever the next steps do.
        """
        self.step_output = output
        if not await self._backend.end_step(self, note):
            raise LeaseLost
        self.step = note

    async def _save_json(self, column: str, data: Any) -> None:
        if self.connection is not None and column == "checkpoint":
            raise JobConflict(
                "a checkpoint cannot be saved while the job's transaction is open",
                fix="save it before `ctx.transaction()`",
            )
        try:
            text = orjson.dumps(data).decode()
        except TypeError as error:
            raise InvalidInput(f"a {column} must be JSON: {error}", fix="use texts, numbers, lists and maps") from None
        if not await self._backend.save(self.lease, column, text):
            raise LeaseLost
