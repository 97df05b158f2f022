"""Shipped rules are published as any others: stored, tested, published; and once, however often it is done."""

import asyncio
from pathlib import Path

import pytest

from bpc.cli.setup.shipped_rules import PublishedPackage, publish_shipped_packages
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.language.evaluation import MAX_STEPS
from bpc.storage.database import Database
from bpc.storage.rules import lifecycle, packages
from tests.cli.offline.test_rules_folder import EU, write_files
from tests.cli.program import Program
from tests.cli.setup.test_seed import PROD

PROPERTY = (
    "property heavy_is_heavy: cases(500) seed(1) given {\n"
    '  fact sheet("Battery", "battery:SKU-1") = any;\n'
    '} => forall x: Int . implies(field("battery.is_heavy") || true, true); ;\n'
    "example without_a_sheet: {} => expect(battery.mass_kg, == none); ;\n"
)


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    write_files(tmp_path / "eu-battery", {**EU, "tests/more.bpc": PROPERTY})
    return tmp_path


async def publish(database: Database, tenant: TenantId, shipped: Path) -> list[PublishedPackage]:
    return list(await publish_shipped_packages(database, tenant, max_steps=MAX_STEPS, shipped_folder=shipped))


async def list_event_types(database: Database, tenant: TenantId) -> list[str]:
    async with database.tenant(tenant) as conn:
        rows = await conn.fetch(
            "SELECT event_type FROM events WHERE tenant_id = $1 AND aggregate_type LIKE 'RulePackage%'", tenant
        )
    return sorted(row[0] for row in rows)


async def test_a_shipped_package_is_stored_tested_and_published(
    database: Database, tenant: TenantId, shipped: Path
) -> None:
    published = await publish(database, tenant, shipped)

    assert [package.says for package in published] == ["eu-battery 2027.1: version 1 (PUBLISHED)"]
    async with database.tenant(tenant) as conn:
        row = await packages.find_package_by_name(conn, tenant, "eu-battery")
        assert row is not None
        [version] = await packages.list_newest_published(conn, tenant, row.rule_package_id, limit=2)
        run = await lifecycle.find_newest_test_run(conn, tenant, version.rule_package_version_id)
    assert run is not None
    assert (run.status, run.cases) == ("PASSED", 504)


async def test_publishing_again_changes_nothing(database: Database, tenant: TenantId, shipped: Path) -> None:
    first = await publish(database, tenant, shipped)
    before = await list_event_types(database, tenant)

    second = await publish(database, tenant, shipped)

    assert second == first
    assert await list_event_types(database, tenant) == before
    assert before == ["RULES_PUBLISHED", "RULE_PACKAGE_CREATED", "RULE_VERSION_CREATED", "TESTS_RUN"]


async def test_three_at_once_publish_one_version(database: Database, tenant: TenantId, shipped: Path) -> None:
    results = await asyncio.gather(*(publish(database, tenant, shipped) for _ in range(3)))

    assert {package.says for published in results for package in published} == {
        "eu-battery 2027.1: version 1 (PUBLISHED)"
    }
    assert (await list_event_types(database, tenant)).count("RULES_PUBLISHED") == 1


async def test_a_new_release_is_a_new_version(database: Database, tenant: TenantId, shipped: Path) -> None:
    await publish(database, tenant, shipped)
    write_files(shipped / "eu-battery", {"package.bpc": 'package "eu-battery" "2027.2";'})

    published = await publish(database, tenant, shipped)

    assert [package.says for package in published] == ["eu-battery 2027.2: version 2 (PUBLISHED)"]


async def test_what_the_tenant_retired_stays_retired(
    database: Database, tenant: TenantId, shipped: Path, act: Act
) -> None:
    await publish(database, tenant, shipped)
    async with database.tenant(tenant) as conn:
        row = await packages.find_package_by_name(conn, tenant, "eu-battery")
        assert row is not None
        [version] = await packages.list_newest_published(conn, tenant, row.rule_package_id, limit=2)
        await lifecycle.retire_version(conn, tenant, version.rule_package_version_id, act=act)

    published = await publish(database, tenant, shipped)

    assert [package.says for package in published] == ["eu-battery 2027.1: version 1 (RETIRED)"]


async def test_a_package_whose_tests_are_too_few_stays_a_draft(
    database: Database, tenant: TenantId, shipped: Path
) -> None:
    (shipped / "eu-battery" / "tests" / "more.bpc").unlink()

    [package] = await publish(database, tenant, shipped)

    assert (package.version, package.status) == (1, "DRAFT")
    assert package.refusal is not None
    assert "500 are needed" in package.refusal


async def test_a_package_with_a_mistake_is_not_stored(database: Database, tenant: TenantId, shipped: Path) -> None:
    write_files(shipped / "eu-battery", {"limits.bpc": "field a: Int = b;"})

    [package] = await publish(database, tenant, shipped)

    assert (package.version, package.status) == (None, None)
    assert package.says.startswith("eu-battery 2027.1: not stored: ")


@pytest.mark.long
def test_in_prod_the_tenant_is_named(bpc_without_tables: Program) -> None:
    prod = bpc_without_tables.with_settings(**PROD)
    prod.run_ok("migrate")
    prod.run_ok("tenant", "create", "acme")

    assert prod.run_ok("seed", "--tenant", "acme", "--json").json()["tenant_id"] is None
    assert prod.run("seed", "--tenant", "nobody").code == 1
    assert prod.run("seed", "--tenant", "acme", "--no-rules").code == 2
