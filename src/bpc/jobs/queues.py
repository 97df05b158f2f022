"""Queues: a place to submit jobs to in a transaction that is open, whoever opened it.

    await upload(conn, RequestQueue(…), …)  a request: the job is there when the request is committed
    await upload(conn, JobQueue(ctx), …)    a job: what follows it is there when it has succeeded

What is done in a transaction and followed by a job takes a queue, and need not know which of the two it is part of.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from bpc.jobs.context import Connection, Context, Limit

if TYPE_CHECKING:
    from bpc.jobs.handler import Handler
    from bpc.jobs.service import Jobs

I = TypeVar("I")  # noqa: E741 (input)


class Queue(Protocol):
    """Where jobs are submitted to."""

    async def submit(
        self,
        handler: "Handler[I, Any]",
        value: I,
        *,
        key: str | None = None,
        priority: int = 2,
        delay: float = 0.0,
        limit: Limit | None = None,
    ) -> UUID:
        """Submit one job; with a `key` that is taken already, no new one is made."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQueue:
    """Submits in the transaction of a connection.

    Whoever commits that tells `Jobs.committed` what is in `submitted`.
    """

    jobs: "Jobs"
    conn: Connection
    tenant: UUID
    correlation_id: str | None = None
    actor: str | None = None
    submitted: list[UUID] = field(default_factory=list)

    async def submit(
        self,
        handler: "Handler[I, Any]",
        value: I,
        *,
        key: str | None = None,
        priority: int = 2,
        delay: float = 0.0,
        limit: Limit | None = None,
    ) -> UUID:
        job_id = await self.jobs.submit(
            handler,
            value,
            tenant=self.tenant,
            conn=self.conn,
            key=key,
            priority=priority,
            delay=delay,
            limit=limit,
            correlation_id=self.correlation_id,
            actor=self.actor,
        )
        self.submitted.append(job_id)
        return job_id


@dataclass(frozen=True, slots=True)
class JobQueue:
    """Submits what follows a job that runs."""

    ctx: Context

    async def submit(
        self,
        handler: "Handler[I, Any]",
        value: I,
        *,
        key: str | None = None,
        priority: int = 2,
        delay: float = 0.0,
        limit: Limit | None = None,
    ) -> UUID:
        return self.ctx.submit(handler, value, key=key, priority=priority, delay=delay, limit=limit)
