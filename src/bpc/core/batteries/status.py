"""The status of a battery, how it may change, and what it was at a time.

    original, re-used, repurposed, remanufactured ─► waste ─┬─► re-used, repurposed, remanufactured   (a new record)
                                                            └─► recycled                              (the end)

Pure. The five statuses are those of data point 67. Recycled is not a sixth: it is the end of the passport, and the
battery stays `waste` for ever. Another life begins with an operator who answers for a new record that is linked to this
one; this one takes the status of the new life and changes no more.

    BatteryState, ChangeKind ── find_step_fault ──► None, or why it cannot be
    changes until a time ── compute_state ──► BatteryState
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final, Literal

BatteryStatus = Literal["original", "re-used", "repurposed", "remanufactured", "waste"]
OtherLife = Literal["re-used", "repurposed", "remanufactured"]
ChangeKind = Literal["PLACED", "REPAIRED", "WASTE", "RECYCLED", "SUCCEEDED", "BEGUN"]

# What must be said of a change, beside the day of it. `performed_by` identifies an operator.
REQUIRED_STATEMENTS: Final[Mapping[ChangeKind, tuple[str, ...]]] = {
    "PLACED": (),
    "REPAIRED": ("reason", "performed_by"),
    "WASTE": ("reason", "performed_by"),
    "RECYCLED": ("performed_by", "report"),
    "SUCCEEDED": ("successor", "performed_by"),
    "BEGUN": ("predecessor", "performed_by"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryState:
    """Where a battery is in its life."""

    status: BatteryStatus = "original"
    placed_on: date | None = None
    ceased_at: datetime | None = None
    successor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryChange:
    """One change of a battery, as it was recorded: what, on which day, and what was said of it."""

    kind: ChangeKind
    status: BatteryStatus
    effective_on: date
    said: Mapping[str, str]
    changed_at: datetime


def find_step_fault(state: BatteryState, kind: ChangeKind) -> str | None:
    """Why this change cannot be; None if it can."""
    if state.ceased_at is not None:
        return "is recycled, and its passport has ceased"
    if state.successor is not None:
        return f"lives on as {state.successor}, whose operator answers for it"
    if kind in {"RECYCLED", "SUCCEEDED"}:
        return None if state.status == "waste" else f"is {state.status}; it must be waste first"
    if state.status == "waste":
        return "is waste; only another life or recycling follows"
    if kind == "PLACED" and state.placed_on is not None:
        return f"was placed on the market on {state.placed_on.isoformat()}"
    return None


def list_missing_statements(kind: ChangeKind, said: Mapping[str, str]) -> list[str]:
    """What must be said of such a change and was not."""
    return [name for name in REQUIRED_STATEMENTS[kind] if not said.get(name)]


def apply_change(state: BatteryState, change: BatteryChange) -> BatteryState:
    """The state after a change."""
    after = replace(state, status=change.status)
    match change.kind:
        case "PLACED":
            return replace(after, placed_on=change.effective_on)
        case "RECYCLED":
            return replace(after, ceased_at=change.changed_at)
        case "SUCCEEDED":
            return replace(after, successor=change.said["successor"])
        case _:
            return after


def compute_state(registered_placed_on: date | None, changes: Iterable[BatteryChange], at: datetime) -> BatteryState:
    """The state that was on record at a time; changes come in their order."""
    state = BatteryState(placed_on=registered_placed_on)
    for change in changes:
        if change.changed_at <= at:
            state = apply_change(state, change)
    return state
