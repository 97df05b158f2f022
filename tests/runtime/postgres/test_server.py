"""Specification of the embedded server: it is there when somebody needs it, whatever was killed, and only then."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bpc.cli.support.output import find_fix
from bpc.core.errors import DatabaseUnavailable
from bpc.runtime import postgres
from bpc.runtime.postgres.cluster import Layout, find_running_postmaster, is_locked
from bpc.runtime.postgres.programs import create_passable_folder
from bpc.runtime.settings import ConfigMissing
from bpc.storage.database import prepare_embedded_server
from tests.measurements import choose_effort
from tests.runtime.postgres.server_processes import (
    USER_PROGRAM,
    find_keeper_pid,
    is_gone,
    kill_process,
    require_postmaster,
    run_query,
    start_other_user,
    wait_until,
)


@pytest.fixture
def layout(data_dir: Path) -> Iterator[Layout]:
    yield Layout(data_dir)
    wait_until(lambda: not is_locked(data_dir / "postgres.keeper"))


def test_the_server_starts_answers_and_stops_when_its_only_user_leaves(layout: Layout) -> None:
    with postgres.use_server(layout.data_dir) as server:
        assert run_query(server.superuser_address()) == 1

    wait_until(lambda: not is_locked(layout.keeper_lock))
    assert is_gone(layout)
    assert "database system is shut down" in layout.log.read_text()


def test_two_processes_share_one_server_and_the_last_one_stops_it(layout: Layout) -> None:
    other = start_other_user(layout)
    with postgres.use_server(layout.data_dir) as server:
        pid = require_postmaster(layout).pid
        kill_process(other)
        time.sleep(0.3)  # long enough for a keeper that counted wrong to have acted
        assert run_query(server.superuser_address()) == 1
        assert require_postmaster(layout).pid == pid

    wait_until(lambda: is_gone(layout))


def test_several_processes_starting_at_once_get_one_server(layout: Layout) -> None:
    count = choose_effort(test=4, shown=10, campaign=10)
    commands = [[sys.executable, "-c", USER_PROGRAM, str(layout.data_dir)] for _ in range(count)]
    others = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands
    ]
    try:
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "using\n"
        running = {
            process.pid: process.info["ppid"]
            for process in psutil.process_iter(["cmdline", "ppid"])
            if "-D" in (process.info["cmdline"] or []) and str(layout.find_cluster_folder()) in process.info["cmdline"]
        }
        # A backend that was just forked still looks like its parent.
        servers = [pid for pid, parent in running.items() if parent not in running]
        assert len(servers) == 1
    finally:
        for other in others:
            kill_process(other)
    wait_until(lambda: is_gone(layout))


def test_kill_9_of_its_last_user_stops_the_server(layout: Layout) -> None:
    kill_process(start_other_user(layout))

    wait_until(lambda: is_gone(layout))


def test_after_kill_9_of_postgres_the_server_returns_with_its_data(layout: Layout) -> None:
    with postgres.use_server(layout.data_dir) as server:
        asyncio.run(prepare_embedded_server(server, "bpc"))
        run_query(server.superuser_address("bpc"), "CREATE TABLE kept AS SELECT 42 AS x")
        killed = require_postmaster(layout).pid
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(killed) or psutil.Process(killed).status() == psutil.STATUS_ZOMBIE)

        server.ensure_running()

        assert require_postmaster(layout).pid != killed
        assert run_query(server.superuser_address("bpc"), "SELECT x FROM kept") == 42


def test_kill_9_of_the_keeper_interrupts_nobody_and_starts_a_new_keeper(layout: Layout) -> None:
    with postgres.use_server(layout.data_dir) as server:
        pid = require_postmaster(layout).pid
        killed = find_keeper_pid(layout)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: find_keeper_pid(layout) not in {0, killed})

        assert run_query(server.superuser_address()) == 1
        wait_until(lambda: is_locked(layout.keeper_lock))
        assert require_postmaster(layout).pid == pid, "the running server was adopted, not replaced"
    wait_until(lambda: is_gone(layout))


def test_kill_9_of_keeper_and_postgres_together_is_survived(layout: Layout) -> None:
    with postgres.use_server(layout.data_dir) as server:
        keeper = find_keeper_pid(layout)
        os.kill(keeper, signal.SIGKILL)
        os.kill(require_postmaster(layout).pid, signal.SIGKILL)
        wait_until(lambda: find_keeper_pid(layout) not in {0, keeper})

        server.ensure_running()

        assert run_query(server.superuser_address()) == 1


def test_a_pid_file_of_a_crash_does_not_prevent_a_start_even_if_another_process_has_the_pid(
    layout: Layout,
) -> None:
    with postgres.use_server(layout.data_dir):
        pass
    wait_until(lambda: is_gone(layout) and not is_locked(layout.keeper_lock))
    (layout.find_cluster_folder() / "postmaster.pid").write_text(
        f"{os.getpid()}\n{layout.find_cluster_folder()}\n1\n5432\n/tmp\n\n"
    )

    with postgres.use_server(layout.data_dir) as server:
        assert run_query(server.superuser_address()) == 1


def test_an_interrupted_first_start_is_repeated(layout: Layout) -> None:
    (layout.data_dir / "postgres.new").mkdir()
    (layout.data_dir / "postgres.new" / "PG_VERSION").write_text("18\n")

    with postgres.use_server(layout.data_dir) as server:
        assert run_query(server.superuser_address()) == 1
    assert not (layout.data_dir / "postgres.new").exists()


def test_a_data_path_of_200_characters_works(layout: Layout) -> None:
    deep = layout.data_dir
    while len(str(deep)) < 200:
        deep /= "x" * min(50, 199 - len(str(deep)) or 1)
    deep.mkdir(parents=True)

    with postgres.use_server(deep) as server:
        assert len(str(deep)) >= 200
        assert run_query(server.superuser_address()) == 1
    wait_until(lambda: not is_locked(deep / "postgres.keeper"))


def test_the_server_listens_on_a_private_socket_and_on_no_network(layout: Layout) -> None:
    with postgres.use_server(layout.data_dir) as server:
        folder = Path(server.superuser_address().host)
        listening = [
            connection.laddr.port
            for connection in psutil.Process(require_postmaster(layout).pid).net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert listening == []
        assert folder.stat().st_mode & 0o777 == 0o700
        assert run_query(server.superuser_address(), "SHOW listen_addresses") == ""


def test_no_login_is_trusted_without_authentication(layout: Layout) -> None:
    with postgres.use_server(layout.data_dir):
        rules = (layout.data_dir / "postgres.hba").read_text()
    assert "trust" not in rules
    assert {line.split()[3] for line in rules.split("\n") if line} == {"peer"}


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another local user")
def test_another_local_user_can_neither_reach_the_socket_nor_log_in(layout: Layout) -> None:
    with postgres.use_server(layout.data_dir) as server:
        folder = Path(server.superuser_address().host)
        path = str(folder / ".s.PGSQL.5432")
        attempt = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": [], "cwd": "/"}
        command = ["/usr/bin/python3", "-c", attempt, path]
        closed = subprocess.run(command, check=False, capture_output=True, text=True, **as_nobody)  # type: ignore[call-overload]
        assert "PermissionError" in closed.stderr

        # Even with the folder and the socket wide open, the server asks the system who is calling.
        folder.chmod(0o755)
        (folder / ".s.PGSQL.5432").chmod(0o777)
        query = [
            "/usr/bin/env",
            "-i",
            str(find_psql(server)),
            "-h",
            str(folder),
            "-U",
            "postgres",
            "-c",
            "SELECT 1",
            "postgres",
        ]
        refused = subprocess.run(query, check=False, capture_output=True, text=True, **as_nobody)  # type: ignore[call-overload]
        assert "Peer authentication failed" in refused.stderr


def find_psql(server: postgres.EmbeddedServer) -> Path:
    from bpc.runtime.postgres.programs import find_binaries, find_server_account

    return find_binaries(find_server_account()) / "psql"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root's folders are closed to the server's user")
def test_a_data_folder_the_servers_user_cannot_enter_gets_its_cluster_elsewhere_and_says_where(
    run_folder: Path,
) -> None:
    closed = run_folder / f"closed-{os.getpid()}"
    closed.mkdir(mode=0o700)
    data_dir = closed / "data"
    data_dir.mkdir()

    with postgres.use_server(data_dir) as server:
        assert run_query(server.superuser_address()) == 1
        layout = server.layout
    elsewhere = Path(layout.location.read_text().strip())

    assert elsewhere.is_relative_to("/var/lib/bpc/clusters")
    assert layout.find_cluster_folder() == elsewhere
    wait_until(lambda: not is_locked(layout.keeper_lock))
    subprocess.run(["rm", "-rf", str(elsewhere.parent)], check=True)


def test_a_server_that_cannot_start_says_why_and_names_its_log(layout: Layout) -> None:
    with postgres.use_server(layout.data_dir):
        pass
    wait_until(lambda: not is_locked(layout.keeper_lock))
    (layout.find_cluster_folder() / "PG_VERSION").write_text("12\n")

    with pytest.raises(DatabaseUnavailable) as refused:
        postgres.use_server(layout.data_dir)

    assert "initialized by PostgreSQL version 12" in refused.value.says
    assert find_fix(refused.value) == f"read {layout.log}; `bpc doctor` checks disk space and rights"


@pytest.mark.long
def test_a_user_waits_for_a_server_that_is_stopping(layout: Layout) -> None:
    for _ in range(5):
        with postgres.use_server(layout.data_dir) as server:
            assert run_query(server.superuser_address()) == 1


def test_checking_for_users_needs_no_server(data_dir: Path) -> None:
    assert not is_locked(data_dir / "postgres.keeper")
    assert list(data_dir.iterdir()) == []
    with (data_dir / "postgres.keeper").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert is_locked(data_dir / "postgres.keeper")


def test_a_file_in_the_current_folder_named_like_a_module_is_not_run(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "psutil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)

    with postgres.use_server(layout.data_dir) as server:
        assert run_query(server.superuser_address()) == 1

    assert not (tmp_path / "ran").exists()


def test_folders_on_the_way_can_be_passed_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        folder = create_passable_folder(tmp_path / "state")
    finally:
        os.umask(before)

    assert folder.stat().st_mode & 0o777 == 0o711


def test_a_keeper_that_fails_says_why(layout: Layout) -> None:
    (layout.data_dir / "postgres").write_text("not a folder")

    with pytest.raises(DatabaseUnavailable) as refused:
        postgres.use_server(layout.data_dir)

    assert "Not a directory" in refused.value.says


def test_the_server_stops_soon_even_if_its_last_user_leaves_during_recovery(layout: Layout) -> None:
    server = postgres.use_server(layout.data_dir)
    backend = next(iter(psutil.Process(require_postmaster(layout).pid).children()))
    backend.kill()
    time.sleep(0.05)  # in the middle of the server's own recovery
    released_at = time.monotonic()

    server.release_and_wait()

    assert time.monotonic() - released_at < 60  # a slow machine recovers slowly
    assert is_gone(layout)


def test_a_missing_cluster_folder_is_an_error_and_not_replaced_by_an_empty_one(layout: Layout) -> None:
    layout.location.write_text("/nowhere/at/all/postgres\n")

    with pytest.raises(DatabaseUnavailable, match="does not exist") as refused:
        postgres.use_server(layout.data_dir)

    assert "mount or restore it" in (refused.value.fix or "")


def test_an_unusable_data_folder_is_a_configuration_error(layout: Layout) -> None:
    layout.users_lock.mkdir()

    with pytest.raises(ConfigMissing, match="cannot be used"):
        postgres.use_server(layout.data_dir)


def test_a_cancelled_caller_does_not_wait_for_a_server_to_stop(layout: Layout) -> None:
    cancelled = threading.Event()
    with layout.users_lock.open("w") as stopping:
        fcntl.flock(stopping, fcntl.LOCK_EX)
        threading.Timer(0.1, cancelled.set).start()

        with pytest.raises(DatabaseUnavailable, match="gave up"):
            postgres.use_server(layout.data_dir, cancelled)


def test_a_log_that_somebody_deletes_does_not_end_the_keeper(layout: Layout) -> None:
    with postgres.use_server(layout.data_dir) as server:
        keeper = find_keeper_pid(layout)
        layout.log.unlink()
        killed = require_postmaster(layout).pid
        os.kill(killed, signal.SIGKILL)

        wait_until(
            lambda: (
                (running := find_running_postmaster(layout.find_cluster_folder())) is not None and running.pid != killed
            )
        )
        server.ensure_running()

        assert run_query(server.superuser_address()) == 1
        assert find_keeper_pid(layout) == keeper
