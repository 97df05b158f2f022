"""bpc.jobs as the product uses it: its roles, row-level security, idempotency keys, one tenant, results kept."""

from functools import partial
from uuid import UUID

from bench._queues import CONCURRENCY, COROUTINES, Board, Place
from bpc import fresh
from bpc.core.events import Act
from bpc.db import tenants
from bpc.db.address import Address
from bpc.db.connection import connect, connected
from bpc.db.database import open_database
from bpc.db.embedded.cluster import LOGIN, SUPERUSER
from bpc.db.embedded.layout import PORT
from bpc.db.migrate import migrate, our_migrations
from bpc.db.roles import APP, SYSTEM
from bpc.jobs.context import Context
from bpc.jobs.handler import Handlers
from bpc.jobs.service import Jobs
from bpc.jobs.sessions import Sessions
from bpc.jobs.worker import Options, Worker

_boards: list[Board] = []
_handlers = Handlers()


@_handlers.job("nothing")
async def nothing(_: Context, job: int) -> None:
    _boards[0].started(job)


class Queue:
    has_bulk = True
    unfinished = "SELECT EXISTS (SELECT FROM jobs.job WHERE status <> 'SUCCEEDED')"

    def __init__(self, place: Place) -> None:
        self._superuser = Address(host=place.sockets, port=PORT, user=SUPERUSER, database=place.database)
        self._login = Address(host=place.sockets, port=PORT, user=LOGIN, database=place.database)
        address = self._login.connect_arguments()
        self._sessions = Sessions(partial(connect, **address), size=COROUTINES, role=APP, worker_role=SYSTEM)
        self._jobs = Jobs(_handlers, self._sessions)

    async def install(self) -> None:
        async with connected(self._superuser) as conn:
            await migrate(conn, our_migrations())
        database = await open_database(self._login, pool_size=1)
        self._tenant: UUID = await tenants.create(database, slug="bench", name="Bench", act=Act(None, fresh.now()))
        await database.close()

    async def connect(self) -> None:
        await self._sessions.open()

    async def submit(self, job: int) -> None:
        await self._jobs.submit(nothing, job, tenant=self._tenant, key=f"key-{job}")

    async def bulk(self, jobs: range) -> None:
        await self._jobs.submit_many(nothing, jobs, tenant=self._tenant, keys=[f"key-{job}" for job in jobs])

    async def work(self, board: Board) -> None:
        _boards.append(board)
        await self._sessions.open()
        await Worker(self._jobs, Options(concurrency=CONCURRENCY)).run()
