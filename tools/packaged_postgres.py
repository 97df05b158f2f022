"""A PostgreSQL of this machine's packages, started for as long as it is needed: in memory, because to make and remove
hundreds of databases takes a disk minutes.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bpc.runtime import clock

PACKAGES = Path("/usr/lib/postgresql")  # where Debian has a folder for each version
MEMORY = Path("/dev/shm")
START_SECONDS = 60


def find_programs(*, oldest: int) -> Path | None:
    """The folder with the programs of the oldest version that is here, if it is not older than `oldest`."""
    folders = {
        int(folder.parent.name): folder for folder in PACKAGES.glob("[0-9]*/bin") if (folder / "initdb").exists()
    }
    return folders[min(folders)] if folders and min(folders) >= oldest else None


@contextmanager
def run_server(programs: Path, environment: Mapping[str, str] | None = None) -> Iterator[str | None]:
    """The URL of a server, or None if it does not start. `environment` is set for it besides this process's own."""
    folder = Path(tempfile.mkdtemp(prefix="bpc-external-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    try:
        password = clock.random_bytes(16).hex()
        port = _find_free_port()
        server = _start_server(programs, folder, password, port, environment or {})
        try:
            yield (
                f"postgresql://postgres:{password}@localhost:{port}/postgres"
                if _wait_until_listening(server, port)
                else None
            )
        finally:
            with suppress(ProcessLookupError):
                server.send_signal(signal.SIGINT)
            server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start_server(
    programs: Path, folder: Path, password: str, port: int, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    (folder / "password").write_text(password)
    if os.geteuid() == 0:  # then it runs as the user that the package has made
        for owned in (folder, folder / "password"):
            shutil.chown(owned, "postgres")
    create: list[str | Path] = [
        programs / "initdb",
        "--pgdata=data",
        "--username=postgres",
        "--auth=password",
        "--pwfile=password",
    ]
    serve: list[str | Path] = [
        programs / "postgres",
        "-D",
        "data",
        f"--port={port}",
        "--unix_socket_directories=",
        "--fsync=off",
    ]
    _start_process([*create, "--encoding=UTF8", "--locale=C", "--no-sync"], folder, {}).wait()
    return _start_process(serve, folder, environment)


def _start_process(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            command,
            user="postgres" if os.geteuid() == 0 else None,
            cwd=folder,
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for those who use it
        )


def _wait_until_listening(server: "subprocess.Popen[bytes]", port: int) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("localhost", port)):
            return True
        time.sleep(0.05)
    return False


def _find_free_port() -> int:
    with socket.create_server(("localhost", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
