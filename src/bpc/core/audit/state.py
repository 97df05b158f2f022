"""State that follows from events: which rows the events of an aggregate give, compared with the rows there are.

Pure. Each aggregate has a fold (bpc.core.audit.folds), which applies its events one after the other to `ExpectedRows`.
A column that no event tells is left out of a row, and so is a row that retention has cut the beginning of: both are
gaps, which are counted and named, and no faults.

    events of one chain ─► fold ─► ExpectedRows ─┐
                                                 ├─► compare_rows ─► StateFault, StateGap
    rows of the tables ──────────────────────────┘
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from bpc.core.formats.timestamps import format_time, parse_time

RowKey = tuple[str, ...]
Row = Mapping[str, Any]
MAX_SHOWN: Final = 80

CHANGED: Final = "CHANGED"
ADDED: Final = "ADDED"
DELETED: Final = "DELETED"
NO_EVENT_TELLS: Final = "the events of this row do not tell it"
BEGINNING_REMOVED: Final = "retention has removed the beginning of its events"


@dataclass(frozen=True, slots=True)
class StateEvent:
    """An event, as folds read it."""

    aggregate_id: str
    type: str
    at: datetime
    actor_id: str | None
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFault:
    """A row that contradicts the events. `column` is None if the whole row does."""

    table: str
    row_id: str
    column: str | None
    problem: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateGap:
    """What the events do not tell of a row, and why. `column` is None if they tell nothing of it."""

    table: str
    row_id: str
    column: str | None
    reason: str


@dataclass(slots=True)
class ExpectedRows:
    """The rows of one aggregate, by table and key. A row holds the columns that events tell."""

    is_cut: bool = False
    tables: dict[str, dict[RowKey, dict[str, Any]]] = field(default_factory=dict)

    def put(self, table: str, *key: str, **columns: Any) -> None:
        """A row begins to exist."""
        self.tables.setdefault(table, {})[key] = columns

    def change(self, table: str, *key: str, **columns: Any) -> None:
        """A row gets other values. If its beginning is gone, these are all that is known of it."""
        self.tables.setdefault(table, {}).setdefault(key, {}).update(columns)

    def forget(self, table: str, key: str, *columns: str) -> None:
        """What was known of these columns is over."""
        row = self.get(table).get((key,), {})
        for column in columns:
            row.pop(column, None)

    def drop(self, table: str, *key: str) -> None:
        """A row ends to exist."""
        self.tables.setdefault(table, {}).pop(key, None)

    def replace(self, table: str, keys: Sequence[RowKey], **columns: Any) -> None:
        """These are all rows of the table."""
        self.tables[table] = {key: dict(columns) for key in keys}

    def get(self, table: str) -> dict[RowKey, dict[str, Any]]:
        return self.tables.get(table, {})


Fold = Callable[[ExpectedRows, StateEvent], None]


def take(payload: Mapping[str, Any], *names: str, **renamed: str) -> dict[str, Any]:
    """The members of a payload that are there, `renamed` from column to member. What is absent is not told."""
    columns = {name: payload[name] for name in names if name in payload}
    return columns | {column: payload[name] for column, name in renamed.items() if name in payload}


def take_time(payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A time of a payload as a column of the same name; nothing if it is absent."""
    if name not in payload:
        return {}
    return {name: None if payload[name] is None else parse_time(payload[name])}


def normalize(value: Any) -> Any:
    """A value of a database as events write it."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [normalize(member) for member in value]
    return value


def compare_rows(
    table: str,
    columns: Sequence[str],
    expected: Mapping[RowKey, Row],
    stored: Mapping[RowKey, Row],
    *,
    is_cut: bool,
    may_vanish: bool = False,
) -> Iterator[StateFault | StateGap]:
    """Compare the rows of one aggregate in one table.

    Checks:
      1. each row that events made exists, unless it `may_vanish`
      2. each row that exists was made by an event
      3. each column that events tell has the value they tell
    """
    for key, row in expected.items():
        if key not in stored and not may_vanish and not (is_cut and not row):  # 1
            says = "the row is missing, and the events say that it exists"
            yield StateFault(table=table, row_id="/".join(key), column=None, problem=DELETED, says=says)
    for key, row in stored.items():
        row_id, expected_row = "/".join(key), expected.get(key)
        if expected_row is None:
            if is_cut:
                yield StateGap(table=table, row_id=row_id, column=None, reason=BEGINNING_REMOVED)
            else:  # 2
                says = "no event made this row"
                yield StateFault(table=table, row_id=row_id, column=None, problem=ADDED, says=says)
            continue
        for column in columns:
            if column not in expected_row:
                reason = BEGINNING_REMOVED if is_cut else NO_EVENT_TELLS
                yield StateGap(table=table, row_id=row_id, column=column, reason=reason)
            elif expected_row[column] != row[column]:  # 3
                says = f"`{column}` is {_show(row[column])}, and the events say {_show(expected_row[column])}"
                yield StateFault(table=table, row_id=row_id, column=column, problem=CHANGED, says=says)


def _show(value: Any) -> str:
    if value is None:
        return "empty"
    text = format_time(value) if isinstance(value, datetime) else str(value)
    return f"`{text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + '…'}`"
