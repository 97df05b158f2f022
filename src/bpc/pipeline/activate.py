"""Activate, the seventh step: a signed version becomes the one that counts; and revoke, which ends that.

A passport has at most one ACTIVE version, and that one is its current version. Both change under the passport's lock,
so whoever activates at the same time waits and then supersedes. Who has waited may have begun before what it finds: its
act is then as late as the latest of that, so that no version ends before it began.

A person may let an older version count again. The job never does: however late it is, what was asked for later stays.

    SIGNED ─► ACTIVE ─► SUPERSEDED      SIGNED, ACTIVE, SUPERSEDED ─► REVOKED
"""

from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.errors import Conflict
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, PassportVersionId, TenantId
from bpc.db import events, passport_versions, passports
from bpc.db.connection import Connection
from bpc.db.passport_versions import Status, Version
from bpc.db.passports import Passport
from bpc.jobs import Context, Handler, Handlers, Refused


@dataclass(frozen=True, kw_only=True)
class ActivateOrder:
    """Which version is to count."""

    passport_version_id: UUID
    actor_id: UUID | None


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Activated:
    """A version that counts from now on, and the one that did until now."""

    passport_version_id: PassportVersionId
    status: Status
    superseded_passport_version_id: PassportVersionId | None


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """A version that does not count any more."""

    passport_version_id: PassportVersionId
    status: Status


class WrongStatus(Conflict):
    """The version is not where it would have to be."""

    def __init__(self, version: Version, wanted: str, *, fix: str | None = None) -> None:
        super().__init__(
            f"passport version `{version.passport_version_id}` is {version.status}, and {wanted}",
            fix=fix,
            details={"status": version.status},
        )


class NewerCounts(Conflict):
    """A version that was asked for later is ACTIVE."""

    def __init__(self, version: Version, newer: Version) -> None:
        super().__init__(
            f"passport version `{newer.passport_version_id}`, which was asked for later than "
            f"`{version.passport_version_id}`, counts already; nothing was changed",
            fix="to let the older one count all the same, activate it yourself",
            details={"active_passport_version_id": str(newer.passport_version_id)},
        )


def activate_job(handlers: Handlers) -> Handler[ActivateOrder, None]:
    """Activate a version as soon as it can be; one that counts, or did, is left as it is, and so is a newer one."""

    @handlers.job("ACTIVATE_PASSPORT")
    async def run(ctx: Context, order: ActivateOrder) -> Refused | None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        passport, version = await _locked(conn, tenant, PassportVersionId(order.passport_version_id))
        if version.activated_at is not None:
            return None
        active = await passport_versions.active(conn, tenant, passport.passport_id)
        if active is not None:
            counting = await passport_versions.get(conn, tenant, active)
            if counting.created_at > version.created_at:
                return Refused.because(NewerCounts(version, counting))
        act = Act.ordered_by(order.actor_id, fresh.now())
        await activate(conn, tenant, version.passport_version_id, act=act)
        return None

    return run


async def activate(conn: Connection, tenant: TenantId, version_id: PassportVersionId, *, act: Act) -> Activated:
    """SIGNED → ACTIVE; the version that was ACTIVE is SUPERSEDED at the same instant. Each on its own record."""
    passport, version = await _locked(conn, tenant, version_id)
    if version.status != "SIGNED":
        raise WrongStatus(version, "only a SIGNED one can be activated")
    if not version.has_qr:
        raise WrongStatus(version, "its QR code is not there yet", fix="wait for the GENERATE_QR job")
    before = await passport_versions.active(conn, tenant, passport.passport_id)
    act = _not_before(act, version)
    if before is not None:
        act = _not_before(act, await passport_versions.get(conn, tenant, before))
        await passport_versions.move(conn, tenant, before, "SUPERSEDED", at=act.at)
        said = act.says("PASSPORT_SUPERSEDED", {"by_passport_version_id": str(version_id)})
        await events.append(conn, _stream(tenant, before), said)
    await passport_versions.move(conn, tenant, version_id, "ACTIVE", at=act.at)
    await passports.set_current(conn, tenant, passport.passport_id, version_id)
    payload = {"superseded_passport_version_id": None if before is None else str(before)}
    await events.append(conn, _stream(tenant, version_id), act.says("PASSPORT_ACTIVATED", payload))
    return Activated(passport_version_id=version_id, status="ACTIVE", superseded_passport_version_id=before)


async def revoke(
    conn: Connection, tenant: TenantId, version_id: PassportVersionId, *, reason: str, act: Act
) -> Revoked:
    """Whatever is signed → REVOKED, for good. A passport whose current version it was has none then."""
    passport, version = await _locked(conn, tenant, version_id)
    if version.status == "COMPILING":
        raise WrongStatus(version, "only what is signed can be revoked", fix="wait for the SIGN_PASSPORT job")
    if version.status == "REVOKED":
        raise WrongStatus(version, "that is for good")
    act = _not_before(act, version)
    await passport_versions.move(conn, tenant, version_id, "REVOKED", at=act.at)
    if passport.current_passport_version_id == version_id:
        await passports.set_current(conn, tenant, passport.passport_id, None)
    said = act.says("PASSPORT_REVOKED", {"reason": reason, "was": version.status})
    await events.append(conn, _stream(tenant, version_id), said)
    return Revoked(passport_version_id=version_id, status="REVOKED")


async def _locked(conn: Connection, tenant: TenantId, version_id: PassportVersionId) -> tuple[Passport, Version]:
    """The passport first: that is the order of everybody who locks both."""
    version = await passport_versions.get(conn, tenant, version_id)
    passport = await passports.locked(conn, tenant, version.passport_id)
    return passport, await passport_versions.locked(conn, tenant, version_id)


def _not_before(act: Act, version: Version) -> Act:
    """The act, not before anything that has happened to a version."""
    happened = version.created_at, version.activated_at, version.superseded_at
    return replace(act, at=max(act.at, *(at for at in happened if at is not None)))


def _stream(tenant: TenantId, version: PassportVersionId) -> Stream:
    return Stream(tenant, "PassportVersion", AggregateId(version))
