"""The replay audit: every night some of the passports that count are compiled again, so that over time all of them are.

    REPLAY_AUDIT_SWEEP   every night, in the tenant `system`: a REPLAY_AUDIT for each tenant
    REPLAY_AUDIT         replays those of its tenant that were not replayed for longest, each in its own transaction

What does not hold is on the version's record as REPLAY_MISMATCH, in the metrics and in the log. It is a finding of the
audit and not a failure of the job, which says how many it looked at and what it found.
"""

from dataclasses import dataclass as plain_dataclass
from typing import Final, Literal, Protocol
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.errors import Refusal
from bpc.core.events import Act
from bpc.core.ids import PassportVersionId, TenantId
from bpc.db import passport_versions
from bpc.db.connection import Connection
from bpc.db.database import Opening
from bpc.db.jobs import submit_to_all
from bpc.jobs import LOW, Context, Handler, Handlers, LeaseLost
from bpc.jobs.schedules import Schedule
from bpc.logs import logger

SWEEP: Final = "REPLAY_AUDIT_SWEEP"
NIGHTLY: Final = "47 1 * * *"  # UTC
PRIORITY: Final = LOW  # behind everything that somebody waits for
LONGEST: Final = 3600.0  # seconds
log = logger(__name__)

Verdict = Literal["SAME", "MISMATCH", "ERROR"]


@dataclass(frozen=True, kw_only=True)
class SweepOrder:
    """A round over all tenants."""


@dataclass(frozen=True, kw_only=True)
class AuditOrder:
    """One tenant's share of a night."""

    sample: int


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What a job looked at, and which of them did not hold."""

    replayed: int
    mismatches: list[UUID]
    errors: int


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Both jobs."""

    sweep: Handler[SweepOrder, None]
    tenant: Handler[AuditOrder, Audited]


class Replaying(Protocol):
    """Replays a version, on record; what does not hold is returned, not raised."""

    async def __call__(
        self, ctx: Context, conn: Connection, tenant: TenantId, version: PassportVersionId, *, act: Act
    ) -> Refusal | None: ...


class Replays(Protocol):
    """Whoever keeps count of what was replayed."""

    def replayed(self, verdict: Verdict) -> None: ...


class Uncounted:
    """Keeps no count."""

    def replayed(self, verdict: Verdict) -> None: ...


def nightly() -> Schedule:
    """When the audit comes, for the tenant `system`."""
    return Schedule(name="replay-audit", cron=NIGHTLY, type=SWEEP, payload="{}", priority=PRIORITY)


def audit_jobs(handlers: Handlers, *, sample: int, replay: Replaying, opening: Opening | None, count: Replays) -> Audit:
    """`sample` is how many versions of a tenant are replayed in a night; none of them, if it is 0."""

    @handlers.job("REPLAY_AUDIT", timeout=LONGEST)
    async def of_tenant(ctx: Context, order: AuditOrder) -> Audited:
        if opening is None:
            raise RuntimeError("who runs jobs can open transactions")
        tenant = TenantId(ctx.tenant)
        async with opening(tenant) as conn:
            chosen = await passport_versions.to_replay(conn, tenant, most=order.sample)
        mismatches, errors = list[UUID](), 0
        for number, version in enumerate(chosen):
            await ctx.report_progress(100 * number // len(chosen), f"{number} of {len(chosen)} replayed")
            verdict = await _audited(ctx, opening, tenant, version, replay)
            count.replayed(verdict)
            mismatches += [version] if verdict == "MISMATCH" else []
            errors += verdict == "ERROR"
        return Audited(replayed=len(chosen), mismatches=mismatches, errors=errors)

    @handlers.job(SWEEP)
    async def sweep(ctx: Context, _: SweepOrder) -> None:
        if sample == 0:
            return
        order, key = AuditOrder(sample=sample), f"replay-audit:{ctx.job_id}"
        await submit_to_all(await ctx.transaction(), of_tenant, order, key=key, priority=PRIORITY)

    return Audit(sweep=sweep, tenant=of_tenant)


async def _audited(
    ctx: Context, opening: Opening, tenant: TenantId, version: PassportVersionId, replay: Replaying
) -> Verdict:
    """One version. Whatever is wrong with it, the others get their turn."""
    about = {"tenant_id": str(tenant), "passport_version_id": str(version)}
    try:
        async with opening(tenant) as conn:
            found = await replay(ctx, conn, tenant, version, act=Act(None, fresh.now()))
    except LeaseLost:
        raise
    except Exception:
        log.exception("a passport version could not be replayed", **about)
        await _had_its_turn(opening, tenant, version)
        return "ERROR"
    if found is None:
        return "SAME"
    log.error("a passport version does not replay", reason=found.says, **about)
    return "MISMATCH"


async def _had_its_turn(opening: Opening, tenant: TenantId, version: PassportVersionId) -> None:
    """What cannot be replayed must not be the first again, night after night, in place of others."""
    try:
        async with opening(tenant) as conn:
            await passport_versions.replayed(conn, tenant, version, at=fresh.now())
    except Refusal as refused:
        log.warning("and that could not be written down", reason=refused.says)
