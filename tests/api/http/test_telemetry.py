"""Metrics: the names that monitoring was promised, and no more series than there are routes."""

import asyncio
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from service_jobs import schedules

from bpc.api.http import health_checks
from bpc.api.http.app import create_app
from bpc.api.http.metrics_server import serve_metrics
from bpc.api.http.request_context import Service
from bpc.runtime import clock
from bpc.storage.access.tenants_and_actors import SYSTEM_TENANT
from bpc.storage.backup import record_last_backup
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.tasks import job_types
from tests.api.conftest import Api
from tests.fixtures import TestServer
from tests.ports import find_free_ports

NAMES = {
    "bpc_http_requests_total": {"method", "path", "status"},
    "bpc_http_request_duration_seconds_bucket": {"method", "path", "le"},
    "bpc_http_request_duration_seconds_count": {"method", "path"},
    "bpc_http_request_duration_seconds_sum": {"method", "path"},
    "bpc_rate_limited_total": set(),
    "bpc_unauthorized_total": set(),
    "bpc_db_pool_in_use": set(),
    "bpc_db_pool_size": set(),
    "bpc_jobs_enqueued_total": {"type"},
    "bpc_build_info": {"component", "version", "build"},
    "bpc_ready": {"check"},
    "bpc_workers": set(),
    "bpc_jobs_due": set(),
    "bpc_jobs_stale": set(),
    "bpc_jobs_unhandled": set(),
    "bpc_job_oldest_due_seconds": set(),
    "bpc_disk_free_bytes": {"folder"},
    "bpc_disk_size_bytes": {"folder"},
}


async def _read_samples(http: httpx2.AsyncClient) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = await http.get("/v1/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def _request_sample(method: str, path: str, status: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    return "bpc_http_requests_total", (("method", method), ("path", path), ("status", str(status)))


async def test_the_names_and_labels_are_the_ones_promised(http: httpx2.AsyncClient, admin: Api) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "BOM"}))["document_id"]
    body = {"mime_type": "application/json", "content_base64": "e30="}
    await admin.post_json(f"/v1/documents/{document}/versions", body)

    samples = await _read_samples(http)

    for name, labels in NAMES.items():
        assert {frozenset(dict(label_pairs)) for known, label_pairs in samples if known == name} == {
            frozenset(labels)
        }, name
    assert not [name for name, _ in samples if name.endswith("_created")]


async def test_labels_are_templates_and_what_is_unknown_is_one_label(
    http: httpx2.AsyncClient, admin: Api, anonymous: Api
) -> None:
    for _ in range(3):
        await admin.get(f"/v1/documents/{clock.new_id()}")
        await http.get(f"/v1/{clock.new_id()}")
        await http.request(f"A{clock.new_id().hex.upper()}", "/v1/documents")
    await anonymous.get("/v1/documents")

    samples = await _read_samples(http)

    assert samples[_request_sample("GET", "/v1/documents/{document_id}", 404)] == 3
    assert samples[_request_sample("GET", "(none)", 404)] == 3
    assert samples[_request_sample("(other)", "/v1/documents", 405)] == 3
    assert samples["bpc_unauthorized_total", ()] == 1


async def test_what_waits_and_whether_somebody_works_is_looked_up(
    http: httpx2.AsyncClient, admin: Api, superuser: Connection
) -> None:
    document = (await admin.post_json("/v1/documents", {"kind": "BOM"}))["document_id"]
    body = {"mime_type": "application/json", "content_base64": "e30="}
    await admin.post_json(f"/v1/documents/{document}/versions", body)
    await superuser.execute("UPDATE jobs.job SET scheduled_at = jobs.clock() - interval '1 hour'")

    samples = await _read_samples(http)

    assert samples["bpc_workers", ()] == 0
    assert (samples["bpc_jobs_due", ()], samples["bpc_jobs_unhandled", ()]) == (1, 1)
    assert samples["bpc_job_oldest_due_seconds", ()] >= 3600
    assert samples["bpc_ready", (("check", "database"),)] == 1


async def test_the_nightly_rounds_and_the_last_backup_are_shown(
    http: httpx2.AsyncClient, service: Service, database: Database
) -> None:
    taken = datetime(2027, 2, 18, tzinfo=UTC)
    async with database.system(SYSTEM_TENANT) as conn:
        audit = await schedules.put_schedule(conn, SYSTEM_TENANT, job_types.list_nightly_schedules()[0])
    record_last_backup(service.settings.data_dir, taken)

    samples = await _read_samples(http)

    assert samples["bpc_schedule_next_timestamp_seconds", (("schedule", "replay-audit"),)] == audit.next_at.timestamp()
    assert samples["bpc_last_backup_timestamp_seconds", ()] == taken.timestamp()


async def test_a_backup_that_nobody_noted_is_not_shown(http: httpx2.AsyncClient, service: Service) -> None:
    (service.settings.data_dir / "last-backup").write_bytes(b"yesterday \xff")

    assert ("bpc_last_backup_timestamp_seconds", ()) not in await _read_samples(http)


async def test_without_a_database_they_still_answer_and_show_nothing_old(
    http: httpx2.AsyncClient, server: TestServer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "REPORT_KEPT_SECONDS", 0)
    assert ("bpc_workers", ()) in await _read_samples(http)
    name = database.address.database
    outside = await asyncpg.connect(**server.admin.connect_arguments())
    await outside.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    await outside.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    await outside.close()

    samples = await _read_samples(http)

    assert samples["bpc_ready", (("check", "database"),)] == 0
    assert not {"bpc_workers", "bpc_jobs_due", "bpc_job_oldest_due_seconds"} & {name for name, _ in samples}


async def test_a_disk_that_hangs_costs_its_figures_and_one_thread(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    comes_back, real = threading.Event(), shutil.disk_usage

    def hanging(folder: Path) -> object:
        comes_back.wait(30)
        return real(folder)

    monkeypatch.setattr(shutil, "disk_usage", hanging)
    monkeypatch.setattr(health_checks, "LOOK_SECONDS", 0.1)
    figure = "bpc_disk_free_bytes", (("folder", "data"),)

    sample_sets = [await _read_samples(http), *await asyncio.gather(*[_read_samples(http) for _ in range(3)])]
    [looking] = [thread for thread in threading.enumerate() if thread.name == "disks"]
    comes_back.set()
    await asyncio.to_thread(looking.join)

    assert all(figure not in samples and ("bpc_workers", ()) in samples for samples in sample_sets)
    assert looking.daemon
    assert figure in await _read_samples(http)


async def test_schedules_that_cannot_be_had_are_asked_for_once_in_a_while_and_by_one(
    http: httpx2.AsyncClient, superuser: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_count, every = 0, schedules.list_schedules

    async def counted(conn: Connection, tenant: UUID) -> object:
        nonlocal call_count
        call_count += 1
        return await every(conn, tenant)

    monkeypatch.setattr(schedules, "list_schedules", counted)
    monkeypatch.setattr(health_checks, "LOOK_SECONDS", 0.2)
    async with superuser.transaction():
        await superuser.execute("LOCK TABLE jobs.schedule")
        sample_sets = [*await asyncio.gather(*[_read_samples(http) for _ in range(3)]), await _read_samples(http)]

    assert call_count == 1
    assert all(("bpc_ready", (("check", "database"),)) in samples for samples in sample_sets)


async def test_switched_off_there_is_no_such_route(service: Service) -> None:
    off = replace(service, settings=service.settings.model_copy(update={"metrics_enabled": False}))
    transport = httpx2.ASGITransport(app=create_app(off))

    async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
        answer = await http.get("/v1/metrics")
        unknown = await http.get("/v1/nothing")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == unknown.json()["error"]["message"]


async def test_metrics_have_a_port_of_their_own_and_are_not_public_in_prod(service: Service) -> None:
    changes = {"metrics_public": False, "metrics_port": find_free_ports(1)[0]}
    private = replace(service, settings=service.settings.model_copy(update=changes))
    transport = httpx2.ASGITransport(app=create_app(private))

    async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
        public = await http.get("/v1/metrics")
    async with serve_metrics(private, "127.0.0.1") as port, httpx2.AsyncClient() as http:
        own = [await http.get(f"http://127.0.0.1:{port}{path}") for path in ("/metrics", "/v1/metrics")]
        other = await http.get(f"http://127.0.0.1:{port}/v1/passports")
    async with serve_metrics(service, "127.0.0.1") as no_port:
        pass

    assert (public.status_code, public.json()["error"]["code"]) == (404, "NOT_FOUND")
    assert [answer.status_code for answer in own] == [200, 200]
    assert all("bpc_ready" in answer.text for answer in own)
    assert (port, other.status_code, no_port) == (changes["metrics_port"], 404, None)
