"""The log lines that docs/observability.md describes have the fields it says, and no others."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bpc.core.errors import Invalid
from bpc.core.ids import TenantId
from bpc.db.address import Address
from bpc.db.database import Database
from bpc.db.jobs import sessions_at
from bpc.jobs import Context, Handlers, Jobs, Worker
from bpc.jobs.testing import run_inline
from tests.api.conftest import Api
from tests.api.stage import Log, logged

PAGE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
LOGS = PAGE.split("## Logs")[1].split("## Traces")[0]
FIRST, FURTHER = LOGS.split("Then comes what")
HEAD: list[str] = re.findall(r"^\| `(\w+)` \| \S.* \|$", FIRST, re.MULTILINE)
ROWS = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.+) \|$", FURTHER, re.MULTILINE)
ADDS = {message: set(re.findall(r"`([a-z_.]+)`", adds)) for message, _, adds in ROWS}


def flat(line: Mapping[str, Any]) -> set[str]:
    """The names of a line's fields, those of an object with its own before them."""
    return {
        f"{name}.{inner}" if inner else name
        for name, value in line.items()
        for inner in (value if isinstance(value, dict) else [""])
    }


def only(out: Log, message: str) -> dict[str, Any]:
    found = [line for line in map(json.loads, out.getvalue().splitlines()) if line["msg"] == message]
    assert len(found) == 1, out.getvalue()
    line: dict[str, Any] = found[0]
    return line


def assert_as_documented(line: Mapping[str, Any], message: str) -> None:
    always = [name for name in HEAD if name != "worker"]
    assert list(line)[: len(always)] == always
    assert flat(line) - set(always) == ADDS[message]


async def test_a_request(http: httpx2.AsyncClient) -> None:
    with logged("info") as out:
        await http.get("/v1/health/live")

    line = only(out, "request completed")
    assert_as_documented(line, "request completed")
    assert (line["level"], line["component"]) == ("info", "api")


async def test_a_request_without_a_key(nobody: Api) -> None:
    with logged("warn") as out:
        await nobody.get("/v1/documents")

    assert_as_documented(only(out, "not authenticated"), "not authenticated")


async def test_a_request_that_is_denied(auditor: Api) -> None:
    with logged("warn") as out:
        await auditor.post("/v1/documents", {"kind": "BOM"})

    assert_as_documented(only(out, "access denied"), "access denied")


async def test_a_request_that_the_database_cannot_serve(
    http: httpx2.AsyncClient, admin: Api, database: Database
) -> None:
    await database.pool.close()  # as if no connection could be had
    with logged("info") as out:
        answer = await admin.get("/v1/documents")

    assert answer.status_code == 503
    assert_as_documented(only(out, "a request could not be served"), "a request could not be served")
    assert only(out, "request completed")["level"] == "error"


@pytest.mark.parametrize(
    ("error", "documented"),
    [(Invalid("no"), "job … failed with CODE: …"), (ZeroDivisionError("no"), "job … failed")],
)
async def test_a_job_that_fails(error: Exception, documented: str) -> None:
    handlers = Handlers()

    @handlers.job("report")
    async def report(ctx: Context, value: int) -> None:
        raise error

    with logged("info") as out:
        await run_inline(report, 1)

    (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
    extra = {"tenant_id", "job_id", "job_type", "attempt"} if documented == "job … failed" else set()
    always = [name for name in HEAD if name != "worker"]
    assert list(line)[: len(always)] == always
    assert flat(line) - set(always) == ADDS[documented] | extra


async def test_a_job_that_ends(address: Address, tenant: TenantId) -> None:
    handlers = Handlers()

    @handlers.job("report")
    async def report(ctx: Context, value: int) -> None:
        if value:
            raise OSError("not yet") if value == 1 else Invalid("never")

    sessions = sessions_at(address, size=4)
    await sessions.open()
    jobs = Jobs(handlers, sessions)
    try:
        for value in (0, 1, 2):
            await jobs.submit(report, value, tenant=tenant)
        with logged("info") as out:
            await Worker(jobs).run_until_idle()
    finally:
        await jobs.close()
        await sessions.close()

    lines = [line for line in map(json.loads, out.getvalue().splitlines()) if line["msg"] == "job ended"]
    assert sorted(line["status"] for line in lines) == ["FAILED", "QUEUED", "SUCCEEDED"]
    for line in lines:
        assert_as_documented(line, "job ended")


def test_every_line_of_the_page_is_written_somewhere() -> None:
    sources = " ".join(path.read_text() for path in (Path(__file__).parents[2] / "src").rglob("*.py"))
    for message in ADDS:
        words = re.split(r"\s*(?:…|CODE)\S*\s*", message)
        assert all(word in sources for word in words if word), message
