"""procrastinate: psycopg, a hundred jobs at a time."""

from procrastinate import App, PsycopgConnector

from bench._queues import CONCURRENCY, COROUTINES, QueueDatabase, StartBoard

PACKAGE = "procrastinate"

_boards: list[StartBoard] = []


async def nothing(job: int) -> None:
    _boards[0].record_start(job)


class Queue:
    has_bulk = True
    unfinished = "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status <> 'succeeded')"

    def __init__(self, place: QueueDatabase) -> None:
        # As many connections as coroutines submit, and one that listens.
        self._app = App(
            connector=PsycopgConnector(conninfo=place.url, min_size=COROUTINES + 1, max_size=COROUTINES + 1)
        )

        self._nothing = self._app.task(name="nothing")(nothing)

    async def install(self) -> None:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def connect(self) -> None:
        """`install` has opened the app."""

    async def submit(self, job: int) -> None:
        await self._nothing.defer_async(job=job)

    async def bulk(self, jobs: range) -> None:
        await self._nothing.batch_defer_async(*({"job": job} for job in jobs))

    async def work(self, board: StartBoard) -> None:
        _boards.append(board)
        async with self._app.open_async():
            await self._app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
