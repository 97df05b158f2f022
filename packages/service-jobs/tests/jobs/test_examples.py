"""The pages and examples of the distribution: they run as written, and type-check as a user's own code would."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from importlib import util
from pathlib import Path
from types import ModuleType

import asyncpg
import httpx2
import pytest
from service_jobs import install
from tests.jobs.support.database_url import format_url

from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer

PACKAGE = Path(__file__).parents[2]
EXAMPLES = PACKAGE / "examples"
PAGES = sorted((PACKAGE / "docs").glob("*.md"))
QUEUES = ("Celery", "arq", "Procrastinate", "River", "Oban")
WRONG_PROGRAM = """\
from service_jobs import Jobs

from quickstart import TENANT, send_invoice


async def submit(jobs: Jobs) -> None:
    await jobs.submit(send_invoice, "not a number", tenant=TENANT)
"""


def read_programs(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PACKAGE / "docs" / page).read_text(), re.DOTALL)


def load_example(path: Path) -> ModuleType:
    spec = util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[path.stem] = module  # pydantic and FastAPI look annotations up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def url(server: TestServer, empty_address: Address) -> str:
    address = format_url(server.admin.with_database(empty_address.database))
    conn = await asyncpg.connect(address)
    await install(conn)
    await conn.close()
    return address


@pytest.fixture
async def shop(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx2.AsyncClient]:
    monkeypatch.setenv("DATABASE_URL", url)
    example = load_example(EXAMPLES / "fastapi_service.py")
    transport = httpx2.ASGITransport(app=example.app)
    async with (
        example.run_service(example.app),
        httpx2.AsyncClient(transport=transport, base_url="http://shop.example") as client,
    ):
        yield client


@pytest.mark.external
async def test_the_example_with_fastapi_takes_an_order_and_packs_it_once(shop: httpx2.AsyncClient, url: str) -> None:
    receipt = await shop.post("/orders", json={"article": "lamp"})
    job = await shop.get(f"/jobs/{receipt.json()['job_id']}", params={"wait": 30})

    assert receipt.status_code == 202
    assert job.json() == {"status": "SUCCEEDED", "parcel": {"order_id": 1, "number": "P-000001"}}
    conn = await asyncpg.connect(url)
    assert [tuple(row) for row in await conn.fetch("SELECT article, parcel FROM orders")] == [("lamp", "P-000001")]
    await conn.close()
    assert (await shop.get("/jobs/00000000-0000-4000-8000-000000000000")).status_code == 404
    assert (await shop.post("/orders", json={"article": 3})).status_code == 422


@pytest.mark.external
async def test_the_quickstart_runs_with_a_worker_of_the_command(url: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(read_programs("quickstart.md")[0])
    environment = os.environ | {"DATABASE_URL": url}
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "service_jobs.command", "worker", "app:handlers"), cwd=tmp_path, env=environment
    )
    try:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "app.py", "1", "2", "3"), cwd=tmp_path, env=environment, stdout=subprocess.PIPE
        )
        output, _ = await program.communicate()
    finally:
        worker.terminate()
        await worker.wait()

    assert output.decode() in (PACKAGE / "docs" / "quickstart.md").read_text()
    assert output.decode().count("is sent") == 3


@pytest.mark.external
async def test_the_engine_measures_itself(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    await load_example(EXAMPLES / "measure.py").measure(url, 20)

    page = (PACKAGE / "docs" / "measuring.md").read_text()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert re.sub(r"[\d,.]+", "N", line.split("  ")[0]) in re.sub(r"[\d,.]+", "N", page)


async def test_the_tests_on_the_page_about_testing_pass() -> None:
    names: dict[str, object] = {}
    for program in read_programs("testing.md"):
        exec(program, names)

    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        await test()  # type: ignore[operator]


@pytest.mark.slow
def test_examples_and_pages_type_check_as_code_of_a_user(tmp_path: Path) -> None:
    """Strictly, and outside of the repository: so only because the package says that it is typed."""
    for path in EXAMPLES.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "service.py").write_text(read_programs("../README.md")[0])
    (tmp_path / "quickstart.py").write_text(read_programs("quickstart.md")[0])
    (tmp_path / "checks.py").write_text("\n\n".join(read_programs("testing.md")))
    (tmp_path / "wrong.py").write_text(WRONG_PROGRAM)

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "."],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, checked.stdout
    assert errors[0].startswith("wrong.py:7: error: ")


def test_the_page_for_people_from_other_queues_has_a_column_for_each_and_names_that_exist() -> None:
    page = (PACKAGE / "docs" / "coming-from.md").read_text()
    rows = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| ")]

    assert [cell.split(" ")[0].strip() for cell in rows[0][1:]] == list(QUEUES)
    assert {len(row) for row in rows} == {6}
    assert len(rows) > 20


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (PACKAGE / "README.md").read_text()

    assert [page.name for page in PAGES if f"(docs/{page.name})" not in readme] == []


def list_links() -> Iterator[tuple[Path, str]]:
    for page in [*PAGES, PACKAGE / "README.md"]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            yield page, link


def test_no_link_of_the_pages_is_dead() -> None:
    assert [(page.name, link) for page, link in list_links() if not (page.parent / link).exists()] == []
