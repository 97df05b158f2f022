"""Specification of the whole engine: whatever happens in whatever order, it does what the model says.

Three workers that crash, pause and write late, two tenants, jobs of all kinds, and a clock that is stepped both ways.
Every answer of the engine is compared with the model's, and after every step the tables with the model's jobs. The
same machine, run against engines that were broken on purpose, must find that out.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random  # noqa: TID251 (seeded, and the seed is printed)
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, get_state_machine_test, initialize, invariant, precondition, rule

from bpc import fresh
from bpc.db.connection import connect
from bpc.db.jobs import sessions_at
from bpc.db.roles import APP
from bpc.jobs.changes import REDRIVE
from bpc.jobs.context import Connection, Context, Held, Limit, Wish
from bpc.jobs.errors import JobsRefusal
from bpc.jobs.handler import Handlers
from bpc.jobs.ids import new_ids
from bpc.jobs.outcome import Ending, Outcome
from bpc.jobs.sessions import Sessions
from bpc.jobs.submitting import Manner, Rows, submit
from bpc.jobs.worker import claims, pulse, settling
from bpc.jobs.worker.lanes import Lane
from bpc.jobs.worker.scout import LONG_AGO, MOVE_DUE
from tests.conftest import TestServer
from tests.jobs.fake_clock import Clock
from tests.jobs.model import BAD_ENDS, Execution, Job, Model, Order, Place, Unknown
from tests.measuring import Measured, effort

pytestmark = pytest.mark.external

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
        return self.loop.run_until_complete(_awaited(work))

    def empty(self) -> Clock:
        """No jobs, and the clock stands still at START."""
        clock = Clock(self.superuser)
        self.run(self.superuser.execute(EMPTY))
        self.run(clock.stop_at(START))
        return clock

    def replace(self, function: str, *changes: tuple[str, str]) -> None:
        """Break one of the engine's functions: each text in it that is named becomes another."""
        body = self.run(self.superuser.fetchval("SELECT pg_get_functiondef($1::regproc)", function))
        self.run(self.superuser.execute(broken(body, *changes)))


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def broken(text: str, *changes: tuple[str, str]) -> str:
    for there, instead in changes:
        assert there in text, f"nothing is broken: `{there}` is not there any more"
        text = text.replace(there, instead)
    return text


@contextmanager
def engine_on(server: TestServer, template: str) -> Iterator[Engine]:
    name = f"bpc_test_{fresh.new_id().hex}"
    loop = asyncio.new_event_loop()
    try:
        admin = loop.run_until_complete(asyncpg.connect(**server.admin.connect_arguments()))
        loop.run_until_complete(admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER bpc_owner'))
        try:
            yield loop.run_until_complete(_connected(server, name, loop))
        finally:
            loop.run_until_complete(admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))
            loop.run_until_complete(admin.close())
    finally:
        loop.close()


async def _connected(server: TestServer, name: str, loop: asyncio.AbstractEventLoop) -> Engine:
    superuser = await asyncpg.connect(**server.admin.at(name).connect_arguments())
    for tenant, slug in zip(TENANTS, ("acme", "rival"), strict=True):
        await superuser.execute("INSERT INTO tenants (tenant_id, slug, name) VALUES ($1, $2, $2)", tenant, slug)
    sessions = sessions_at(server.login.at(name), size=1)
    app = await connect(**server.login.at(name).connect_arguments(), server_settings={"role": APP})
    return Engine(loop, superuser, await sessions.worker("machine"), app)


@pytest.fixture
def engine(server: TestServer, template: str) -> Iterator[Engine]:
    with engine_on(server, template) as made:
        yield made


handlers = Handlers()


@handlers.job("any")
async def any_handler(ctx: Context, value: None) -> None:
    """Never runs; a wish has a handler."""


class JobsMachine(RuleBasedStateMachine):
    """Each rule does one thing to the engine and to the model, and compares their answers."""

    engine: ClassVar[Engine]

    def __init__(self) -> None:
        super().__init__()
        self.clock = self.engine.empty()
        self.model = Model(START)
        self.owners = ["w0", "w1", "w2"]
        self.seen: dict[Execution, datetime] = {}
        self.made = 0

    # Helpers ---------------------------------------------------------------------------------------------------

    def new_id(self) -> UUID:
        """Ids in the order they are made, the same in every run."""
        self.made += 1
        return UUID(int=self.made << 80 | 7 << 76 | 2 << 62)

    def a_job(self, number: int) -> Job:
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

    def held(self, execution: Execution) -> Held:
        order = self.model.jobs[execution.job].order
        return Held(order.tenant, order.job_id, order.type, execution.owner, execution.attempt)

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
        return any(job.place in {Place.LATER, Place.LEASE} for job in self.model.jobs.values())

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
            self.submitted(
                [Order(job_id=self.new_id(), tenant=TENANTS[tenant], type=job_type, limit_key=limit_key, limit=2)]
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
        self.submitted(
            [
                Order(
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
        self.submitted(
            [
                Order(
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

    def submitted(self, orders: Sequence[Order]) -> None:
        first = orders[0]
        limit = Limit(key=first.limit_key, at_most=first.limit) if first.limit_key else None
        manner = Manner(
            tenant=first.tenant,
            type=first.type,
            priority=first.priority,
            max_attempts=first.max_attempts,
            keep_seconds=60,
            limit=None if limit is None else limit.at_most,
            depends_on=first.needs,
        )
        wishes = [
            Wish(handler=any_handler, job_id=order.job_id, payload="{}", key=order.key, delay=order.delay, limit=limit)
            for order in orders
        ]
        try:
            expected = self.model.submit(orders)
        except Unknown:
            with pytest.raises(JobsRefusal, match="does not exist"):
                self.engine.run(submit(self.engine.app, manner, Rows.of(wishes)))
        else:
            assert self.engine.run(submit(self.engine.app, manner, Rows.of(wishes))) == expected

    # Claiming and completing -----------------------------------------------------------------------------------

    @precondition(lambda self: self.has_jobs)
    @rule(
        worker=st.integers(0, 2),
        lanes=st.sampled_from([ALL_LANES, ALL_LANES, ALL_LANES[:1], ALL_LANES[1:3]]),
        most=st.integers(1, 3),
    )
    def claim(self, worker: int, lanes: Sequence[tuple[int, int]], most: int) -> None:
        self.exchanged(self.owners[worker], [], lanes, most, KNOWN[worker])

    @precondition(lambda self: self.has_executions)
    @rule(worker=st.integers(0, 2), lanes=st.sampled_from([(), ALL_LANES]))
    def complete_all_and_claim(self, worker: int, lanes: Sequence[tuple[int, int]]) -> None:
        owner = self.owners[worker]
        self.exchanged(owner, self.held_by(owner, limited=False), lanes, 2, KNOWN[worker])

    @precondition(lambda self: self.has_executions)
    @rule(number=st.integers(0, 50), with_others=st.booleans())
    def complete_late(self, number: int, with_others: bool) -> None:
        """What is refused does not keep what is right from being accepted."""
        late = self.choose(number, late=True)
        if late is not None:
            right = self.held_by(late.owner, limited=False) if with_others else []
            self.exchanged(late.owner, [late, *(one for one in right if one.job != late.job)], [], 1, TYPES)

    def exchanged(
        self, owner: str, done: Sequence[Execution], lanes: Sequence[tuple[int, int]], most: int, types: Sequence[str]
    ) -> None:
        done = sorted(done, key=lambda one: (self.model.jobs[one.job].order.tenant, one.job))
        asked = [(Lane(TENANTS[tenant], "", priority), most) for tenant, priority in lanes]
        given = [claims.Done(self.held(one).tenant, one.job, one.attempt, "1") for one in done]

        got = self.engine.run(claims.exchange(self.engine.worker, owner, given, asked, types, LEASE))

        started = self.model.claim(owner, [(TENANTS[t], "", priority, most) for t, priority in lanes], types, LEASE)
        refused = {one.job for one in done if self.model.settle(one, "SUCCEEDED") is None}
        assert got.refused == refused
        assert_same_executions(got.claimed, started)

    @precondition(lambda self: self.model.limits)
    @rule(worker=st.integers(0, 2), priority=st.sampled_from(PRIORITIES), most=st.integers(1, 3))
    def claim_limited(self, worker: int, priority: int, most: int) -> None:
        lanes = [(tenant, key, priority, most) for tenant in TENANTS for key in LIMIT_KEYS]
        asked = [(Lane(tenant, key, priority), most) for tenant, key, priority, most in lanes]
        owner = self.owners[worker]

        got = self.engine.run(claims.claim_limited(self.engine.worker, owner, asked, KNOWN[worker], LEASE))

        assert_same_executions(got, self.model.claim(owner, lanes, KNOWN[worker], LEASE))

    @rule(worker=st.integers(0, 2), ending=st.sampled_from([None, *Ending]))
    def work(self, worker: int, ending: Ending | None) -> None:
        """Claim all there is, whether it has a limit or not, and end some of it."""
        for priority in PRIORITIES:
            self.claim_limited(worker, priority, 3)
        self.claim(worker, ALL_LANES, 2)
        if ending is not None:
            for execution in self.held_by(self.owners[worker])[::2]:
                self.settled(execution, ending, 0.0)

    # Ending ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.has_executions)
    @rule(
        number=st.integers(0, 50),
        late=st.sampled_from([False, False, True]),
        ending=st.sampled_from(Ending),
        delay=st.sampled_from([0.0, 5.0]),
    )
    def settle(self, number: int, late: bool, ending: Ending, delay: float) -> None:
        execution = self.choose(number, late=late)
        if execution is not None:
            self.settled(execution, ending, delay)

    def settled(self, execution: Execution, ending: Ending, delay: float) -> None:
        said = Outcome(ending=ending, result="1" if ending is Ending.SUCCEEDED else None, delay=delay)
        became = self.engine.run(settling.settle(self.engine.worker, self.held(execution), said))
        assert became == self.model.settle(execution, ending, delay)

    @precondition(lambda self: self.has_executions)
    @rule(number=st.integers(0, 50), late=st.booleans(), column=st.sampled_from(["checkpoint", "step", "progress"]))
    def save(self, number: int, late: bool, column: str) -> None:
        execution = self.choose(number, late=late)
        if execution is not None:
            saved = self.engine.run(settling.save(self.engine.worker, self.held(execution), column, "{}"))
            assert saved is self.model.holds(execution)

    # Leases ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.has_executions)
    @rule(number=st.integers(0, 50), late=st.booleans())
    def renew(self, number: int, late: bool) -> None:
        """A worker renews what it holds, and what it believes to hold."""
        execution = self.choose(number, late=late)
        if execution is None:
            return
        renewed = [one for one in self.held_by(execution.owner) if one.job != execution.job] + [execution]
        held = [self.held(one) for one in renewed]
        found = self.engine.run(
            self.engine.worker.fetch(
                pulse.RENEW,
                [one.tenant for one in held],
                [one.job_id for one in held],
                [one.attempt for one in held],
                execution.owner,
                LEASE,
            )
        )
        assert {row["job_id"]: row["cancel_requested"] for row in found} == self.model.renew(renewed, LEASE)

    @precondition(lambda self: self.has_executions)
    @rule()
    def look_at_leases(self) -> None:
        """The first look of the pulse; `reap` may follow at once, or when much has happened in between."""
        rows = self.engine.run(self.engine.worker.fetch(pulse.RUN_OUT))
        self.seen = self.model.run_out()
        assert {(row["job_id"], row["owner"], row["attempt"], row["lease_until"]) for row in rows} == {
            (one.job, one.owner, one.attempt, until) for one, until in self.seen.items()
        }

    @precondition(lambda self: self.seen)
    @rule(bury=st.booleans())
    def reap(self, bury: bool) -> None:
        for execution, until in self.seen.items():
            self.reaped(execution, until, bury)

    @precondition(lambda self: self.has_executions)
    @rule(worker=st.integers(0, 2), restarts=st.booleans(), bury=st.booleans())
    def bury(self, worker: int, restarts: bool, bury: bool) -> None:
        """A worker is found to be dead: all it holds is taken away. It may not know that, and go on."""
        owner = self.owners[worker]
        rows = self.engine.run(self.engine.worker.fetch(pulse.OWNED_BY, [owner]))
        held = self.held_by(owner)
        assert {(row["job_id"], row["attempt"]) for row in rows} == {(one.job, one.attempt) for one in held}
        for execution in held:
            self.reaped(execution, None, bury)
        if restarts:
            self.crash(worker)

    def reaped(self, execution: Execution, until: datetime | None, bury: bool) -> None:
        held = self.held(execution)
        became = self.engine.run(
            self.engine.worker.fetchval(
                pulse.REAP, held.tenant, held.job_id, held.owner, held.attempt, until, bury, pulse.LOST
            )
        )
        assert became == self.model.reap(execution, until, bury=bury)

    @precondition(lambda self: self.has_executions)
    @rule(renews=st.booleans(), number=st.integers(0, 50))
    def leases_run_out(self, renews: bool, number: int) -> None:
        """Between the two looks of the pulse somebody may come back and renew."""
        self.step_the_clock(LEASE + 1)
        self.look_at_leases()
        if renews:
            self.renew(number, late=False)
        self.reap(bury=True)

    @precondition(lambda self: self.has_executions)
    @rule(number=st.integers(0, 50), worker=st.integers(0, 2), ending=st.sampled_from(Ending))
    def one_pauses_and_another_takes_over(self, number: int, worker: int, ending: Ending) -> None:
        """It comes back, knows nothing, and ends what it believes to hold: to settle it, or as part of an exchange."""
        paused = self.choose(number, late=False)
        if paused is None:
            return
        self.reaped(paused, None, bury=False)
        self.claim(worker, ALL_LANES, 2)
        self.settled(paused, ending, 0.0)
        self.exchanged(paused.owner, [paused], (), 1, TYPES)

    @precondition(lambda self: self.has_executions)
    @rule(worker=st.integers(0, 2))
    def crash(self, worker: int) -> None:
        """It forgets all it holds and comes back under another name. Its leases stay; its last words may come late."""
        self.owners[worker] += "'"

    # People and time -------------------------------------------------------------------------------------------

    @precondition(lambda self: self.has_jobs)
    @rule(number=st.integers(0, 50), own=st.sampled_from([True, True, True, False]))
    def cancel(self, number: int, own: bool) -> None:
        order = self.a_job(number).order
        tenant = order.tenant if own else TENANTS[order.tenant == TENANTS[0]]
        became = self.engine.run(self.engine.app.fetchval(CANCEL, tenant, order.job_id))
        assert became == self.model.cancel(tenant, order.job_id)

    @precondition(lambda self: self.has_jobs)
    @rule(number=st.integers(0, 50), bad=st.booleans())
    def redrive(self, number: int, bad: bool) -> None:
        fitting = [job for job in self.model.jobs.values() if not bad or job.status in BAD_ENDS]
        if fitting:
            order = fitting[number % len(fitting)].order
            became = self.engine.run(self.engine.app.fetchval(REDRIVE, order.tenant, order.job_id))
            assert became == self.model.redrive(order.tenant, order.job_id)

    @precondition(lambda self: self.time_matters)
    @rule(seconds=st.sampled_from([1.0, 5.0, 6.0, 11.0, 60.0, -7.0, -3600.0]))
    def step_the_clock(self, seconds: float) -> None:
        self.engine.run(self.clock.step(seconds))
        self.model.now += timedelta(seconds=seconds)

    @precondition(lambda self: any(job.place is Place.LATER for job in self.model.jobs.values()))
    @rule()
    def move_due(self) -> None:
        self.engine.run(self.engine.worker.fetch(MOVE_DUE, LONG_AGO, 1000))
        self.model.move_due()

    # What is always true ---------------------------------------------------------------------------------------

    @invariant()
    def every_job_is_in_one_place_and_as_the_model_says(self) -> None:
        rows = self.engine.run(self.engine.superuser.fetch(STATE))
        assert {row["job_id"] for row in rows} == set(self.model.jobs)
        for row in rows:
            there = {place for place in Place if row[place.value]}
            assert sum(row[place.value] for place in Place) == 1, f"{row['job_id']} is in {there or 'no place'}"
            assert row["failed_rightly"]
            job = self.model.jobs[row["job_id"]]
            assert (there, row["status"], row["attempts"]) == ({job.place}, job.shown, job.attempts)
            assert set(row["unmet"]) == job.unmet
            assert (row["lease_owner"], row["lease_expires_at"], row["cancel_requested"]) == _lease(job)
            assert row["scheduled_at"] == job.run_at or job.place in {Place.LEASE, Place.ENDED}
            assert row["in_queues"] == sum(row[place] for row in rows for place in ("ready", "later", "lease"))
        by_turn = sorted((row["seq"], row["job_id"]) for row in rows if row["ready"])
        ready = sorted((job.turn, job_id) for job_id, job in self.model.jobs.items() if job.place is Place.READY)
        assert [job_id for _, job_id in by_turn] == [job_id for _, job_id in ready]

    @invariant()
    def slots_belong_to_who_runs_and_are_no_more_than_the_limit(self) -> None:
        for row in self.engine.run(self.engine.superuser.fetch(SLOTS)):
            used = self.model.used_slots(row["tenant_id"], row["limit_key"])
            free = self.model.free_slots(row["tenant_id"], row["limit_key"])
            assert set(row["rightly"]) == used
            assert (row["taken"], set(row["slots"])) == (len(used), used | set(free))


def _lease(job: Job) -> tuple[str | None, datetime | None, bool]:
    return (None, None, False) if job.lease is None else (job.lease.execution.owner, job.lease.until, job.lease.cancel)


def assert_same_executions(rows: Sequence[asyncpg.Record], started: Sequence[Execution]) -> None:
    assert {(row["job_id"], row["attempt"]) for row in rows} == {(one.job, one.attempt) for one in started}


def drive(engine: Engine, *, examples: int, steps: int, chosen: int, shrink: bool = True) -> None:
    """Run the machine against `engine`; raises with the shortest story that ends differently than the model's."""
    machine: Any = type("JobsMachine", (JobsMachine,), {"engine": engine})
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
    )
    sys.stdout.write(f"seed {chosen}: {examples} examples of {steps} steps\n")
    seed(chosen)(get_state_machine_test(machine, settings=how))()


def test_the_engine_does_what_the_model_says_in_whatever_order_things_happen(
    engine: Engine, measured: Measured
) -> None:
    examples = effort(test=60, shown=2_000, campaign=20_000)
    started = time.monotonic()

    drive(engine, examples=examples, steps=30, chosen=fresh.new_id().int % 2**32)

    took = round(time.monotonic() - started)
    measured("jobs-state-machine", examples=examples, steps_each=30, differences=0, seconds=took)


FENCE: Final = "AND owner = p_owner AND attempt = p_attempt"
FENCE_OF_EXCHANGE: Final = "AND l.attempt = f.attempt AND l.owner = $5"
SABOTAGE: Final = {
    "whoever comes late is heard": ("jobs.settle", FENCE, ""),
    "slots are not given back": ("jobs.settle", "SET job_id = NULL", "SET job_id = job_id"),
    "a lease that was renewed is taken away": ("jobs.reap", "AND (p_until IS NULL OR lease_until = p_until)", ""),
    "a job waits for one of two only": (
        "jobs.release_dependents",
        "= 'QUEUED' AND NOT EXISTS",
        "= 'QUEUED' OR NOT EXISTS",
    ),
    "attempts begin anew when a job is run again": ("jobs.redrive", "p_job, v_job.attempts,", "p_job, 0,"),
}


@pytest.mark.parametrize("harm", [pytest.param(harm, id=name) for name, harm in SABOTAGE.items()])
def test_an_engine_that_was_broken_on_purpose_is_found_out(engine: Engine, harm: tuple[str, str, str]) -> None:
    function, there, instead = harm
    engine.replace(function, (there, instead))

    with pytest.raises((AssertionError, asyncpg.PostgresError)):
        for chosen in (6, 8, 4, 3, 1):  # five seeds are enough for whatever luck one of them has; these find it soon
            drive(engine, examples=200, steps=40, chosen=chosen, shrink=False)


def test_an_exchange_that_hears_whoever_comes_late_is_found_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "EXCHANGE", broken(claims.EXCHANGE, (FENCE_OF_EXCHANGE, "")))

    with pytest.raises((AssertionError, asyncpg.PostgresError)):
        drive(engine, examples=200, steps=40, chosen=1, shrink=False)


# Everything at the same time -----------------------------------------------------------------------------------------

MISSED: Final = """
    SELECT d.job_id, d.needs_id, n.status FROM jobs.job_dependency d
      JOIN jobs.job n ON n.tenant_id = d.tenant_id AND n.job_id = d.needs_id
      JOIN jobs.job j ON j.tenant_id = d.tenant_id AND j.job_id = d.job_id
     WHERE NOT d.met AND j.status = 'QUEUED' AND n.status <> 'QUEUED'
"""


class Storm:
    """Submitters, workers, people and a reaper that do at random what they may, each in a session of its own."""

    def __init__(self, sessions: Sessions, tenant: UUID, chosen: int, seconds: float) -> None:
        self._sessions = sessions
        self._tenant = tenant
        self._dice = Random(chosen)
        self._until = time.monotonic() + seconds
        self._ids: list[UUID] = []
        self.happened: Counter[str] = Counter()

    async def blow(self) -> None:
        async with asyncio.TaskGroup() as everybody:
            for act in (self._submit, self._submit, self._submit, self._change, self._change):
                everybody.create_task(self._keep(act))
            for number in range(4):
                everybody.create_task(self._work(f"w{number}"))
            everybody.create_task(self._reap())

    async def _keep(self, act: Callable[[], Awaitable[None]]) -> None:
        while time.monotonic() < self._until:
            try:
                await act()
            except asyncpg.DeadlockDetectedError:  # it is rolled back and says so: whose transaction it is tries again
                self.happened["deadlocks"] += 1
            await asyncio.sleep(self._dice.random() * 0.01)

    async def _submit(self) -> None:
        recent = self._ids[-50:]
        needs = tuple(self._dice.sample(recent, min(len(recent), self._dice.choice([0, 0, 1, 3]))))
        limit = self._dice.choice([None, None, Limit(key="press", at_most=2)])
        wishes = [
            Wish(
                handler=any_handler,
                job_id=job_id,
                payload="1",
                key=self._dice.choice([None, f"k{self._dice.randrange(100)}"]),
                delay=self._dice.choice([0.0, 0.0, 0.02]),
                limit=limit,
            )
            for job_id in new_ids(self._dice.choice([1, 2, 12]))
        ]
        manner = Manner(
            tenant=self._tenant,
            type="any",
            priority=2,
            max_attempts=3,
            keep_seconds=60,
            limit=None if limit is None else limit.at_most,
            depends_on=needs,
        )
        async with self._sessions.tenant(self._tenant) as conn:
            ids = await submit(conn, manner, Rows.of(wishes))
        self._ids += ids
        self.happened["submitted"] += len(wishes)

    async def _change(self) -> None:
        if self._ids:
            statement = self._dice.choice([CANCEL, REDRIVE])
            async with self._sessions.tenant(self._tenant) as conn:
                became = await conn.fetchval(statement, self._tenant, self._dice.choice(self._ids[-100:]))
            self.happened[f"{'cancel' if statement is CANCEL else 'redrive'}: {became}"] += 1

    async def _work(self, owner: str) -> None:
        conn = await self._sessions.worker(owner)
        held: list[asyncpg.Record] = []
        while time.monotonic() < self._until:
            self._dice.shuffle(held)
            if self._dice.random() < 0.01:  # it pauses for longer than its leases last
                await asyncio.sleep(1.2)
            done = sorted((job for job in held[:10] if not job["limit_key"]), key=lambda job: job["job_id"])
            given = [claims.Done(self._tenant, job["job_id"], job["attempt"], "1") for job in done]
            got = await claims.exchange(conn, owner, given, [(Lane(self._tenant, "", 2), 8)], ["any"], 1.0)
            held = [job for job in held if job not in done] + list(got.claimed)
            held += await claims.claim_limited(conn, owner, [(Lane(self._tenant, "press", 2), 3)], ["any"], 1.0)
            ended = sorted(held[:2], key=lambda job: job["job_id"])
            await self._settle(conn, owner, ended)
            held = [job for job in held if job not in ended][:15]  # what is forgotten has to be reaped
            await conn.fetch(pulse.RENEW, *_columns(held), owner, 1.0)
            await conn.fetch(MOVE_DUE, LONG_AGO, 100)
            self.happened["completed"] += len(done) - len(got.refused)
            self.happened["refused"] += len(got.refused)
        await conn.close()

    async def _settle(self, conn: Connection, owner: str, jobs: Sequence[asyncpg.Record]) -> None:
        tenants, ids, attempts = _columns(jobs)
        endings = [self._dice.choice(["SUCCEEDED", "SUCCEEDED", *Ending]) for _ in jobs]
        nothing: list[None] = [None] * len(jobs)
        rows = await conn.fetch(
            claims.SETTLE_MANY, tenants, ids, owner, attempts, endings, nothing, nothing, [0.01] * len(jobs)
        )
        self.happened["settled"] += sum(row["became"] is not None for row in rows)

    async def _reap(self) -> None:
        conn = await self._sessions.worker("reaper")
        while time.monotonic() < self._until:
            for row in await conn.fetch(pulse.RUN_OUT):
                key = [row[name] for name in ("tenant_id", "job_id", "owner", "attempt", "lease_until")]
                became = await conn.fetchval(pulse.REAP, *key, True, pulse.LOST)
                self.happened["reaped"] += became is not None
            await asyncio.sleep(0.1)
        await conn.close()


def _columns(jobs: Sequence[asyncpg.Record]) -> tuple[list[UUID], list[UUID], list[int]]:
    return [job["tenant_id"] for job in jobs], [job["job_id"] for job in jobs], [job["attempt"] for job in jobs]


async def test_when_everything_happens_at_the_same_time_every_job_is_in_one_place_and_nobody_is_forgotten(
    sessions: Sessions, tenant: UUID, superuser: Connection, measured: Measured
) -> None:
    chosen = fresh.new_id().int % 2**32
    storm = Storm(sessions, tenant, chosen, seconds=effort(test=2, shown=60, campaign=600))

    await storm.blow()

    sys.stdout.write(f"seed {chosen}: {dict(storm.happened)}\n")
    rows = await superuser.fetch(STATE)
    assert [row["job_id"] for row in rows if sum(row[place.value] for place in Place) != 1] == []
    assert await superuser.fetch(MISSED) == [], "a needed job ended, and who needs it was not told"
    for row in await superuser.fetch(SLOTS):
        assert (sorted(row["slots"]), row["taken"]) == ([1, 2], len(row["rightly"]))
    assert storm.happened["completed"]
    measured(
        "jobs-storm",
        jobs=storm.happened["submitted"],
        refused=storm.happened["refused"],
        misplaced=0,
        deadlocks=storm.happened["deadlocks"],
    )
