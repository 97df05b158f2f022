"""QR, the sixth step: a signed version gets the QR code that goes on the battery.

Text and image depend on the signed receipt alone, so every run gives the same ones. They are written once.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from service_jobs import NORMAL, Context, Handler, Handlers

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import ActorId, PassportVersionId, TenantId
from bpc.core.passport.bundle import format_receipt_qr_text
from bpc.core.passport.qr import draw_qr_png
from bpc.core.passport.receipt import read_receipt
from bpc.pipeline.activate import ActivateOrder, activate_job_key, announce_failures
from bpc.runtime import clock
from bpc.storage.jobs import make_subject
from bpc.storage.passports import passport_versions
from bpc.storage.passports.passports import PassportSubject
from bpc.storage.webhooks.webhook_fanout import append_and_announce


@dataclass(frozen=True, slots=True, kw_only=True)
class QrOrder:
    """The version that gets its QR code, and whether to activate it then."""

    passport_version_id: PassportVersionId
    actor_id: ActorId | None
    activate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QrOutcome:
    """The text of the QR code; None if the version was revoked before it had one. And the job that activates it."""

    passport_version_id: PassportVersionId
    qr_payload: str | None
    activate_job_id: UUID | None


def declare_qr_job(handlers: Handlers, *, then: Handler[ActivateOrder, Any]) -> Handler[QrOrder, QrOutcome]:
    """The job GENERATE_QR. A version that has a QR code, or was revoked meanwhile, stays as it is."""

    @handlers.job(
        "GENERATE_QR",
        subject=lambda order: make_subject("passport_version", order.passport_version_id),
        description="Draws the QR code of a signed version.",
    )
    async def run(ctx: Context, order: QrOrder) -> QrOutcome:
        conn, tenant, version = await ctx.transaction(), TenantId(ctx.tenant), order.passport_version_id
        row = await passport_versions.lock_version_and_chain(conn, tenant, version)
        if row.status == "COMPILING":
            raise Conflict(f"passport version `{version}` is not signed yet", fix="retry the job when it is signed")
        text = format_receipt_qr_text(read_receipt(row.receipt))
        if row.has_qr or row.status == "REVOKED":
            stored_text = text if row.has_qr else None
            return QrOutcome(passport_version_id=version, qr_payload=stored_text, activate_job_id=None)
        png = draw_qr_png(text)
        await passport_versions.set_qr(conn, tenant, version, text=text, png=png)
        act, payload = Act(order.actor_id, clock.now()), describe_qr_code(text, png, row.subject)
        await append_and_announce(conn, act, tenant, "PassportVersion", version, "QR_GENERATED", payload, head=row.head)
        activate_job_id = None
        if order.activate:
            activate_order = ActivateOrder(passport_version_id=version, actor_id=order.actor_id)
            activate_job_id = ctx.submit(then, activate_order, key=activate_job_key(version), priority=NORMAL)
        return QrOutcome(passport_version_id=version, qr_payload=text, activate_job_id=activate_job_id)

    announce_failures(run, "QR_FAILED")
    return run


def describe_qr_code(text: str, png: bytes, subject: PassportSubject) -> dict[str, object]:
    """What the event of a QR code says."""
    return {"qr_payload": text, "qr_png_sha256": to_hex(sha256(png)), **subject.to_event_payload()}
