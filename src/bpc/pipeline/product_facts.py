"""What is known of a product now: what its documents say, merged member by member, with what is wrong about it.

    statements in force ─► by type and key ─► merged facts, conflicts, unreadable values ─┐
    readings, by time of recording ─► the latest states, a window, a series ──────────────┼─► ProductEvidence
    plausibility of all of them ─► findings ──────────────────────────────────────────────┘

`load_product_evidence` only reads. The snapshot step stores and seals the result; nothing else about a product counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, NotFound
from bpc.core.facts.attachments import iterate_named_files
from bpc.core.facts.evidence_findings import describe_conflict, describe_unreadable
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import Finding, build_finding_facts
from bpc.core.facts.merge import RECORDED_ON, FactStatement, MemberConflict, MergedFact, merge_statements
from bpc.core.facts.plausibility import find_implausible
from bpc.core.facts.provenance import FactName, MemberOrigin, build_provenance_facts
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
from bpc.core.formats.ids import DocumentId, DocumentVersionId, FactId, TenantId
from bpc.storage.connection import Connection
from bpc.storage.evidence import attachments, documents, facts, stated_facts, statements
from bpc.storage.evidence.facts import DerivedFact, StoredFact
from bpc.storage.evidence.stated_facts import StatedFact
from bpc.storage.evidence.statements import DecisionRow


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
    """A reading that a snapshot holds."""

    fact_id: FactId
    fact: SnapshotFact
    statement: FactStatement


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

    def iterate_conflicts(self) -> Iterator[tuple[ProductFact, MemberConflict]]:
        """Where documents differ."""
        for fact in self.product_facts:
            for conflict in fact.merged.conflicts:
                yield fact, conflict

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
    stated = await stated_facts.list_stated_facts(conn, tenant, sku)
    stated_readings = await stated_facts.list_readings(conn, tenant, sku)
    series, window = _select_readings(sku, stated_readings)
    stored = await facts.load_stored_facts(conn, tenant, [row.fact_id for row in (*stated, *window)])
    decisions = await _load_decisions(conn, tenant, [row.fact_key for row in stated])
    readings = [_to_reading(row, stored[row.fact_id]) for row in window]
    product_facts = [
        _fold_states(fact, readings) if fact.fact.fact_type == "Battery" else fact
        for fact in (
            _merge_group(list(group), stored, decisions)
            for _, group in groupby(stated, key=lambda row: (row.fact_type, row.fact_key))
        )
    ]
    return ProductEvidence(
        sku=sku,
        product_facts=product_facts,
        readings=readings,
        series=series,
        findings=_list_findings(product_facts, readings),
        attachments=await attachments.list_attachment_facts(conn, tenant, sku),
    )


async def store_evidence(
    conn: Connection, tenant: TenantId, evidence: ProductEvidence, *, act: Act
) -> tuple[list[FactId], list[FactId]]:
    """Store what is not stored yet. Return the ids of the facts, and of those that are made for a snapshot only.

    There must be at least one fact.
    """
    stored_ids = [fact_id for each in evidence.product_facts if (fact_id := each.find_stored_id()) is not None]
    merged = [_to_derived(each) for each in evidence.product_facts if each.find_stored_id() is None]
    files = zip(evidence.attachments, iterate_named_files(evidence.attachments), strict=True)
    attached = [
        DerivedFact(fact=fact, document_version_id=file.document_version_id, source_path="$") for fact, file in files
    ]
    derived_ids = await facts.insert_derived_facts(conn, tenant, [*merged, *attached], at=act.at)
    computed = [*evidence.list_computed_facts(), *build_provenance_facts(evidence.sources)]
    # Every fact names a version; these are about all of them.
    version = next((each.document_version_id for each in evidence.iterate_statements()), None)
    reserved = [
        DerivedFact(fact=fact, document_version_id=version, source_path="$") for fact in computed if version is not None
    ]
    reserved_ids = await facts.insert_derived_facts(conn, tenant, reserved, at=act.at)
    return [*stored_ids, *derived_ids, *(each.fact_id for each in evidence.readings)], reserved_ids


async def decide_conflict(
    conn: Connection, tenant: TenantId, sku: str, decision: DecisionRow, *, reason: str, act: Act
) -> None:
    """Decide which document to believe about a member that documents of a product differ about."""
    await documents.get_document(conn, tenant, decision.document_id)
    evidence = await load_product_evidence(conn, tenant, sku)
    conflict = next(
        (
            conflict
            for fact, conflict in evidence.iterate_conflicts()
            if fact.name == (decision.fact_type, decision.fact_key) and conflict.member == decision.member
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


def _select_readings(sku: str, rows: Sequence[StatedFact]) -> tuple[list[Series], list[StatedFact]]:
    """All series, and the readings of their windows."""
    series = group_series(
        ReadingRef(row.fact_id, *parse_reading_key(row.fact_key, sku), row.payload_hash) for row in rows
    )
    window_ids = {reading.fact_id for each in series for reading in each.window}
    return series, [row for row in rows if row.fact_id in window_ids]


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


def _to_reading(row: StatedFact, stored: StoredFact) -> ReadingFact:
    fact = SnapshotFact(
        fact_type=READING_FACT_TYPE,
        fact_key=row.fact_key,
        schema_version=stored.schema_version,
        payload=stored.payload,
    )
    return ReadingFact(fact_id=row.fact_id, fact=fact, statement=_to_statement(row, stored))


def _fold_states(battery: ProductFact, readings: Sequence[ReadingFact]) -> ProductFact:
    """Give the states of a battery the values of their latest readings."""
    latest: dict[str, ReadingFact] = {}
    for reading in sorted(readings, key=lambda each: str(each.fact.payload["recorded_at"])):
        latest[str(reading.fact.payload["kind"])] = reading
    payload, origins = dict(battery.fact.payload), dict(battery.origins)
    last_day: tuple[str, ReadingFact] | None = None
    for kind, reading in latest.items():
        value: Json = to_battery_value(kind, reading.fact.payload)
        if value is not None:
            payload[kind] = value
            origins[kind] = reading.statement.locate_member("number" if "number" in reading.fact.payload else "text")
            day = str(reading.fact.payload["recorded_on"])
            last_day = max(last_day or (day, reading), (day, reading), key=lambda pair: pair[0])
    if last_day is not None:
        payload[RECORDED_ON] = last_day[0]
        origins[RECORDED_ON] = last_day[1].statement.locate_member("recorded_on")
    return replace(battery, fact=replace(battery.fact, payload=payload), origins=origins)


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
        *find_implausible(all_facts),
    ]


def find_category(product_facts: Sequence[SnapshotFact]) -> str | None:
    """The category of the battery that the facts are about; None if they do not say."""
    values = (fact.payload.get("category") for fact in product_facts if fact.fact_type == "Battery")
    return next((value for value in values if isinstance(value, str)), None)


def _to_derived(fact: ProductFact) -> DerivedFact:
    """A merged fact with the members that are from each place; the first place is the one that counts most."""
    members: dict[tuple[DocumentVersionId, str], list[str]] = {}
    for member, origin in fact.origins.items():
        statement = fact.merged.sources.get(member)
        path = statement.source_path if statement is not None else origin.place
        members.setdefault((origin.document.document_version_id, path), []).append(member)
    first = fact.statements[0]
    return DerivedFact(
        fact=fact.fact,
        document_version_id=first.document_version_id,
        source_path=first.source_path,
        sources=members,
    )
