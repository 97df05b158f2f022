"""Specification of the retention jobs: a nightly sweep, parts in bounded transactions, and interruptions."""

import asyncio
import os
import sys
import time
from dataclasses import fields
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from service_jobs import Handlers, Jobs, schedules
from service_jobs.job import Ending, Status
from service_jobs.testing import run_inline
from tests.jobs.support.run_workers import run_worker, wait_until_status

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.access import tenants_and_actors
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.audit import events
from bpc.storage.database import Database, open_database
from bpc.storage.jobs import SweepOrder, open_job_sessions
from bpc.tasks.retention import (
    PartSize,
    RetentionOrder,
    declare_retention_jobs,
    make_nightly_schedule,
    remove_expired,
)
from tests.measurements import RecordMeasurement, allow_seconds, choose_effort
from tests.tasks.retention_fixtures import (
    NOW,
    SETTINGS,
    YEARS_AGO,
    Superuser,
    append_chain,
    find_faults,
    list_versions,
    make_order,
    read_applied_events,
    run_all_parts,
    run_part,
)


async def test_the_nightly_sweep_submits_one_job_per_tenant(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    jobs = declare_retention_jobs(Handlers(), settings=SETTINGS)
    async with database.system() as conn:
        inactive = await tenants_and_actors.get_tenant_by_slug(conn, "rival")
    await tenants_and_actors.set_tenant_active(database, inactive, active=False, act=act)

    async with database.tenant(SYSTEM_TENANT) as conn:
        ran = await run_inline(jobs.sweep, SweepOrder(), tenant=SYSTEM_TENANT, conn=conn)
        assert await conn.fetchval("SELECT current_user::text || current_setting('app.tenant_id')") == (
            f"bpc_app{SYSTEM_TENANT}"
        )
        await schedules.put_schedule(conn, SYSTEM_TENANT, make_nightly_schedule())
        [planned] = await schedules.list_schedules(conn, SYSTEM_TENANT)

    assert ran.ending is Ending.SUCCEEDED
    for each in (tenant, other_tenant, SYSTEM_TENANT):
        async with database.tenant(each) as conn:
            assert await conn.fetchval("SELECT count(*) FROM jobs.job WHERE type = 'RETENTION'") == 1
    assert (planned.schedule.cron, planned.schedule.type) == ("17 3 * * *", "RETENTION_SWEEP")


async def test_a_worker_runs_all_parts(database: Database, tenant: TenantId) -> None:
    handlers = Handlers()
    work = declare_retention_jobs(handlers, settings=SETTINGS, size=PartSize(events=4))
    # Each event has a time of its own: events of one time are walked in any order, and a part that finds only second
    # events of chains removes nothing and records nothing.
    for number in range(5):
        await append_chain(database, tenant, *[YEARS_AGO + timedelta(seconds=2 * number + at) for at in (0, 1)])

    async with open_job_sessions(database) as sessions:
        jobs = Jobs(handlers, sessions)
        async with run_worker(jobs):
            sweep = await jobs.submit(work.sweep, SweepOrder(), tenant=SYSTEM_TENANT)
            await wait_until_status(jobs, SYSTEM_TENANT, sweep, Status.SUCCEEDED)
            await _wait_until(database, "SELECT count(*) = 0 FROM jobs.job WHERE status <> 'SUCCEEDED'", tenant)

    payloads = await read_applied_events(database, tenant)
    assert [one["part"] for one in payloads] == [1, 2, 3]
    assert len({one["run_id"] for one in payloads}) == 1
    assert await find_faults(database, tenant) == []


async def test_nothing_is_removed_while_retention_is_paused(database: Database, tenant: TenantId) -> None:
    jobs = declare_retention_jobs(Handlers(), settings=SETTINGS)
    stream = await append_chain(database, tenant, YEARS_AGO)

    for is_paused, left in ((True, [1]), (False, [])):
        async with database.system(SYSTEM_TENANT) as conn:
            await schedules.put_schedule(conn, SYSTEM_TENANT, make_nightly_schedule())
            await (schedules.pause_schedule if is_paused else schedules.resume_schedule)(
                conn, SYSTEM_TENANT, "retention"
            )
        async with database.tenant(tenant) as conn:
            ran = await run_inline(jobs.part, make_order(), tenant=tenant, conn=conn)
        assert (ran.ending, ran.follow_ups) == (Ending.SUCCEEDED, [])
        assert await list_versions(database, stream) == left


async def test_two_concurrent_runs_remove_everything_once(database: Database, tenant: TenantId) -> None:
    for _ in range(10):
        await append_chain(database, tenant, YEARS_AGO, YEARS_AGO)

    totals = await asyncio.gather(*[run_all_parts(database, tenant, size=PartSize(events=3)) for _ in range(3)])

    assert sum(counts.events for counts in totals) == 20
    assert await find_faults(database, tenant) == []


async def test_events_can_be_appended_while_others_are_removed(database: Database, tenant: TenantId) -> None:
    streams = [await append_chain(database, tenant, YEARS_AGO, YEARS_AGO) for _ in range(10)]

    async def go_on() -> None:
        for stream in streams * 3:
            async with database.tenant(tenant) as conn:
                await events.append(conn, stream, Act(None, NOW).new_event("DOCUMENT_CHANGED", {}))

    await asyncio.gather(run_all_parts(database, tenant, size=PartSize(events=2)), go_on())

    assert await find_faults(database, tenant) == []
    for stream in streams:
        assert await list_versions(database, stream) == [3, 4, 5]


async def test_an_interrupted_part_has_no_effect_and_runs_again(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    for number in range(6):
        await append_chain(database, tenant, *[YEARS_AGO + timedelta(seconds=number)] * 2)
    order = make_order()
    first = await run_part(database, tenant, order, PartSize(events=4))
    assert first.next_order is not None

    with pytest.raises(Exception):  # noqa: B017, PT011 (whatever the driver says of a connection that is gone)
        async with database.system(tenant) as conn:
            await remove_expired(conn, tenant, first.next_order, act=Act(None, NOW), size=PartSize(events=4))
            await superuser.execute("SELECT pg_terminate_backend($1)", await conn.fetchval("SELECT pg_backend_pid()"))
            await conn.execute("SELECT 1")

    assert await find_faults(database, tenant) == []
    assert len(await read_applied_events(database, tenant)) == 1
    rest = await run_all_parts(database, tenant, first.next_order, size=PartSize(events=4))
    assert first.counts.events + rest.events == 12
    assert await find_faults(database, tenant) == []


async def run_in_process(address: dict[str, Any], tenant: str) -> None:
    """A run in tiny parts, as a process of its own."""
    database = await open_database(Address(**address), pool_size=1)
    await run_all_parts(database, TenantId(UUID(tenant)), size=PartSize(events=2))


async def test_a_killed_run_has_recorded_its_finished_parts_and_the_next_run_continues(
    database: Database, tenant: TenantId
) -> None:
    count = 200
    chains = [
        await append_chain(database, tenant, *[YEARS_AGO + timedelta(seconds=number)] * 2) for number in range(count)
    ]
    address_values = {field.name: getattr(database.address, field.name) for field in fields(database.address)}
    call = f"run_in_process({address_values!r}, '{tenant}')"
    program = f"import asyncio; from {__name__} import run_in_process; asyncio.run({call})"
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        async with asyncio.timeout(60):
            while len(await read_applied_events(database, tenant)) < 3:
                await asyncio.sleep(0.005)
    finally:
        running.kill()
        await running.wait()

    done = sum(one["counts"]["events"] for one in await read_applied_events(database, tenant))
    left = [stream for stream in chains if await list_versions(database, stream)]
    assert 0 < done < 2 * count
    assert len(left) == count - done // 2
    assert await find_faults(database, tenant) == []
    assert (await run_all_parts(database, tenant)).events == 2 * count - done
    assert await find_faults(database, tenant) == []


async def test_a_long_chain_and_many_short_ones_are_removed_in_bounded_transactions(
    database: Database, superuser: Superuser, tenant: TenantId, record_measurement: RecordMeasurement
) -> None:
    count = choose_effort(test=2_000, shown=20_000, campaign=200_000)
    await _fill_events(superuser, tenant, count)

    began, longest, removed = time.monotonic(), 0.0, 0
    following: RetentionOrder | None = make_order()
    while following is not None:
        started = time.monotonic()
        done = await run_part(database, tenant, following)
        longest, removed = max(longest, time.monotonic() - started), removed + done.counts.events
        following = done.next_order
    seconds = time.monotonic() - began

    assert removed == count
    assert longest < allow_seconds(5.0)
    record_measurement(
        "retention",
        events=count,
        seconds=round(seconds, 2),
        events_per_second=round(count / seconds),
        longest_transaction_seconds=round(longest, 2),
    )


async def _fill_events(superuser: Superuser, tenant: TenantId, count: int) -> None:
    """Half of the events in one chain, the others in chains of four; hashes of no meaning."""
    await superuser.execute(
        """
        INSERT INTO events (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type,
                            occurred_at, payload, payload_canonical, payload_hash, prev_event_hash, event_hash)
        SELECT $1, gen_random_uuid(), 'Document', md5((CASE WHEN n <= $2 / 2 THEN 0 ELSE (n - 1) / 4 END)::text)::uuid,
               CASE WHEN n <= $2 / 2 THEN n ELSE (n - 1) % 4 + 1 END, 'DOCUMENT_CHANGED',
               $3::timestamptz + n * interval '1 second', '{}', '{}', sha256('{}'), NULL, sha256(n::text::bytea)
          FROM generate_series(1, $2::bigint) AS n
        """,
        tenant,
        count,
        YEARS_AGO - timedelta(days=3650),
    )
    await superuser.execute("ANALYZE events")


async def _wait_until(database: Database, question: str, tenant: TenantId) -> None:
    async with asyncio.timeout(20):
        while True:
            async with database.tenant(tenant) as conn:
                if await conn.fetchval(question):
                    return
            await asyncio.sleep(0.02)
