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

from bpc.cli.support.arguments import LOCAL_API_URL
from tests.cli.program import STOP_SIGNALS, Program, is_stopped, wait_until


@pytest.fixture(scope="module")
def bpc(run_folder: Path) -> Program:
    """One data folder for all: new in the first test, used before in the others, free again after each."""
    folder = Path(tempfile.mkdtemp(prefix="up-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    # Requests are logged; nothing else is to be said. Coverage of one test is enough, and every other starts sooner.
    return Program(folder, {"BPC_LOG_LEVEL": "warn"}, with_coverage=False)


@contextmanager
def run_up(bpc: Program) -> "Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]":
    """`bpc up --json` from its one line on; whatever happens, it does not outlive the test."""
    process = bpc.start("up", "--port", "0", "--json")
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def is_answering(url: str) -> bool:
    return httpx2.get(f"{url}/v1/health/ready").status_code == 200


def assert_gone(bpc: Program) -> None:
    wait_until(lambda: is_stopped(bpc.data_dir))
    with (bpc.data_dir / "postgres.users").open() as users:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("how", STOP_SIGNALS)
def test_it_prints_where_everything_is_and_stops_cleanly_on_sigterm(bpc: Program, how: signal.Signals) -> None:
    with run_up(replace(bpc, with_coverage=True)) as (process, ready):
        assert ready.keys() == {"url", "api_key", "tenant_id", "data_dir", "console"}
        assert ready["data_dir"] == str(bpc.data_dir)
        assert (bpc.data_dir / "keys" / "dev-api-key").read_text().strip() == ready["api_key"]
        assert ready["url"].startswith("http://127.0.0.1:")
        assert is_answering(ready["url"])
        # Passports that are issued here name this address, whatever port it was given.
        assert httpx2.get(f"{ready['url']}/.well-known/bpc-keys.json").json()["status_url"] == ready["url"]

        process.send_signal(how)
        out, err = process.communicate()

    assert (process.returncode, out, err) == (0, "", "")
    assert_gone(bpc)


@pytest.mark.long
@pytest.mark.slow
def test_a_second_one_shares_the_database_and_keeps_it_when_the_first_leaves(bpc: Program) -> None:
    with run_up(bpc) as (first, ready), run_up(bpc) as (second, told_again):
        assert told_again == {**ready, "url": told_again["url"]}
        assert told_again["url"] != ready["url"]

        first.send_signal(signal.SIGINT)
        assert first.wait() == 0
        assert is_answering(told_again["url"])

        second.send_signal(signal.SIGINT)
        assert second.wait() == 0
    assert_gone(bpc)


@pytest.mark.long
@pytest.mark.slow
def test_it_prints_how_to_go_on_and_how_to_stop(bpc: Program) -> None:
    process = bpc.start("up", "--port", "0")
    assert process.stdout is not None
    output = list(iter(process.stdout.readline, "press Ctrl-C to stop\n"))
    [state] = (bpc.data_dir / "running").iterdir()

    answer = bpc.run_ok("get", "/v1/documents?limit=1")  # without an address and a key
    pasted = subprocess.run(
        ["bash", "-c", "".join(line for line in output if line.startswith("export ")) + 'exec "$@"', "bash"]
        + [str(part) for part in bpc.command("get", "/v1/documents?limit=1")],
        env={**bpc.environment(), "BPC_DATA_DIR": str(bpc.data_dir / "elsewhere")},
        capture_output=True,
        text=True,
        check=False,
    )
    documentation = httpx2.get(output[2].split()[1])
    explicit = bpc.with_settings(BPC_URL="http://127.0.0.1:9").run("get", "/v1/documents")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()

    assert output[0] == "bpc is up\n"
    assert output[1].startswith("  API            http://127.0.0.1:")
    assert output[5].startswith("  API key        bpc_")
    assert state.name == f"{process.pid}.json"
    assert (pasted.returncode, pasted.stdout) == (0, answer.out)
    assert documentation.status_code == 200
    assert "swagger" in documentation.text.lower()
    assert (explicit.code, explicit.err.split(":")[0]) == (69, "UNREACHABLE")
    assert (process.returncode, out) == (0, "stopped\n")
    assert err == ("starting the database …\napplying migrations …\nstarting the API and a worker …\n")
    assert list((bpc.data_dir / "running").iterdir()) == []
    assert_gone(bpc)


@pytest.mark.long
def test_the_file_of_a_service_that_was_killed_is_ignored(bpc: Program) -> None:
    with run_up(bpc) as (process, ready):
        [state] = (bpc.data_dir / "running").iterdir()
        mode = state.stat().st_mode & 0o777
        process.kill()
        process.wait()

    ended = bpc.run("get", "/v1/documents")

    assert mode == 0o600
    assert json.loads(state.read_text()) == {"url": ready["url"], "api_key": ready["api_key"]}
    assert (ended.code, ended.err.split(" ")[:2]) == (69, ["UNREACHABLE:", LOCAL_API_URL])
    assert_gone(bpc)


def test_a_database_that_is_not_there_is_unavailable(bpc: Program) -> None:
    ended = bpc.with_settings(DATABASE_URL="postgresql://ada@127.0.0.1:1/bpc").run("up", "--port", "0", "--json")

    assert ended.code == 69
    assert ended.json()["error"]["code"] == "DB_UNAVAILABLE"


def test_an_occupied_port_is_reported_and_nothing_is_left_running(bpc: Program) -> None:
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = occupied.getsockname()[1]

        ended = bpc.run("up", "--port", str(port), "--json")

    assert ended.code == 78
    assert ended.json()["error"]["code"] == "PORT_IN_USE"
    assert f"cannot listen on 127.0.0.1:{port}" in ended.json()["error"]["message"]
    assert_gone(bpc)


def find_child(process: "subprocess.Popen[str]", command: str) -> psutil.Process:
    """The process that runs this command for `bpc up`."""
    (match,) = [child for child in psutil.Process(process.pid).children() if command in child.cmdline()]
    return match


def test_a_dead_process_is_restarted_and_no_request_is_refused_meanwhile(bpc: Program) -> None:
    with run_up(bpc) as (process, ready):
        here = bpc.with_settings(BPC_URL=ready["url"])
        dead = [find_child(process, "api"), find_child(process, "worker")]

        for victim in dead:
            victim.kill()
        answered = httpx2.get(f"{ready['url']}/v1/health/live", timeout=60)  # waits for the next one to take it
        uploaded = here.run("upload", "-", "--kind", "BOM", "--wait", "--json", stdin=b"no bill of materials").json()
        figures = httpx2.get(f"{ready['url']}/v1/metrics").text

        process.send_signal(signal.SIGINT)
        out, err = process.communicate()

    assert answered.status_code == 200
    assert uploaded["error"]["details"]["status"] == "REJECTED"
    assert 'bpc_jobs_completed_total{status="FAILED",type="PARSE_FACTS"} 1.0' in figures
    assert 'bpc_http_requests_total{method="GET",path="/v1/health/live",status="200"} 1.0' in figures
    assert (process.returncode, out) == (0, "")
    log_lines = [json.loads(line) for line in err.splitlines()]
    again = {line["process"]: line["reason"] for line in log_lines if line["component"] == "up"}
    assert again == {"api": "signal 9", "worker 1": "signal 9"}
    assert_gone(bpc)


def test_killing_it_leaves_nothing_running(bpc: Program) -> None:
    # Measuring coverage, it would leave half a file behind.
    with run_up(bpc) as (process, ready):
        assert is_answering(ready["url"])
        inside = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()

        assert psutil.wait_procs(inside, timeout=60)[1] == []
        assert_gone(bpc)


@pytest.mark.long
@pytest.mark.slow
def test_a_data_folder_that_is_deleted_meanwhile_is_noticed(bpc: Program, data_dir: Path) -> None:
    with run_up(replace(bpc, data_dir=data_dir)) as (process, _):
        inside = psutil.Process(process.pid).children(recursive=True)
        data_dir.rename(data_dir.with_name("elsewhere"))
        out, _ = process.communicate()

    assert process.returncode == 69
    assert "was deleted or moved while bpc was using it" in json.loads(out)["error"]["message"]
    assert psutil.wait_procs(inside, timeout=60)[1] == []


@pytest.mark.slow
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
            ready = json.loads(process.stdout.readline())
            answered = is_answering(url)
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        finally:
            process.kill()
            process.communicate()
        with socket.create_connection(held.getsockname()):
            pass  # it waits for whoever comes next

    assert (ready["url"], answered, code) == (url, True, 0)
    wait_until(lambda: is_stopped(bpc.data_dir))
