"""oban: psycopg, a hundred jobs at a time."""

import asyncio
from typing import Any, ClassVar

from oban import Oban, worker
from oban.job import Job
from oban.schema import install

from bench._queues import CONCURRENCY, COROUTINES, QueueDatabase, StartBoard

PACKAGE = "oban"


class Nothing:
    board: ClassVar[StartBoard]

    async def process(self, job: Job) -> None:
        Nothing.board.record_start(job.args["job"])


NOTHING: Any = worker(queue="default")(Nothing)


class Queue:
    has_bulk = True
    unfinished = "SELECT EXISTS (SELECT FROM oban_jobs WHERE state <> 'completed')"

    def __init__(self, place: QueueDatabase) -> None:
        self._place = place

    async def install(self) -> None:
        pool = await Oban.create_pool(self._place.url)
        await install(pool)
        await pool.close()

    async def connect(self) -> None:
        self._oban = Oban(pool=await Oban.create_pool(self._place.url, min_size=COROUTINES, max_size=COROUTINES))

    async def submit(self, job: int) -> None:
        await self._oban.enqueue(NOTHING.new({"job": job}))

    async def bulk(self, jobs: range) -> None:
        await self._oban.enqueue_many(NOTHING.new({"job": job}) for job in jobs)

    async def work(self, board: StartBoard) -> None:
        Nothing.board = board
        pool = await Oban.create_pool(self._place.url, min_size=COROUTINES, max_size=COROUTINES)
        async with Oban(pool=pool, queues={"default": CONCURRENCY}):
            await asyncio.Event().wait()
