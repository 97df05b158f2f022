"""Specification of the embedded server: it is there when somebody needs it, whatever was killed, and only then."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from bpc.core.errors import DatabaseUnavailable
from bpc.db import embedded
from bpc.db.address import Address
from bpc.db.embedded.account import passable_folder
from bpc.db.embedded.layout import Layout, Postmaster, is_locked, running_postmaster
from bpc.db.embedded.prepare import prepare
from bpc.settings import ConfigMissing
from tests.measuring import effort

USER_PROGRAM = """
import sys
from pathlib import Path
from bpc.db import embedded
server = embedded.use(Path(sys.argv[1]))
print("using", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def layout(data_dir: Path) -> Iterator[Layout]:
    yield Layout(data_dir)
    eventually(lambda: not is_locked(data_dir / "postgres.keeper"))


def eventually(holds: Callable[[], bool], within: float = 60) -> None:
    """Wait for something another process does; say so if it never happens."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def postmaster(layout: Layout) -> Postmaster:
    found = running_postmaster(layout.known_cluster())
    assert found is not None
    return found


def is_gone(layout: Layout) -> bool:
    return running_postmaster(layout.known_cluster()) is None


def keeper_pid(layout: Layout) -> int:
    """The keeper's number, or 0 while there is none."""
    ours = ["bpc.db.embedded.keeper", str(layout.data_dir)]
    running = psutil.process_iter(["cmdline"])
    return next((process.pid for process in running if (process.info["cmdline"] or [])[-2:] == ours), 0)


def another_user(layout: Layout) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", USER_PROGRAM, str(layout.data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "using\n"
    return process


def ended(process: "subprocess.Popen[str]") -> None:
    with process:
        process.kill()


def answer(address: Address, query: str = "SELECT 1") -> object:
    async def ask() -> object:
        conn = await asyncpg.connect(**address.connect_arguments())
        try:
            return await conn.fetchval(query)
        finally:
            await conn.close()

    return asyncio.run(ask())


def test_it_starts_answers_and_stops_when_its_only_user_leaves(layout: Layout) -> None:
    with embedded.use(layout.data_dir) as server:
        assert answer(server.superuser_address()) == 1

    eventually(lambda: not is_locked(layout.keeper_lock))
    assert is_gone(layout)
    assert "database system is shut down" in layout.log.read_text()


def test_two_processes_share_one_server_and_the_last_one_stops_it(layout: Layout) -> None:
    other = another_user(layout)
    with embedded.use(layout.data_dir) as server:
        pid = postmaster(layout).pid
        ended(other)
        time.sleep(0.3)  # long enough for a keeper that counted wrong to have acted
        assert answer(server.superuser_address()) == 1
        assert postmaster(layout).pid == pid

    eventually(lambda: is_gone(layout))


def test_several_processes_starting_at_once_get_one_server(layout: Layout) -> None:
    count = effort(test=4, shown=10, campaign=10)
    commands = [[sys.executable, "-c", USER_PROGRAM, str(layout.data_dir)] for _ in range(count)]
    others = [subprocess.Popen(each, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for each in commands]
    try:
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "using\n"
        running = {
            process.pid: process.info["ppid"]
            for process in psutil.process_iter(["cmdline", "ppid"])
            if "-D" in (process.info["cmdline"] or []) and str(layout.known_cluster()) in process.info["cmdline"]
        }
        # A backend that was just forked still looks like its parent.
        servers = [pid for pid, parent in running.items() if parent not in running]
        assert len(servers) == 1
    finally:
        for other in others:
            ended(other)
    eventually(lambda: is_gone(layout))


def test_kill_9_of_its_last_user_does_not_leave_it_running(layout: Layout) -> None:
    ended(another_user(layout))

    eventually(lambda: is_gone(layout))


def test_kill_9_of_postgres_brings_it_back_with_the_data(layout: Layout) -> None:
    with embedded.use(layout.data_dir) as server:
        asyncio.run(prepare(server, "bpc"))
        answer(server.superuser_address("bpc"), "CREATE TABLE kept AS SELECT 42 AS x")
        killed = postmaster(layout).pid
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: not psutil.pid_exists(killed) or psutil.Process(killed).status() == psutil.STATUS_ZOMBIE)

        server.ensure()

        assert postmaster(layout).pid != killed
        assert answer(server.superuser_address("bpc"), "SELECT x FROM kept") == 42


def test_kill_9_of_the_keeper_interrupts_nobody_and_a_new_one_takes_its_place(layout: Layout) -> None:
    with embedded.use(layout.data_dir) as server:
        pid = postmaster(layout).pid
        killed = keeper_pid(layout)
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: keeper_pid(layout) not in {0, killed})

        assert answer(server.superuser_address()) == 1
        eventually(lambda: is_locked(layout.keeper_lock))
        assert postmaster(layout).pid == pid, "the running server was adopted, not replaced"
    eventually(lambda: is_gone(layout))


def test_kill_9_of_keeper_and_postgres_together_is_survived(layout: Layout) -> None:
    with embedded.use(layout.data_dir) as server:
        keeper = keeper_pid(layout)
        os.kill(keeper, signal.SIGKILL)
        os.kill(postmaster(layout).pid, signal.SIGKILL)
        eventually(lambda: keeper_pid(layout) not in {0, keeper})

        server.ensure()

        assert answer(server.superuser_address()) == 1


def test_a_pid_file_left_by_a_crash_does_not_stop_it_even_if_the_number_is_somebody_elses(layout: Layout) -> None:
    with embedded.use(layout.data_dir):
        pass
    eventually(lambda: is_gone(layout) and not is_locked(layout.keeper_lock))
    (layout.known_cluster() / "postmaster.pid").write_text(
        f"{os.getpid()}\n{layout.known_cluster()}\n1\n5432\n/tmp\n\n"
    )

    with embedded.use(layout.data_dir) as server:
        assert answer(server.superuser_address()) == 1


def test_an_interrupted_first_start_is_begun_again(layout: Layout) -> None:
    (layout.data_dir / "postgres.new").mkdir()
    (layout.data_dir / "postgres.new" / "PG_VERSION").write_text("18\n")

    with embedded.use(layout.data_dir) as server:
        assert answer(server.superuser_address()) == 1
    assert not (layout.data_dir / "postgres.new").exists()


def test_a_data_path_of_200_characters_works(layout: Layout) -> None:
    deep = layout.data_dir
    while len(str(deep)) < 200:
        deep /= "x" * min(50, 199 - len(str(deep)) or 1)
    deep.mkdir(parents=True)

    with embedded.use(deep) as server:
        assert len(str(deep)) >= 200
        assert answer(server.superuser_address()) == 1
    eventually(lambda: not is_locked(deep / "postgres.keeper"))


def test_it_listens_on_a_private_socket_and_on_no_network(layout: Layout) -> None:
    with embedded.use(layout.data_dir) as server:
        folder = Path(server.superuser_address().host)
        listening = [
            connection.laddr.port
            for connection in psutil.Process(postmaster(layout).pid).net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert listening == []
        assert folder.stat().st_mode & 0o777 == 0o700
        assert answer(server.superuser_address(), "SHOW listen_addresses") == ""


def test_nobody_is_trusted_without_proof(layout: Layout) -> None:
    with embedded.use(layout.data_dir):
        rules = (layout.data_dir / "postgres.hba").read_text()
    assert "trust" not in rules
    assert {line.split()[3] for line in rules.split("\n") if line} == {"peer"}


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another local user")
def test_another_local_user_gets_neither_to_the_socket_nor_past_the_server(layout: Layout) -> None:
    with embedded.use(layout.data_dir) as server:
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
            str(psql(server)),
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


def psql(server: embedded.Server) -> Path:
    from bpc.db.embedded.account import server_account
    from bpc.db.embedded.binaries import find_binaries

    return find_binaries(server_account()).path("psql")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root's folders are closed to the server's user")
def test_a_data_folder_the_servers_user_cannot_enter_gets_its_cluster_elsewhere_and_says_where(
    run_folder: Path,
) -> None:
    closed = run_folder / f"closed-{os.getpid()}"
    closed.mkdir(mode=0o700)
    data_dir = closed / "data"
    data_dir.mkdir()

    with embedded.use(data_dir) as server:
        assert answer(server.superuser_address()) == 1
        layout = server.layout
    elsewhere = Path(layout.location.read_text().strip())

    assert elsewhere.is_relative_to("/var/lib/bpc/clusters")
    assert layout.known_cluster() == elsewhere
    eventually(lambda: not is_locked(layout.keeper_lock))
    subprocess.run(["rm", "-rf", str(elsewhere.parent)], check=True)


def test_a_server_that_cannot_start_says_why_and_where_to_read_on(layout: Layout) -> None:
    with embedded.use(layout.data_dir):
        pass
    eventually(lambda: not is_locked(layout.keeper_lock))
    (layout.known_cluster() / "PG_VERSION").write_text("12\n")

    with pytest.raises(DatabaseUnavailable) as refused:
        embedded.use(layout.data_dir)

    assert "initialized by PostgreSQL version 12" in refused.value.says
    assert str(layout.log) in (refused.value.fix or "")


def test_a_user_waits_for_a_server_that_is_just_being_stopped(layout: Layout) -> None:
    for _ in range(5):
        with embedded.use(layout.data_dir) as server:
            assert answer(server.superuser_address()) == 1


def test_asking_who_uses_it_needs_no_server(data_dir: Path) -> None:
    assert not is_locked(data_dir / "postgres.keeper")
    assert list(data_dir.iterdir()) == []
    with (data_dir / "postgres.keeper").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert is_locked(data_dir / "postgres.keeper")


def test_a_file_of_the_current_folder_that_is_called_like_a_module_is_not_run(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "psutil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)

    with embedded.use(layout.data_dir) as server:
        assert answer(server.superuser_address()) == 1

    assert not (tmp_path / "ran").exists()


def test_folders_on_the_way_can_be_passed_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        made = passable_folder(tmp_path / "state")
    finally:
        os.umask(before)

    assert made.stat().st_mode & 0o777 == 0o711


def test_a_keeper_that_fails_says_why(layout: Layout) -> None:
    (layout.data_dir / "postgres").write_text("not a folder")

    with pytest.raises(DatabaseUnavailable) as refused:
        embedded.use(layout.data_dir)

    assert "Not a directory" in refused.value.says


def test_it_stops_soon_even_if_its_last_user_leaves_while_it_recovers(layout: Layout) -> None:
    server = embedded.use(layout.data_dir)
    backend = next(iter(psutil.Process(postmaster(layout).pid).children()))
    backend.kill()
    time.sleep(0.05)  # in the middle of the server's own recovery
    left = time.monotonic()

    server.release_and_wait()

    assert time.monotonic() - left < 60  # a slow machine recovers slowly
    assert is_gone(layout)


def test_tables_that_should_be_elsewhere_and_are_not_are_not_made_anew(layout: Layout) -> None:
    layout.location.write_text("/nowhere/at/all/postgres\n")

    with pytest.raises(DatabaseUnavailable, match="is not there") as refused:
        embedded.use(layout.data_dir)

    assert "mount or restore it" in (refused.value.fix or "")


def test_a_data_folder_that_cannot_be_used_is_a_matter_of_configuration(layout: Layout) -> None:
    layout.users_lock.mkdir()

    with pytest.raises(ConfigMissing, match="cannot be used"):
        embedded.use(layout.data_dir)


def test_who_has_changed_their_mind_does_not_wait_for_a_server_to_stop(layout: Layout) -> None:
    given_up = threading.Event()
    with layout.users_lock.open("w") as stopping:
        fcntl.flock(stopping, fcntl.LOCK_EX)
        threading.Timer(0.1, given_up.set).start()

        with pytest.raises(DatabaseUnavailable, match="gave up"):
            embedded.use(layout.data_dir, given_up)


def test_a_log_that_somebody_deletes_does_not_end_the_keeper(layout: Layout) -> None:
    with embedded.use(layout.data_dir) as server:
        keeper = keeper_pid(layout)
        layout.log.unlink()
        killed = postmaster(layout).pid
        os.kill(killed, signal.SIGKILL)

        eventually(lambda: (found := running_postmaster(layout.known_cluster())) is not None and found.pid != killed)
        server.ensure()

        assert answer(server.superuser_address()) == 1
        assert keeper_pid(layout) == keeper
