"""Test runs of rules over HTTP: what they show, and which of them let a version be published."""

from typing import Any
from uuid import UUID

import pytest
from tests.jobs.support.run_workers import wait_until_status

from bpc.api.http.request_context import Service
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.routes.rules.test_rule_versions import COVERAGE, create_draft, create_in_status, get_status, insert_run
from tests.api.routes.test_rules import RULES, create_package, make_sources, read_events
from tests.storage.rows import RULE_STATUSES


@pytest.mark.usefixtures("worker")
async def test_tests_that_fail_are_shown_with_the_first_failure(admin: Api, service: Service, tenant: TenantId) -> None:
    tests = 'example it_is_nmc: {} =>\n  expect(battery.chemistry, == "NMC");\n;\n'
    new_version = await admin.post_json(
        f"/v1/rule-packages/{await create_package(admin)}/versions", make_sources(tests=tests)
    )
    version = f"/v1/rule-package-versions/{new_version['rule_package_version_id']}"

    ordered = await admin.post_json(f"{version}/tests:run", {}, status=200)
    await wait_until_status(service.jobs, tenant, UUID(ordered["job_id"]), "SUCCEEDED", seconds=60)

    run = await admin.get_json(f"{version}/test-runs/{ordered['run_id']}")
    assert (run["status"], run["failure"]["test"], run["failure"]["line"]) == ("FAILED", "it_is_nmc", 2)
    assert run["coverage"]["unreached"] == []
    assert run["failure"]["kind"] == "example"
    assert (run["failure"]["error"], run["failure"]["case"]) == (None, None)
    assert (await admin.get_json(version))["status"] == "DRAFT"
    refused = await admin.post(f"{version}:publish")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "RULE_TESTS_FAILED")


async def test_a_seed_is_a_whole_number_that_every_client_can_read(admin: Api) -> None:
    for seed in (-1, 2**53, "7", 1.5, True, None):
        refused = await admin.post(f"/v1/rule-package-versions/{clock.new_id()}/tests:run", {"seed": seed})

        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_only_drafts_and_validated_versions_are_tested(admin: Api, database: Database, tenant: TenantId) -> None:
    for status in RULE_STATUSES:
        version = await create_in_status(database, tenant, status)

        answer = await admin.post(f"/v1/rule-package-versions/{version}/tests:run", {"seed": 1})

        if status in {"DRAFT", "VALIDATED"}:
            assert answer.status_code == 200
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
            assert answer.json()["error"]["details"] == {"status": status}


async def test_the_run_that_ended_last_decides_about_publishing(
    admin: Api, database: Database, tenant: TenantId, superuser: Any
) -> None:
    version = await create_draft(admin)
    await insert_run(database, tenant, version)
    await insert_run(database, tenant, version, "FAILED")

    refused = await admin.post(f"/v1/rule-package-versions/{version}:publish")
    await insert_run(database, tenant, version, cases=499)
    still = await admin.post(f"/v1/rule-package-versions/{version}:publish")
    await insert_run(database, tenant, version)
    published = await admin.post_json(f"/v1/rule-package-versions/{version}:publish", status=200)

    assert refused.json()["error"]["code"] == still.json()["error"]["code"] == "RULE_TESTS_FAILED"
    assert refused.json()["error"]["details"]["newest_run"]["status"] == "FAILED"
    assert still.json()["error"]["details"]["newest_run"]["cases"] == 499
    assert published["status"] == "PUBLISHED"
    assert (await read_events(superuser, version)).count("RULES_PUBLISHED") == 1


async def test_four_hundred_and_ninety_nine_cases_validate_nothing(
    admin: Api, database: Database, tenant: TenantId
) -> None:
    version = await create_draft(admin)

    await insert_run(database, tenant, version, cases=499)

    assert await get_status(admin, version) == "DRAFT"


async def test_cases_that_evaluate_no_field_do_not_count(admin: Api, database: Database, tenant: TenantId) -> None:
    version = await create_draft(admin)
    await insert_run(database, tenant, version, cases=600, without_field=101)

    refused = await admin.post(f"/v1/rule-package-versions/{version}:publish")
    status = await get_status(admin, version)
    await insert_run(database, tenant, version, cases=601, without_field=101)

    assert status == "DRAFT"
    assert refused.json()["error"]["message"].startswith(
        "its newest test run has 600 cases, 101 of which evaluate no field and do not count, but 500 are needed"
    )
    assert await get_status(admin, version) == "VALIDATED"


async def test_a_run_of_an_earlier_build_counts_with_all_its_cases(
    admin: Api, database: Database, tenant: TenantId
) -> None:
    version = await create_draft(admin)
    await insert_run(database, tenant, version, without_field=None)

    published = await admin.post_json(f"/v1/rule-package-versions/{version}:publish", status=200)

    assert published["status"] == "PUBLISHED"


async def test_tests_must_reach_as_many_branches_as_the_tenant_asks_for(
    admin: Api, database: Database, tenant: TenantId
) -> None:
    version = await create_draft(admin)
    await insert_run(database, tenant, version)
    await admin.send("PUT", "/v1/tenant/settings", {"minimum_branch_coverage_pct": 81})

    refused = (await admin.post(f"/v1/rule-package-versions/{version}:publish")).json()["error"]
    status = await get_status(admin, version)
    await admin.send("PUT", "/v1/tenant/settings", {"minimum_branch_coverage_pct": 80})
    published = await admin.post_json(f"/v1/rule-package-versions/{version}:publish", status=200)

    assert (refused["code"], status) == ("RULE_TESTS_FAILED", "VALIDATED")
    assert refused["message"].startswith(
        "its tests reach 80 % of the branches, but 81 % are needed; no test evaluates `a.b`; "
    )
    assert refused["details"]["minimum_branch_coverage_pct"] == 81
    assert refused["details"]["newest_run"]["untested_fields"] == ["a.b"]
    assert published["status"] == "PUBLISHED"


@pytest.mark.usefixtures("worker")
async def test_a_run_names_the_fields_that_no_test_evaluates_and_counts_the_cases_without_any(
    admin: Api, service: Service, tenant: TenantId
) -> None:
    rules = 'field a: Text = "x";\nfield b: Text = "y";\n'
    tests = 'example a_is_x: {} => expect(a, == "x");;\n'
    tests += "property one_is_one: cases(20) seed(1) => forall x: Int . implies(true, 1 == 1);;\n"
    new_version = await admin.post_json(
        f"/v1/rule-packages/{await create_package(admin)}/versions", make_sources(rules, tests)
    )
    version = f"/v1/rule-package-versions/{new_version['rule_package_version_id']}"

    ordered = await admin.post_json(f"{version}/tests:run", {}, status=200)
    await wait_until_status(service.jobs, tenant, UUID(ordered["job_id"]), "SUCCEEDED", seconds=60)

    run = await admin.get_json(f"{version}/test-runs/{ordered['run_id']}")
    assert (run["cases"], run["cases_without_field"]) == (21, 20)
    assert run["coverage"]["untested_fields"] == ["b"]


async def test_runs_are_listed_page_by_page_the_last_one_first(
    admin: Api, database: Database, tenant: TenantId
) -> None:
    version = await create_draft(admin)
    for cases in (1, 2, 3):
        await insert_run(database, tenant, version, cases=cases)

    runs = f"/v1/rule-package-versions/{version}/test-runs"
    first = await admin.get_json(runs, params={"limit": 2})
    rest = await admin.get_json(runs, params={"limit": 2, "cursor": first["next_cursor"]})

    assert [run["cases"] for run in first["items"] + rest["items"]] == [3, 2, 1]
    assert rest["next_cursor"] is None
    assert "unreached" not in first["items"][0]["coverage"]
    run_details = await admin.get_json(f"{runs}/{first['items'][0]['run_id']}")
    assert run_details["coverage"] == COVERAGE


async def test_a_run_is_found_only_under_its_own_version(admin: Api, database: Database, tenant: TenantId) -> None:
    version, other = await create_draft(admin), await create_draft(admin, f"{RULES}-- other\n")
    await insert_run(database, tenant, version)
    [run] = (await admin.get_json(f"/v1/rule-package-versions/{version}/test-runs"))["items"]

    answer = await admin.get(f"/v1/rule-package-versions/{other}/test-runs/{run['run_id']}")

    assert answer.status_code == 404
