"""Versions of passports: canonical bytes and their hashes, written once; only the status moves, and only forward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

from bpc.core.compile import Compiled
from bpc.core.digest import Digest
from bpc.core.errors import NotFound
from bpc.core.events import Head
from bpc.core.ids import PassportId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.db.connection import Connection
from bpc.db.pages import Ask

Status = Literal["COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"]
Later = Literal["ACTIVE", "SUPERSEDED", "REVOKED"]
Artifact = Literal["payload", "proof", "receipt", "qr_png"]

INSERT: Final[LiteralString] = """
    INSERT INTO passport_versions (tenant_id, passport_version_id, passport_id, status, created_at, snapshot_id,
                                   rule_package_version_id, compiler_build_id, payload_canonical, payload_hash,
                                   proof_canonical, proof_root_hash, receipt_canonical, receipt_hash, signature_alg)
    VALUES ($1, $2, $3, 'COMPILING', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'ED25519')
    ON CONFLICT ON CONSTRAINT passport_versions_pkey DO NOTHING
    RETURNING true
"""
COLUMNS: Final[LiteralString] = """
    passport_version_id, passport_id, status::text AS status, created_at, activated_at, superseded_at, revoked_at,
    snapshot_id, rule_package_version_id, compiler_build_id, payload_hash, proof_root_hash, receipt_hash,
    signing_key_id, qr_png IS NOT NULL AS has_qr
"""
ONE: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM passport_versions WHERE tenant_id = $1 AND passport_version_id = $2
"""
LOCKED: Final[LiteralString] = f"{ONE} FOR NO KEY UPDATE"
# The row first, then its chain: the order of everybody who locks both.
ISSUING: Final[LiteralString] = """
    WITH version AS MATERIALIZED (
      SELECT passport_version_id, status::text AS status, receipt_canonical AS receipt, receipt_hash, proof_root_hash,
             sha256(payload_canonical) AS payload_sha256, qr_png IS NOT NULL AS has_qr
        FROM passport_versions
       WHERE tenant_id = $1 AND passport_version_id = $2
         FOR NO KEY UPDATE)
    SELECT status, receipt, receipt_hash, proof_root_hash, payload_sha256, has_qr, aggregate_version, event_hash
      FROM version CROSS JOIN LATERAL locked_event_head('PassportVersion', version.passport_version_id) AS head
"""
OF_PASSPORT: Final[LiteralString] = f"""
    SELECT {COLUMNS} FROM passport_versions
     WHERE tenant_id = $1 AND passport_id = $5 AND (created_at, passport_version_id) < ($2, $3)
     ORDER BY created_at DESC, passport_version_id DESC
     LIMIT $4
"""
ARTIFACTS: Final[Mapping[Artifact, LiteralString]] = {
    "payload": """
        SELECT payload_canonical FROM passport_versions WHERE tenant_id = $1 AND passport_version_id = $2
    """,
    "proof": "SELECT proof_canonical FROM passport_versions WHERE tenant_id = $1 AND passport_version_id = $2",
    "receipt": "SELECT receipt_canonical FROM passport_versions WHERE tenant_id = $1 AND passport_version_id = $2",
    "qr_png": "SELECT qr_png FROM passport_versions WHERE tenant_id = $1 AND passport_version_id = $2",
}
STORED: Final[LiteralString] = """
    SELECT payload_canonical AS payload, proof_canonical AS proof, receipt_canonical AS receipt, signature, qr_payload,
           qr_png
      FROM passport_versions WHERE tenant_id = $1 AND passport_version_id = $2
"""
SIGN: Final[LiteralString] = """
    UPDATE passport_versions SET status = 'SIGNED', receipt_canonical = $3, signature = $4, signing_key_id = $5
     WHERE tenant_id = $1 AND passport_version_id = $2
"""
SET_QR: Final[LiteralString] = """
    UPDATE passport_versions SET qr_payload = $3, qr_png = $4 WHERE tenant_id = $1 AND passport_version_id = $2
"""
REPLAYED: Final[LiteralString] = """
    UPDATE passport_versions SET replayed_at = $3 WHERE tenant_id = $1 AND passport_version_id = $2
"""
TO_REPLAY: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND status = 'ACTIVE'
     ORDER BY replayed_at NULLS FIRST, passport_version_id
     LIMIT $2
"""
# By a hash of the id: any of them, and the same ones again.
SAMPLE: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND status <> 'COMPILING'
     ORDER BY sha256(uuid_send(passport_version_id))
     LIMIT $2
"""
ACTIVE: Final[LiteralString] = """
    SELECT passport_version_id FROM passport_versions
     WHERE tenant_id = $1 AND passport_id = $2 AND status = 'ACTIVE'
"""
MOVE: Final[Mapping[Later, LiteralString]] = {
    "ACTIVE": """
        UPDATE passport_versions SET status = 'ACTIVE', activated_at = $3
         WHERE tenant_id = $1 AND passport_version_id = $2
    """,
    "SUPERSEDED": """
        UPDATE passport_versions SET status = 'SUPERSEDED', superseded_at = $3
         WHERE tenant_id = $1 AND passport_version_id = $2
    """,
    "REVOKED": """
        UPDATE passport_versions SET status = 'REVOKED', revoked_at = $3
         WHERE tenant_id = $1 AND passport_version_id = $2
    """,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What is known of a version. `created_at` is when it was asked for, its payload's `issued_at`."""

    passport_version_id: PassportVersionId
    passport_id: PassportId
    status: Status
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The bytes of a version, as they are; what comes after compiling is None until it is there."""

    payload: bytes
    proof: bytes
    receipt: bytes
    signature: bytes | None
    qr_payload: str | None
    qr_png: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuing:
    """A version that nobody else changes until we are done, as far as signing and its QR code need it.

    `payload_sha256` is the hash of the payload as it is stored, `head` where the chain of its events stands.
    """

    status: Status
    receipt: bytes
    receipt_hash: Digest
    proof_root_hash: Digest
    payload_sha256: Digest
    has_qr: bool
    head: Head


class VersionUnknown(NotFound):
    def __init__(self, version: PassportVersionId) -> None:
        super().__init__(
            f"there is no passport version `{version}`",
            fix="GET /v1/passports/{passport_id}/versions lists those there are; a new one is there after its job",
        )


async def add(
    conn: Connection,
    tenant: TenantId,
    version: PassportVersionId,
    compiled: Compiled,
    *,
    passport: PassportId,
    snapshot: SnapshotId,
    rules: RulePackageVersionId,
    compiler_build_id: str,
    at: datetime,
) -> bool:
    """Keep what was compiled; False if there is a version of this id already."""
    added: bool | None = await conn.fetchval(
        INSERT,
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
    )
    return added is not None


async def get(conn: Connection, tenant: TenantId, version: PassportVersionId) -> Version:
    return await _one(conn, ONE, tenant, version)


async def locked(conn: Connection, tenant: TenantId, version: PassportVersionId) -> Version:
    """The version, which nobody else changes until we are done. Whoever locks its passport too does that first."""
    return await _one(conn, LOCKED, tenant, version)


async def issuing(conn: Connection, tenant: TenantId, version: PassportVersionId) -> Issuing:
    """The version and the chain of its events, both locked, in one look."""
    row = await conn.fetchrow(ISSUING, tenant, version)
    if row is None:
        raise VersionUnknown(version)
    columns = dict(row)
    head = Head(columns.pop("aggregate_version") or 0, columns.pop("event_hash"))
    return Issuing(**columns, head=head)


async def of_passport(conn: Connection, tenant: TenantId, passport: PassportId, ask: Ask) -> Sequence[Version]:
    """The versions of a passport, newest first."""
    return [Version(**dict(row)) for row in await conn.fetch(OF_PASSPORT, tenant, *ask, passport)]


async def artifact(conn: Connection, tenant: TenantId, version: PassportVersionId, which: Artifact) -> bytes | None:
    """The stored bytes of an artifact; None for a QR code that is not there yet."""
    row = await conn.fetchrow(ARTIFACTS[which], tenant, version)
    if row is None:
        raise VersionUnknown(version)
    found: bytes | None = row[0]
    return found


async def stored(conn: Connection, tenant: TenantId, version: PassportVersionId) -> Stored:
    """All bytes of a version."""
    row = await conn.fetchrow(STORED, tenant, version)
    if row is None:
        raise VersionUnknown(version)
    return Stored(**dict(row))


async def sign(
    conn: Connection, tenant: TenantId, version: PassportVersionId, *, receipt: bytes, signature: bytes, key_id: str
) -> None:
    """COMPILING → SIGNED."""
    await conn.execute(SIGN, tenant, version, receipt, signature, key_id)


async def set_qr(conn: Connection, tenant: TenantId, version: PassportVersionId, *, text: str, png: bytes) -> None:
    await conn.execute(SET_QR, tenant, version, text, png)


async def replayed(conn: Connection, tenant: TenantId, version: PassportVersionId, *, at: datetime) -> None:
    """Remember when a version was last compiled again."""
    await conn.execute(REPLAYED, tenant, version, at)


async def to_replay(conn: Connection, tenant: TenantId, *, most: int) -> Sequence[PassportVersionId]:
    """Versions that are ACTIVE, those first that were never replayed, then those that were not for longest."""
    return [PassportVersionId(row["passport_version_id"]) for row in await conn.fetch(TO_REPLAY, tenant, most)]


async def sample(conn: Connection, tenant: TenantId, *, most: int) -> Sequence[PassportVersionId]:
    """At most so many versions that are signed."""
    return [PassportVersionId(row["passport_version_id"]) for row in await conn.fetch(SAMPLE, tenant, most)]


async def active(conn: Connection, tenant: TenantId, passport: PassportId) -> PassportVersionId | None:
    """The one version of a passport that is ACTIVE, if one is."""
    found: PassportVersionId | None = await conn.fetchval(ACTIVE, tenant, passport)
    return found


async def move(conn: Connection, tenant: TenantId, version: PassportVersionId, to: Later, *, at: datetime) -> None:
    """Give the version its next status, at this moment."""
    await conn.execute(MOVE[to], tenant, version, at)


async def _one(conn: Connection, statement: LiteralString, tenant: TenantId, version: PassportVersionId) -> Version:
    row = await conn.fetchrow(statement, tenant, version)
    if row is None:
        raise VersionUnknown(version)
    return Version(**dict(row))
