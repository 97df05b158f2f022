"""Rules over the API: from two texts to a published version, skipping steps that are already done.

    two texts ─► their package ─► their version ─► tests on the server ─► published

A pair of texts (rules and tests) is one version per tenant: the server creates no second one but names the first. So a
command that is repeated, after a lost connection or in another run of a pipeline, continues where it stopped.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from uuid import UUID

from bpc_client import ApiError, Client
from bpc_client.client import END_STATUSES
from bpc_client.models import Job, RuleTestRun, RuleTestRunDetails, RuleVersion, RuleVersionDetails

from bpc.core.errors import NotFound
from bpc.core.formats.ids import NotAnId, parse_uuid

LONGEST_WAIT: Final = 3600.0  # tests may take minutes, and wait for other jobs of the tenant
MIN_NAME_PART: Final = 2
MAX_NAME_PART: Final = 200
TESTABLE_STATUSES: Final = frozenset({"DRAFT", "VALIDATED"})

AnyRuleTestRun = RuleTestRun | RuleTestRunDetails


class RuleAndTestTexts(NamedTuple):
    """Rules and their tests."""

    rules: str
    tests: str

    def match_version(self, version: RuleVersion) -> bool:
        return (_hash_text(self.rules), _hash_text(self.tests)) == (version.dsl_sha256, version.tests_sha256)


class RemotePackage(NamedTuple):
    rule_package_id: UUID
    name: str


class RemoteRules(NamedTuple):
    """A version and its package."""

    package: RemotePackage
    version: RuleVersionDetails


class TestedRules(NamedTuple):
    """A version after its tests, and the test run; None if the version no longer needs tests."""

    version: RuleVersionDetails
    run: AnyRuleTestRun | None


class RulesRejected(Exception):
    """The server refused rules with errors. `diagnostics` are in the format of the server."""

    def __init__(self, diagnostics: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("rules with errors")
        self.diagnostics = diagnostics


class RulesNotFound(NotFound):
    def __init__(self, says: str) -> None:
        super().__init__(says, fix="`bpc rules list` shows all packages")


async def list_packages(bpc: Client, **filters: Any) -> list[RemotePackage]:
    """Packages, newest first, that match the filters of the API."""
    packages = bpc.list_all(bpc.list_rule_packages, **filters)
    return [RemotePackage(package.rule_package_id, package.name) async for package in packages]


async def find_package(bpc: Client, name_or_id: str) -> RemotePackage | None:
    """The package with this name or id; an unknown id is refused by the server."""
    with suppress(NotAnId):
        answer = await bpc.get_rule_package(parse_uuid(name_or_id))
        return RemotePackage(answer.rule_package_id, answer.name)
    part = name_or_id if MIN_NAME_PART <= len(name_or_id) <= MAX_NAME_PART else None  # what the API searches for
    return next((package for package in await list_packages(bpc, name=part) if package.name == name_or_id), None)


async def require_package(bpc: Client, name_or_id: str) -> RemotePackage:
    package = await find_package(bpc, name_or_id)
    if package is None:
        raise RulesNotFound(f"there is no rule package called `{name_or_id}`")
    return package


def list_versions(bpc: Client, package: RemotePackage) -> AsyncIterator[RuleVersion]:
    """Newest first."""
    return bpc.list_all(bpc.list_rule_versions, package.rule_package_id)


async def find_newest_published(bpc: Client, package: RemotePackage) -> RuleVersion | None:
    """The version that a package name refers to."""
    published_versions = [version async for version in list_versions(bpc, package) if version.status == "PUBLISHED"]
    return max(published_versions, key=lambda version: version.version, default=None)


async def require_published(bpc: Client, name: str) -> RuleVersion:
    """The newest published version of the package with this name."""
    version = await find_newest_published(bpc, await require_package(bpc, name))
    if version is None:
        raise RulesNotFound(f"no version of the rule package `{name}` is published")
    return version


async def store_rules(bpc: Client, name_or_id: str, texts: RuleAndTestTexts) -> RemoteRules:
    """The version with these texts, created if it does not exist; it may belong to another package."""
    package = await find_package(bpc, name_or_id)
    if package is None:
        # Create the package only when it will get a version: an empty package is of no use.
        if (existing := await _find_by_texts(bpc, texts)) is not None:
            return existing
        await _check_remotely(bpc, texts)
        package = await _create_package(bpc, name_or_id)
    version = await bpc.get_rule_version(await _create_version(bpc, package, texts))
    if version.rule_package_id != package.rule_package_id:
        other_package = await bpc.get_rule_package(version.rule_package_id)
        package = RemotePackage(other_package.rule_package_id, other_package.name)
    return RemoteRules(package, version)


async def run_tests_remotely(
    bpc: Client, version: RuleVersionDetails, *, seed: int, show: Callable[[Job], None] = lambda _: None
) -> TestedRules:
    """Run the tests. The same seed gives the same run, so a run that passed is not repeated."""
    version_id, newest = version.rule_package_version_id, version.newest_run
    if version.status not in TESTABLE_STATUSES:
        return TestedRules(version, None)
    if version.status == "VALIDATED" and newest is not None and (newest.seed, newest.status) == (seed, "PASSED"):
        return TestedRules(version, newest)
    try:
        run_request = await bpc.run_rule_tests(version_id, seed=seed)
    except ApiError:
        current = await bpc.get_rule_version(version_id)
        if current.status != "PUBLISHED":  # another client may have published it
            raise
        return TestedRules(current, current.newest_run)

    async def look() -> Job:
        job = await bpc.get_job(run_request.job_id)
        show(job)
        return job

    await bpc.wait_until(look, lambda job: job.status in END_STATUSES, seconds=LONGEST_WAIT)
    await bpc.wait(run_request.job_id)  # raises if it failed
    return TestedRules(
        await bpc.get_rule_version(version_id), await bpc.get_rule_test_run(version_id, run_request.run_id)
    )


async def publish_version(bpc: Client, version: RuleVersionDetails) -> RuleVersionDetails:
    """Publish the version and return it."""
    version_id = version.rule_package_version_id
    if version.status == "PUBLISHED":
        return version
    try:
        await bpc.publish_rule_version(version_id)
    except ApiError:
        current = await bpc.get_rule_version(version_id)
        if current.status != "PUBLISHED":  # another client may have published it
            raise
        return current
    return await bpc.get_rule_version(version_id)


async def _find_by_texts(bpc: Client, texts: RuleAndTestTexts) -> RemoteRules | None:
    """The version with these texts in any package."""
    for package in await list_packages(bpc):
        async for version in list_versions(bpc, package):
            if texts.match_version(version):
                return RemoteRules(package, await bpc.get_rule_version(version.rule_package_version_id))
    return None


async def _check_remotely(bpc: Client, texts: RuleAndTestTexts) -> None:
    diagnostics = (await bpc.check_rules(dsl_source=texts.rules, tests_source=texts.tests)).diagnostics
    if any(diagnostic["severity"] == "error" for diagnostic in diagnostics):
        raise RulesRejected(diagnostics)


async def _create_package(bpc: Client, name: str) -> RemotePackage:
    try:
        return RemotePackage((await bpc.create_rule_package(name=name)).rule_package_id, name)
    except ApiError as error:
        if error.code == "CONFLICT" and (existing := await find_package(bpc, name)) is not None:
            return existing  # another client created it
        raise


async def _create_version(bpc: Client, package: RemotePackage, texts: RuleAndTestTexts) -> UUID:
    try:
        version = await bpc.create_rule_version(
            package.rule_package_id, dsl_source=texts.rules, tests_source=texts.tests
        )
    except ApiError as error:
        if error.code == "CONFLICT" and "rule_package_version_id" in error.details:
            return UUID(error.details["rule_package_version_id"])
        if "diagnostics" in error.details:
            raise RulesRejected(error.details["diagnostics"]) from None
        raise
    return version.rule_package_version_id


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
