"""Postgres job queues behind one small interface, each measured in processes of its own.

    bench.jobs ──► python -m bench._queues.run measure <candidate> <what> …   one figure, as JSON
                        └──► python -m bench._queues.run work <candidate> …   one or two worker processes

A candidate is a module of this folder with a class `Queue`. It says how a job is submitted and how a worker runs; the
measuring itself is the same for all and is in `run`. Each is set up for speed as far as its documentation says how,
and none is allowed to lose acknowledged work: the server keeps its durable defaults.
"""

import asyncio
import time
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import quote

COROUTINES = 10
CONCURRENCY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDatabase:
    """A fresh database on the server of this run, reached by its socket as its superuser."""

    sockets: str
    database: str

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/{self.database}?host={quote(self.sockets, safe='')}"

    @property
    def url_with_host(self) -> str:
        """For drivers that want something where a host name stands."""
        return f"postgresql://postgres@{quote(self.sockets, safe='')}/{self.database}"


class StartBoard:
    """Where handlers note when they started: a cell per job, in a file that every process of a measurement maps."""

    def __init__(self, file: Path, jobs: int) -> None:
        with file.open("r+b") as opened:
            self._cells = memoryview(mmap(opened.fileno(), jobs * 8)).cast("q")
        self._jobs = jobs
        self._reached = 0

    @classmethod
    def create_blank(cls, file: Path, jobs: int) -> Self:
        file.write_bytes(bytes(jobs * 8))
        return cls(file, jobs)

    def record_start(self, job: int) -> None:
        """What a handler does: nothing else."""
        self._cells[job] = time.monotonic_ns()

    def get_start(self, job: int) -> int:
        """When `job` started, in nanoseconds of a clock all processes share; 0 if it has not."""
        return self._cells[job]

    def find_first_start(self) -> int:
        return min(self._cells)

    def have_all_started(self) -> bool:
        while self._reached < self._jobs and self._cells[self._reached]:
            self._reached += 1
        return self._reached == self._jobs


class Candidate(Protocol):
    """A queue. One object per process, in which either jobs are submitted or a worker runs."""

    has_bulk: bool
    """Whether many jobs can be submitted at once; otherwise `bulk` submits them one by one, and that is not timed."""

    unfinished: str
    """A query for whether any job has not been completed in the database."""

    def __init__(self, place: QueueDatabase) -> None: ...

    async def install(self) -> None:
        """Create the tables, in an empty database."""
        ...

    async def connect(self) -> None:
        """Be ready to submit from ten coroutines."""
        ...

    async def submit(self, job: int) -> None:
        """Submit one job in a transaction of its own; return when it is committed."""
        ...

    async def bulk(self, jobs: range) -> None:
        """Submit all of `jobs`, and return when they are committed."""
        ...

    async def work(self, board: StartBoard) -> None:
        """Run a worker whose handler does `board.started(job)`, until the process is killed."""
        ...


async def submit_one_by_one(queue: Candidate, jobs: range) -> None:
    """What `bulk` does where there is no such thing: ten coroutines submit singly."""
    waiting = iter(jobs)

    async def submit() -> None:
        for job in waiting:
            await queue.submit(job)

    await asyncio.gather(*(submit() for _ in range(COROUTINES)))
