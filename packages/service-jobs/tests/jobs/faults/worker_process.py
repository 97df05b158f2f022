"""A worker in a process of its own, to be killed: `python -m tests.jobs.faults.worker_process <config as JSON>`."""

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Any

import asyncpg
import orjson
from service_jobs.database import Sessions
from service_jobs.service import Jobs
from service_jobs.worker import Worker, WorkerOptions
from tests.jobs.faults.execution_recorder import ExecutionRecorder
from tests.jobs.faults.fault_handlers import register_handlers

from bpc.storage.connection import APP_ROLE, SYSTEM_ROLE, connect


async def run_worker(config: dict[str, Any]) -> None:
    """Work until SIGTERM."""

    async def open_connection(*_: object, **named: Any) -> "asyncpg.Connection[asyncpg.Record]":
        return await connect(**config["address"] | named)  # the driver's pool says by position that it knows no address

    sessions = Sessions(open_connection, size=10, role=APP_ROLE, worker_role=SYSTEM_ROLE)
    await sessions.open()
    options = WorkerOptions(**config["options"])
    worker = Worker(Jobs(register_handlers(), sessions), options, observer=ExecutionRecorder(Path(config["folder"])))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    try:
        await worker.run()
    finally:
        await sessions.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(threadName)s %(name)s %(message)s")
    asyncio.run(run_worker(orjson.loads(sys.argv[1])))
