"""Test runs of a rule version, and its status: DRAFT ─► VALIDATED ─► PUBLISHED ─► DEPRECATED; RETIRED from any.

A run is stored once, when it has finished. A DRAFT becomes VALIDATED when a run passes. A VALIDATED version is
published if its newest run passed, and reached as many branches as the tenant asks for.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, LiteralString

from bpc.core.audit.events import Act
from bpc.core.audit.row_hashes import hash_json
from bpc.core.errors import Conflict, NotFound
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.storage.access.tenant_settings import load_settings
from bpc.storage.audit import events
from bpc.storage.connection import Connection, PageQuery, fetch_rows, make_page_query
from bpc.storage.rules.packages import RuleVersionRow, RuleVersionStatus, get_version, lock_version
from bpc.storage.webhooks.webhook_fanout import append_and_announce

RuleTestVerdict = Literal["PASSED", "FAILED"]
WITHOUT_FIELD: Final = "cases_without_field"  # a member of the stored coverage
log = get_logger(__name__)

# The run that is written last is the newest, also if the clocks of two writers differ.
INSERT_TEST_RUN: Final[LiteralString] = """
    INSERT INTO rule_tests_runs (tenant_id, run_id, rule_package_version_id, seed, cases, passed, failed, discarded,
                                 status, coverage, failure, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11::jsonb, greatest($12::timestamptz, (
      SELECT max(created_at) + interval '1 microsecond' FROM rule_tests_runs
       WHERE tenant_id = $1 AND rule_package_version_id = $3)))
    ON CONFLICT (tenant_id, run_id) DO NOTHING
    RETURNING true
"""
TEST_RUN_COLUMNS: Final[LiteralString] = """
    run_id, rule_package_version_id, seed, cases, passed, failed, discarded, status, failure, created_at
"""
SELECT_TEST_RUN: Final[LiteralString] = f"""
    SELECT {TEST_RUN_COLUMNS}, coverage FROM rule_tests_runs
     WHERE tenant_id = $1 AND rule_package_version_id = $2 AND run_id = $3
"""
# Without the places that no test reached: they are a long list, and a page has many runs.
SELECT_TEST_RUNS: Final[LiteralString] = f"""
    SELECT {TEST_RUN_COLUMNS}, coverage - 'unreached' AS coverage FROM rule_tests_runs
"""
SELECT_TEST_RUN_PAGE: Final[LiteralString] = make_page_query(
    SELECT_TEST_RUNS, time="created_at", key="run_id", where="AND rule_package_version_id = $5"
)
SELECT_NEWEST_TEST_RUN: Final[LiteralString] = f"""
    {SELECT_TEST_RUNS} WHERE tenant_id = $1 AND rule_package_version_id = $2
     ORDER BY created_at DESC, run_id DESC
     LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTestResult:
    """The result of a run. `cases` does not count the discarded ones; `failure` is the first case that failed.

    `cases_without_field` is None if an earlier build ran the tests: it did not look whether a case evaluates a field.
    """

    cases: int
    passed: int
    failed: int
    discarded: int
    cases_without_field: int | None
    status: RuleTestVerdict
    coverage: Mapping[str, Any]
    failure: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTestRunRow(RuleTestResult):
    """A finished run."""

    run_id: RuleTestsRunId
    rule_package_version_id: RulePackageVersionId
    seed: int
    created_at: datetime


async def insert_test_run(
    conn: Connection,
    tenant: TenantId,
    version_id: RulePackageVersionId,
    run_id: RuleTestsRunId,
    *,
    seed: int,
    result: RuleTestResult,
    at: datetime,
) -> bool:
    """Insert a run; return False if it is stored already. The caller holds the lock of the version."""
    counts = result.cases, result.passed, result.failed, result.discarded, result.status
    failure = None if result.failure is None else _to_json(result.failure)
    # The table has no column for it: to add one would lock a second table in the migration.
    coverage = _to_json({**result.coverage, WITHOUT_FIELD: result.cases_without_field})
    is_new = await conn.fetchval(INSERT_TEST_RUN, tenant, run_id, version_id, seed, *counts, coverage, failure, at)
    return is_new is not None


async def get_test_run(
    conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, run_id: RuleTestsRunId
) -> RuleTestRunRow:
    """A run of a version, with every place that no test reached."""
    runs = await fetch_rows(conn, _to_test_run_row, SELECT_TEST_RUN, tenant, version_id, run_id)
    if not runs:
        raise NotFound(f"there is no test run `{run_id}`", fix="a run is stored when its job has finished")
    return runs[0]


async def find_newest_test_run(
    conn: Connection, tenant: TenantId, version_id: RulePackageVersionId
) -> RuleTestRunRow | None:
    """The run of a version that was written last."""
    runs = await fetch_rows(conn, _to_test_run_row, SELECT_NEWEST_TEST_RUN, tenant, version_id)
    return runs[0] if runs else None


async def list_test_runs(
    conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, page: PageQuery
) -> Sequence[RuleTestRunRow]:
    """The runs of a version, the last written first."""
    return await fetch_rows(conn, _to_test_run_row, SELECT_TEST_RUN_PAGE, tenant, *page, version_id)


def _hash_details(result: RuleTestResult) -> Digest:
    """The hash of what a run stores beside its counts."""
    coverage = {**result.coverage, WITHOUT_FIELD: result.cases_without_field}
    return hash_json(_to_json({"coverage": coverage, "failure": result.failure}))


def _to_json(value: Mapping[str, Any]) -> str:
    # Not orjson: a number in a failing case may have any length.
    return json.dumps(value, ensure_ascii=False)


def _to_test_run_row(*, coverage: str | None, failure: str | None, **columns: Any) -> RuleTestRunRow:
    members = {} if coverage is None else json.loads(coverage) or {}
    return RuleTestRunRow(
        cases_without_field=members.pop(WITHOUT_FIELD, None),
        coverage=members,
        failure=None if failure is None else json.loads(failure),
        **columns,
    )


# The status of a version ------------------------------------------------------------------------------------------

MIN_CASES: Final = 500  # of a run, for rules to be published: not discarded, and each evaluates a field
MAX_NAMED_FIELDS: Final = 10  # in a message; the details of the refusal name all
TESTABLE_STATUSES: Final[frozenset[RuleVersionStatus]] = frozenset({"DRAFT", "VALIDATED"})
NOTHING_TO_DO: Final = "nothing to do: no new passport is compiled with it"

UPDATE_STATUS: Final[LiteralString] = """
    UPDATE rule_package_versions SET status = $3::rule_pkg_status
     WHERE tenant_id = $1 AND rule_package_version_id = $2
"""
UPDATE_PUBLISHED: Final[LiteralString] = """
    UPDATE rule_package_versions SET status = 'PUBLISHED', published_at = $3
     WHERE tenant_id = $1 AND rule_package_version_id = $2
"""


class RuleTestsFailed(Conflict):
    """Rules are published only after their tests have passed."""

    code = "RULE_TESTS_FAILED"


class RuleVersionStatusConflict(Conflict):
    """The status of the version does not allow this."""

    def __init__(self, version: RuleVersionRow, says: str, *, fix: str) -> None:
        super().__init__(f"the version is {version.status}; {says}", fix=fix, details={"status": version.status})


async def require_testable(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> None:
    """Refuse a test run of a version that is neither DRAFT nor VALIDATED."""
    rule_version = await get_version(conn, tenant, version_id)
    if rule_version.status not in TESTABLE_STATUSES:
        raise RuleVersionStatusConflict(
            rule_version, "only DRAFT and VALIDATED versions can be tested", fix="upload a new version and test that"
        )


async def record_test_run(
    conn: Connection,
    tenant: TenantId,
    version_id: RulePackageVersionId,
    run_id: RuleTestsRunId,
    *,
    seed: int,
    result: RuleTestResult,
    act: Act,
) -> None:
    """Store a run once, and append an event. A DRAFT whose tests passed becomes VALIDATED; a failure changes no status.

    A failure is one more event, which webhooks announce.

    A caller that waited for the lock may carry an older timestamp than the rows it sees, so the run gets the time of
    writing: the run written last is the newest.
    """
    before = await lock_version(conn, tenant, version_id)
    act = replace(act, at=clock.now())
    if not await insert_test_run(conn, tenant, version_id, run_id, seed=seed, result=result, at=act.at):
        return
    after = before.status
    if before.status == "DRAFT" and has_enough_cases(result):
        after = "VALIDATED"
        await conn.execute(UPDATE_STATUS, tenant, version_id, after)
    payload = {
        "run_id": str(run_id),
        "seed": seed,
        "cases": result.cases,
        "passed": result.passed,
        "failed": result.failed,
        "discarded": result.discarded,
        "cases_without_field": result.cases_without_field,
        "result": result.status,
        "status": after,
        "dsl_sha256": to_hex(before.dsl_sha256),
        "tests_sha256": to_hex(before.tests_sha256),
        "details_sha256": to_hex(_hash_details(result)),
    }
    await events.append_act(conn, act, tenant, "RulePackageVersion", version_id, "TESTS_RUN", payload)
    if result.status == "FAILED":
        event_payload = {"rule_package_id": str(before.rule_package_id), "version": before.version, **payload}
        await append_and_announce(
            conn, act, tenant, "RulePackageVersion", version_id, "RULE_TESTS_FAILED", event_payload
        )


async def publish_version(
    conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, *, act: Act
) -> RuleVersionRow:
    """VALIDATED ─► PUBLISHED, if the newest run is enough; announced to webhooks. No other version changes."""
    rule_version = await lock_version(conn, tenant, version_id)
    run = await find_newest_test_run(conn, tenant, version_id)
    least_coverage = (await load_settings(conn, tenant)).minimum_branch_coverage_pct
    if rule_version.status != "VALIDATED" or run is None or not is_publishable(run, least_coverage):
        raise _explain_not_publishable(rule_version, run, least_coverage)
    await conn.execute(UPDATE_PUBLISHED, tenant, version_id, act.at)
    payload = _status_payload(rule_version) | {
        "dsl_sha256": to_hex(rule_version.dsl_sha256),
        "tests_sha256": to_hex(rule_version.tests_sha256),
        "run_id": str(run.run_id),
        "branch_coverage_pct": _get_branch_coverage(run),
        "minimum_branch_coverage_pct": least_coverage,
    }
    if overrides := run.coverage.get("overrides"):
        payload["overrides"] = overrides
    await append_and_announce(conn, act, tenant, "RulePackageVersion", version_id, "RULES_PUBLISHED", payload)
    log.info(
        "rules published",
        tenant_id=tenant,
        actor_id=act.actor_id,
        rule_package_id=rule_version.rule_package_id,
        rule_package_version_id=version_id,
    )
    return await get_version(conn, tenant, version_id)


async def deprecate_version(
    conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, *, act: Act
) -> RuleVersionRow:
    """PUBLISHED ─► DEPRECATED: no new passport is compiled with it."""
    rule_version = await lock_version(conn, tenant, version_id)
    if rule_version.status != "PUBLISHED":
        fix = "publish it first, or retire it" if rule_version.status in TESTABLE_STATUSES else NOTHING_TO_DO
        raise RuleVersionStatusConflict(rule_version, "only PUBLISHED versions can be deprecated", fix=fix)
    return await _change_status(conn, tenant, rule_version, "DEPRECATED", "RULES_DEPRECATED", act)


async def retire_version(
    conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, *, act: Act
) -> RuleVersionRow:
    """Any status ─► RETIRED. Passports that were compiled with it can still be verified."""
    rule_version = await lock_version(conn, tenant, version_id)
    if rule_version.status == "RETIRED":
        raise RuleVersionStatusConflict(rule_version, "a retired version cannot change", fix=NOTHING_TO_DO)
    return await _change_status(conn, tenant, rule_version, "RETIRED", "RULES_RETIRED", act)


def has_enough_cases(result: RuleTestResult) -> bool:
    """Whether all cases of a run passed, and at least `MIN_CASES` of them evaluate a field."""
    return result.status == "PASSED" and _count_cases_with_field(result) >= MIN_CASES


def is_publishable(result: RuleTestResult, least_coverage: int) -> bool:
    """Whether a run is enough to publish: enough cases, which reach enough percent of the branches."""
    return has_enough_cases(result) and _get_branch_coverage(result) >= least_coverage


def _count_cases_with_field(result: RuleTestResult) -> int:
    return result.cases - (result.cases_without_field or 0)


def _get_branch_coverage(result: RuleTestResult) -> int:
    """The percentage of branches that the tests reached; 0 if it is not stored."""
    percent: int = result.coverage.get("branches", {}).get("percent", 0)
    return percent


def _list_untested_fields(result: RuleTestResult) -> list[str]:
    """The fields that no test evaluates; none if an earlier build ran the tests."""
    return list(result.coverage.get("untested_fields", ()))


async def _change_status(
    conn: Connection, tenant: TenantId, before: RuleVersionRow, status: RuleVersionStatus, event_type: str, act: Act
) -> RuleVersionRow:
    version_id, payload = before.rule_package_version_id, _status_payload(before)
    await conn.execute(UPDATE_STATUS, tenant, version_id, status)
    await events.append_act(conn, act, tenant, "RulePackageVersion", version_id, event_type, payload)
    return await get_version(conn, tenant, version_id)


def _status_payload(rule_version: RuleVersionRow) -> dict[str, object]:
    return {
        "rule_package_id": str(rule_version.rule_package_id),
        "version": rule_version.version,
        "from_status": rule_version.status,
    }


def _explain_not_publishable(
    rule_version: RuleVersionRow, run: RuleTestRunRow | None, least_coverage: int
) -> RuleTestsFailed:
    details = {
        "status": rule_version.status,
        "least_cases": MIN_CASES,
        "minimum_branch_coverage_pct": least_coverage,
        "newest_run": None if run is None else _describe_run(run),
    }
    if rule_version.status not in TESTABLE_STATUSES:
        says = f"the version is {rule_version.status}; only VALIDATED versions can be published"
        fix = "nothing to do: compile with it" if rule_version.status == "PUBLISHED" else "upload a new version"
    elif run is None:
        says, fix = "its tests have not been run", "run them, and publish after they passed"
    elif run.status == "FAILED":
        says = f"{run.failed:,} of {run.cases:,} cases failed in its newest test run"
        fix = "upload a version whose tests pass"
    else:
        says = "; ".join(_explain_weak_tests(run, least_coverage))
        fix = "write more tests, and upload them as a new version"
    return RuleTestsFailed(says, fix=fix, details=details)


def _describe_run(run: RuleTestRunRow) -> dict[str, object]:
    return {
        "run_id": str(run.run_id),
        "status": run.status,
        "cases": run.cases,
        "failed": run.failed,
        "cases_without_field": run.cases_without_field,
        "branch_coverage_pct": _get_branch_coverage(run),
        "untested_fields": _list_untested_fields(run),
    }


def _explain_weak_tests(run: RuleTestRunRow, least_coverage: int) -> Iterator[str]:
    """Everything that a run whose cases passed lacks."""
    if not has_enough_cases(run):
        without = run.cases_without_field
        note = f", {without:,} of which evaluate no field and do not count" if without else ""
        yield f"its newest test run has {run.cases:,} cases{note}, but {MIN_CASES} are needed"
    if _get_branch_coverage(run) < least_coverage:
        yield f"its tests reach {_get_branch_coverage(run)} % of the branches, but {least_coverage} % are needed"
    if untested_fields := _list_untested_fields(run):
        more = (
            f" and {len(untested_fields) - MAX_NAMED_FIELDS:,} more" if len(untested_fields) > MAX_NAMED_FIELDS else ""
        )
        yield f"no test evaluates {', '.join(f'`{path}`' for path in untested_fields[:MAX_NAMED_FIELDS])}{more}"
