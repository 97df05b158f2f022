"""What the tests of this folder stand on: a database with a table for effects, a stream of jobs, and the final account.

The same seed gives the same stream and the same victims. Every run prints its seed; FAULTS_SEED repeats one.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random  # noqa: TID251 (seeded)
from uuid import UUID

import asyncpg
import orjson
from service_jobs.job_spec import Limit
from service_jobs.service import Jobs
from tests.jobs.faults.fault_handlers import EFFECTIVE, EFFECTS, PLAIN, FaultInput, has_effect, register_handlers
from tests.jobs.faults.history_checker import Effect, History, Row, find_problems
from tests.jobs.faults.worker_fleet import WorkerFleet

from bpc.core.audit.events import Act
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage.access import tenants_and_actors
from bpc.storage.connection import connect
from bpc.storage.database import open_database
from bpc.storage.jobs import make_job_sessions

NARROW = Limit(key="narrow", at_most=2)
OPEN_JOBS = "SELECT count(*) FROM jobs.job WHERE status = 'QUEUED'"
ROWS = """
    SELECT j.job_id, j.type, j.status, j.attempts, j.max_attempts, j.limit_key, j.payload, d.needs_id
      FROM jobs.job j LEFT JOIN jobs.job_dependency d ON d.tenant_id = j.tenant_id AND d.job_id = j.job_id
"""
LEFT = """
    SELECT 'ready ' || job_id FROM jobs.job_ready UNION ALL
    SELECT 'later ' || job_id FROM jobs.job_later UNION ALL
    SELECT 'lease ' || job_id || ' of ' || owner FROM jobs.job_lease UNION ALL
    SELECT 'slot ' || limit_key || ' has ' || job_id FROM jobs.job_slot WHERE job_id IS NOT NULL UNION ALL
    SELECT job_id || ' waits for ' || needs_id FROM jobs.job_dependency WHERE NOT met
"""
LOST = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


def create_random(test: str) -> Random:
    """The chance of this run, which it prints."""
    seed = os.environ.get("FAULTS_SEED") or str(int.from_bytes(os.urandom(4), "big"))  # noqa: TID251 (printed)
    print(f"{test}: FAULTS_SEED={seed}")  # noqa: T201
    return Random(f"{test} {seed}")


class FaultDatabase:
    """One database: submit to it, look at it as somebody who sees everything, and settle the account."""

    def __init__(self, address: Address, jobs: Jobs, tenant: UUID, admin: Address, chance: Random) -> None:
        self.address = address
        self.jobs = jobs
        self.tenant = tenant
        self.random = chance
        self.acknowledged: list[UUID] = []
        self._admin = admin
        self._conn: asyncpg.Connection[asyncpg.Record] | None = None
        self._key = 0

    # Submitting -------------------------------------------------------------------------------------------------

    async def submit(
        self, job_type: str, work: FaultInput, *, limit: Limit | None = None, needs: Sequence[UUID] = ()
    ) -> UUID:
        """Submit until it is acknowledged; by its key it is one job, however often that takes."""
        self._key += 1
        key = str(self._key)
        while True:
            try:
                job_id = await self.jobs.submit(
                    self.jobs.handlers[job_type],
                    work,
                    tenant=self.tenant,
                    key=key,
                    limit=limit,
                    depends_on=needs,
                )
            except LOST:
                await asyncio.sleep(0.05)
            else:
                self.acknowledged.append(job_id)
                return job_id

    async def submit_any(self, longest: float = 0.04) -> UUID:
        """One job of any sort."""
        chance = self.random
        job_type = chance.choice((PLAIN, PLAIN, EFFECTIVE))
        follows = chance.choice((0, 0, 0, 0, 2)) if job_type == EFFECTIVE else 0
        work = FaultInput(
            seconds=chance.uniform(0, longest), fails=chance.choice((0, 0, 0, 0, 0, 0, 1, 2)), follows=follows
        )
        limit = NARROW if chance.random() < 0.1 else None
        needs = [chance.choice(self.acknowledged[-20:])] if self.acknowledged and chance.random() < 0.1 else []
        return await self.submit(job_type, work, limit=limit, needs=needs)

    async def submit_steadily(self, count: int, seconds: float, longest: float = 0.04) -> None:
        """`count` jobs over `seconds`, a few at a time."""
        begun = time.monotonic()
        for done in range(0, count, 10):
            await asyncio.gather(*(self.submit_any(longest) for _ in range(min(10, count - done))))
            await asyncio.sleep(max(0.0, begun + seconds * done / count - time.monotonic()))

    # Looking ----------------------------------------------------------------------------------------------------

    async def fetch(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        """As the superuser, however often the connection is lost."""
        while True:
            try:
                if self._conn is None or self._conn.is_closed():
                    self._conn = await connect(**self._admin.connect_arguments())
                return await self._conn.fetch(query, *arguments)
            except LOST as lost:
                if isinstance(lost, asyncpg.PostgresError) and self._conn is not None and not self._conn.is_closed():
                    raise
                await asyncio.sleep(0.05)

    async def wait_for_workers(self, count: int, within: float = 60) -> None:
        """Return when so many workers are registered."""
        deadline = time.monotonic() + within
        while (await self.fetch("SELECT count(*) FROM jobs.job_worker"))[0][0] != count:
            assert time.monotonic() < deadline, f"there are not {count} workers after {within} s"
            await asyncio.sleep(0.05)

    async def wait_until_drained(self, fleet: WorkerFleet, within: float) -> None:
        """Return when every job is over."""
        deadline = time.monotonic() + within
        while (left := (await self.fetch(OPEN_JOBS))[0][0]) > 0:
            if time.monotonic() > deadline:
                where = [text for (text,) in await self.fetch(LEFT)]
                workers = [tuple(row) for row in await self.fetch("SELECT * FROM jobs.job_worker")]
                raise AssertionError(f"{left} jobs are not over: {where[:20]}\n{workers}\n{fleet.logs()[-8_000:]}")
            await asyncio.sleep(0.05)

    async def measure_seconds_to_end(self, hits: "Sequence[Hit]") -> list[float]:
        """How long each job that was hit took to be over, counted from the last time that it was.

        Without those that have a limit: they wait for others' slots, which the dead and the stopped keep for a while.
        """
        last: dict[UUID, float] = {}
        for hit in hits:
            last |= dict.fromkeys(hit.jobs, hit.at)
        rows = await self.fetch(
            "SELECT job_id, extract(epoch FROM finished_at)::float8 FROM jobs.job"
            " WHERE job_id = ANY ($1) AND limit_key = ''",
            list(last),
        )
        return [ended - last[job_id] for job_id, ended in rows]

    async def record_hit(self, pids: Sequence[int]) -> "Hit":
        """What these processes hold right now, and the database's time."""
        rows = await self.fetch(
            """
            SELECT extract(epoch FROM clock_timestamp())::float8, array_agg(job_id), array_agg(attempt)
              FROM jobs.job_lease WHERE split_part(owner, ':', 2) = ANY ($1)
            """,
            [str(pid) for pid in pids],
        )
        at, job_ids, attempts = rows[0]
        return Hit(at, dict(zip(job_ids or (), attempts or (), strict=True)))

    async def wait_until_reaped(self, hit: "Hit", within: float) -> None:
        """Return when none of these executions has its lease any more."""
        deadline = time.monotonic() + within
        while left := await self.fetch(
            """
            SELECT job_id FROM jobs.job_lease JOIN unnest($1::uuid[], $2::int[]) AS hit (job_id, attempt)
             USING (job_id, attempt)
            """,
            list(hit.jobs),
            list(hit.jobs.values()),
        ):
            assert time.monotonic() < deadline, f"still has its lease: {left}"
            await asyncio.sleep(0.05)

    # The account ------------------------------------------------------------------------------------------------

    async def load_history(self, fleet: WorkerFleet) -> History:
        """Everything there is to judge by, at the end."""
        rows = [_read_row(record) for record in await self.fetch(ROWS)]
        effects = await self.fetch("SELECT job_id, attempt, owner FROM public.effect")
        return History(
            submitted=frozenset(str(job_id) for job_id in self.acknowledged),
            rows=rows,
            lines=fleet.lines(),
            effects=[Effect(job_id=str(job_id), attempt=attempt, owner=owner) for job_id, attempt, owner in effects],
            left=[text for (text,) in await self.fetch(LEFT)],
            limits={NARROW.key: NARROW.at_most},
        )

    async def require_sound_history(self, fleet: WorkerFleet) -> History:
        """The account, with which nothing is wrong."""
        history = await self.load_history(fleet)
        messages = find_problems(history)
        assert not messages, f"{len(messages)} problems: " + "\n".join(messages[:20])
        return history

    async def close(self) -> None:
        if self._conn is not None:
            self._conn.terminate()


class Hit:
    """Jobs and their executions that were in a process when something happened to it."""

    def __init__(self, at: float, jobs: dict[UUID, int]) -> None:
        self.at = at
        self.jobs = jobs


@asynccontextmanager
async def open_fault_database(address: Address, admin: Address, test: str) -> AsyncIterator[FaultDatabase]:
    """Stand on a migrated database."""
    sessions = make_job_sessions(address, size=10)
    await sessions.open()
    database = await open_database(address, pool_size=1)
    tenant = await tenants_and_actors.create_tenant(database, slug="acme", name="Acme", act=Act(None, clock.now()))
    await database.close()
    database_under_test = FaultDatabase(
        address, Jobs(register_handlers(), sessions), tenant, admin, create_random(test)
    )
    await database_under_test.fetch(EFFECTS.split(";")[0])
    await database_under_test.fetch(EFFECTS.split(";")[1])
    try:
        yield database_under_test
    finally:
        await database_under_test.close()
        await sessions.close()


def _read_row(record: asyncpg.Record) -> Row:
    work = orjson.loads(record["payload"])
    return Row(
        job_id=str(record["job_id"]),
        status=record["status"],
        attempts=record["attempts"],
        max_attempts=record["max_attempts"],
        effective=has_effect(record["type"]),
        follows=work["follows"],
        parent=work["parent"],
        nth=work["nth"],
        limit_key=record["limit_key"],
        needs=None if record["needs_id"] is None else str(record["needs_id"]),
    )
