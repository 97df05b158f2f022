"""What becomes of a rule version: DRAFT ─► VALIDATED ─► PUBLISHED ─► DEPRECATED, and RETIRED from everywhere.

Every change locks the version first, so two that come at once are one after the other, and is on record. The database
itself lets a status only move forward.
"""

from dataclasses import replace
from typing import Final, LiteralString

from bpc import fresh
from bpc.core.digest import to_hex
from bpc.core.errors import Conflict
from bpc.core.events import Act, Said
from bpc.core.ids import RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.db import events, rule_runs
from bpc.db.connection import Connection
from bpc.db.rule_runs import Found, Run
from bpc.db.rules import RuleVersion, Status, locked_version, stream_of, version

LEAST_CASES: Final = 500  # that count, for rules to be published
TESTABLE: Final[frozenset[Status]] = frozenset({"DRAFT", "VALIDATED"})
NOTHING_LEFT: Final = "nothing is left to do: nothing more is compiled with it"

MOVE: Final[LiteralString] = """
    UPDATE rule_package_versions SET status = $3::rule_pkg_status
     WHERE tenant_id = $1 AND rule_package_version_id = $2
"""
PUBLISH: Final[LiteralString] = """
    UPDATE rule_package_versions SET status = 'PUBLISHED', published_at = $3
     WHERE tenant_id = $1 AND rule_package_version_id = $2
"""


class RuleTestsFailed(Conflict):
    """Rules are not published before their tests have passed."""

    code = "RULE_TESTS_FAILED"


class WrongStatus(Conflict):
    """The version is not where this could be done."""

    def __init__(self, found: RuleVersion, says: str, *, fix: str) -> None:
        super().__init__(f"the version is {found.status}, and {says}", fix=fix, details={"status": found.status})


async def require_testable(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> None:
    """Refuse a test run of a version that is past testing."""
    found = await version(conn, tenant, version_id)
    if found.status not in TESTABLE:
        raise WrongStatus(found, "only a DRAFT or VALIDATED one is tested", fix="make a new version, and test that")


async def tested(
    conn: Connection,
    tenant: TenantId,
    version_id: RulePackageVersionId,
    run_id: RuleTestsRunId,
    *,
    seed: int,
    found: Found,
    act: Act,
) -> None:
    """Write down a run, once, on record. A DRAFT whose tests passed is VALIDATED; a failing run lowers nothing.

    Its time is that of being written, when no other run of the version can be: the newest run is the last word.
    """
    before = await locked_version(conn, tenant, version_id)
    act = replace(act, at=fresh.now())
    if not await rule_runs.add(conn, tenant, version_id, run_id, seed=seed, found=found, at=act.at):
        return
    after = before.status
    if before.status == "DRAFT" and is_enough(found):
        after = "VALIDATED"
        await conn.execute(MOVE, tenant, version_id, after)
    payload = {
        "run_id": str(run_id),
        "seed": seed,
        "cases": found.cases,
        "passed": found.passed,
        "failed": found.failed,
        "discarded": found.discarded,
        "result": found.status,
        "status": after,
        "dsl_sha256": to_hex(before.dsl_sha256),
        "tests_sha256": to_hex(before.tests_sha256),
    }
    await events.append(conn, stream_of(tenant, version_id), act.says("TESTS_RUN", payload))


async def publish(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, *, act: Act) -> RuleVersion:
    """VALIDATED ─► PUBLISHED, if the run that was written last passed. No other version changes."""
    found = await locked_version(conn, tenant, version_id)
    run = await rule_runs.newest(conn, tenant, version_id)
    if found.status != "VALIDATED" or run is None or not is_enough(run):
        raise _not_yet(found, run)
    await conn.execute(PUBLISH, tenant, version_id, act.at)
    payload = _payload(found) | {
        "dsl_sha256": to_hex(found.dsl_sha256),
        "tests_sha256": to_hex(found.tests_sha256),
        "run_id": str(run.run_id),
    }
    await events.append(conn, stream_of(tenant, version_id), act.says("RULES_PUBLISHED", payload))
    return await version(conn, tenant, version_id)


async def deprecate(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, *, act: Act) -> RuleVersion:
    """PUBLISHED ─► DEPRECATED: nothing more is compiled with it."""
    found = await locked_version(conn, tenant, version_id)
    if found.status != "PUBLISHED":
        fix = "publish it first, or retire it" if found.status in TESTABLE else NOTHING_LEFT
        raise WrongStatus(found, "only a PUBLISHED one is deprecated", fix=fix)
    return await _moved(conn, tenant, found, "DEPRECATED", act.says("RULES_DEPRECATED", _payload(found)))


async def retire(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, *, act: Act) -> RuleVersion:
    """Any status ─► RETIRED. What was compiled with it can still be checked."""
    found = await locked_version(conn, tenant, version_id)
    if found.status == "RETIRED":
        raise WrongStatus(found, "that is the end", fix=NOTHING_LEFT)
    return await _moved(conn, tenant, found, "RETIRED", act.says("RULES_RETIRED", _payload(found)))


def is_enough(found: Found) -> bool:
    """Whether a run shows that rules may be published: everything held, and often enough to mean something."""
    return found.status == "PASSED" and found.cases >= LEAST_CASES


async def _moved(conn: Connection, tenant: TenantId, found: RuleVersion, to: Status, said: Said) -> RuleVersion:
    await conn.execute(MOVE, tenant, found.rule_package_version_id, to)
    await events.append(conn, stream_of(tenant, found.rule_package_version_id), said)
    return await version(conn, tenant, found.rule_package_version_id)


def _payload(found: RuleVersion) -> dict[str, object]:
    return {"rule_package_id": str(found.rule_package_id), "version": found.version, "from_status": found.status}


def _not_yet(found: RuleVersion, run: Run | None) -> RuleTestsFailed:
    details = {
        "status": found.status,
        "least_cases": LEAST_CASES,
        "newest_run": None
        if run is None
        else {"run_id": str(run.run_id), "status": run.status, "cases": run.cases, "failed": run.failed},
    }
    if found.status not in TESTABLE:
        says = f"the version is {found.status}, and only a VALIDATED one is published"
        fix = "compile with it: nothing is left to do" if found.status == "PUBLISHED" else "make a new version"
        return RuleTestsFailed(says, fix=fix, details=details)
    if run is None:
        return RuleTestsFailed(
            "its tests have not been run", fix="run them, and publish when they passed", details=details
        )
    if run.status == "FAILED":
        return RuleTestsFailed(
            f"{run.failed:,} of {run.cases:,} cases failed in its newest test run",
            fix="send a version that passes",
            details=details,
        )
    return RuleTestsFailed(
        f"its newest test run has {run.cases:,} cases that count, and {LEAST_CASES} are needed",
        fix="send a version with more cases",
        details=details,
    )
