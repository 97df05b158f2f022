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

from bpc import fresh
from bpc.core.errors import DatabaseUnavailable
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, TenantId
from bpc.db import embedded, events, tenants
from bpc.db.address import Address
from bpc.db.connection import connected
from bpc.db.database import Database, open_database
from bpc.db.embedded.layout import running_postmaster
from bpc.db.embedded.prepare import prepare
from bpc.db.migrate import migrate, our_migrations
from tests.measuring import Measured, effort

PROCESSES = 4
SPAWN = multiprocessing.get_context("spawn")


def appends_in_a_process(address: Address, stream: Stream, coroutines: int, each: int) -> None:
    asyncio.run(_appends(address, stream, coroutines, each))


async def _appends(address: Address, stream: Stream, coroutines: int, each: int) -> None:
    database = await open_database(address, pool_size=10)

    async def one(number: int) -> None:
        for turn in range(each):
            async with database.tenant(stream.tenant_id) as conn:
                said = Act(None, fresh.now()).says("RACED", {"writer": f"{os.getpid()}-{number}", "turn": turn})
                await events.append(conn, stream, said)

    await asyncio.gather(*(one(number) for number in range(coroutines)))
    await database.close()


@pytest.mark.external
async def test_many_writers_of_one_aggregate_make_one_gapless_chain(
    database: Database, tenant: TenantId, measured: Measured
) -> None:
    coroutines, each = effort(test=(5, 8), shown=(50, 50), campaign=(50, 200))
    stream = Stream(tenant, "Document", AggregateId(fresh.new_id()))
    started = time.monotonic()

    with ProcessPoolExecutor(PROCESSES, mp_context=SPAWN) as processes:
        loop, work = asyncio.get_running_loop(), (database.address, stream, coroutines, each)
        shares = [loop.run_in_executor(processes, appends_in_a_process, *work) for _ in range(PROCESSES)]
        await asyncio.gather(*shares)

    seconds = time.monotonic() - started
    async with database.tenant(tenant) as conn:
        verified = await events.verify_chain(conn, stream)
        version = await conn.fetchval("SELECT max(aggregate_version) FROM events WHERE aggregate_id = $1", stream[2])
    total = PROCESSES * coroutines * each
    assert (verified.events, verified.faults, version) == (total, (), total)
    measured(
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
    with embedded.use(folder) as server:
        database = await open_database(server.address("bpc"), pool_size=5, revive=server.ensure)
        done = 0

        async def writer() -> None:
            nonlocal done
            stream = Stream(tenant, "Document", AggregateId(fresh.new_id()))
            while done < stop_at:
                try:
                    async with database.tenant(tenant) as conn:
                        event = await events.append(conn, stream, Act(None, fresh.now()).says("KEPT", {"done": done}))
                except DatabaseUnavailable:
                    await asyncio.sleep(0.02)
                    continue
                acknowledged.put(event.event_id)
                done += 1

        await asyncio.gather(*(writer() for _ in range(5)))
        await database.close()


async def test_kill_9_of_postgres_loses_no_acknowledged_event(data_dir: Path, measured: Measured) -> None:
    appends, kills = effort(test=(300, 2), shown=(1000, 5), campaign=(20_000, 100))
    server = embedded.use(data_dir)
    await prepare(server, "bpc")
    async with connected(server.address("bpc")) as conn:
        await migrate(conn, our_migrations())
    database = await open_database(server.address("bpc"), pool_size=2, revive=server.ensure)
    tenant = await tenants.create(database, slug="acme", name="Acme", act=Act(None, fresh.now()))
    acknowledged: multiprocessing.Queue[UUID] = SPAWN.Queue()
    writer = SPAWN.Process(target=keep_appending, args=(data_dir, tenant, appends, acknowledged))
    writer.start()

    kept: list[UUID] = []
    slowest = 0.0
    for kill in range(1, kills + 1):
        while len(kept) < appends * kill // (kills + 1):
            kept.append(await asyncio.to_thread(acknowledged.get, timeout=60))
        while (found := running_postmaster(server.layout.known_cluster())) is None:
            await asyncio.sleep(0.01)  # still coming back from the kill before
        os.kill(found.pid, signal.SIGKILL)
        killed = time.monotonic()
        kept.append(await asyncio.to_thread(acknowledged.get, timeout=60))
        while not acknowledged.empty():
            kept.append(acknowledged.get())
        kept.append(await asyncio.to_thread(acknowledged.get, timeout=60))  # certainly after the restart
        slowest = max(slowest, time.monotonic() - killed)
    while len(kept) < appends:
        kept.append(await asyncio.to_thread(acknowledged.get, timeout=60))
    await asyncio.to_thread(writer.join, 60)
    while not acknowledged.empty():
        kept.append(acknowledged.get())

    await database.close()
    database = await open_database(server.address("bpc"), pool_size=2, revive=server.ensure)
    async with database.tenant(tenant) as conn:
        there = {row["event_id"] for row in await conn.fetch("SELECT event_id FROM events")}
        verified = await events.verify_tenant(conn, tenant)
    await database.close()
    await asyncio.to_thread(server.release_and_wait)

    assert set(kept) <= there
    assert verified.faults == ()
    measured(
        "kill-9-of-postgres",
        appends=len(kept),
        kills=kills,
        acknowledged_and_lost=len(set(kept) - there),
        slowest_first_append_after_kill_seconds=round(slowest, 2),
    )
