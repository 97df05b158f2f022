"""The log lines that docs/observability.md describes have the fields it says, and no others."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest
from service_jobs import Context, Handlers, Jobs, Worker
from service_jobs.testing import run_inline

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.errors import Invalid
from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.database import Database
from bpc.storage.jobs import make_job_sessions
from tests.api.conftest import Api
from tests.api.filled_tenants import LogCapture, capture_logs
from tests.api.passport_fixtures import create_passport_inputs, issue_version
from tests.api.routes.rules.test_rule_versions import insert_run
from tests.api.routes.test_rules import create_package, make_sources

PAGE = (Path(__file__).parents[3] / "docs" / "observability.md").read_text()
LOGS = PAGE.split("## Logs")[1].split("## Traces")[0]
FIRST, FURTHER = LOGS.split("Then comes what")
HEAD: list[str] = re.findall(r"^\| `(\w+)` \| \S.* \|$", FIRST, re.MULTILINE)
ROWS = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.+) \|$", FURTHER, re.MULTILINE)
ADDS = {message: set(re.findall(r"`([a-z_.]+)`", adds)) for message, _, adds in ROWS}


def list_field_names(line: Mapping[str, Any]) -> set[str]:
    """The names of a line's fields, those of an object with its own before them."""
    return {
        f"{name}.{inner}" if inner else name
        for name, value in line.items()
        for inner in (value if isinstance(value, dict) else [""])
    }


def find_line(out: LogCapture, message: str) -> dict[str, Any]:
    matching_lines = [line for line in map(json.loads, out.getvalue().splitlines()) if line["msg"] == message]
    assert len(matching_lines) == 1, out.getvalue()
    line: dict[str, Any] = matching_lines[0]
    return line


def assert_as_documented(line: Mapping[str, Any], message: str) -> None:
    always = [name for name in HEAD if name != "worker"]
    assert list(line)[: len(always)] == always
    assert list_field_names(line) - set(always) == ADDS[message]


async def test_a_request(http: httpx2.AsyncClient) -> None:
    with capture_logs("info") as out:
        await http.get("/v1/health/live")

    line = find_line(out, "request completed")
    assert_as_documented(line, "request completed")
    assert (line["level"], line["component"]) == ("info", "api")


async def test_a_request_without_a_key(anonymous: Api) -> None:
    with capture_logs("warn") as out:
        await anonymous.get("/v1/documents")

    assert_as_documented(find_line(out, "not authenticated"), "not authenticated")


async def test_a_request_that_is_denied(auditor: Api) -> None:
    with capture_logs("warn") as out:
        await auditor.post("/v1/documents", {"kind": "BOM"})

    assert_as_documented(find_line(out, "access denied"), "access denied")


async def test_a_request_that_the_database_cannot_serve(
    http: httpx2.AsyncClient, admin: Api, database: Database
) -> None:
    await database.pool.close()  # as if no connection could be had
    with capture_logs("info") as out:
        answer = await admin.get("/v1/documents")

    assert answer.status_code == 503
    assert_as_documented(find_line(out, "a request could not be served"), "a request could not be served")
    assert find_line(out, "request completed")["level"] == "error"


@pytest.mark.parametrize(
    ("error", "documented"),
    [(Invalid("no"), "job … failed with CODE: …"), (ZeroDivisionError("no"), "job … failed")],
)
async def test_a_job_that_fails(error: Exception, documented: str) -> None:
    handlers = Handlers()

    @handlers.job("report")
    async def report(ctx: Context, value: int) -> None:
        raise error

    with capture_logs("info") as out:
        await run_inline(report, 1)

    (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
    extra = {"tenant_id", "job_id", "job_type", "attempt"} if documented == "job … failed" else set()
    always = [name for name in HEAD if name != "worker"]
    assert list(line)[: len(always)] == always
    assert list_field_names(line) - set(always) == ADDS[documented] | extra


async def test_a_job_that_ends(address: Address, tenant: TenantId) -> None:
    handlers = Handlers()

    @handlers.job("report")
    async def report(ctx: Context, value: int) -> None:
        if value:
            raise OSError("not yet") if value == 1 else Invalid("never")

    sessions = make_job_sessions(address, size=4)
    await sessions.open()
    jobs = Jobs(handlers, sessions)
    try:
        for value in (0, 1, 2):
            await jobs.submit(report, value, tenant=tenant)
        with capture_logs("info") as out:
            await Worker(jobs).run_until_idle()
    finally:
        await jobs.close()
        await sessions.close()

    lines = [line for line in map(json.loads, out.getvalue().splitlines()) if line["msg"] == "job ended"]
    assert sorted(line["status"] for line in lines) == ["FAILED", "QUEUED", "SUCCEEDED"]
    for line in lines:
        assert_as_documented(line, "job ended")


async def test_what_changes_what_counts_is_logged_with_ids_tenant_and_actor(
    admin: Api, service: Service, database: Database, tenant: TenantId, act: Act
) -> None:
    inputs = await create_passport_inputs(admin, database, tenant, act)
    package = await create_package(admin)
    new_version = await admin.post_json(f"/v1/rule-packages/{package}/versions", make_sources())
    rules = new_version["rule_package_version_id"]
    await insert_run(database, tenant, rules)
    first, second = [await issue_version(admin, service, inputs) for _ in range(2)]
    async with database.tenant(tenant) as conn:
        actor = await conn.fetchval("SELECT actor_id FROM events WHERE aggregate_id = $1", UUID(rules))
    whose = {"tenant_id": str(tenant), "actor_id": str(actor), "level": "info"}
    on_passport = whose | {"passport_id": inputs.passport}

    with capture_logs("info") as out:
        await admin.post_json(f"/v1/rule-package-versions/{rules}:publish", status=200)
        for version in (first, second):
            await admin.post_json(f"/v1/passport-versions/{version}/activate", status=200)
        await admin.post_json(f"/v1/passport-versions/{first}/replay", status=200)
        await admin.post_json(f"/v1/passport-versions/{first}/revoke", {"reason": "the private reason"}, status=200)
        refused = await admin.post(f"/v1/passport-versions/{first}/revoke", {"reason": "again"})

    assert refused.status_code == 409
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    expected = [
        ("rules published", whose | {"rule_package_id": package, "rule_package_version_id": rules}),
        (
            "passport version activated",
            on_passport | {"passport_version_id": first, "superseded_passport_version_id": None},
        ),
        (
            "passport version activated",
            on_passport | {"passport_version_id": second, "superseded_passport_version_id": first},
        ),
        ("passport version replayed", on_passport | {"passport_version_id": first, "outcome": "OK"}),
        ("passport version revoked", on_passport | {"passport_version_id": first}),
    ]
    acts = [line for line in lines if line["msg"] in dict(expected)]
    assert [line["msg"] for line in acts] == [message for message, _ in expected]
    for line, (message, fields) in zip(acts, expected, strict=True):
        assert {name: line[name] for name in fields} == fields
        assert_as_documented(line, message)
    assert "the private reason" not in out.getvalue()
    assert str(admin.key) not in out.getvalue()


def test_every_line_of_the_page_is_written_somewhere() -> None:
    root = Path(__file__).parents[3]
    folders = (root / "src", root / "packages" / "service-jobs" / "src")
    sources = " ".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    for message in ADDS:
        words = re.split(r"\s*(?:…|CODE)\S*\s*", message)
        assert all(word in sources for word in words if word), message
