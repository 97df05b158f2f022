"""What is known of a product, stored so that a snapshot can hold it.

A fact that a document says as it is has a row already. Merged facts, attached files, and what is made for a snapshot
(where each value is from, findings, summaries of readings) get rows here; equal ones are there once.
"""

from bpc.core.audit.events import Act
from bpc.core.facts.provenance import build_provenance_facts
from bpc.core.formats.ids import DocumentVersionId, FactId, TenantId
from bpc.pipeline.product_evidence import ProductEvidence, ProductFact
from bpc.storage.connection import Connection
from bpc.storage.evidence.derived_facts import DerivedFact, insert_derived_facts


async def store_evidence(
    conn: Connection, tenant: TenantId, evidence: ProductEvidence, *, act: Act
) -> tuple[list[FactId], list[FactId]]:
    """Store what is not stored yet. Return the ids of the facts, and of those that are made for a snapshot only.

    There must be at least one fact.
    """
    stored_ids = [fact_id for each in evidence.product_facts if (fact_id := each.find_stored_id()) is not None]
    merged_facts = [_to_derived(each) for each in evidence.product_facts if each.find_stored_id() is None]
    file_facts = [
        DerivedFact(fact=each.fact, document_version_id=each.document_version_id, source_path="$")
        for each in evidence.attachments
    ]
    derived_ids = await insert_derived_facts(conn, tenant, [*merged_facts, *file_facts], at=act.at)
    computed_facts = [*evidence.list_computed_facts(), *build_provenance_facts(evidence.locate_members())]
    # Every fact names a version; these are about all of them.
    version = evidence.find_first_version()
    reserved_facts = [
        DerivedFact(fact=fact, document_version_id=version, source_path="$")
        for fact in computed_facts
        if version is not None
    ]
    reserved_ids = await insert_derived_facts(conn, tenant, reserved_facts, at=act.at)
    return [*stored_ids, *derived_ids, *(each.fact_id for each in evidence.readings)], reserved_ids


def _to_derived(fact: ProductFact) -> DerivedFact:
    """A merged fact with the members that are from each place; the first place is the one that counts most."""
    members: dict[tuple[DocumentVersionId, str], list[str]] = {}
    for member, origin in fact.origins.items():
        statement = fact.merge_result.sources.get(member)
        is_merged = statement is not None and statement.document == origin.document
        path = statement.source_path if statement is not None and is_merged else origin.place
        members.setdefault((origin.document.document_version_id, path), []).append(member)
    first = fact.statements[0]
    return DerivedFact(
        fact=fact.fact,
        document_version_id=first.document_version_id,
        source_path=first.source_path,
        sources=members,
    )
