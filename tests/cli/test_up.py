"""`bpc up`: ready when it says so, there until it is told to stop, and then gone."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.program import Program, nothing_runs, wait_until


@pytest.fixture(scope="module")
def bpc(run_folder: Path) -> Program:
    """One data folder for all: new in the first test, used before in the others, free again after each."""
    folder = Path(tempfile.mkdtemp(prefix="up-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    return Program(folder, {"BPC_LOG_LEVEL": "warn"})  # requests are logged; nothing else is to be said


@contextmanager
def running(bpc: Program) -> "Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]":
    """`bpc up --json` from its one line on; whatever happens, it does not outlive the test."""
    process = bpc.start("up", "--port", "0", "--json")
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def answers(url: str) -> bool:
    return httpx2.get(f"{url}/v1/health/ready").status_code == 200


def assert_gone(bpc: Program) -> None:
    wait_until(lambda: nothing_runs(bpc.data_dir))
    with (bpc.data_dir / "postgres.users").open() as users:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_everything_is_and_stops_cleanly_when_told(bpc: Program, how: signal.Signals) -> None:
    with running(bpc) as (process, told):
        assert told.keys() == {"url", "api_key", "tenant_id", "data_dir"}
        assert told["data_dir"] == str(bpc.data_dir)
        assert (bpc.data_dir / "keys" / "dev-api-key").read_text().strip() == told["api_key"]
        assert told["url"].startswith("http://127.0.0.1:")
        assert answers(told["url"])

        process.send_signal(how)
        out, err = process.communicate()

    assert (process.returncode, out, err) == (0, "", "")
    assert_gone(bpc)


def test_a_second_one_shares_the_database_and_keeps_it_when_the_first_leaves(bpc: Program) -> None:
    with running(bpc) as (first, told), running(bpc) as (second, told_again):
        assert told_again == {**told, "url": told_again["url"]}
        assert told_again["url"] != told["url"]

        first.send_signal(signal.SIGINT)
        assert first.wait() == 0
        assert answers(told_again["url"])

        second.send_signal(signal.SIGINT)
        assert second.wait() == 0
    assert_gone(bpc)


def test_killing_it_leaves_nothing_running(bpc: Program) -> None:
    # Measuring coverage, it would leave half a file behind.
    with running(replace(bpc, measured=False)) as (process, told):
        assert answers(told["url"])
        process.kill()
        process.wait()

        assert_gone(bpc)


def test_a_person_is_told_how_to_go_on_and_how_to_stop(bpc: Program) -> None:
    process = bpc.start("up", "--port", "0")
    assert process.stdout is not None
    shown = [process.stdout.readline() for _ in range(6)]

    process.send_signal(signal.SIGINT)
    out, err = process.communicate()

    assert shown[0] == "bpc is up\n"
    assert shown[1].startswith("  API        http://127.0.0.1:")
    assert shown[4].startswith("  API key    bpc_")
    assert shown[5] == "Ctrl-C stops it\n"
    assert (process.returncode, out, err) == (0, "stopped\n", "")
    assert_gone(bpc)


def test_a_database_that_is_not_there_is_unavailable(bpc: Program) -> None:
    ended = bpc.having(DATABASE_URL="postgresql://ada@127.0.0.1:1/bpc").run("up", "--json")

    assert ended.code == 69
    assert ended.json()["error"]["code"] == "DB_UNAVAILABLE"


def test_a_port_that_is_taken_is_told_and_leaves_nothing_running(bpc: Program) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        ended = bpc.run("up", "--port", str(port), "--json")

    assert ended.code == 78
    assert f"cannot listen on 127.0.0.1:{port}" in ended.json()["error"]["message"]
    assert_gone(bpc)


def test_what_is_submitted_is_done_by_the_worker_inside(bpc: Program) -> None:
    with running(bpc) as (_, told):
        here = bpc.having(BPC_URL=told["url"])

        uploaded = here.run("upload", "-", "--kind", "BOM", "--wait", "--json", stdin=b"no bill of materials").json()

    assert uploaded["error"]["code"] == "VALIDATION_ERROR"
    assert uploaded["error"]["details"]["status"] == "FAILED"
