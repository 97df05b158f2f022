"""Filters of lists: SQL conditions with their values, numbered as they are added.

A condition is there only if its value is: a statement with `$5 IS NULL OR …` would be planned for neither case. So
there is one statement for each set of filters, and each is planned for the index that serves it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

from bpc.storage.connection import Connection

# More rows than this are not collected before a list is read: then the list is read from its newest row on, and each
# row is compared. A row in twenty of a hundred thousand is found soon.
MAX_CANDIDATES: Final = 5_000
MIN_TEXT_LENGTH: Final = 2  # shorter texts are not in the indexes
FIRST_PLACE: Final = 5  # $1 is the tenant, $2 to $4 are a `PageQuery`
PLACES: Final[tuple[LiteralString, ...]] = (
    "$0", "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$16", "$17",
)  # fmt: skip


@dataclass(slots=True)
class ListConditions:
    """What narrows a list. `where` goes into the statement, `values` are its arguments from `first` on."""

    first: int = FIRST_PLACE
    where: LiteralString = ""
    values: list[object] = field(default_factory=list)

    def add(self, clause: LiteralString, value: object | None) -> None:
        """Add a condition in which `{}` stands for the value; nothing if there is no value."""
        if value is not None:
            self.where += " AND " + clause.replace("{}", PLACES[self.first + len(self.values)])
            self.values.append(value)

    def add_plain(self, clause: LiteralString) -> None:
        """Add a condition without a value, which may be that of an index."""
        self.where += " AND " + clause

    def add_activity(self, column: LiteralString, status: str | None) -> None:
        """Add that a row is active or, for any other status, deactivated; nothing if there is no status."""
        if status is not None:
            self.add_plain(column if status == "ACTIVE" else "NOT " + column)

    def add_times(self, column: LiteralString, after: datetime | None, before: datetime | None) -> None:
        """Add a period: from `after` on, before `before`."""
        self.add(column + " >= {}", after)
        self.add(column + " < {}", before)

    def add_text(self, content: LiteralString, text: str | None) -> None:
        """Add that a text contains another one, whatever their case."""
        self.add("position(fold_case({}) IN fold_case(" + content + ")) > 0", text)


async def find_candidates(conn: Connection, statement: LiteralString, *texts: str | None) -> Sequence[UUID] | None:
    """The ids of the rows that contain the longest text; None if there are too many to collect, or it is too short."""
    text = max((text for text in texts if text is not None), key=len, default="")
    if len(text) < MIN_TEXT_LENGTH:
        return None
    rows = await conn.fetch(statement, text, MAX_CANDIDATES + 1)
    return None if len(rows) > MAX_CANDIDATES else [row[0] for row in rows]
