"""Specification of the plans: a page of facts or snapshots costs a page, however many there are.

Asked for as the service has them after a while, when PostgreSQL has decided whether to keep one plan for a statement,
and really run: nothing sorts, and no scan reads more rows than the page has.
"""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest
from tests.jobs.support.query_plans import copy_database

from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.connection import HIGHEST_ID, LATEST_TIME, Connection
from bpc.storage.database import open_database
from bpc.storage.evidence import facts, snapshots
from tests.fixtures import TestServer

TENANT: Final = TenantId(UUID(int=0xA))
OTHER: Final = UUID(int=0xB)
DOCUMENT: Final = UUID(int=0xD)
SNAPSHOT: Final = UUID(int=0xE)
MANY: Final = 6_000
PAGE: Final = 21
MIDDLE: Final = datetime(2027, 1, 3, tzinfo=UTC), UUID(int=2**127)

FILLS: Final = (
    "INSERT INTO documents (tenant_id, document_id, kind) SELECT unnest($1::uuid[]), '{document}', 'BOM'",
    """INSERT INTO document_versions (tenant_id, document_version_id, document_id, version, status, mime_type, sha256,
                                      content)
       SELECT t, v, '{document}', row_number() OVER (PARTITION BY t), 'VALIDATED', 'application/json',
              sha256(v::text::bytea), ''
         FROM unnest($1::uuid[]) t, unnest(ARRAY['{document}'::uuid, gen_random_uuid()]) v""",
    """INSERT INTO facts (tenant_id, fact_id, fact_type, fact_key, schema_version, source_document_version_id,
                          source_path, payload, payload_canonical, payload_hash, created_at)
       SELECT t, gen_random_uuid(), k, CASE k WHEN 'Blinding' THEN 'blinding:' || gen_random_uuid()
                                              ELSE 'component:SKU-' || n % 100 || ':' || n END, 1,
              CASE k WHEN 'Blinding' THEN NULL ELSE '{document}'::uuid END,
              CASE k WHEN 'Blinding' THEN NULL ELSE '$' END, '{{}}', '{{}}', sha256(n::text::bytea),
              '2027-01-01Z'::timestamptz + n * interval '1 minute'
         FROM unnest($1::uuid[]) t, generate_series(1, {many}) n,
              LATERAL (SELECT CASE n / 7 % 4 WHEN 0 THEN 'Blinding' WHEN 1 THEN 'Battery' ELSE 'Component' END) x(k)""",
    """INSERT INTO fact_sources (tenant_id, fact_id, document_version_id, source_path)
       SELECT tenant_id, fact_id, '{document}', unnest(ARRAY['$', '$[1]']) FROM facts WHERE fact_type <> 'Blinding'""",
    """INSERT INTO data_snapshots (tenant_id, snapshot_id, status, created_at)
       SELECT t, CASE n WHEN 1 THEN '{snapshot}'::uuid ELSE gen_random_uuid() END, 'BUILDING',
              '2027-01-01Z'::timestamptz + n * interval '1 minute'
         FROM unnest($1::uuid[]) t, generate_series(1, {many}) n""",
    """INSERT INTO snapshot_items (tenant_id, snapshot_id, fact_id)
       SELECT tenant_id, '{snapshot}', fact_id FROM facts
        WHERE tenant_id = ANY($1::uuid[]) AND fact_type <> 'Blinding' AND fact_key < 'component:SKU-3'""",
)


@pytest.fixture(scope="module")
def full_database(server: TestServer, template_name: str) -> Iterator[Address]:
    """A database for all plans: nothing in it is changed."""
    with copy_database(server, template_name, _fill_database) as address:
        yield address


async def _fill_database(conn: "asyncpg.Connection[asyncpg.Record]") -> None:
    both = [TENANT, OTHER]
    await conn.execute(
        "INSERT INTO tenants (tenant_id, slug, name) SELECT t, 'tenant-' || n, 'T' FROM unnest($1::uuid[])"
        " WITH ORDINALITY AS u(t, n)",
        both,
    )
    for fill in FILLS:
        statement = fill.format(document=DOCUMENT, snapshot=SNAPSHOT, many=MANY)
        await conn.execute(statement, *([both] if "$1" in statement else []))
    await conn.execute("VACUUM ANALYZE")


@pytest.fixture
async def conn(full_database: Address) -> AsyncIterator[Connection]:
    opened = await open_database(full_database, pool_size=1)
    async with opened.tenant(TENANT) as conn:
        yield conn
    await opened.close()


async def explain_analyze(conn: Connection, statement: str, *arguments: object) -> list[dict[str, Any]]:
    """The nodes of the plan, with what each of them really did."""
    await conn.execute(f"PREPARE asked AS {statement}")
    values = ", ".join("NULL" if value is None else f"'{value}'" for value in arguments)
    text = ""
    for _ in range(6):  # after five executions, a generic plan is kept if it is not thought to cost more
        [[text]] = await conn.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE asked ({values})")
    await conn.execute("DEALLOCATE asked")
    return list(_iter_nodes(json.loads(text)[0]["Plan"]))


def _iter_nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _iter_nodes(below)


def assert_costs_a_page(nodes: list[dict[str, Any]], *, most: int = PAGE) -> None:
    """Every scan is of an index, and reads no more than `most` rows; nothing is sorted."""
    for node in nodes:
        kind = node["Node Type"]
        assert kind not in {"Seq Scan", "Sort", "Incremental Sort", "Bitmap Heap Scan", "HashAggregate"}, json.dumps(
            nodes[0]
        )
        if "Scan" in kind:
            read = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            assert read <= most, json.dumps(node)
    assert nodes[0]["Actual Rows"] == PAGE, "there is more than a page"


@pytest.mark.parametrize("place", [(LATEST_TIME, HIGHEST_ID), MIDDLE])
async def test_facts_and_snapshots_by_time_cost_a_page(conn: Connection, place: tuple[datetime, UUID]) -> None:
    by_time = await explain_analyze(conn, facts.SELECT_FACT_PAGE, TENANT, *place, PAGE)
    of_type = await explain_analyze(conn, facts.SELECT_FACT_PAGE_BY_TYPE, TENANT, *place, PAGE, "Battery")
    snapshot_list = await explain_analyze(conn, snapshots.SELECT_SNAPSHOT_PAGE, TENANT, *place, PAGE)

    for nodes, index in (
        (by_time, "facts_by_time"),
        (of_type, "facts_of_type_by_time"),
        (snapshot_list, "data_snapshots_by_time"),
    ):
        assert_costs_a_page(nodes)
        assert index in {node.get("Index Name") for node in nodes}


@pytest.mark.parametrize("prefix", ["component:", "component:SKU-7"])
async def test_facts_by_key_cost_a_page_on_every_page(conn: Connection, prefix: str) -> None:
    place: tuple[object, object] = LATEST_TIME, HIGHEST_ID
    for _ in range(3):
        keys = prefix, facts.prefix_end(prefix)
        by_key = await explain_analyze(conn, facts.SELECT_FACT_PAGE_BY_KEY, TENANT, *place, PAGE, *keys)
        of_type = await explain_analyze(
            conn, facts.SELECT_FACT_PAGE_BY_TYPE_AND_KEY, TENANT, *place, PAGE, *keys, "Component"
        )

        for nodes, index in ((by_key, "facts_by_key"), (of_type, "facts_of_type_by_key")):
            assert_costs_a_page(nodes)
            assert index in {node.get("Index Name") for node in nodes}
        last = (await conn.fetch(facts.SELECT_FACT_PAGE_BY_KEY, TENANT, *place, PAGE, *keys))[-1]
        place = last["created_at"], last["fact_id"]


async def test_facts_of_a_document_and_of_a_snapshot_cost_a_page(conn: Connection) -> None:
    of_document = await explain_analyze(
        conn, facts.SELECT_FACT_PAGE_OF_DOCUMENT, TENANT, HIGHEST_ID, PAGE, DOCUMENT, None, ""
    )
    of_snapshot = await explain_analyze(conn, facts.SELECT_FACT_PAGE_OF_SNAPSHOT, TENANT, HIGHEST_ID, PAGE, SNAPSHOT)

    # Each fact of this document has two sources in it.
    assert_costs_a_page(of_document, most=2 * PAGE + 1)
    assert_costs_a_page(of_snapshot)


async def test_the_sources_of_a_page_are_found_by_their_facts(conn: Connection) -> None:
    ids = [row["fact_id"] for row in await conn.fetch(facts.SELECT_FACT_PAGE, TENANT, LATEST_TIME, HIGHEST_ID, PAGE)]
    array = "{" + ",".join(map(str, ids)) + "}"

    nodes = await explain_analyze(conn, facts.SELECT_SOURCES, TENANT, array, 100)

    scans = [node for node in nodes if node.get("Relation Name") == "fact_sources"]
    assert [node["Index Name"] for node in scans] == ["fact_sources_pkey"]
    assert scans[0]["Actual Rows"] * scans[0]["Actual Loops"] == 2 * PAGE
