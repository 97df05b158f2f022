"""A tenant with a queue of its own, for tests of `bpc jobs`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from service_jobs import JobColumns, Subject, SubmitOptions, submit_jobs
from service_jobs.database import Sessions
from service_jobs.job import new_id
from tests.jobs.support.job_stages import end_job, start_job, submit_stage_jobs

from bpc.runtime import clock
from bpc.storage.jobs import make_job_sessions
from tests.cli.conftest import Installation
from tests.cli.program import RunResult

T = TypeVar("T")


class JobQueue:
    """A tenant of its own, and the jobs a test wants it to have."""

    def __init__(self, installation: Installation) -> None:
        self.slug = f"queue-{clock.new_id().hex[-12:]}"
        self.bpc = installation.bpc
        self.tenant = UUID(self.bpc.run_ok("tenant", "create", self.slug, "--json").json()["tenant_id"])
        self._address = installation.server.address("bpc")

    def run_async(self, what: Callable[[Sessions], Awaitable[T]]) -> T:
        async def done() -> T:
            sessions = make_job_sessions(self._address, size=2)
            await sessions.open()
            try:
                return await what(sessions)
            finally:
                await sessions.close()

        return asyncio.run(done())

    def submit(self, count: int = 1, *, job_type: str = "work", delay: float | None = None) -> list[UUID]:
        return self.run_async(
            lambda sessions: submit_stage_jobs(sessions, self.tenant, count, job_type=job_type, delay=delay)
        )

    def submit_about(self, subject: Subject, job_type: str) -> UUID:
        async def submit(sessions: Sessions) -> UUID:
            options = SubmitOptions(
                tenant=self.tenant, type=job_type, priority=2, max_attempts=5, keep_seconds=86_400, service_id="bpc"
            )
            columns = JobColumns(ids=[new_id()], payloads=["{}"], subjects=[subject])
            async with sessions.tenant(self.tenant) as conn:
                [job_id] = await submit_jobs(conn, options, columns)
            return job_id

        return self.run_async(submit)

    def start(self, job: UUID) -> None:
        self.run_async(lambda sessions: start_job(sessions, self.tenant, job, owner="worker-7"))

    def end(self, job: UUID, status: str) -> None:
        self.run_async(lambda sessions: end_job(sessions, self.tenant, job, status))

    def execute(self, sql: str, *arguments: object) -> None:
        async def run_statement(sessions: Sessions) -> None:
            async with sessions.tenant(self.tenant) as conn:
                await conn.execute(sql, *arguments)

        self.run_async(run_statement)

    def run_ok(self, *arguments: object) -> RunResult:
        return self.bpc.run_ok("jobs", *map(str, arguments), "--tenant", self.slug)

    def run(self, *arguments: object) -> RunResult:
        return self.bpc.run("jobs", *map(str, arguments), "--tenant", self.slug)

    def chains(self) -> str:
        """What the audit log has of this tenant, once all of it is found intact."""
        return self.bpc.run_ok("audit", "verify", "--tenant", self.slug).out
