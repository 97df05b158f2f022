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

from bpc.jobs.context import Held
from bpc.jobs.outcome import Outcome, Status
from tests.jobs.faults.work import die_if_at

STARTED, FINISHED, SETTLED = "started", "finished", "settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What happened to one execution. `said` is the ending of a finish, or what the job became; None is refused."""

    event: str
    job_id: str
    type: str
    attempt: int
    owner: str
    at: float
    said: str | None = None


class Recorder:
    """Watches a worker, writes down what it sees, and lets deadly jobs die at their point."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def started(self, held: Held) -> None:
        self._write(STARTED, held)
        die_if_at("claimed", held)

    def finished(self, held: Held, outcome: Outcome) -> None:
        self._write(FINISHED, held, outcome.ending.value)
        die_if_at("returned", held)

    def settled(self, held: Held, became: Status | None) -> None:
        die_if_at("committed", held)
        self._write(SETTLED, held, None if became is None else became.value)

    def _write(self, event: str, held: Held, said: str | None = None) -> None:
        line = Line(
            event=event,
            job_id=str(held.job_id),
            type=held.type,
            attempt=held.attempt,
            owner=held.owner,
            at=time.monotonic(),
            said=said,
        )
        os.write(self._file, orjson.dumps(asdict(line)) + b"\n")


def lines_of(folder: Path) -> list[Line]:
    """All that was recorded, in the order of time."""
    return sorted(_lines(folder), key=lambda line: line.at)


def _lines(folder: Path) -> Iterator[Line]:
    for file in folder.glob("*.jsonl"):
        for text in file.read_bytes().split(b"\n"):
            if text:
                yield Line(**orjson.loads(text))
