"""The exchange: write down how executions ended and claim the next jobs. This is the hot path, two statements.

    COMPLETE_AND_CLAIM   complete the successes of the last turn and claim the next jobs, in one statement and commit
    CLAIM_LIMITED        claim jobs that have a concurrency limit, each with a slot of its key

Every completion is fenced by job, attempt and owner; the ones that were refused are returned. A claim names lanes
(tenant, priority), where to start in each, and how many to take: the worker decides in memory what is fair.
Claims alone commit asynchronously: if the server crashes and loses a claim, the job is still queued.

`tenant_id = ANY (ARRAY[…])` instead of `=`: with statistics taken while a table was empty, the planner would scan a
whole index for a merge join once it is full. This form leaves it nothing but looking each job up.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import asyncpg

from service_jobs.context import Connection, ContextBackend
from service_jobs.execution import build_release
from service_jobs.handler import Handlers
from service_jobs.job import Ending, Outcome, Status
from service_jobs.telemetry import Metrics
from service_jobs.worker.executions import EndedJob, Executions, HeldJob
from service_jobs.worker.lanes import Lane, LaneKey, LaneRings

POSTPONE_SECONDS: Final = 1.0
log = logging.getLogger(__name__)

_JOB_COLUMNS: Final[LiteralString] = """
         c.tenant_id, c.job_id, c.type, c.attempt, c.priority, c.limit_key, c.seq, j.uncounted, j.max_attempts,
         j.payload, j.checkpoint, j.step, j.correlation_id, j.actor, j.traceparent, j.service_id, j.subject_kind,
         j.subject_id, j.subject_group
    FROM claimed c
    JOIN jobs.job j ON j.tenant_id = ANY (ARRAY[c.tenant_id]) AND j.job_id = c.job_id
"""

COMPLETE_AND_CLAIM: Final[LiteralString] = f"""
    WITH moment AS MATERIALIZED (
      SELECT jobs.clock() AS at,
             CASE WHEN cardinality($1::uuid[]) = 0 THEN set_config('synchronous_commit', 'off', true) END
    ), done AS (
      DELETE FROM jobs.job_lease l
       USING unnest($1::uuid[], $2::uuid[], $3::int[], $4::text[]) AS f (tenant_id, job_id, attempt, result)
       WHERE l.tenant_id = ANY (ARRAY[f.tenant_id]) AND l.job_id = f.job_id AND l.attempt = f.attempt AND l.owner = $5
      RETURNING l.tenant_id, l.job_id, l.attempt, l.started_at, f.result
    ), ended AS (
      UPDATE jobs.job j
         SET status = 'SUCCEEDED', attempts = d.attempt, started_at = d.started_at, finished_at = moment.at,
             result = d.result::json
        FROM done d, moment
       WHERE j.tenant_id = ANY (ARRAY[d.tenant_id]) AND j.job_id = d.job_id
      RETURNING j.tenant_id, j.job_id, j.awaited
    ), picked AS (
      SELECT r.place
        FROM unnest($6::uuid[], $7::smallint[], $8::bigint[], $9::int[]) AS lane (tenant_id, priority, above, most)
       CROSS JOIN LATERAL (
         SELECT q.ctid AS place
           FROM jobs.job_ready q
          WHERE q.tenant_id = lane.tenant_id AND q.limit_key = '' AND q.priority = lane.priority AND q.seq > lane.above
            AND q.type = ANY ($10::text[])
          ORDER BY q.seq
          LIMIT lane.most
            FOR UPDATE SKIP LOCKED) r
    ), claimed AS (
      DELETE FROM jobs.job_ready r USING picked p WHERE r.ctid = p.place
      RETURNING r.tenant_id, r.job_id, r.type, r.attempt + 1 AS attempt, r.priority, r.limit_key, r.seq
    ), leased AS (
      INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, started_at, lease_until)
      SELECT c.tenant_id, c.job_id, c.type, $5, c.attempt, c.priority, c.limit_key, moment.at,
             moment.at + make_interval(secs => $11)
        FROM claimed c, moment
    )
    SELECT (SELECT count(*) FROM done) AS accepted,
           CASE WHEN (SELECT count(*) FROM done) < cardinality($1::uuid[])
                THEN (SELECT coalesce(array_agg(job_id), '{{}}') FROM done) END AS only_these,
           (SELECT sum(jobs.release_dependents(e.tenant_id, e.jobs, moment.at))
              FROM moment, (SELECT tenant_id, array_agg(job_id) AS jobs FROM ended WHERE awaited
                             GROUP BY tenant_id ORDER BY tenant_id) e) AS released,
           NULL::uuid AS tenant_id, NULL::uuid AS job_id, NULL::text AS type, NULL::int AS attempt,
           NULL::smallint AS priority, NULL::text AS limit_key, NULL::bigint AS seq, NULL::int AS uncounted,
           NULL::int AS max_attempts, NULL::json AS payload, NULL::json AS checkpoint, NULL::json AS step,
           NULL::text AS correlation_id, NULL::text AS actor, NULL::text AS traceparent, NULL::text AS service_id,
           NULL::text AS subject_kind, NULL::text AS subject_id, NULL::text AS subject_group
    UNION ALL
    SELECT NULL, NULL, NULL, {_JOB_COLUMNS}
"""

CLAIM_LIMITED: Final[LiteralString] = f"""
    WITH moment AS MATERIALIZED (
      SELECT jobs.clock() AS at, set_config('synchronous_commit', 'off', true)
    ), lane AS MATERIALIZED (
      SELECT * FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::bigint[], $5::int[]) WITH ORDINALITY
        AS lane (tenant_id, limit_key, priority, above, most, n)
    ), free AS MATERIALIZED (
      SELECT lane.n, s.slot, row_number() OVER (PARTITION BY lane.n ORDER BY s.slot) AS nth
        FROM lane
       CROSS JOIN LATERAL (
         SELECT f.slot FROM jobs.job_slot f
          WHERE f.tenant_id = lane.tenant_id AND f.limit_key = lane.limit_key AND f.job_id IS NULL
            AND NOT f.closing
          ORDER BY f.slot LIMIT lane.most FOR UPDATE SKIP LOCKED) s
    ), picked AS MATERIALIZED (
      SELECT lane.n, lane.tenant_id, lane.limit_key, r.place, r.job_id,
             row_number() OVER (PARTITION BY lane.n ORDER BY r.seq) AS nth
        FROM lane
       CROSS JOIN LATERAL (
         SELECT q.ctid AS place, q.job_id, q.seq
           FROM jobs.job_ready q
          WHERE q.tenant_id = lane.tenant_id AND q.limit_key = lane.limit_key AND q.priority = lane.priority
            AND q.seq > lane.above AND q.type = ANY ($6::text[])
          ORDER BY q.seq
          LIMIT (SELECT count(*) FROM free WHERE free.n = lane.n)
            FOR UPDATE SKIP LOCKED) r
    ), pair AS MATERIALIZED (
      SELECT p.place, p.tenant_id, p.limit_key, p.job_id, f.slot
        FROM picked p JOIN free f ON f.n = p.n AND f.nth = p.nth
    ), taken AS (
      UPDATE jobs.job_slot s SET job_id = pair.job_id FROM pair
       WHERE s.tenant_id = ANY (ARRAY[pair.tenant_id]) AND s.limit_key = pair.limit_key AND s.slot = pair.slot
    ), claimed AS (
      DELETE FROM jobs.job_ready r USING pair WHERE r.ctid = pair.place
      RETURNING r.tenant_id, r.job_id, r.type, r.attempt + 1 AS attempt, r.priority, r.limit_key, r.seq, pair.slot
    ), leased AS (
      INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, slot, started_at,
                                  lease_until)
      SELECT c.tenant_id, c.job_id, c.type, $7, c.attempt, c.priority, c.limit_key, c.slot, moment.at,
             moment.at + make_interval(secs => $8)
        FROM claimed c, moment
    )
    SELECT {_JOB_COLUMNS}
"""

SETTLE_MANY: Final[LiteralString] = """
    SELECT f.job_id, jobs.settle(f.tenant_id, f.job_id, $3, f.attempt, f.outcome, f.result, f.error, f.delay) AS became
      FROM unnest($1::uuid[], $2::uuid[], $4::int[], $5::text[], $6::text[], $7::text[], $8::float8[])
        AS f (tenant_id, job_id, attempt, outcome, result, error, delay)
"""


class Completion(NamedTuple):
    """A successful execution that is to be completed."""

    tenant: UUID
    job_id: UUID
    attempt: int
    result: str


async def complete_and_claim(
    conn: Connection,
    owner: str,
    completions: Sequence[Completion],
    lanes: Sequence[tuple[Lane, int]],
    types: Sequence[str],
    lease: float,
) -> tuple[frozenset[UUID], Sequence[asyncpg.Record]]:
    """Complete `completions` and claim from `lanes`. Returns the ids that were refused, and the claimed jobs.

    Sort `completions` by job: all locks are taken in this order.
    """
    tenants, ids, attempts, results = zip(*completions, strict=True) if completions else ((), (), (), ())
    first, *rows = await conn.fetch(
        COMPLETE_AND_CLAIM,
        tenants,
        ids,
        attempts,
        results,
        owner,
        [lane.tenant for lane, _ in lanes],
        [lane.priority for lane, _ in lanes],
        [lane.above for lane, _ in lanes],
        [count for _, count in lanes],
        types,
        lease,
    )
    refused_ids: frozenset[UUID] = frozenset()
    if first["only_these"] is not None:
        refused_ids = frozenset(completion.job_id for completion in completions) - frozenset(first["only_these"])
    return refused_ids, rows


async def claim_limited(
    conn: Connection, owner: str, lanes: Sequence[tuple[Lane, int]], types: Sequence[str], lease: float
) -> Sequence[asyncpg.Record]:
    """Claim from lanes with a limit. A key may be in one lane only, or its slots would be counted twice."""
    return await conn.fetch(
        CLAIM_LIMITED,
        [lane.tenant for lane, _ in lanes],
        [lane.limit_key for lane, _ in lanes],
        [lane.priority for lane, _ in lanes],
        [lane.above for lane, _ in lanes],
        [count for _, count in lanes],
        types,
        owner,
        lease,
    )


class Exchange:
    """Exchanges ended jobs for new ones, on a session that the worker passes to each turn."""

    def __init__(
        self,
        owner: str,
        handlers: Handlers,
        backend: ContextBackend,
        executions: Executions,
        lanes: LaneRings,
        metrics: Metrics,
        *,
        lease: float,
        is_stopping: Callable[[], bool],
        wake: Callable[[], None],
        on_completed: Callable[[Sequence[HeldJob], frozenset[UUID]], None],
        on_settled: Callable[[HeldJob, Outcome, Status | None], None],
    ) -> None:
        """`on_completed` gets plain successes and which of them were refused, `on_settled` each other end."""
        self._owner = owner
        self._handlers = handlers
        self._types = handlers.restartable_types
        self._backend = backend
        self._executions = executions
        self._lanes = lanes
        self._on_completed = on_completed
        self._on_settled = on_settled
        self._metrics = metrics
        self._lease = lease
        self._is_stopping = is_stopping
        self._wake = wake
        self._postponed: list[EndedJob] = []  # ends that an open transaction of the service blocks
        self.since: float | None = None  # when the current turn began

    async def take_turn(self, conn: Connection) -> bool:
        """Write down what ended and claim what fits. Returns False if there was nothing to do."""
        now = time.monotonic()
        room, room_aside = self._executions.count_room(), self._executions.count_room_aside()
        if self._is_stopping():
            room = room_aside = 0
        successes, others = _split_successes(self._executions.take_finished())
        if not successes and self._executions.is_well_stocked():
            room = 0
        plain, limited_lanes = self._lanes.pick_lanes(room, room_aside, now)
        if not (successes or others or plain or limited_lanes):
            return False
        self.since = now
        try:
            async with asyncio.timeout(max(5.0, self._lease / 2)):
                await self._settle(conn, others)
                if successes or plain:
                    await self._complete_and_claim(conn, successes, plain)
                if limited_lanes:
                    rows = await claim_limited(conn, self._owner, limited_lanes, self._types, self._lease)
                    self._take_claimed(rows, limited_lanes)
        except BaseException:
            self._executions.put_back(others + successes)
            raise
        self.since = None
        return True

    async def release_held(self, conn: Connection) -> None:
        """Give back everything the worker holds, so that other workers run it."""
        await self._settle(conn, [(job, build_release()) for job in self._executions.list_held()])

    async def _complete_and_claim(
        self, conn: Connection, successes: list[EndedJob], lanes: Sequence[tuple[Lane, int]]
    ) -> None:
        successes.sort(key=_get_job_sort_key)
        completions = [
            Completion(job.lease.tenant, job.lease.job_id, job.lease.attempt, outcome.result or "null")
            for job, outcome in successes
        ]
        try:
            refused_ids, rows = await complete_and_claim(
                conn, self._owner, completions, lanes, self._types, self._lease
            )
        except asyncpg.LockNotAvailableError:
            await self._write_one_by_one(successes, lambda single: self._complete_and_claim(conn, single, ()))
            refused_ids, rows = await complete_and_claim(conn, self._owner, [], lanes, self._types, self._lease)
        jobs = [job for job, _ in successes]
        for job in jobs:
            self._executions.forget(job)
        self._on_completed(jobs, refused_ids)
        successes.clear()
        self._take_claimed(rows, lanes)

    async def _settle(self, conn: Connection, ended_jobs: list[EndedJob]) -> None:
        """Write down ends that are not plain successes; what was written is removed from `ended_jobs`."""
        if not ended_jobs:
            return
        ended_jobs.sort(key=_get_job_sort_key)
        try:
            rows = await conn.fetch(
                SETTLE_MANY,
                [job.lease.tenant for job, _ in ended_jobs],
                [job.lease.job_id for job, _ in ended_jobs],
                self._owner,
                [job.lease.attempt for job, _ in ended_jobs],
                [outcome.ending.value for _, outcome in ended_jobs],
                [outcome.result for _, outcome in ended_jobs],
                [None if outcome.error is None else outcome.error.to_json() for _, outcome in ended_jobs],
                [outcome.delay for _, outcome in ended_jobs],
            )
        except asyncpg.PostgresError as error:
            if conn.is_closed() or isinstance(error, asyncpg.TransactionRollbackError):
                raise
            log.warning("%d ends could not be written: %s", len(ended_jobs), error)
            await self._write_one_by_one(ended_jobs, lambda single: self._settle(conn, single))
            return
        became = {row["job_id"]: row["became"] for row in rows}
        for job, outcome in ended_jobs:
            job.ctx.follow_ups.clear()  # an execution that keeps follow-ups ends in a transaction, not here
            self._executions.forget(job)
            self._on_settled(job, outcome, became[job.job_id] and Status(became[job.job_id]))
        ended_jobs.clear()

    async def _write_one_by_one(
        self, ended_jobs: list[EndedJob], write: Callable[[list[EndedJob]], Coroutine[Any, Any, None]]
    ) -> None:
        """A transaction of the service holds one of these jobs: write the others now, and that one later."""
        if len(ended_jobs) > 1:
            for ended_job in list(ended_jobs):
                await write([ended_job])
        elif ended_jobs:
            self._postponed += ended_jobs
            asyncio.get_running_loop().call_later(POSTPONE_SECONDS, self._retry_postponed)
        ended_jobs.clear()

    def _retry_postponed(self) -> None:
        postponed_jobs, self._postponed = self._postponed, []
        self._executions.put_back(postponed_jobs)
        self._wake()

    def _take_claimed(self, rows: Sequence[asyncpg.Record], lanes: Sequence[tuple[Lane, int]]) -> None:
        seqs: dict[LaneKey, list[int]] = {}
        for row in rows:
            seqs.setdefault((row["tenant_id"], row["limit_key"], row["priority"]), []).append(row["seq"])
        self._lanes.record_claims(lanes, seqs, time.monotonic())
        if not rows:
            return
        self._metrics.count_acquired(Counter(row["type"] for row in rows))
        handlers = self._handlers
        self._executions.take_claimed([HeldJob(self._backend, handlers[row["type"]], self._owner, row) for row in rows])
        if self._is_stopping():  # the worker was stopped during the claim
            self._executions.release_waiting()


def _split_successes(ended_jobs: Iterable[EndedJob]) -> tuple[list[EndedJob], list[EndedJob]]:
    """Plain successes, which share a statement with the next claim, and all others."""
    successes: list[EndedJob] = []
    others: list[EndedJob] = []
    for job, outcome in ended_jobs:
        plain = outcome.ending is Ending.SUCCEEDED and not job.limit_key
        (successes if plain else others).append((job, outcome))
    return successes, others


def _get_job_sort_key(ended_job: EndedJob) -> bytes:
    return ended_job[0].lease.job_id.bytes
