"""Specification of reading facts from a document: all or none, once, and recorded."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from itertools import count, islice
from typing import Any

import pytest
from service_jobs import Handlers, LimitedProcesses, ProcessLimits, ProcessPool, UnavailableProcesses
from service_jobs.testing import InlineRun, run_inline

from bpc.core.audit.events import EventStream
from bpc.core.documents.reader import read_document
from bpc.core.formats.file_types import CSV, JSON
from bpc.core.formats.ids import AggregateId, DocumentVersionId, TenantId
from bpc.pipeline.facts import MAX_INLINE_BYTES, READ_LIMITS, ParseOrder, ParseOutcome, declare_parse_job
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery
from bpc.storage.database import Database
from bpc.storage.evidence import documents, facts, parse_results
from bpc.storage.evidence.facts import FactFilter
from tests.measurements import RecordMeasurement, allow_seconds
from tests.pipeline.document_bombs import XLSX, workbook
from tests.pipeline.document_fixtures import create_unread_version

GOOD = b'{"battery":{"sku":"SKU-1","colour":"red"},"components":[{"part":"cell"},{"part":"cell"},{"part":"lid"}]}'
BAD = b'{"battery":{"sku":"SKU-1","colour":"red"},"components":[{"part":"cell","mass_g":"much"},{"part":7}]}'


async def _run_parse(
    conn: Connection, tenant: TenantId, version: DocumentVersionId, reader_pool: LimitedProcesses | None = None
) -> InlineRun[ParseOutcome]:
    order = ParseOrder(document_version_id=version, actor_id=None)
    job = declare_parse_job(Handlers(), reader_pool=reader_pool or UnavailableProcesses())
    return await run_inline(job, order, tenant=tenant, conn=conn)


@pytest.fixture
async def reader_pool() -> AsyncIterator[ProcessPool]:
    processes = ProcessPool(1, limits=READ_LIMITS)
    yield processes
    await processes.close()


async def _read_events(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> list[tuple[str, Any]]:
    chain = await events.read_chain(conn, EventStream(tenant, "DocumentVersion", AggregateId(version)))
    return [(stored.event.event_type, json.loads(stored.payload_json)) for stored in chain]


async def _get_status(conn: Connection, tenant: TenantId, version: DocumentVersionId) -> str:
    return (await documents.get_document_version(conn, tenant, version)).status


async def test_a_valid_document_is_validated_and_ignored_members_are_recorded(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, GOOD)

        ran = await _run_parse(conn, tenant, version)

        counts = {"fact_count": 4, "new_fact_count": 3, "warnings": 1}
        assert ran.output == ParseOutcome(document_version_id=version, **counts)
        assert await _get_status(conn, tenant, version) == "VALIDATED"
        [(event, payload)] = await _read_events(conn, tenant, version)
        assert event == "FACTS_PARSED"
        assert len(payload.pop("facts_sha256")) == 64
        assert payload == {
            "document_id": str((await documents.get_document_version(conn, tenant, version)).document_id),
            "fact_count": 4,
            "fact_types": {"Battery": 1, "Component": 3},
            "new_fact_count": 3,
            "warnings": [{"at": "$.battery.colour", "says": "is not a member of Battery and was left out"}],
            "warnings_total": 1,
            "options": {},
        }


async def test_an_invalid_document_is_rejected_with_every_problem(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, BAD)

        ran = await _run_parse(conn, tenant, version)
        again = await _run_parse(conn, tenant, version)

        problems = [{"at": "$.components[1].part", "says": "is a number, not a text; put it in quotes"}]
        unreadable = 'is "much", not a decimal number such as 75.5; the value was left out'
        warnings = [
            {"at": "$.battery.colour", "says": "is not a member of Battery and was left out"},
            {"at": "$.components[0].mass_g", "says": unreadable},
        ]
        assert await _get_status(conn, tenant, version) == "REJECTED"
        [(event, payload)] = await _read_events(conn, tenant, version)
        assert event == "DOCUMENT_REJECTED"
        assert payload == {
            "document_id": str((await documents.get_document_version(conn, tenant, version)).document_id),
            "problems": problems,
            "problems_total": 1,
            "warnings": warnings,
            "warnings_total": 2,
            "options": {},
        }
        for outcome in (ran, again):
            assert outcome.ending == "FAILED"
            assert outcome.error is not None
            assert outcome.error.code == "VALIDATION_ERROR"
            assert outcome.error.details["problems"] == problems
        assert await facts.list_facts(conn, tenant, FactFilter(), PageQuery.after_cursor(None, 10)) == []
        stored = await parse_results.load_parse_result(conn, tenant, version)
        assert (stored.problems, stored.warnings, stored.warnings_total) == (problems, warnings, 2)


async def test_a_table_is_read_under_the_options_that_were_stored_with_it(database: Database, tenant: TenantId) -> None:
    table = b"sku;Masse [kg]\nSKU-1;1.000\n"
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, table, mime_type=CSV, read_options=b'{"locale":"comma"}')

        await _run_parse(conn, tenant, version)

        [(event, payload)] = await _read_events(conn, tenant, version)
        [fact] = await facts.list_facts(conn, tenant, FactFilter(), PageQuery.after_cursor(None, 10))
    assert (event, payload["options"]) == ("FACTS_PARSED", {"locale": "comma"})
    assert fact.payload["mass_kg"] == "1000.000000"


async def test_a_mapping_that_is_no_longer_understood_rejects_the_document(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(
            conn, tenant, b"sku\nSKU-1\n", mime_type=CSV, read_options=b'{"mapping":{"sheets":[7]}}'
        )

        ran = await _run_parse(conn, tenant, version)

        assert await _get_status(conn, tenant, version) == "REJECTED"
    assert ran.error is not None
    assert "column mapping that cannot be used" in ran.error.message


async def test_reading_a_version_again_changes_nothing(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, GOOD)
        await _run_parse(conn, tenant, version)
        before = await facts.list_facts(conn, tenant, FactFilter(), PageQuery.after_cursor(None, 10))

        again = await _run_parse(conn, tenant, version)

        assert (again.output.fact_count, again.output.new_fact_count, again.output.warnings) == (4, None, 1)
        assert await facts.list_facts(conn, tenant, FactFilter(), PageQuery.after_cursor(None, 10)) == before
        assert len(await _read_events(conn, tenant, version)) == 1


async def test_equal_facts_of_several_documents_are_one_fact_with_several_sources(
    database: Database, tenant: TenantId
) -> None:
    async with database.tenant(tenant) as conn:
        first = await create_unread_version(conn, tenant, b'{"sku":"A","total_gco2e":1.50}', kind="PCF")
        second = await create_unread_version(conn, tenant, b'[{"total_gco2e":"1.5","sku":"A"}]', kind="PCF")
        for version in (first, second):
            await _run_parse(conn, tenant, version)

        [fact] = await facts.list_facts(conn, tenant, FactFilter(), PageQuery.after_cursor(None, 10))

        assert (fact.source_document_version_id, fact.source_path) == (first, "$")
        assert {(source.document_version_id, source.source_path) for source in fact.sources} == {
            (first, "$"),
            (second, "$[0]"),
        }


async def test_every_rounding_is_recorded(database: Database, tenant: TenantId, reader_pool: ProcessPool) -> None:
    mass = {"quantityNumber": 1.23456789, "measurementUnit": "unit:gram"}
    parts = [{"ownerPartId": f"P{number}", "partQuantity": mass} for number in range(150)]
    content = json.dumps({"identifier": "EX-75", "item": [{"part": parts}]}).encode()
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, content)

        await _run_parse(conn, tenant, version, reader_pool)

        [(_, payload)] = await _read_events(conn, tenant, version)
        assert payload["warnings_total"] == 150
        assert sum("1.23456789" in warning["says"] for warning in payload["warnings"]) == 150
        assert (await parse_results.load_parse_result(conn, tenant, version)).warnings == payload["warnings"]


def _fill_text(start: str, part: str, end: str) -> bytes:
    """The largest text that is read at once, made of parts; `#` in a part is its number."""
    parts = (part.replace("#", f"{number:04}") for number in count())
    length = len(part.replace("#", "0000"))
    inside = "".join(islice(parts, (MAX_INLINE_BYTES - len(start) - len(end)) // length))
    return (start + inside.rstrip(",") + end).encode()


_EVENT = '{"epcisBody":{"eventList":[{"eventTime":"2027-01-01T00:00:00Z","epcList":["urn:epc:id:sgtin:9521234.001001.1"'
_REPORTS = ',{"type":"Temperature","value":1,"uom":"CEL"}' * (MAX_INLINE_BYTES // 100)
_UNKNOWN = "minimum_recycled_capac_#"


@pytest.mark.parametrize(
    ("kind", "mime_type", "content"),
    [
        pytest.param("BOM", JSON, _fill_text('{"battery":{"sku":"A",', f'"{_UNKNOWN}":1,', "}}"), id="unknown members"),
        pytest.param("BOM", CSV, _fill_text("sku,", f"{_UNKNOWN},", "\nA"), id="unknown columns"),
        pytest.param("BOM", CSV, _fill_text("sku,", "#,", "\nA"), id="short columns"),
        pytest.param("PCF", CSV, _fill_text("sku\n", "A\n", ""), id="rows"),
        pytest.param("PCF", JSON, _fill_text("[", "{},", "]"), id="objects"),
        pytest.param("BOM", JSON, _fill_text('{"identifier":"A","item":[{"part":[', "{},", "]}]}"), id="parts"),
        pytest.param(
            "BOM",
            JSON,
            _fill_text(
                _EVENT,
                ',"urn:epc:id:sgtin:9521234.001001.#"',
                f'],"sensorElementList":[{{"sensorReport":[{_REPORTS[1:]}]}}]}}]}}}}',
            ),
            id="items times readings",
        ),
    ],
)
def test_a_small_text_is_read_quickly_on_the_event_loop(
    kind: str, mime_type: str, content: bytes, record_measurement: RecordMeasurement, request: pytest.FixtureRequest
) -> None:
    began = time.process_time()
    read_document(kind, mime_type, content)
    seconds = time.process_time() - began

    assert MAX_INLINE_BYTES * 0.9 < len(content) <= MAX_INLINE_BYTES
    assert seconds < allow_seconds(0.05)
    record_measurement(f"read-at-once-{request.node.callspec.id.replace(' ', '-')}", seconds=round(seconds, 4))


async def test_other_work_continues_while_a_large_document_is_read(
    database: Database, tenant: TenantId, reader_pool: ProcessPool
) -> None:
    parts = [{"part": f"part {number}", "mass_g": 1.25, "name": "x" * 50} for number in range(1000)]
    content = json.dumps({"battery": {"sku": "SKU-1"}, "components": parts}).encode()
    assert len(content) > MAX_INLINE_BYTES
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, content)

        await _run_parse(conn, tenant, version, reader_pool)

        [(_, payload)] = await _read_events(conn, tenant, version)
        assert (payload["fact_count"], payload["new_fact_count"]) == (1001, 1001)


async def test_even_a_small_spreadsheet_is_read_in_a_child_process(
    database: Database, tenant: TenantId, reader_pool: ProcessPool
) -> None:
    content = workbook('<row r="2"><c t="inlineStr"><is><t>sku</t></is></c></row><row r="7"><c><v>1001</v></c></row>')
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, content, kind="PCF", mime_type=XLSX)

        nowhere = await _run_parse(conn, tenant, version)
        await _run_parse(conn, tenant, version, reader_pool)

        assert nowhere.error is not None
        assert nowhere.error.message == "no child processes are configured"
        [fact] = await facts.list_facts(conn, tenant, FactFilter(), PageQuery.after_cursor(None, 10))
        assert (fact.fact_key, fact.source_path) == ("pcf:1001", "PCF!7")


async def test_a_document_that_exceeds_a_limit_is_rejected(database: Database, tenant: TenantId) -> None:
    little = ProcessPool(1, limits=ProcessLimits(memory_bytes=200_000_000, cpu_seconds=0.05))
    content = b"sku\n" + b"A\n" * 49_000
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, content, kind="PCF", mime_type="text/csv")

        ran = await _run_parse(conn, tenant, version, little)
        await little.close()

        problems = [{"at": "$", "says": "needs more than the allowed 0.05 s; split the document"}]
        assert ran.error is not None
        assert not ran.error.retryable
        assert ran.error.details["problems"] == problems
        assert await _get_status(conn, tenant, version) == "REJECTED"


async def test_concurrent_documents_with_equal_facts_store_each_fact_once(database: Database, tenant: TenantId) -> None:
    skus = [f"SKU-{number}" for number in range(40)]
    orders = (skus, skus[::-1], skus[20:] + skus[:20])
    async with database.tenant(tenant) as conn:
        versions = [
            await create_unread_version(conn, tenant, json.dumps([{"sku": sku} for sku in order]).encode(), kind="PCF")
            for order in orders
        ]

    async def parsed(version: DocumentVersionId) -> None:
        async with database.tenant(tenant) as own:
            assert (await _run_parse(own, tenant, version)).output.fact_count == 40

    await asyncio.gather(*(parsed(version) for version in versions))

    async with database.tenant(tenant) as conn:
        fact_rows = await facts.list_facts(conn, tenant, FactFilter(), PageQuery.after_cursor(None, 200))
    assert sorted(fact.fact_key for fact in fact_rows) == sorted(f"pcf:{sku}" for sku in skus)
    assert {len(fact.sources) for fact in fact_rows} == {3}


async def test_an_unsupported_format_is_a_problem_of_the_mime_type(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        version = await create_unread_version(conn, tenant, GOOD, mime_type="application/pdf")

        ran = await _run_parse(conn, tenant, version)

        assert ran.error is not None
        assert [problem["at"] for problem in ran.error.details["problems"]] == ["mime_type"]


async def test_a_version_that_does_not_exist_fails_its_job(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        ran = await _run_parse(conn, tenant, DocumentVersionId(tenant))

        assert ran.error is not None
        assert ran.error.code == "NOT_FOUND"
