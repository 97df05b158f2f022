"""A RabbitMQ for tests, wherever one can be had, and a wire to it that can be cut.

In this order: BPC_TEST_AMQP_URL; the one on localhost, if it lets `guest` in; one of our own, on a free port and in the
folder of this run, from the server on this machine, which is installed first where we are root and apt-get can.
Otherwise the tests are skipped and say what is lacking.
"""

import asyncio
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aio_pika
import pytest

from tests.ports import find_free_ports

CHOSEN: Final = "BPC_TEST_AMQP_URL"
LOCAL: Final = "amqp://guest:guest@127.0.0.1:5672/"
# Debian's command insists on its own user and folders; this is the script it calls.
SERVERS: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
UPDATE: Final = ("apt-get", "update", "-q")
INSTALL: Final = ("apt-get", "install", "-y", "-q", "--no-install-recommends", "rabbitmq-server")
LONGEST_INSTALL: Final = 300
LONGEST_START: Final = 60


class Lacking(Exception):
    """There is no broker to be had, because of this."""


@pytest.fixture(scope="session")
def broker_url(run_folder: Path) -> Iterator[str]:
    """A RabbitMQ that answers. Import it where it is used, as every fixture of this module."""
    if chosen := os.environ.get(CHOSEN):
        if not asyncio.run(answers(chosen)):
            pytest.fail(f"no RabbitMQ answers at {CHOSEN}")
        yield chosen
    elif asyncio.run(answers(LOCAL)):
        yield LOCAL
    else:
        try:
            program = installed(run_folder)
        except Lacking as why:
            pytest.skip(f"no RabbitMQ: {CHOSEN} is not set, none answers on localhost:5672, and {why}")
        with own_node(program, run_folder / f"rabbitmq-{os.getpid()}") as url:
            yield url


async def answers(url: str) -> bool:
    try:
        async with asyncio.timeout(5):
            await (await aio_pika.connect(url)).close()
    except Exception:  # noqa: BLE001 (whatever it is, it is not a broker for us)
        return False
    return True


def installed(run_folder: Path) -> str:
    """The server's program on this machine, put there first if that is possible. Raises `Lacking`."""
    with (run_folder / "rabbitmq.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if server_path := next(filter(None, map(shutil.which, SERVERS)), None):
            return server_path
        _install(run_folder / "rabbitmq.lacking")
        if server_path := next(filter(None, map(shutil.which, SERVERS)), None):
            return server_path
    raise Lacking("the package rabbitmq-server has no program we know")


def _install(tried: Path) -> None:
    """Once in a run: what failed for one process fails for the others."""
    if tried.exists():
        raise Lacking(tried.read_text())
    why = "there is no rabbitmq-server here, and we are not root to install it"
    if os.geteuid() == 0:
        why = "there is no rabbitmq-server here, and no apt-get to install it"
        if shutil.which("apt-get"):
            if _ran(INSTALL) or (_ran(UPDATE) and _ran(INSTALL)):
                return
            why = "apt-get could not install rabbitmq-server"
    tried.write_text(why)
    raise Lacking(why)


def _ran(command: tuple[str, ...]) -> bool:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, env=environment, capture_output=True, timeout=LONGEST_INSTALL, check=False)
        return done.returncode == 0
    return False


@contextmanager
def own_node(program: str, folder: Path) -> Iterator[str]:
    """A broker that is only ours: its port, its data, its port mapper."""
    folder.mkdir()
    port, distribution, mapper = find_free_ports(3)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"bpc-test-{os.getpid()}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    with (folder / "output").open("wb") as output:
        # Started by us and not by the server, whose daemon would outlive the tests.
        mapping = subprocess.Popen(["epmd"], env=environment, stdout=output, stderr=output)
        node = subprocess.Popen([program], env=environment, stdout=output, stderr=output, cwd=folder)
        try:
            url = f"amqp://guest:guest@127.0.0.1:{port}/"
            _await_start(node, url, folder / "output")
            yield url
        finally:
            _end(node)
            _end(mapping)


def _await_start(node: subprocess.Popen[bytes], url: str, output: Path) -> None:
    deadline = time.monotonic() + LONGEST_START
    while not asyncio.run(answers(url)):
        if node.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"RabbitMQ of our own does not start: {output.read_text(errors='replace')[-2_000:]}")
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Wire:
    """A TCP port that leads to the broker until it is cut, or until it goes dumb."""

    def __init__(self, broker_url: str) -> None:
        target = urlsplit(broker_url)
        self._there = (target.hostname or "", target.port or 5672)
        (self.port,) = find_free_ports(1)
        account = f"{target.username or 'guest'}:{target.password or 'guest'}"
        self.url = f"amqp://{account}@127.0.0.1:{self.port}{target.path or '/'}"
        self.calls = 0
        self._dumb = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def join(self) -> None:
        self._dumb = False
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """As a broker that is killed: the connections break and nobody listens."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.hang_up()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def go_dumb(self) -> None:
        """As a broker that is stopped: it takes calls and says nothing, also on the lines there are."""
        self._dumb = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        self._writers.add(writer)
        with suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection(*self._there)
            self._writers.add(there_writer)
            await asyncio.gather(self._carry(reader, there_writer), self._carry(there_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if not self._dumb:
                    writer.write(data)
                    await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def wire_to(broker_url: str) -> AsyncIterator[Wire]:
    wire = Wire(broker_url)
    await wire.join()
    try:
        yield wire
    finally:
        await wire.cut()
