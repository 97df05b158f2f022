"""Export: a passport version in another format. A request orders it, a job makes it, and it is stored with its hash.

    request_export ─► EXPORT_PASSPORT ┬─► READY: the bytes are stored, EXPORT_CREATED is recorded on the version
                                      └─► FAILED: the reason is stored, EXPORT_FAILED is recorded on the version

No transaction is open while an export is made. A version never changes, so an export that is made again has the same
bytes. Only a bundle also contains its log proof and where its status is, other formats the number of waived compliance
entries and whether it is revoked, and a PDF the words of the rules' catalogue, as they are when the job runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from service_jobs import LOW, Context, Handler, Handlers, JobError, SubmitQueue

from bpc.core.audit.events import Act
from bpc.core.catalogue.number_format import SOURCE_LANGUAGE, Language
from bpc.core.exports.disclosure import (
    EXPORT_FORMATS,
    Audience,
    ExportFormat,
    choose_audience,
    choose_language,
    format_file_name,
)
from bpc.core.formats.hashes import Digest, to_hex
from bpc.core.formats.ids import ActorId, ExportId, JobId, PassportVersionId, TenantId
from bpc.core.passport.bundle import Bundle
from bpc.pipeline.compile import run_in_child_or_thread
from bpc.printing import render_export
from bpc.runtime import clock
from bpc.storage.connection import Connection
from bpc.storage.database import OpenTransaction
from bpc.storage.jobs import describe_failure, load_job_input, make_subject
from bpc.storage.passports import exports, passport_versions, waivers
from bpc.storage.passports.exports import ExportRow, VersionNotIssued
from bpc.storage.passports.passports import find_sku, load_subject_of_version
from bpc.storage.rules import catalogues
from bpc.storage.webhooks.webhook_fanout import append_and_announce

TIMEOUT_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOrder:
    """The export to make. Its row has the version, the format and the audience."""

    export_id: ExportId
    actor_id: ActorId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOutcome:
    """The export that is stored."""

    export_id: ExportId
    passport_version_id: PassportVersionId
    format: ExportFormat
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedExport:
    """A requested export."""

    export_id: ExportId
    job_id: JobId


async def request_export(
    conn: Connection,
    queue: SubmitQueue,
    job: Handler[ExportOrder, Any],
    tenant: TenantId,
    version_id: PassportVersionId,
    *,
    name: ExportFormat,
    audience: Audience | None,
    language: str | None = None,
    act: Act,
) -> RequestedExport:
    """Submit the job that exports a version. Raises `VersionNotIssued` if it is not signed or has no QR code."""
    export_audience, export_language = choose_audience(name, audience), choose_language(name, language)
    version = await passport_versions.get_version(conn, tenant, version_id)
    if version.signing_key_id is None or not version.has_qr:
        raise VersionNotIssued(version)
    export, sku = ExportId(clock.new_id()), await find_sku(conn, tenant, "PassportVersion", version_id)
    job_id = await queue.submit(
        job,
        ExportOrder(export_id=export, actor_id=act.actor_id),
        key=f"export:{export}",
        priority=LOW,
        subject=make_subject("passport_version", version_id, sku=sku),
    )
    await exports.insert_export(
        conn,
        tenant,
        export,
        version=version_id,
        name=name,
        audience=export_audience,
        language=export_language,
        mime_type=EXPORT_FORMATS[name].mime_type,
        file_name=format_file_name(name, export_audience, version_id, export_language),
        job_id=job_id,
        at=act.at,
        by=act.actor_id,
    )
    return RequestedExport(export_id=export, job_id=JobId(job_id))


def declare_export_job(handlers: Handlers, *, open_transaction: OpenTransaction) -> Handler[ExportOrder, ExportOutcome]:
    """The job EXPORT_PASSPORT."""

    @handlers.job("EXPORT_PASSPORT", timeout=TIMEOUT_SECONDS, description="Exports a version in another format.")
    async def run(ctx: Context, order: ExportOrder) -> ExportOutcome:
        tenant, export_id = TenantId(ctx.tenant), order.export_id
        async with open_transaction(tenant) as conn:
            export = await exports.get_export(conn, tenant, export_id)
            if export.status == "READY":
                return _describe_export(export)
            with_events = export.format == "BUNDLE"
            bundle = await exports.load_bundle(conn, tenant, export.passport_version_id, with_events=with_events)
            version = await passport_versions.get_version(conn, tenant, export.passport_version_id)
            waived_count = await waivers.count_waived(conn, tenant, export.passport_version_id)
            catalogue = await catalogues.find_content_for_version(
                conn, tenant, export.passport_version_id, export.language
            )
        settings = ExportSettings(
            export.format, export.audience, export.language, waived_count, catalogue, version.revoked_at
        )
        content = await run_in_child_or_thread(ctx.compute, build_export, dict(bundle.entries), settings)
        conn, act = await ctx.transaction(), Act(order.actor_id, clock.now())
        if (export_row := await exports.lock_export(conn, tenant, export_id)).status == "READY":
            return _describe_export(export_row)
        digest = await exports.set_export_ready(conn, tenant, export_id, content, at=act.at)
        await _append_created_event(conn, tenant, export, digest, len(content), act)
        return _describe_export(replace(export, sha256=digest, size=len(content)))

    @run.on_failure
    async def record_failure(ctx: Context, error: JobError) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = await load_job_input(conn, tenant, ctx.job_id, run)
        act = Act(order.actor_id, clock.now())
        await exports.set_export_failed(
            conn, tenant, order.export_id, code=error.code, message=error.message, at=act.at
        )
        export = await exports.get_export(conn, tenant, order.export_id)
        if export.status != "FAILED":  # an earlier execution has stored it
            return
        version = export.passport_version_id
        subject = await load_subject_of_version(conn, tenant, version)
        payload = {**_name_export(export), **describe_failure(ctx.job_id, error), **subject.to_event_payload()}
        await append_and_announce(conn, act, tenant, "PassportVersion", version, "EXPORT_FAILED", payload)

    return run


def _describe_export(export: ExportRow) -> ExportOutcome:
    """A READY export, which has a hash and a size."""
    return ExportOutcome(
        export_id=export.export_id,
        passport_version_id=export.passport_version_id,
        format=export.format,
        sha256="" if export.sha256 is None else to_hex(export.sha256),
        bytes=export.size or 0,
    )


class ExportSettings(NamedTuple):
    """What is exported, for whom and in which language; `catalogue` is that of the rules, None if they have none."""

    format: ExportFormat
    audience: Audience
    language: Language
    waived_count: int
    catalogue: bytes | None
    revoked_at: datetime | None


def build_export(entries: Mapping[str, bytes], settings: ExportSettings) -> bytes:
    """The export of a bundle with these entries. Takes a while: run it in a child process."""
    return render_export(
        Bundle(entries),
        settings.format,
        settings.audience,
        waived_count=settings.waived_count,
        revoked_at=settings.revoked_at,
        language=settings.language,
        catalogues=() if settings.catalogue is None else (settings.catalogue,),
    )


async def _append_created_event(
    conn: Connection, tenant: TenantId, export: ExportRow, digest: Digest, size: int, act: Act
) -> None:
    version = export.passport_version_id
    subject = await load_subject_of_version(conn, tenant, version)
    payload = {**_name_export(export), "sha256": to_hex(digest), "bytes": size, **subject.to_event_payload()}
    await append_and_announce(conn, act, tenant, "PassportVersion", version, "EXPORT_CREATED", payload)


def _name_export(export: ExportRow) -> dict[str, object]:
    language = {} if export.language == SOURCE_LANGUAGE else {"language": export.language}
    return {"export_id": str(export.export_id), "format": export.format, "audience": export.audience, **language}
