"""Exports of passport versions: what was asked for, and what a job made of it, written once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, LiteralString
from uuid import UUID

import asyncpg

from bpc.core.digest import Digest, sha256
from bpc.core.errors import NotFound
from bpc.core.exports.disclosed import Audience
from bpc.core.exports.formats import Format
from bpc.core.ids import ActorId, ExportId, PassportVersionId, TenantId
from bpc.db.connection import Connection
from bpc.db.pages import Ask

Status = Literal["PENDING", "READY", "FAILED"]

INSERT: Final[LiteralString] = """
    INSERT INTO passport_exports (tenant_id, export_id, passport_version_id, format, audience, mime_type, file_name,
                                  job_id, created_at, created_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""
COLUMNS: Final[LiteralString] = """
    export_id, passport_version_id, format, audience, status, mime_type, file_name, octet_length(content) AS size,
    sha256, last_error, job_id, created_at, created_by, finished_at
"""
ONE: Final[LiteralString] = f"SELECT {COLUMNS} FROM passport_exports WHERE tenant_id = $1 AND export_id = $2"
LOCKED: Final[LiteralString] = f"{ONE} FOR NO KEY UPDATE"
PAGE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM passport_exports
     WHERE tenant_id = $1 AND passport_version_id = $5 AND (created_at, export_id) < ($2, $3)
     ORDER BY created_at DESC, export_id DESC
     LIMIT $4
"""
CONTENT: Final[LiteralString] = "SELECT content FROM passport_exports WHERE tenant_id = $1 AND export_id = $2"
READY: Final[LiteralString] = """
    UPDATE passport_exports SET status = 'READY', content = $3, sha256 = $4, finished_at = $5, last_error = NULL
     WHERE tenant_id = $1 AND export_id = $2
"""
FAILED: Final[LiteralString] = """
    UPDATE passport_exports SET status = 'FAILED', last_error = $3::jsonb, finished_at = $4
     WHERE tenant_id = $1 AND export_id = $2 AND status <> 'READY'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An export, without its bytes; `size` and `sha256` are those of the bytes, once there are any."""

    export_id: ExportId
    passport_version_id: PassportVersionId
    format: Format
    audience: Audience
    status: Status
    mime_type: str
    file_name: str
    size: int | None
    sha256: Digest | None
    last_error: Mapping[str, Any] | None
    job_id: UUID
    created_at: datetime
    created_by: ActorId | None
    finished_at: datetime | None


class ExportUnknown(NotFound):
    def __init__(self, export: ExportId) -> None:
        super().__init__(
            f"there is no export `{export}`",
            fix="GET /v1/passport-versions/{passport_version_id}/exports lists those there are",
        )


async def add(
    conn: Connection,
    tenant: TenantId,
    export: ExportId,
    *,
    version: PassportVersionId,
    name: Format,
    audience: Audience,
    mime_type: str,
    file_name: str,
    job_id: UUID,
    at: datetime,
    by: ActorId | None,
) -> None:
    """Write down what was asked for."""
    asked = export, version, name, audience, mime_type, file_name, job_id, at, by
    await conn.execute(INSERT, tenant, *asked)


async def get(conn: Connection, tenant: TenantId, export: ExportId) -> Export:
    return await _one(conn, ONE, tenant, export)


async def locked(conn: Connection, tenant: TenantId, export: ExportId) -> Export:
    """The export, which nobody else changes until we are done."""
    return await _one(conn, LOCKED, tenant, export)


async def of_version(conn: Connection, tenant: TenantId, version: PassportVersionId, ask: Ask) -> Sequence[Export]:
    """The exports of a version, newest first."""
    return [_export(row) for row in await conn.fetch(PAGE, tenant, *ask, version)]


async def content(conn: Connection, tenant: TenantId, export: ExportId) -> bytes | None:
    """The bytes of an export; None while there are none."""
    found: bytes | None = await conn.fetchval(CONTENT, tenant, export)
    return found


async def ready(conn: Connection, tenant: TenantId, export: ExportId, made: bytes, *, at: datetime) -> Digest:
    """Keep what was made: its hash."""
    digest = sha256(made)
    await conn.execute(READY, tenant, export, made, digest, at)
    return digest


async def failed(
    conn: Connection, tenant: TenantId, export: ExportId, *, code: str, message: str, at: datetime
) -> None:
    """Keep why nothing was made; one that is ready stays so."""
    # The sentence may hold what jsonb cannot.
    reason = {"code": code, "message": message.replace("\0", "\N{REPLACEMENT CHARACTER}")}
    await conn.execute(FAILED, tenant, export, json.dumps(reason), at)


async def _one(conn: Connection, statement: LiteralString, tenant: TenantId, export: ExportId) -> Export:
    row = await conn.fetchrow(statement, tenant, export)
    if row is None:
        raise ExportUnknown(export)
    return _export(row)


def _export(row: asyncpg.Record) -> Export:
    reason = row["last_error"]
    return Export(**dict(row) | {"last_error": None if reason is None else json.loads(reason)})
