"""Export: a passport version in another form. Asked for in a request, made by a job, kept with its hash.

    request_export ─► EXPORT_PASSPORT ┬─► READY: the bytes, and EXPORT_CREATED on the version's record
                                      └─► FAILED: why not

No transaction is open while it is made. What the version is made of never changes, so an export that is made again has
the same bytes; a bundle also holds the version's audit chain, as it is when the job runs.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass as plain_dataclass
from typing import Final
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.bundle import Bundle
from bpc.core.digest import Digest, to_hex
from bpc.core.events import Act, Stream
from bpc.core.exports.disclosed import Audience
from bpc.core.exports.formats import FORMATS, Format, audience_for, file_name
from bpc.core.ids import AggregateId, ExportId, JobId, PassportVersionId, TenantId
from bpc.db import bundles, events, exports, passport_versions
from bpc.db import jobs as recorded
from bpc.db.bundles import NotIssued
from bpc.db.connection import Connection
from bpc.db.database import Opening
from bpc.db.exports import Export
from bpc.jobs import LOW, Context, Handler, Handlers, JobError, NoProcesses, Queue
from bpc.printing import exported

LONGEST: Final = 120.0  # seconds


@dataclass(frozen=True, kw_only=True)
class ExportOrder:
    """Which export is to be made; the rest is written down with it."""

    export_id: UUID
    actor_id: UUID | None


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """An export that was asked for."""

    export_id: ExportId
    job_id: JobId


async def request_export(
    conn: Connection,
    queue: Queue,
    job: Handler[ExportOrder, None],
    tenant: TenantId,
    version_id: PassportVersionId,
    *,
    name: Format,
    audience: Audience | None,
    act: Act,
) -> Requested:
    """Have a version exported. `NotIssued` for one that is not signed, or has no QR code."""
    whom = audience_for(name, audience)
    version = await passport_versions.get(conn, tenant, version_id)
    if version.signing_key_id is None or not version.has_qr:
        raise NotIssued(version)
    export = ExportId(fresh.new_id())
    job_id = await queue.submit(
        job, ExportOrder(export_id=export, actor_id=act.actor_id), key=f"export:{export}", priority=LOW
    )
    await exports.add(
        conn,
        tenant,
        export,
        version=version_id,
        name=name,
        audience=whom,
        mime_type=FORMATS[name].mime_type,
        file_name=file_name(name, whom, version_id),
        job_id=job_id,
        at=act.at,
        by=act.actor_id,
    )
    return Requested(export_id=export, job_id=JobId(job_id))


def export_job(handlers: Handlers, *, opening: Opening | None) -> Handler[ExportOrder, None]:
    """`opening` opens a transaction of a tenant; who only submits jobs has none."""

    @handlers.job("EXPORT_PASSPORT", timeout=LONGEST)
    async def run(ctx: Context, order: ExportOrder) -> None:
        if opening is None:
            raise RuntimeError("exports are made by a worker")
        tenant, export_id = TenantId(ctx.tenant), ExportId(order.export_id)
        async with opening(tenant) as conn:
            wanted = await exports.get(conn, tenant, export_id)
            if wanted.status == "READY":
                return
            with_events = wanted.format == "BUNDLE"
            bundle = await bundles.bundle(conn, tenant, wanted.passport_version_id, with_events=with_events)
        made = await _made(ctx, bundle, wanted)
        conn, act = await ctx.transaction(), _act(order)
        if (await exports.locked(conn, tenant, export_id)).status == "READY":
            return
        digest = await exports.ready(conn, tenant, export_id, made, at=act.at)
        await _put_on_record(conn, tenant, wanted, digest, len(made), act)

    @run.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        # Also where nobody ran it to its end: all that is known then is what is stored of the job.
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = run.read_input(await recorded.payload_of(conn, tenant, ctx.job_id))
        reason = {"code": error.code, "message": error.message}
        await exports.failed(conn, tenant, ExportId(order.export_id), **reason, at=fresh.now())

    return run


def made_of(entries: Mapping[str, bytes], name: Format, audience: Audience) -> bytes:
    """The export of a bundle with these entries. Computes for a while; for a child process."""
    return exported(Bundle(entries), name, audience)


async def _made(ctx: Context, bundle: Bundle, wanted: Export) -> bytes:
    asked = dict(bundle.entries), wanted.format, wanted.audience
    try:
        return await ctx.compute(made_of, *asked)
    except NoProcesses:
        return await asyncio.to_thread(made_of, *asked)


async def _put_on_record(
    conn: Connection, tenant: TenantId, export: Export, digest: Digest, size: int, act: Act
) -> None:
    payload = {
        "export_id": str(export.export_id),
        "format": export.format,
        "audience": export.audience,
        "sha256": to_hex(digest),
        "bytes": size,
    }
    stream = Stream(tenant, "PassportVersion", AggregateId(export.passport_version_id))
    await events.append(conn, stream, act.says("EXPORT_CREATED", payload))


def _act(order: ExportOrder) -> Act:
    return Act.ordered_by(order.actor_id, fresh.now())
