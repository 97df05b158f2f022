"""A trace goes through a request: from whoever sent it, to the answer, to the jobs it submits."""

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bpc.storage.connection import Connection
from tests.api.conftest import Api

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Spans of this test's own provider: the process has only one, and other tests have none."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


async def _upload_document(admin: Api, headers: dict[str, str]) -> httpx2.Response:
    document = (await admin.post_json("/v1/documents", {"kind": "BOM"}))["document_id"]
    body = {"mime_type": "application/json", "content_base64": "e30="}
    return await admin.post(f"/v1/documents/{document}/versions", body, headers=headers)


async def _read_traceparent(superuser: Connection) -> str | None:
    traceparent: str | None = await superuser.fetchval("SELECT traceparent FROM jobs.job")
    return traceparent


async def test_the_span_of_a_request_is_a_child_of_what_was_sent_and_parent_of_its_job(
    admin: Api, superuser: Connection, spans: InMemorySpanExporter
) -> None:
    answer = await _upload_document(admin, {"traceparent": SENT})

    span = spans.get_finished_spans()[-1]
    assert span.name == "POST /v1/documents/{document_id}/versions"
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
    assert span.context is not None
    own = f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert answer.headers["traceparent"] == own
    assert await _read_traceparent(superuser) == own
    assert dict(span.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/documents/{document_id}/versions",
        "http.response.status_code": 201,
    }


async def test_what_was_sent_reaches_the_job_also_where_nobody_traces(admin: Api, superuser: Connection) -> None:
    answer = await _upload_document(admin, {"traceparent": SENT})

    assert answer.headers["traceparent"] == SENT
    assert await _read_traceparent(superuser) == SENT


async def test_what_is_no_traceparent_starts_a_trace_of_its_own(
    http: httpx2.AsyncClient, spans: InMemorySpanExporter
) -> None:
    for sent in ("", "nonsense", f"00-{'0' * 32}-{SPAN}-01", SENT + "\xff", "ff" + SENT[2:]):
        answer = await http.get("/v1/health/live", headers={b"traceparent": sent.encode("latin-1")})

        assert answer.status_code == 200
        assert TRACE not in answer.headers["traceparent"]
    assert {span.parent for span in spans.get_finished_spans()} == {None}


async def test_without_a_trace_there_is_none_in_the_answer(http: httpx2.AsyncClient) -> None:
    assert "traceparent" not in (await http.get("/v1/health/live")).headers
