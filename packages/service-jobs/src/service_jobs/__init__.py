"""A job engine on PostgreSQL, and in memory. A library of its own: it imports nothing else of this product.

    handlers = Handlers()

    @handlers.job("greet")
    async def greet(ctx: Context, name: str) -> str:
        return f"hello {name}"

    async with Jobs.connect(url, handlers) as jobs:          # submit, look, cancel
        await jobs.submit(greet, "world", tenant=tenant)
        await Worker(jobs).run()                             # in this process, or in any other with this database

The engine's tables are made by `install`, or by whatever runs the numbered SQL files in `migrations/`.
"""

from bpc.jobs.batches import Batch, BatchNotFound, BatchStatus, Item, SubmittedBatch
from bpc.jobs.changes import Cancelled, Cancelling
from bpc.jobs.context import Connection, Context, Limit
from bpc.jobs.cron import CatchUp
from bpc.jobs.errors import (
    HandlerNotFound,
    InvalidInput,
    JobCancelled,
    JobConflict,
    JobError,
    JobNotFound,
    JobsRefusal,
    JobTimedOut,
    LeaseLost,
    NoProcesses,
    QueueFull,
)
from bpc.jobs.handler import Handler, Handlers, Refused
from bpc.jobs.health import Health
from bpc.jobs.ids import BatchId
from bpc.jobs.install import install
from bpc.jobs.job import Job
from bpc.jobs.memory import MemoryEngine
from bpc.jobs.metrics import Metrics
from bpc.jobs.outcome import Retry, Status
from bpc.jobs.processes import Limited, LimitExceeded, Limits, Nowhere, Processes, listening, tell
from bpc.jobs.queues import JobQueue, Queue, RequestQueue
from bpc.jobs.schedules import ScheduleNotFound
from bpc.jobs.service import Defaults, Jobs
from bpc.jobs.sessions import Sessions
from bpc.jobs.steps import several_steps
from bpc.jobs.submitting import CRITICAL, HIGH, LOW, NORMAL
from bpc.jobs.worker import Options, Worker
from bpc.jobs.worker.chores import Chore

__all__ = [
    "CRITICAL",
    "HIGH",
    "LOW",
    "NORMAL",
    "Batch",
    "BatchId",
    "BatchNotFound",
    "BatchStatus",
    "Cancelled",
    "Cancelling",
    "CatchUp",
    "Chore",
    "Connection",
    "Context",
    "Defaults",
    "Handler",
    "HandlerNotFound",
    "Handlers",
    "Health",
    "InvalidInput",
    "Item",
    "Job",
    "JobCancelled",
    "JobConflict",
    "JobError",
    "JobNotFound",
    "JobQueue",
    "JobTimedOut",
    "Jobs",
    "JobsRefusal",
    "LeaseLost",
    "Limit",
    "LimitExceeded",
    "Limited",
    "Limits",
    "MemoryEngine",
    "Metrics",
    "NoProcesses",
    "Nowhere",
    "Options",
    "Processes",
    "Queue",
    "QueueFull",
    "Refused",
    "RequestQueue",
    "Retry",
    "ScheduleNotFound",
    "Sessions",
    "Status",
    "SubmittedBatch",
    "Worker",
    "install",
    "listening",
    "several_steps",
    "tell",
]
