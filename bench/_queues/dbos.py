"""dbos: durable workflows on a queue, a hundred at a time. It polls: here every 50 ms, by itself every second.

It has no way to submit many at once.
"""

import asyncio

from dbos import DBOS, DBOSClient, DBOSConfig, run_dbos_database_migrations

from bench._queues import CONCURRENCY, COROUTINES, QueueDatabase, StartBoard, submit_one_by_one

PACKAGE = "dbos"
POLL_SECONDS = 0.05

_boards: list[StartBoard] = []


async def nothing(job: int) -> None:
    _boards[0].record_start(job)


DBOS.workflow(name="nothing")(nothing)


class Queue:
    has_bulk = False
    unfinished = "SELECT EXISTS (SELECT FROM dbos.workflow_status WHERE status <> 'SUCCESS')"

    def __init__(self, place: QueueDatabase) -> None:
        self._url = place.url.replace("postgresql:", "postgresql+psycopg:")

    async def install(self) -> None:
        await asyncio.to_thread(run_dbos_database_migrations, self._url)
        self._client = DBOSClient(system_database_url=self._url)
        await asyncio.to_thread(
            self._client.register_queue,
            "default",
            worker_concurrency=CONCURRENCY,
            polling_interval_sec=POLL_SECONDS,
        )

    async def connect(self) -> None:
        """`install` has made the client."""

    async def submit(self, job: int) -> None:
        await self._client.enqueue_async({"queue_name": "default", "workflow_name": "nothing"}, job)

    async def bulk(self, jobs: range) -> None:
        await submit_one_by_one(self, jobs)

    async def work(self, board: StartBoard) -> None:
        _boards.append(board)
        settings: DBOSConfig = {
            "name": "bench",
            "system_database_url": self._url,
            "sys_db_pool_size": COROUTINES * 2,
            "log_level": "WARNING",
            "application_version": "1",
        }
        DBOS(config=settings)
        DBOS.launch()
        await asyncio.Event().wait()
