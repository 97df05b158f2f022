"""Specification of the plans: statements that run all the time find what they look for, however full the tables are.

Plans are asked for as the engine's sessions have them, generic and pinned: in tables nobody has looked at yet, in
tables that were found empty, which is what a queue mostly is, and with 50,000 jobs. A worker keeps a plan for long.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest
from service_jobs import queries
from service_jobs.context import Connection
from service_jobs.database import Sessions
from service_jobs.job import Status
from service_jobs.worker import claims, heartbeat, lanes

from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.storage.jobs import make_job_sessions
from tests.fixtures import TestServer

pytestmark = pytest.mark.external

TENANT: Final = UUID(int=0xA)
MANY: Final = 50_000
FILL: Final = """
    INSERT INTO jobs.job (tenant_id, job_id, type, max_attempts, payload, created_at, scheduled_at, keep_seconds,
                          limit_key, status, failed_at)
    SELECT $1, gen_random_uuid(), 'work', 5, '{}', now(), now(), 60, CASE WHEN n % 10 = 0 THEN 'press' ELSE '' END,
           CASE WHEN n % 100 = 0 THEN 'FAILED' ELSE 'QUEUED' END, CASE WHEN n % 100 = 0 THEN now() END
      FROM generate_series(1, $2::int) AS n
"""
READY: Final = """
    INSERT INTO jobs.job_ready (tenant_id, job_id, type, priority, attempt, limit_key)
    SELECT tenant_id, job_id, type, priority, 0, limit_key FROM jobs.job WHERE status = 'QUEUED'
"""
LATER: Final = """
    INSERT INTO jobs.job_later (tenant_id, job_id, run_at, type, priority, attempt, limit_key)
    SELECT tenant_id, job_id, now() + random() * interval '1 day', type, priority, 0, limit_key FROM jobs.job
"""
LEASED: Final = """
    INSERT INTO jobs.job_lease (tenant_id, job_id, type, owner, attempt, priority, limit_key, started_at, lease_until)
    SELECT tenant_id, job_id, type, 'w' || random(), 1, priority, limit_key, now(), now() FROM jobs.job
"""
SLOTS: Final = (
    "INSERT INTO jobs.job_slot (tenant_id, limit_key, slot) SELECT $1, 'press', s FROM generate_series(1, 1000) s"
)
# The query of jobs.move_due, with its variables as parameters.
DUE: Final = """
    SELECT d.tenant_id, d.job_id FROM jobs.job_later d
     WHERE d.run_at <= $1::timestamptz AND d.run_at > $2::timestamptz
     ORDER BY d.run_at LIMIT $3::int FOR UPDATE SKIP LOCKED
"""


@dataclass(frozen=True, slots=True)
class Node:
    """One step of a plan."""

    kind: str
    relation: str | None
    index: str | None
    condition: str
    filter: str
    raw: Mapping[str, Any]


def flatten_nodes(plan: Mapping[str, Any]) -> Iterator[Node]:
    condition = plan.get("Index Cond") or plan.get("TID Cond") or ""
    yield Node(
        plan["Node Type"], plan.get("Relation Name"), plan.get("Index Name"), condition, plan.get("Filter", ""), plan
    )
    for below in plan.get("Plans", ()):
        yield from flatten_nodes(below)


async def explain_plan(conn: Connection, statement: str, count: int | None = None) -> list[Node]:
    """The generic plan of `statement`, as a session that prepares it has it."""
    count = count or max(int(number) for number in re.findall(r"\$(\d+)", statement))
    await conn.execute(f"PREPARE asked AS {statement}")
    try:
        nulls = ", ".join(["NULL"] * count)
        [[text]] = await conn.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE asked ({nulls})")
    finally:
        await conn.execute("DEALLOCATE asked")
    return list(flatten_nodes(json.loads(text)[0]["Plan"]))


def nodes_on(nodes: Sequence[Node], relation: str) -> list[Node]:
    """The scans of a table; what changes it is none."""
    return [node for node in nodes if node.relation == relation and node.kind != "ModifyTable"]


def require_no_full_scan(nodes: Sequence[Node]) -> None:
    """Nothing reads a whole table, or an index from one end to the other."""
    for node in nodes:
        assert "Seq Scan" not in node.kind, node
        assert "Bitmap" not in node.kind, node
        if node.kind in {"Index Scan", "Index Only Scan"}:
            assert node.condition, node


def list_lane_scans(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes_on(nodes, "job_ready") if "Index" in node.kind]


@pytest.fixture(scope="module", params=["never looked at", "found empty", "full"])
def prepared_address(request: pytest.FixtureRequest, server: TestServer, template_name: str) -> Iterator[Address]:
    """A database for all plans: nothing in it is changed."""
    name = f"bpc_test_{clock.new_id().hex}"
    asyncio.run(_prepare_database(server, name, template_name, request.param))
    yield server.login.with_database(name)
    asyncio.run(_as_admin(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))


async def _prepare_database(server: TestServer, name: str, template: str, state: str) -> None:
    await _as_admin(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER bpc_owner')
    conn = await asyncpg.connect(**server.admin.with_database(name).connect_arguments())
    if state == "full":
        await conn.execute("INSERT INTO tenants (tenant_id, slug, name) VALUES ($1, 'acme', 'Acme')", TENANT)
        await conn.execute(FILL, TENANT, MANY)
        for fill in (READY, LATER, LEASED):
            await conn.execute(fill)
        await conn.execute(SLOTS, TENANT)
    if state != "never looked at":
        await conn.execute("VACUUM ANALYZE jobs.job, jobs.job_ready, jobs.job_later, jobs.job_lease, jobs.job_slot")
    await conn.close()


async def _as_admin(server: TestServer, statement: str) -> None:
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    await admin.execute(statement)
    await admin.close()


@pytest.fixture
async def open_worker_session(prepared_address: Address) -> AsyncIterator[Sessions]:
    opened = make_job_sessions(prepared_address, size=2)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def worker(open_worker_session: Sessions) -> AsyncIterator[Connection]:
    """A worker's session: what it plans depends on its settings, never on what the tables hold."""
    conn = await open_worker_session.connect_worker("test")
    yield conn
    await conn.close()


async def test_a_claim_reads_its_lane_from_where_it_left_off_and_no_further(worker: Connection) -> None:
    nodes = await explain_plan(worker, claims.COMPLETE_AND_CLAIM)

    require_no_full_scan(nodes)
    [lane] = list_lane_scans(nodes)
    assert lane.index == "job_ready_pkey"
    for column in ("tenant_id", "limit_key", "priority", "seq >"):
        assert column in lane.condition, lane
    assert "type" in lane.filter
    sorted_jobs = [
        node for node in nodes if "Sort" in node.kind and nodes_on(list(flatten_nodes(node.raw)), "job_ready")
    ]
    assert sorted_jobs == [], "the index gives the order"


async def test_what_was_claimed_is_deleted_where_it_was_found(worker: Connection) -> None:
    nodes = await explain_plan(worker, claims.COMPLETE_AND_CLAIM)

    assert sorted(node.kind for node in nodes_on(nodes, "job_ready")) == ["Index Scan", "Tid Scan"]


async def test_completing_finds_lease_and_job_by_their_keys(worker: Connection) -> None:
    nodes = await explain_plan(worker, claims.COMPLETE_AND_CLAIM)

    assert {node.index for node in nodes_on(nodes, "job_lease")} == {"job_lease_pkey"}
    assert {node.index for node in nodes_on(nodes, "job")} == {"job_pkey"}
    for node in (*nodes_on(nodes, "job_lease"), *nodes_on(nodes, "job")):
        assert "tenant_id" in node.condition
        assert "job_id" in node.condition


async def test_a_claim_with_a_limit_reads_its_lane_and_its_slots_by_their_indexes(worker: Connection) -> None:
    nodes = await explain_plan(worker, claims.CLAIM_LIMITED)

    require_no_full_scan(nodes)
    [lane] = list_lane_scans(nodes)
    for column in ("tenant_id", "limit_key", "priority", "seq >"):
        assert column in lane.condition, lane
    assert sorted(node.kind for node in nodes_on(nodes, "job_ready")) == ["Index Scan", "Tid Scan"]
    assert {node.index for node in nodes_on(nodes, "job_slot")} == {"job_slot_pkey"}
    assert {node.index for node in nodes_on(nodes, "job")} == {"job_pkey"}


async def test_renewing_finds_leases_by_their_keys(worker: Connection) -> None:
    nodes = await explain_plan(worker, heartbeat.RENEW_LEASES)

    require_no_full_scan(nodes)
    assert {node.index for node in nodes_on(nodes, "job_lease")} == {"job_lease_pkey"}
    assert all("job_id" in node.condition for node in nodes_on(nodes, "job_lease"))


async def test_the_scout_goes_from_lane_to_lane_by_the_index(worker: Connection) -> None:
    nodes = await explain_plan(worker, lanes.SELECT_LANES)

    require_no_full_scan(nodes)
    scans = list_lane_scans(nodes)
    assert len(scans) == len(nodes_on(nodes, "job_ready")) == 2
    for scan in scans:
        assert scan.index == "job_ready_pkey"
        assert re.search(r"ROW\(.*tenant_id.*limit_key.*priority\) > ROW", scan.condition), scan
    assert not [node for node in nodes if "Sort" in node.kind]


async def test_due_jobs_are_found_by_their_time(worker: Connection) -> None:
    due = await explain_plan(worker, DUE)
    next_due = await explain_plan(worker, lanes.NEXT_DUE)

    for nodes in (due, next_due):
        require_no_full_scan(nodes)
        [scan] = nodes_on(nodes, "job_later")
        assert (scan.index, "run_at" in scan.condition) == ("job_later_due", True)
        assert not [node for node in nodes if "Sort" in node.kind]


async def test_the_query_of_due_jobs_is_the_one_that_is_asked_for_here(worker: Connection) -> None:
    body = await worker.fetchval("SELECT prosrc FROM pg_proc WHERE oid = 'jobs.move_due'::regproc")
    asked = DUE.replace("$1::timestamptz", "v_now").replace("$2::timestamptz", "p_after").replace("$3::int", "p_most")

    assert " ".join(asked.split()) in " ".join(body.split())


@pytest.mark.parametrize("status", [None, Status.SUCCEEDED, Status.RUNNING])
async def test_a_page_is_read_backwards_from_the_primary_key(
    open_worker_session: Sessions, status: Status | None
) -> None:
    async with open_worker_session.tenant(TENANT) as conn:
        await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        full = await conn.fetchval("SELECT reltuples FROM pg_class WHERE oid = 'jobs.job'::regclass") > 1000
        nodes = await explain_plan(conn, queries.PAGE_QUERIES[status])

    if full:  # nothing is pinned for who looks at jobs: an empty table may well be read from one end to the other
        require_no_full_scan(nodes_on(nodes, "job"))
        assert "job_pkey" in {node.index for node in nodes_on(nodes, "job")}
