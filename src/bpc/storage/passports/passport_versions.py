"""Passport versions: canonical bytes and their hashes never change; the status only moves forward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, LiteralString

from bpc.core.audit.events import ChainHead
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import PassportId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.passport.compile import CompiledPassport
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query

PassportVersionStatus = Literal["COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"]
LaterStatus = Literal["ACTIVE", "SUPERSEDED", "REVOKED"]
ArtifactName = Literal["payload", "proof", "receipt", "qr_png"]

INSERT_VERSION: Final[LiteralString] = """
    INSERT INTO passport_versions (tenant_id, passport_version_id, passport_id, status, created_at, snapshot_id,
                                   rule_package_version_id, compiler_build_id, payload_canonical, payload_hash,
                                   proof_canonical, proof_root_hash, receipt_canonical, receipt_hash, signature_alg,
                                   fail_count, warn_count)
    VALUES ($1, $2, $3, 'COMPILING', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'ED25519', $14, $15)
    ON CONFLICT ON CONSTRAINT passport_versions_pkey DO NOTHING
    RETURNING true
"""
# Of a version `v`: its FAIL and WARN entries, which an earlier build did not store, and how many of them are waived.
COMPLIANCE_COLUMNS: Final[LiteralString] = """
    coalesce(v.fail_count, count_compliance(v.payload_canonical, 'FAIL')) AS fail_count,
    coalesce(v.warn_count, count_compliance(v.payload_canonical, 'WARN')) AS warn_count,
    (SELECT coalesce(sum(w.entries), 0)::int FROM passport_waivers w
      WHERE w.tenant_id = v.tenant_id AND w.passport_version_id = v.passport_version_id) AS waived_count
"""
SELECT_VERSIONS: Final[LiteralString] = f"""
    SELECT passport_version_id, passport_id, status::text AS status, created_at, activated_at, superseded_at,
           revoked_at, snapshot_id, rule_package_version_id, compiler_build_id, payload_hash, proof_root_hash,
           receipt_hash, signing_key_id, qr_png IS NOT NULL AS has_qr, {COMPLIANCE_COLUMNS}
      FROM passport_versions v
"""
ONE_VERSION: Final[LiteralString] = "WHERE tenant_id = $1 AND passport_version_id = $2"
SELECT_VERSION: Final[LiteralString] = f"{SELECT_VERSIONS} {ONE_VERSION}"
SELECT_VERSION_FOR_UPDATE: Final[LiteralString] = f"{SELECT_VERSION} FOR NO KEY UPDATE"
# The row first, then its chain: everything that locks both locks them in this order.
SELECT_VERSION_AND_HEAD_FOR_UPDATE: Final[LiteralString] = """
    WITH version AS MATERIALIZED (
      SELECT passport_version_id, status::text AS status, receipt_canonical AS receipt, receipt_hash, proof_root_hash,
             sha256(payload_canonical) AS payload_sha256, qr_png IS NOT NULL AS has_qr
        FROM passport_versions
       WHERE tenant_id = $1 AND passport_version_id = $2
         FOR NO KEY UPDATE)
    SELECT status, receipt, receipt_hash, proof_root_hash, payload_sha256, has_qr, aggregate_version, event_hash
      FROM version CROSS JOIN LATERAL locked_event_head('PassportVersion', version.passport_version_id) AS head
"""
SELECT_VERSION_PAGE: Final[LiteralString] = make_page_query(
    SELECT_VERSIONS, time="created_at", key="passport_version_id", where="AND passport_id = $5"
)
SELECT_ARTIFACT: Final[Mapping[ArtifactName, LiteralString]] = {
    "payload": f"SELECT payload_canonical AS content FROM passport_versions {ONE_VERSION}",
    "proof": f"SELECT proof_canonical AS content FROM passport_versions {ONE_VERSION}",
    "receipt": f"SELECT receipt_canonical AS content FROM passport_versions {ONE_VERSION}",
    "qr_png": f"SELECT qr_png AS content FROM passport_versions {ONE_VERSION}",
}
SELECT_BYTES: Final[LiteralString] = f"""
    SELECT payload_canonical AS payload, proof_canonical AS proof, receipt_canonical AS receipt, signature, qr_payload,
           qr_png
      FROM passport_versions {ONE_VERSION}
"""
UPDATE_SIGNED: Final[LiteralString] = f"""
    UPDATE passport_versions SET status = 'SIGNED', receipt_canonical = $3, signature = $4, signing_key_id = $5
     {ONE_VERSION}
"""
UPDATE_QR: Final[LiteralString] = f"UPDATE passport_versions SET qr_payload = $3, qr_png = $4 {ONE_VERSION}"
UPDATE_REPLAYED_AT: Final[LiteralString] = f"UPDATE passport_versions SET replayed_at = $3 {ONE_VERSION}"
SELECT_NEXT_TO_REPLAY: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND status = 'ACTIVE'
     ORDER BY replayed_at NULLS FIRST, passport_version_id
     LIMIT $2
"""
# In the order of a hash of the id: an arbitrary sample, and the same one every time.
SELECT_SAMPLE: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND status <> 'COMPILING'
     ORDER BY sha256(uuid_send(passport_version_id))
     LIMIT $2
"""
SELECT_ACTIVE: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND passport_id = $2 AND status = 'ACTIVE'
"""
UPDATE_STATUS_TO: Final[Mapping[LaterStatus, LiteralString]] = {
    "ACTIVE": f"UPDATE passport_versions SET status = 'ACTIVE', activated_at = $3 {ONE_VERSION}",
    "SUPERSEDED": f"UPDATE passport_versions SET status = 'SUPERSEDED', superseded_at = $3 {ONE_VERSION}",
    "REVOKED": f"UPDATE passport_versions SET status = 'REVOKED', revoked_at = $3 {ONE_VERSION}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportVersionRow:
    """A version without its bytes. `created_at` is when the compile was requested: `issued_at` of the payload.

    `waived_count` of its FAIL and WARN entries do not block its activation.
    """

    passport_version_id: PassportVersionId
    passport_id: PassportId
    status: PassportVersionStatus
    created_at: datetime
    activated_at: datetime | None
    superseded_at: datetime | None
    revoked_at: datetime | None
    snapshot_id: SnapshotId
    rule_package_version_id: RulePackageVersionId
    compiler_build_id: str
    payload_hash: Digest
    proof_root_hash: Digest
    receipt_hash: Digest
    signing_key_id: str | None
    has_qr: bool
    fail_count: int
    warn_count: int
    waived_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportVersionBytes:
    """The bytes of a version; the signature and the QR code are None until they exist."""

    payload: bytes
    proof: bytes
    receipt: bytes
    signature: bytes | None
    qr_payload: str | None
    qr_png: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPassportVersion:
    """A version that nobody else changes until the transaction ends: what signing and the QR code need of it.

    `payload_sha256` is computed from the stored payload; `head` is the head of its chain of events.
    """

    status: PassportVersionStatus
    receipt: bytes
    receipt_hash: Digest
    proof_root_hash: Digest
    payload_sha256: Digest
    has_qr: bool
    head: ChainHead


async def insert_version(
    conn: Connection,
    tenant: TenantId,
    version: PassportVersionId,
    compiled: CompiledPassport,
    *,
    passport: PassportId,
    snapshot: SnapshotId,
    rules: RulePackageVersionId,
    compiler_build_id: str,
    at: datetime,
) -> bool:
    """Insert a compiled version; return False if there is one with this id."""
    added: bool | None = await conn.fetchval(
        INSERT_VERSION,
        tenant,
        version,
        passport,
        at,
        snapshot,
        rules,
        compiler_build_id,
        compiled.payload,
        compiled.payload_hash,
        compiled.proof,
        compiled.proof_root_hash,
        compiled.receipt,
        compiled.receipt_hash,
        *compiled.compliance,
    )
    return added is not None


async def get_version(conn: Connection, tenant: TenantId, version: PassportVersionId) -> PassportVersionRow:
    return await fetch_one(conn, PassportVersionRow, SELECT_VERSION, tenant, version, kind="passport version")


async def lock_version(conn: Connection, tenant: TenantId, version: PassportVersionId) -> PassportVersionRow:
    """The version. Until the transaction ends, nobody else changes it. To lock its passport too, lock that first."""
    return await fetch_one(
        conn, PassportVersionRow, SELECT_VERSION_FOR_UPDATE, tenant, version, kind="passport version"
    )


async def lock_version_and_chain(
    conn: Connection, tenant: TenantId, version: PassportVersionId
) -> LockedPassportVersion:
    """The version and the chain of its events, both locked, in one query."""
    statement = SELECT_VERSION_AND_HEAD_FOR_UPDATE
    return await fetch_one(conn, _to_locked_version, statement, tenant, version, kind="passport version")


async def list_versions(
    conn: Connection, tenant: TenantId, passport: PassportId, page: PageQuery
) -> Sequence[PassportVersionRow]:
    """The versions of a passport, newest first."""
    return await fetch_rows(conn, PassportVersionRow, SELECT_VERSION_PAGE, tenant, *page, passport)


async def load_artifact(
    conn: Connection, tenant: TenantId, version: PassportVersionId, name: ArtifactName
) -> bytes | None:
    """The stored bytes of an artifact; None for a QR code that does not exist yet."""
    row = await fetch_one(
        conn, dict[str, bytes | None], SELECT_ARTIFACT[name], tenant, version, kind="passport version"
    )
    return row["content"]


async def load_bytes(conn: Connection, tenant: TenantId, version: PassportVersionId) -> PassportVersionBytes:
    """All bytes of a version."""
    return await fetch_one(conn, PassportVersionBytes, SELECT_BYTES, tenant, version, kind="passport version")


async def set_signature(
    conn: Connection, tenant: TenantId, version: PassportVersionId, *, receipt: bytes, signature: bytes, key_id: str
) -> None:
    """COMPILING → SIGNED."""
    await conn.execute(UPDATE_SIGNED, tenant, version, receipt, signature, key_id)


async def set_qr(conn: Connection, tenant: TenantId, version: PassportVersionId, *, text: str, png: bytes) -> None:
    await conn.execute(UPDATE_QR, tenant, version, text, png)


async def set_replayed_at(conn: Connection, tenant: TenantId, version: PassportVersionId, *, at: datetime) -> None:
    """Store when a version was last replayed."""
    await conn.execute(UPDATE_REPLAYED_AT, tenant, version, at)


async def list_next_to_replay(conn: Connection, tenant: TenantId, *, limit: int) -> Sequence[PassportVersionId]:
    """ACTIVE versions: first those never replayed, then those whose last replay is oldest."""
    return [
        PassportVersionId(row["passport_version_id"]) for row in await conn.fetch(SELECT_NEXT_TO_REPLAY, tenant, limit)
    ]


async def list_sample(conn: Connection, tenant: TenantId, *, limit: int) -> Sequence[PassportVersionId]:
    """At most `limit` signed versions."""
    return [PassportVersionId(row["passport_version_id"]) for row in await conn.fetch(SELECT_SAMPLE, tenant, limit)]


async def find_active_version(conn: Connection, tenant: TenantId, passport: PassportId) -> PassportVersionId | None:
    """The ACTIVE version of a passport, if it has one."""
    version_id: PassportVersionId | None = await conn.fetchval(SELECT_ACTIVE, tenant, passport)
    return version_id


async def set_version_status(
    conn: Connection, tenant: TenantId, version: PassportVersionId, status: LaterStatus, *, at: datetime
) -> None:
    """Move the version to its next status."""
    await conn.execute(UPDATE_STATUS_TO[status], tenant, version, at)


def _to_locked_version(
    *, aggregate_version: int | None, event_hash: Digest | None, **columns: Any
) -> LockedPassportVersion:
    return LockedPassportVersion(head=ChainHead(aggregate_version or 0, event_hash), **columns)
