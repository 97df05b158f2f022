"""Runs of rule tests: what a run found is written once, when it is over, and a run that is not over is not here."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, LiteralString

import asyncpg

from bpc.core.errors import NotFound
from bpc.core.ids import RulePackageVersionId, RuleTestsRunId, TenantId
from bpc.db.connection import Connection
from bpc.db.pages import Ask

Verdict = Literal["PASSED", "FAILED"]

# The run that is written last is the newest, whatever the clocks of those who write say.
INSERT: Final[LiteralString] = """
    INSERT INTO rule_tests_runs (tenant_id, run_id, rule_package_version_id, seed, cases, passed, failed, discarded,
                                 status, coverage, failure, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11::jsonb, greatest($12::timestamptz, (
      SELECT max(created_at) + interval '1 microsecond' FROM rule_tests_runs
       WHERE tenant_id = $1 AND rule_package_version_id = $3)))
    ON CONFLICT (tenant_id, run_id) DO NOTHING
    RETURNING true
"""
COLUMNS: Final[LiteralString] = """
    run_id, rule_package_version_id, seed, cases, passed, failed, discarded, status, failure, created_at
"""
ONE: Final[LiteralString] = f"""
    SELECT {COLUMNS}, coverage FROM rule_tests_runs
     WHERE tenant_id = $1 AND rule_package_version_id = $2 AND run_id = $3
"""
# Where no test came to is a long list, and a page has many runs.
PAGE: Final[LiteralString] = f"""
    SELECT {COLUMNS}, coverage - 'unreached' AS coverage FROM rule_tests_runs
     WHERE tenant_id = $1 AND rule_package_version_id = $5 AND (created_at, run_id) < ($2, $3)
     ORDER BY created_at DESC, run_id DESC
     LIMIT $4
"""
NEWEST: Final[LiteralString] = f"""
    SELECT {COLUMNS}, coverage - 'unreached' AS coverage FROM rule_tests_runs
     WHERE tenant_id = $1 AND rule_package_version_id = $2
     ORDER BY created_at DESC, run_id DESC
     LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a run found. `cases` are those that count; `failure` is the first one."""

    cases: int
    passed: int
    failed: int
    discarded: int
    status: Verdict
    coverage: Mapping[str, Any]
    failure: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Found):
    """A run that is over."""

    run_id: RuleTestsRunId
    rule_package_version_id: RulePackageVersionId
    seed: int
    created_at: datetime


class RunUnknown(NotFound):
    def __init__(self, run: RuleTestsRunId) -> None:
        super().__init__(f"there is no test run `{run}`", fix="a run is here when its job is over")


async def add(
    conn: Connection,
    tenant: TenantId,
    version_id: RulePackageVersionId,
    run_id: RuleTestsRunId,
    *,
    seed: int,
    found: Found,
    at: datetime,
) -> bool:
    """Write down a run; False if it is there already. The caller holds the lock of the version."""
    counts = found.cases, found.passed, found.failed, found.discarded, found.status
    failure = None if found.failure is None else _stored(found.failure)
    told = await conn.fetchval(INSERT, tenant, run_id, version_id, seed, *counts, _stored(found.coverage), failure, at)
    return told is not None


async def get(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, run_id: RuleTestsRunId) -> Run:
    """A run of a version, with every place that no test came to."""
    row = await conn.fetchrow(ONE, tenant, version_id, run_id)
    if row is None:
        raise RunUnknown(run_id)
    return _run(row)


async def newest(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId) -> Run | None:
    """The run of a version that was written last."""
    row = await conn.fetchrow(NEWEST, tenant, version_id)
    return None if row is None else _run(row)


async def page(conn: Connection, tenant: TenantId, version_id: RulePackageVersionId, ask: Ask) -> Sequence[Run]:
    """The runs of a version, the one that was written last first."""
    return [_run(row) for row in await conn.fetch(PAGE, tenant, *ask, version_id)]


def _stored(value: Mapping[str, Any]) -> str:
    # Not orjson: a number in a failing case may have any length.
    return json.dumps(value, ensure_ascii=False)


def _run(row: asyncpg.Record) -> Run:
    coverage, failure = (None if row[name] is None else json.loads(row[name]) for name in ("coverage", "failure"))
    return Run(**dict(row) | {"coverage": coverage or {}, "failure": failure})
