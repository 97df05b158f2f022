"""What tests share: one PostgreSQL for the whole run, one fresh database per test, copied from a migrated template.

The server is the embedded one in a folder of this run, or, with BPC_TEST_DATABASE_URL, one that is not ours.
A DATABASE_URL that happens to be set on the machine is never used.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import hypothesis
import pytest
import structlog
from coverage import Coverage

from bpc import fresh
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.db import embedded, tenants
from bpc.db.address import Address
from bpc.db.database import Database, open_database
from bpc.db.embedded.layout import is_locked
from bpc.db.embedded.prepare import prepare
from bpc.db.migrate import migrate, our_migrations
from tests.canaries import no_secret_is_logged
from tests.measuring import effort, measured

__all__ = ["measured", "no_secret_is_logged"]

RUN_FOLDER = "BPC_TEST_RUN_FOLDER"
EXTERNAL = "BPC_TEST_DATABASE_URL"
SLOW = ("tests/jobs/faults/", "tests/journey/", "tests/project/", "tests/worker/", "tests/api/test_contract.py")
ROOM = 3 * 1024**3  # bytes: what a run needs, with the servers that some tests have of their own

# How long an example takes says something about the machine, on which others work at the same time.
hypothesis.settings.register_profile("bpc", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("bpc")


def pytest_configure(config: pytest.Config) -> None:
    # Left alone, it would print every uncaught error with all its variables, which takes seconds.
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    for name in [name for name in os.environ if name.startswith("BPC_") or name == "DATABASE_URL"]:
        if name not in {RUN_FOLDER, EXTERNAL, "BPC_EFFORT", "BPC_MEASUREMENTS", "BPC_TEST_AMQP_URL"}:
            del os.environ[name]
    if RUN_FOLDER not in os.environ:  # the controller, or the only process
        os.environ[RUN_FOLDER] = tempfile.mkdtemp(prefix="bpc-tests-", dir=_where_there_is_room())
        Path(os.environ[RUN_FOLDER]).chmod(0o711)
        config.add_cleanup(_remove_run_folder)


def _where_there_is_room() -> str:
    """In memory, where a new database costs a tenth of what it does on a disk; on a disk where figures are shown."""
    memory = Path("/dev/shm")  # Linux only
    in_memory = effort(test=True, shown=False, campaign=False) and os.access(memory, os.W_OK)
    return str(memory) if in_memory and shutil.disk_usage(memory).free >= ROOM else "/tmp"


def _remove_run_folder() -> None:
    _remove(Path(os.environ.pop(RUN_FOLDER)))


def _remove(folder: Path) -> None:
    """Remove `folder`, as soon as the servers in it have stopped."""
    keepers = [*folder.glob("postgres.keeper"), *folder.glob("*/postgres.keeper")]
    deadline = time.monotonic() + 20
    while any(is_locked(keeper) for keeper in keepers) and time.monotonic() < deadline:
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(SLOW))  # first, or the run ends waiting for the last of them


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Leave out of coverage what does the same thing over and over: it shows nothing new and takes twice the time."""
    repeats = item.get_closest_marker("repeats") or getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    measuring = Coverage.current() if repeats else None
    if measuring is not None:
        measuring.stop()
    try:
        return (yield)
    finally:
        if measuring is not None:
            measuring.start()


@pytest.fixture(scope="session")
def run_folder() -> Path:
    """A folder of this test run that every local user may pass through."""
    return Path(os.environ[RUN_FOLDER])


@pytest.fixture
def data_dir(run_folder: Path) -> Iterator[Path]:
    """An empty data directory, for a test that needs a server or keys of its own."""
    folder = Path(tempfile.mkdtemp(prefix="own-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    yield folder
    _remove(folder)


@dataclass(frozen=True, slots=True)
class TestServer:
    """Where tests make databases: as somebody who may, and as the login the product uses."""

    __test__ = False
    admin: Address
    login: Address

    @property
    def is_external(self) -> bool:
        return not self.admin.host.startswith("/")


@pytest.fixture(scope="session")
def server(run_folder: Path) -> Iterator[TestServer]:
    """The PostgreSQL of this run."""
    if url := os.environ.get(EXTERNAL):
        address = Address.parse(url)
        yield TestServer(admin=address, login=address)
        return
    shared = run_folder / "shared"
    shared.mkdir(mode=0o711, exist_ok=True)
    shared.chmod(0o711)
    with embedded.use(shared) as ours:
        asyncio.run(prepare(ours, "bpc"))
        yield TestServer(admin=ours.superuser_address(), login=ours.address("bpc"))


@pytest.fixture(scope="session")
def template(server: TestServer, run_folder: Path) -> Iterator[str]:
    """A migrated database that nobody uses but to copy it."""
    name = f"bpc_template_{os.getpid()}" if server.is_external else "bpc_template"
    with (run_folder / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        asyncio.run(_make_template(server, name))
    yield name
    if server.is_external:
        asyncio.run(_drop(server, name))


async def _drop(server: TestServer, name: str) -> None:
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    await admin.close()


async def _make_template(server: TestServer, name: str) -> None:
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    try:
        if await admin.fetchval("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name):
            return
        await admin.execute(f'CREATE DATABASE "{name}"')
        conn = await asyncpg.connect(**server.admin.at(name).connect_arguments())
        await migrate(conn, our_migrations())
        await conn.close()
    finally:
        await admin.close()


@pytest.fixture
async def empty_address(server: TestServer) -> AsyncIterator[Address]:
    """A new database without anything in it."""
    async for address in _database(server, f"bpc_test_{fresh.new_id().hex}", "template1"):
        yield address


@pytest.fixture
async def address(server: TestServer, template: str) -> AsyncIterator[Address]:
    """A new, migrated database, for the product's login."""
    async for address in _database(server, f"bpc_test_{fresh.new_id().hex}", template):
        yield address


async def _database(server: TestServer, name: str, template: str) -> AsyncIterator[Address]:
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    try:
        await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER bpc_owner')
        yield server.login.at(name)
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


@pytest.fixture
async def database(address: Address) -> AsyncIterator[Database]:
    """An open pool on a new, migrated database."""
    opened = await open_database(address, pool_size=5)
    yield opened
    await opened.close()


@pytest.fixture
async def superuser(server: TestServer, address: Address) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection to the test's database that passes every rule, to do what only an intruder would."""
    conn = await asyncpg.connect(**server.admin.at(address.database).connect_arguments())
    yield conn
    await conn.close()


@pytest.fixture
def act() -> Act:
    """An act of nobody in particular, now."""
    return Act(None, fresh.now())


@pytest.fixture
async def tenant(database: Database, act: Act) -> TenantId:
    return await tenants.create(database, slug="acme", name="Acme", act=act)


@pytest.fixture
async def other_tenant(database: Database, act: Act) -> TenantId:
    return await tenants.create(database, slug="rival", name="Rival", act=act)
