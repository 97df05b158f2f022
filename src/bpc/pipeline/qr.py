"""QR, the sixth step: a signed version gets the QR code that goes on the battery.

Text and image depend on the signed receipt alone, so every run gives the same ones. They are written once.
"""

from dataclasses import dataclass

from service_jobs import NORMAL, Context, Handler, Handlers

from bpc.core.audit.events import Act
from bpc.core.errors import Conflict
from bpc.core.formats.ids import ActorId, PassportVersionId, TenantId
from bpc.core.passport.bundle import format_receipt_qr_text
from bpc.core.passport.qr import draw_qr_png
from bpc.core.passport.receipt import read_receipt
from bpc.pipeline.activate import ActivateOrder
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.passports import passport_versions


@dataclass(frozen=True, slots=True, kw_only=True)
class QrOrder:
    """The version that gets its QR code, and whether to activate it then."""

    passport_version_id: PassportVersionId
    actor_id: ActorId | None
    activate: bool = False


def declare_qr_job(handlers: Handlers, *, then: Handler[ActivateOrder, None]) -> Handler[QrOrder, None]:
    """The job GENERATE_QR. A version that has a QR code, or was revoked meanwhile, stays as it is."""

    @handlers.job("GENERATE_QR")
    async def run(ctx: Context, order: QrOrder) -> None:
        conn, tenant, version = await ctx.transaction(), TenantId(ctx.tenant), order.passport_version_id
        row = await passport_versions.lock_version_and_chain(conn, tenant, version)
        if row.status == "COMPILING":
            raise Conflict(f"passport version `{version}` is not signed yet", fix="retry the job when it is signed")
        if row.has_qr or row.status == "REVOKED":
            return
        text = format_receipt_qr_text(read_receipt(row.receipt))
        await passport_versions.set_qr(conn, tenant, version, text=text, png=draw_qr_png(text))
        act, payload = Act(order.actor_id, clock.now()), {"qr_payload": text}
        await events.append_act(conn, act, tenant, "PassportVersion", version, "QR_GENERATED", payload, head=row.head)
        if order.activate:
            activate_order = ActivateOrder(passport_version_id=version, actor_id=order.actor_id)
            ctx.submit(then, activate_order, key=f"activate:{version}", priority=NORMAL)

    return run
