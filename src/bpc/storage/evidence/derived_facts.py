"""Facts that no document states by itself: values of several documents as one, and what is made for a snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, LiteralString

import orjson

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import DocumentVersionId, FactId, TenantId
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.evidence.facts import EQUAL_FACT

# Equal facts are there already, perhaps as what a document says.
INSERT_DERIVED_FACTS: Final[LiteralString] = """
    INSERT INTO facts (tenant_id, fact_id, fact_type, fact_key, schema_version, source_document_version_id, source_path,
                       payload, payload_canonical, payload_hash, created_at)
    SELECT $1, g.fact_id, g.fact_type, g.fact_key, g.schema_version, g.document_version_id, g.source_path,
           convert_from(g.payload_canonical, 'UTF8')::jsonb, g.payload_canonical, g.payload_hash, $2
      FROM unnest($3::uuid[], $4::text[], $5::text[], $6::int[], $7::uuid[], $8::text[], $9::bytea[], $10::bytea[])
        AS g(fact_id, fact_type, fact_key, schema_version, document_version_id, source_path, payload_canonical,
             payload_hash)
        ON CONFLICT ON CONSTRAINT facts_same_fact_key DO NOTHING
"""
# A separate statement: it also sees equal facts that another transaction committed while the first one waited.
SELECT_EQUAL_FACTS: Final[LiteralString] = f"""
    SELECT f.fact_id
      FROM unnest($2::text[], $3::text[], $4::int[], $5::bytea[]) WITH ORDINALITY
        AS g(fact_type, fact_key, schema_version, payload_hash, position)
     {EQUAL_FACT}
     ORDER BY g.position
"""
INSERT_MEMBER_SOURCES: Final[LiteralString] = """
    INSERT INTO fact_sources (tenant_id, fact_id, document_version_id, source_path, members)
    SELECT $1, g.fact_id, g.document_version_id, g.source_path,
           ARRAY(SELECT jsonb_array_elements_text(g.members::jsonb))
      FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[])
        AS g(fact_id, document_version_id, source_path, members)
        ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedFact:
    """A fact that no document states by itself, the version it counts most to, and the members from each place."""

    fact: SnapshotFact
    document_version_id: DocumentVersionId
    source_path: str
    sources: Mapping[tuple[DocumentVersionId, str], Sequence[str]] = field(default_factory=dict)


async def insert_derived_facts(
    conn: Connection, tenant: TenantId, derived_facts: Sequence[DerivedFact], *, at: datetime
) -> list[FactId]:
    """Insert facts that no document states by itself, with their sources; return their ids in some order."""
    if not derived_facts:
        return []
    # Always in the same order: two transactions that insert the same facts must not deadlock.
    rows = sorted(derived_facts, key=lambda each: (each.fact.fact_type, each.fact.fact_key, each.fact.digest()))
    identity = (
        [each.fact.fact_type for each in rows],
        [each.fact.fact_key for each in rows],
        [each.fact.schema_version for each in rows],
    )
    hashes = [each.fact.digest() for each in rows]
    await conn.execute(
        INSERT_DERIVED_FACTS,
        tenant,
        at,
        [clock.new_id() for _ in rows],
        *identity,
        [each.document_version_id for each in rows],
        [each.source_path for each in rows],
        [canonical_json.encode(each.fact.payload) for each in rows],
        hashes,
    )
    ids = [FactId(row["fact_id"]) for row in await conn.fetch(SELECT_EQUAL_FACTS, tenant, *identity, hashes)]
    sources = [
        (fact_id, version, path, orjson.dumps(list(members)).decode())
        for fact_id, each in zip(ids, rows, strict=True)
        for (version, path), members in each.sources.items()
    ]
    if sources:
        await conn.execute(INSERT_MEMBER_SOURCES, tenant, *map(list, zip(*sources, strict=True)))
    return ids
