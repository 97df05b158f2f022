"""`bpc worker`: runs jobs of all our types, and stops when it is told to."""

import json
import os
import signal
from datetime import timedelta

import httpx2
import psutil
import pytest

from bpc.db.jobs import defaults_of
from bpc.settings import Settings
from bpc.worker.run import options_of
from tests.cli.conftest import Installation
from tests.cli.program import Program, wait_until
from tests.cli.started import started
from tests.ports import free_ports


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_says_who_it_is_and_stops_cleanly_when_told(installation: Installation, how: signal.Signals) -> None:
    with started(installation.bpc.having(BPC_WORKER_ID="machine-7"), "worker") as (process, told):
        process.send_signal(how)
        out, err = process.communicate()

    assert told["worker"].startswith(f"machine-7:{process.pid}:")
    assert (process.returncode, out, err) == (0, "", "")


def test_it_does_what_the_api_was_asked_for(installation: Installation) -> None:
    bpc = installation.bpc.having(BPC_API_KEY=installation.api_key, BPC_LOG_LEVEL="error")

    with started(bpc, "api", "--port", "0") as (_, told), started(bpc, "worker"):
        here = bpc.having(BPC_URL=told["url"])
        ended = here.run("upload", "-", "--kind", "PCF", "--wait", "--json", stdin=b"not what it is called")

    assert ended.json()["error"]["details"]["status"] == "REJECTED"


def another_instead_of(owner: str, answer: httpx2.Response) -> bool:
    return answer.status_code == 200 and owner not in {each["worker"] for each in answer.json()["workers"]}


def test_several_are_looked_after_as_one(installation: Installation) -> None:
    (port,) = free_ports(1)
    pages = f"http://127.0.0.1:{port}"
    bpc = installation.bpc.having(BPC_WORKER_ID="machine-7", BPC_WORKER_HTTP_PORT=str(port), BPC_LOG_LEVEL="warn")

    with started(bpc, "worker", "--processes", "2") as (process, told):
        pids = [int(owner.split(":")[1]) for owner in told["workers"]]
        ready = httpx2.get(f"{pages}/health/ready")
        os.kill(pids[0], signal.SIGKILL)
        wait_until(lambda: another_instead_of(told["workers"][0], httpx2.get(f"{pages}/health/ready")))
        again = {each.pid for each in psutil.Process(process.pid).children()}
        figures = httpx2.get(f"{pages}/metrics").text

        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()

    assert ready.json() == {
        "status": "OK",
        "workers": [
            {"worker": owner, "checks": {"database": "OK", "claiming": "OK", "heartbeat": "OK"}}
            for owner in told["workers"]
        ],
    }
    assert pids[0] not in again
    assert pids[1] in again
    assert "bpc_compiles_total" in figures
    assert 'bpc_webhook_deliveries_total{status="DELIVERED"} 0.0' in figures
    assert (process.returncode, out) == (0, "")
    said = [json.loads(line) for line in err.splitlines()]
    assert [line["process"] for line in said if "process" in line] == ["worker 1"]
    # Whoever found out that the other one was dead says who it is itself.
    assert {line["worker"] for line in said} <= {f"machine-7:{pid}" for pid in (process.pid, *again)}


@pytest.mark.parametrize("several", [(), ("--processes", "2")])
def test_a_database_that_lacks_migrations_is_refused(bare: Program, several: tuple[str, ...]) -> None:
    ended = bare.run("worker", *several, "--json")

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

    options, defaults = options_of(settings), defaults_of(settings)

    assert (options.name, options.concurrency, options.poll) == ("w", 3, 0.25)
    assert (options.aside, options.aside_concurrency) == (frozenset({"webhooks", "ingest"}), 6)
    assert (options.lease, options.renew, options.cancel_grace, options.stop_grace) == (20, 7, 2, 9)
    assert (defaults.attempts, defaults.ttl) == (8, timedelta(days=2))
    assert (defaults.memory_capacity, defaults.memory_concurrency, defaults.cancel_grace) == (11, 5, 2)
