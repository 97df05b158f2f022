"""The keeper: the server's parent process, which lives as long as somebody uses the server.

1. Take the keeper's lock; without it, another keeper runs: exit.
2. Create the cluster if necessary and start the server, or adopt one whose keeper was killed.
3. When the server dies, start it again: everything it acknowledged is on the disk. Before the disk is full, end writes.
4. When the last user has gone and its lock is free, stop the server and exit.

`server.use_server` starts it in a session of its own, so neither Ctrl-C nor the end of the first user takes the server
away from the others.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Final

from bpc.core.errors import Refusal
from bpc.runtime.postgres.cluster import SOCKET_PORT, Cluster, Layout, create_socket_folder, find_running_postmaster
from bpc.runtime.postgres.disk_guard import DiskGuard
from bpc.runtime.postgres.programs import find_binaries, find_server_account

START_TIMEOUT: Final = 60.0
STOP_TIMEOUT: Final = 5.0
ATTEMPTS: Final = 3
PAUSE: Final = 0.05
MAX_LOG_BYTES: Final = 10_000_000


def main(data_dir: Path) -> int:
    os.chdir("/")
    layout = Layout(data_dir)
    lock = os.open(layout.keeper_lock, os.O_RDWR | os.O_CREAT, 0o600)
    if not _try_lock(lock):
        return 0
    with _open_log(layout.log) as log:
        try:
            return _Keeper(layout, log).run()
        except Refusal as refusal:
            _write_log(log, f"FATAL: {refusal.says}; {refusal.fix}")
        except Exception as error:  # noqa: BLE001 (nobody sees our standard error, so it goes to the log)
            _write_log(log, f"FATAL: {type(error).__name__}: {error}")
        return 1


class _Keeper:
    def __init__(self, layout: Layout, log: IO[bytes]) -> None:
        self._log = log
        self._layout = layout
        account = find_server_account()
        self._cluster = Cluster(
            folder=layout.choose_cluster_folder(account), account=account, binaries=find_binaries(account)
        )
        self._account = account
        self._stop_requested = threading.Event()
        self._disk = DiskGuard(self._cluster.folder, self._set_read_only, lambda says: _write_log(log, says))

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._request_stop)
        self._cluster.ensure()
        threading.Thread(target=self._await_last_user, daemon=True).start()
        sockets = create_socket_folder(self._layout.data_dir, self._account)
        failed_starts = 0
        deadline = time.monotonic() + START_TIMEOUT
        while not self._stop_requested.is_set():
            log_size = self._get_log_size()
            if postmaster := find_running_postmaster(self._cluster.folder):
                self._watch_adopted(postmaster.pid)
                was_ready = True
            else:
                self._remove_stale_files(sockets)
                self._disk.prepare_start()
                was_ready = self._watch_child(self._cluster.start(sockets, self._log))
            if was_ready:
                failed_starts, deadline = 0, time.monotonic() + START_TIMEOUT
            elif not self._has_lingering_backends(log_size):
                failed_starts += 1
            if failed_starts >= ATTEMPTS or time.monotonic() > deadline:
                _write_log(self._log, "the server does not start; giving up")
                return 1
            time.sleep(PAUSE)
        # The last user may have gone before this keeper adopted the server of a killed one.
        if postmaster := find_running_postmaster(self._cluster.folder):
            self._watch_adopted(postmaster.pid)
        with suppress(OSError):
            sockets.rmdir()
        return 0

    def _await_last_user(self) -> None:
        handle = os.open(self._layout.users_lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        self._stop_requested.set()

    def _request_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stop_requested.set()

    def _watch_child(self, child: subprocess.Popen[bytes]) -> bool:
        """Wait until the child ends, or stop it on request; return whether it had become ready."""
        became_ready = False
        while child.poll() is None:
            self._rotate_log()
            self._disk.look()
            if self._stop_requested.wait(PAUSE):
                _stop_server(child.pid, lambda: child.poll() is not None)
                break
            if not became_ready:
                postmaster = find_running_postmaster(self._cluster.folder)
                became_ready = postmaster is not None and postmaster.ready
        return became_ready

    def _watch_adopted(self, pid: int) -> None:
        while find_running_postmaster(self._cluster.folder) is not None:
            self._disk.look()
            if self._stop_requested.wait(PAUSE):
                _stop_server(pid, lambda: find_running_postmaster(self._cluster.folder) is None)
                break

    def _set_read_only(self, is_read_only: bool) -> None:
        """Tell the server whether it takes writes; one that is not running yet reads it when it starts."""
        try:
            self._cluster.set_read_only(is_read_only)
        except OSError as error:
            _write_log(self._log, f"the settings of the server cannot be written: {error.strerror}")
            return
        if postmaster := find_running_postmaster(self._cluster.folder):
            with suppress(ProcessLookupError):
                os.kill(postmaster.pid, signal.SIGHUP)

    def _has_lingering_backends(self, since: int) -> bool:
        """After kill -9 the old backends need a moment to end; until then a new server refuses to start."""
        with suppress(FileNotFoundError), self._layout.log.open("rb") as log:
            log.seek(since)
            return b"shared memory block" in log.read()
        return False

    def _get_log_size(self) -> int:
        with suppress(FileNotFoundError):  # somebody deleted the log; the server still runs
            return self._layout.log.stat().st_size
        return 0

    def _rotate_log(self) -> None:
        # The server appends, so its next line is the first of the truncated file.
        if self._get_log_size() > MAX_LOG_BYTES:
            shutil.copyfile(self._layout.log, self._layout.log.with_suffix(".log.old"))
            os.truncate(self._layout.log, 0)

    def _remove_stale_files(self, sockets: Path) -> None:
        # The pid in these files may belong to another process or to a zombie that nobody reaps (in containers);
        # PostgreSQL would then refuse to start.
        (self._cluster.folder / "postmaster.pid").unlink(missing_ok=True)
        (sockets / f".s.PGSQL.{SOCKET_PORT}.lock").unlink(missing_ok=True)


def _stop_server(pid: int, is_gone: Callable[[], bool]) -> None:
    """Fast shutdown; if that takes long, the immediate one, from which the next start recovers without loss.

    Each signal is repeated: a server that is starting or recovering may miss the first.
    """
    for how, patience in ((signal.SIGINT, STOP_TIMEOUT), (signal.SIGQUIT, STOP_TIMEOUT), (signal.SIGKILL, 60)):
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with suppress(ProcessLookupError):
                os.kill(pid, how)
            for _ in range(20):
                if is_gone():
                    return
                time.sleep(PAUSE / 2)


def _try_lock(handle: int) -> bool:
    # A process that only checks for a keeper holds the lock for a moment.
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False


def _open_log(path: Path) -> IO[bytes]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "ab", buffering=0)


def _write_log(log: IO[bytes], sentence: str) -> None:
    with suppress(OSError):  # the disk may be full
        log.write(f"keeper: {sentence}\n".encode())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
