"""Exports of passport versions: what was requested and the file a job made of it; and the bundle of a version."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, LiteralString
from uuid import UUID

from bpc.core.audit.events import EventStream, StoredEvent
from bpc.core.catalogue.number_format import Language
from bpc.core.errors import Conflict
from bpc.core.exports.disclosure import Audience, ExportFormat
from bpc.core.facts.snapshot import order_facts
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import ActorId, AggregateId, ExportId, PassportVersionId, TenantId
from bpc.core.formats.timestamps import format_time
from bpc.core.passport.bundle import (
    ATTACHMENT_PREFIX,
    MAX_ARCHIVE_BYTES,
    Bundle,
    add_attachments,
    build_bundle,
    measure_archive,
)
from bpc.core.tlog.entries import parse_opening
from bpc.core.tlog.proofs import LogProof
from bpc.storage.audit import events, signing_keys
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.evidence import attachments, snapshots
from bpc.storage.passports import passport_versions
from bpc.storage.passports.passport_versions import PassportVersionRow
from bpc.storage.passports.status_rows import find_binding_statement
from bpc.storage.rules import packages
from bpc.storage.tlog.log_rows import find_version_proof

ExportStatus = Literal["PENDING", "READY", "FAILED"]

INSERT_EXPORT: Final[LiteralString] = """
    INSERT INTO passport_exports (tenant_id, export_id, passport_version_id, format, audience, language, mime_type,
                                  file_name, job_id, created_at, created_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
"""
SELECT_EXPORTS: Final[LiteralString] = """
    SELECT x.export_id, x.passport_version_id, b.sku, b.name AS product_name, x.format, x.audience, x.language,
           x.status, x.mime_type, x.file_name, octet_length(x.content) AS size, x.sha256, x.last_error, x.job_id,
           x.created_at, x.created_by, x.finished_at
      FROM passport_exports x
      LEFT JOIN passport_versions v ON v.tenant_id = $1 AND v.passport_version_id = x.passport_version_id
      LEFT JOIN passports p ON p.tenant_id = $1 AND p.passport_id = v.passport_id
      LEFT JOIN battery_products b ON b.tenant_id = $1 AND b.battery_product_id = p.battery_product_id
"""
SELECT_EXPORT: Final[LiteralString] = f"{SELECT_EXPORTS} WHERE x.tenant_id = $1 AND x.export_id = $2"
SELECT_EXPORT_FOR_UPDATE: Final[LiteralString] = f"{SELECT_EXPORT} FOR NO KEY UPDATE OF x"
SELECT_EXPORT_PAGE: Final[LiteralString] = make_page_query(
    SELECT_EXPORTS, time="x.created_at", key="x.export_id", where="AND x.passport_version_id = $5"
)
SELECT_EXPORT_CONTENT: Final[LiteralString] = (
    "SELECT content FROM passport_exports WHERE tenant_id = $1 AND export_id = $2"
)
UPDATE_READY: Final[LiteralString] = """
    UPDATE passport_exports SET status = 'READY', content = $3, sha256 = $4, finished_at = $5, last_error = NULL
     WHERE tenant_id = $1 AND export_id = $2
"""
UPDATE_FAILED: Final[LiteralString] = """
    UPDATE passport_exports SET status = 'FAILED', last_error = $3::jsonb, finished_at = $4
     WHERE tenant_id = $1 AND export_id = $2 AND status <> 'READY'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRow:
    """An export without its bytes; `size` and `sha256` are None until the job has written them."""

    export_id: ExportId
    passport_version_id: PassportVersionId
    sku: str | None
    product_name: str | None
    format: ExportFormat
    audience: Audience
    language: Language
    status: ExportStatus
    mime_type: str
    file_name: str
    size: int | None
    sha256: Digest | None
    last_error: Mapping[str, Any] | None
    job_id: UUID
    created_at: datetime
    created_by: ActorId | None
    finished_at: datetime | None


async def insert_export(
    conn: Connection,
    tenant: TenantId,
    export: ExportId,
    *,
    version: PassportVersionId,
    name: ExportFormat,
    audience: Audience,
    language: Language,
    mime_type: str,
    file_name: str,
    job_id: UUID,
    at: datetime,
    by: ActorId | None,
) -> None:
    """Insert an export that a job will write."""
    values = export, version, name, audience, language, mime_type, file_name, job_id, at, by
    await conn.execute(INSERT_EXPORT, tenant, *values)


async def get_export(conn: Connection, tenant: TenantId, export: ExportId) -> ExportRow:
    return await fetch_one(conn, _to_export_row, SELECT_EXPORT, tenant, export, kind="export")


async def lock_export(conn: Connection, tenant: TenantId, export: ExportId) -> ExportRow:
    """The export. Until the transaction ends, nobody else changes it."""
    return await fetch_one(conn, _to_export_row, SELECT_EXPORT_FOR_UPDATE, tenant, export, kind="export")


async def list_exports(
    conn: Connection, tenant: TenantId, version: PassportVersionId, page: PageQuery
) -> Sequence[ExportRow]:
    """The exports of a version, newest first."""
    return await fetch_rows(conn, _to_export_row, SELECT_EXPORT_PAGE, tenant, *page, version)


async def load_export_content(conn: Connection, tenant: TenantId, export: ExportId) -> bytes | None:
    """The bytes of an export; None until the job has written them."""
    export_bytes: bytes | None = await conn.fetchval(SELECT_EXPORT_CONTENT, tenant, export)
    return export_bytes


async def set_export_ready(
    conn: Connection, tenant: TenantId, export: ExportId, content: bytes, *, at: datetime
) -> Digest:
    """Store the bytes of an export; return their hash."""
    digest = sha256(content)
    await conn.execute(UPDATE_READY, tenant, export, content, digest, at)
    return digest


async def set_export_failed(
    conn: Connection, tenant: TenantId, export: ExportId, *, code: str, message: str, at: datetime
) -> None:
    """Store why an export failed; one that is READY stays so."""
    # jsonb cannot hold NUL, and the message may.
    reason = {"code": code, "message": message.replace("\0", "\N{REPLACEMENT CHARACTER}")}
    await conn.execute(UPDATE_FAILED, tenant, export, json.dumps(reason), at)


def _to_export_row(*, last_error: str | None, **columns: Any) -> ExportRow:
    return ExportRow(last_error=None if last_error is None else json.loads(last_error), **columns)


# The bundle of a version: everything that is needed to verify it ----------------------------------------------------

CHAIN_HAS_ANCHOR: Final[LiteralString] = """
    SELECT EXISTS (SELECT FROM event_anchors WHERE tenant_id = $1 AND aggregate_type = $2 AND aggregate_id = $3)
"""


class VersionNotIssued(Conflict):
    """The version is not signed, or has no QR code yet."""

    def __init__(self, version: PassportVersionRow) -> None:
        missing = "is COMPILING" if version.status == "COMPILING" else f"is {version.status} and has no QR code"
        super().__init__(
            f"passport version `{version.passport_version_id}` {missing}",
            fix=None if version.status == "REVOKED" else "wait until its jobs have finished",
            details={"status": version.status},
        )


class BundleTooLarge(Conflict):
    """The attached files do not fit into a bundle."""

    def __init__(self, version: PassportVersionId, files: int, size: int) -> None:
        super().__init__(
            f"the bundle of passport version `{version}` would have {size:,} bytes with its {files:,} attached files, "
            f"and at most {MAX_ARCHIVE_BYTES:,} are allowed",
            fix="fetch the bundle without attachments, and the files one by one, each by its hash",
            details={"bytes": size, "max_bytes": MAX_ARCHIVE_BYTES, "files": files},
        )


async def load_bundle(
    conn: Connection,
    tenant: TenantId,
    version_id: PassportVersionId,
    *,
    with_events: bool = True,
    with_attachments: bool = False,
) -> Bundle:
    """The bundle of a version that is signed and has its QR code. Raises `BundleTooLarge` before files are loaded."""
    version = await passport_versions.get_version(conn, tenant, version_id)
    version_bytes = await passport_versions.load_bytes(conn, tenant, version_id)
    if version.signing_key_id is None or version_bytes.qr_png is None:
        raise VersionNotIssued(version)
    snapshot = await snapshots.get_snapshot(conn, tenant, version.snapshot_id)
    sources = await packages.load_sources(conn, tenant, version.rule_package_version_id)
    key = await signing_keys.find_public_key(conn, version.signing_key_id)
    if snapshot.snapshot_canonical is None or key is None:
        raise VersionNotIssued(version)  # constraints of the database prevent this
    facts = await snapshots.load_facts(conn, tenant, version.snapshot_id)
    log_proof = await find_version_proof(conn, tenant, version_id)
    status = await find_binding_statement(conn, tenant, version_id)
    bundle = build_bundle(
        payload=version_bytes.payload,
        proof=version_bytes.proof,
        receipt=version_bytes.receipt,
        snapshot=snapshot.snapshot_canonical,
        facts=(await asyncio.to_thread(order_facts, facts)).lines,  # there may be many
        rules=sources.dsl,
        tests=sources.tests,
        public_key=key,
        qr_png=version_bytes.qr_png,
        events=await _load_events_file(conn, tenant, version_id, log_proof) if with_events else None,
        log_proof=None if log_proof is None else log_proof.encode(),
        status=status,
    )
    if not with_attachments:
        return bundle
    file_sizes = await attachments.measure_attached_files(conn, tenant, version.snapshot_id)
    entry_sizes = {name: len(content) for name, content in bundle.entries.items()}
    size = measure_archive(
        entry_sizes | {f"{ATTACHMENT_PREFIX}{to_hex(digest)}": size for digest, size in file_sizes.items()}
    )
    if size > MAX_ARCHIVE_BYTES:
        raise BundleTooLarge(version_id, len(file_sizes), size)
    files = await attachments.load_attached_files(conn, tenant, version.snapshot_id)
    return add_attachments(bundle, {to_hex(file.sha256): attachments.require_content(file) for file in files})


async def _load_events_file(
    conn: Connection, tenant: TenantId, version: PassportVersionId, log_proof: LogProof | None
) -> bytes | None:
    """The version's chain up to the event that the entry of the log names: it vouches for no other.

    None without a log proof, and if retention has removed the beginning, because then it cannot be verified alone.
    """
    stream = EventStream(tenant, "PassportVersion", AggregateId(version))
    if log_proof is None or await conn.fetchval(CHAIN_HAS_ANCHOR, *stream):
        return None
    last = parse_opening(log_proof.extra or b"").read_statement()["aggregate_version"]
    chain = await events.read_chain(conn, stream)
    return encode_events_file([event for event in chain if isinstance(last, int) and event.event.version <= last])


def encode_events_file(chain: Sequence[StoredEvent]) -> bytes:
    """A chain as `events.jsonl`: one canonical line per event, with its hashed members, its hash and its payload."""
    return b"".join(_encode_event_line(stored_event) for stored_event in chain)


def _encode_event_line(stored_event: StoredEvent) -> bytes:
    event = stored_event.event
    previous_hash = event.prev_event_hash
    members = {
        "tenant_id": str(event.stream.tenant_id),
        "aggregate_type": event.stream.aggregate_type,
        "aggregate_id": str(event.stream.aggregate_id),
        "aggregate_version": event.version,
        "event_type": event.event_type,
        "occurred_at": format_time(event.occurred_at),
        "actor_id": None if event.actor_id is None else str(event.actor_id),
        "payload_hash": to_hex(event.payload_hash),
        "prev_event_hash": None if previous_hash is None else to_hex(previous_hash),
        "event_hash": to_hex(event.event_hash),
        "payload": canonical_json.decode(event.payload_canonical),
    }
    return canonical_json.encode(members) + b"\n"
