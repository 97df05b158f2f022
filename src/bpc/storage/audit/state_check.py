"""Comparing the tables of a tenant with its events: each row that was changed, added or deleted is named.

Events come in the order of their chains, a piece at a time. Each chain is folded; then the rows of some hundred
aggregates are loaded and compared. So memory does not grow with the number of events. Rows of aggregates that have no
events are looked for at the end.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString
from uuid import UUID

import asyncpg
import orjson

from bpc.core.audit.events import ChainHead, EventStream, StoredEvent
from bpc.core.audit.folds import FOLDS
from bpc.core.audit.state import (
    ADDED,
    BEGINNING_REMOVED,
    CHANGED,
    DELETED,
    ExpectedRows,
    RowKey,
    StateEvent,
    StateFault,
    StateGap,
    compare_rows,
    normalize,
)
from bpc.core.errors import Invalid
from bpc.core.formats.ids import TenantId
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.audit.state_table import ConsistencyCheck, StateTable
from bpc.storage.audit.state_tables import CONSISTENCY_CHECKS, STATE_TABLES
from bpc.storage.connection import Connection

CHAINS_AT_ONCE: Final = 300
MAX_FAULTS_OF_TABLE: Final = 1000
MAX_EXAMPLES: Final = 100
OLDER_TIME: Final = "an older build stored the time of the row, not that of its event"
LONGEST_TRANSACTION: Final = timedelta(minutes=1)
MADE_BY_OLDER_BUILD: Final = "an older build made it without an event"
SELECT_COVERED_SINCE: Final[LiteralString] = """
    SELECT applied_at FROM schema_migrations WHERE component = 'bpc' AND name LIKE '%\\_removed\\_events.sql'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRows:
    """What retention removed, by its events. Before `unlisted_before`, an older build removed contents unnamed."""

    passport_versions: frozenset[str] = frozenset()
    contents: frozenset[str] = frozenset()
    events_before: datetime | None = None
    unlisted_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GapSummary:
    """How many rows of a table events do not tell a column of, and the first of them."""

    table: str
    column: str | None
    reason: str
    rows: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVerification:
    """How many rows were compared, which contradict the events, and what events do not tell."""

    rows: int
    faults: tuple[StateFault, ...]
    gaps: tuple[GapSummary, ...]
    covered_since: datetime


@dataclass(slots=True)
class StateCheck:
    """One comparison. `observe` takes the events, in order; `finish` gives the result."""

    conn: Connection
    tenant: TenantId
    anchors: Mapping[EventStream, ChainHead]
    removed: RemovedRows
    covered_since: datetime
    faults: list[StateFault] = field(default_factory=list)
    rows: int = 0
    _gaps: dict[tuple[str, str | None, str], list[str]] = field(default_factory=dict)
    _gap_counts: Counter[tuple[str, str | None, str]] = field(default_factory=Counter)
    _fault_counts: Counter[str] = field(default_factory=Counter)
    _type: str | None = None
    _chains: dict[str, ExpectedRows] = field(default_factory=dict)
    _installation: dict[str, dict[RowKey, dict[str, Any]]] = field(default_factory=dict)

    async def observe(self, events: Sequence[StoredEvent]) -> None:
        """Fold the next events, all of one chain."""
        stream = events[0].event.stream
        fold = FOLDS.get(stream.aggregate_type)
        if fold is None:
            return
        aggregate_id = str(stream.aggregate_id)
        is_new = aggregate_id not in self._chains
        if self._type != stream.aggregate_type or (is_new and len(self._chains) >= CHAINS_AT_ONCE):
            await self._compare_chains()
            self._type, is_new = stream.aggregate_type, True
        if is_new:
            self._chains[aggregate_id] = ExpectedRows(is_cut=stream in self.anchors)
        rows = self._chains[aggregate_id]
        for stored_event in events:
            event = stored_event.event
            try:
                payload = orjson.loads(event.payload_canonical)
                actor_id = None if event.actor_id is None else str(event.actor_id)
                fold(rows, StateEvent(aggregate_id, event.event_type, event.occurred_at, actor_id, payload))
            except (
                AttributeError,
                KeyError,
                TypeError,
                ValueError,
                Invalid,
            ):  # only a forged event says something else
                says = f"event {event.version}, {event.event_type}, does not say what changed"
                self._add_fault("events", f"{stream.aggregate_type}/{aggregate_id}", "payload", says)

    async def finish(self) -> StateVerification:
        """Compare what is left, look for rows without events, and check rows by themselves."""
        await self._compare_chains()
        for table in STATE_TABLES:
            if table.owner is not None:
                await self._find_rows_without_chain(table, table.owner)
            else:
                await self._compare_keys(table)
        for check in CONSISTENCY_CHECKS:
            await self._check_consistency(check)
        gaps = tuple(
            GapSummary(
                table=name[0], column=name[1], reason=name[2], rows=self._gap_counts[name], examples=tuple(examples)
            )
            for name, examples in sorted(self._gaps.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        )
        return StateVerification(rows=self.rows, faults=tuple(self.faults), gaps=gaps, covered_since=self.covered_since)

    async def _compare_chains(self) -> None:
        if self._chains:
            for table in STATE_TABLES:
                if table.aggregate_type == self._type:
                    await self._compare_table(table)
        self._chains = {}

    async def _compare_table(self, table: StateTable) -> None:
        if table.owner is None:
            for rows in self._chains.values():
                self._installation.setdefault(table.name, {}).update(rows.get(table.name))
            return
        stored_rows: dict[str, dict[RowKey, dict[str, Any]]] = {}
        ids = [UUID(aggregate_id) for aggregate_id in self._chains]
        for owner, key, row, is_unrecorded in await self._load_rows(table, table.owner, ids):
            if is_unrecorded and key not in self._chains[owner].get(table.name):
                self._add_gap(StateGap(table=table.name, row_id="/".join(key), column=None, reason=MADE_BY_OLDER_BUILD))
            else:
                stored_rows.setdefault(owner, {})[key] = row
        for owner, rows in self._chains.items():
            if rows.is_cut:
                self._check_age(table, stored_rows.get(owner, {}))
            self._compare(table, rows.get(table.name), stored_rows.get(owner, {}), is_cut=rows.is_cut)

    async def _load_rows(
        self, table: StateTable, owner: LiteralString, ids: list[UUID]
    ) -> list[tuple[str, RowKey, dict[str, Any], bool]]:
        statement = _select_rows(table, owner)
        arguments = [ids, self.covered_since] if "$3" in statement else [ids]
        return [_split_row(table, record) for record in await self.conn.fetch(statement, self.tenant, *arguments)]

    def _compare(
        self,
        table: StateTable,
        expected: dict[RowKey, dict[str, Any]],
        stored_rows: dict[RowKey, dict[str, Any]],
        *,
        is_cut: bool,
    ) -> None:
        expected = self._apply_removals(table.name, expected, stored_rows)
        if table.may_appear:
            stored_rows = {key: row for key, row in stored_rows.items() if key in expected}
        self.rows += len(stored_rows)
        for difference in compare_rows(
            table.name, tuple(table.columns), expected, stored_rows, is_cut=is_cut, may_vanish=table.may_vanish
        ):
            if isinstance(difference, StateGap):
                self._add_gap(difference)
            elif self._is_time_of_row(difference, expected, stored_rows):
                reason = OLDER_TIME
                self._add_gap(
                    StateGap(table=table.name, row_id=difference.row_id, column=difference.column, reason=reason)
                )
            else:
                self._append_fault(difference)

    def _is_time_of_row(
        self, fault: StateFault, expected: dict[RowKey, dict[str, Any]], stored_rows: dict[RowKey, dict[str, Any]]
    ) -> bool:
        """Whether an older build let the database put the time of a row, a moment after that of its event."""
        key = tuple(fault.row_id.split("/"))
        if fault.column is None or fault.problem != CHANGED or key not in expected:
            return False
        expected_value, has = expected[key][fault.column], stored_rows[key][fault.column]
        if (
            not isinstance(expected_value, datetime)
            or not isinstance(has, datetime)
            or expected_value >= self.covered_since
        ):
            return False
        return abs(has - expected_value) < LONGEST_TRANSACTION

    def _check_age(self, table: StateTable, stored_rows: dict[RowKey, dict[str, Any]]) -> None:
        """The first events of these rows were removed, so the rows must be older than a cutoff."""
        before = self.removed.events_before
        for key, row in stored_rows.items():
            made_at = row.get("created_at") or row.get("uploaded_at")
            if made_at is not None and (before is None or made_at >= before):
                says = "its first events were removed, and it is younger than every cutoff of retention"
                self._add_fault(table.name, "/".join(key), None, says, problem=DELETED)

    def _apply_removals(
        self, name: str, expected: dict[RowKey, dict[str, Any]], stored_rows: dict[RowKey, dict[str, Any]]
    ) -> dict[RowKey, dict[str, Any]]:
        """What is left after retention."""
        if name == "passport_versions" and self.removed.passport_versions:
            return {key: row for key, row in expected.items() if key[0] not in self.removed.passport_versions}
        if name == "document_versions":
            for key, row in stored_rows.items():
                if row["content"] is None and key in expected and self._may_lack_content(key[0], row["uploaded_at"]):
                    expected[key] |= {"content": None}
        return expected

    def _may_lack_content(self, version: str, uploaded_at: datetime) -> bool:
        before = self.removed.unlisted_before
        return version in self.removed.contents or (before is not None and uploaded_at < before)

    async def _compare_keys(self, table: StateTable) -> None:
        """Compare the keys of the tenant, or of the installation in `system`. Others are only announced to it."""
        owner = None if self.tenant == SYSTEM_TENANT else self.tenant
        columns = ", ".join(_select_columns(table))
        statement = f"""
            SELECT NULL AS owner, {columns} FROM {table.name} t
             WHERE {table.where} AND t.owner_tenant_id IS NOT DISTINCT FROM $1
        """
        records = await self.conn.fetch(statement, owner)
        stored_rows = {key: row for _, key, row, _ in (_split_row(table, record) for record in records)}
        all_rows = self._installation.get(table.name, {})
        expected = {key: row for key, row in all_rows.items() if row.get("owner_tenant_id", "?") == normalize(owner)}
        self._compare(table, expected, stored_rows, is_cut=False)

    async def _find_rows_without_chain(self, table: StateTable, owner: LiteralString) -> None:
        if table.may_appear:
            return
        [aggregate] = _qualify([owner])
        columns = ", ".join(_select_columns(table))
        statement = f"""
            SELECT NULL AS owner, {columns},
                   EXISTS (SELECT FROM event_anchors a WHERE a.tenant_id = $1 AND a.aggregate_type = $2
                              AND a.aggregate_id = {aggregate}) AS is_cut
              FROM {table.name} t {table.joins}
             WHERE t.tenant_id = $1 AND {table.where} AND NOT EXISTS (
               SELECT FROM events e WHERE e.tenant_id = $1 AND e.aggregate_type = $2 AND e.aggregate_id = {aggregate})
             LIMIT {MAX_FAULTS_OF_TABLE}
        """
        arguments = [self.covered_since] if "$3" in statement else []
        for record in await self.conn.fetch(statement, self.tenant, table.aggregate_type, *arguments):
            _, key, _, is_unrecorded = _split_row(table, record)
            self.rows += 1
            if is_unrecorded or record["is_cut"]:
                reason = MADE_BY_OLDER_BUILD if is_unrecorded else BEGINNING_REMOVED
                self._add_gap(StateGap(table=table.name, row_id="/".join(key), column=None, reason=reason))
            else:
                says = "no event made this row"
                self._add_fault(table.name, "/".join(key), None, says, problem=ADDED)

    async def _check_consistency(self, check: ConsistencyCheck) -> None:
        statement = f"""
            SELECT {check.key} AS key FROM {check.table} t
             WHERE t.tenant_id = $1 AND ({check.is_right}) IS NOT TRUE LIMIT {MAX_FAULTS_OF_TABLE}
        """
        try:
            async with self.conn.transaction():
                records = await self.conn.fetch(statement, self.tenant)
        except asyncpg.DataError:
            self._add_fault(check.table, "?", check.column, f"`{check.column}` of some row cannot be read")
            return
        for record in records:
            self._add_fault(check.table, str(record["key"]), check.column, f"`{check.column}`: {check.says}")

    def _add_fault(self, table: str, row_id: str, column: str | None, says: str, *, problem: str = CHANGED) -> None:
        self._append_fault(StateFault(table=table, row_id=row_id, column=column, problem=problem, says=says))

    def _append_fault(self, fault: StateFault) -> None:
        self._fault_counts[fault.table] += 1
        if self._fault_counts[fault.table] <= MAX_FAULTS_OF_TABLE:
            self.faults.append(fault)

    def _add_gap(self, gap: StateGap) -> None:
        name = gap.table, gap.column, gap.reason
        self._gap_counts[name] += 1
        examples = self._gaps.setdefault(name, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(gap.row_id)


async def load_covered_since(conn: Connection) -> datetime:
    """When this database got the release whose events tell every column that is compared."""
    moment: datetime = await conn.fetchval(SELECT_COVERED_SINCE)
    return moment


def _select_rows(table: StateTable, owner: LiteralString) -> str:
    columns, [aggregate] = ", ".join(_select_columns(table)), _qualify([owner])
    return f"""
        SELECT {aggregate} AS owner, {columns} FROM {table.name} t {table.joins}
         WHERE t.tenant_id = $1 AND {table.where} AND {aggregate} = ANY($2::uuid[])
    """


def _select_columns(table: StateTable) -> list[str]:
    keys = [f"{expression} AS key_{number}" for number, expression in enumerate(_qualify(table.key))]
    columns = [f"{expression} AS {name}_" for name, expression in table.columns.items()]
    return [*keys, *columns, f"({table.unrecorded}) AS is_unrecorded"]


def _qualify(expressions: Sequence[LiteralString]) -> list[str]:
    return [f"t.{each}" if each.isidentifier() else each for each in expressions]


def _split_row(table: StateTable, record: asyncpg.Record) -> tuple[str, RowKey, dict[str, Any], bool]:
    key = tuple(str(record[f"key_{number}"]) for number in range(len(table.key)))
    row = {name: _convert(table, name, record[f"{name}_"]) for name in table.columns}
    return str(record["owner"]), key, row, bool(record["is_unrecorded"])


def _convert(table: StateTable, name: str, value: Any) -> Any:
    convert = table.convert.get(name)
    return normalize(value) if convert is None or value is None else convert(value)
