"""Specification of a worker that reads documents: spreadsheets in a child process, harmful ones rejected."""

import asyncio
from pathlib import Path

from service_jobs import Jobs, RequestQueue

from bpc.core.audit.events import Act
from bpc.core.formats.ids import DocumentVersionId, TenantId
from bpc.pipeline.upload import FileUpload, upload
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.storage.connection import PageQuery
from bpc.storage.database import Database
from bpc.storage.evidence import documents, facts
from bpc.storage.evidence.documents import DocumentKind
from bpc.storage.evidence.facts import FactFilter
from bpc.storage.jobs import open_job_sessions
from bpc.tasks.job_types import PipelineJobs, declare_job_types
from bpc.worker.run import run_worker
from tests.pipeline.document_bombs import XLSX, entities

EXAMPLE = Path(__file__).parents[2] / "examples" / "documents" / "bom.xlsx"


async def _upload_document(
    database: Database, jobs: Jobs, steps: PipelineJobs, tenant: TenantId, kind: DocumentKind, content: bytes
) -> DocumentVersionId:
    act = Act(None, clock.now())
    async with database.tenant(tenant) as conn:
        document = (await documents.create_document(conn, tenant, kind=kind, external_ref=None, act=act)).document_id
        queue = RequestQueue(jobs=jobs, conn=conn, tenant=tenant)
        file = FileUpload(content=content, mime_type=XLSX)
        uploaded = await upload(conn, queue, steps.parse, tenant, document, file, act=act)
    return uploaded.document_version_id


async def _get_status(database: Database, tenant: TenantId, version: DocumentVersionId) -> str:
    async with database.tenant(tenant) as conn:
        return (await documents.get_document_version(conn, tenant, version)).status


async def test_a_spreadsheet_becomes_facts_and_a_bomb_is_rejected(
    database: Database, tenant: TenantId, tmp_path: Path
) -> None:
    settings = Settings(env="test", data_dir=tmp_path)
    work = declare_job_types(settings, database=database, key_ring=KeyRing({}))
    async with open_job_sessions(database) as sessions, run_worker(settings, database, key_ring=KeyRing({})):
        jobs = Jobs(work.handlers, sessions)
        good = await _upload_document(database, jobs, work.pipeline_jobs, tenant, "BOM", EXAMPLE.read_bytes())
        bad = await _upload_document(database, jobs, work.pipeline_jobs, tenant, "PCF", entities())

        async with asyncio.timeout(60):
            while "UPLOADED" in [await _get_status(database, tenant, version) for version in (good, bad)]:
                await asyncio.sleep(0.01)
        await jobs.close()

    assert [await _get_status(database, tenant, version) for version in (good, bad)] == ["VALIDATED", "REJECTED"]
    async with database.tenant(tenant) as conn:
        fact_rows = await facts.list_facts(conn, tenant, FactFilter(), PageQuery.after_cursor(None, 10))
    assert {(fact.fact_key, fact.source_path) for fact in fact_rows} == {
        ("battery:SKU-1", "Battery!3"),
        ("component:SKU-1:cell", "Components!3"),
        ("component:SKU-1:housing", "Components!4"),
    }
