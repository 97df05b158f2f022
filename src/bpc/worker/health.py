"""Whether a worker can do its work.

    database     a statement is answered
    claiming     it is not stopping, and the exchange with the database is under way
    heartbeat    the database has heard of it of late: the others do not take it for dead

Ready is who passes all three. No check takes longer than two seconds.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bpc.db.database import Database
from bpc.jobs import Worker
from bpc.jobs.health import is_heard_of
from bpc.logs import logger

CHECK_SECONDS: Final = 2.0
LONGEST_EXCHANGE: Final = 30.0  # seconds; a claim takes milliseconds

State = Literal["OK", "FAILED"]
log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What the checks said of one worker."""

    worker: str
    checks: Mapping[str, State]

    @property
    def is_ready(self) -> bool:
        return bool(self.checks) and all(state == "OK" for state in self.checks.values())


async def condition(worker: Worker, database: Database) -> Condition:
    """How this process' worker is."""
    answers, beats = await _heartbeat(worker, database)
    since = worker.exchanging_since
    claims = not worker.is_stopping and (since is None or time.monotonic() - since < LONGEST_EXCHANGE)
    checks = {"database": _state(answers), "claiming": _state(claims), "heartbeat": _state(beats)}
    return Condition(worker=worker.owner, checks=checks)


async def _heartbeat(worker: Worker, database: Database) -> tuple[bool, bool]:
    """Whether the database answers, and whether it has heard of the worker."""
    try:
        async with asyncio.timeout(CHECK_SECONDS), database.system() as conn:
            return True, await is_heard_of(conn, worker.owner)
    except Exception as error:  # noqa: BLE001 (whatever it is, the answer is that it is not ready)
        log.warning("not ready", check="database", reason=f"{type(error).__name__}: {error}"[:500])
        return False, False


def _state(holds: bool) -> State:
    return "OK" if holds else "FAILED"
