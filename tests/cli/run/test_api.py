"""`bpc api`: answers when it says so, runs no jobs, and stops when it is told to."""

import json
import signal

import httpx2
import pytest

from bpc.cli.support.session import choose_address, format_url
from bpc.runtime.settings import Settings
from tests.cli.conftest import Installation
from tests.cli.program import STOP_SIGNALS, Program, start_command


@pytest.mark.parametrize("how", STOP_SIGNALS)
def test_it_answers_once_it_has_printed_its_url_and_stops_cleanly_on_sigterm(
    installation: Installation, how: signal.Signals
) -> None:
    bpc = installation.bpc.with_settings(BPC_LOG_LEVEL="warn")

    with start_command(bpc, "api", "--port", "0") as (process, ready):
        live = httpx2.get(f"{ready['url']}/v1/health/live")
        process.send_signal(how)
        out, err = process.communicate()

    assert live.status_code == 200
    assert ready["url"].startswith("http://127.0.0.1:")
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.long
def test_it_takes_keys_of_the_database_and_leaves_jobs_to_workers(installation: Installation) -> None:
    bpc = installation.bpc.with_settings(BPC_API_KEY=installation.api_key)

    with start_command(bpc, "api", "--port", "0") as (_, ready):
        uploaded = bpc.run("upload", "-", "--kind", "BOM", "--url", ready["url"], "--json", stdin=b"{}").json()
        job = json.loads(bpc.run_ok("get", f"/v1/jobs/{uploaded['job_id']}", "--url", ready["url"]).out)

    assert job["status"] == "QUEUED"


def test_a_database_that_lacks_migrations_is_refused(bpc_without_tables: Program) -> None:
    ended = bpc_without_tables.run("api", "--port", "0", "--json")

    assert (ended.code, ended.json()["error"]["code"]) == (78, "SCHEMA_MISMATCH")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("bpc.test", "http://bpc.test:80"),
    ],
)
def test_its_address_is_one_that_can_be_reached_from_here(host: str, url: str) -> None:
    assert format_url(host, 80) == url


def test_what_is_said_goes_before_the_settings_and_those_before_this_machine_only(installation: Installation) -> None:
    plain = Settings(data_dir=installation.bpc.data_dir)
    chosen = Settings(data_dir=installation.bpc.data_dir, http_host="0.0.0.0", http_port=81)

    assert choose_address(plain, None, None) == ("127.0.0.1", 8080)
    assert choose_address(chosen, None, None) == ("0.0.0.0", 81)
    assert choose_address(chosen, "::1", 0) == ("::1", 0)
