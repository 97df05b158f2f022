"""Audit heads: the log says now and then where all chains of a tenant stand, and the events must still say the same."""

from pathlib import Path

import asyncpg
import pytest

from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.storage.audit import audit_heads, events
from bpc.storage.audit.verification import verify_audit
from bpc.storage.database import Database
from bpc.tasks.log_sequencer import AuditHeads
from tests.storage.tlog.log_fixtures import append_signed_events, make_sequencer


async def find_faults(superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId) -> list[str]:
    async with superuser.transaction():
        verification = await verify_audit(superuser, tenant)
    return [fault.says for fault in verification.chains.faults if "other events until" in fault.says]


async def test_what_was_removed_or_written_anew_before_a_head_shows(
    database: Database,
    tenant: TenantId,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sequencer, heads = make_sequencer(database, tmp_path), AuditHeads(database)
    await append_signed_events(database, tenant, act, 3)
    assert await heads.commit() == 1
    await sequencer.run_once()
    await append_signed_events(database, tenant, act, 2)  # after the head: they do not disturb it
    assert await find_faults(superuser, tenant) == []

    transaction = superuser.transaction()
    await transaction.start()
    await superuser.execute("SET LOCAL session_replication_role = replica")
    await superuser.execute(
        "DELETE FROM events WHERE tenant_id = $1 AND event_id ="
        " (SELECT event_id FROM events WHERE tenant_id = $1 ORDER BY recorded_in, occurred_at LIMIT 1)",
        tenant,
    )
    [says] = await find_faults(superuser, tenant)
    assert "some of them were removed or written anew" in says

    async def elsewhere(_: object) -> audit_heads.SeenEvents:
        return audit_heads.SeenEvents("another database", "1:1:")

    monkeypatch.setattr("bpc.storage.audit.audit_heads.load_seen", elsewhere)
    assert await find_faults(superuser, tenant) == [], "a database restored from a dump counts transactions anew"
    await transaction.rollback()


async def test_a_transaction_that_was_running_at_the_head_is_no_fault(
    database: Database,
    tenant: TenantId,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tmp_path: Path,
) -> None:
    sequencer, heads = make_sequencer(database, tmp_path), AuditHeads(database)
    await append_signed_events(database, tenant, act, 1)
    late = await superuser.fetchval("SELECT count(*) FROM events WHERE tenant_id = $1", tenant)
    async with database.tenant(tenant) as conn:
        stream = EventStream(tenant, "Document", AggregateId(tenant))
        await events.append(conn, stream, act.new_event("DOCUMENT_CREATED", {"kind": "BOM"}))
        assert await heads.commit() == 1

    await sequencer.run_once()

    assert await superuser.fetchval("SELECT count(*) FROM events WHERE tenant_id = $1", tenant) == late + 1
    assert await find_faults(superuser, tenant) == []
