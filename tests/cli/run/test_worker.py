"""`bpc worker`: runs jobs of all our types, and stops when it is told to."""

import asyncio
import json
import os
import signal
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import httpx2
import psutil
import pytest

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.settings import Settings
from bpc.storage.database import open_database
from bpc.storage.jobs import make_job_defaults
from bpc.worker.run import make_worker_options
from tests.cli.conftest import Installation
from tests.cli.program import Program, start_command, wait_until
from tests.pipeline.compile_fixtures import CompileInputs, create_compile_inputs
from tests.ports import find_free_ports


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_name_and_stops_cleanly_on_sigterm(installation: Installation, how: signal.Signals) -> None:
    with start_command(installation.bpc.with_settings(BPC_WORKER_ID="machine-7"), "worker") as (process, ready):
        process.send_signal(how)
        out, err = process.communicate()

    assert ready["worker"].startswith(f"machine-7:{process.pid}:")
    assert (process.returncode, out, err) == (0, "", "")


def test_it_does_what_the_api_was_asked_for_and_logs_under_its_name(installation: Installation) -> None:
    bpc = installation.bpc.with_settings(BPC_API_KEY=installation.api_key, BPC_LOG_LEVEL="error")
    told = bpc.with_settings(BPC_LOG_LEVEL="info")

    with start_command(bpc, "api", "--port", "0") as (_, ready), start_command(told, "worker") as (process, start):
        here = bpc.with_settings(BPC_URL=ready["url"])
        ended = here.run("upload", "-", "--kind", "PCF", "--wait", "--json", stdin=b"not what it is called")
        process.terminate()
        lines = [json.loads(line) for line in process.communicate()[1].splitlines()]

    assert ended.json()["error"]["details"]["status"] == "REJECTED"
    names = {line["worker"] for line in lines if line["msg"] == "job ended"}
    assert names == {start["worker"].rpartition(":")[0]}


@pytest.mark.long
@pytest.mark.slow
def test_debug_shows_timings_of_sql_and_what_the_evaluator_did_and_no_secret(installation: Installation) -> None:
    tenant, key = create_tenant(installation)
    inputs = asyncio.run(insert_compile_inputs(installation, tenant))
    bpc = installation.bpc.with_settings(BPC_LOG_LEVEL="debug")
    body = {"snapshot_id": str(inputs.snapshot), "rule_package_version_id": str(inputs.rules)}
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "once"}

    with start_command(bpc, "api", "--port", "0") as (api, ready), start_command(bpc, "worker") as (worker, _):
        with httpx2.Client(base_url=ready["url"], headers=headers) as http:
            version = http.post(f"/v1/passports/{inputs.passport}/compile", json=body).json()["passport_version_id"]
            wait_until(lambda: http.get(f"/v1/passport-versions/{version}").json().get("status") == "SIGNED")
        logs = {}
        for name, process in (("api", api), ("worker", worker)):
            process.send_signal(signal.SIGTERM)
            logs[name] = process.communicate()[1]

    lines = {name: [json.loads(line) for line in log.splitlines()] for name, log in logs.items()}
    for name, table in (("api", "passports"), ("worker", "passport_versions")):
        statements = [line for line in lines[name] if line["msg"] == "statement" and table in line["sql"]]
        assert statements, name
        assert all(line["ms"] >= 0 and line["rows"] >= 0 for line in statements)
    traces = [line for line in lines["worker"] if line["msg"] == "field evaluated"]
    assert [line["path"] for line in traces] == ["battery.capacity_kwh", "battery.name", "pcf.per_kwh"]
    assert {line["passport_version_id"] for line in traces} == {version}
    secrets = [key, key.rpartition("_")[2], *(file.read_text().strip() for file in list_key_files(installation))]
    assert len(secrets) >= 4
    assert [secret for secret in secrets if secret in logs["api"] + logs["worker"]] == []


def list_key_files(installation: Installation) -> list[Path]:
    """The pepper and the private half of the signing key."""
    return [file for file in (installation.bpc.data_dir / "keys").iterdir() if file.suffix == ".key"]


def create_tenant(installation: Installation) -> tuple[TenantId, str]:
    """A new tenant, and the API key of its administrator."""
    bpc, slug = installation.bpc, f"debug-{clock.new_id().hex[-12:]}"
    tenant = bpc.run_ok("tenant", "create", slug, "--json").json()["tenant_id"]
    key = bpc.run_ok("apikey", "create", "--tenant", slug, "--role", "Admin", "--json").json()["api_key"]
    return TenantId(UUID(tenant)), key


async def insert_compile_inputs(installation: Installation, tenant: TenantId) -> CompileInputs:
    database = await open_database(installation.server.address("bpc"), pool_size=1)
    try:
        async with database.tenant(tenant) as conn:
            return await create_compile_inputs(conn, tenant, Act(None, clock.now()))
    finally:
        await database.close()


def is_replaced(owner: str, answer: httpx2.Response) -> bool:
    return answer.status_code == 200 and owner not in {worker["worker"] for worker in answer.json()["workers"]}


@pytest.mark.long
@pytest.mark.slow
def test_several_are_looked_after_as_one(installation: Installation) -> None:
    (port,) = find_free_ports(1)
    pages = f"http://127.0.0.1:{port}"
    bpc = installation.bpc.with_settings(
        BPC_WORKER_ID="machine-7", BPC_WORKER_HTTP_PORT=str(port), BPC_LOG_LEVEL="warn"
    )

    with start_command(bpc, "worker", "--processes", "2") as (process, started_line):
        pids = [int(owner.split(":")[1]) for owner in started_line["workers"]]
        ready = httpx2.get(f"{pages}/health/ready")
        os.kill(pids[0], signal.SIGKILL)
        wait_until(lambda: is_replaced(started_line["workers"][0], httpx2.get(f"{pages}/health/ready")))
        again = {child.pid for child in psutil.Process(process.pid).children()}
        figures = httpx2.get(f"{pages}/metrics").text

        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()

    assert ready.json() == {
        "status": "OK",
        "workers": [
            {"worker": owner, "checks": {"database": "OK", "claiming": "OK", "heartbeat": "OK"}}
            for owner in started_line["workers"]
        ],
    }
    assert pids[0] not in again
    assert pids[1] in again
    assert "bpc_compiles_total" in figures
    assert 'bpc_webhook_deliveries_total{status="DELIVERED"} 0.0' in figures
    assert (process.returncode, out) == (0, "")
    log_lines = [json.loads(line) for line in err.splitlines()]
    assert [line["process"] for line in log_lines if "process" in line] == ["worker 1"]
    # Whoever found out that the other one was dead says who it is itself.
    assert {line["worker"] for line in log_lines} <= {f"machine-7:{pid}" for pid in (process.pid, *again)}


@pytest.mark.parametrize("several", [(), ("--processes", "2")])
def test_a_database_that_lacks_migrations_is_refused(bpc_without_tables: Program, several: tuple[str, ...]) -> None:
    ended = bpc_without_tables.run("worker", *several, "--json")

    assert (ended.code, ended.json()["error"]["code"]) == (78, "SCHEMA_MISMATCH")


def test_every_setting_of_jobs_is_heeded(installation: Installation) -> None:
    settings = Settings(
        data_dir=installation.bpc.data_dir,
        worker_id="w",
        jobs_concurrency=3,
        jobs_outbound_concurrency=6,
        jobs_poll_interval_ms=250,
        jobs_lease_seconds=20,
        jobs_lease_renew_seconds=7,
        jobs_cancel_grace_seconds=2,
        jobs_stop_grace_seconds=9,
        jobs_max_attempts_default=8,
        jobs_ttl_days=2,
        jobs_channel_capacity=11,
        jobs_memory_concurrency=5,
    )

    options, defaults = make_worker_options(settings), make_job_defaults(settings)

    assert (options.name, options.concurrency, options.poll) == ("w", 3, 0.25)
    assert (options.aside, options.aside_concurrency) == (frozenset({"webhooks", "ingest"}), 6)
    assert (options.lease, options.renew, options.cancel_grace, options.stop_grace) == (20, 7, 2, 9)
    assert (defaults.attempts, defaults.ttl) == (8, timedelta(days=2))
    assert (defaults.memory_capacity, defaults.memory_concurrency, defaults.cancel_grace) == (11, 5, 2)
