"""Verifying all that a tenant's audit log stands for, in one pass over its events.

    events ─┬─► chains and anchors   (bpc.storage.audit.events)
            ├─► retention and log    (bpc.storage.audit.retention_check)
            └─► folds ─► tables      (bpc.storage.audit.state_check)
    roots of registrations ─► batteries            (bpc.storage.batteries.registration_audit)
    hashes of deliveries ─► readings of batteries  (bpc.storage.batteries.reading_audit)
    roots of chunks ─► passports of batteries      (bpc.storage.items.chunk_audit)

The transaction must see the data of one moment (bpc.storage.database.freeze_view): events and rows are compared.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bpc.core.audit.events import ChainFault
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.audit.events import ChainVerification
from bpc.storage.audit.retention_check import verify_retention
from bpc.storage.audit.state_check import StateCheck, StateVerification, load_covered_since
from bpc.storage.batteries.reading_audit import verify_readings
from bpc.storage.batteries.registration_audit import verify_registrations
from bpc.storage.connection import Connection
from bpc.storage.items.chunk_audit import verify_item_chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification:
    """What was verified of a tenant. `state` is None if only chains were."""

    chains: ChainVerification
    state: StateVerification | None = None

    @property
    def is_intact(self) -> bool:
        return not self.chains.faults and (self.state is None or not self.state.faults)

    @property
    def fault_count(self) -> int:
        return len(self.chains.faults) + (0 if self.state is None else len(self.state.faults))

    def add_chain_faults(self, faults: tuple[ChainFault, ...]) -> "AuditVerification":
        chains = replace(self.chains, faults=(*self.chains.faults, *faults))
        return replace(self, chains=chains)


async def verify_audit(
    conn: Connection, tenant: TenantId, *, floor_days: int = 0, report: Callable[[int], None] | None = None
) -> AuditVerification:
    """Verify chains, retention and state. `floor_days` is how long everything is kept at least."""
    await events.lock_anchors_shared(conn, tenant)
    retention = await verify_retention(conn, tenant, now=clock.now(), floor_days=floor_days)
    state = StateCheck(
        conn=conn,
        tenant=tenant,
        anchors=events.to_heads(tenant, await conn.fetch(events.SELECT_ANCHORS_OF_TENANT, tenant)),
        removed=retention.removed,
        covered_since=await load_covered_since(conn),
    )
    chains = await events.verify_tenant(conn, tenant, report=report, observe=state.observe)
    tables = await state.finish()
    for verify_rows in (verify_registrations, verify_readings, verify_item_chunks):
        count, faults = await verify_rows(conn, tenant)
        tables = replace(tables, rows=tables.rows + count, faults=(*tables.faults, *faults))
    verification = AuditVerification(chains=chains, state=tables)
    return verification.add_chain_faults(retention.faults)
