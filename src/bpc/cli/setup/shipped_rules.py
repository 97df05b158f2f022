"""Publish the rule packages that are shipped with bpc for a tenant, as `bpc seed` does.

A package is stored, tested and published as any other: its texts become a version, its tests run, and the version is
published if they pass. The same texts are one version, so repeating it changes nothing; a new release is a new version.
What the tenant decided stays: a version that it deprecated or retired is not published again, and a package that it
deactivated gets no new version. The tests take seconds, and meanwhile no transaction is open.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bpc.cli.support.package_folders import SHIPPED_RULES, ShippedPackage, list_shipped_packages, read_folder
from bpc.cli.support.session import make_operator_act
from bpc.core.errors import Conflict, Refusal
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import RulePackageId, RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.core.language.check_result import check_rule_sources
from bpc.core.language.linking import LinkedTexts, link_package
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.database import Database, lock_name
from bpc.storage.rules import lifecycle, packages
from bpc.storage.rules.lifecycle import TESTABLE_STATUSES
from bpc.storage.rules.packages import RuleVersionRow
from bpc.tasks.rule_tests import run_package_tests

TESTS_SEED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPackage:
    """A shipped package and its version. `refusal` says why there is none, or why it is not published."""

    name: str
    release: str
    version: int | None
    status: str | None
    refusal: str | None = None

    @property
    def says(self) -> str:
        version = "not stored" if self.version is None else f"version {self.version} ({self.status})"
        return f"{self.name} {self.release}: {version}" + ("" if self.refusal is None else f": {self.refusal}")


async def publish_shipped_packages(
    database: Database, tenant: TenantId, *, max_steps: int, shipped_folder: Path = SHIPPED_RULES
) -> Sequence[PublishedPackage]:
    """Publish every shipped package that is not published yet, by name and release."""
    return [
        await _publish_package(database, tenant, package, max_steps=max_steps, shipped_folder=shipped_folder)
        for package in list_shipped_packages(shipped_folder)
    ]


async def _publish_package(
    database: Database, tenant: TenantId, package: ShippedPackage, *, max_steps: int, shipped_folder: Path
) -> PublishedPackage:
    texts = link_package(read_folder(package.folder, shipped_folder=shipped_folder))
    row: RuleVersionRow | None = None
    refusal: str | None = None
    try:
        row = await _find_or_store_version(database, tenant, package.name, texts)
        if row.status in TESTABLE_STATUSES:
            row = await _test_and_publish(database, tenant, row, texts, max_steps)
    except Refusal as error:
        refusal = error.says
        if row is not None:
            async with database.tenant(tenant) as conn:
                row = await packages.get_version(conn, tenant, row.rule_package_version_id)
    version, status = (None, None) if row is None else (row.version, row.status)
    return PublishedPackage(name=package.name, release=package.release, version=version, status=status, refusal=refusal)


async def _find_or_store_version(database: Database, tenant: TenantId, name: str, texts: LinkedTexts) -> RuleVersionRow:
    async with database.tenant(tenant) as conn:
        await _lock(conn, tenant)
        version = await _find_version(conn, tenant, texts)
        if version is not None:
            return await packages.get_version(conn, tenant, version)
        check_result = check_rule_sources(*texts)
        if check_result.refusal is not None:
            raise Conflict(check_result.refusal.says, fix=check_result.refusal.fix)
        return await packages.insert_version(
            conn,
            tenant,
            await _find_or_create_package(conn, tenant, name),
            dsl=texts.rules,
            tests=texts.tests,
            fields=check_result.fields,
            act=make_operator_act(),
            language=check_result.language,
        )


async def _find_version(conn: Connection, tenant: TenantId, texts: LinkedTexts) -> RulePackageVersionId | None:
    existing = await packages.find_sources_conflict(conn, tenant, sha256(texts.rules), sha256(texts.tests))
    return None if existing is None else existing.version_id


async def _find_or_create_package(conn: Connection, tenant: TenantId, name: str) -> RulePackageId:
    row = await packages.find_package_by_name(conn, tenant, name)
    if row is None:
        description = "Shipped with bpc."
        row = await packages.create_package(conn, tenant, name=name, description=description, act=make_operator_act())
    return row.rule_package_id


async def _test_and_publish(
    database: Database, tenant: TenantId, row: RuleVersionRow, texts: LinkedTexts, max_steps: int
) -> RuleVersionRow:
    result = await asyncio.to_thread(run_package_tests, texts.rules, texts.tests, TESTS_SEED, max_steps)
    version_id = row.rule_package_version_id
    async with database.tenant(tenant) as conn:
        await _lock(conn, tenant)
        current = await packages.get_version(conn, tenant, version_id)
        if current.status not in TESTABLE_STATUSES:  # another process was faster
            return current
        run_id = RuleTestsRunId(clock.new_id())
        act = make_operator_act()
        await lifecycle.record_test_run(conn, tenant, version_id, run_id, seed=TESTS_SEED, result=result, act=act)
    # Apart, so that a refusal leaves the run on record.
    async with database.tenant(tenant) as conn:
        await _lock(conn, tenant)
        current = await packages.get_version(conn, tenant, version_id)
        if current.status not in TESTABLE_STATUSES:
            return current
        return await lifecycle.publish_version(conn, tenant, version_id, act=make_operator_act())


async def _lock(conn: Connection, tenant: TenantId) -> None:
    await lock_name(conn, f"shipped rules of {tenant}")
