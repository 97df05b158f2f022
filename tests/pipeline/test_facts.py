"""The step from a document to facts: all of it or nothing, once, and on record."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from itertools import count, islice
from typing import Any

import pytest

from bpc.core.documents import read_document
from bpc.core.events import Stream
from bpc.core.file_types import CSV, JSON
from bpc.core.ids import AggregateId, DocumentVersionId, TenantId
from bpc.db import documents, events, facts, readings
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.facts import Filters
from bpc.db.pages import Ask
from bpc.jobs import Handlers, Limited, Limits, Nowhere, Processes
from bpc.jobs.testing import Ran, run_inline
from bpc.pipeline.facts import READ_AT_ONCE, READING, ParseOrder, parse_job
from tests.measuring import Measured, allowed
from tests.pipeline.bombs import XLSX, workbook
from tests.pipeline.supplied import a_version

GOOD = b'{"battery":{"sku":"SKU-1","colour":"red"},"components":[{"part":"cell"},{"part":"cell"},{"part":"lid"}]}'
BAD = b'{"battery":{"sku":"SKU-1","colour":"red"},"components":[{"part":"cell","mass_g":"much"},{"part":7}]}'


async def _parsed(
    conn: Connection, tenant: TenantId, version: DocumentVersionId, reading: Limited | None = None
) -> Ran[None]:
    order = ParseOrder(document_version_id=version, actor_id=None)
    job = parse_job(Handlers(), reading=reading or Nowhere())
    return await run_inline(job, order, tenant=tenant, conn=conn)


@pytest.fixture
async def reading() -> AsyncIterator[Processes]:
    made = Processes(1, limits=READING)
    yield made
    await made.close()


async def _said(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> list[tuple[str, Any]]:
    chain = await events.read_chain(conn, Stream(tenant, "DocumentVersion", AggregateId(version)))
    return [(stored.event.event_type, json.loads(stored.payload_json)) for stored in chain]


async def _status(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> str:
    return (await documents.version(conn, tenant, version)).status


async def test_a_good_document_is_validated_and_what_nobody_reads_is_on_record(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        version = await a_version(conn, tenant, GOOD)

        ran = await _parsed(conn, tenant, version)

        assert ran.output is None
        assert await _status(conn, tenant, version) == "VALIDATED"
        [(event, payload)] = await _said(conn, tenant, version)
        assert event == "FACTS_PARSED"
        assert payload == {
            "fact_count": 4,
            "fact_types": {"Battery": 1, "Component": 3},
            "new_fact_count": 3,
            "warnings": [{"at": "$.battery.colour", "says": "is not a member of Battery and was left out"}],
            "warnings_total": 1,
        }


async def test_a_bad_document_is_rejected_for_good_with_every_problem(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        version = await a_version(conn, tenant, BAD)

        ran = await _parsed(conn, tenant, version)
        again = await _parsed(conn, tenant, version)

        problems = [
            {"at": "$.components[0].mass_g", "says": 'is "much", not a decimal number such as 75.5'},
            {"at": "$.components[1].part", "says": "is a number, not a text; put it in quotes"},
        ]
        warnings = [{"at": "$.battery.colour", "says": "is not a member of Battery and was left out"}]
        assert await _status(conn, tenant, version) == "REJECTED"
        assert await _said(conn, tenant, version) == [
            (
                "DOCUMENT_REJECTED",
                {"problems": problems, "problems_total": 2, "warnings": warnings, "warnings_total": 1},
            )
        ]
        for outcome in (ran, again):
            assert outcome.ending == "FAILED"
            assert outcome.error is not None
            assert outcome.error.code == "VALIDATION_ERROR"
            assert outcome.error.details["problems"] == problems
        assert await facts.page(conn, tenant, Filters(), Ask.of(None, 10)) == []
        kept = await readings.outcome(conn, tenant, version)
        assert (kept.problems, kept.warnings, kept.warnings_total) == (problems, warnings, 1)


async def test_reading_a_version_again_changes_nothing(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        version = await a_version(conn, tenant, GOOD)
        await _parsed(conn, tenant, version)
        before = await facts.page(conn, tenant, Filters(), Ask.of(None, 10))

        again = await _parsed(conn, tenant, version)

        assert again.output is None
        assert await facts.page(conn, tenant, Filters(), Ask.of(None, 10)) == before
        assert len(await _said(conn, tenant, version)) == 1


async def test_equal_facts_of_several_documents_are_one_with_several_sources(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        first = await a_version(conn, tenant, b'{"sku":"A","total_gco2e":1.50}', kind="PCF")
        second = await a_version(conn, tenant, b'[{"total_gco2e":"1.5","sku":"A"}]', kind="PCF")
        for version in (first, second):
            await _parsed(conn, tenant, version)

        [fact] = await facts.page(conn, tenant, Filters(), Ask.of(None, 10))

        assert (fact.source_document_version_id, fact.source_path) == (first, "$")
        assert {(source.document_version_id, source.source_path) for source in fact.sources} == {
            (first, "$"),
            (second, "$[0]"),
        }


async def test_every_rounding_is_on_record(database: Database, tenant: TenantId, reading: Processes) -> None:
    mass = {"quantityNumber": 1.23456789, "measurementUnit": "unit:gram"}
    parts = [{"ownerPartId": f"P{number}", "partQuantity": mass} for number in range(150)]
    content = json.dumps({"identifier": "EX-75", "item": [{"part": parts}]}).encode()
    async with database.tenant(tenant) as conn:
        version = await a_version(conn, tenant, content)

        await _parsed(conn, tenant, version, reading)

        [(_, payload)] = await _said(conn, tenant, version)
        assert payload["warnings_total"] == 150
        assert sum("1.23456789" in warning["says"] for warning in payload["warnings"]) == 150
        assert (await readings.outcome(conn, tenant, version)).warnings == payload["warnings"]


def _filled(start: str, part: str, end: str) -> bytes:
    """The largest text that is read at once, made of parts; `#` in a part is its number."""
    parts = (part.replace("#", f"{number:04}") for number in count())
    length = len(part.replace("#", "0000"))
    inside = "".join(islice(parts, (READ_AT_ONCE - len(start) - len(end)) // length))
    return (start + inside.rstrip(",") + end).encode()


_EVENT = '{"epcisBody":{"eventList":[{"eventTime":"2027-01-01T00:00:00Z","epcList":["urn:epc:id:sgtin:9521234.001001.1"'
_REPORTS = ',{"type":"Temperature","value":1,"uom":"CEL"}' * (READ_AT_ONCE // 100)
_UNKNOWN = "minimum_recycled_capac_#"


@pytest.mark.parametrize(
    ("kind", "mime_type", "content"),
    [
        pytest.param("BOM", JSON, _filled('{"battery":{"sku":"A",', f'"{_UNKNOWN}":1,', "}}"), id="unknown members"),
        pytest.param("BOM", CSV, _filled("sku,", f"{_UNKNOWN},", "\nA"), id="unknown columns"),
        pytest.param("BOM", CSV, _filled("sku,", "#,", "\nA"), id="short columns"),
        pytest.param("PCF", CSV, _filled("sku\n", "A\n", ""), id="rows"),
        pytest.param("PCF", JSON, _filled("[", "{},", "]"), id="objects"),
        pytest.param("BOM", JSON, _filled('{"identifier":"A","item":[{"part":[', "{},", "]}]}"), id="parts"),
        pytest.param(
            "BOM",
            JSON,
            _filled(
                _EVENT,
                ',"urn:epc:id:sgtin:9521234.001001.#"',
                f'],"sensorElementList":[{{"sensorReport":[{_REPORTS[1:]}]}}]}}]}}}}',
            ),
            id="items times readings",
        ),
    ],
)
def test_a_text_that_is_read_at_once_keeps_nobody_waiting(
    kind: str, mime_type: str, content: bytes, measured: Measured, request: pytest.FixtureRequest
) -> None:
    began = time.process_time()
    read_document(kind, mime_type, content)
    seconds = time.process_time() - began

    assert READ_AT_ONCE * 0.9 < len(content) <= READ_AT_ONCE
    assert seconds < allowed(0.05)
    measured(f"read-at-once-{request.node.callspec.id.replace(' ', '-')}", seconds=round(seconds, 4))


async def test_a_large_document_is_read_beside_other_work(
    database: Database, tenant: TenantId, reading: Processes
) -> None:
    parts = [{"part": f"part {number}", "mass_g": 1.25, "name": "x" * 50} for number in range(1000)]
    content = json.dumps({"battery": {"sku": "SKU-1"}, "components": parts}).encode()
    assert len(content) > READ_AT_ONCE
    async with database.tenant(tenant) as conn:
        version = await a_version(conn, tenant, content)

        await _parsed(conn, tenant, version, reading)

        [(_, payload)] = await _said(conn, tenant, version)
        assert (payload["fact_count"], payload["new_fact_count"]) == (1001, 1001)


async def test_a_spreadsheet_is_read_in_a_child_process_however_small(
    database: Database, tenant: TenantId, reading: Processes
) -> None:
    content = workbook('<row r="2"><c t="inlineStr"><is><t>sku</t></is></c></row><row r="7"><c><v>1001</v></c></row>')
    async with database.tenant(tenant) as conn:
        version = await a_version(conn, tenant, content, kind="PCF", mime_type=XLSX)

        nowhere = await _parsed(conn, tenant, version)
        await _parsed(conn, tenant, version, reading)

        assert nowhere.error is not None
        assert nowhere.error.message == "there are no child processes here"
        [fact] = await facts.page(conn, tenant, Filters(), Ask.of(None, 10))
        assert (fact.fact_key, fact.source_path) == ("pcf:1001", "PCF!7")


async def test_a_document_that_takes_too_much_is_rejected_for_good(database: Database, tenant: TenantId) -> None:
    little = Processes(1, limits=Limits(memory_bytes=200_000_000, cpu_seconds=0.05))
    content = b"sku\n" + b"A\n" * 49_000
    async with database.tenant(tenant) as conn:
        version = await a_version(conn, tenant, content, kind="PCF", mime_type="text/csv")

        ran = await _parsed(conn, tenant, version, little)
        await little.close()

        problems = [{"at": "$", "says": "takes more than the 0.05 s there are for it; split the document"}]
        assert ran.error is not None
        assert not ran.error.retryable
        assert ran.error.details["problems"] == problems
        assert await _status(conn, tenant, version) == "REJECTED"


async def test_documents_that_say_the_same_at_once_give_one_fact_each_way(database: Database, tenant: TenantId) -> None:
    skus = [f"SKU-{number}" for number in range(40)]
    orders = (skus, skus[::-1], skus[20:] + skus[:20])
    async with database.tenant(tenant) as conn:
        made = [
            await a_version(conn, tenant, json.dumps([{"sku": sku} for sku in order]).encode(), kind="PCF")
            for order in orders
        ]

    async def parsed(version: DocumentVersionId) -> None:
        async with database.tenant(tenant) as own:
            assert (await _parsed(own, tenant, version)).output is None

    await asyncio.gather(*(parsed(version) for version in made))

    async with database.tenant(tenant) as conn:
        found = await facts.page(conn, tenant, Filters(), Ask.of(None, 200))
    assert sorted(fact.fact_key for fact in found) == sorted(f"pcf:{sku}" for sku in skus)
    assert {len(fact.sources) for fact in found} == {3}


async def test_a_format_nobody_reads_is_a_problem_of_the_mime_type(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        version = await a_version(conn, tenant, GOOD, mime_type="application/pdf")

        ran = await _parsed(conn, tenant, version)

        assert ran.error is not None
        assert [problem["at"] for problem in ran.error.details["problems"]] == ["mime_type"]


async def test_a_version_that_does_not_exist_fails_its_job(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        ran = await _parsed(conn, tenant, DocumentVersionId(tenant))

        assert ran.error is not None
        assert ran.error.code == "NOT_FOUND"
