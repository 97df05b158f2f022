"""Metrics: the names that monitoring was promised, and no more series than there are routes."""

from dataclasses import replace

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from bpc import fresh
from bpc.api.app import create_app
from bpc.api.service import Service
from tests.api.conftest import Api

NAMES = {
    "bpc_http_requests_total": {"method", "path", "status"},
    "bpc_http_request_duration_seconds_bucket": {"method", "path", "le"},
    "bpc_http_request_duration_seconds_count": {"method", "path"},
    "bpc_http_request_duration_seconds_sum": {"method", "path"},
    "bpc_rate_limited_total": set(),
    "bpc_unauthorized_total": set(),
    "bpc_db_pool_in_use": set(),
    "bpc_jobs_enqueued_total": {"type"},
}


async def _samples(http: httpx2.AsyncClient) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = await http.get("/v1/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def _requests(method: str, path: str, status: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    return "bpc_http_requests_total", (("method", method), ("path", path), ("status", str(status)))


async def test_the_names_and_labels_are_the_ones_promised(http: httpx2.AsyncClient, admin: Api) -> None:
    document = (await admin.made("/v1/documents", {"kind": "BOM"}))["document_id"]
    body = {"mime_type": "application/json", "content_base64": "e30="}
    await admin.made(f"/v1/documents/{document}/versions", body)

    found = await _samples(http)

    for name, labels in NAMES.items():
        assert {frozenset(dict(given)) for known, given in found if known == name} == {frozenset(labels)}, name
    assert not [name for name, _ in found if name.endswith("_created")]


async def test_labels_are_templates_and_what_is_unknown_is_one_label(
    http: httpx2.AsyncClient, admin: Api, nobody: Api
) -> None:
    for _ in range(3):
        await admin.get(f"/v1/documents/{fresh.new_id()}")
        await http.get(f"/v1/{fresh.new_id()}")
        await http.request(f"A{fresh.new_id().hex.upper()}", "/v1/documents")
    await nobody.get("/v1/documents")

    found = await _samples(http)

    assert found[_requests("GET", "/v1/documents/{document_id}", 404)] == 3
    assert found[_requests("GET", "(none)", 404)] == 3
    assert found[_requests("(other)", "/v1/documents", 405)] == 3
    assert found["bpc_unauthorized_total", ()] == 1


async def test_switched_off_there_is_no_such_route(service: Service) -> None:
    off = replace(service, settings=service.settings.model_copy(update={"metrics_enabled": False}))
    transport = httpx2.ASGITransport(app=create_app(off))

    async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
        answer = await http.get("/v1/metrics")
        unknown = await http.get("/v1/nothing")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == unknown.json()["error"]["message"]
