"""Specification of retention: attached files stay as long as anything names them."""

from bpc.core.audit.events import Act
from bpc.core.facts.attachments import build_attachment_fact
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentVersionId, TenantId
from bpc.runtime import clock
from bpc.storage.audit import retention
from bpc.storage.database import Database
from bpc.storage.evidence import attachments, documents, statements
from tests.pipeline import compile_fixtures
from tests.pipeline.compile_fixtures import make_runner, sign_version
from tests.storage import evidence_rows
from tests.storage.statements import insert_row
from tests.tasks.retention_fixtures import CUTOFF, NOW, age_row, run_all_parts


async def attach_old_file(database: Database, tenant: TenantId, act: Act, *, in_passport: bool) -> DocumentVersionId:
    """A file that was uploaded long ago, attached and withdrawn; a passport version names it, or none does."""
    content = f"%PDF-1.4 {in_passport}".encode()
    async with database.tenant(tenant) as conn:
        document = (await documents.create_document(conn, tenant, kind="OTHER", external_ref=None, act=act)).document_id
        version = DocumentVersionId(clock.new_id())
        await documents.insert_document_version(
            conn,
            tenant,
            document,
            version,
            mime_type="application/pdf",
            sha256=sha256(content),
            content=content,
            at=NOW,
        )
        await statements.insert_statement(conn, tenant, document, version, act=act)
        attached, _ = await attachments.add_attachment(
            conn, tenant, version, sku=compile_fixtures.SKU, data_point=42, title=None, act=act
        )
        files = await attachments.list_attached_files(conn, tenant, compile_fixtures.SKU)
        await attachments.withdraw_attachment(conn, tenant, attached.attachment_id, reason="A mistake.", act=act)
    if in_passport:
        facts = (compile_fixtures.BATTERY, compile_fixtures.PCF, *map(build_attachment_fact, files))
        async with database.tenant(tenant) as conn:
            inputs = await compile_fixtures.create_compile_inputs(conn, tenant, act, facts=facts)
        await sign_version(await make_runner(database, act), tenant, inputs, act)
    await age_row(database, "document_versions", "uploaded_at", version)
    return version


async def test_an_attached_file_stays_as_long_as_a_passport_version_names_it(
    database: Database, tenant: TenantId, act: Act
) -> None:
    kept = await attach_old_file(database, tenant, act, in_passport=True)
    unused = await attach_old_file(database, tenant, act, in_passport=False)

    counts = await run_all_parts(database, tenant)

    assert counts.document_versions == 1
    async with database.tenant(tenant) as conn:
        assert (await documents.load_content(conn, tenant, kept)).content == b"%PDF-1.4 True"
        assert (await documents.load_content(conn, tenant, unused)).content is None

    async with database.tenant(tenant) as conn:
        [passport_version] = [row[0] for row in await conn.fetch("SELECT passport_version_id FROM passport_versions")]
        await conn.execute("UPDATE passport_versions SET status = 'REVOKED', revoked_at = $1", NOW)
    await age_row(database, "passport_versions", "revoked_at", passport_version)
    await run_all_parts(database, tenant)  # removes the passport version
    await run_all_parts(database, tenant)

    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM passport_versions") == 0
        assert (await documents.load_content(conn, tenant, kept)).content is None


async def test_a_file_that_is_attached_stays_before_there_is_a_passport(
    database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        version = await evidence_rows.insert_document_version(conn, tenant)
        await insert_row(
            conn,
            "attachments",
            tenant_id=tenant,
            attachment_id=clock.new_id(),
            sku="SKU-1",
            data_point=42,
            document_version_id=version,
            mime_type="application/pdf",
        )
    await age_row(database, "document_versions", "uploaded_at", version)

    async with database.system(tenant) as conn:
        cutoffs = dict.fromkeys(("documents", "passports", "exports", "events"), CUTOFF)
        removable = await retention.count_removable(conn, tenant, **cutoffs)
    counts = await run_all_parts(database, tenant)

    assert removable["document_versions"] == 0
    assert counts.document_versions == 0
