"""Rules over the API, from two texts to a version that compiles passports. What is done already is not done again.

    two texts ─► their package ─► their version ─► tests on the service ─► published

Two texts are one version of a tenant: the service makes no second one, and names the first. So whoever asks again,
because a connection broke or because a pipeline runs once more, goes on where it was, at any later time.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from uuid import UUID

from bpc.client import ApiError, Client
from bpc.client.client import OVER
from bpc.client.models import Job, RuleTestRun, RuleTestRunDetails, RuleVersion, RuleVersionDetails
from bpc.core.errors import NotFound
from bpc.core.ids import NotAnId, parse_uuid

LONGEST_WAIT: Final = 3600.0  # tests may take minutes, and wait for others of the tenant
TESTABLE: Final = frozenset({"DRAFT", "VALIDATED"})

Run = RuleTestRun | RuleTestRunDetails


class Texts(NamedTuple):
    """Rules and their tests."""

    rules: str
    tests: str

    def are(self, version: RuleVersion) -> bool:
        return (_sha256(self.rules), _sha256(self.tests)) == (version.dsl_sha256, version.tests_sha256)


class Package(NamedTuple):
    rule_package_id: UUID
    name: str


class Stored(NamedTuple):
    """A version, and the package that it is of."""

    package: Package
    version: RuleVersionDetails


class Tested(NamedTuple):
    """A version after its tests, and the run of them that counts; none if it was past testing."""

    version: RuleVersionDetails
    run: Run | None


class Mistakes(Exception):
    """The service does not take rules with mistakes. `diagnostics` are as it writes them; one at least is an error."""

    def __init__(self, diagnostics: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("rules with mistakes")
        self.diagnostics = diagnostics


class NoSuchRules(NotFound):
    def __init__(self, says: str) -> None:
        super().__init__(says, fix="`bpc rules list` shows what there is")


async def packages(bpc: Client) -> list[Package]:
    """All there are, newest first."""
    return [Package(each.rule_package_id, each.name) async for each in bpc.list_all(bpc.list_rule_packages)]


async def package_of(bpc: Client, given: str) -> Package | None:
    """The package with this name or id. An id is of a package that is there, or is refused."""
    with suppress(NotAnId):
        found = await bpc.get_rule_package(parse_uuid(given))
        return Package(found.rule_package_id, found.name)
    return next((each for each in await packages(bpc) if each.name == given), None)


def versions(bpc: Client, package: Package) -> AsyncIterator[RuleVersion]:
    """Newest first."""
    return bpc.list_all(bpc.list_rule_versions, package.rule_package_id)


async def newest_published(bpc: Client, package: Package) -> RuleVersion | None:
    """What a package's name means where passports are compiled."""
    found = [each async for each in versions(bpc, package) if each.status == "PUBLISHED"]
    return max(found, key=lambda each: each.version, default=None)


async def rules_named(bpc: Client, name: str) -> RuleVersion:
    """The newest published version of the package with this name."""
    package = await package_of(bpc, name)
    if package is None:
        raise NoSuchRules(f"there is no rule package called `{name}`")
    found = await newest_published(bpc, package)
    if found is None:
        raise NoSuchRules(f"no version of the rule package `{name}` is published")
    return found


async def stored(bpc: Client, given: str, texts: Texts) -> Stored:
    """The version with these texts, made if it is not there; it may be one of another package than was given."""
    package = await package_of(bpc, given)
    if package is None:
        # Nobody wants a package that stays empty: it is made when there will be a version in it.
        if (known := await _known(bpc, texts)) is not None:
            return known
        await _check(bpc, texts)
        package = await _made(bpc, given)
    version = await bpc.get_rule_version(await _version(bpc, package, texts))
    if version.rule_package_id != package.rule_package_id:
        found = await bpc.get_rule_package(version.rule_package_id)
        package = Package(found.rule_package_id, found.name)
    return Stored(package, version)


async def after_tests(
    bpc: Client, version: RuleVersionDetails, *, seed: int, show: Callable[[Job], None] = lambda _: None
) -> Tested:
    """The version after its tests. The same seed gives the same run: one that passed is not run again."""
    version_id, newest = version.rule_package_version_id, version.newest_run
    if version.status not in TESTABLE:
        return Tested(version, None)
    if version.status == "VALIDATED" and newest is not None and (newest.seed, newest.status) == (seed, "PASSED"):
        return Tested(version, newest)
    try:
        ordered = await bpc.run_rule_tests(version_id, seed=seed)
    except ApiError:
        now = await bpc.get_rule_version(version_id)
        if now.status != "PUBLISHED":  # somebody else may have been faster
            raise
        return Tested(now, now.newest_run)

    async def look() -> Job:
        job = await bpc.get_job(ordered.job_id)
        show(job)
        return job

    await bpc.until(look, lambda job: job.status in OVER, seconds=LONGEST_WAIT)
    await bpc.wait(ordered.job_id)  # it is over, and this says how
    return Tested(await bpc.get_rule_version(version_id), await bpc.get_rule_test_run(version_id, ordered.run_id))


async def published(bpc: Client, version: RuleVersionDetails) -> RuleVersionDetails:
    """The version once it is published."""
    version_id = version.rule_package_version_id
    if version.status == "PUBLISHED":
        return version
    try:
        await bpc.publish_rule_version(version_id)
    except ApiError:
        now = await bpc.get_rule_version(version_id)
        if now.status != "PUBLISHED":  # somebody else may have been faster
            raise
        return now
    return await bpc.get_rule_version(version_id)


async def _known(bpc: Client, texts: Texts) -> Stored | None:
    """The version with these texts, whatever package it is of."""
    for package in await packages(bpc):
        async for each in versions(bpc, package):
            if texts.are(each):
                return Stored(package, await bpc.get_rule_version(each.rule_package_version_id))
    return None


async def _check(bpc: Client, texts: Texts) -> None:
    found = (await bpc.check_rules(dsl_source=texts.rules, tests_source=texts.tests)).diagnostics
    if any(each["severity"] == "error" for each in found):
        raise Mistakes(found)


async def _made(bpc: Client, name: str) -> Package:
    try:
        return Package((await bpc.create_rule_package(name=name)).rule_package_id, name)
    except ApiError as refused:
        if refused.code == "CONFLICT" and (found := await package_of(bpc, name)) is not None:
            return found  # somebody else was faster
        raise


async def _version(bpc: Client, package: Package, texts: Texts) -> UUID:
    try:
        made = await bpc.create_rule_version(package.rule_package_id, dsl_source=texts.rules, tests_source=texts.tests)
    except ApiError as refused:
        if refused.code == "CONFLICT" and "rule_package_version_id" in refused.details:
            return UUID(refused.details["rule_package_version_id"])
        if "diagnostics" in refused.details:
            raise Mistakes(refused.details["diagnostics"]) from None
        raise
    return made.rule_package_version_id


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
