"""Facts and where they come from. A fact is written once; equal facts are one row with several sources.

The secret of a snapshot (`Blinding`) is a fact that nobody is shown: no list has it and no id finds it.

Lists are newest first. Two are in another order, so that a page costs a page whatever else is there: by key from the
last to the first where a prefix is asked for (and newest first for one key), by id in one document or snapshot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString, cast
from uuid import UUID

import asyncpg

from bpc import fresh
from bpc.core import blinding, canon
from bpc.core.digest import Digest
from bpc.core.documents import ReadFact
from bpc.core.errors import NotFound
from bpc.core.facts import SnapshotFact
from bpc.core.ids import DocumentVersionId, FactId, SnapshotId, TenantId
from bpc.db.connection import Connection
from bpc.db.pages import Ask

SOURCES_IN_A_LIST: Final = 100
MOST_SOURCES: Final = 1_000

INSERT: Final[LiteralString] = """
    INSERT INTO facts (tenant_id, fact_id, fact_type, fact_key, schema_version, source_document_version_id, source_path,
                       payload, payload_canonical, payload_hash, created_at)
    SELECT $1, g.fact_id, g.fact_type, g.fact_key, g.schema_version, $2, g.source_path,
           convert_from(g.payload_canonical, 'UTF8')::jsonb, g.payload_canonical, g.payload_hash, $3
      FROM unnest($4::uuid[], $5::text[], $6::text[], $7::int[], $8::text[], $9::bytea[], $10::bytea[])
        AS g(fact_id, fact_type, fact_key, schema_version, source_path, payload_canonical, payload_hash)
        ON CONFLICT ON CONSTRAINT facts_same_fact_key DO NOTHING
"""
# A statement of its own: it also sees equal facts that somebody else committed while ours waited for them.
INSERT_SOURCES: Final[LiteralString] = """
    INSERT INTO fact_sources (tenant_id, fact_id, document_version_id, source_path)
    SELECT $1, f.fact_id, $2, g.source_path
      FROM unnest($3::text[], $4::text[], $5::int[], $6::bytea[], $7::text[])
        AS g(fact_type, fact_key, schema_version, payload_hash, source_path)
      JOIN facts f ON f.tenant_id = $1 AND f.fact_type = g.fact_type AND f.fact_key = g.fact_key
       AND f.schema_version = g.schema_version AND f.payload_hash = g.payload_hash
        ON CONFLICT DO NOTHING
"""
INSERT_OUR_OWN: Final[LiteralString] = """
    INSERT INTO facts (tenant_id, fact_id, fact_type, fact_key, schema_version, payload, payload_canonical,
                       payload_hash, created_at)
    VALUES ($1, $2, $3, $4, $5, convert_from($6, 'UTF8')::jsonb, $6, $7, $8)
"""
COLUMNS: Final[LiteralString] = """
    f.fact_id, f.fact_type, f.fact_key, f.schema_version, f.payload_canonical, f.payload_hash,
    f.source_document_version_id, f.source_path, f.created_at
"""
ONE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM facts f WHERE f.tenant_id = $1 AND f.fact_id = $2 AND f.fact_type <> 'Blinding'
"""
KNOWN: Final[LiteralString] = """
    SELECT fact_id FROM facts WHERE tenant_id = $1 AND fact_id = ANY($2::uuid[]) AND fact_type <> 'Blinding'
"""
PAGE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM facts f
     WHERE f.tenant_id = $1 AND (f.created_at, f.fact_id) < ($2, $3) AND f.fact_type <> 'Blinding'
     ORDER BY f.created_at DESC, f.fact_id DESC
     LIMIT $4
"""
PAGE_OF_TYPE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM facts f
     WHERE f.tenant_id = $1 AND (f.created_at, f.fact_id) < ($2, $3) AND f.fact_type = $5
     ORDER BY f.created_at DESC, f.fact_id DESC
     LIMIT $4
"""
# Keys from $5 on and before $6, after the fact that the page before ended with. Where that is, is asked for in a query
# of its own: row-level security keeps a comparison with `coalesce` away from the index.
PAGE_BY_KEY: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM facts f
     WHERE f.tenant_id = $1 AND f.fact_key COLLATE "C" >= $5 AND f.fact_key COLLATE "C" < $6
       AND (f.fact_key COLLATE "C", f.created_at, f.fact_id)
         < ((SELECT coalesce((SELECT l.fact_key FROM facts l WHERE l.tenant_id = $1 AND l.fact_id = $3), $6)), $2, $3)
       AND f.fact_type <> 'Blinding'
     ORDER BY f.fact_key COLLATE "C" DESC, f.created_at DESC, f.fact_id DESC
     LIMIT $4
"""
PAGE_OF_TYPE_BY_KEY: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM facts f
     WHERE f.tenant_id = $1 AND f.fact_key COLLATE "C" >= $5 AND f.fact_key COLLATE "C" < $6
       AND (f.fact_key COLLATE "C", f.created_at, f.fact_id)
         < ((SELECT coalesce((SELECT l.fact_key FROM facts l WHERE l.tenant_id = $1 AND l.fact_id = $3), $6)), $2, $3)
       AND f.fact_type = $7
     ORDER BY f.fact_key COLLATE "C" DESC, f.created_at DESC, f.fact_id DESC
     LIMIT $4
"""
# A document may say the same thing at several places. Each fact is looked up for itself, here and below: a plain join
# may be planned as one of all there is.
PAGE_OF_DOCUMENT: Final[LiteralString] = f"""
    SELECT {COLUMNS}
      FROM (SELECT DISTINCT s.fact_id FROM fact_sources s
             WHERE s.tenant_id = $1 AND s.document_version_id = $4 AND s.fact_id < $2
             ORDER BY s.fact_id DESC) AS said
     CROSS JOIN LATERAL (SELECT * FROM facts WHERE tenant_id = $1 AND fact_id = said.fact_id LIMIT 1) AS f
     WHERE f.fact_type = coalesce($5, f.fact_type) AND starts_with(f.fact_key, $6)
     ORDER BY said.fact_id DESC
     LIMIT $3
"""
PAGE_OF_SNAPSHOT: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM snapshot_items i
     CROSS JOIN LATERAL (SELECT * FROM facts WHERE tenant_id = $1 AND fact_id = i.fact_id LIMIT 1) AS f
     WHERE i.tenant_id = $1 AND i.snapshot_id = $4 AND i.fact_id < $2 AND f.fact_type <> 'Blinding'
     ORDER BY i.fact_id DESC
     LIMIT $3
"""
# Of each type and key the fact that was said last: what was said before, and is said again, is news once more.
NEWEST_ABOUT: Final[LiteralString] = """
    SELECT DISTINCT ON (f.fact_type, f.fact_key) f.fact_id
      FROM (SELECT fact_id, fact_type, fact_key, created_at FROM facts
             WHERE tenant_id = $1 AND fact_key COLLATE "C" = ANY ($2::text[]) AND fact_type <> 'Blinding'
             UNION ALL
            SELECT fact_id, fact_type, fact_key, created_at FROM facts
             WHERE tenant_id = $1 AND fact_type <> 'Blinding'
               AND fact_key COLLATE "C" >= $3 AND fact_key COLLATE "C" < $4) AS f
     CROSS JOIN LATERAL (
       SELECT max(d.uploaded_at) AS said_at
         FROM fact_sources s
         JOIN document_versions d ON d.tenant_id = $1 AND d.document_version_id = s.document_version_id
        WHERE s.tenant_id = $1 AND s.fact_id = f.fact_id) AS sources
     ORDER BY f.fact_type, f.fact_key, sources.said_at DESC NULLS LAST, f.created_at DESC, f.fact_id DESC
"""
SOURCES: Final[LiteralString] = """
    SELECT w.fact_id, s.document_version_id, s.source_path
      FROM unnest($2::uuid[]) AS w(fact_id)
     CROSS JOIN LATERAL (SELECT document_version_id, source_path FROM fact_sources
                          WHERE tenant_id = $1 AND fact_id = w.fact_id
                          ORDER BY document_version_id, source_path
                          LIMIT $3) AS s
"""
SOURCES_TOTAL: Final[LiteralString] = "SELECT count(*) FROM fact_sources WHERE tenant_id = $1 AND fact_id = $2"


@dataclass(frozen=True, slots=True)
class Source:
    """A place in a document that says a fact."""

    document_version_id: DocumentVersionId
    source_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact, where it was said first, and where it was said at all."""

    fact_id: FactId
    fact_type: str
    fact_key: str
    schema_version: int
    payload: Mapping[str, Any]
    payload_hash: Digest
    source_document_version_id: DocumentVersionId
    source_path: str
    created_at: datetime
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which facts are asked for; all that are given must hold."""

    fact_type: str | None = None
    fact_key_prefix: str | None = None
    document_version_id: DocumentVersionId | None = None


class FactUnknown(NotFound):
    def __init__(self, fact: FactId) -> None:
        super().__init__(f"there is no fact `{fact}`", fix="GET /v1/facts lists those there are")


async def add(
    conn: Connection, tenant: TenantId, version: DocumentVersionId, facts: Sequence[ReadFact], *, at: datetime
) -> int:
    """Write what a document says, each equal fact once, each place as a source; how many facts are new."""
    # Always in one order: two documents that say the same must not wait for each other.
    rows = sorted(facts, key=lambda fact: (fact.fact_type, fact.fact_key, fact.schema_version, fact.payload_hash))
    types, keys = [fact.fact_type for fact in rows], [fact.fact_key for fact in rows]
    versions, paths = [fact.schema_version for fact in rows], [fact.source_path for fact in rows]
    payloads, hashes = [fact.payload_canonical for fact in rows], [fact.payload_hash for fact in rows]
    ids = [fresh.new_id() for _ in rows]
    done = await conn.execute(INSERT, tenant, version, at, ids, types, keys, versions, paths, payloads, hashes)
    await conn.execute(INSERT_SOURCES, tenant, version, types, keys, versions, hashes, paths)
    return int(done.rpartition(" ")[2])


async def add_our_own(conn: Connection, tenant: TenantId, fact: SnapshotFact, *, at: datetime) -> FactId:
    """Write a fact that no document says: the secret of a snapshot."""
    fact_id = FactId(fresh.new_id())
    canonical = canon.encode(fact.payload)
    await conn.execute(
        INSERT_OUR_OWN,
        tenant,
        fact_id,
        fact.fact_type,
        fact.fact_key,
        fact.schema_version,
        canonical,
        fact.digest(),
        at,
    )
    return fact_id


async def get(conn: Connection, tenant: TenantId, fact: FactId) -> tuple[Fact, int]:
    """A fact with the first of its sources, and how many it has."""
    row = await conn.fetchrow(ONE, tenant, fact)
    if row is None:
        raise FactUnknown(fact)
    [found] = await _with_sources(conn, tenant, [row], most=MOST_SOURCES)
    if len(found.sources) < MOST_SOURCES:
        return found, len(found.sources)
    return found, await conn.fetchval(SOURCES_TOTAL, tenant, fact)


async def newest_about(conn: Connection, tenant: TenantId, sku: str) -> Sequence[FactId]:
    """What is known of a product now: of each type and key the fact that was said last."""
    single, components = [f"{kind}:{sku}" for kind in ("battery", "pcf", "dd")], f"component:{sku}:"
    rows = await conn.fetch(NEWEST_ABOUT, tenant, single, components, behind(components))
    return [FactId(row["fact_id"]) for row in rows]


async def known(conn: Connection, tenant: TenantId, facts: Sequence[FactId]) -> set[FactId]:
    """Those of the ids that facts have which anybody may use."""
    return {FactId(row["fact_id"]) for row in await conn.fetch(KNOWN, tenant, facts)}


async def page(conn: Connection, tenant: TenantId, filters: Filters, ask: Ask) -> Sequence[Fact]:
    """Facts that fit the filters."""
    rows = await _rows(conn, tenant, filters, ask)
    return await _with_sources(conn, tenant, rows, most=SOURCES_IN_A_LIST)


async def page_of_snapshot(conn: Connection, tenant: TenantId, snapshot: SnapshotId, ask: Ask) -> Sequence[Fact]:
    """The facts of a snapshot, by id."""
    rows = await conn.fetch(PAGE_OF_SNAPSHOT, tenant, ask.id, ask.most, snapshot)
    return await _with_sources(conn, tenant, rows, most=SOURCES_IN_A_LIST)


async def _rows(conn: Connection, tenant: TenantId, filters: Filters, ask: Ask) -> list[asyncpg.Record]:
    prefix = filters.fact_key_prefix or ""
    if filters.fact_type == blinding.FACT_TYPE:
        return []
    if filters.document_version_id is not None:
        which = filters.document_version_id, filters.fact_type, prefix
        return await conn.fetch(PAGE_OF_DOCUMENT, tenant, ask.id, ask.most, *which)
    match filters.fact_type, prefix:
        case None, "":
            return await conn.fetch(PAGE, tenant, *ask)
        case None, _:
            return await conn.fetch(PAGE_BY_KEY, tenant, *ask, prefix, behind(prefix))
        case kind, "":
            return await conn.fetch(PAGE_OF_TYPE, tenant, *ask, kind)
        case kind, _:
            return await conn.fetch(PAGE_OF_TYPE_BY_KEY, tenant, *ask, prefix, behind(prefix), kind)


async def _with_sources(conn: Connection, tenant: TenantId, rows: Sequence[asyncpg.Record], *, most: int) -> list[Fact]:
    sources: dict[UUID, list[Source]] = {row["fact_id"]: [] for row in rows}
    for found in await conn.fetch(SOURCES, tenant, list(sources), most):
        sources[found["fact_id"]].append(Source(DocumentVersionId(found["document_version_id"]), found["source_path"]))
    return [_fact(row, tuple(sources[row["fact_id"]])) for row in rows]


def _fact(row: asyncpg.Record, sources: tuple[Source, ...]) -> Fact:
    columns = dict(row)
    payload = cast("Mapping[str, Any]", canon.decode(columns.pop("payload_canonical")))
    return Fact(**columns, payload=payload, sources=sources)


def behind(prefix: str) -> str:
    """The least text that comes after all that start with `prefix`, in the order of code points.

    The last character is raised by one; those that cannot be are dropped, and code points of surrogates skipped.
    """
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return "\U0010ffff" * 1000  # longer than any key
    last = ord(kept[-1])
    return kept[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
