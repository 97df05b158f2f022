"""chancy: psycopg, its asyncio executor, a hundred jobs at a time, asking again as soon as one has ended."""

import logging

from chancy import Chancy, Job, Worker
from chancy import Queue as Lane

from bench._queues import CONCURRENCY, COROUTINES, QueueDatabase, StartBoard

PACKAGE = "chancy"

_boards: list[StartBoard] = []


async def nothing(*, job: int) -> None:
    _boards[0].record_start(job)


class Queue:
    has_bulk = True
    unfinished = "SELECT EXISTS (SELECT FROM chancy_jobs WHERE state <> 'succeeded')"

    def __init__(self, place: QueueDatabase) -> None:
        self._app = Chancy(
            place.url,
            min_connection_pool_size=COROUTINES,
            max_connection_pool_size=COROUTINES,
            log=logging.getLogger("chancy"),  # its own writes a line for every job
        )

    async def install(self) -> None:
        await self._app.migrate()
        lane = Lane("default", concurrency=CONCURRENCY, executor=Chancy.Executor.Async, eager_polling=True)
        await self._app.declare(lane)

    async def connect(self) -> None:
        await self._app.pool.open(wait=True)

    async def submit(self, job: int) -> None:
        await self._app.push(_job(job))

    async def bulk(self, jobs: range) -> None:
        async for _ in self._app.push_many([_job(job) for job in jobs]):
            pass

    async def work(self, board: StartBoard) -> None:
        _boards.append(board)
        async with self._app, Worker(self._app) as worker:
            await worker.wait_for_shutdown()


def _job(number: int) -> Job:
    return Job.from_func(nothing, queue="default", kwargs={"job": number})
