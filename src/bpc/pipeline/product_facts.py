"""What is known of a product now: what its documents say, merged member by member, with what is wrong about it.

    statements in force ─► by type and key ─► merged facts, conflicts, unreadable values ─┐
    readings, by time of recording ─► the latest states, a window, a series ──────────────┼─► ProductEvidence
    plausibility of all of them ─► findings ──────────────────────────────────────────────┘

`load_product_evidence` only reads. The snapshot step stores and seals the result; nothing else about a product counts.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, NotFound
from bpc.core.facts.attachments import AttachedFile, build_attachment_fact
from bpc.core.facts.evidence_findings import describe_conflict, describe_replaced_reading, describe_unreadable
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import Finding
from bpc.core.facts.merge import FactStatement, MemberConflict, MergedFact, merge_statements
from bpc.core.facts.plausibility import find_implausible
from bpc.core.facts.provenance import FactName
from bpc.core.facts.readings import (
    READING_FACT_TYPE,
    RECORDED_ON,
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
from bpc.pipeline.product_evidence import AttachmentFact, ProductEvidence, ProductFact, ReadingFact, SeriesFact
from bpc.storage.connection import Connection
from bpc.storage.evidence import attachments, documents, facts, stated_facts, statements
from bpc.storage.evidence.facts import StoredFact
from bpc.storage.evidence.stated_facts import StatedFact
from bpc.storage.evidence.statements import DecisionRow

MAX_STATEMENTS: Final = 100_000  # places in documents about one product
MAX_READINGS: Final = 200_000


async def load_product_evidence(conn: Connection, tenant: TenantId, sku: str) -> ProductEvidence:
    """What is known of a product now. Without documents about it, there is no fact."""
    statement_rows = await stated_facts.list_stated_facts(conn, tenant, sku, limit=MAX_STATEMENTS + 1)
    reading_rows = await stated_facts.list_readings(conn, tenant, sku, limit=MAX_READINGS + 1)
    if len(statement_rows) > MAX_STATEMENTS or len(reading_rows) > MAX_READINGS:
        raise Conflict(
            f"documents say more about `{sku}` than a snapshot can hold: at most {MAX_STATEMENTS:,} facts and "
            f"{MAX_READINGS:,} readings",
            fix="withdraw documents that repeat others, or make one product of each battery",
        )
    decisions = await _load_decisions(conn, tenant, [row.fact_key for row in (*statement_rows, *reading_rows)])
    series, window = _select_readings(sku, reading_rows, decisions)
    rows = [*statement_rows, *(row for group in window for row in group)]
    facts_by_id = await facts.load_stored_facts(conn, tenant, [row.fact_id for row in rows])
    files = await attachments.list_attached_files(conn, tenant, sku)
    # Thousands of facts take long enough to delay other requests.
    return await asyncio.to_thread(_build_evidence, sku, statement_rows, series, window, facts_by_id, decisions, files)


def _build_evidence(
    sku: str,
    statement_rows: Sequence[StatedFact],
    series: Sequence[SeriesFact],
    window: Sequence[Sequence[StatedFact]],
    facts_by_id: Mapping[FactId, StoredFact],
    decisions: Mapping[FactName, Mapping[str, DocumentId]],
    files: Sequence[AttachedFile],
) -> ProductEvidence:
    readings = [_to_reading(group, facts_by_id, decisions) for group in window]
    facts_of_documents = [
        _merge_group(list(group), facts_by_id, decisions)
        for _, group in groupby(statement_rows, key=lambda row: (row.fact_type, row.fact_key))
    ]
    facts_with_findings = [
        _fold_states(fact, readings) if fact.fact.fact_type == "Battery" else (fact, []) for fact in facts_of_documents
    ]
    product_facts = [fact for fact, _ in facts_with_findings]
    reading_findings = [finding for _, findings in facts_with_findings for finding in findings]
    return ProductEvidence(
        sku=sku,
        product_facts=product_facts,
        readings=readings,
        series=series,
        findings=[*_list_findings(product_facts, readings), *reading_findings],
        attachments=[AttachmentFact(fact=build_attachment_fact(file), file=file) for file in files],
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
) -> tuple[list[SeriesFact], list[list[StatedFact]]]:
    """All series, and what documents say about each reading of their windows: first the one that counts."""
    groups = [_put_decided_first(list(group), decisions) for _, group in groupby(rows, key=lambda row: row.fact_key)]
    series = group_series(
        ReadingRef(group[0].fact_id, *parse_reading_key(group[0].fact_key, sku), group[0].payload_hash)
        for group in groups
    )
    window_ids = {reading.fact_id for each in series for reading in each.window}
    rows_by_id = {group[0].fact_id: group[0] for group in groups}
    return (
        [_to_series_fact(sku, each, rows_by_id) for each in series],
        [group for group in groups if group[0].fact_id in window_ids],
    )


def _to_series_fact(sku: str, series: Series, rows_by_id: Mapping[FactId, StatedFact]) -> SeriesFact:
    first, last = rows_by_id[series.readings[0].fact_id], rows_by_id[series.readings[-1].fact_id]
    return SeriesFact(
        fact=build_series_fact(sku, series),
        origins={
            "sku": last.locate_member("sku"),
            "kind": last.locate_member("kind"),
            "first_recorded_at": first.locate_member("recorded_at"),
            "last_recorded_at": last.locate_member("recorded_at"),
        },
    )


def _put_decided_first(
    group: list[StatedFact], decisions: Mapping[FactName, Mapping[str, DocumentId]]
) -> list[StatedFact]:
    decided_documents = decisions.get((group[0].fact_type, group[0].fact_key), {}).values()
    return sorted(group, key=lambda row: row.document.document_id not in decided_documents)


async def _load_decisions(
    conn: Connection, tenant: TenantId, fact_keys: Sequence[str]
) -> Mapping[FactName, Mapping[str, DocumentId]]:
    decisions: dict[FactName, dict[str, DocumentId]] = {}
    for decision in await statements.list_decisions(conn, tenant, sorted(set(fact_keys))):
        decisions.setdefault((decision.fact_type, decision.fact_key), {})[decision.member] = decision.document_id
    return decisions


def _merge_group(
    group: Sequence[StatedFact],
    facts_by_id: Mapping[FactId, StoredFact],
    decisions: Mapping[FactName, Mapping[str, DocumentId]],
) -> ProductFact:
    name = group[0].fact_type, group[0].fact_key
    fact_statements = [_to_statement(row, facts_by_id[row.fact_id]) for row in group]
    merge_result = merge_statements(fact_statements, decisions.get(name, {}), state_members=STATE_MEMBERS)
    fact = SnapshotFact(
        fact_type=name[0],
        fact_key=name[1],
        schema_version=facts_by_id[group[0].fact_id].schema_version,
        payload=merge_result.payload,
    )
    origins = {member: statement.locate_member(member) for member, statement in merge_result.sources.items()}
    return ProductFact(fact=fact, statements=fact_statements, merge_result=merge_result, origins=origins)


def _to_statement(row: StatedFact, fact: StoredFact) -> FactStatement:
    return FactStatement(
        fact_id=row.fact_id,
        document=row.document,
        source_path=row.source_path,
        payload=fact.payload,
        member_places=row.member_places,
        unreadable=row.unreadable,
    )


def _to_reading(
    group: Sequence[StatedFact],
    facts_by_id: Mapping[FactId, StoredFact],
    decisions: Mapping[FactName, Mapping[str, DocumentId]],
) -> ReadingFact:
    first, reading_statements = group[0], [_to_statement(row, facts_by_id[row.fact_id]) for row in group]
    fact = SnapshotFact(
        fact_type=READING_FACT_TYPE,
        fact_key=first.fact_key,
        schema_version=facts_by_id[first.fact_id].schema_version,
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
        if value is None or _get_recorded_at(battery.merge_result, kind) >= str(reading.fact.payload["recorded_at"]):
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


def _get_recorded_at(merge_result: MergedFact, member: str) -> str:
    """When a state was recorded, as the documents say; an unreadable one without a day, when it was stated."""
    statement = merge_result.sources.get(member) or merge_result.unreadable.get(member)
    if statement is None:
        return ""
    day = statement.payload.get(RECORDED_ON)
    if isinstance(day, str):
        return f"{day}T00:00:00.000000Z"
    return format_time(statement.stated_at) if member in merge_result.unreadable else ""


def _list_findings(product_facts: Sequence[ProductFact], readings: Sequence[ReadingFact]) -> list[Finding]:
    all_facts = [*(each.fact for each in product_facts), *(each.fact for each in readings)]
    category = _get_category_name(all_facts)
    return [
        *(
            describe_unreadable(fact.name, member, statement, category=category)
            for fact in product_facts
            for member, statement in fact.merge_result.unreadable.items()
            if member not in fact.fact.payload
        ),
        *(
            describe_conflict(fact.name, conflict)
            for fact in product_facts
            for conflict in fact.merge_result.conflicts
            if not conflict.is_decided
        ),
        *(
            describe_conflict(reading.name, reading.conflict)
            for reading in readings
            if reading.conflict is not None and not reading.conflict.is_decided
        ),
        *find_implausible(all_facts),
    ]


def _get_category_name(product_facts: Sequence[SnapshotFact]) -> str | None:
    """The category of the battery that the facts are about; None if they do not say."""
    values = (fact.payload.get("category") for fact in product_facts if fact.fact_type == "Battery")
    return next((value for value in values if isinstance(value, str)), None)
