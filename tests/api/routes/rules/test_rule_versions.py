"""Rule versions over HTTP: tested before they are published, each step once, on record, and never back."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.jobs.support.run_workers import wait_until_status

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from bpc.storage.rules import lifecycle
from bpc.storage.rules.lifecycle import RuleTestResult, RuleTestVerdict
from tests.api.conftest import Api
from tests.api.routes.test_rules import RULES, create_package, make_sources, read_events
from tests.storage.rows import RULE_STATUSES, insert_rule_version

EXAMPLE = Path("examples") / "first"
# Who waits for a lock in this database. Of pg_stat_activity, a transaction sees only what was when it first looked.
WAITING = """
    SELECT count(*) FROM pg_locks
     WHERE NOT granted AND pid IN (SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                                    WHERE d.datname = current_database())
"""
COVERAGE: dict[str, Any] = {
    **{kind: {"total": 2, "reached": 1, "percent": 50} for kind in ("fields", "assertions")},
    "branches": {"total": 5, "reached": 4, "percent": 80},
    "untested_fields": ["a.b"],
    "unreached": [{"kind": "field", "label": "a.b", "file": "rules.bpc", "line": 3, "column": 1}],
}


async def create_draft(admin: Api, dsl: str = RULES) -> str:
    version = await admin.post_json(f"/v1/rule-packages/{await create_package(admin)}/versions", make_sources(dsl))
    return str(version["rule_package_version_id"])


async def create_in_status(database: Database, tenant: TenantId, status: str) -> str:
    async with database.tenant(tenant) as conn:
        return str(await insert_rule_version(conn, tenant, status=status))


async def insert_run(
    database: Database,
    tenant: TenantId,
    version: str,
    status: RuleTestVerdict = "PASSED",
    *,
    cases: int = 500,
    without_field: int | None = 0,
) -> None:
    """A test run that is over now."""
    failed = int(status == "FAILED")
    test_result = RuleTestResult(
        cases=cases,
        passed=cases - failed,
        failed=failed,
        discarded=0,
        cases_without_field=without_field,
        status=status,
        coverage=COVERAGE,
        failure=None,
    )
    act = Act(None, clock.now())
    async with database.tenant(tenant) as conn:
        version_id, run_id = RulePackageVersionId(UUID(version)), RuleTestsRunId(clock.new_id())
        await lifecycle.record_test_run(conn, tenant, version_id, run_id, seed=1, result=test_result, act=act)


async def get_status(admin: Api, version: str) -> str:
    return str((await admin.get_json(f"/v1/rule-package-versions/{version}"))["status"])


@pytest.mark.usefixtures("worker")
async def test_a_version_is_sent_tested_and_published(
    admin: Api, service: Service, tenant: TenantId, superuser: Any
) -> None:
    dsl, tests = (EXAMPLE / "rules.bpc").read_text(), (EXAMPLE / "tests.bpc").read_text()
    new_version = await admin.post_json(
        f"/v1/rule-packages/{await create_package(admin)}/versions", make_sources(dsl, tests)
    )
    version = new_version["rule_package_version_id"]

    ordered = await admin.post_json(f"/v1/rule-package-versions/{version}/tests:run", {"seed": 7}, status=200)
    await wait_until_status(service.jobs, tenant, UUID(ordered["job_id"]), "SUCCEEDED", seconds=60)
    validated = await admin.get_json(f"/v1/rule-package-versions/{version}")
    published = await admin.post_json(f"/v1/rule-package-versions/{version}:publish", status=200)

    assert validated["status"] == "VALIDATED"
    run = validated["newest_run"]
    assert (run["run_id"], run["status"], run["cases"], run["seed"]) == (ordered["run_id"], "PASSED", 506, 7)
    assert (run["passed"], run["failed"], run["discarded"]) == (506, 0, 632)
    assert published["status"] == "PUBLISHED"
    assert published["published_at"] is not None
    assert await read_events(superuser, version) == ["RULE_VERSION_CREATED", "TESTS_RUN", "RULES_PUBLISHED"]
    actors = await superuser.fetch("SELECT DISTINCT actor_id FROM events WHERE aggregate_id = $1::text::uuid", version)
    assert len(actors) == 1, "the job acts for who ordered it"


@pytest.mark.usefixtures("worker")
async def test_what_rules_override_is_on_record_when_they_are_published(
    admin: Api, service: Service, tenant: TenantId, superuser: Any
) -> None:
    dsl = 'language 2;\nfield a: Int = 1;\noverride "two is right"\nfield a @public: Int = 2;\n'
    tests = 'property p: cases(500) seed(1) => forall x: Int . implies(x == x, field("a") == 2);;\n'
    new_version = await admin.post_json(
        f"/v1/rule-packages/{await create_package(admin)}/versions", make_sources(dsl, tests)
    )
    version = new_version["rule_package_version_id"]
    ordered = await admin.post_json(f"/v1/rule-package-versions/{version}/tests:run", {"seed": 7}, status=200)
    await wait_until_status(service.jobs, tenant, UUID(ordered["job_id"]), "SUCCEEDED", seconds=60)

    await admin.post_json(f"/v1/rule-package-versions/{version}:publish", status=200)

    payload = await superuser.fetchval(
        "SELECT payload::text FROM events WHERE aggregate_id = $1::text::uuid AND event_type = 'RULES_PUBLISHED'",
        version,
    )
    assert json.loads(payload)["overrides"] == [
        {"kind": "field", "name": "a", "reason": "two is right", "weakens": True, "file": "rules.bpc", "line": 3}
    ]


async def test_an_order_that_is_sent_twice_is_one_job(admin: Api) -> None:
    version = await create_draft(admin)

    first = await admin.post(f"/v1/rule-package-versions/{version}/tests:run", {"seed": 1}, idempotency_key="one")
    again = await admin.post(f"/v1/rule-package-versions/{version}/tests:run", {"seed": 1}, idempotency_key="one")

    assert first.json() == again.json()


async def test_only_a_validated_version_is_published(admin: Api, database: Database, tenant: TenantId) -> None:
    for status in (status for status in RULE_STATUSES if status != "VALIDATED"):
        version = await create_in_status(database, tenant, status)

        answer = await admin.post(f"/v1/rule-package-versions/{version}:publish")

        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "RULE_TESTS_FAILED")
        assert answer.json()["error"]["details"]["status"] == status
        assert await get_status(admin, version) == status


async def test_two_who_publish_at_once_publish_once(
    admin: Api, database: Database, tenant: TenantId, superuser: Any
) -> None:
    version = await create_draft(admin)
    await insert_run(database, tenant, version)
    held = superuser.transaction()
    await held.start()
    await superuser.execute("SELECT FROM rule_package_versions FOR UPDATE")

    both = [asyncio.create_task(admin.post(f"/v1/rule-package-versions/{version}:publish")) for _ in range(2)]
    async with asyncio.timeout(60):
        while await superuser.fetchval(WAITING) < 2:
            await asyncio.sleep(0.01)
    await held.rollback()
    answers = await asyncio.gather(*both)

    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert await read_events(superuser, version) == ["RULE_VERSION_CREATED", "TESTS_RUN", "RULES_PUBLISHED"]


async def test_publishing_changes_no_other_version(admin: Api, database: Database, tenant: TenantId) -> None:
    package = await create_package(admin)
    versions = []
    for number in range(2):
        new_version = await admin.post_json(
            f"/v1/rule-packages/{package}/versions", make_sources(f"{RULES}-- {number}\n")
        )
        await insert_run(database, tenant, new_version["rule_package_version_id"])
        versions.append(new_version["rule_package_version_id"])

    for version in versions:
        await admin.post_json(f"/v1/rule-package-versions/{version}:publish", status=200)

    assert [await get_status(admin, version) for version in versions] == ["PUBLISHED", "PUBLISHED"]
    assert (await admin.get_json(f"/v1/rule-packages/{package}"))["versions_by_status"] == {"PUBLISHED": 2}


async def test_only_a_published_version_is_deprecated(
    admin: Api, database: Database, tenant: TenantId, superuser: Any
) -> None:
    for status in RULE_STATUSES:
        version = await create_in_status(database, tenant, status)

        answer = await admin.post(f"/v1/rule-package-versions/{version}:deprecate")

        if status == "PUBLISHED":
            assert (answer.status_code, answer.json()["status"]) == (200, "DEPRECATED")
            assert await read_events(superuser, version) == ["RULES_DEPRECATED"]
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
            assert ("publish it first" in answer.json()["error"]["message"]) is (status in {"DRAFT", "VALIDATED"})
            assert await read_events(superuser, version) == []


async def test_every_version_can_be_retired_once(
    admin: Api, database: Database, tenant: TenantId, superuser: Any
) -> None:
    for status in RULE_STATUSES:
        version = await create_in_status(database, tenant, status)

        answer = await admin.delete(f"/v1/rule-package-versions/{version}")

        if status == "RETIRED":
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
            assert "nothing to do" in answer.json()["error"]["message"]
            assert await read_events(superuser, version) == []
        else:
            assert (answer.status_code, answer.json()["status"]) == (200, "RETIRED")
            assert await read_events(superuser, version) == ["RULES_RETIRED"]
        assert (await admin.get(f"/v1/rule-package-versions/{version}/rules.bpc")).status_code == 200


async def test_who_may_only_read_rules_changes_none(admin: Api, officer: Api, auditor: Api) -> None:
    version = f"/v1/rule-package-versions/{await create_draft(admin)}"

    for reader in (officer, auditor):
        for path in ("", "/rules.bpc", "/tests.bpc", "/test-runs"):
            assert (await reader.get(f"{version}{path}")).status_code == 200
        assert (await reader.post(f"{version}/tests:run", {"seed": 1})).status_code == 403
        assert (await reader.post(f"{version}:publish")).status_code == 403
        assert (await reader.post(f"{version}:deprecate")).status_code == 403
        assert (await reader.delete(version)).status_code == 403


async def test_a_version_of_another_tenant_is_like_one_that_does_not_exist(
    admin: Api, other_admin: Api, database: Database, tenant: TenantId
) -> None:
    version, unknown = await create_draft(admin), str(clock.new_id())
    await insert_run(database, tenant, version)
    [run] = (await admin.get_json(f"/v1/rule-package-versions/{version}/test-runs"))["items"]

    for method, path, body in (
        ("GET", "", None),
        ("GET", "/rules.bpc", None),
        ("GET", "/tests.bpc", None),
        ("GET", "/test-runs", None),
        ("GET", f"/test-runs/{run['run_id']}", None),
        ("POST", "/tests:run", {"seed": 1}),
        ("POST", ":publish", None),
        ("POST", ":deprecate", None),
        ("DELETE", "", None),
    ):
        same = {"X-Correlation-Id": version}
        foreign = await other_admin.send(method, f"/v1/rule-package-versions/{version}{path}", body, headers=same)
        missing = await other_admin.send(method, f"/v1/rule-package-versions/{unknown}{path}", body, headers=same)
        assert foreign.status_code == missing.status_code == 404
        assert foreign.text.replace(version, "…") == missing.text.replace(version, "…").replace(unknown, "…")
    assert await get_status(admin, version) == "VALIDATED"
