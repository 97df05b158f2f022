"""saq on its Postgres queue: psycopg, a hundred jobs at a time. It has no way to submit many at once."""

from typing import Any

from psycopg_pool import AsyncConnectionPool
from saq import Worker
from saq.queue.postgres import PostgresQueue

from bench._queues import CONCURRENCY, COROUTINES, QueueDatabase, StartBoard, submit_one_by_one

PACKAGE = "saq"


class Queue:
    has_bulk = False
    unfinished = "SELECT EXISTS (SELECT FROM saq_jobs WHERE status NOT IN ('complete', 'swept'))"

    def __init__(self, place: QueueDatabase) -> None:
        self._place = place

    async def install(self) -> None:
        # As many connections as coroutines submit, and one that listens.
        pool = AsyncConnectionPool(self._place.url, min_size=COROUTINES + 1, max_size=COROUTINES + 1, open=False)
        self._queue = PostgresQueue(pool=pool, manage_pool_lifecycle=True)
        await self._queue.connect()  # which creates the tables, if they are not there

    async def connect(self) -> None:
        """`install` has done it."""

    async def submit(self, job: int) -> None:
        await self._queue.enqueue("nothing", number=job)

    async def bulk(self, jobs: range) -> None:
        await submit_one_by_one(self, jobs)

    async def work(self, board: StartBoard) -> None:
        async def nothing(_: Any, *, number: int) -> None:
            board.record_start(number)

        await self.install()
        await Worker(self._queue, [("nothing", nothing)], concurrency=CONCURRENCY).start()
