"""What a handler is told and may do while it runs.

A handler's own writes are fenced: once the lease is lost, every one of them raises `LeaseLost` and nothing of this
execution is kept. `ctx.transaction()` opens the transaction that the end of the job will be part of.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, TypeVarTuple
from uuid import UUID

import asyncpg
import orjson
from asyncpg.pool import PoolConnectionProxy

from bpc.jobs.errors import InvalidInput, JobConflict, LeaseLost
from bpc.jobs.ids import new_id
from bpc.jobs.tracing import traceparent_now

if TYPE_CHECKING:
    from bpc.jobs.handler import Handler

    Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"
else:
    Connection = asyncpg.Connection | PoolConnectionProxy
HowFar: TypeAlias = Callable[[int, int], None]  # so much is done, of how much
T = TypeVar("T")
Args = TypeVarTuple("Args")
I = TypeVar("I")  # noqa: E741 (input)


def can_be_stored(text: str) -> bool:
    """Whether PostgreSQL takes it as text: Unicode, and no NUL."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def step_note(done: int, text: str) -> str:
    """How it is stored that `done` steps are finished and the last one gave the JSON `text`."""
    return f'{{"done":{done},"gave":{text}}}'


def read_step_note(note: str) -> tuple[int, str]:
    """What `step_note` was made of, to the letter."""
    done, gave = note.removeprefix('{"done":').removesuffix("}").split(',"gave":', 1)
    return int(done), gave


class Held(NamedTuple):  # a tuple, because one is made for every execution
    """One execution of one job, and the right to write for it. `attempt` never repeats, whatever happens to the job."""

    tenant: UUID
    job_id: UUID
    type: str
    owner: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most `at_most` jobs of this tenant with this `key` run at the same time, whatever their type."""

    key: str
    at_most: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= 200 or not 1 <= self.at_most <= 10_000:
            raise InvalidInput("a limit has a key of 1 to 200 characters and lets 1 to 10,000 jobs run at a time")
        if not can_be_stored(self.key):
            raise InvalidInput("the limit's key cannot be stored", fix="use UTF-8 text without NUL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A job to be submitted: what for, and how. `payload` is the JSON text of a validated input.

    That of a job in memory is `value`, which is handed to its handler as it is; its payload is `null`.
    """

    handler: "Handler[Any, Any]"
    job_id: UUID
    payload: str
    value: Any = None
    key: str | None = None
    priority: int = 2
    delay: float = 0.0
    limit: Limit | None = None
    depends_on: Sequence[UUID] = ()
    traceparent: str | None = None

    @classmethod
    def of(cls, handler: "Handler[Any, Any]", value: Any, **how: Any) -> "Wish":
        """A job of `handler` with a new id. Raises `InvalidInput` unless `value` is what its handler takes."""
        if handler.restartable:
            return cls(handler=handler, job_id=new_id(), payload=handler.input_text(value), **how)
        return cls(handler=handler, job_id=new_id(), payload="null", value=handler.input_value(value), **how)


class Computing(Protocol):
    """Child processes, or whatever else runs a function away from the event loop."""

    async def run(self, function: Callable[..., T], arguments: tuple[Any, ...], *, told: HowFar | None = None) -> T: ...


class Backing(Protocol):
    """What stands behind a context: the engine that runs the job."""

    async def save(self, held: Held, column: str, text: str) -> bool:
        """Write `checkpoint`, `step` or `progress` of a job; False if the lease is lost."""
        ...

    async def begin(self, ctx: "Context") -> Connection:
        """Open the transaction the job will end in, bound to its tenant."""
        ...

    async def end_step(self, ctx: "Context", text: str) -> bool:
        """Write the note `text` of a step that is done; False if the lease is lost.

        If the step opened the transaction or wished for jobs, all of that is committed with the note, and the
        context has no transaction and no wishes any more.
        """
        ...

    async def compute(
        self, ctx: "Context", function: Callable[..., T], arguments: tuple[Any, ...], told: HowFar | None
    ) -> T:
        """Run `function` in a child process, which is killed when the job is cancelled or runs out of time."""
        ...

    def wish(self, ctx: "Context", handler: "Handler[Any, Any]", value: Any, **how: Any) -> Wish:
        """Check a follow-up job."""
        ...


class Context:
    """Given to the handler first. It belongs to one execution and is not kept."""

    __slots__ = (
        "_backing",
        "_lock",
        "_wanted",
        "actor",
        "cancel_requested",
        "checkpoint",
        "closed",
        "connection",
        "correlation_id",
        "deadline",
        "follow_ups",
        "gave",
        "held",
        "max_attempts",
        "step",
        "traceparent",
        "uncounted",
    )

    def __init__(
        self,
        backing: Backing,
        held: Held,
        *,
        max_attempts: int,
        uncounted: int = 0,
        checkpoint: Any = None,
        step: str | None = None,
        gave: Any = None,
        correlation_id: str | None = None,
        actor: str | None = None,
        traceparent: str | None = None,
    ) -> None:
        """`step` is the note of the last step that is done, as it is stored; `gave` what a step in memory gave."""
        self._backing = backing
        self.step = step
        self.gave = gave
        self._wanted: asyncio.Event | None = None
        self.held = held
        self.max_attempts = max_attempts
        self.uncounted = uncounted
        self.checkpoint = checkpoint
        self.correlation_id = correlation_id
        self.actor = actor
        self.traceparent = traceparent
        self.deadline: float | None = None  # on the clock of the event loop
        self.cancel_requested = False
        self.connection: Connection | None = None
        self.closed = False  # the job ended without this execution
        self._lock: asyncio.Lock | None = None
        self.follow_ups: list[Wish] = []

    @property
    def tenant(self) -> UUID:
        return self.held.tenant

    @property
    def job_id(self) -> UUID:
        return self.held.job_id

    @property
    def type(self) -> str:
        return self.held.type

    @property
    def attempt(self) -> int:
        """1 for the first execution, or the first after a redrive."""
        return self.held.attempt - self.uncounted

    def remaining(self) -> float | None:
        """Seconds until the handler's timeout; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - asyncio.get_running_loop().time())

    async def wait_for_cancel(self) -> None:
        """Return when the job is asked to stop: for handlers that have something to tidy up."""
        if self._wanted is None:
            self._wanted = asyncio.Event()
        if self.cancel_requested:
            self._wanted.set()
        await self._wanted.wait()

    def request_cancel(self) -> None:
        """Called by the engine."""
        self.cancel_requested = True
        if self._wanted is not None:
            self._wanted.set()

    async def save_checkpoint(self, data: Any) -> None:
        """Keep `data` (JSON); the next execution finds it in `ctx.checkpoint`. Raises `LeaseLost`."""
        await self._save("checkpoint", data)
        self.checkpoint = data

    async def report_progress(self, percent: int | None = None, message: str | None = None) -> None:
        """Tell people how far the job is. Raises `LeaseLost`."""
        if percent is not None and not 0 <= percent <= 100:
            raise InvalidInput(f"progress is 0 to 100 percent, not {percent}")
        now = datetime.now(UTC)  # noqa: TID251 (a library of its own: nobody hands it the time)
        await self._save("progress", {"percent": percent, "message": message, "updated_at": now.isoformat()})

    async def transaction(self) -> Connection:
        """Open the transaction that ends this job, or return it if it is open.

        From here until the handler returns, all that is done on this connection is committed together with the
        job's success, its result and its follow-up jobs, or not at all. In a job of several steps, it is the
        transaction that ends the step.
        """
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:  # a handler may have several tasks
            if self.closed:
                raise LeaseLost
            if self.connection is None:
                self.connection = await self._backing.begin(self)
            return self.connection

    def successor(self) -> "Context":
        """Called by the engine: the same execution, for ending it without the handler, which goes on by mistake."""
        self.closed = True
        return Context(
            self._backing,
            self.held,
            max_attempts=self.max_attempts,
            uncounted=self.uncounted,
            checkpoint=self.checkpoint,
            step=self.step,
            gave=self.gave,
            correlation_id=self.correlation_id,
            actor=self.actor,
            traceparent=self.traceparent,
        )

    async def compute(self, function: Callable[[*Args], T], *arguments: *Args, told: HowFar | None = None) -> T:
        """Run a module-level `function` in a child process, so that it stops neither renewals nor other jobs.

        How far it is, which it says with `bpc.jobs.tell`, is handed to `told`.
        """
        return await self._backing.compute(self, function, arguments, told)

    def submit(
        self,
        handler: "Handler[I, Any]",
        value: I,
        *,
        key: str | None = None,
        priority: int = 2,
        delay: float = 0.0,
        limit: Limit | None = None,
        depends_on: Sequence[UUID] = (),
    ) -> UUID:
        """A job that follows: submitted when this execution succeeds (or refuses), in the same transaction.

        In a job of several steps, it is submitted when the step ends, together with what the step wrote.
        The id is that of the new job; with a `key` that is taken already, no new job is made.
        """
        wish = self._backing.wish(
            self,
            handler,
            value,
            key=key,
            priority=priority,
            delay=delay,
            limit=limit,
            depends_on=depends_on,
            traceparent=traceparent_now() or self.traceparent,
        )
        self.follow_ups.append(wish)
        return wish.job_id

    async def save_step(self, done: int, text: str, value: Any = None) -> None:
        """Called between the steps of a job: `done` of them are finished, and the last one gave the JSON `text`.

        In a job in memory it gave `value`. What the step did in the transaction and which jobs it wished for is
        kept from here on, whatever becomes of the steps that follow.
        """
        note = step_note(done, text)
        self.gave = value
        if not await self._backing.end_step(self, note):
            raise LeaseLost
        self.step = note

    async def _save(self, column: str, data: Any) -> None:
        if self.connection is not None and column == "checkpoint":
            raise JobConflict(
                "a checkpoint cannot be saved while the job's last transaction is open",
                fix="save it before `ctx.transaction()`",
            )
        try:
            text = orjson.dumps(data).decode()
        except TypeError as wrong:
            raise InvalidInput(f"a {column} must be JSON: {wrong}", fix="use texts, numbers, lists and maps") from None
        if not await self._backing.save(self.held, column, text):
            raise LeaseLost
