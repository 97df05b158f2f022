"""Specification of the whole engine: whatever happens in whatever order, it does what the model says.

Three workers that crash, pause and write late, two tenants, jobs of all kinds, and a clock that is stepped both ways.
Every answer of the engine is compared with the model's, and after every step the tables with the model's jobs. The
same machine, run against engines that were broken on purpose, must find that out.
"""

import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import get_state_machine_test, invariant, precondition, rule
from service_jobs.job import Ending, Outcome
from service_jobs.job_control import REDRIVE
from service_jobs.worker import claims, heartbeat, maintenance, settlement
from service_jobs.worker.lanes import LONG_AGO, MOVE_DUE, Lane
from tests.jobs.support.state_model import (
    BAD_ENDS,
    Execution,
    JobPlace,
    ModelJob,
)
from tests.jobs.worker.state_machine.machine_engine import (
    ALL_LANES,
    CANCEL,
    KNOWN,
    LEASE,
    LIMIT_KEYS,
    PRIORITIES,
    SLOTS,
    STATE,
    TENANTS,
    TYPES,
    Engine,
    SubmittingMachine,
    break_statement,
)

from bpc.runtime import clock as fresh
from tests.measurements import RecordMeasurement, choose_effort

pytestmark = pytest.mark.external


class JobsMachine(SubmittingMachine):
    """All that can happen to jobs."""

    # Claiming and completing -----------------------------------------------------------------------------------

    @precondition(lambda self: self.has_jobs)
    @rule(
        worker=st.integers(0, 2),
        lanes=st.sampled_from([ALL_LANES, ALL_LANES, ALL_LANES[:1], ALL_LANES[1:3]]),
        most=st.integers(1, 3),
    )
    def claim(self, worker: int, lanes: Sequence[tuple[int, int]], most: int) -> None:
        self.run_exchange(self.owners[worker], [], lanes, most, KNOWN[worker])

    @precondition(lambda self: self.has_executions)
    @rule(worker=st.integers(0, 2), lanes=st.sampled_from([(), ALL_LANES]))
    def complete_all_and_claim(self, worker: int, lanes: Sequence[tuple[int, int]]) -> None:
        owner = self.owners[worker]
        self.run_exchange(owner, self.held_by(owner, limited=False), lanes, 2, KNOWN[worker])

    @precondition(lambda self: self.has_executions)
    @rule(number=st.integers(0, 50), with_others=st.booleans())
    def complete_late(self, number: int, with_others: bool) -> None:
        """What is refused does not keep what is right from being accepted."""
        late = self.choose(number, late=True)
        if late is not None:
            right = self.held_by(late.owner, limited=False) if with_others else []
            self.run_exchange(late.owner, [late, *(one for one in right if one.job != late.job)], [], 1, TYPES)

    def run_exchange(
        self, owner: str, done: Sequence[Execution], lanes: Sequence[tuple[int, int]], most: int, types: Sequence[str]
    ) -> None:
        done = sorted(done, key=lambda one: (self.model.jobs[one.job].order.tenant, one.job))
        asked = [(Lane(TENANTS[tenant], "", priority), most) for tenant, priority in lanes]
        completions = [claims.Completion(self.held(one).tenant, one.job, one.attempt, "1") for one in done]

        exchange = claims.complete_and_claim(self.engine.worker, owner, completions, asked, types, LEASE)
        refused_ids, claimed = self.engine.run(exchange)

        started = self.model.claim(owner, [(TENANTS[t], "", priority, most) for t, priority in lanes], types, LEASE)
        refused = {one.job for one in done if self.model.settle(one, "SUCCEEDED") is None}
        assert refused_ids == refused
        assert_same_executions(claimed, started)

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
                self.check_settled(execution, ending, 0.0)

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
            self.check_settled(execution, ending, delay)

    def check_settled(self, execution: Execution, ending: Ending, delay: float) -> None:
        said = Outcome(ending=ending, result="1" if ending is Ending.SUCCEEDED else None, delay=delay)
        became = self.engine.run(settlement.settle_execution(self.engine.worker, self.held(execution), said))
        assert became == self.model.settle(execution, ending, delay)

    @precondition(lambda self: self.has_executions)
    @rule(number=st.integers(0, 50), late=st.booleans(), column=st.sampled_from(["checkpoint", "step", "progress"]))
    def save(self, number: int, late: bool, column: str) -> None:
        execution = self.choose(number, late=late)
        if execution is not None:
            saved = self.engine.run(settlement.save_column(self.engine.worker, self.held(execution), column, "{}"))
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
        rows = self.engine.run(
            self.engine.worker.fetch(
                heartbeat.RENEW_LEASES,
                [one.tenant for one in held],
                [one.job_id for one in held],
                [one.attempt for one in held],
                execution.owner,
                LEASE,
            )
        )
        assert {row["job_id"]: row["cancel_requested"] for row in rows} == self.model.renew(renewed, LEASE)

    @precondition(lambda self: self.has_executions)
    @rule()
    def look_at_leases(self) -> None:
        """The first look of the pulse; `reap` may follow at once, or when much has happened in between."""
        rows = self.engine.run(self.engine.worker.fetch(maintenance.SELECT_EXPIRED_LEASES))
        self.seen = self.model.expire_leases()
        assert {(row["job_id"], row["owner"], row["attempt"], row["lease_until"]) for row in rows} == {
            (one.job, one.owner, one.attempt, until) for one, until in self.seen.items()
        }

    @precondition(lambda self: self.seen)
    @rule(bury=st.booleans())
    def reap(self, bury: bool) -> None:
        for execution, until in self.seen.items():
            self.check_reaped(execution, until, bury)

    @precondition(lambda self: self.has_executions)
    @rule(worker=st.integers(0, 2), restarts=st.booleans(), bury=st.booleans())
    def bury(self, worker: int, restarts: bool, bury: bool) -> None:
        """A worker is found to be dead: all it holds is taken away. It may not know that, and go on."""
        owner = self.owners[worker]
        rows = self.engine.run(self.engine.worker.fetch(maintenance.SELECT_LEASES_OF, [owner]))
        held = self.held_by(owner)
        assert {(row["job_id"], row["attempt"]) for row in rows} == {(one.job, one.attempt) for one in held}
        for execution in held:
            self.check_reaped(execution, None, bury)
        if restarts:
            self.crash(worker)

    def check_reaped(self, execution: Execution, until: datetime | None, bury: bool) -> None:
        held = self.held(execution)
        became = self.engine.run(
            self.engine.worker.fetchval(
                maintenance.REAP_LEASE,
                held.tenant,
                held.job_id,
                held.owner,
                held.attempt,
                until,
                bury,
                maintenance.LEASE_LOST_JSON,
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
        self.check_reaped(paused, None, bury=False)
        self.claim(worker, ALL_LANES, 2)
        self.check_settled(paused, ending, 0.0)
        self.run_exchange(paused.owner, [paused], (), 1, TYPES)

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

    @precondition(lambda self: any(job.place is JobPlace.LATER for job in self.model.jobs.values()))
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
            there = {place for place in JobPlace if row[place.value]}
            assert sum(row[place.value] for place in JobPlace) == 1, f"{row['job_id']} is in {there or 'no place'}"
            assert row["failed_rightly"]
            job = self.model.jobs[row["job_id"]]
            assert (there, row["status"], row["attempts"]) == ({job.place}, job.visible_status, job.attempts)
            assert set(row["unmet"]) == job.unmet
            assert (row["lease_owner"], row["lease_expires_at"], row["cancel_requested"]) == _lease(job)
            assert row["scheduled_at"] == job.run_at or job.place in {JobPlace.LEASE, JobPlace.ENDED}
            assert row["in_queues"] == sum(row[place] for row in rows for place in ("ready", "later", "lease"))
        by_turn = sorted((row["seq"], row["job_id"]) for row in rows if row["ready"])
        ready = sorted((job.turn, job_id) for job_id, job in self.model.jobs.items() if job.place is JobPlace.READY)
        assert [job_id for _, job_id in by_turn] == [job_id for _, job_id in ready]

    @invariant()
    def slots_belong_to_who_runs_and_are_no_more_than_the_limit(self) -> None:
        for row in self.engine.run(self.engine.superuser.fetch(SLOTS)):
            used = self.model.used_slots(row["tenant_id"], row["limit_key"])
            free = self.model.free_slots(row["tenant_id"], row["limit_key"])
            assert set(row["rightly"]) == used
            assert (row["taken"], set(row["slots"])) == (len(used), used | set(free))


def _lease(job: ModelJob) -> tuple[str | None, datetime | None, bool]:
    return (None, None, False) if job.lease is None else (job.lease.execution.owner, job.lease.until, job.lease.cancel)


def assert_same_executions(rows: Sequence[asyncpg.Record], started: Sequence[Execution]) -> None:
    assert {(row["job_id"], row["attempt"]) for row in rows} == {(one.job, one.attempt) for one in started}


def run_machine(engine: Engine, *, examples: int, steps: int, chosen: int, shrink: bool = True) -> None:
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
    engine: Engine, record_measurement: RecordMeasurement
) -> None:
    examples = choose_effort(test=60, shown=2_000, campaign=20_000)
    started = time.monotonic()

    run_machine(engine, examples=examples, steps=30, chosen=fresh.new_id().int % 2**32)

    took = round(time.monotonic() - started)
    record_measurement("jobs-state-machine", examples=examples, steps_each=30, differences=0, seconds=took)


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
            run_machine(engine, examples=200, steps=40, chosen=chosen, shrink=False)


def test_an_exchange_that_hears_whoever_comes_late_is_found_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        claims, "COMPLETE_AND_CLAIM", break_statement(claims.COMPLETE_AND_CLAIM, (FENCE_OF_EXCHANGE, ""))
    )

    with pytest.raises((AssertionError, asyncpg.PostgresError)):
        run_machine(engine, examples=200, steps=40, chosen=1, shrink=False)
