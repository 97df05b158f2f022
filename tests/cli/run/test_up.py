"""`bpc up`: ready when it says so, there until it is told to stop, and then gone."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from tests.cli.program import Program, nothing_runs, wait_until


@pytest.fixture(scope="module")
def bpc(run_folder: Path) -> Program:
    """One data folder for all: new in the first test, used before in the others, free again after each."""
    folder = Path(tempfile.mkdtemp(prefix="up-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    # Requests are logged; nothing else is to be said. Coverage of one test is enough, and every other starts sooner.
    return Program(folder, {"BPC_LOG_LEVEL": "warn"}, measured=False)


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
    with running(replace(bpc, measured=True)) as (process, told):
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
    assert (process.returncode, out) == (0, "stopped\n")
    assert err == ("starting the database …\nbringing its tables up to date …\nstarting the API and a worker …\n")
    assert_gone(bpc)


def test_a_database_that_is_not_there_is_unavailable(bpc: Program) -> None:
    ended = bpc.having(DATABASE_URL="postgresql://ada@127.0.0.1:1/bpc").run("up", "--port", "0", "--json")

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


def child(process: "subprocess.Popen[str]", command: str) -> psutil.Process:
    """The process that runs this command for `bpc up`."""
    (found,) = [each for each in psutil.Process(process.pid).children() if command in each.cmdline()]
    return found


def test_what_dies_comes_back_and_nobody_is_refused_meanwhile(bpc: Program) -> None:
    with running(bpc) as (process, told):
        here = bpc.having(BPC_URL=told["url"])
        dead = [child(process, "api"), child(process, "worker")]

        for each in dead:
            each.kill()
        answered = httpx2.get(f"{told['url']}/v1/health/live", timeout=60)  # waits for the next one to take it
        uploaded = here.run("upload", "-", "--kind", "BOM", "--wait", "--json", stdin=b"no bill of materials").json()
        figures = httpx2.get(f"{told['url']}/v1/metrics").text

        process.send_signal(signal.SIGINT)
        out, err = process.communicate()

    assert answered.status_code == 200
    assert uploaded["error"]["details"]["status"] == "REJECTED"
    assert 'bpc_jobs_completed_total{status="FAILED",type="PARSE_FACTS"} 1.0' in figures
    assert 'bpc_http_requests_total{method="GET",path="/v1/health/live",status="200"} 1.0' in figures
    assert (process.returncode, out) == (0, "")
    said = [json.loads(line) for line in err.splitlines()]
    again = {line["process"]: line["reason"] for line in said if line["component"] == "up"}
    assert again == {"api": "signal 9", "worker 1": "signal 9"}
    assert_gone(bpc)


def test_killing_it_leaves_nothing_running(bpc: Program) -> None:
    # Measuring coverage, it would leave half a file behind.
    with running(bpc) as (process, told):
        assert answers(told["url"])
        inside = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()

        assert psutil.wait_procs(inside, timeout=60)[1] == []
        assert_gone(bpc)


def test_a_data_folder_that_is_deleted_meanwhile_is_noticed(bpc: Program, data_dir: Path) -> None:
    with running(replace(bpc, data_dir=data_dir)) as (process, _):
        inside = psutil.Process(process.pid).children(recursive=True)
        data_dir.rename(data_dir.with_name("elsewhere"))
        out, _ = process.communicate()

    assert process.returncode == 69
    assert "was deleted or moved while bpc was using it" in json.loads(out)["error"]["message"]
    assert psutil.wait_procs(inside, timeout=60)[1] == []


def test_it_answers_on_a_socket_that_a_service_manager_holds_and_leaves_it_open(bpc: Program) -> None:
    # sd_listen_fds(3): the socket is descriptor 3, and who gets it is told its own number.
    handing_over = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3);"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); os.execv(sys.argv[2], sys.argv[2:])"
    )
    with socket.create_server(("127.0.0.1", 0)) as held:
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-c", handing_over, str(held.fileno()), *bpc.command("up", "--json")],
            env=bpc.environment(),
            cwd="/",
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[held.fileno()],
        )
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            answered = answers(url)
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        finally:
            process.kill()
            process.communicate()
        with socket.create_connection(held.getsockname()):
            pass  # it waits for whoever comes next

    assert (told["url"], answered, code) == (url, True, 0)
    wait_until(lambda: nothing_runs(bpc.data_dir))
