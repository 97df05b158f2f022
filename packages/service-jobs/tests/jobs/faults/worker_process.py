"""A worker in a process of its own, to be killed: `python -m tests.jobs.faults.worker_process <config as JSON>`."""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Any

import asyncpg
import orjson

from bpc.db.connection import connect
from bpc.db.roles import APP, SYSTEM
from bpc.jobs.service import Jobs
from bpc.jobs.sessions import Sessions
from bpc.jobs.worker import Options, Worker
from tests.jobs.faults.recorder import Recorder
from tests.jobs.faults.work import known_handlers


async def work(config: dict[str, Any]) -> None:
    """Work until SIGTERM."""

    async def connected(*_: object, **named: Any) -> "asyncpg.Connection[asyncpg.Record]":
        return await connect(**config["address"] | named)  # the driver's pool says by position that it knows no address

    sessions = Sessions(connected, size=10, role=APP, worker_role=SYSTEM)
    await sessions.open()
    options = Options(**config["options"])
    worker = Worker(Jobs(known_handlers(), sessions), options, observer=Recorder(Path(config["folder"])))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    try:
        await worker.run()
    finally:
        await sessions.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(threadName)s %(name)s %(message)s")
    asyncio.run(work(orjson.loads(sys.argv[1])))
