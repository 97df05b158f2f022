"""Workers: claiming, executing and ending jobs that live in PostgreSQL, and staying alive meanwhile."""

from bpc.jobs.worker.chores import Chore
from bpc.jobs.worker.executing import Observer
from bpc.jobs.worker.worker import Options, Worker

__all__ = ["Chore", "Observer", "Options", "Worker"]
