"""Everything at the same time: every job is in one place, and nobody is forgotten."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random  # noqa: TID251 (seeded, and the seed is printed)
from typing import Final
from uuid import UUID

import asyncpg
import pytest
from service_jobs.context import Connection
from service_jobs.database import Sessions
from service_jobs.job import Ending, new_ids
from service_jobs.job_control import REDRIVE
from service_jobs.job_spec import JobColumns, JobSpec, Limit, SubmitOptions
from service_jobs.submission import submit_jobs
from service_jobs.worker import claims, heartbeat, maintenance
from service_jobs.worker.lanes import LONG_AGO, MOVE_DUE, Lane
from tests.jobs.support.state_model import (
    JobPlace,
)
from tests.jobs.worker.state_machine.machine_engine import CANCEL, SLOTS, STATE, any_handler

from bpc.runtime import clock as fresh
from tests.measurements import RecordMeasurement, choose_effort

pytestmark = pytest.mark.external

# Everything at the same time -----------------------------------------------------------------------------------------

MISSED: Final = """
    SELECT d.job_id, d.needs_id, n.status FROM jobs.job_dependency d
      JOIN jobs.job n ON n.tenant_id = d.tenant_id AND n.job_id = d.needs_id
      JOIN jobs.job j ON j.tenant_id = d.tenant_id AND j.job_id = d.job_id
     WHERE NOT d.met AND j.status = 'QUEUED' AND n.status <> 'QUEUED'
"""


class ConcurrentLoad:
    """Submitters, workers, people and a reaper that do at random what they may, each in a session of its own."""

    def __init__(self, sessions: Sessions, tenant: UUID, chosen: int, seconds: float) -> None:
        self._sessions = sessions
        self._tenant = tenant
        self._dice = Random(chosen)
        self._until = time.monotonic() + seconds
        self._ids: list[UUID] = []
        self.happened: Counter[str] = Counter()

    async def run(self) -> None:
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
        specs = [
            JobSpec(
                handler=any_handler,
                job_id=job_id,
                payload="1",
                key=self._dice.choice([None, f"k{self._dice.randrange(100)}"]),
                delay=self._dice.choice([0.0, 0.0, 0.02]),
                limit=limit,
            )
            for job_id in new_ids(self._dice.choice([1, 2, 12]))
        ]
        options = SubmitOptions(
            tenant=self._tenant,
            type="any",
            priority=2,
            max_attempts=3,
            keep_seconds=60,
            limit=None if limit is None else limit.at_most,
            depends_on=needs,
        )
        async with self._sessions.tenant(self._tenant) as conn:
            ids = await submit_jobs(conn, options, JobColumns.from_specs(specs))
        self._ids += ids
        self.happened["submitted"] += len(specs)

    async def _change(self) -> None:
        if self._ids:
            statement = self._dice.choice([CANCEL, REDRIVE])
            async with self._sessions.tenant(self._tenant) as conn:
                became = await conn.fetchval(statement, self._tenant, self._dice.choice(self._ids[-100:]))
            self.happened[f"{'cancel' if statement is CANCEL else 'redrive'}: {became}"] += 1

    async def _work(self, owner: str) -> None:
        conn = await self._sessions.connect_worker(owner)
        held: list[asyncpg.Record] = []
        while time.monotonic() < self._until:
            self._dice.shuffle(held)
            if self._dice.random() < 0.01:  # it pauses for longer than its leases last
                await asyncio.sleep(1.2)
            done = sorted((job for job in held[:10] if not job["limit_key"]), key=lambda job: job["job_id"])
            completions = [claims.Completion(self._tenant, job["job_id"], job["attempt"], "1") for job in done]
            refused, claimed = await claims.complete_and_claim(
                conn, owner, completions, [(Lane(self._tenant, "", 2), 8)], ["any"], 1.0
            )
            held = [job for job in held if job not in done] + list(claimed)
            held += await claims.claim_limited(conn, owner, [(Lane(self._tenant, "press", 2), 3)], ["any"], 1.0)
            ended = sorted(held[:2], key=lambda job: job["job_id"])
            await self._settle(conn, owner, ended)
            held = [job for job in held if job not in ended][:15]  # what is forgotten has to be reaped
            await conn.fetch(heartbeat.RENEW_LEASES, *_columns(held), owner, 1.0)
            await conn.fetch(MOVE_DUE, LONG_AGO, 100)
            self.happened["completed"] += len(done) - len(refused)
            self.happened["refused"] += len(refused)
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
        conn = await self._sessions.connect_worker("reaper")
        while time.monotonic() < self._until:
            for row in await conn.fetch(maintenance.SELECT_EXPIRED_LEASES):
                key = [row[name] for name in ("tenant_id", "job_id", "owner", "attempt", "lease_until")]
                became = await conn.fetchval(maintenance.REAP_LEASE, *key, True, maintenance.LEASE_LOST_JSON)
                self.happened["reaped"] += became is not None
            await asyncio.sleep(0.1)
        await conn.close()


def _columns(jobs: Sequence[asyncpg.Record]) -> tuple[list[UUID], list[UUID], list[int]]:
    return [job["tenant_id"] for job in jobs], [job["job_id"] for job in jobs], [job["attempt"] for job in jobs]


async def test_when_everything_happens_at_the_same_time_every_job_is_in_one_place_and_nobody_is_forgotten(
    sessions: Sessions, tenant: UUID, superuser: Connection, record_measurement: RecordMeasurement
) -> None:
    chosen = fresh.new_id().int % 2**32
    storm = ConcurrentLoad(sessions, tenant, chosen, seconds=choose_effort(test=2, shown=60, campaign=600))

    await storm.run()

    sys.stdout.write(f"seed {chosen}: {dict(storm.happened)}\n")
    rows = await superuser.fetch(STATE)
    assert [row["job_id"] for row in rows if sum(row[place.value] for place in JobPlace) != 1] == []
    assert await superuser.fetch(MISSED) == [], "a needed job ended, and who needs it was not told"
    for row in await superuser.fetch(SLOTS):
        assert (sorted(row["slots"]), row["taken"]) == ([1, 2], len(row["rightly"]))
    assert storm.happened["completed"]
    record_measurement(
        "jobs-storm",
        jobs=storm.happened["submitted"],
        refused=storm.happened["refused"],
        misplaced=0,
        deadlocks=storm.happened["deadlocks"],
    )
