"""Whether retention removed only what it may: the cutoffs of its runs, at the database's time of each run.

Pure. Nobody's word is needed: a run is an event and an entry of the transparency log, with its time and its cutoffs. A
cutoff in the run's future, or younger than the floor, is a fault; so is a run that is not over yet.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from bpc.core.audit.events import ChainFault, EventStream
from bpc.core.errors import Invalid
from bpc.core.formats.timestamps import format_time, parse_time

# Exports can be made again at any time: only the future is closed to them.
WITHOUT_FLOOR: Final = frozenset({"passport_exports"})
CUTOFF_NAMES: Final = frozenset({"document_versions", "passport_versions", "passport_exports", "events"})
FUTURE_TOLERANCE: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPart:
    """One RetentionApplied event: where it stands in the chain of its tenant, when it was, and what it says."""

    stream: EventStream
    version: int
    at: datetime
    payload: Mapping[str, Any]

    def read_cutoffs(self) -> dict[str, datetime] | None:
        """The cutoffs by what they are of; None if they cannot be read."""
        cutoffs = self.payload.get("cutoffs")
        if not isinstance(cutoffs, Mapping) or not cutoffs or not set(cutoffs) <= CUTOFF_NAMES:
            return None
        try:
            return {name: parse_time(moment) for name, moment in cutoffs.items() if isinstance(moment, str)}
        except Invalid:
            return None


def find_cutoff_faults(parts: Iterable[RetentionPart], *, now: datetime, floor_days: int) -> Iterator[ChainFault]:
    """Everything wrong with the times of retention.

    Checks, for each event:
      1. it was not recorded in the future
      2. its cutoffs can be read
      3. each cutoff is in its past, and at least as old as the floor
    """
    for part in parts:
        if part.at > now + FUTURE_TOLERANCE:  # 1
            yield _make_fault(part, f"retention says that it ran at {format_time(part.at)}, which is in the future")
        cutoffs = part.read_cutoffs()
        if cutoffs is None:  # 2
            yield _make_fault(part, "retention says no cutoffs that can be read")
            continue
        for name, cutoff in sorted(cutoffs.items()):
            days = 0 if name in WITHOUT_FLOOR else floor_days
            if cutoff > part.at - timedelta(days=days):  # 3
                says = f"retention removed `{name}` from before {format_time(cutoff)} at {format_time(part.at)}"
                yield _make_fault(part, f"{says}, and everything is kept for {days:,} days")


def _make_fault(part: RetentionPart, says: str) -> ChainFault:
    return ChainFault(stream=part.stream, version=part.version, says=says)
