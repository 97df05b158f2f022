"""Use the embedded server: register as a user and wait until it runs.

with use_server(data_dir) as server:
    server.address("bpc")    # where to connect
    server.ensure_running()  # again, if a connection was refused: its keeper may have been killed, too
"""

import fcntl
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bpc.core.errors import DatabaseUnavailable
from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.cluster import (
    LOGIN,
    SOCKET_PORT,
    SUPERUSER,
    Layout,
    Postmaster,
    await_release,
    find_running_postmaster,
    is_locked,
)
from bpc.runtime.postgres.keeper import START_TIMEOUT
from bpc.runtime.settings import ConfigMissing

PAUSE: Final = 0.01
RETRY_PAUSE: Final = 2.0
# Enough for a program to start, and none of our secrets.
KEEPER_ENVIRONMENT: Final = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR", "XDG_RUNTIME_DIR")


@dataclass(slots=True)
class EmbeddedServer:
    """A running server. It stays while this object, or the process, lives."""

    layout: Layout
    _users_lock: int = field(repr=False)
    _socket_folder: Path = Path()

    def address(self, database: str) -> Address:
        """The address of `database` for the ordinary login."""
        return Address(host=str(self._socket_folder), port=SOCKET_PORT, user=LOGIN, database=database)

    def superuser_address(self, database: str = "postgres") -> Address:
        """The address for preparing the server and for tests; requests never use it."""
        return Address(host=str(self._socket_folder), port=SOCKET_PORT, user=SUPERUSER, database=database)

    def ensure_running(self, cancel_event: threading.Event | None = None) -> None:
        """Start the keeper if necessary; return when the server accepts connections."""
        self._socket_folder = _wait_until_running(self.layout, cancel_event or threading.Event()).socket_folder

    def watch_keeper(self) -> None:
        """Start a new keeper whenever it is killed: some keeper must stop the server in the end."""
        threading.Thread(target=self._replace_keeper, name="bpc keeper watch", daemon=True).start()

    def _replace_keeper(self) -> None:
        while True:
            try:
                await_release(self.layout.keeper_lock)
            except OSError:
                return  # somebody deleted the data directory with the server
            if self._users_lock < 0:
                return
            try:
                self.ensure_running()
            except DatabaseUnavailable:
                time.sleep(RETRY_PAUSE)

    def release(self) -> None:
        """Stop being a user. The server stops when it has no users."""
        if self._users_lock >= 0:
            os.close(self._users_lock)
            self._users_lock = -1

    def release_and_wait(self) -> None:
        """Stop being the last user, and return when the server has stopped."""
        self.release()
        await_release(self.layout.keeper_lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def use_server(data_dir: Path, cancel_event: threading.Event | None = None) -> EmbeddedServer:
    """Become a user of the server in `data_dir`, which exists, and return when it accepts connections.

    Setting `cancel_event` ends the wait with `DatabaseUnavailable`.
    """
    layout = Layout(data_dir.resolve())
    cancel_event = cancel_event or threading.Event()
    try:
        users_lock = os.open(layout.users_lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigMissing.for_setting(
            "BPC_DATA_DIR",
            f"the data folder `{layout.data_dir}` cannot be used: {error.strerror} ({layout.users_lock.name})",
            fix="set BPC_DATA_DIR to a folder you may write to",
        ) from error
    server = EmbeddedServer(layout, users_lock)
    try:
        _wait_for_shared_lock(users_lock, cancel_event)
        server.ensure_running(cancel_event)
    except BaseException:
        server.release()
        raise
    server.watch_keeper()
    return server


def _wait_for_shared_lock(users_lock: int, cancel_event: threading.Event) -> None:
    """Wait until a keeper that is stopping the server has finished."""
    while True:
        try:
            return fcntl.flock(users_lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if cancel_event.wait(PAUSE):
                raise DatabaseUnavailable("gave up waiting for the embedded PostgreSQL to stop") from None


def _wait_until_running(layout: Layout, cancel_event: threading.Event) -> Postmaster:
    deadline = time.monotonic() + START_TIMEOUT
    keeper: int | None = None
    exit_code: int | None = None
    while time.monotonic() < deadline and not cancel_event.is_set():
        if is_locked(layout.keeper_lock):
            postmaster = find_running_postmaster(layout.find_cluster_folder())
            if postmaster is not None and postmaster.ready:
                return postmaster
        elif keeper is None or exit_code == 0:  # 0: another keeper was running and has ended since
            keeper, exit_code = _start_keeper(layout), None
        elif exit_code is not None:
            break
        else:
            exit_code = _poll_exit_code(keeper)
        time.sleep(PAUSE)
    raise DatabaseUnavailable(
        f"the embedded PostgreSQL did not start: {_read_last_error(layout)}",
        hint="read the server log",
        details={"log": str(layout.log)},
    )


def _start_keeper(layout: Layout) -> int:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in KEEPER_ENVIRONMENT or name.startswith(("COVERAGE_", "LC_"))
    }
    # Not `subprocess`: the keeper outlives this process, and in its own session Ctrl-C does not reach it.
    return os.posix_spawn(
        sys.executable,
        # -P: a file in the current folder that is named like a module is not imported.
        [sys.executable, "-P", "-m", "bpc.runtime.postgres.keeper", str(layout.data_dir)],
        environment,
        file_actions=[(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)],
        setsid=True,
    )


def _poll_exit_code(pid: int) -> int | None:
    try:
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0  # other code in this process reaps all children
    return os.waitstatus_to_exitcode(status) if ended_pid else None


def _read_last_error(layout: Layout) -> str:
    with suppress(OSError):
        text = layout.log.read_bytes().decode(errors="replace")
        lines = [line for line in text.split("\n") if line.strip()]
        fatal = [number for number, line in enumerate(lines) if "FATAL:" in line or "PANIC:" in line]
        last = lines[fatal[-1] : fatal[-1] + 2] if fatal else lines[-1:]
        return " ".join(line.partition("] ")[2] or line for line in last if line.strip())
    return "it left no message"
