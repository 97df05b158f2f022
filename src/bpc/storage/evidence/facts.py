"""Facts and their sources. A fact is written once; equal facts are one row with several sources.

Facts that are made for snapshots, such as a snapshot's secret (`Blinding`), are never listed and never returned by id.

Lists are newest first. Two have another order, so that reading a page never reads more rows than the page has: with a
key prefix, keys in descending order (newest first for one key); in one document or snapshot, by id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString, cast
from uuid import UUID

import asyncpg
import orjson

from bpc.core.audit.row_hashes import hash_rows
from bpc.core.documents.reader import ExtractedFact
from bpc.core.errors import UnknownResource
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import DocumentVersionId, FactId, SnapshotId, TenantId
from bpc.runtime import clock
from bpc.storage.connection import Connection, PageQuery, make_page_query, parse_row_count

MAX_SOURCES_IN_LIST: Final = 100
# Facts that are made for snapshots: the secret, where values are from, what is wrong about them, and summaries of
# readings.
RESERVED_FACT_TYPES: Final = frozenset({"Blinding", "Provenance", "Finding", "ReadingSeries"})
MAX_SOURCES: Final = 1_000
# Below that many new facts, even the worst plan costs little.
MANY_FACTS: Final = 100
RENEW_STATISTICS: Final[LiteralString] = "SELECT renew_statistics()"

INSERT_FACTS: Final[LiteralString] = """
    INSERT INTO facts (tenant_id, fact_id, fact_type, fact_key, schema_version, source_document_version_id, source_path,
                       payload, payload_canonical, payload_hash, created_at)
    SELECT $1, g.fact_id, g.fact_type, g.fact_key, g.schema_version, $2, g.source_path,
           convert_from(g.payload_canonical, 'UTF8')::jsonb, g.payload_canonical, g.payload_hash, $3
      FROM unnest($4::uuid[], $5::text[], $6::text[], $7::int[], $8::text[], $9::bytea[], $10::bytea[])
        AS g(fact_id, fact_type, fact_key, schema_version, source_path, payload_canonical, payload_hash)
        ON CONFLICT ON CONSTRAINT facts_same_fact_key DO NOTHING
"""
# The fact that is equal to `g`, looked up once for each: the first one from `g` on, in the order of the index, is it or
# there is none. Only one index has that order, so the plan is the same whatever is known of the table when it is made;
# a plain join has been seen to read all facts for each of thousands.
EQUAL_FACT: Final[LiteralString] = """
     CROSS JOIN LATERAL (
       SELECT fact_id, fact_type, fact_key, schema_version, payload_hash FROM facts
        WHERE tenant_id = $1 AND (fact_type, fact_key, schema_version, payload_hash)
                               >= (g.fact_type, g.fact_key, g.schema_version, g.payload_hash)
        ORDER BY fact_type, fact_key, schema_version, payload_hash
        LIMIT 1) AS f
     WHERE (f.fact_type, f.fact_key, f.schema_version, f.payload_hash)
         = (g.fact_type, g.fact_key, g.schema_version, g.payload_hash)
"""
# A separate statement: it also sees equal facts that another transaction committed while the first one waited.
INSERT_SOURCES: Final[LiteralString] = f"""
    INSERT INTO fact_sources (tenant_id, fact_id, document_version_id, source_path, member_places, unreadable)
    SELECT $1, f.fact_id, $2, g.source_path, g.member_places::jsonb, g.unreadable::jsonb
      FROM unnest($3::text[], $4::text[], $5::int[], $6::bytea[], $7::text[], $8::text[], $9::text[])
        AS g(fact_type, fact_key, schema_version, payload_hash, source_path, member_places, unreadable)
     {EQUAL_FACT}
        ON CONFLICT DO NOTHING
"""
INSERT_BLINDING_FACT: Final[LiteralString] = """
    INSERT INTO facts (tenant_id, fact_id, fact_type, fact_key, schema_version, payload, payload_canonical,
                       payload_hash, created_at)
    VALUES ($1, $2, $3, $4, $5, convert_from($6, 'UTF8')::jsonb, $6, $7, $8)
"""
FACT_COLUMNS: Final[LiteralString] = """
    f.fact_id, f.fact_type, f.fact_key, f.schema_version, f.payload_canonical, f.payload_hash,
    f.source_document_version_id, f.source_path, f.created_at
"""
# Facts that are made for snapshots are not listed. The first condition is that of the indexes.
LISTED: Final[LiteralString] = """
    f.fact_type <> 'Blinding' AND f.fact_type NOT IN ('Provenance', 'Finding', 'ReadingSeries')
"""
SELECT_FACTS: Final[LiteralString] = f"SELECT {FACT_COLUMNS} FROM facts f"
SELECT_FACT: Final[LiteralString] = f"""
    {SELECT_FACTS} WHERE f.tenant_id = $1 AND f.fact_id = $2 AND {LISTED}
"""
# The fact `f` of the id in `i`, looked up as `EQUAL_FACT` is.
JOIN_FACT_BY_ID: Final[LiteralString] = """
      JOIN LATERAL (SELECT * FROM facts WHERE tenant_id = $1 AND fact_id >= i.fact_id
                     ORDER BY fact_id LIMIT 1) AS f ON f.fact_id = i.fact_id
"""
# The sources `s` of the fact in `k`, in the order of their index.
JOIN_SOURCES: Final[LiteralString] = """
     CROSS JOIN LATERAL (SELECT * FROM fact_sources
                          WHERE tenant_id = $1 AND fact_id >= k.fact_id AND fact_id <= k.fact_id
                          ORDER BY fact_id, document_version_id) AS s
"""
SELECT_EXISTING_IDS: Final[LiteralString] = f"""
    SELECT f.fact_id FROM (SELECT DISTINCT unnest($2::uuid[])) AS i(fact_id) {JOIN_FACT_BY_ID} WHERE {LISTED}
"""
SELECT_FACT_PAGE: Final[LiteralString] = make_page_query(
    SELECT_FACTS, time="f.created_at", key="f.fact_id", where=f"AND {LISTED}"
)
SELECT_FACT_PAGE_BY_TYPE: Final[LiteralString] = make_page_query(
    SELECT_FACTS, time="f.created_at", key="f.fact_id", where="AND f.fact_type = $5"
)
# Keys from $5 up to but not including $6, after the last fact of the page before. The key of that fact comes from a
# subquery: row-level security keeps a comparison with `coalesce` away from the index.
KEY_RANGE: Final[LiteralString] = """
    f.tenant_id = $1 AND f.fact_key COLLATE "C" >= $5 AND f.fact_key COLLATE "C" < $6
       AND (f.fact_key COLLATE "C", f.created_at, f.fact_id)
         < ((SELECT coalesce((SELECT l.fact_key FROM facts l WHERE l.tenant_id = $1 AND l.fact_id = $3), $6)), $2, $3)
"""
KEY_ORDER: Final[LiteralString] = """ORDER BY f.fact_key COLLATE "C" DESC, f.created_at DESC, f.fact_id DESC LIMIT $4"""
SELECT_FACT_PAGE_BY_KEY: Final[LiteralString] = f"""
    {SELECT_FACTS} WHERE {KEY_RANGE} AND {LISTED} {KEY_ORDER}
"""
SELECT_FACT_PAGE_BY_TYPE_AND_KEY: Final[LiteralString] = f"""
    {SELECT_FACTS} WHERE {KEY_RANGE} AND f.fact_type = $7 {KEY_ORDER}
"""
# A document may state the same fact at several places. Here and below, each fact is looked up separately: the planner
# may read both tables completely for a plain join.
SELECT_FACT_PAGE_OF_DOCUMENT: Final[LiteralString] = f"""
    SELECT {FACT_COLUMNS}
      FROM (SELECT DISTINCT s.fact_id FROM fact_sources s
             WHERE s.tenant_id = $1 AND s.document_version_id = $4 AND s.fact_id < $2 AND s.members IS NULL
             ORDER BY s.fact_id DESC) AS said
     CROSS JOIN LATERAL (SELECT * FROM facts WHERE tenant_id = $1 AND fact_id = said.fact_id LIMIT 1) AS f
     WHERE f.fact_type = coalesce($5, f.fact_type) AND starts_with(f.fact_key, $6)
     ORDER BY said.fact_id DESC
     LIMIT $3
"""
SELECT_FACT_PAGE_OF_SNAPSHOT: Final[LiteralString] = f"""
    SELECT {FACT_COLUMNS} FROM snapshot_items i
     CROSS JOIN LATERAL (SELECT * FROM facts WHERE tenant_id = $1 AND fact_id = i.fact_id LIMIT 1) AS f
     WHERE i.tenant_id = $1 AND i.snapshot_id = $4 AND i.fact_id < $2 AND {LISTED}
     ORDER BY i.fact_id DESC
     LIMIT $3
"""
SELECT_PAYLOADS: Final[LiteralString] = f"""
    SELECT f.fact_id, f.schema_version, f.payload_canonical
      FROM unnest($2::uuid[]) AS i(fact_id) {JOIN_FACT_BY_ID}
"""
SELECT_SOURCES: Final[LiteralString] = """
    SELECT w.fact_id, s.document_version_id, s.source_path
      FROM unnest($2::uuid[]) AS w(fact_id)
     CROSS JOIN LATERAL (SELECT document_version_id, source_path FROM fact_sources
                          WHERE tenant_id = $1 AND fact_id = w.fact_id
                          ORDER BY document_version_id, source_path
                          LIMIT $3) AS s
"""
COUNT_SOURCES: Final[LiteralString] = "SELECT count(*) FROM fact_sources WHERE tenant_id = $1 AND fact_id = $2"


@dataclass(frozen=True, slots=True)
class FactSourceRow:
    """A place in a document that states a fact."""

    document_version_id: DocumentVersionId
    source_path: str


@dataclass(frozen=True, slots=True)
class StoredFact:
    schema_version: int
    payload: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRow:
    """A fact, its first source, and all its sources."""

    fact_id: FactId
    fact_type: str
    fact_key: str
    schema_version: int
    payload: Mapping[str, Any]
    payload_hash: Digest
    source_document_version_id: DocumentVersionId
    source_path: str
    created_at: datetime
    sources: tuple[FactSourceRow, ...]

    @property
    def sku(self) -> str | None:
        """The product that it is about: a key is `<kind>:<sku>` and, for some kinds, more."""
        return self.fact_key.split(":", 2)[1] if ":" in self.fact_key else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactFilter:
    """Which facts to list: those that match every filter that is set."""

    fact_type: str | None = None
    fact_key_prefix: str | None = None
    document_version_id: DocumentVersionId | None = None


async def insert_facts(
    conn: Connection, tenant: TenantId, version: DocumentVersionId, facts: Sequence[ExtractedFact], *, at: datetime
) -> int:
    """Insert the facts of a document, equal facts once, and each place as a source; return how many facts are new."""
    # Always in the same order: two documents with the same facts must not deadlock.
    rows = sorted(facts, key=lambda fact: (fact.fact_type, fact.fact_key, fact.schema_version, fact.payload_hash))
    types, keys = [fact.fact_type for fact in rows], [fact.fact_key for fact in rows]
    versions, paths = [fact.schema_version for fact in rows], [fact.source_path for fact in rows]
    payloads, hashes = [fact.payload_canonical for fact in rows], [fact.payload_hash for fact in rows]
    ids = [clock.new_id() for _ in rows]
    command_tag = await conn.execute(
        INSERT_FACTS, tenant, version, at, ids, types, keys, versions, paths, payloads, hashes
    )
    if len(rows) >= MANY_FACTS:
        await conn.execute(RENEW_STATISTICS)
    places = [orjson.dumps(dict(fact.member_places)).decode() if fact.member_places else None for fact in rows]
    unreadable = [_encode_unreadable(fact) for fact in rows]
    await conn.execute(INSERT_SOURCES, tenant, version, types, keys, versions, hashes, paths, places, unreadable)
    return parse_row_count(command_tag)


def hash_facts(facts: Sequence[ExtractedFact]) -> Digest:
    """The hash of all that a document states, and where."""
    return hash_rows(
        (fact.fact_type, fact.fact_key, fact.schema_version, to_hex(fact.payload_hash), fact.source_path)
        for fact in facts
    )


def _encode_unreadable(fact: ExtractedFact) -> str | None:
    values = {each.member: {"place": each.place, "says": each.says} for each in fact.unreadable}
    return orjson.dumps(values).decode() if values else None


async def insert_blinding_fact(conn: Connection, tenant: TenantId, fact: SnapshotFact, *, at: datetime) -> FactId:
    """Insert the secret of a snapshot: a fact that has no source."""
    fact_id = FactId(clock.new_id())
    canonical = canonical_json.encode(fact.payload)
    await conn.execute(
        INSERT_BLINDING_FACT,
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


async def get_fact(conn: Connection, tenant: TenantId, fact: FactId) -> tuple[FactRow, int]:
    """A fact with its first sources, and the number of all its sources."""
    row = await conn.fetchrow(SELECT_FACT, tenant, fact)
    if row is None:
        raise UnknownResource("fact", fact)
    [fact_row] = await load_sources(conn, tenant, [row], limit=MAX_SOURCES)
    if len(fact_row.sources) < MAX_SOURCES:
        return fact_row, len(fact_row.sources)
    return fact_row, await conn.fetchval(COUNT_SOURCES, tenant, fact)


async def load_stored_facts(
    conn: Connection, tenant: TenantId, fact_ids: Sequence[FactId]
) -> Mapping[FactId, StoredFact]:
    """The schema version and the payload of each fact."""
    return {
        FactId(row["fact_id"]): StoredFact(
            row["schema_version"], cast("Mapping[str, Json]", canonical_json.decode(row["payload_canonical"]))
        )
        for row in await conn.fetch(SELECT_PAYLOADS, tenant, fact_ids)
    }


async def find_existing_ids(conn: Connection, tenant: TenantId, facts: Sequence[FactId]) -> set[FactId]:
    """Those of the ids that exist and are not the secret of a snapshot."""
    return {FactId(row["fact_id"]) for row in await conn.fetch(SELECT_EXISTING_IDS, tenant, facts)}


async def list_facts(conn: Connection, tenant: TenantId, filters: FactFilter, page: PageQuery) -> Sequence[FactRow]:
    """Facts that match the filters."""
    rows = await _fetch_page(conn, tenant, filters, page)
    return await load_sources(conn, tenant, rows, limit=MAX_SOURCES_IN_LIST)


async def list_facts_of_snapshot(
    conn: Connection, tenant: TenantId, snapshot: SnapshotId, page: PageQuery
) -> Sequence[FactRow]:
    """The facts of a snapshot, by id."""
    rows = await conn.fetch(SELECT_FACT_PAGE_OF_SNAPSHOT, tenant, page.before_id, page.limit, snapshot)
    return await load_sources(conn, tenant, rows, limit=MAX_SOURCES_IN_LIST)


async def _fetch_page(conn: Connection, tenant: TenantId, filters: FactFilter, page: PageQuery) -> list[asyncpg.Record]:
    prefix = filters.fact_key_prefix or ""
    if filters.fact_type in RESERVED_FACT_TYPES:
        return []
    if filters.document_version_id is not None:
        arguments = filters.document_version_id, filters.fact_type, prefix
        return await conn.fetch(SELECT_FACT_PAGE_OF_DOCUMENT, tenant, page.before_id, page.limit, *arguments)
    match filters.fact_type, prefix:
        case None, "":
            return await conn.fetch(SELECT_FACT_PAGE, tenant, *page)
        case None, _:
            return await conn.fetch(SELECT_FACT_PAGE_BY_KEY, tenant, *page, prefix, prefix_end(prefix))
        case kind, "":
            return await conn.fetch(SELECT_FACT_PAGE_BY_TYPE, tenant, *page, kind)
        case kind, _:
            return await conn.fetch(SELECT_FACT_PAGE_BY_TYPE_AND_KEY, tenant, *page, prefix, prefix_end(prefix), kind)


async def load_sources(
    conn: Connection, tenant: TenantId, rows: Sequence[asyncpg.Record], *, limit: int
) -> list[FactRow]:
    """The facts of rows with `FACT_COLUMNS`, each with its first sources."""
    sources: dict[UUID, list[FactSourceRow]] = {row["fact_id"]: [] for row in rows}
    for source_row in await conn.fetch(SELECT_SOURCES, tenant, list(sources), limit):
        sources[source_row["fact_id"]].append(
            FactSourceRow(DocumentVersionId(source_row["document_version_id"]), source_row["source_path"])
        )
    return [_to_fact_row(row, tuple(sources[row["fact_id"]])) for row in rows]


def _to_fact_row(row: asyncpg.Record, sources: tuple[FactSourceRow, ...]) -> FactRow:
    columns = dict(row)
    payload = cast("Mapping[str, Any]", canonical_json.decode(columns.pop("payload_canonical")))
    return FactRow(**columns, payload=payload, sources=sources)


def list_key_ranges(sku: str) -> tuple[list[str], str, str, str, str]:
    """The keys of the facts about a product: some keys, and the two ranges of those with parts and with readings."""
    components, readings = f"component:{sku}:", f"reading:{sku}:"
    keys = [f"{kind}:{sku}" for kind in ("battery", "pcf", "dd")]
    return keys, components, prefix_end(components), readings, prefix_end(readings)


def prefix_end(prefix: str) -> str:
    """The first text, in the order of code points, that comes after every text that starts with `prefix`.

    Its last character is raised by one; U+10FFFF, which cannot be raised, is dropped, and surrogates are skipped.
    """
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return "\U0010ffff" * 1000  # longer than any key
    last = ord(stem[-1])
    return stem[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
