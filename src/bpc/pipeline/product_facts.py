"""What is known of a product now: what its documents say, merged member by member, with the differences between them.

    statements in force ─► by type and key ─► all say the same ─► that fact
                                          └─► they differ ──────► a merged fact, and the conflicts

The snapshot step collects these facts; nothing else about a product counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, NotFound
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.merge import FactStatement, MergedFact, merge_statements
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.ids import DocumentId, DocumentVersionId, FactId, TenantId
from bpc.storage.connection import Connection
from bpc.storage.evidence import documents, facts, statements
from bpc.storage.evidence.facts import MemberSource
from bpc.storage.evidence.statements import DecisionRow, StatedFact


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingFact:
    """A thing that documents say different things about: each statement, newest first, and the merged fact."""

    fact_type: str
    fact_key: str
    schema_version: int
    statements: Sequence[FactStatement]
    merged: MergedFact


async def load_product_facts(conn: Connection, tenant: TenantId, sku: str) -> tuple[list[FactId], list[DifferingFact]]:
    """The ids of facts about a product that are stated in one way only, and the facts that statements differ about."""
    agreed_ids: list[FactId] = []
    differing_groups: list[list[StatedFact]] = []
    rows = await statements.list_stated_facts(conn, tenant, sku)
    for _, group in groupby(rows, key=lambda row: (row.fact_type, row.fact_key)):
        group_rows = list(group)
        if len({row.fact_id for row in group_rows}) == 1:
            agreed_ids.append(group_rows[0].fact_id)
        else:
            differing_groups.append(group_rows)
    return agreed_ids, await _merge_groups(conn, tenant, differing_groups)


async def collect_fact_ids(conn: Connection, tenant: TenantId, sku: str, *, act: Act) -> tuple[list[FactId], int]:
    """The ids of all facts that are known of a product, merged ones stored; and the number of conflicts not decided."""
    agreed_ids, differing_facts = await load_product_facts(conn, tenant, sku)
    merged_ids = [await _store_merged_fact(conn, tenant, fact, act) for fact in differing_facts]
    open_conflicts = sum(not conflict.is_decided for fact in differing_facts for conflict in fact.merged.conflicts)
    return [*agreed_ids, *merged_ids], open_conflicts


async def decide_conflict(
    conn: Connection, tenant: TenantId, sku: str, decision: DecisionRow, *, reason: str, act: Act
) -> None:
    """Decide which document to believe about a member that documents of a product differ about."""
    await documents.get_document(conn, tenant, decision.document_id)
    _, differing_facts = await load_product_facts(conn, tenant, sku)
    conflict = next(
        (
            conflict
            for fact in differing_facts
            if (fact.fact_type, fact.fact_key) == (decision.fact_type, decision.fact_key)
            for conflict in fact.merged.conflicts
            if conflict.member == decision.member
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


async def _merge_groups(
    conn: Connection, tenant: TenantId, groups: Sequence[Sequence[StatedFact]]
) -> list[DifferingFact]:
    payloads = await facts.load_payloads(conn, tenant, [row.fact_id for group in groups for row in group])
    decisions: dict[tuple[str, str], dict[str, DocumentId]] = {}
    for decision in await statements.list_decisions(conn, tenant, [group[0].fact_key for group in groups]):
        decisions.setdefault((decision.fact_type, decision.fact_key), {})[decision.member] = decision.document_id
    return [
        _merge_group(group, payloads, decisions.get((group[0].fact_type, group[0].fact_key), {})) for group in groups
    ]


def _merge_group(
    group: Sequence[StatedFact],
    payloads: Mapping[FactId, tuple[int, Mapping[str, Json]]],
    decisions: Mapping[str, DocumentId],
) -> DifferingFact:
    fact_statements = [
        FactStatement(
            fact_id=row.fact_id,
            document_id=row.document_id,
            document_version_id=row.document_version_id,
            source_path=row.source_path,
            stated_at=row.stated_at,
            payload=payloads[row.fact_id][1],
        )
        for row in group
    ]
    return DifferingFact(
        fact_type=group[0].fact_type,
        fact_key=group[0].fact_key,
        schema_version=payloads[group[0].fact_id][0],
        statements=fact_statements,
        merged=merge_statements(fact_statements, decisions),
    )


async def _store_merged_fact(conn: Connection, tenant: TenantId, fact: DifferingFact, act: Act) -> FactId:
    """Store a merged fact with its sources. One that equals what a document says is that document's own fact."""
    equal = next((each for each in fact.statements if each.payload == fact.merged.payload), None)
    if equal is not None:
        return equal.fact_id
    members: dict[tuple[DocumentVersionId, str], list[str]] = {}
    for member, statement in fact.merged.sources.items():
        members.setdefault((statement.document_version_id, statement.source_path), []).append(member)
    places = dict.fromkeys((each.document_version_id, each.source_path) for each in fact.statements)
    sources = [
        MemberSource(document_version_id=version, source_path=path, members=members[version, path])
        for version, path in places
        if (version, path) in members
    ]
    merged_fact = SnapshotFact(
        fact_type=fact.fact_type,
        fact_key=fact.fact_key,
        schema_version=fact.schema_version,
        payload=fact.merged.payload,
    )
    return await facts.insert_merged_fact(conn, tenant, merged_fact, sources, at=act.at)
