"""Passport versions: canonical bytes and their hashes never change; the status only moves forward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, LiteralString

from bpc.core.audit.events import ChainHead
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import (
    BatteryProductId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.passport.compile import CompiledPassport
from bpc.core.passport.qr import draw_qr_png
from bpc.storage.connection import Connection, PageQuery, fetch_one, fetch_rows, make_page_query
from bpc.storage.list_filters import ListConditions
from bpc.storage.passports.passports import PassportSubject
from bpc.storage.passports.product_search import ProductFilter, add_product_conditions

PassportVersionStatus = Literal["COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"]
LaterStatus = Literal["ACTIVE", "SUPERSEDED", "REVOKED"]
ArtifactName = Literal["payload", "proof", "receipt"]
# What a later release will store of a picture, which follows from its text. The one before this needs the picture.
DRAWN_WHEN_READ: Final = b""
MAX_DRAWN_PICTURES: Final = 256

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
# The product of each version is looked up: for plain joins, the planner may read all passports and products.
SELECT_VERSIONS: Final[LiteralString] = f"""
    SELECT v.passport_version_id, v.passport_id, b.sku, b.name AS product_name, v.status::text AS status, v.created_at,
           v.activated_at, v.superseded_at, v.revoked_at, v.abandoned_at, v.abandon_reason, v.snapshot_id,
           v.rule_package_version_id, v.compiler_build_id,
           v.payload_hash, v.proof_root_hash, v.receipt_hash, v.signing_key_id, v.qr_png IS NOT NULL AS has_qr,
           {COMPLIANCE_COLUMNS}
      FROM passport_versions v
     CROSS JOIN LATERAL (
       SELECT product.sku, product.name
         FROM passports p
         JOIN battery_products product
           ON product.tenant_id = p.tenant_id AND product.battery_product_id = p.battery_product_id
        WHERE p.tenant_id = v.tenant_id AND p.passport_id = v.passport_id LIMIT 1) AS b
"""
ONE_VERSION: Final[LiteralString] = "WHERE tenant_id = $1 AND passport_version_id = $2"
SELECT_VERSION: Final[LiteralString] = f"{SELECT_VERSIONS} WHERE v.tenant_id = $1 AND v.passport_version_id = $2"
SELECT_VERSION_FOR_UPDATE: Final[LiteralString] = f"{SELECT_VERSION} FOR NO KEY UPDATE OF v"
# The row first, then its chain: everything that locks both locks them in this order.
SELECT_VERSION_AND_HEAD_FOR_UPDATE: Final[LiteralString] = """
    WITH version AS MATERIALIZED (
      SELECT passport_version_id, status::text AS status, receipt_canonical AS receipt, receipt_hash, proof_root_hash,
             sha256(payload_canonical) AS payload_sha256, qr_png IS NOT NULL AS has_qr, abandoned_at, passport_id
        FROM passport_versions
       WHERE tenant_id = $1 AND passport_version_id = $2
         FOR NO KEY UPDATE)
    SELECT status, receipt, receipt_hash, proof_root_hash, payload_sha256, has_qr, abandoned_at, aggregate_version,
           event_hash, passport_id, battery_product_id, sku
      FROM version
      JOIN passports p USING (passport_id)
      JOIN battery_products b USING (battery_product_id)
     CROSS JOIN LATERAL locked_event_head('PassportVersion', version.passport_version_id) AS head
     WHERE p.tenant_id = $1 AND b.tenant_id = $1
"""
OF_PRODUCTS: Final[LiteralString] = """v.passport_id = ANY(ARRAY(
    SELECT passport_id FROM passports WHERE tenant_id = $1 AND battery_product_id = ANY({}::uuid[])))"""
# The condition of the index for a status: row-level security keeps a comparison with a value away from an index.
HAS_STATUS: Final[Mapping[str, LiteralString]] = {
    "COMPILING": "v.status = 'COMPILING'",
    "SIGNED": "v.status = 'SIGNED'",
    "ACTIVE": "v.status = 'ACTIVE'",
    "SUPERSEDED": "v.status = 'SUPERSEDED'",
    "REVOKED": "v.status = 'REVOKED'",
}
SELECT_ARTIFACT: Final[Mapping[ArtifactName, LiteralString]] = {
    "payload": f"SELECT payload_canonical AS content FROM passport_versions {ONE_VERSION}",
    "proof": f"SELECT proof_canonical AS content FROM passport_versions {ONE_VERSION}",
    "receipt": f"SELECT receipt_canonical AS content FROM passport_versions {ONE_VERSION}",
}
SELECT_PICTURE: Final[LiteralString] = f"SELECT qr_png, qr_payload FROM passport_versions {ONE_VERSION}"
SELECT_BYTES: Final[LiteralString] = f"""
    SELECT payload_canonical AS payload, proof_canonical AS proof, receipt_canonical AS receipt, signature, qr_payload,
           qr_png
      FROM passport_versions {ONE_VERSION}
"""
UPDATE_SIGNED: Final[LiteralString] = f"""
    UPDATE passport_versions SET status = 'SIGNED', receipt_canonical = $3, signature = $4, signing_key_id = $5
     {ONE_VERSION}
"""
UPDATE_ABANDONED: Final[LiteralString] = f"""
    UPDATE passport_versions SET abandoned_at = $3, abandon_reason = $4 {ONE_VERSION}
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

    `product_name` is the present name of its product; the payload has the name of that time.
    `waived_count` of its FAIL and WARN entries do not block its activation.
    """

    passport_version_id: PassportVersionId
    passport_id: PassportId
    sku: str
    product_name: str
    status: PassportVersionStatus
    created_at: datetime
    activated_at: datetime | None
    superseded_at: datetime | None
    revoked_at: datetime | None
    abandoned_at: datetime | None
    abandon_reason: str | None
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

    `payload_sha256` is computed from the stored payload; `head` is the head of its chain of events; `subject` is what
    it is about.
    """

    status: PassportVersionStatus
    receipt: bytes
    receipt_hash: Digest
    proof_root_hash: Digest
    payload_sha256: Digest
    has_qr: bool
    abandoned_at: datetime | None
    head: ChainHead
    subject: PassportSubject


async def insert_version(
    conn: Connection,
    tenant: TenantId,
    version: PassportVersionId,
    compiled_passport: CompiledPassport,
    *,
    passport: PassportId,
    snapshot: SnapshotId,
    rules: RulePackageVersionId,
    compiler_build_id: str,
    at: datetime,
) -> bool:
    """Insert a compiled version; return False if there is one with this id."""
    is_new: bool | None = await conn.fetchval(
        INSERT_VERSION,
        tenant,
        version,
        passport,
        at,
        snapshot,
        rules,
        compiler_build_id,
        compiled_passport.payload,
        compiled_passport.payload_hash,
        compiled_passport.proof,
        compiled_passport.proof_root_hash,
        compiled_passport.receipt,
        compiled_passport.receipt_hash,
        *compiled_passport.compliance,
    )
    return is_new is not None


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
    conn: Connection, tenant: TenantId, passport: PassportId | None, filters: ProductFilter, page: PageQuery
) -> Sequence[PassportVersionRow]:
    """The versions of a passport, or of all passports, newest first."""
    conditions = ListConditions()
    conditions.add("v.passport_id = {}", passport)
    await add_product_conditions(conn, tenant, conditions, filters, candidates=OF_PRODUCTS)
    if filters.status is not None:
        conditions.add_plain(HAS_STATUS[filters.status])
    conditions.add_times("v.created_at", filters.created_after, filters.created_before)
    statement = make_page_query(
        SELECT_VERSIONS, time="v.created_at", key="v.passport_version_id", where=conditions.where
    )
    return await fetch_rows(conn, PassportVersionRow, statement, tenant, *page, *conditions.values)


async def load_artifact(conn: Connection, tenant: TenantId, version: PassportVersionId, name: ArtifactName) -> bytes:
    """The stored bytes of an artifact."""
    row = await fetch_one(conn, dict[str, bytes], SELECT_ARTIFACT[name], tenant, version, kind="passport version")
    return row["content"]


async def load_picture(conn: Connection, tenant: TenantId, version: PassportVersionId) -> bytes | None:
    """The picture of a version's QR code; None if it has no code yet."""
    return await fetch_one(conn, _complete_picture, SELECT_PICTURE, tenant, version, kind="passport version")


async def load_bytes(conn: Connection, tenant: TenantId, version: PassportVersionId) -> PassportVersionBytes:
    """All bytes of a version."""
    return await fetch_one(conn, _to_version_bytes, SELECT_BYTES, tenant, version, kind="passport version")


async def set_signature(
    conn: Connection, tenant: TenantId, version: PassportVersionId, *, receipt: bytes, signature: bytes, key_id: str
) -> None:
    """COMPILING → SIGNED."""
    await conn.execute(UPDATE_SIGNED, tenant, version, receipt, signature, key_id)


async def set_abandoned(
    conn: Connection, tenant: TenantId, version: PassportVersionId, *, at: datetime, reason: str
) -> None:
    """Give up a version that is COMPILING. Its status stays."""
    await conn.execute(UPDATE_ABANDONED, tenant, version, at, reason)


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


def _to_version_bytes(*, qr_payload: str | None, qr_png: bytes | None, **columns: Any) -> PassportVersionBytes:
    picture = _complete_picture(qr_payload=qr_payload, qr_png=qr_png)
    return PassportVersionBytes(qr_payload=qr_payload, qr_png=picture, **columns)


def _complete_picture(*, qr_payload: str | None, qr_png: bytes | None) -> bytes | None:
    return qr_png if qr_payload is None or qr_png != DRAWN_WHEN_READ else _draw_picture(qr_payload)


@lru_cache(maxsize=MAX_DRAWN_PICTURES)
def _draw_picture(text: str) -> bytes:
    return draw_qr_png(text)


def _to_locked_version(
    *,
    aggregate_version: int | None,
    event_hash: Digest | None,
    passport_id: PassportId,
    battery_product_id: BatteryProductId,
    sku: str,
    **columns: Any,
) -> LockedPassportVersion:
    head = ChainHead(aggregate_version or 0, event_hash)
    subject = PassportSubject(passport_id=passport_id, battery_product_id=battery_product_id, sku=sku)
    return LockedPassportVersion(head=head, subject=subject, **columns)
