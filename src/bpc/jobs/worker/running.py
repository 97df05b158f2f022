"""One job that a worker holds: waiting in its memory, executing, or ending."""

import asyncio
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from bpc.jobs.context import Backing, Context, Held
from bpc.jobs.handler import Handler
from bpc.jobs.outcome import Why


class Running:
    """A claimed job and, while it executes, the task it executes in."""

    __slots__ = (
        "abandoned",
        "ctx",
        "deadline",
        "handler",
        "held",
        "interrupted_at",
        "is_ending",
        "limit_key",
        "payload",
        "priority",
        "seconds",
        "started",
        "task",
        "why",
    )

    def __init__(self, backing: Backing, handler: Handler[Any, Any], owner: str, row: asyncpg.Record) -> None:
        self.handler = handler
        self.held = Held(row["tenant_id"], row["job_id"], row["type"], owner, row["attempt"])
        self.payload: str = row["payload"]
        self.priority: int = row["priority"]
        self.limit_key: str = row["limit_key"]
        self.started: float | None = None
        self.deadline: float | None = None
        self.seconds = 0.0  # how long it executed
        self.task: asyncio.Task[None] | None = None
        self.why: Why | None = None
        self.interrupted_at = 0.0
        self.abandoned = False
        self.is_ending = False  # the handler is done, and what it did is being written
        checkpoint = row["checkpoint"]
        self.ctx = Context(
            backing,
            self.held,
            max_attempts=row["max_attempts"],
            uncounted=row["uncounted"],
            checkpoint=None if checkpoint is None else orjson.loads(checkpoint),
            step=row["step"],
            correlation_id=row["correlation_id"],
            actor=row["actor"],
            traceparent=row["traceparent"],
        )

    @property
    def job_id(self) -> UUID:
        return self.held.job_id

    def start(self, now: float) -> None:
        self.started = now
        if self.handler.timeout is not None:
            self.deadline = self.ctx.deadline = now + self.handler.timeout

    def interrupt(self, why: Why, now: float) -> None:
        """Interrupt the handler; the job ends by the reason. One that has not started yet will, when it would."""
        if self.why is None or why is Why.LOST:
            self.why = why
        self.interrupted_at = now
        if self.task is not None:
            self.task.cancel()
