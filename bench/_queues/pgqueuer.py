"""pgqueuer: asyncpg, batches of a hundred. It deletes finished jobs, and fences nothing."""

from datetime import timedelta

import asyncpg
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries
from pgqueuer.models import Job

from bench._queues import CONCURRENCY, COROUTINES, QueueDatabase, StartBoard

PACKAGE = "pgqueuer"


class Queue:
    has_bulk = True
    unfinished = "SELECT EXISTS (SELECT FROM pgqueuer)"

    def __init__(self, place: QueueDatabase) -> None:
        self._place = place

    async def install(self) -> None:
        conn = await asyncpg.connect(self._place.url)
        await Queries(AsyncpgDriver(conn)).install()
        await conn.close()

    async def connect(self) -> None:
        pool = await asyncpg.create_pool(self._place.url, min_size=COROUTINES, max_size=COROUTINES)
        self._queries = Queries(AsyncpgPoolDriver(pool))

    async def submit(self, job: int) -> None:
        await self._queries.enqueue("nothing", str(job).encode())

    async def bulk(self, jobs: range) -> None:
        payloads = [str(job).encode() for job in jobs]
        await self._queries.enqueue(["nothing"] * len(jobs), payloads, [0] * len(jobs))

    async def work(self, board: StartBoard) -> None:
        app = PgQueuer(AsyncpgDriver(await asyncpg.connect(self._place.url)))

        async def nothing(job: Job) -> None:
            board.record_start(int(job.payload or b""))

        app.entrypoint("nothing")(nothing)
        await app.run(batch_size=CONCURRENCY, dequeue_timeout=timedelta(seconds=5))
