"""A PostgreSQL that asks for passwords, as one of a company does: from the programs we ship, for as long as a test."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from bpc.runtime import clock
from bpc.runtime.postgres.cluster import SERVER_ENVIRONMENT
from bpc.runtime.postgres.programs import find_binaries, find_server_account
from tests.ports import find_free_ports

DATABASE = "bpc"
TRIES = 3


@dataclass(frozen=True, slots=True)
class PasswordServer:
    """Where it listens, and its administrator's password."""

    port: int
    password: str

    def url(self, login: str, password: str, database: str = DATABASE) -> str:
        return f"postgresql://{login}:{password}@127.0.0.1:{self.port}/{database}"

    async def connect(
        self, login: str = "postgres", password: str | None = None
    ) -> "asyncpg.Connection[asyncpg.Record]":
        return await asyncpg.connect(self.url(login, password or self.password, "postgres"), timeout=10)

    async def administer(self, *statements: str) -> None:
        conn = await self.connect()
        try:
            for statement in statements:
                await conn.execute(statement)
        finally:
            await conn.close()


@contextmanager
def run_password_server(folder: Path) -> Iterator[PasswordServer]:
    """A new, empty server; whatever happens, it does not outlive the block."""
    account = find_server_account()
    binaries, run_as = find_binaries(account), account.popen_arguments()
    account.take_folder(folder)
    password = clock.random_bytes(16).hex()
    password_file = folder.with_name(f"{folder.name}.password")
    password_file.write_text(password)
    password_file.chmod(0o644)
    initdb = [binaries / "initdb", "-D", folder, "-U", "postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]
    initdb += ["--auth=scram-sha-256", f"--pwfile={password_file}"]
    result = subprocess.run(
        initdb, check=False, capture_output=True, text=True, cwd="/", env=SERVER_ENVIRONMENT, **run_as
    )  # type: ignore[call-overload]
    assert result.returncode == 0, result.stderr
    options = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    options += ["-c", "max_connections=100", "-c", "fsync=off"]
    command = [binaries / "postgres", "-D", folder, *options]
    log = folder.with_name(f"{folder.name}.log")
    for port in find_free_ports(TRIES):  # one that was free may be taken by now
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "-p", str(port)], stdout=out, stderr=out, cwd="/", env=SERVER_ENVIRONMENT, **run_as
            )  # type: ignore[call-overload]
        try:
            if _wait_until_ready(folder, process):
                yield PasswordServer(port, password)
                return
        finally:
            process.send_signal(signal.SIGQUIT)  # at once: nobody needs what is in it any more
            process.wait()
    raise AssertionError(log.read_text())


def _wait_until_ready(folder: Path, process: "subprocess.Popen[bytes]") -> bool:
    """Wait until it lets people in, which is some time after it listens; False if it ends instead."""
    deadline = time.monotonic() + 60
    while not _is_ready(folder / "postmaster.pid"):
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "the server does not come up in time"
        time.sleep(0.02)
    return True


def _is_ready(file: Path) -> bool:
    # The last thing written into it is the state of the server.
    return file.exists() and file.read_text().rstrip().endswith("ready")
