"""What BPC_JOBS_* say reaches the engine: seen in how jobs of running processes behave."""

import asyncio
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx2
import pytest

from bpc.runtime import clock
from tests.cli.conftest import Installation
from tests.cli.program import start_command, wait_until

LEASE_SECONDS = 7
SETTINGS = {
    "BPC_JOBS_MAX_ATTEMPTS_DEFAULT": "2",
    "BPC_JOBS_TTL_DAYS": "3",
    "BPC_JOBS_CONCURRENCY": "1",
    "BPC_JOBS_OUTBOUND_CONCURRENCY": "1",
    "BPC_JOBS_LEASE_SECONDS": str(LEASE_SECONDS),
    "BPC_JOBS_LEASE_RENEW_SECONDS": "2",
    "BPC_JOBS_CANCEL_GRACE_SECONDS": "1",
    "BPC_JOBS_STOP_GRACE_SECONDS": "1",
    "BPC_OUTBOUND_ALLOW": "127.0.0.1",
    "BPC_LOG_LEVEL": "error",
}
SELECT_LEASE = "SELECT extract(epoch FROM lease_until - clock_timestamp())::float FROM jobs.job_lease WHERE job_id = $1"
TESTS_OF_SECONDS = """
property slow: cases(20000) seed(1) given {
  fact b("Battery", "battery:SKU-1") = any;
} => forall x: Int . implies(x == x, field("a.b") == 1);;
"""


@dataclass(frozen=True, slots=True)
class TenantProcesses:
    """The API and a worker. Webhooks go to a socket that takes them and never answers."""

    installation: Installation
    http: httpx2.Client
    other_tenant: httpx2.Client
    worker: "subprocess.Popen[str]"
    silent_url: str

    def post(self, path: str, body: Any = None, *, http: httpx2.Client | None = None) -> Any:
        answer = (http or self.http).post(path, json=body, headers={"Idempotency-Key": str(clock.new_id())})
        assert answer.is_success, answer.text
        return answer.json()

    def list_jobs(self, **query: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.http.get("/v1/jobs", params=query).json()["items"]
        return items

    def send_webhooks(self, count: int) -> list[str]:
        """The jobs of new deliveries."""
        endpoint = self.post("/v1/webhook-endpoints", {"url": self.silent_url})["webhook_endpoint_id"]
        return [str(self.post(f"/v1/webhook-endpoints/{endpoint}:test")["job_id"]) for _ in range(count)]

    def wait_for_running(self, job_type: str) -> str:
        wait_until(lambda: bool(self.list_jobs(status="RUNNING", type=job_type)))
        return str(self.list_jobs(status="RUNNING", type=job_type)[0]["job_id"])

    def read_lease_seconds(self, job_id: str) -> float:
        async def read() -> float:
            address = self.installation.server.superuser_address("bpc")
            conn = await asyncpg.connect(**address.connect_arguments())
            try:
                return float(await conn.fetchval(SELECT_LEASE, job_id))
            finally:
                await conn.close()

        return asyncio.run(read())


@pytest.fixture
def service(installation: Installation) -> Iterator[TenantProcesses]:
    with open_service(installation) as opened:
        yield opened


@contextmanager
def open_service(installation: Installation) -> Iterator[TenantProcesses]:
    bpc = installation.bpc.with_settings(**SETTINGS)
    with socket.socket() as silent, start_command(bpc, "api", "--port", "0") as (_, ready):
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}/hook"
        with (
            start_command(bpc, "worker") as (worker, _),
            open_client(installation, ready["url"]) as http,
            open_client(installation, ready["url"]) as other_tenant,
        ):
            yield TenantProcesses(installation, http, other_tenant, worker, silent_url)


def open_client(installation: Installation, url: str) -> httpx2.Client:
    """A client of a new tenant."""
    slug = f"jobs-{clock.new_id().hex[-12:]}"
    installation.bpc.run_ok("tenant", "create", slug)
    key = installation.bpc.run_ok("apikey", "create", "--tenant", slug, "--role", "Admin", "--json").json()["api_key"]
    return httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


@pytest.mark.long
@pytest.mark.slow
def test_the_settings_of_jobs_reach_the_processes_that_run(service: TenantProcesses) -> None:
    check_attempts_and_how_long_jobs_are_kept(service)
    check_how_many_webhooks_are_sent_at_once_how_long_a_lease_lasts_and_how_soon_a_job_is_cancelled(service)
    check_how_many_jobs_run_at_once(service)
    check_how_long_a_worker_takes_to_stop(service)


def check_attempts_and_how_long_jobs_are_kept(service: TenantProcesses) -> None:
    types = {item["type"]: item for item in service.http.get("/v1/job-types").json()["items"]}

    assert (types["PARSE_FACTS"]["max_attempts"], types["PARSE_FACTS"]["keep_seconds"]) == (2, 3 * 86_400)
    assert types["DELIVER_WEBHOOK"]["max_attempts"] == 40  # it has a policy of its own
    document = service.post("/v1/documents", {"kind": "BOM"})["document_id"]
    upload = service.post(
        f"/v1/documents/{document}/versions", {"mime_type": "application/json", "content_base64": "e30="}
    )
    assert service.http.get(f"/v1/jobs/{upload['job_id']}").json()["max_attempts"] == 2


def check_how_many_webhooks_are_sent_at_once_how_long_a_lease_lasts_and_how_soon_a_job_is_cancelled(
    service: TenantProcesses,
) -> None:
    jobs = service.send_webhooks(2)
    running = service.wait_for_running("DELIVER_WEBHOOK")
    [other] = set(jobs) - {running}

    assert 0 < service.read_lease_seconds(running) <= LEASE_SECONDS
    assert service.http.get(f"/v1/jobs/{other}").json()["status"] == "QUEUED"
    started = time.monotonic()
    service.post(f"/v1/jobs/{running}:cancel")
    wait_until(lambda: service.http.get(f"/v1/jobs/{running}").json()["status"] == "CANCELLED")
    assert time.monotonic() - started < 9  # ten seconds unless the settings say otherwise
    assert service.wait_for_running("DELIVER_WEBHOOK") == other


def check_how_many_jobs_run_at_once(service: TenantProcesses) -> None:
    tenants = (service.http, service.other_tenant)  # one tenant has one run of tests at a time
    for http in tenants:
        package = service.post("/v1/rule-packages", {"name": "slow rules"}, http=http)["rule_package_id"]
        texts = {"dsl_source": "field a.b @public: Int = 1;", "tests_source": TESTS_OF_SECONDS}
        version = service.post(f"/v1/rule-packages/{package}/versions", texts, http=http)["rule_package_version_id"]
        service.post(f"/v1/rule-package-versions/{version}/tests:run", {"seed": 1}, http=http)

    def list_statuses() -> list[str]:
        pages = [http.get("/v1/jobs", params={"type": "RUN_RULE_TESTS"}).json() for http in tenants]
        return sorted(page["items"][0]["status"] for page in pages)

    wait_until(lambda: "RUNNING" in list_statuses())
    assert list_statuses() == ["QUEUED", "RUNNING"]
    wait_until(lambda: "SUCCEEDED" in list_statuses())


def check_how_long_a_worker_takes_to_stop(service: TenantProcesses) -> None:  # the last one: nobody works afterwards
    service.send_webhooks(1)
    service.wait_for_running("DELIVER_WEBHOOK")

    started = time.monotonic()
    service.worker.send_signal(signal.SIGTERM)
    service.worker.communicate(timeout=60)

    assert time.monotonic() - started < 20  # thirty seconds unless the settings say otherwise
