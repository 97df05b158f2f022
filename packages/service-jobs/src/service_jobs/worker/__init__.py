"""Workers: claiming, executing and ending jobs that live in PostgreSQL, and staying alive meanwhile."""

from service_jobs.worker.executions import ExecutionObserver, WorkerOptions
from service_jobs.worker.maintenance import Chore
from service_jobs.worker.worker import Worker

__all__ = ["Chore", "ExecutionObserver", "Worker", "WorkerOptions"]
