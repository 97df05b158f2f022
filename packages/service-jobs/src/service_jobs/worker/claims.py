"""Claiming and completing: the hot path, two statements.

    EXCHANGE   complete the last batch that went well, and claim the next, in one statement and one commit
    LIMITED    claim jobs that have a concurrency limit, each with a slot of its key

Every completion is fenced by job, attempt and owner; what was not accepted is returned by name. A claim names lanes
(tenant, priority), from where to look in each, and how many to take: the worker decides what is fair, in memory.
Claims alone may commit asynchronously: a claim that a crash of the server loses is a job that is still queued.

`tenant_id = ANY (ARRAY[…])` instead of `=`: found empty, tables that are full a moment later tempt the planner to walk
through a whole index, whose order might serve a merge join. This form leaves it nothing but looking each job up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString, NamedTuple
from uuid import UUID

import asyncpg

from bpc.jobs.context import Connection
from bpc.jobs.worker.lanes import Lane

_JOB_COLUMNS: Final[LiteralString] = """
         c.tenant_id, c.job_id, c.type, c.attempt, c.priority, c.limit_key, c.seq, j.uncounted, j.max_attempts,
         j.payload, j.checkpoint, j.step, j.correlation_id, j.actor, j.traceparent
    FROM claimed c
    JOIN jobs.job j ON j.tenant_id = ANY (ARRAY[c.tenant_id]) AND j.job_id = c.job_id
"""

EXCHANGE: Final[LiteralString] = f"""
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
           NULL::text AS correlation_id,
           NULL::text AS actor, NULL::text AS traceparent
    UNION ALL
    SELECT NULL, NULL, NULL, {_JOB_COLUMNS}
"""

LIMITED: Final[LiteralString] = f"""
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


class Done(NamedTuple):
    """An execution that succeeded, to be completed."""

    tenant: UUID
    job_id: UUID
    attempt: int
    result: str


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What came of it: completions that were not accepted, and new jobs."""

    refused: frozenset[UUID]
    claimed: Sequence[asyncpg.Record]


async def exchange(
    conn: Connection,
    owner: str,
    done: Sequence[Done],
    lanes: Sequence[tuple[Lane, int]],
    types: Sequence[str],
    lease: float,
) -> Exchanged:
    """Complete `done` and claim from `lanes`. Order `done` by job: whoever locks several jobs does so in this order."""
    tenants, ids, attempts, results = zip(*done, strict=True) if done else ((), (), (), ())
    first, *claimed = await conn.fetch(
        EXCHANGE,
        tenants,
        ids,
        attempts,
        results,
        owner,
        [lane.tenant for lane, _ in lanes],
        [lane.priority for lane, _ in lanes],
        [lane.above for lane, _ in lanes],
        [most for _, most in lanes],
        types,
        lease,
    )
    refused: frozenset[UUID] = frozenset()
    if first["only_these"] is not None:
        refused = frozenset(one.job_id for one in done) - frozenset(first["only_these"])
    return Exchanged(refused, claimed)


async def claim_limited(
    conn: Connection, owner: str, lanes: Sequence[tuple[Lane, int]], types: Sequence[str], lease: float
) -> Sequence[asyncpg.Record]:
    """Claim from lanes with a limit. A key may appear in one lane only, or its slots would be counted twice."""
    return await conn.fetch(
        LIMITED,
        [lane.tenant for lane, _ in lanes],
        [lane.limit_key for lane, _ in lanes],
        [lane.priority for lane, _ in lanes],
        [lane.above for lane, _ in lanes],
        [most for _, most in lanes],
        types,
        owner,
        lease,
    )
