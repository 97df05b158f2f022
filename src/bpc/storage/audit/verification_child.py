"""Verify what a tenant's audit log stands for in a process of its own, with a connection of its own.

Verifying computes two hashes for each event. In the event loop of a service it would take the time of all others.
"""

import asyncio
from dataclasses import replace

from bpc.core.audit.events import EventStream
from bpc.core.formats.ids import TenantId
from bpc.runtime.postgres.address import Address
from bpc.storage.audit import events
from bpc.storage.audit.verification import AuditVerification, verify_audit
from bpc.storage.connection import open_connection
from bpc.storage.database import begin_tenant_transaction, freeze_view


def verify_events_in_child(
    address: Address, tenant: TenantId, chain: EventStream | None, floor_days: int, most_faults: int
) -> AuditVerification:
    """Verify one chain, or all that the tenant has; return no more than `most_faults` faults of a kind."""
    return asyncio.run(_verify_events(address, tenant, chain, floor_days, most_faults))


async def _verify_events(
    address: Address, tenant: TenantId, chain: EventStream | None, floor_days: int, most_faults: int
) -> AuditVerification:
    async with open_connection(address) as conn, begin_tenant_transaction(conn, tenant):
        if chain is not None:
            result = AuditVerification(chains=await events.verify_chain(conn, chain))
        else:
            await freeze_view(conn)  # all that it reads must be of one moment
            result = await verify_audit(conn, tenant, floor_days=floor_days)
    chains = replace(result.chains, faults=result.chains.faults[:most_faults])
    state = None if result.state is None else replace(result.state, faults=result.state.faults[:most_faults])
    return AuditVerification(chains=chains, state=state)
