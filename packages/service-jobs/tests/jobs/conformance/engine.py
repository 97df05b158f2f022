"""What a test of any engine may do: register handlers, submit, start, and look at what became of the jobs.

The tests in this folder are run over each engine, unchanged, by `test_conformance`. Delays are real and short.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol, TypeVar
from uuid import UUID

from service_jobs.context import Context
from service_jobs.handler import Handler, Rejection
from service_jobs.job import (
    Job,
    JobsRefusal,
    Retry,
    Status,
)

I = TypeVar("I")  # noqa: E741 (input)
O = TypeVar("O")  # noqa: E741 (output)
Run = Callable[[Context, I], Awaitable[O | Rejection]]
AT_ONCE = Retry(first_delay=0.0)
SOON = Retry(first_delay=0.05, factor=2.0)
CANCEL_GRACE = 1.0  # what engines under test are made with
STOP_GRACE = 5.0


class Engine(Protocol):
    """What a test may do. Not given, the tenant is `tenant`."""

    tenant: UUID
    other_tenant: UUID

    def job(
        self, job_type: str, *, retry: Retry = ..., timeout: float | None = ..., ttl: timedelta | None = ...
    ) -> Callable[[Run[I, O]], Handler[I, O]]:
        """Register a handler for this engine."""
        ...

    def steps(self, job_type: str, *steps: Callable[[Context, Any], Awaitable[Any]], retry: Retry) -> Handler[Any, Any]:
        """Register a handler of several steps."""
        ...

    async def start(self, concurrency: int = 4) -> None:
        """Run what was submitted, and what will be."""
        ...

    async def stop(self) -> None:
        """Let running jobs finish."""
        ...

    async def submit(
        self,
        handler: Handler[I, Any],
        value: I,
        *,
        tenant: UUID | None = None,
        key: str | None = None,
        priority: int = 2,
        delay: float = 0.0,
        correlation_id: str | None = None,
        actor: str | None = None,
    ) -> UUID: ...

    async def get_job(self, job_id: UUID, tenant: UUID | None = None) -> Job: ...

    async def list_jobs(self, tenant: UUID | None = None, **filters: Any) -> list[Job]: ...

    async def get_result(self, job_id: UUID, tenant: UUID | None = None) -> Any:
        """What the job made."""
        ...

    async def cancel(self, job_id: UUID, tenant: UUID | None = None) -> None: ...

    async def redrive(self, job_id: UUID, tenant: UUID | None = None) -> None: ...

    async def note(self, ctx: Context, text: str) -> None:
        """Write an effect in the job's own transaction."""
        ...

    async def notes(self) -> list[str]:
        """The effects that were committed, sorted."""
        ...


async def wait_until_over(engine: Engine, job_id: UUID, tenant: UUID | None = None) -> Job:
    """The job as soon as it is over."""
    return await wait_until(engine, job_id, lambda job: job.is_over, tenant)


async def wait_until(engine: Engine, job_id: UUID, holds: Callable[[Job], bool], tenant: UUID | None = None) -> Job:
    async with asyncio.timeout(60):
        while not holds(job := await engine.get_job(job_id, tenant)):
            await asyncio.sleep(0.01)
        return job


async def wait_until_running(engine: Engine, job_id: UUID) -> Job:
    return await wait_until(engine, job_id, lambda job: job.status is Status.RUNNING)


def get_error_code(job: Job) -> str | None:
    return None if job.last_error is None else job.last_error.code


class HandlerFailed(JobsRefusal):
    """Wrong, and wrong again next time."""

    code = "RULE_ASSERTION_FAILED"
