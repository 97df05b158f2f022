"""A version that is issued at once: its row, its three events and who wants to know of them, in one statement.

The row is inserted as SIGNED, with its signature and its QR code. Its events are those of a version that is
compiled, signed and gets its code one after the other, in the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from bpc.core.audit.events import AuditEvent, EventVersionConflict
from bpc.core.formats.ids import PassportId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.passport.compile import CompiledPassport
from bpc.core.webhooks import WEBHOOK_TYPES
from bpc.storage.connection import Connection
from bpc.storage.webhooks.webhook_fanout import submit_deliveries

# The parts of one statement see the tables as they were before it. Triggers and foreign keys are checked at its end.
INSERT_ISSUED_VERSION: Final[LiteralString] = """
    WITH version AS (
      INSERT INTO passport_versions (tenant_id, passport_version_id, passport_id, status, created_at, snapshot_id,
                                     rule_package_version_id, compiler_build_id, payload_canonical, payload_hash,
                                     proof_canonical, proof_root_hash, receipt_canonical, receipt_hash, signature_alg,
                                     fail_count, warn_count, signature, signing_key_id, qr_payload, qr_png)
      VALUES ($1, $2, $3, 'SIGNED', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'ED25519', $14, $15, $16, $17, $18, $19)
      ON CONFLICT ON CONSTRAINT passport_versions_pkey DO NOTHING
      RETURNING passport_version_id
    ), appended AS (
      INSERT INTO events (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type, occurred_at,
                          actor_id, payload, payload_canonical, payload_hash, prev_event_hash, event_hash)
      SELECT $1, e.event_id, 'PassportVersion', version.passport_version_id, e.aggregate_version, e.event_type,
             e.occurred_at, $20, convert_from(e.payload, 'UTF8')::jsonb, e.payload, e.payload_hash, e.prev_event_hash,
             e.event_hash
        FROM version,
             unnest($21::uuid[], $22::bigint[], $23::text[], $24::timestamptz[], $25::bytea[], $26::bytea[],
                    $27::bytea[], $28::bytea[])
               AS e(event_id, aggregate_version, event_type, occurred_at, payload, payload_hash, prev_event_hash,
                    event_hash)
       ORDER BY e.aggregate_version
      ON CONFLICT ON CONSTRAINT events_chain_key DO NOTHING
      RETURNING event_id, event_type
    ), announced AS (
      INSERT INTO webhook_deliveries (tenant_id, webhook_delivery_id, webhook_endpoint_id, event_id, status)
      SELECT $1, gen_random_uuid(), s.webhook_endpoint_id, appended.event_id, 'PENDING'
        FROM appended
        JOIN unnest($29::text[], $30::text[]) AS named(event_type, webhook_type) USING (event_type)
        JOIN webhook_subscriptions s ON s.tenant_id = $1 AND s.event_type = named.webhook_type
        JOIN webhook_endpoints p ON p.tenant_id = $1 AND p.webhook_endpoint_id = s.webhook_endpoint_id AND p.is_active
      RETURNING webhook_delivery_id
    )
    SELECT 'version' AS part, NULL::uuid AS webhook_delivery_id FROM version
     UNION ALL SELECT 'event', NULL FROM appended
     UNION ALL SELECT 'delivery', webhook_delivery_id FROM announced
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedVersion:
    """What is stored of a version that is issued at once. `issued_at` is when its compile was requested."""

    passport_version_id: PassportVersionId
    passport_id: PassportId
    snapshot_id: SnapshotId
    rule_package_version_id: RulePackageVersionId
    compiler_build_id: str
    issued_at: datetime
    output: CompiledPassport
    receipt: bytes
    signature: bytes
    signing_key_id: str
    qr_text: str
    qr_png: bytes
    events: Sequence[AuditEvent]


async def insert_issued_version(conn: Connection, tenant: TenantId, version: IssuedVersion) -> bool:
    """Insert a version, append its events and queue their deliveries; return False if there is one with this id.

    The events are the first of their chain. Raises `EventVersionConflict` if there are others.
    """
    output, events = version.output, version.events
    announced_types = [event.event_type for event in events if event.event_type in WEBHOOK_TYPES]
    rows = await conn.fetch(
        INSERT_ISSUED_VERSION,
        tenant,
        version.passport_version_id,
        version.passport_id,
        version.issued_at,
        version.snapshot_id,
        version.rule_package_version_id,
        version.compiler_build_id,
        output.payload,
        output.payload_hash,
        output.proof,
        output.proof_root_hash,
        version.receipt,
        output.receipt_hash,
        *output.compliance,
        version.signature,
        version.signing_key_id,
        version.qr_text,
        version.qr_png,
        events[0].actor_id,
        [event.event_id for event in events],
        [event.version for event in events],
        [event.event_type for event in events],
        [event.occurred_at for event in events],
        [event.payload_canonical for event in events],
        [event.payload_hash for event in events],
        [event.prev_event_hash for event in events],
        [event.event_hash for event in events],
        announced_types,
        [WEBHOOK_TYPES[event_type] for event_type in announced_types],
    )
    parts = [row["part"] for row in rows]
    if "version" not in parts:
        return False
    if parts.count("event") != len(events):
        raise EventVersionConflict(events[0].stream, 0, 1)
    deliveries = [row for row in rows if row["part"] == "delivery"]
    if deliveries:
        await submit_deliveries(conn, tenant, deliveries)
    return True
