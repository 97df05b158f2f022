"""A worker that delivers webhooks, in a process of its own: for tests that kill it.

python -m tests.tasks.sender_process <database URL>
"""

import asyncio
import sys

from service_jobs import Handlers, Jobs, Worker, WorkerOptions

from bpc.outbound import Guard
from bpc.runtime.postgres.address import Address
from bpc.runtime.telemetry import JobMetrics
from bpc.storage.database import open_database
from bpc.storage.jobs import open_job_sessions
from bpc.tasks.deliver_webhooks import declare_deliver_job


async def main(url: str) -> None:
    database = await open_database(Address.parse(url), pool_size=2)
    handlers = Handlers()
    declare_deliver_job(
        handlers,
        guard=Guard(allow=("127.0.0.1",), https_only=False),
        open_transaction=database.tenant,
        metrics=JobMetrics(),
    )
    async with open_job_sessions(database) as sessions:
        await Worker(Jobs(handlers, sessions), WorkerOptions(lease=1.0, renew=0.4)).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
