"""What is known of a product now: what its documents say, merged member by member, with what is wrong about it.

    statements in force ─► by type and key ─► merged facts, conflicts, unreadable values ─┐
    readings, by time of recording ─► the latest states, a window, a series ──────────────┼─► ProductEvidence
    plausibility of all of them ─► findings ──────────────────────────────────────────────┘

`load_product_evidence` only reads. The snapshot step stores and seals the result; nothing else about a product counts.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, NotFound
from bpc.core.facts.evidence_findings import describe_conflict, describe_replaced_reading, describe_unreadable
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import Finding, build_finding_facts
from bpc.core.facts.merge import RECORDED_ON, FactStatement, MemberConflict, MergedFact, merge_statements
from bpc.core.facts.plausibility import find_implausible
from bpc.core.facts.provenance import FactName, MemberOrigin
from bpc.core.facts.readings import (
    READING_FACT_TYPE,
    ReadingRef,
    Series,
    build_series_fact,
    group_series,
    parse_reading_key,
    to_battery_value,
)
from bpc.core.facts.schemas import STATE_MEMBERS
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import DocumentId, FactId, TenantId
from bpc.core.formats.timestamps import format_time
from bpc.storage.connection import Connection
from bpc.storage.evidence import attachments, documents, facts, stated_facts, statements
from bpc.storage.evidence.facts import StoredFact
from bpc.storage.evidence.stated_facts import StatedFact
from bpc.storage.evidence.statements import DecisionRow

MAX_STATEMENTS: Final = 100_000  # places in documents about one product
MAX_READINGS: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductFact:
    """A fact that is known of a product: what the documents say about one thing, and what they make together."""

    fact: SnapshotFact
    statements: Sequence[FactStatement]
    merged: MergedFact
    origins: Mapping[str, MemberOrigin]

    @property
    def name(self) -> FactName:
        return self.fact.fact_type, self.fact.fact_key

    def find_stored_id(self) -> FactId | None:
        """The fact of a document that says exactly this; None if no document alone does."""
        return next((each.fact_id for each in self.statements if each.payload == self.fact.payload), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingFact:
    """A reading that a snapshot holds. Documents that say something else about the same moment are its conflict."""

    fact: SnapshotFact
    statement: FactStatement
    is_current: bool
    conflict: MemberConflict | None

    @property
    def name(self) -> FactName:
        return self.fact.fact_type, self.fact.fact_key

    @property
    def fact_id(self) -> FactId:
        return self.statement.fact_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductEvidence:
    """Everything that is known of a product at one moment, and everything that is wrong about it."""

    sku: str
    product_facts: Sequence[ProductFact]
    readings: Sequence[ReadingFact]
    series: Sequence[Series]
    findings: Sequence[Finding]
    attachments: Sequence[SnapshotFact] = ()

    @property
    def facts(self) -> tuple[SnapshotFact, ...]:
        """What rules can read."""
        return (
            *(each.fact for each in self.product_facts),
            *(each.fact for each in self.readings),
            *self.attachments,
            *self.list_computed_facts(),
        )

    @property
    def sources(self) -> Mapping[FactName, Mapping[str, MemberOrigin]]:
        """Where each member of each fact is from."""
        return {each.name: each.origins for each in self.product_facts} | {
            (each.fact.fact_type, each.fact.fact_key): {
                member: each.statement.locate_member(member) for member in each.fact.payload
            }
            for each in self.readings
        }

    def iterate_conflicts(self) -> Iterator[tuple[FactName, MemberConflict]]:
        """Where documents differ."""
        for fact in self.product_facts:
            for conflict in fact.merged.conflicts:
                yield fact.name, conflict
        for reading in self.readings:
            if reading.conflict is not None:
                yield reading.name, reading.conflict

    def iterate_statements(self) -> Iterator[FactStatement]:
        for fact in self.product_facts:
            yield from fact.statements
        for reading in self.readings:
            yield reading.statement

    def count_open_conflicts(self) -> int:
        return sum(not conflict.is_decided for _, conflict in self.iterate_conflicts())

    def list_computed_facts(self) -> list[SnapshotFact]:
        """Facts that no document states: a summary of each series, and the findings."""
        return [
            *(build_series_fact(self.sku, series) for series in self.series),
            *build_finding_facts(self.sku, self.findings),
        ]


async def load_product_evidence(conn: Connection, tenant: TenantId, sku: str) -> ProductEvidence:
    """What is known of a product now. Without documents about it, there is no fact."""
    stated = await stated_facts.list_stated_facts(conn, tenant, sku, limit=MAX_STATEMENTS + 1)
    stated_readings = await stated_facts.list_readings(conn, tenant, sku, limit=MAX_READINGS + 1)
    if len(stated) > MAX_STATEMENTS or len(stated_readings) > MAX_READINGS:
        raise Conflict(
            f"documents say more about `{sku}` than a snapshot can hold: at most {MAX_STATEMENTS:,} facts and "
            f"{MAX_READINGS:,} readings",
            fix="withdraw documents that repeat others, or make one product of each battery",
        )
    decisions = await _load_decisions(conn, tenant, [row.fact_key for row in (*stated, *stated_readings)])
    series, window = _select_readings(sku, stated_readings, decisions)
    shown_rows = [*stated, *(row for group in window for row in group)]
    stored = await facts.load_stored_facts(conn, tenant, [row.fact_id for row in shown_rows])
    attached = await attachments.list_attachment_facts(conn, tenant, sku)
    # Thousands of facts take long enough to delay other requests.
    return await asyncio.to_thread(_build_evidence, sku, stated, series, window, stored, decisions, attached)


def _build_evidence(
    sku: str,
    stated: Sequence[StatedFact],
    series: Sequence[Series],
    window: Sequence[Sequence[StatedFact]],
    stored: Mapping[FactId, StoredFact],
    decisions: Mapping[FactName, Mapping[str, DocumentId]],
    attached: Sequence[SnapshotFact],
) -> ProductEvidence:
    readings = [_to_reading(group, stored, decisions) for group in window]
    merged = [
        _merge_group(list(group), stored, decisions)
        for _, group in groupby(stated, key=lambda row: (row.fact_type, row.fact_key))
    ]
    folded = [_fold_states(fact, readings) if fact.fact.fact_type == "Battery" else (fact, []) for fact in merged]
    product_facts = [fact for fact, _ in folded]
    replaced = [finding for _, findings in folded for finding in findings]
    return ProductEvidence(
        sku=sku,
        product_facts=product_facts,
        readings=readings,
        series=series,
        findings=[*_list_findings(product_facts, readings), *replaced],
        attachments=attached,
    )


async def decide_conflict(
    conn: Connection, tenant: TenantId, sku: str, decision: DecisionRow, *, reason: str, act: Act
) -> None:
    """Decide which document to believe about a member that documents of a product differ about."""
    await documents.get_document(conn, tenant, decision.document_id)
    evidence = await load_product_evidence(conn, tenant, sku)
    conflict = next(
        (
            conflict
            for name, conflict in evidence.iterate_conflicts()
            if name == (decision.fact_type, decision.fact_key) and conflict.member == decision.member
        ),
        None,
    )
    if conflict is None:
        raise NotFound(
            f"the documents do not differ about `{decision.member}` of `{decision.fact_key}`",
            fix="list the conflicts of the product to see what is open",
        )
    if decision.document_id not in {statement.document_id for statement in conflict.statements}:
        raise Conflict(
            f"document `{decision.document_id}` does not say anything about `{decision.member}`",
            fix="choose one of the documents of the conflict",
            details={"document_ids": sorted({str(statement.document_id) for statement in conflict.statements})},
        )
    await statements.insert_decision(conn, tenant, decision, reason=reason, act=act)


def _select_readings(
    sku: str, rows: Sequence[StatedFact], decisions: Mapping[FactName, Mapping[str, DocumentId]]
) -> tuple[list[Series], list[list[StatedFact]]]:
    """All series, and what documents say about each reading of their windows: first the one that counts."""
    groups = [_put_decided_first(list(group), decisions) for _, group in groupby(rows, key=lambda row: row.fact_key)]
    series = group_series(
        ReadingRef(group[0].fact_id, *parse_reading_key(group[0].fact_key, sku), group[0].payload_hash)
        for group in groups
    )
    window_ids = {reading.fact_id for each in series for reading in each.window}
    return series, [group for group in groups if group[0].fact_id in window_ids]


def _put_decided_first(
    group: list[StatedFact], decisions: Mapping[FactName, Mapping[str, DocumentId]]
) -> list[StatedFact]:
    believed = decisions.get((group[0].fact_type, group[0].fact_key), {}).values()
    return sorted(group, key=lambda row: row.document.document_id not in believed)


async def _load_decisions(
    conn: Connection, tenant: TenantId, fact_keys: Sequence[str]
) -> Mapping[FactName, Mapping[str, DocumentId]]:
    decisions: dict[FactName, dict[str, DocumentId]] = {}
    for decision in await statements.list_decisions(conn, tenant, sorted(set(fact_keys))):
        decisions.setdefault((decision.fact_type, decision.fact_key), {})[decision.member] = decision.document_id
    return decisions


def _merge_group(
    group: Sequence[StatedFact],
    stored: Mapping[FactId, StoredFact],
    decisions: Mapping[FactName, Mapping[str, DocumentId]],
) -> ProductFact:
    name = group[0].fact_type, group[0].fact_key
    fact_statements = [_to_statement(row, stored[row.fact_id]) for row in group]
    merged = merge_statements(fact_statements, decisions.get(name, {}), state_members=STATE_MEMBERS)
    fact = SnapshotFact(
        fact_type=name[0],
        fact_key=name[1],
        schema_version=stored[group[0].fact_id].schema_version,
        payload=merged.payload,
    )
    origins = {member: statement.locate_member(member) for member, statement in merged.sources.items()}
    return ProductFact(fact=fact, statements=fact_statements, merged=merged, origins=origins)


def _to_statement(row: StatedFact, stored: StoredFact) -> FactStatement:
    return FactStatement(
        fact_id=row.fact_id,
        document=row.document,
        source_path=row.source_path,
        payload=stored.payload,
        member_places=row.member_places,
        unreadable=row.unreadable,
    )


def _to_reading(
    group: Sequence[StatedFact],
    stored: Mapping[FactId, StoredFact],
    decisions: Mapping[FactName, Mapping[str, DocumentId]],
) -> ReadingFact:
    first, reading_statements = group[0], [_to_statement(row, stored[row.fact_id]) for row in group]
    fact = SnapshotFact(
        fact_type=READING_FACT_TYPE,
        fact_key=first.fact_key,
        schema_version=stored[first.fact_id].schema_version,
        payload=reading_statements[0].payload,
    )
    conflict = None
    if any(each.payload != fact.payload for each in reading_statements):
        conflict = MemberConflict(
            member=_get_value_member(fact),
            statements=tuple(reading_statements),
            is_decided=(first.fact_type, first.fact_key) in decisions,
        )
    return ReadingFact(fact=fact, statement=reading_statements[0], is_current=first.is_current, conflict=conflict)


def _get_value_member(reading: SnapshotFact) -> str:
    return "number" if "number" in reading.payload else "text"


def _fold_states(battery: ProductFact, readings: Sequence[ReadingFact]) -> tuple[ProductFact, list[Finding]]:
    """Give the states of a battery the values of their latest readings; and what is odd about these readings.

    What the documents say about a state together, decided or unreadable, stays unless a reading is later.
    """
    latest: dict[str, ReadingFact] = {}
    for reading in sorted(readings, key=lambda each: str(each.fact.payload["recorded_at"])):
        latest[str(reading.fact.payload["kind"])] = reading
    payload, origins, findings = dict(battery.fact.payload), dict(battery.origins), []
    for kind, reading in sorted(latest.items()):
        value: Json = to_battery_value(kind, reading.fact.payload)
        if value is None or _get_recorded_at(battery.merged, kind) >= str(reading.fact.payload["recorded_at"]):
            continue
        payload[kind] = value
        origins[kind] = reading.statement.locate_member(_get_value_member(reading.fact))
        if not reading.is_current:
            findings.append(describe_replaced_reading(battery.name, kind, reading.statement))
        day = str(reading.fact.payload["recorded_on"])
        if day > str(payload.get(RECORDED_ON, "")):
            payload[RECORDED_ON] = day
            origins[RECORDED_ON] = reading.statement.locate_member("recorded_on")
    return replace(battery, fact=replace(battery.fact, payload=payload), origins=origins), findings


def _get_recorded_at(merged: MergedFact, member: str) -> str:
    """When a state was recorded, as the documents say; an unreadable one without a day, when it was stated."""
    statement = merged.sources.get(member) or merged.unreadable.get(member)
    if statement is None:
        return ""
    day = statement.payload.get(RECORDED_ON)
    if isinstance(day, str):
        return f"{day}T00:00:00.000000Z"
    return format_time(statement.stated_at) if member in merged.unreadable else ""


def _list_findings(product_facts: Sequence[ProductFact], readings: Sequence[ReadingFact]) -> list[Finding]:
    all_facts = [*(each.fact for each in product_facts), *(each.fact for each in readings)]
    category = find_category(all_facts)
    return [
        *(
            describe_unreadable(fact.name, member, statement, category=category)
            for fact in product_facts
            for member, statement in fact.merged.unreadable.items()
            if member not in fact.fact.payload
        ),
        *(
            describe_conflict(fact.name, conflict)
            for fact in product_facts
            for conflict in fact.merged.conflicts
            if not conflict.is_decided
        ),
        *(
            describe_conflict(reading.name, reading.conflict)
            for reading in readings
            if reading.conflict is not None and not reading.conflict.is_decided
        ),
        *find_implausible(all_facts),
    ]


def find_category(product_facts: Sequence[SnapshotFact]) -> str | None:
    """The category of the battery that the facts are about; None if they do not say."""
    values = (fact.payload.get("category") for fact in product_facts if fact.fact_type == "Battery")
    return next((value for value in values if isinstance(value, str)), None)
