"""Which facts about a product count, and where each is from: what documents say now, and all their readings.

Rules of believing: a supplier's rank, then the time of the statement, then the document's id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

import asyncpg
import orjson

from bpc.core.facts.merge import UnreadableValue
from bpc.core.facts.provenance import DocumentOrigin, MemberOrigin
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import DocumentId, DocumentVersionId, FactId, TenantId
from bpc.storage.connection import Connection
from bpc.storage.evidence.facts import JOIN_SOURCES, prefix_end

# A document may state the same fact at several places of a version: the first place stands for all.
#
# What thousands of facts have in common (the version, its document, its supplier) is looked up once for each version:
# `said` are the facts, `versions` the facts of each version as arrays, and FROM_ORIGINS makes rows of these again.
# A join of the facts themselves compares each with each document if the planner expects a few of them.
SAID: Final[LiteralString] = f"""
      SELECT DISTINCT ON (k.fact_id, s.document_version_id)
             k.fact_id, k.fact_type, k.fact_key, k.payload_hash, s.document_version_id, s.source_path,
             s.member_places, s.unreadable
        FROM known k {JOIN_SOURCES}
       WHERE s.members IS NULL
       ORDER BY k.fact_id, s.document_version_id, s.source_path COLLATE "C"
    ), versions AS MATERIALIZED (
      SELECT document_version_id, array_agg(fact_id) AS fact_ids, array_agg(fact_type) AS fact_types,
             array_agg(fact_key) AS fact_keys, array_agg(payload_hash) AS payload_hashes,
             array_agg(source_path) AS source_paths, array_agg(member_places) AS member_places,
             array_agg(unreadable) AS unreadable
        FROM said GROUP BY document_version_id
"""
# Where a version is from, for `provenance`; a document of a ranked supplier counts before the others. Then its facts.
ORIGINS: Final[LiteralString] = """
      SELECT versions.*, f.document_id, f.stated_at, f.file_name, f.is_current, d.kind::text AS kind,
             coalesce(v.sha256, v.reread_sha256) AS sha256, p.name AS supplier, p.rank
        FROM versions
        JOIN in_force f ON f.document_version_id = versions.document_version_id
        JOIN documents d ON d.tenant_id = $1 AND d.document_id = f.document_id
        JOIN document_versions v ON v.tenant_id = $1 AND v.document_version_id = versions.document_version_id
        LEFT JOIN suppliers p ON p.tenant_id = $1 AND p.supplier_id = d.supplier_id
"""
STATED_COLUMNS: Final[LiteralString] = """
    said.fact_id, said.fact_type, said.fact_key, said.payload_hash, o.document_id, o.document_version_id,
    said.source_path, o.stated_at, said.member_places, said.unreadable, o.is_current, o.kind, o.sha256, o.file_name,
    o.supplier
"""
FROM_ORIGINS: Final[LiteralString] = """
      FROM origins o
     CROSS JOIN LATERAL unnest(o.fact_ids, o.fact_types, o.fact_keys, o.payload_hashes, o.source_paths,
                               o.member_places, o.unreadable)
        AS said(fact_id, fact_type, fact_key, payload_hash, source_path, member_places, unreadable)
"""
# The statements of a version, in the order of their index.
JOIN_STATEMENTS: Final[LiteralString] = """
     CROSS JOIN LATERAL (SELECT * FROM document_statements
                          WHERE tenant_id = $1 AND document_version_id >= versions.document_version_id
                            AND document_version_id <= versions.document_version_id
                          ORDER BY document_version_id) AS st
"""
# Which facts about a product count: those of the version that each document says now. A fact of a product is found by
# its key; the statement in force is looked up once for each document, not once for each fact.
SELECT_STATED_FACTS: Final[LiteralString] = f"""
    WITH known AS (
      SELECT fact_id, fact_type, fact_key, payload_hash FROM facts
       WHERE tenant_id = $1 AND fact_key COLLATE "C" = ANY ($2::text[]) AND fact_type <> 'Blinding'
       UNION ALL
      SELECT fact_id, fact_type, fact_key, payload_hash FROM facts
       WHERE tenant_id = $1 AND fact_type <> 'Blinding'
         AND fact_key COLLATE "C" >= $3 AND fact_key COLLATE "C" < $4
    ), said AS ({SAID}
    ), in_force AS (
      SELECT d.document_id, n.document_version_id, n.stated_at, n.file_name, true AS is_current
        FROM (SELECT DISTINCT st.document_id FROM versions {JOIN_STATEMENTS}) AS d
       CROSS JOIN LATERAL (
         SELECT st.document_version_id, st.stated_at, st.file_name
           FROM document_statements st
           LEFT JOIN document_versions v
             ON v.tenant_id = $1 AND v.document_version_id = st.document_version_id
          WHERE st.tenant_id = $1 AND st.document_id = d.document_id
            AND (st.document_version_id IS NULL OR v.status = 'VALIDATED')
          ORDER BY st.sequence DESC
          LIMIT 1) AS n
    ), origins AS MATERIALIZED ({ORIGINS})
    SELECT {STATED_COLUMNS} {FROM_ORIGINS}
     ORDER BY said.fact_type COLLATE "C", said.fact_key COLLATE "C", o.rank NULLS LAST, o.stated_at DESC,
              o.document_id DESC, said.source_path COLLATE "C", said.fact_id
     LIMIT $5
"""
# Readings are kept, also those of versions that were replaced. Withdrawing a document takes back what it said before.
SELECT_READINGS: Final[LiteralString] = f"""
    WITH known AS (
      SELECT fact_id, fact_type, fact_key, payload_hash FROM facts
       WHERE tenant_id = $1 AND fact_type = 'Reading' AND fact_key COLLATE "C" >= $2 AND fact_key COLLATE "C" < $3
    ), said AS ({SAID}
    ), in_force AS (
      SELECT DISTINCT ON (st.document_id, st.document_version_id)
             st.document_id, st.document_version_id, st.stated_at, st.file_name,
             NOT EXISTS (SELECT FROM document_statements n
                           JOIN document_versions nv
                             ON nv.tenant_id = $1 AND nv.document_version_id = n.document_version_id
                          WHERE n.tenant_id = $1 AND n.document_id = st.document_id AND n.sequence > st.sequence
                            AND n.document_version_id <> st.document_version_id
                            AND nv.status = 'VALIDATED') AS is_current
        FROM versions {JOIN_STATEMENTS}
       WHERE NOT EXISTS (SELECT FROM document_statements w
                          WHERE w.tenant_id = $1 AND w.document_id = st.document_id
                            AND w.document_version_id IS NULL AND w.sequence > st.sequence)
       ORDER BY st.document_id, st.document_version_id, st.sequence DESC
    ), origins AS MATERIALIZED ({ORIGINS} WHERE v.status = 'VALIDATED')
    SELECT * FROM (
      SELECT DISTINCT ON (said.fact_key COLLATE "C", o.document_id) {STATED_COLUMNS}, o.rank {FROM_ORIGINS}
       ORDER BY said.fact_key COLLATE "C", o.document_id, o.stated_at DESC, said.source_path COLLATE "C", said.fact_id
    ) AS own
     ORDER BY fact_key COLLATE "C", rank NULLS LAST, stated_at DESC, document_id DESC
     LIMIT $4
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFact:
    """A fact that counts, and the document that says it; `is_current`: it is in the version that the document says now.

    Only a reading may be in an earlier version.
    """

    fact_id: FactId
    fact_type: str
    fact_key: str
    payload_hash: Digest
    source_path: str
    member_places: Mapping[str, str]
    unreadable: Mapping[str, UnreadableValue]
    document: DocumentOrigin
    is_current: bool = True

    def locate_member(self, member: str) -> MemberOrigin:
        return MemberOrigin(self.document, self.member_places.get(member, f"{self.source_path}.{member}"))


async def list_stated_facts(conn: Connection, tenant: TenantId, sku: str, *, limit: int) -> Sequence[StatedFact]:
    """The first facts about a product that count, by type and key; of each, the statement that is believed first."""
    single, components = [f"{kind}:{sku}" for kind in ("battery", "pcf", "dd")], f"component:{sku}:"
    rows = await conn.fetch(SELECT_STATED_FACTS, tenant, single, components, prefix_end(components), limit)
    return _to_stated_facts(rows)


async def list_readings(conn: Connection, tenant: TenantId, sku: str, *, limit: int) -> Sequence[StatedFact]:
    """The first readings of a product by kind and time; of each, what every document says, the believed one first."""
    readings = f"reading:{sku}:"
    return _to_stated_facts(await conn.fetch(SELECT_READINGS, tenant, readings, prefix_end(readings), limit))


def read_origin(row: asyncpg.Record) -> DocumentOrigin:
    """The document of a row, and since when it says this version."""
    return DocumentOrigin(
        document_id=DocumentId(row["document_id"]),
        document_version_id=DocumentVersionId(row["document_version_id"]),
        kind=row["kind"],
        sha256=Digest(row["sha256"]),
        file_name=row["file_name"],
        supplier=row["supplier"],
        stated_at=row["stated_at"],
    )


def _to_stated_facts(rows: Sequence[asyncpg.Record]) -> list[StatedFact]:
    documents: dict[tuple[DocumentId, DocumentVersionId], DocumentOrigin] = {}
    return [_to_stated_fact(row, documents) for row in rows]


def _to_stated_fact(
    row: asyncpg.Record, documents: dict[tuple[DocumentId, DocumentVersionId], DocumentOrigin]
) -> StatedFact:
    # Thousands of rows are from a few documents.
    name = DocumentId(row["document_id"]), DocumentVersionId(row["document_version_id"])
    document = documents.get(name)
    if document is None:
        document = documents[name] = read_origin(row)
    unreadable = orjson.loads(row["unreadable"]) if row["unreadable"] else {}
    return StatedFact(
        fact_id=FactId(row["fact_id"]),
        fact_type=row["fact_type"],
        fact_key=row["fact_key"],
        payload_hash=Digest(row["payload_hash"]),
        source_path=row["source_path"],
        member_places=orjson.loads(row["member_places"]) if row["member_places"] else {},
        unreadable={member: UnreadableValue(**value) for member, value in unreadable.items()},
        document=document,
        is_current=row["is_current"],
    )
