"""Specification of retention: what a passport of a living battery was computed from stays."""

from datetime import date
from uuid import UUID

from bpc.core.audit.events import Act
from bpc.core.batteries.row_files import FileRow, RowFile
from bpc.core.formats.ids import BatteryId, DocumentVersionId, PassportVersionId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import retention
from bpc.storage.batteries.life import change_battery
from bpc.storage.batteries.registration import register_batteries
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.evidence import documents
from tests.pipeline import compile_fixtures
from tests.pipeline.compile_fixtures import make_runner, sign_version
from tests.storage.battery_rows import insert_item_rows, name_items
from tests.storage.statements import insert_row
from tests.tasks.retention_fixtures import CUTOFF, NOW, age_row, run_all_parts

SAID = {"reason": "old", "performed_by": "GLN:9521234000006", "report": "R-1"}


async def test_the_documents_of_a_model_stay_while_a_battery_that_pins_it_lives(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        inputs = await compile_fixtures.create_compile_inputs(conn, tenant, act)
        source = await _name_source(conn, tenant, inputs.snapshot)
    model = await sign_version(await make_runner(database, act), tenant, inputs, act)
    async with database.tenant(tenant) as conn:
        battery = await _issue_battery(conn, tenant, model, act)
        await conn.execute("UPDATE passport_versions SET status = 'REVOKED', revoked_at = $1", NOW)
    await age_row(database, "document_versions", "uploaded_at", source)
    await age_row(database, "passport_versions", "revoked_at", model)

    async with database.system(tenant) as conn:
        cutoffs = dict.fromkeys(("documents", "passports", "exports", "events"), CUTOFF)
        removable = await retention.count_removable(conn, tenant, **cutoffs)
    counts = await run_all_parts(database, tenant)

    assert (removable["document_versions"], counts.document_versions) == (0, 0)
    assert (removable["passport_versions"], counts.passport_versions) == (0, 0)

    async with database.tenant(tenant) as conn:
        day = date(2025, 8, 2)
        await change_battery(conn, tenant, battery, "WASTE", status="waste", effective_on=day, said=SAID, act=act)
        await change_battery(conn, tenant, battery, "RECYCLED", effective_on=day, said=SAID, act=act)
    counts = await run_all_parts(database, tenant)

    assert (counts.document_versions, counts.passport_versions) == (1, 0)
    async with database.tenant(tenant) as conn:
        assert (await documents.load_content(conn, tenant, source)).content is None


async def _name_source(conn: Connection, tenant: TenantId, snapshot: UUID) -> DocumentVersionId:
    """The document version that a fact of the snapshot was read from."""
    fact = await conn.fetchrow(
        "SELECT f.fact_id, f.source_document_version_id FROM facts f JOIN snapshot_items i USING (tenant_id, fact_id)"
        " WHERE i.snapshot_id = $1 AND f.fact_type = 'Battery'",
        snapshot,
    )
    assert fact is not None
    source = DocumentVersionId(fact["source_document_version_id"])
    await insert_row(
        conn,
        "fact_sources",
        tenant_id=tenant,
        fact_id=fact["fact_id"],
        document_version_id=source,
        source_path="/",
    )
    return source


async def _issue_battery(conn: Connection, tenant: TenantId, model: PassportVersionId, act: Act) -> BatteryId:
    cells = {"sku": compile_fixtures.SKU, "serial_number": "A1", "batch_number": "B1"}
    outcome = await register_batteries(conn, tenant, RowFile([FileRow(1, cells)], []), act=act)
    battery = outcome.battery_ids[0]
    ids = name_items(tenant, battery, clock.new_id(), clock.new_id(), clock.new_id())
    await insert_item_rows(conn, ids, model, at=act.at)
    return battery
