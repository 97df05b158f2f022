"""The replay audit: every night some of the active passport versions are compiled again, in the long run all of them.

    REPLAY_AUDIT_SWEEP   every night, in the tenant `system`: submits a REPLAY_AUDIT for each tenant
    REPLAY_AUDIT         replays the versions whose last replay is longest ago, each in its own transaction

A difference is recorded on the version as REPLAY_MISMATCH, counted in the metrics and logged. It is a result of the
audit and not a failure of the job. The job's result has the number of replayed versions and the differences.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from service_jobs import LOW, Context, Defaults, Handler, Handlers, LeaseLost
from service_jobs.schedules import Schedule

from bpc.core.audit.events import Act
from bpc.core.errors import Refusal
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.pipeline.replay import replay
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.runtime.telemetry import JobMetrics, ReplayVerdict
from bpc.storage.database import OpenTransaction
from bpc.storage.jobs import SweepOrder, SweepOutcome, make_sweep_schedule, submit_to_all_tenants
from bpc.storage.passports import passport_versions

SWEEP: Final = "REPLAY_AUDIT_SWEEP"
AUDIT_JOB_TYPE: Final = "REPLAY_AUDIT"
SCHEDULE_NAME: Final = "replay-audit"
NIGHTLY: Final = "47 1 * * *"  # UTC
PRIORITY: Final = LOW  # after all jobs that somebody waits for
TIMEOUT_SECONDS: Final = 3600.0
log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOrder:
    """How many versions of one tenant are replayed in one night."""

    sample: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """How many versions were replayed, which of them differed, and how many could not be replayed."""

    replayed: int
    mismatches: list[UUID]
    errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAuditJobs:
    """Both jobs."""

    sweep: Handler[SweepOrder, SweepOutcome]
    tenant: Handler[AuditOrder, AuditResult]


def make_nightly_schedule(defaults: Defaults = Defaults()) -> Schedule:  # noqa: B008 (frozen)
    """When the sweep runs, in the tenant `system`."""
    return make_sweep_schedule(SCHEDULE_NAME, NIGHTLY, SWEEP, defaults, priority=PRIORITY)


def declare_audit_jobs(
    handlers: Handlers, *, sample: int, open_transaction: OpenTransaction, metrics: JobMetrics, defaults: Defaults
) -> ReplayAuditJobs:
    """Both jobs. `sample` versions of each tenant are replayed in one night; 0 switches the audit off."""

    @handlers.job(AUDIT_JOB_TYPE, timeout=TIMEOUT_SECONDS, description="Compiles active passports again and compares.")
    async def audit_tenant(ctx: Context, order: AuditOrder) -> AuditResult:
        tenant = TenantId(ctx.tenant)
        async with open_transaction(tenant) as conn:
            version_ids = await passport_versions.list_next_to_replay(conn, tenant, limit=order.sample)
        mismatches, errors = list[UUID](), 0
        for number, version in enumerate(version_ids):
            await ctx.report_progress(100 * number // len(version_ids), f"{number} of {len(version_ids)} replayed")
            verdict = await _replay_one(ctx, open_transaction, tenant, version)
            metrics.record_replay(verdict)
            mismatches += [version] if verdict == "MISMATCH" else []
            errors += verdict == "ERROR"
        return AuditResult(replayed=len(version_ids), mismatches=mismatches, errors=errors)

    @handlers.job(SWEEP, description="Submits the nightly replay audit of every tenant.")
    async def sweep(ctx: Context, _: SweepOrder) -> SweepOutcome:
        if sample == 0:
            return SweepOutcome(tenants=0)
        order, key = AuditOrder(sample=sample), f"replay-audit:{ctx.job_id}"
        return await submit_to_all_tenants(
            await ctx.transaction(), audit_tenant, order, key=key, priority=PRIORITY, defaults=defaults
        )

    return ReplayAuditJobs(sweep=sweep, tenant=audit_tenant)


async def _replay_one(
    ctx: Context, open_transaction: OpenTransaction, tenant: TenantId, version: PassportVersionId
) -> ReplayVerdict:
    """Replay one version. An error here does not stop the other versions."""
    log_fields = {"tenant_id": str(tenant), "passport_version_id": str(version)}
    try:
        async with open_transaction(tenant) as conn:
            result = await replay(conn, tenant, version, act=Act(None, clock.now()), pool=ctx.compute)
    except LeaseLost:
        raise
    except Exception:
        log.exception("a passport version could not be replayed", **log_fields)
        await _mark_replayed(open_transaction, tenant, version)
        return "ERROR"
    if (refusal := result.refusal) is None:
        return "SAME"
    log.error("a passport version does not replay", code=refusal.code, reason=refusal.says, **log_fields)
    return "MISMATCH"


async def _mark_replayed(open_transaction: OpenTransaction, tenant: TenantId, version: PassportVersionId) -> None:
    """Mark a version that cannot be replayed, so that it does not take the place of others every night."""
    try:
        async with open_transaction(tenant) as conn:
            await passport_versions.set_replayed_at(conn, tenant, version, at=clock.now())
    except Refusal as refusal:
        log.warning("the time of the failed replay could not be stored", reason=refusal.says)
