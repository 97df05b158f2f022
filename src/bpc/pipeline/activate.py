"""Activate, the seventh step: a signed version becomes the current version of its passport. Revoke ends that.

A passport has at most one ACTIVE version, and that one is its current version. Both change under the passport's lock,
so a second activation waits and then supersedes the first. A caller that waited for the lock may carry an older
timestamp than the rows it sees. Its act is then moved to the latest time of those rows, so that no version ends before
it began.

A person may activate an older version again. The job never does: a version that was requested later stays active.

Compliance entries that block end the activation before anything changes (bpc.pipeline.gate).

    SIGNED ─► ACTIVE ─► SUPERSEDED      SIGNED, ACTIVE, SUPERSEDED ─► REVOKED
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from service_jobs import Context, Handler, Handlers, JobError, Rejection

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import ActorId, PassportVersionId, TenantId
from bpc.pipeline.gate import check_gate
from bpc.runtime import clock
from bpc.runtime.logs import get_logger
from bpc.storage.audit import events
from bpc.storage.connection import Connection
from bpc.storage.jobs import describe_failure, load_job_input, make_subject
from bpc.storage.passports import passport_versions, passports
from bpc.storage.passports.passport_versions import PassportVersionRow, PassportVersionStatus
from bpc.storage.passports.passports import PassportRow, load_subject, load_subject_of_version
from bpc.storage.webhooks.webhook_fanout import append_and_announce

log = get_logger(__name__)
VersionOrderT = TypeVar("VersionOrderT", bound="VersionOrder")


def activate_job_key(version: PassportVersionId) -> str:
    """The idempotency key of the job that activates a version."""
    return f"activate:{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivateOrder:
    """The version to activate."""

    passport_version_id: PassportVersionId
    actor_id: ActorId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationResult:
    """The version that is active now, and the one that was active before."""

    passport_version_id: PassportVersionId
    status: PassportVersionStatus
    superseded_passport_version_id: PassportVersionId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationResult:
    """A revoked version."""

    passport_version_id: PassportVersionId
    status: PassportVersionStatus


class WrongVersionStatus(Conflict):
    """The status of the version does not allow this."""

    def __init__(self, version: PassportVersionRow, requirement: str, *, fix: str | None = None) -> None:
        super().__init__(
            f"passport version `{version.passport_version_id}` is {version.status}, and {requirement}",
            fix=fix,
            details={"status": version.status},
        )


class VersionOrder(Protocol):
    """The input of a job about one passport version."""

    @property
    def passport_version_id(self) -> PassportVersionId: ...

    @property
    def actor_id(self) -> ActorId | None: ...


def announce_failures(job: Handler[VersionOrderT, Any], event_type: str) -> None:
    """Let a job about a passport version append and announce an event when it fails for good."""

    @job.on_failure
    async def record_failure(ctx: Context, error: JobError) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = await load_job_input(conn, tenant, ctx.job_id, job)
        version, act = order.passport_version_id, Act(order.actor_id, clock.now())
        subject = await load_subject_of_version(conn, tenant, version)
        payload = {**describe_failure(ctx.job_id, error), **subject.to_event_payload()}
        await append_and_announce(conn, act, tenant, "PassportVersion", version, event_type, payload)


def declare_activate_job(handlers: Handlers) -> Handler[ActivateOrder, ActivationResult]:
    """The job ACTIVATE_PASSPORT. It changes nothing if the version was active before, or a newer one is."""

    @handlers.job(
        "ACTIVATE_PASSPORT",
        subject=lambda order: make_subject("passport_version", order.passport_version_id),
        description="Makes a version the valid one of its passport.",
    )
    async def run(ctx: Context, order: ActivateOrder) -> ActivationResult | Rejection:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        passport, version = await _lock_passport_and_version(conn, tenant, order.passport_version_id)
        if version.activated_at is not None:
            return ActivationResult(
                passport_version_id=version.passport_version_id,
                status=version.status,
                superseded_passport_version_id=None,
            )
        active_id = await passport_versions.find_active_version(conn, tenant, passport.passport_id)
        if active_id is not None:
            active_version = await passport_versions.get_version(conn, tenant, active_id)
            if active_version.created_at > version.created_at:
                refusal = Conflict(
                    f"passport version `{active_id}`, which was requested later than "
                    f"`{version.passport_version_id}`, is already active, so nothing was changed",
                    fix="to make the older one active anyway, activate it yourself",
                    details={"active_passport_version_id": str(active_id)},
                )
                return Rejection.from_exception(refusal)
        return await activate(conn, tenant, order.passport_version_id, act=Act(order.actor_id, clock.now()))

    announce_failures(run, "ACTIVATION_FAILED")
    return run


async def activate(conn: Connection, tenant: TenantId, version_id: PassportVersionId, *, act: Act) -> ActivationResult:
    """SIGNED → ACTIVE. The version that was ACTIVE becomes SUPERSEDED at the same time. Both record an event.

    Raises `ComplianceBlocked` if entries of the version block it.
    """
    passport, version = await _lock_passport_and_version(conn, tenant, version_id)
    if version.status != "SIGNED":
        raise WrongVersionStatus(version, "only a SIGNED one can be activated")
    if not version.has_qr:
        raise WrongVersionStatus(version, "its QR code is not there yet", fix="wait for the GENERATE_QR job")
    gate = await check_gate(conn, tenant, version)
    previous_id = await passport_versions.find_active_version(conn, tenant, passport.passport_id)
    act = _delay_act(act, version)
    if previous_id is not None:
        act = _delay_act(act, await passport_versions.get_version(conn, tenant, previous_id))
        await passport_versions.set_version_status(conn, tenant, previous_id, "SUPERSEDED", at=act.at)
        by = {"by_passport_version_id": str(version_id)}
        await events.append_act(conn, act, tenant, "PassportVersion", previous_id, "PASSPORT_SUPERSEDED", by)
    await passport_versions.set_version_status(conn, tenant, version_id, "ACTIVE", at=act.at)
    await passports.set_current_version(conn, tenant, passport.passport_id, version_id)
    previous = {"superseded_passport_version_id": None if previous_id is None else str(previous_id)}
    subject = await load_subject(conn, tenant, passport.passport_id)
    payload = {**previous, **gate.to_event_payload(), **subject.to_event_payload()}
    await append_and_announce(conn, act, tenant, "PassportVersion", version_id, "PASSPORT_ACTIVATED", payload)
    log.info(
        "passport version activated",
        tenant_id=tenant,
        actor_id=act.actor_id,
        passport_id=passport.passport_id,
        passport_version_id=version_id,
        superseded_passport_version_id=previous_id,
    )
    return ActivationResult(passport_version_id=version_id, status="ACTIVE", superseded_passport_version_id=previous_id)


async def revoke(
    conn: Connection, tenant: TenantId, version_id: PassportVersionId, *, reason: str, act: Act
) -> RevocationResult:
    """SIGNED, ACTIVE or SUPERSEDED → REVOKED. The passport has no current version then, if it was this one."""
    passport, version = await _lock_passport_and_version(conn, tenant, version_id)
    if version.status == "COMPILING":
        raise WrongVersionStatus(version, "only a signed one can be revoked", fix="wait for the SIGN_PASSPORT job")
    if version.status == "REVOKED":
        raise WrongVersionStatus(version, "a revoked version cannot be revoked again")
    act = _delay_act(act, version)
    await passport_versions.set_version_status(conn, tenant, version_id, "REVOKED", at=act.at)
    if passport.current_passport_version_id == version_id:
        await passports.set_current_version(conn, tenant, passport.passport_id, None)
    subject = await load_subject(conn, tenant, passport.passport_id)
    payload = {"reason": reason, "was": version.status, **subject.to_event_payload()}
    await append_and_announce(conn, act, tenant, "PassportVersion", version_id, "PASSPORT_REVOKED", payload)
    log.info(
        "passport version revoked",
        tenant_id=tenant,
        actor_id=act.actor_id,
        passport_id=passport.passport_id,
        passport_version_id=version_id,
    )
    return RevocationResult(passport_version_id=version_id, status="REVOKED")


async def _lock_passport_and_version(
    conn: Connection, tenant: TenantId, version_id: PassportVersionId
) -> tuple[PassportRow, PassportVersionRow]:
    """Lock the passport first: every caller that locks both uses this order."""
    version = await passport_versions.get_version(conn, tenant, version_id)
    passport = await passports.lock_passport(conn, tenant, version.passport_id)
    return passport, await passport_versions.lock_version(conn, tenant, version_id)


def _delay_act(act: Act, version: PassportVersionRow) -> Act:
    """The act, moved to the latest time of the version if it is earlier."""
    moments = version.created_at, version.activated_at, version.superseded_at
    return replace(act, at=max(act.at, *(at for at in moments if at is not None)))
