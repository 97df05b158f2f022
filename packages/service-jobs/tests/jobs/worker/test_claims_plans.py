"""Specification of the plans: statements that run all the time find what they look for, however full the tables are.

Plans are asked for as the engine's sessions have them, generic and pinned: in tables nobody has looked at yet, in
tables that were found empty, which is what a queue mostly is, and with 50,000 jobs. A worker keeps a plan for long.
"""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Final
from uuid import UUID

import asyncpg
import pytest
from service_jobs import queries
from service_jobs.context import Connection
from service_jobs.database import Sessions
from service_jobs.job import Status
from service_jobs.worker import claims, heartbeat, lanes
from tests.jobs.support.query_plans import (
    Node,
    copy_database,
    explain_plan,
    flatten_nodes,
    list_nodes_on,
    require_no_full_scan,
)

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


def list_lane_scans(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in list_nodes_on(nodes, "job_ready") if "Index" in node.kind]


@pytest.fixture(scope="module", params=["never looked at", "found empty", "full"])
def prepared_address(request: pytest.FixtureRequest, server: TestServer, template_name: str) -> Iterator[Address]:
    """A database for all plans: nothing in it is changed."""
    with copy_database(server, template_name, partial(_fill_database, request.param)) as address:
        yield address


async def _fill_database(state: str, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    if state == "full":
        await conn.execute("INSERT INTO tenants (tenant_id, slug, name) VALUES ($1, 'acme', 'Acme')", TENANT)
        await conn.execute(FILL, TENANT, MANY)
        for fill in (READY, LATER, LEASED):
            await conn.execute(fill)
        await conn.execute(SLOTS, TENANT)
    if state != "never looked at":
        await conn.execute("VACUUM ANALYZE jobs.job, jobs.job_ready, jobs.job_later, jobs.job_lease, jobs.job_slot")


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
        node for node in nodes if "Sort" in node.kind and list_nodes_on(list(flatten_nodes(node.raw)), "job_ready")
    ]
    assert sorted_jobs == [], "the index gives the order"


async def test_what_was_claimed_is_deleted_where_it_was_found(worker: Connection) -> None:
    nodes = await explain_plan(worker, claims.COMPLETE_AND_CLAIM)

    assert sorted(node.kind for node in list_nodes_on(nodes, "job_ready")) == ["Index Scan", "Tid Scan"]


async def test_completing_finds_lease_and_job_by_their_keys(worker: Connection) -> None:
    nodes = await explain_plan(worker, claims.COMPLETE_AND_CLAIM)

    assert {node.index for node in list_nodes_on(nodes, "job_lease")} == {"job_lease_pkey"}
    assert {node.index for node in list_nodes_on(nodes, "job")} == {"job_pkey"}
    for node in (*list_nodes_on(nodes, "job_lease"), *list_nodes_on(nodes, "job")):
        assert "tenant_id" in node.condition
        assert "job_id" in node.condition


async def test_a_claim_with_a_limit_reads_its_lane_and_its_slots_by_their_indexes(worker: Connection) -> None:
    nodes = await explain_plan(worker, claims.CLAIM_LIMITED)

    require_no_full_scan(nodes)
    [lane] = list_lane_scans(nodes)
    for column in ("tenant_id", "limit_key", "priority", "seq >"):
        assert column in lane.condition, lane
    assert sorted(node.kind for node in list_nodes_on(nodes, "job_ready")) == ["Index Scan", "Tid Scan"]
    assert {node.index for node in list_nodes_on(nodes, "job_slot")} == {"job_slot_pkey"}
    assert {node.index for node in list_nodes_on(nodes, "job")} == {"job_pkey"}


async def test_renewing_finds_leases_by_their_keys(worker: Connection) -> None:
    nodes = await explain_plan(worker, heartbeat.RENEW_LEASES)

    require_no_full_scan(nodes)
    assert {node.index for node in list_nodes_on(nodes, "job_lease")} == {"job_lease_pkey"}
    assert all("job_id" in node.condition for node in list_nodes_on(nodes, "job_lease"))


async def test_the_scout_goes_from_lane_to_lane_by_the_index(worker: Connection) -> None:
    nodes = await explain_plan(worker, lanes.SELECT_LANES)

    require_no_full_scan(nodes)
    scans = list_lane_scans(nodes)
    assert len(scans) == len(list_nodes_on(nodes, "job_ready")) == 2
    for scan in scans:
        assert scan.index == "job_ready_pkey"
        assert re.search(r"ROW\(.*tenant_id.*limit_key.*priority\) > ROW", scan.condition), scan
    assert not [node for node in nodes if "Sort" in node.kind]


async def test_due_jobs_are_found_by_their_time(worker: Connection) -> None:
    due = await explain_plan(worker, DUE)
    next_due = await explain_plan(worker, lanes.NEXT_DUE)

    for nodes in (due, next_due):
        require_no_full_scan(nodes)
        [scan] = list_nodes_on(nodes, "job_later")
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
        require_no_full_scan(list_nodes_on(nodes, "job"))
        assert "job_pkey" in {node.index for node in list_nodes_on(nodes, "job")}
