"""A worker reads documents of strangers: spreadsheets in a child process, and those made to do harm not at all."""

import asyncio
from pathlib import Path

from bpc import fresh
from bpc.assembly import assembled
from bpc.core.events import Act
from bpc.core.ids import DocumentVersionId, TenantId
from bpc.core.signing import Signer
from bpc.db import documents, facts
from bpc.db.database import Database
from bpc.db.documents import Kind
from bpc.db.facts import Filters
from bpc.db.jobs import sessions_of
from bpc.db.pages import Ask
from bpc.jobs import Jobs, RequestQueue
from bpc.pipeline import Steps
from bpc.pipeline.upload import upload
from bpc.settings import Settings
from bpc.worker.run import working
from tests.pipeline.bombs import XLSX, entities

EXAMPLE = Path(__file__).parents[2] / "examples" / "documents" / "bom.xlsx"


async def _uploaded(
    database: Database, jobs: Jobs, steps: Steps, tenant: TenantId, kind: Kind, content: bytes
) -> DocumentVersionId:
    act = Act(None, fresh.now())
    async with database.tenant(tenant) as conn:
        document = (await documents.create(conn, tenant, kind=kind, external_ref=None, act=act)).document_id
        queue = RequestQueue(jobs=jobs, conn=conn, tenant=tenant)
        made = await upload(conn, queue, steps.parse, tenant, document, mime_type=XLSX, content=content, act=act)
    return made.document_version_id


async def _status(database: Database, tenant: TenantId, version: DocumentVersionId) -> str:
    async with database.tenant(tenant) as conn:
        return (await documents.version(conn, tenant, version)).status


async def test_a_spreadsheet_becomes_facts_and_a_bomb_is_rejected(
    database: Database, tenant: TenantId, tmp_path: Path
) -> None:
    settings = Settings(env="test", data_dir=tmp_path)
    work = assembled(settings, signer=_no_signer)
    async with sessions_of(database) as sessions, working(settings, database, signer=_no_signer):
        jobs = Jobs(work.handlers, sessions)
        good = await _uploaded(database, jobs, work.steps, tenant, "BOM", EXAMPLE.read_bytes())
        bad = await _uploaded(database, jobs, work.steps, tenant, "PCF", entities())

        async with asyncio.timeout(60):
            while "UPLOADED" in [await _status(database, tenant, version) for version in (good, bad)]:
                await asyncio.sleep(0.01)
        await jobs.close()

    assert [await _status(database, tenant, version) for version in (good, bad)] == ["VALIDATED", "REJECTED"]
    async with database.tenant(tenant) as conn:
        found = await facts.page(conn, tenant, Filters(), Ask.of(None, 10))
    assert {(fact.fact_key, fact.source_path) for fact in found} == {
        ("battery:SKU-1", "Battery!3"),
        ("component:SKU-1:cell", "Components!3"),
        ("component:SKU-1:housing", "Components!4"),
    }


def _no_signer(key_id: str) -> Signer | None:
    return None
