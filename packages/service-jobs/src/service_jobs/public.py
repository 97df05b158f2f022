"""Everything that `from service_jobs import …` gives."""

from service_jobs import job_control, queries, schedules
from service_jobs.batches import Batch, BatchItem, BatchNotFound, BatchStatus, SubmittedBatch
from service_jobs.child_process import listen_for_progress, report_progress
from service_jobs.context import Connection, Context
from service_jobs.cron import CatchUp
from service_jobs.database import EngineNotInstalled, Sessions, install, list_migrations, list_pending
from service_jobs.handler import Handler, Handlers, JobTypeSpec, Rejection
from service_jobs.job import (
    BatchId,
    HandlerNotFound,
    InvalidInput,
    Job,
    JobCancelled,
    JobConflict,
    JobError,
    JobNotFound,
    JobsRefusal,
    JobTimedOut,
    LeaseLost,
    ProcessesUnavailable,
    QueueFull,
    Retry,
    Status,
    Subject,
    new_id,
    new_ids,
)
from service_jobs.job_control import CancelledJob, CancelRequest
from service_jobs.job_spec import CRITICAL, HIGH, LOW, NORMAL, Defaults, JobColumns, Limit, SubmitOptions
from service_jobs.memory.engine import MemoryEngine
from service_jobs.processes import LimitedProcesses, LimitExceeded, ProcessLimits, ProcessPool, UnavailableProcesses
from service_jobs.queries import QueueHealth
from service_jobs.schedules import Schedule, ScheduleNotFound
from service_jobs.service import Jobs
from service_jobs.steps import register_steps
from service_jobs.submission import JobQueue, RequestQueue, SubmitQueue, submit_jobs
from service_jobs.telemetry import Metrics, get_traceparent
from service_jobs.worker import Chore, Worker, WorkerOptions

__all__ = [
    "CRITICAL",
    "HIGH",
    "LOW",
    "NORMAL",
    "Batch",
    "BatchId",
    "BatchItem",
    "BatchNotFound",
    "BatchStatus",
    "CancelRequest",
    "CancelledJob",
    "CatchUp",
    "Chore",
    "Connection",
    "Context",
    "Defaults",
    "EngineNotInstalled",
    "Handler",
    "HandlerNotFound",
    "Handlers",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobColumns",
    "JobConflict",
    "JobError",
    "JobNotFound",
    "JobQueue",
    "JobTimedOut",
    "JobTypeSpec",
    "Jobs",
    "JobsRefusal",
    "LeaseLost",
    "Limit",
    "LimitExceeded",
    "LimitedProcesses",
    "MemoryEngine",
    "Metrics",
    "ProcessLimits",
    "ProcessPool",
    "ProcessesUnavailable",
    "QueueFull",
    "QueueHealth",
    "Rejection",
    "RequestQueue",
    "Retry",
    "Schedule",
    "ScheduleNotFound",
    "Sessions",
    "Status",
    "Subject",
    "SubmitOptions",
    "SubmitQueue",
    "SubmittedBatch",
    "UnavailableProcesses",
    "Worker",
    "WorkerOptions",
    "get_traceparent",
    "install",
    "job_control",
    "list_migrations",
    "list_pending",
    "listen_for_progress",
    "new_id",
    "new_ids",
    "queries",
    "register_steps",
    "report_progress",
    "schedules",
    "submit_jobs",
]
