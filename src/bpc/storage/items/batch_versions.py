"""Versions of the passports of batches: requested, then issued or refused, once. The bytes are in the row.

The newest version of a batch that was not refused counts. Batteries pin the one that counts when they are requested.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, LiteralString

from zstandard import ZstdCompressor, ZstdDecompressor

from bpc.core.errors import Conflict, NotFound
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import ActorId, BatteryBatchId, BatteryProductId, PassportVersionId, TenantId
from bpc.core.items.compile import MAX_CONTENT_BYTES
from bpc.core.items.content import ItemArtifacts, restore_item
from bpc.storage.connection import LATEST_TIME, Connection, fetch_one, fetch_rows
from bpc.storage.items.pinned_model import PinnedModel

BatchVersionStatus = Literal["REQUESTED", "ISSUED", "REFUSED"]

INSERT_VERSION: Final[LiteralString] = """
    INSERT INTO batch_passport_versions (tenant_id, passport_version_id, battery_batch_id, model_version_id,
                                         rule_package_version_id, model_receipt_hash, dsl_sha256, compiler_build_id,
                                         signing_key_id, secret, facts, requested_at, requested_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
"""
SELECT_ORDER_FOR_UPDATE: Final[LiteralString] = """
    SELECT passport_version_id, battery_batch_id, model_version_id, rule_package_version_id, model_receipt_hash,
           dsl_sha256, compiler_build_id, signing_key_id, secret, facts, requested_at, requested_by, ended_at
      FROM batch_passport_versions WHERE tenant_id = $1 AND passport_version_id = $2 FOR NO KEY UPDATE
"""
UPDATE_ISSUED: Final[LiteralString] = """
    UPDATE batch_passport_versions
       SET content = $3, signature = $4, receipt_hash = $5, fail_count = $6, warn_count = $7, ended_at = $8
     WHERE tenant_id = $1 AND passport_version_id = $2
"""
UPDATE_REFUSED: Final[LiteralString] = """
    UPDATE batch_passport_versions SET refusal = $3, ended_at = $4 WHERE tenant_id = $1 AND passport_version_id = $2
"""
SELECT_VERSIONS: Final[LiteralString] = """
    SELECT passport_version_id, battery_batch_id, model_version_id, model_receipt_hash, signing_key_id,
           sha256(facts) AS facts_hash, requested_at, ended_at, receipt_hash, fail_count, warn_count, refusal
      FROM batch_passport_versions
"""
SELECT_OF_BATCH: Final[LiteralString] = f"""
    {SELECT_VERSIONS} WHERE tenant_id = $1 AND battery_batch_id = $2 AND requested_at <= $3
     ORDER BY requested_at DESC LIMIT $4
"""
SELECT_BY_ID: Final[LiteralString] = f"{SELECT_VERSIONS} WHERE tenant_id = $1 AND passport_version_id = $2"
SELECT_COUNTING: Final[LiteralString] = f"""
    {SELECT_VERSIONS}
     WHERE tenant_id = $1 AND battery_batch_id = $2 AND refusal IS NULL AND requested_at <= $3
     ORDER BY requested_at DESC LIMIT 1
"""
SELECT_BYTES: Final[LiteralString] = """
    SELECT content, signature, receipt_hash FROM batch_passport_versions
     WHERE tenant_id = $1 AND passport_version_id = $2 AND content IS NOT NULL
"""
SELECT_PINS: Final[LiteralString] = """
    SELECT b.batch_number, v.passport_version_id, v.model_version_id, v.ended_at IS NOT NULL AS is_issued
      FROM unnest($3::text[]) AS w(number)
      JOIN battery_batches b ON b.tenant_id = $1 AND b.battery_product_id = $2 AND b.batch_number = w.number
     CROSS JOIN LATERAL (
       SELECT passport_version_id, model_version_id, ended_at FROM batch_passport_versions
        WHERE tenant_id = $1 AND battery_batch_id = b.battery_batch_id AND refusal IS NULL
        ORDER BY requested_at DESC LIMIT 1) AS v
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder(PinnedModel):
    """The passport of a batch that is to be issued. `facts` are lines of facts.jsonl, `secret` is as it is stored."""

    passport_version_id: PassportVersionId
    battery_batch_id: BatteryBatchId
    secret: str
    facts: bytes
    requested_at: datetime
    requested_by: ActorId | None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchVersionRow:
    """A version of a batch's passport: the model it lies below, and what became of it."""

    passport_version_id: PassportVersionId
    battery_batch_id: BatteryBatchId
    model_version_id: PassportVersionId
    model_receipt_hash: Digest
    signing_key_id: str
    facts_hash: Digest
    requested_at: datetime
    ended_at: datetime | None
    receipt_hash: Digest | None
    fail_count: int | None
    warn_count: int | None
    refusal: str | None

    @property
    def status(self) -> BatchVersionStatus:
        if self.ended_at is None:
            return "REQUESTED"
        return "ISSUED" if self.refusal is None else "REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPin:
    """The version of a batch that counts."""

    passport_version_id: PassportVersionId
    model_version_id: PassportVersionId
    is_issued: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedBatch:
    """The bytes of a signed batch."""

    content: bytes
    signature: bytes
    receipt_hash: Digest
    fail_count: int
    warn_count: int


class NoBatchPassport(NotFound):
    """The batch has no passport of its own."""

    def __init__(self, batch: BatteryBatchId) -> None:
        super().__init__(
            f"batch `{batch}` has no passport of its own (at that time)",
            hint="issue the batch",
        )


class BatchBytesChanged(Conflict):
    """The stored bytes are not those that the receipt's hash on record covers."""

    def __init__(self, version: PassportVersionId) -> None:
        super().__init__(
            f"the stored bytes of the batch's passport version `{version}` are not those on record",
            fix="find out who changed them, and restore them from a backup",
        )


async def insert_order(conn: Connection, tenant: TenantId, order: BatchOrder) -> None:
    await conn.execute(
        INSERT_VERSION,
        tenant,
        order.passport_version_id,
        order.battery_batch_id,
        order.model_version_id,
        order.rule_package_version_id,
        order.model_receipt_hash,
        order.dsl_sha256,
        order.compiler_build_id,
        order.signing_key_id,
        order.secret,
        order.facts,
        order.requested_at,
        order.requested_by,
    )


async def lock_order(conn: Connection, tenant: TenantId, version: PassportVersionId) -> BatchOrder:
    """The order, which nobody else issues until the transaction ends."""
    return await fetch_one(conn, BatchOrder, SELECT_ORDER_FOR_UPDATE, tenant, version, kind="batch passport version")


async def set_issued(
    conn: Connection, tenant: TenantId, version: PassportVersionId, result: IssuedBatch, *, at: datetime
) -> Digest:
    """Keep the bytes; return the hash of what is stored of them."""
    content = ZstdCompressor(level=19).compress(result.content)
    await conn.execute(
        UPDATE_ISSUED,
        tenant,
        version,
        content,
        result.signature,
        result.receipt_hash,
        result.fail_count,
        result.warn_count,
        at,
    )
    return sha256(content)


async def set_refused(
    conn: Connection, tenant: TenantId, version: PassportVersionId, refusal: str, *, at: datetime
) -> None:
    await conn.execute(UPDATE_REFUSED, tenant, version, refusal, at)


async def find_counting_version(
    conn: Connection, tenant: TenantId, batch: BatteryBatchId, *, at: datetime = LATEST_TIME
) -> BatchVersionRow | None:
    """The newest version of a batch that was not refused; it may wait to be issued."""
    rows = await fetch_rows(conn, BatchVersionRow, SELECT_COUNTING, tenant, batch, at)
    return rows[0] if rows else None


async def get_version(conn: Connection, tenant: TenantId, version: PassportVersionId) -> BatchVersionRow:
    return await fetch_one(conn, BatchVersionRow, SELECT_BY_ID, tenant, version, kind="batch passport version")


async def get_issued_version(
    conn: Connection, tenant: TenantId, batch: BatteryBatchId, *, at: datetime = LATEST_TIME
) -> BatchVersionRow:
    """The newest version of a batch that is issued, or the one of a time. Raises `NoBatchPassport`."""
    for row in await list_versions(conn, tenant, batch, at=at):
        if row.status == "ISSUED":
            return row
    raise NoBatchPassport(batch)


async def list_versions(
    conn: Connection, tenant: TenantId, batch: BatteryBatchId, *, at: datetime = LATEST_TIME, limit: int = 100
) -> Sequence[BatchVersionRow]:
    """The versions of a batch's passport, newest first."""
    return await fetch_rows(conn, BatchVersionRow, SELECT_OF_BATCH, tenant, batch, at, limit)


async def load_artifacts(conn: Connection, tenant: TenantId, version: PassportVersionId) -> ItemArtifacts:
    """All artifacts of an issued batch. Raises `BatchBytesChanged` unless its receipt has the hash on record."""
    row = await conn.fetchrow(SELECT_BYTES, tenant, version)
    if row is None:
        raise BatchBytesChanged(version)
    content = ZstdDecompressor().decompress(row["content"], max_output_size=MAX_CONTENT_BYTES)
    artifacts = restore_item(content, row["signature"])
    if artifacts.receipt_hash != row["receipt_hash"]:
        raise BatchBytesChanged(version)
    return artifacts


async def find_pins(
    conn: Connection, tenant: TenantId, product: BatteryProductId, numbers: Sequence[str]
) -> Mapping[str, BatchPin]:
    """The version that counts of each of these batches that has one, by the number of the batch."""
    rows = await conn.fetch(SELECT_PINS, tenant, product, numbers)
    return {
        row["batch_number"]: BatchPin(
            passport_version_id=row["passport_version_id"],
            model_version_id=row["model_version_id"],
            is_issued=row["is_issued"],
        )
        for row in rows
    }
