"""Using the embedded server: be counted among its users, and have it running.

with use(data_dir) as server:
    server.address("bpc")  # where to connect
    server.ensure()        # again, if a connection was refused: its keeper may have been killed too
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
from bpc.db.address import Address
from bpc.db.embedded.cluster import LOGIN, SUPERUSER
from bpc.db.embedded.keeper import START_PATIENCE
from bpc.db.embedded.layout import PORT, Layout, Postmaster, await_release, is_locked, running_postmaster
from bpc.settings import ConfigMissing

PAUSE: Final = 0.01
RETRY_PAUSE: Final = 2.0
# The keeper gets what a program needs to start, and none of our secrets.
PASSED_ON: Final = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR", "XDG_RUNTIME_DIR")


@dataclass(slots=True)
class Server:
    """A running server that stays for as long as this object, or the process, lives."""

    layout: Layout
    _users: int = field(repr=False)
    _socket_folder: Path = Path()

    def address(self, database: str) -> Address:
        """Where `database` is, for the ordinary login."""
        return Address(host=str(self._socket_folder), port=PORT, user=LOGIN, database=database)

    def superuser_address(self, database: str = "postgres") -> Address:
        """For preparing the server and for tests; no request ever comes this way."""
        return Address(host=str(self._socket_folder), port=PORT, user=SUPERUSER, database=database)

    def ensure(self, unless: threading.Event | None = None) -> None:
        """Return when the server accepts connections, starting whatever is not running."""
        self._socket_folder = _running(self.layout, unless or threading.Event()).socket_folder

    def watch_keeper(self) -> None:
        """While we are a user there is a keeper: should it be killed, another has to stop the server in the end."""
        threading.Thread(target=self._replace_keeper, name="bpc keeper watch", daemon=True).start()

    def _replace_keeper(self) -> None:
        while True:
            try:
                await_release(self.layout.keeper_lock)
            except OSError:
                return  # somebody deleted the data directory, and the server with it
            if self._users < 0:
                return
            try:
                self.ensure()
            except DatabaseUnavailable:
                time.sleep(RETRY_PAUSE)

    def release(self) -> None:
        """Stop being a user. The server stops when nobody else is one."""
        if self._users >= 0:
            os.close(self._users)
            self._users = -1

    def release_and_wait(self) -> None:
        """Stop being a user, the last one, and return when the server has stopped."""
        self.release()
        await_release(self.layout.keeper_lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def use(data_dir: Path, unless: threading.Event | None = None) -> Server:
    """Become a user of the server in `data_dir`, which exists, and return when it accepts connections.

    `unless` is set by who has changed their mind: then it is given up.
    """
    layout = Layout(data_dir.resolve())
    unless = unless or threading.Event()
    try:
        users = os.open(layout.users_lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as failed:
        raise ConfigMissing.of(
            "BPC_DATA_DIR",
            f"the data folder `{layout.data_dir}` cannot be used: {failed.strerror} ({layout.users_lock.name})",
            fix="set BPC_DATA_DIR to a folder you may write to",
        ) from failed
    server = Server(layout, users)
    try:
        _take_shared(users, unless)
        server.ensure(unless)
    except BaseException:
        server.release()
        raise
    server.watch_keeper()
    return server


def _take_shared(users: int, unless: threading.Event) -> None:
    """Wait for a keeper that is just stopping the server."""
    while True:
        try:
            return fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if unless.wait(PAUSE):
                raise DatabaseUnavailable("gave up waiting for the embedded PostgreSQL to stop") from None


def _running(layout: Layout, unless: threading.Event) -> Postmaster:
    deadline = time.monotonic() + START_PATIENCE
    keeper: int | None = None
    ended: int | None = None
    while time.monotonic() < deadline and not unless.is_set():
        if is_locked(layout.keeper_lock):
            found = running_postmaster(layout.known_cluster())
            if found is not None and found.ready:
                return found
        elif keeper is None or ended == 0:  # 0: another keeper was there, and has gone since
            keeper, ended = _start_keeper(layout), None
        elif ended is not None:
            break
        else:
            ended = _exit_code(keeper)
        time.sleep(PAUSE)
    raise DatabaseUnavailable(
        f"the embedded PostgreSQL did not start: {_last_words(layout)}",
        fix=f"read {layout.log}; `bpc doctor` checks disk space and rights",
    )


def _start_keeper(layout: Layout) -> int:
    passed_on = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith(("COVERAGE_", "LC_"))
    }
    # Not `subprocess`: the keeper is meant to outlive us, and in a session of its own Ctrl-C does not reach it.
    return os.posix_spawn(
        sys.executable,
        # -P: not a file of the current folder that happens to be called like a module.
        [sys.executable, "-P", "-m", "bpc.db.embedded.keeper", str(layout.data_dir)],
        passed_on,
        file_actions=[(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)],
        setsid=True,
    )


def _exit_code(pid: int) -> int | None:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0  # somebody in this process reaps all children: assume nothing
    return os.waitstatus_to_exitcode(status) if ended else None


def _last_words(layout: Layout) -> str:
    with suppress(OSError):
        text = layout.log.read_bytes().decode(errors="replace")
        lines = [line for line in text.split("\n") if line.strip()]
        fatal = [number for number, line in enumerate(lines) if "FATAL:" in line or "PANIC:" in line]
        last = lines[fatal[-1] : fatal[-1] + 2] if fatal else lines[-1:]
        return " ".join(line.partition("] ")[2] or line for line in last if line.strip())
    return "it left no message"
