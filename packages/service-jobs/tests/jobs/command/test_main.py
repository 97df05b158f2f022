"""The command `service-jobs`: install, look, control, run a worker, in a database that has nothing of the product."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from service_jobs import Context, Handlers, Jobs, Status, new_id
from service_jobs.command import main
from tests.jobs.support.database_url import format_url

from bpc.runtime.postgres.address import Address
from tests.fixtures import TestServer

pytestmark = pytest.mark.external

MODULE = """
from service_jobs import Context, Handlers

handlers = Handlers()

@handlers.job("greet")
async def greet(ctx: Context, name: str) -> str:
    return f"hello {name}"
"""


@pytest.fixture
def url(server: TestServer, empty_address: Address) -> str:
    return format_url(server.admin.with_database(empty_address.database))


async def call(url: str, *arguments: str) -> tuple[int, list[Any], str]:
    """Exit code, printed values and error text of the command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "service_jobs.command", "--database", url, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    return process.returncode or 0, [json.loads(line) for line in stdout.splitlines()], stderr.decode()


async def test_the_command_installs_runs_shows_and_cancels_jobs(url: str, tmp_path: Path) -> None:
    handlers, tenant = Handlers(), new_id()

    @handlers.job("greet")
    async def greet(ctx: Context, name: str) -> str:
        return f"hello {name}"

    names = ["0001_tables.sql", "0002_functions.sql", "0003_subjects.sql", "0004_job_status.sql", "0005_schedules.sql"]
    assert await call(url, "pending") == (0, names, "")
    assert await call(url, "install") == (0, names, "")
    assert await call(url, "pending") == (0, [], "")
    async with Jobs.connect(url, handlers) as jobs:
        job_id = await jobs.submit(greet, "world", tenant=tenant)
        later = await jobs.submit(greet, "never", tenant=tenant, delay=3600)
        (tmp_path / "greetings.py").write_text(MODULE)
        worker = subprocess.Popen(
            [sys.executable, "-m", "service_jobs.command", "--database", url, "worker", "greetings:handlers"],
            cwd=tmp_path,
            env=os.environ,
        )
        try:
            of_tenant = ("--tenant", str(tenant))
            code, [job], _ = await call(url, "wait", str(job_id), *of_tenant, "--timeout", "30")
            assert (code, job["status"]) == (0, "SUCCEEDED")
            assert await jobs.get_result(greet, tenant, job_id) == "hello world"

            assert await call(url, "cancel", str(later), *of_tenant) == (
                *(0, [{"job_id": str(later), "requested": False}]),
                "",
            )
            _, cancelled, _ = await call(url, "list", *of_tenant, "--status", "CANCELLED")
            assert [job["job_id"] for job in cancelled] == [str(later)]
            _, [again], _ = await call(url, "redrive", str(later), *of_tenant)
            assert again["status"] == "QUEUED"
            assert (await jobs.wait(tenant, later, timeout=30)).status is Status.SUCCEEDED
            _, [health], _ = await call(url, "stats")
            assert (health["depth"], health["workers"]) == (0, 1)
            assert await call(url, "schedules", *of_tenant) == (0, [], "")
        finally:
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0


def test_a_refusal_is_one_line_and_exit_code_1(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    job_id, tenant = str(new_id()), str(new_id())
    assert main(["--database", url, "install"]) == 0

    assert main(["--database", url, "show", job_id, "--tenant", tenant]) == 1
    assert main(["--database", url, "worker", "no_such_module:handlers"]) == 1
    assert main(["--database", "", "pending"]) == 2

    assert capsys.readouterr().err.splitlines() == [
        f"error: there is no job `{job_id}`; finished jobs are removed after their retention time",
        "error: cannot load `no_such_module:handlers`: No module named 'no_such_module'; name it as MODULE:HANDLERS",
        "error: name a database with --database or DATABASE_URL",
    ]
