"""`bpc worker`: runs jobs of all our types, and stops when it is told to."""

import signal
from datetime import timedelta

import pytest

from bpc.db.jobs import defaults_of
from bpc.settings import Settings
from bpc.worker.run import options_of
from tests.cli.conftest import Installation
from tests.cli.program import Program
from tests.cli.started import started


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

    assert ended.json()["error"]["details"]["status"] == "FAILED"


def test_a_database_that_lacks_migrations_is_refused(bare: Program) -> None:
    ended = bare.run("worker", "--json")

    assert (ended.code, ended.json()["error"]["code"]) == (78, "SCHEMA_MISMATCH")


def test_every_setting_of_jobs_is_heeded(installation: Installation) -> None:
    settings = Settings(
        data_dir=installation.bpc.data_dir,
        worker_id="w",
        jobs_concurrency=3,
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
    assert (options.lease, options.renew, options.cancel_grace, options.stop_grace) == (20, 7, 2, 9)
    assert (defaults.attempts, defaults.ttl) == (8, timedelta(days=2))
    assert (defaults.memory_capacity, defaults.memory_concurrency, defaults.cancel_grace) == (11, 5, 2)
