"""A worker that delivers webhooks, in a process of its own: for tests that kill it.

python -m tests.errands.sender_process <database URL>
"""

import asyncio
import sys

from bpc.db.address import Address
from bpc.db.database import open_database
from bpc.db.jobs import sessions_of
from bpc.errands.deliver import Uncounted, deliver_job
from bpc.jobs import Handlers, Jobs, Options, Worker
from bpc.outbound import Guard


async def main(url: str) -> None:
    database = await open_database(Address.parse(url), pool_size=2)
    handlers = Handlers()
    deliver_job(
        handlers, guard=Guard(allow=("127.0.0.1",), https_only=False), opening=database.tenant, count=Uncounted()
    )
    async with sessions_of(database) as sessions:
        await Worker(Jobs(handlers, sessions), Options(lease=1.0, renew=0.4)).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
