"""How the queue is: what waits, what runs, what is stuck, and whether somebody is there to do it.

Cheap enough to be asked every few seconds: nothing is counted beyond 100,000 rows, and then the figure says so.
Who asks sees what row-level security shows: the workers' role everything, a tenant's transaction that tenant.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, LiteralString
from uuid import UUID

from bpc.jobs.context import Connection

MOST: Final = 100_000
DEAD_AFTER_SECONDS: Final = 15.0  # thirty heartbeats without a sign of life, and a worker is taken for dead

# Each is of all tenants ($1 is NULL) or of one; two statements, so that each can use its indexes.
ALL: Final[LiteralString] = "$1::uuid IS NULL"
ONE: Final[LiteralString] = "tenant_id = $1::uuid"

READY: Final[LiteralString] = """
    SELECT type, count(*) AS count
      FROM (SELECT type FROM jobs.job_ready WHERE {whose} LIMIT $2) AS ready
     GROUP BY type
"""
DUE: Final[LiteralString] = """
    SELECT type, count(*) AS count
      FROM (SELECT type FROM jobs.job_later WHERE run_at <= (SELECT jobs.clock()) AND {whose} LIMIT $2) AS due
     GROUP BY type
"""
LATER: Final[LiteralString] = """
    SELECT type, count(*) AS count
      FROM (SELECT type FROM jobs.job_later WHERE {whose} LIMIT $2) AS later
     GROUP BY type
"""
RUNNING: Final[LiteralString] = """
    SELECT l.type, count(*) AS count,
           count(*) FILTER (WHERE l.lease_until < now
                               OR w.heartbeat_at IS NULL
                               OR w.heartbeat_at < now - make_interval(secs => $2)) AS stale
      FROM jobs.clock() AS now, jobs.job_lease l
      LEFT JOIN jobs.job_worker w ON w.owner = l.owner
     WHERE {whose}
     GROUP BY l.type
"""
BAD: Final[LiteralString] = """
    SELECT type, count(*) FILTER (WHERE status = 'DEAD_LETTER') AS dead_letter,
           count(*) FILTER (WHERE status = 'FAILED') AS failed
      FROM (SELECT type, status FROM jobs.job WHERE failed_at IS NOT NULL AND {whose} LIMIT $2) AS bad
     GROUP BY type
"""
# The first of every lane, found by skipping from lane to lane; the oldest of all is among them.
FIRST_OF_ALL: Final[LiteralString] = """
    WITH RECURSIVE lane AS (
      (SELECT tenant_id, limit_key, priority, job_id FROM jobs.job_ready WHERE $1::uuid IS NULL
        ORDER BY tenant_id, limit_key, priority, seq LIMIT 1)
      UNION ALL
      SELECT following.* FROM lane CROSS JOIN LATERAL (
        SELECT r.tenant_id, r.limit_key, r.priority, r.job_id FROM jobs.job_ready r
         WHERE (r.tenant_id, r.limit_key, r.priority) > (lane.tenant_id, lane.limit_key, lane.priority)
         ORDER BY r.tenant_id, r.limit_key, r.priority, r.seq LIMIT 1) AS following)
    SELECT tenant_id, job_id FROM lane LIMIT $2
"""
# Under row-level security the comparison above could use no index. What became ready first has the lowest number.
FIRST_OF_ONE: Final[LiteralString] = """
    SELECT tenant_id, job_id FROM jobs.job_ready WHERE tenant_id = $1 ORDER BY seq LIMIT least(1, $2)
"""
OLDEST: Final[LiteralString] = """
    SELECT extract(epoch FROM jobs.clock() - least(
             (SELECT min(j.scheduled_at) FROM ({first}) AS first
                JOIN jobs.job j ON j.tenant_id = first.tenant_id AND j.job_id = first.job_id),
             (SELECT min(run_at) FROM jobs.job_later WHERE run_at <= (SELECT jobs.clock()) AND {whose})))::float8
"""
WORKERS: Final[LiteralString] = """
    SELECT owner, types FROM jobs.job_worker
     WHERE heartbeat_at >= jobs.clock() - make_interval(secs => $1) ORDER BY owner
"""
HEARD_OF: Final[LiteralString] = """
    SELECT heartbeat_at >= jobs.clock() - make_interval(secs => $2) FROM jobs.job_worker WHERE owner = $1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfType:
    """The jobs of one type that are not over, or ended badly."""

    queued: int = 0
    later: int = 0
    running: int = 0
    dead_letter: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The queue at one moment."""

    depth: int  # jobs that could run now; `MOST` stands for that many or more
    active: int  # jobs that run
    stale: int  # of these, the ones whose lease is over or whose worker is silent
    oldest_seconds: float | None  # how long the one has waited that could run for the longest time
    workers: int  # that gave a sign of life
    unhandled: Mapping[str, int]  # jobs that could run now by type, of types that no living worker knows

    @property
    def depth_is_exact(self) -> bool:
        return self.depth < MOST


async def is_heard_of(conn: Connection, owner: str, *, dead_after: float = DEAD_AFTER_SECONDS) -> bool:
    """Whether a worker gave a sign of life of late: the others do not take it for dead."""
    return bool(await conn.fetchval(HEARD_OF, owner, dead_after))


async def health(conn: Connection, tenant: UUID | None = None, *, dead_after: float = DEAD_AFTER_SECONDS) -> Health:
    """The figures of a readiness check, of all tenants that `conn` sees or of one."""
    waiting = Counter(await _counts(conn, READY, tenant, MOST))
    waiting.update(await _counts(conn, DUE, tenant, MOST))
    running = await conn.fetch(_of(RUNNING, tenant), tenant, dead_after)
    workers = await conn.fetch(WORKERS, dead_after)
    age = await conn.fetchval(_of(OLDEST, tenant), tenant, MOST)
    known = {name for worker in workers for name in worker["types"]}
    return Health(
        depth=min(MOST, waiting.total()),
        active=sum(row["count"] for row in running),
        stale=sum(row["stale"] for row in running),
        oldest_seconds=None if age is None else max(0.0, age),
        workers=len(workers),
        unhandled={name: count for name, count in sorted(waiting.items()) if count and name not in known},
    )


async def by_type(conn: Connection, tenant: UUID | None = None) -> dict[str, OfType]:
    """What there is of each type, sorted by name; no figure adds up more than `MOST` rows."""
    ready = await _counts(conn, READY, tenant, MOST)
    later = await _counts(conn, LATER, tenant, MOST)
    running = await _counts(conn, RUNNING, tenant, DEAD_AFTER_SECONDS)
    dead = await _counts(conn, BAD, tenant, MOST, column="dead_letter")
    failed = await _counts(conn, BAD, tenant, MOST, column="failed")
    return {
        name: OfType(
            queued=ready.get(name, 0),
            later=later.get(name, 0),
            running=running.get(name, 0),
            dead_letter=dead.get(name, 0),
            failed=failed.get(name, 0),
        )
        for name in sorted({*ready, *later, *running, *dead})
    }


async def _counts(
    conn: Connection, statement: str, tenant: UUID | None, bound: float, *, column: str = "count"
) -> dict[str, int]:
    return {row["type"]: row[column] for row in await conn.fetch(_of(statement, tenant), tenant, bound)}


def _of(statement: str, tenant: UUID | None) -> str:
    if tenant is None:
        return statement.format(whose=ALL, first=FIRST_OF_ALL)
    return statement.format(whose=ONE, first=FIRST_OF_ONE)
