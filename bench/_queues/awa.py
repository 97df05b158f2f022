"""awa-pg: a Rust core that calls Python handlers, a hundred at a time."""

import asyncio
from dataclasses import dataclass

from awa import AsyncClient, Job

from bench._queues import CONCURRENCY, COROUTINES, QueueDatabase, StartBoard

PACKAGE = "awa-pg"


@dataclass
class Nothing:
    job: int


class Queue:
    has_bulk = True
    unfinished = "SELECT EXISTS (SELECT FROM awa.jobs WHERE state <> 'completed')"

    def __init__(self, place: QueueDatabase) -> None:
        self._client = AsyncClient(place.url_with_host, max_connections=COROUTINES)

    async def install(self) -> None:
        await self._client.migrate()
        await self._client.install_queue_storage()

    async def connect(self) -> None:
        """The client connects when it is used."""

    async def submit(self, job: int) -> None:
        await self._client.insert(Nothing(job=job))

    async def bulk(self, jobs: range) -> None:
        await self._client.enqueue_many_copy([Nothing(job=job) for job in jobs])

    async def work(self, board: StartBoard) -> None:
        async def nothing(job: "Job[Nothing]") -> None:
            board.record_start(job.args.job)

        self._client.task(Nothing)(nothing)
        await self._client.start([("default", CONCURRENCY)])
        await asyncio.Event().wait()
