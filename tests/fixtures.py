"""What tests share: one PostgreSQL for the whole run, and databases that are like new ones (tests/databases.py).

The server is the embedded one in a folder of this run, or, with BPC_TEST_DATABASE_URL, one that is not ours.
A DATABASE_URL that happens to be set on the machine is never used.
"""

import asyncio
import fcntl
import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import hypothesis
import pytest
import structlog

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock, postgres
from bpc.runtime.postgres.address import Address
from bpc.runtime.postgres.cluster import is_locked
from bpc.storage.access import tenants_and_actors
from bpc.storage.database import Database, prepare_embedded_server
from bpc.storage.migrate import list_migrations, migrate
from tests.coverage_scope import IS_MEASURED, is_measured, save_measured, stop_measuring
from tests.databases import DatabaseStock, ReusedDatabase
from tests.measurements import choose_effort, choose_examples, record_measurement
from tests.sampling import find_cases, find_measured, find_sample
from tests.secret_watch import forbid_logged_secrets

__all__ = ["forbid_logged_secrets", "record_measurement"]

RUN_FOLDER = "BPC_TEST_RUN_FOLDER"
EXTERNAL = "BPC_TEST_DATABASE_URL"
SLOW = (
    "packages/service-jobs/tests/jobs/faults/",
    "tests/journey/",
    "tests/project/",
    "tests/worker/",
    "tests/api/http/test_openapi_contract.py",
)
# How many cases of one function `make check` and `make test` run.
MOST_CASES = 4
MEASURED_FIXTURES: set[tuple[str, str, str]] = set()
MEASURED_TEARDOWNS: set[str] = set()
MEMORY = Path("/dev/shm")  # Linux only
NEEDED_BYTES = 3 * 1024**3  # bytes: what a run needs, with the servers that some tests have of their own

# How long an example takes says something about the machine, on which others work at the same time.
hypothesis.settings.register_profile(
    "bpc",
    deadline=None,
    max_examples=choose_examples(100),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    # The same examples each time: what `make check` says depends on the change, not on luck. Other runs try new ones.
    derandomize=choose_effort(test=True, shown=False, campaign=False),
)
hypothesis.settings.load_profile("bpc")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="run the first test of each file, and every Nth of all",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what runs in the background with Ctrl-C ignored, and programs that tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Programs that tests start import tests of the packages too.
    packages = [str(config.rootpath / folder) for folder in ("packages/service-jobs", "packages/bpc-client")]
    os.environ["PYTHONPATH"] = os.pathsep.join([*packages, *filter(None, [os.environ.get("PYTHONPATH")])])
    # Left alone, it would print every uncaught error with all its variables, which takes seconds.
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    for name in [name for name in os.environ if name.startswith("BPC_") or name == "DATABASE_URL"]:
        if name not in {RUN_FOLDER, EXTERNAL, "BPC_EFFORT", "BPC_MEASUREMENTS", "BPC_TEST_AMQP_URL"}:
            del os.environ[name]
    if RUN_FOLDER not in os.environ:  # the controller, or the only process
        os.environ[RUN_FOLDER] = tempfile.mkdtemp(prefix="bpc-tests-", dir=_choose_run_folder())
        Path(os.environ[RUN_FOLDER]).chmod(0o711)
        config.add_cleanup(_remove_run_folder)


def _choose_run_folder() -> str:
    """In memory, where a new database costs a tenth of what it does on a disk; on a disk where figures are shown."""
    in_memory = choose_effort(test=True, shown=False, campaign=False) and os.access(MEMORY, os.W_OK)
    return str(MEMORY) if in_memory and shutil.disk_usage(MEMORY).free >= NEEDED_BYTES else "/tmp"


def _remove_run_folder() -> None:
    _remove_folder(Path(os.environ.pop(RUN_FOLDER)))


def _remove_folder(folder: Path) -> None:
    """Remove `folder`, as soon as the servers in it have stopped."""
    keepers = [*folder.glob("postgres.keeper"), *folder.glob("*/postgres.keeper")]
    deadline = time.monotonic() + 20
    while any(is_locked(keeper) for keeper in keepers) and time.monotonic() < deadline:
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile, nor later among what was imported and collected: all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # what `-m` and `-k` leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.repeats)
    if choose_effort(test=True, shown=False, campaign=False):
        too_long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=too_long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        _leave_out_cases(config, items)
    if config.option.sample > 1:
        places = find_sample([item.path for item in items], every=config.option.sample)
        config.hook.pytest_deselected(items=[item for place, item in enumerate(items) if place not in places])
        items[:] = [items[place] for place in sorted(places)]
    # Of the core more cases count: one of a rule or a document goes through lines that others do not.
    of_core = [item for item in items if item.nodeid.startswith("tests/core/")]
    others = [item for item in items if not item.nodeid.startswith("tests/core/")]
    for part, first, every in ((of_core, 8, 3), (others, 2, 12)):
        # Each case of a table that is marked `every_case` goes through lines of its own, so each is measured.
        functions = [
            item.nodeid if item.get_closest_marker("every_case") else item.nodeid.partition("[")[0] for item in part
        ]
        for item, measure in zip(part, find_measured(functions, first=first, every=every), strict=True):
            item.stash[IS_MEASURED] = measure
    items.sort(key=lambda item: not item.nodeid.startswith(SLOW))  # first, or the run ends waiting for the last of them


def _leave_out_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave some cases of every long table to `make shown`; not those that were named one by one."""
    if any("[" in argument for argument in config.args):
        return
    functions = [item.nodeid if _counts_each_case(item) else item.nodeid.partition("[")[0] for item in items]
    places = find_cases(functions, most=MOST_CASES)
    config.hook.pytest_deselected(items=[item for place, item in enumerate(items) if place not in places])
    items[:] = [items[place] for place in sorted(places)]


def _counts_each_case(item: pytest.Item) -> bool:
    """Cases of the core take milliseconds, and each goes through lines that no other does."""
    return item.nodeid.startswith("tests/core/") or item.get_closest_marker("every_case") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Leave out of coverage what is slow or does the same thing over and over, and what `NOT_MEASURED` says."""
    with nullcontext() if is_measured(item) else stop_measuring():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Measure the first time that a measured test of a file sets a fixture up: every other time is the same again."""
    item = getattr(request, "_pyfuncitem", None)
    use = (request.node.nodeid.partition("::")[0], fixturedef.baseid, fixturedef.argname)
    is_first = item is not None and is_measured(item) and use not in MEASURED_FIXTURES
    if is_first:
        MEASURED_FIXTURES.add(use)
    with nullcontext() if is_first else stop_measuring():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Measure how the first measured test of a file is taken down."""
    file = item.nodeid.partition("::")[0]
    is_first = is_measured(item) and file not in MEASURED_TEARDOWNS
    if is_first:
        MEASURED_TEARDOWNS.add(file)
    runner = getattr(item, "funcargs", {}).get("_session_scoped_runner")
    loop = runner and runner.get_loop()
    with nullcontext() if is_first else stop_measuring():
        try:
            return (yield)
        finally:
            if loop is not None and not loop.is_closed():
                _cancel_tasks(loop)


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what a test left running: the next test uses the same event loop."""
    if tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks, timeout=5))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down what was measured while the run still waits for us: xdist kills a worker that takes long to end."""
    if hasattr(session.config, "workerinput"):
        save_measured()


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
    _remove_folder(folder)


@dataclass(frozen=True, slots=True)
class TestServer:
    """Where tests make databases: as somebody who may, and as the login the product uses."""

    __test__ = False
    admin: Address
    login: Address
    is_in_memory: bool = False

    @property
    def copy_strategy(self) -> str:
        """How a database is copied: in memory, files are copied in a third of the time that writing a log takes."""
        return "FILE_COPY" if self.is_in_memory else "WAL_LOG"

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
    with postgres.use_server(shared) as embedded_server:
        asyncio.run(_prepare_server(embedded_server))
        yield TestServer(
            admin=embedded_server.superuser_address(),
            login=embedded_server.address("bpc"),
            is_in_memory=run_folder.is_relative_to(MEMORY),
        )


async def _prepare_server(server: postgres.EmbeddedServer) -> None:
    """Create the roles, and turn off what keeps data for longer than a run, or changes tables at a time of its own."""
    await prepare_embedded_server(server, "bpc")
    admin = await asyncpg.connect(**server.superuser_address().connect_arguments())
    try:
        for setting in ("autovacuum", "fsync", "full_page_writes"):
            await admin.execute(f"ALTER SYSTEM SET {setting} = off")
        await admin.execute("SELECT pg_reload_conf()")
    finally:
        await admin.close()


@pytest.fixture(scope="session")
def template_name(server: TestServer, run_folder: Path) -> Iterator[str]:
    """A migrated database that nobody uses but to copy it."""
    name = f"bpc_template_{os.getpid()}" if server.is_external else "bpc_template"
    with (run_folder / "template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        asyncio.run(_make_template(server, name))
    yield name
    if server.is_external:
        asyncio.run(_drop_database(server, name))


async def _drop_database(server: TestServer, name: str) -> None:
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    await admin.close()


async def _make_template(server: TestServer, name: str) -> None:
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    try:
        if await admin.fetchval("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name):
            return
        await admin.execute(f'CREATE DATABASE "{name}"')
        conn = await asyncpg.connect(**server.admin.with_database(name).connect_arguments())
        await migrate(conn, list_migrations())
        await conn.close()
    finally:
        await admin.close()


@pytest.fixture
async def empty_address(server: TestServer) -> AsyncIterator[Address]:
    """A new database without anything in it."""
    async for address in create_test_database(server, f"bpc_test_{clock.new_id().hex}", "template1"):
        yield address


@pytest.fixture(scope="session")
async def database_stock(server: TestServer, template_name: str) -> AsyncIterator[DatabaseStock]:
    stock = DatabaseStock(server.admin, server.login, template_name, server.copy_strategy)
    yield stock
    await stock.close()


@pytest.fixture
async def lent_database(database_stock: DatabaseStock, request: pytest.FixtureRequest) -> AsyncIterator[ReusedDatabase]:
    """A migrated database that is like a new one; for the mark `new_database`, one that is new."""
    async with database_stock.lend(is_new=request.node.get_closest_marker("new_database") is not None) as lent:
        yield lent


@pytest.fixture
def address(lent_database: ReusedDatabase) -> Address:
    """A migrated database, like a new one, for the product's login."""
    return lent_database.address


async def create_test_database(server: TestServer, name: str, template: str) -> AsyncIterator[Address]:
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    try:
        strategy = server.copy_strategy
        await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY {strategy} OWNER bpc_owner')
        yield server.login.with_database(name)
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


@pytest.fixture
async def database(lent_database: ReusedDatabase) -> AsyncIterator[Database]:
    """An open pool on `address`."""
    async with lent_database.use_pool() as pool:
        yield pool


@pytest.fixture
async def superuser(lent_database: ReusedDatabase) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection to the test's database that passes every rule, to do what only an intruder would."""
    async with lent_database.use_superuser() as conn:
        yield conn


@pytest.fixture
def act() -> Act:
    """An act of nobody in particular, now."""
    return Act(None, clock.now())


@pytest.fixture
async def tenant(database: Database, act: Act) -> TenantId:
    return await tenants_and_actors.create_tenant(database, slug="acme", name="Acme", act=act)


@pytest.fixture
async def other_tenant(database: Database, act: Act) -> TenantId:
    return await tenants_and_actors.create_tenant(database, slug="rival", name="Rival", act=act)
