"""The keeper: the server's parent, alive exactly as long as somebody uses the server.

1. Take the keeper's lock; whoever does not get it is superfluous and leaves.
2. Make the cluster if need be and start the server, or adopt one whose keeper was killed.
3. When the server dies, start it again: whatever it had acknowledged is on the disk.
4. When the last user is gone, which is when their lock is free, stop the server and leave.

It is started by `server.use` as a process in a session of its own, so that neither Ctrl-C nor the death of
the user who happened to come first takes the server away from the others.
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
from bpc.db.embedded.account import server_account
from bpc.db.embedded.binaries import find_binaries
from bpc.db.embedded.cluster import Cluster
from bpc.db.embedded.layout import PORT, Layout, running_postmaster, socket_folder

START_PATIENCE: Final = 60.0
STOP_PATIENCE: Final = 5.0
ATTEMPTS: Final = 3
PAUSE: Final = 0.05
LARGEST_LOG: Final = 10_000_000


def main(data_dir: Path) -> int:
    os.chdir("/")
    layout = Layout(data_dir)
    lock = os.open(layout.keeper_lock, os.O_RDWR | os.O_CREAT, 0o600)
    if not _locked_within_a_second(lock):
        return 0
    with _opened_log(layout.log) as log:
        try:
            return _Keeper(layout, log).run()
        except Refusal as refused:
            _say(log, f"FATAL: {refused.says}; {refused.fix}")
        except Exception as failed:  # noqa: BLE001 (nobody sees our standard error: the log is where it is read)
            _say(log, f"FATAL: {type(failed).__name__}: {failed}")
        return 1


class _Keeper:
    def __init__(self, layout: Layout, log: IO[bytes]) -> None:
        self._log = log
        self._layout = layout
        account = server_account()
        self._cluster = Cluster(folder=layout.cluster_folder(account), account=account, binaries=find_binaries(account))
        self._account = account
        self._unwanted = threading.Event()

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._leave)
        self._cluster.ensure()
        threading.Thread(target=self._await_last_user, daemon=True).start()
        sockets = socket_folder(self._layout.data_dir, self._account)
        in_vain = 0
        deadline = time.monotonic() + START_PATIENCE
        while not self._unwanted.is_set():
            said_so_far = self._log_size()
            if adopted := running_postmaster(self._cluster.folder):
                self._watch_adopted(adopted.pid)
                was_ready = True
            else:
                self._forget_the_dead(sockets)
                was_ready = self._watch_child(self._cluster.start(sockets, self._log))
            if was_ready:
                in_vain, deadline = 0, time.monotonic() + START_PATIENCE
            elif not self._old_backends_linger(said_so_far):
                in_vain += 1
            if in_vain >= ATTEMPTS or time.monotonic() > deadline:
                _say(self._log, "the server does not start; giving up")
                return 1
            time.sleep(PAUSE)
        # The last user may have gone before we came to look at the server our predecessor left.
        if left := running_postmaster(self._cluster.folder):
            self._watch_adopted(left.pid)
        with suppress(OSError):
            sockets.rmdir()
        return 0

    def _await_last_user(self) -> None:
        handle = os.open(self._layout.users_lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        self._unwanted.set()

    def _leave(self, _signal: int, _frame: FrameType | None) -> None:
        self._unwanted.set()

    def _watch_child(self, child: subprocess.Popen[bytes]) -> bool:
        """Wait until the child ends, or end it when it is unwanted; say whether it had become ready."""
        became_ready = False
        while child.poll() is None:
            self._shorten_log()
            if self._unwanted.wait(PAUSE):
                _stop(child.pid, lambda: child.poll() is not None)
                break
            if not became_ready:
                found = running_postmaster(self._cluster.folder)
                became_ready = found is not None and found.ready
        return became_ready

    def _watch_adopted(self, pid: int) -> None:
        while running_postmaster(self._cluster.folder) is not None:
            if self._unwanted.wait(PAUSE):
                _stop(pid, lambda: running_postmaster(self._cluster.folder) is None)
                break

    def _old_backends_linger(self, since: int) -> bool:
        """After kill -9 the old backends need a moment to notice; until then a new server refuses to start."""
        with suppress(FileNotFoundError), self._layout.log.open("rb") as log:
            log.seek(since)
            return b"shared memory block" in log.read()
        return False

    def _log_size(self) -> int:
        with suppress(FileNotFoundError):  # deleted under our eyes; the server is what we look after
            return self._layout.log.stat().st_size
        return 0

    def _shorten_log(self) -> None:
        # The server appends, so its next line lands at the beginning of what is left.
        if self._log_size() > LARGEST_LOG:
            shutil.copyfile(self._layout.log, self._layout.log.with_suffix(".log.old"))
            os.truncate(self._layout.log, 0)

    def _forget_the_dead(self, sockets: Path) -> None:
        # The number in these files may by now be somebody else's, or still stand for a corpse that nobody has
        # buried, as happens in containers; PostgreSQL would not start for its sake.
        (self._cluster.folder / "postmaster.pid").unlink(missing_ok=True)
        (sockets / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)


def _stop(pid: int, gone: Callable[[], bool]) -> None:
    """Fast shutdown; if that takes long, the immediate one, from which the next start recovers without loss.

    Each signal is repeated: a server that has just started, or is recovering, may not hear the first.
    """
    for how, patience in ((signal.SIGINT, STOP_PATIENCE), (signal.SIGQUIT, STOP_PATIENCE), (signal.SIGKILL, 60)):
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with suppress(ProcessLookupError):
                os.kill(pid, how)
            for _ in range(20):
                if gone():
                    return
                time.sleep(PAUSE / 2)


def _locked_within_a_second(handle: int) -> bool:
    # Somebody who only asks whether there is a keeper holds the lock for an instant.
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False


def _opened_log(path: Path) -> IO[bytes]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "ab", buffering=0)


def _say(log: IO[bytes], sentence: str) -> None:
    log.write(f"keeper: {sentence}\n".encode())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
