"""A database with the real engine in it, for machines and loads that compare it with a model."""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, Final, TypeVar
from uuid import UUID

import asyncpg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from service_jobs.context import Context, Lease
from service_jobs.handler import Handlers
from service_jobs.job import JobsRefusal
from service_jobs.job_spec import JobColumns, JobSpec, Limit, SubmitOptions
from service_jobs.submission import submit_jobs
from tests.jobs.support.database_clock import DatabaseClock
from tests.jobs.support.state_model import (
    EngineModel,
    Execution,
    JobPlace,
    ModelJob,
    ModelSubmission,
    UnknownJob,
)

from bpc.runtime import clock as fresh
from bpc.storage.connection import APP_ROLE, connect
from bpc.storage.jobs import make_job_sessions
from tests.fixtures import TestServer

T = TypeVar("T")
START: Final = datetime(2027, 2, 18, 12, tzinfo=UTC)
TENANTS: Final = (UUID(int=0xA), UUID(int=0xB))
TYPES: Final = ("paint", "print", "pack")
KNOWN: Final = (("paint", "print"), ("print", "pack"), TYPES)  # by worker
PRIORITIES: Final = (0, 2)
LIMIT_KEYS: Final = ("press", "oven")
LEASE: Final = 10.0
ALL_LANES: Final = tuple((tenant, priority) for tenant in (0, 1) for priority in PRIORITIES)
TABLES: Final = "job, job_ready, job_later, job_lease, job_slot, job_worker, job_dependency, batch, schedule"
EMPTY: Final = ";".join(f"DELETE FROM jobs.{table}" for table in TABLES.split(", "))  # TRUNCATE takes ten times as long
CANCEL: Final = "SELECT jobs.cancel($1, $2, NULL)"
STATE: Final = """
    SELECT j.job_id, s.status, s.attempts, j.scheduled_at,
           (SELECT count(*) FROM jobs.job_ready r WHERE r.tenant_id = j.tenant_id AND r.job_id = j.job_id) AS ready,
           (SELECT count(*) FROM jobs.job_later w WHERE w.tenant_id = j.tenant_id AND w.job_id = j.job_id
               AND w.run_at = j.scheduled_at) AS later,
           (SELECT count(*) FROM jobs.job_lease l WHERE l.tenant_id = j.tenant_id AND l.job_id = j.job_id) AS lease,
           (j.status = 'QUEUED' AND d.unmet <> '{}')::int AS blocked,
           (j.status <> 'QUEUED' AND j.finished_at IS NOT NULL)::int AS ended,
           j.status IN ('FAILED', 'DEAD_LETTER') = (j.failed_at IS NOT NULL) AS failed_rightly,
           d.unmet, s.lease_owner, s.lease_expires_at, s.cancel_requested,
           (SELECT seq FROM jobs.job_ready r WHERE r.tenant_id = j.tenant_id AND r.job_id = j.job_id) AS seq,
           (SELECT count(*) FROM jobs.job_ready) + (SELECT count(*) FROM jobs.job_later)
             + (SELECT count(*) FROM jobs.job_lease) AS in_queues
      FROM jobs.job j
      JOIN jobs.job_status s ON s.tenant_id = j.tenant_id AND s.job_id = j.job_id
     CROSS JOIN LATERAL (
       SELECT ARRAY (SELECT needs_id FROM jobs.job_dependency d
                      WHERE d.tenant_id = j.tenant_id AND d.job_id = j.job_id AND NOT d.met) AS unmet) AS d
"""
SLOTS: Final = """
    SELECT s.tenant_id, s.limit_key, array_agg(s.slot) AS slots, count(s.job_id) AS taken,
           coalesce(array_agg(s.slot) FILTER (WHERE l.slot = s.slot), '{}') AS rightly
      FROM jobs.job_slot s
      LEFT JOIN jobs.job_lease l ON l.tenant_id = s.tenant_id AND l.job_id = s.job_id AND l.limit_key = s.limit_key
     GROUP BY s.tenant_id, s.limit_key
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """A database with the real engine in it, and somebody of each role connected to it."""

    loop: asyncio.AbstractEventLoop
    superuser: "asyncpg.Connection[asyncpg.Record]"
    worker: "asyncpg.Connection[asyncpg.Record]"
    app: "asyncpg.Connection[asyncpg.Record]"

    def run(self, work: Awaitable[T]) -> T:
        return self.loop.run_until_complete(_wait_for(work))

    def empty(self) -> DatabaseClock:
        """No jobs, and the clock stands still at START."""
        clock = DatabaseClock(self.superuser)
        self.run(self.superuser.execute(EMPTY))
        self.run(clock.stop_at(START))
        return clock

    def replace(self, function: str, *changes: tuple[str, str]) -> None:
        """Break one of the engine's functions: each text in it that is named becomes another."""
        body = self.run(self.superuser.fetchval("SELECT pg_get_functiondef($1::regproc)", function))
        self.run(self.superuser.execute(break_statement(body, *changes)))


async def _wait_for(work: Awaitable[T]) -> T:
    return await work


def break_statement(text: str, *changes: tuple[str, str]) -> str:
    for occurrences, instead in changes:
        assert occurrences in text, f"nothing is broken: `{occurrences}` is not there any more"
        text = text.replace(occurrences, instead)
    return text


@contextmanager
def open_engine(server: TestServer, template: str) -> Iterator[Engine]:
    name = f"bpc_test_{fresh.new_id().hex}"
    loop = asyncio.new_event_loop()
    try:
        admin = loop.run_until_complete(asyncpg.connect(**server.admin.connect_arguments()))
        loop.run_until_complete(admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER bpc_owner'))
        try:
            yield loop.run_until_complete(_connect(server, name, loop))
        finally:
            loop.run_until_complete(admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))
            loop.run_until_complete(admin.close())
    finally:
        loop.close()


async def _connect(server: TestServer, name: str, loop: asyncio.AbstractEventLoop) -> Engine:
    superuser = await asyncpg.connect(**server.admin.with_database(name).connect_arguments())
    for tenant, slug in zip(TENANTS, ("acme", "rival"), strict=True):
        await superuser.execute("INSERT INTO tenants (tenant_id, slug, name) VALUES ($1, $2, $2)", tenant, slug)
    sessions = make_job_sessions(server.login.with_database(name), size=1)
    app = await connect(**server.login.with_database(name).connect_arguments(), server_settings={"role": APP_ROLE})
    return Engine(loop, superuser, await sessions.connect_worker("machine"), app)


handlers = Handlers()


@handlers.job("any")
async def any_handler(ctx: Context, value: None) -> None:
    """Never runs; a spec has a handler."""


class SubmittingMachine(RuleBasedStateMachine):
    """Submits to the engine and to the model. Each rule does one thing to both, and compares their answers."""

    engine: ClassVar[Engine]

    def __init__(self) -> None:
        super().__init__()
        self.clock = self.engine.empty()
        self.model = EngineModel(START)
        self.owners = ["w0", "w1", "w2"]
        self.seen: dict[Execution, datetime] = {}
        self.created_ids = 0

    # Helpers ---------------------------------------------------------------------------------------------------

    def new_id(self) -> UUID:
        """Ids in the order they are made, the same in every run."""
        self.created_ids += 1
        return UUID(int=self.created_ids << 80 | 7 << 76 | 2 << 62)

    def a_job(self, number: int) -> ModelJob:
        jobs = list(self.model.jobs.values())
        return jobs[number % len(jobs)]

    def held_by(self, owner: str, *, limited: bool | None = None) -> list[Execution]:
        return [
            execution
            for execution in self.model.executions
            if execution.owner == owner
            and self.model.holds(execution)
            and limited in {None, bool(self.model.jobs[execution.job].order.limit_key)}
        ]

    def held(self, execution: Execution) -> Lease:
        order = self.model.jobs[execution.job].order
        return Lease(order.tenant, order.job_id, order.type, execution.owner, execution.attempt)

    def choose(self, number: int, *, late: bool) -> Execution | None:
        """An execution that has its lease; or one that has lost it, or has ended already."""
        fitting = [one for one in self.model.executions if self.model.holds(one) is not late]
        return fitting[number % len(fitting)] if fitting else None

    @property
    def has_jobs(self) -> bool:
        return bool(self.model.jobs)

    @property
    def has_executions(self) -> bool:
        return bool(self.model.executions)

    @property
    def time_matters(self) -> bool:
        return any(job.place in {JobPlace.LATER, JobPlace.LEASE} for job in self.model.jobs.values())

    # Submitting ------------------------------------------------------------------------------------------------

    @initialize(
        kinds=st.lists(
            st.tuples(st.integers(0, 1), st.sampled_from(TYPES), st.sampled_from(["", "", LIMIT_KEYS[0]])),
            min_size=2,
            max_size=5,
        )
    )
    def start_with_some_jobs(self, kinds: Sequence[tuple[int, str, str]]) -> None:
        for tenant, job_type, limit_key in kinds:
            self.check_submitted(
                [
                    ModelSubmission(
                        job_id=self.new_id(), tenant=TENANTS[tenant], type=job_type, limit_key=limit_key, limit=2
                    )
                ]
            )

    @rule(
        tenant=st.integers(0, 1),
        job_type=st.sampled_from(TYPES),
        keys=st.lists(st.sampled_from([None, None, "k1", "k2"]), min_size=1, max_size=3),
        priority=st.sampled_from(PRIORITIES),
        delay=st.sampled_from([0.0, 0.0, 0.0, 5.0, 30.0]),
        limit_key=st.sampled_from(["", "", "", *LIMIT_KEYS]),
        limit=st.integers(1, 3),
        most_attempts=st.integers(1, 3),
    )
    def submit(
        self,
        tenant: int,
        job_type: str,
        keys: Sequence[str | None],
        priority: int,
        delay: float,
        limit_key: str,
        limit: int,
        most_attempts: int,
    ) -> None:
        self.check_submitted(
            [
                ModelSubmission(
                    job_id=self.new_id(),
                    tenant=TENANTS[tenant],
                    type=job_type,
                    priority=priority,
                    max_attempts=most_attempts,
                    key=key,
                    limit_key=limit_key,
                    limit=limit,
                    delay=delay,
                )
                for key in keys
            ]
        )

    @precondition(lambda self: self.has_jobs)
    @rule(
        tenant=st.integers(0, 1),
        needs=st.lists(st.integers(0, 50), min_size=1, max_size=3),
        delay=st.sampled_from([0.0, 0.0, 5.0]),
        limit_key=st.sampled_from(["", "", LIMIT_KEYS[0]]),
    )
    def submit_dependent(self, tenant: int, needs: list[int], delay: float, limit_key: str) -> None:
        needed = [self.a_job(number) for number in needs]
        if needed[0].order.tenant == needed[-1].order.tenant:  # mostly its own jobs; another tenant's do not exist
            tenant = TENANTS.index(needed[0].order.tenant)
        self.check_submitted(
            [
                ModelSubmission(
                    job_id=self.new_id(),
                    tenant=TENANTS[tenant],
                    type="pack",
                    limit_key=limit_key,
                    limit=2,
                    delay=delay,
                    needs=tuple(job.order.job_id for job in needed),
                )
            ]
        )

    def check_submitted(self, orders: Sequence[ModelSubmission]) -> None:
        first = orders[0]
        limit = Limit(key=first.limit_key, at_most=first.limit) if first.limit_key else None
        options = SubmitOptions(
            tenant=first.tenant,
            type=first.type,
            priority=first.priority,
            max_attempts=first.max_attempts,
            keep_seconds=60,
            limit=None if limit is None else limit.at_most,
            depends_on=first.needs,
        )
        specs = [
            JobSpec(
                handler=any_handler, job_id=order.job_id, payload="{}", key=order.key, delay=order.delay, limit=limit
            )
            for order in orders
        ]
        try:
            expected = self.model.submit(orders)
        except UnknownJob:
            with pytest.raises(JobsRefusal, match="does not exist"):
                self.engine.run(submit_jobs(self.engine.app, options, JobColumns.from_specs(specs)))
        else:
            assert self.engine.run(submit_jobs(self.engine.app, options, JobColumns.from_specs(specs))) == expected
