"""Specification of the event store under pressure: many writers, and a server that dies."""

import asyncio
import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from bpc.core.audit.events import Act, EventStream
from bpc.core.errors import DatabaseUnavailable
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.runtime import clock, postgres
from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.cluster import find_running_postmaster
from bpc.storage.access import tenants_and_actors
from bpc.storage.audit import events
from bpc.storage.connection import open_connection
from bpc.storage.database import Database, open_database, prepare_embedded_server
from bpc.storage.migrate import list_migrations, migrate
from tests.measurements import RecordMeasurement, choose_effort

PROCESSES = 4
SPAWN = multiprocessing.get_context("spawn")


def append_in_process(address: Address, stream: EventStream, coroutines: int, per_coroutine: int) -> None:
    asyncio.run(_append_concurrently(address, stream, coroutines, per_coroutine))


async def _append_concurrently(address: Address, stream: EventStream, coroutines: int, per_coroutine: int) -> None:
    database = await open_database(address, pool_size=10)

    async def append_many(number: int) -> None:
        for turn in range(per_coroutine):
            async with database.tenant(stream.tenant_id) as conn:
                entry = Act(None, clock.now()).new_event("RACED", {"writer": f"{os.getpid()}-{number}", "turn": turn})
                await events.append(conn, stream, entry)

    await asyncio.gather(*(append_many(number) for number in range(coroutines)))
    await database.close()


@pytest.mark.external
async def test_many_writers_of_one_aggregate_make_one_gapless_chain(
    database: Database, tenant: TenantId, record_measurement: RecordMeasurement
) -> None:
    coroutines, per_coroutine = choose_effort(test=(5, 8), shown=(50, 50), campaign=(50, 200))
    stream = EventStream(tenant, "Document", AggregateId(clock.new_id()))
    started = time.monotonic()

    with ProcessPoolExecutor(PROCESSES, mp_context=SPAWN) as processes:
        loop, work = asyncio.get_running_loop(), (database.address, stream, coroutines, per_coroutine)
        shares = [loop.run_in_executor(processes, append_in_process, *work) for _ in range(PROCESSES)]
        await asyncio.gather(*shares)

    seconds = time.monotonic() - started
    async with database.tenant(tenant) as conn:
        verified = await events.verify_chain(conn, stream)
        version = await conn.fetchval("SELECT max(aggregate_version) FROM events WHERE aggregate_id = $1", stream[2])
    total = PROCESSES * coroutines * per_coroutine
    assert (verified.events, verified.faults, version) == (total, (), total)
    record_measurement(
        "event-contention",
        writers=PROCESSES * coroutines,
        processes=PROCESSES,
        appends=total,
        seconds=round(seconds, 2),
        appends_per_second=round(total / seconds),
    )


def keep_appending(folder: Path, tenant: TenantId, stop_at: int, acknowledged: "multiprocessing.Queue[UUID]") -> None:
    asyncio.run(_keep_appending(folder, tenant, stop_at, acknowledged))


async def _keep_appending(
    folder: Path, tenant: TenantId, stop_at: int, acknowledged: "multiprocessing.Queue[UUID]"
) -> None:
    with postgres.use_server(folder) as server:
        database = await open_database(server.address("bpc"), pool_size=5, restart_server=server.ensure_running)
        appended = 0

        async def writer() -> None:
            nonlocal appended
            stream = EventStream(tenant, "Document", AggregateId(clock.new_id()))
            while appended < stop_at:
                try:
                    async with database.tenant(tenant) as conn:
                        event = await events.append(
                            conn, stream, Act(None, clock.now()).new_event("KEPT", {"done": appended})
                        )
                except DatabaseUnavailable:
                    await asyncio.sleep(0.02)
                    continue
                acknowledged.put(event.event_id)
                appended += 1

        await asyncio.gather(*(writer() for _ in range(5)))
        await database.close()


async def test_kill_9_of_postgres_loses_no_acknowledged_event(
    data_dir: Path, record_measurement: RecordMeasurement
) -> None:
    appends, kills = choose_effort(test=(300, 2), shown=(1000, 5), campaign=(20_000, 100))
    server = postgres.use_server(data_dir)
    await prepare_embedded_server(server, "bpc")
    async with open_connection(server.address("bpc")) as conn:
        await migrate(conn, list_migrations())
    database = await open_database(server.address("bpc"), pool_size=2, restart_server=server.ensure_running)
    tenant = await tenants_and_actors.create_tenant(database, slug="acme", name="Acme", act=Act(None, clock.now()))
    acknowledged: multiprocessing.Queue[UUID] = SPAWN.Queue()
    writer = SPAWN.Process(target=keep_appending, args=(data_dir, tenant, appends, acknowledged))
    writer.start()

    acknowledged_ids: list[UUID] = []
    slowest = 0.0
    for kill in range(1, kills + 1):
        while len(acknowledged_ids) < appends * kill // (kills + 1):
            acknowledged_ids.append(await asyncio.to_thread(acknowledged.get, timeout=60))
        while (running := find_running_postmaster(server.layout.find_cluster_folder())) is None:
            await asyncio.sleep(0.01)  # still coming back from the kill before
        os.kill(running.pid, signal.SIGKILL)
        killed = time.monotonic()
        acknowledged_ids.append(await asyncio.to_thread(acknowledged.get, timeout=60))
        while not acknowledged.empty():
            acknowledged_ids.append(acknowledged.get())
        acknowledged_ids.append(await asyncio.to_thread(acknowledged.get, timeout=60))  # certainly after the restart
        slowest = max(slowest, time.monotonic() - killed)
    while len(acknowledged_ids) < appends:
        acknowledged_ids.append(await asyncio.to_thread(acknowledged.get, timeout=60))
    await asyncio.to_thread(writer.join, 60)
    while not acknowledged.empty():
        acknowledged_ids.append(acknowledged.get())

    await database.close()
    database = await open_database(server.address("bpc"), pool_size=2, restart_server=server.ensure_running)
    async with database.tenant(tenant) as conn:
        stored_ids = {row["event_id"] for row in await conn.fetch("SELECT event_id FROM events")}
        verified = await events.verify_tenant(conn, tenant)
    await database.close()
    await asyncio.to_thread(server.release_and_wait)

    assert set(acknowledged_ids) <= stored_ids
    assert verified.faults == ()
    record_measurement(
        "kill-9-of-postgres",
        appends=len(acknowledged_ids),
        kills=kills,
        acknowledged_and_lost=len(set(acknowledged_ids) - stored_ids),
        slowest_first_append_after_kill_seconds=round(slowest, 2),
    )
