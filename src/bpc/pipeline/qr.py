"""QR, the sixth step: the code that goes on the battery, of a version that is signed.

Text and image follow from the signed receipt alone, so they are the same whenever they are made; they are written once.
"""

from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.bundle import qr_text_of
from bpc.core.errors import Conflict
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.qr import qr_png
from bpc.core.receipt import read_receipt
from bpc.db import events, passport_versions
from bpc.jobs import NORMAL, Context, Handler, Handlers
from bpc.pipeline.activate import ActivateOrder


@dataclass(frozen=True, kw_only=True)
class QrOrder:
    """Which version gets its code, and whether it is to count then."""

    passport_version_id: UUID
    actor_id: UUID | None
    activate: bool = False


def qr_job(handlers: Handlers, *, then: Handler[ActivateOrder, None]) -> Handler[QrOrder, None]:
    """Make the code; a version that has one, or was revoked in the meantime, is left as it is."""

    @handlers.job("GENERATE_QR")
    async def run(ctx: Context, order: QrOrder) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        version = PassportVersionId(order.passport_version_id)
        found = await passport_versions.issuing(conn, tenant, version)
        if found.status == "COMPILING":
            raise Conflict(f"passport version `{version}` is not signed yet", fix="retry the job when it is")
        if found.has_qr or found.status == "REVOKED":
            return
        text = qr_text_of(read_receipt(found.receipt))
        await passport_versions.set_qr(conn, tenant, version, text=text, png=qr_png(text))
        act = Act.ordered_by(order.actor_id, fresh.now())
        stream = Stream(tenant, "PassportVersion", AggregateId(version))
        await events.append(conn, stream, act.says("QR_GENERATED", {"qr_payload": text}), head=found.head)
        if order.activate:
            following = ActivateOrder(passport_version_id=version, actor_id=order.actor_id)
            ctx.submit(then, following, key=f"activate:{version}", priority=NORMAL)

    return run
