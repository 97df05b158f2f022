"""The recorder: one line for every start, finish and settlement, appended to a file per process.

A line is written by one system call before anything else happens, so whatever kills the process, what it had done by
then is on record. Times are of the machine's steady clock, which all its processes share.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from service_jobs.context import Lease
from service_jobs.job import Outcome, Status
from tests.jobs.faults.fault_handlers import die_if_at

STARTED, FINISHED, SETTLED = "started", "finished", "settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """What happened to one execution. `said` is the ending of a finish, or what the job became; None is refused."""

    event: str
    job_id: str
    type: str
    attempt: int
    owner: str
    at: float
    status: str | None = None


class ExecutionRecorder:
    """Watches a worker, writes down what it sees, and lets deadly jobs die at their point."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def observe_start(self, lease: Lease) -> None:
        self._write_event(STARTED, lease)
        die_if_at("claimed", lease)

    def observe_finish(self, lease: Lease, outcome: Outcome) -> None:
        self._write_event(FINISHED, lease, outcome.ending.value)
        die_if_at("returned", lease)

    def observe_settlement(self, lease: Lease, became: Status | None) -> None:
        die_if_at("committed", lease)
        self._write_event(SETTLED, lease, None if became is None else became.value)

    def _write_event(self, event: str, lease: Lease, status: str | None = None) -> None:
        line = RecordedEvent(
            event=event,
            job_id=str(lease.job_id),
            type=lease.type,
            attempt=lease.attempt,
            owner=lease.owner,
            at=time.monotonic(),
            status=status,
        )
        os.write(self._file, orjson.dumps(asdict(line)) + b"\n")


def read_events(folder: Path) -> list[RecordedEvent]:
    """All that was recorded, in the order of time."""
    return sorted(_iterate_events(folder), key=lambda line: line.at)


def _iterate_events(folder: Path) -> Iterator[RecordedEvent]:
    for file in folder.glob("*.jsonl"):
        for text in file.read_bytes().split(b"\n"):
            if text:
                yield RecordedEvent(**orjson.loads(text))
