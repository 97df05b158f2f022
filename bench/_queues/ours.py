"""service_jobs as the product uses it: its roles, row-level security, idempotency keys, one tenant, results kept."""

from functools import partial
from uuid import UUID

from service_jobs.context import Context
from service_jobs.database import Sessions
from service_jobs.handler import Handlers
from service_jobs.service import Jobs
from service_jobs.worker import Worker, WorkerOptions

from bench._queues import CONCURRENCY, COROUTINES, QueueDatabase, StartBoard
from bpc.core.audit.events import Act
from bpc.runtime import clock
from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.cluster import LOGIN, SOCKET_PORT, SUPERUSER
from bpc.storage.access import tenants_and_actors
from bpc.storage.connection import APP_ROLE, SYSTEM_ROLE, connect, open_connection
from bpc.storage.database import open_database
from bpc.storage.migrate import list_migrations, migrate

_boards: list[StartBoard] = []
_handlers = Handlers()


@_handlers.job("nothing")
async def nothing(_: Context, job: int) -> None:
    _boards[0].record_start(job)


class Queue:
    has_bulk = True
    unfinished = "SELECT EXISTS (SELECT FROM jobs.job WHERE status <> 'SUCCEEDED')"

    def __init__(self, place: QueueDatabase) -> None:
        self._superuser = Address(host=place.sockets, port=SOCKET_PORT, user=SUPERUSER, database=place.database)
        self._login = Address(host=place.sockets, port=SOCKET_PORT, user=LOGIN, database=place.database)
        address = self._login.connect_arguments()
        self._sessions = Sessions(partial(connect, **address), size=COROUTINES, role=APP_ROLE, worker_role=SYSTEM_ROLE)
        self._jobs = Jobs(_handlers, self._sessions)

    async def install(self) -> None:
        async with open_connection(self._superuser) as conn:
            await migrate(conn, list_migrations())
        database = await open_database(self._login, pool_size=1)
        self._tenant: UUID = await tenants_and_actors.create_tenant(
            database, slug="bench", name="Bench", act=Act(None, clock.now())
        )
        await database.close()

    async def connect(self) -> None:
        await self._sessions.open()

    async def submit(self, job: int) -> None:
        await self._jobs.submit(nothing, job, tenant=self._tenant, key=f"key-{job}")

    async def bulk(self, jobs: range) -> None:
        await self._jobs.submit_many(nothing, jobs, tenant=self._tenant, keys=[f"key-{job}" for job in jobs])

    async def work(self, board: StartBoard) -> None:
        _boards.append(board)
        await self._sessions.open()
        await Worker(self._jobs, WorkerOptions(concurrency=CONCURRENCY)).run()
