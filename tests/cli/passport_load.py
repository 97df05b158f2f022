"""Passports by the thousand, each by all steps: a document of its own, its facts, a sealed snapshot, and from there on
by the jobs of real `bpc worker` processes.

async with issuing(program, address, superuser) as issuer:
    await issuer.ask(20)        # asked for
    await issuer.over()         # ACTIVE
"""

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final
from uuid import UUID

import asyncpg
from service_jobs import Jobs, RequestQueue

from bpc.core.audit.events import Act
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import RulePackageVersionId, TenantId
from bpc.pipeline.compile import request_compile
from bpc.pipeline.snapshot import snapshot_product
from bpc.pipeline.upload import FileUpload, upload
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.database import Database, open_database
from bpc.storage.evidence import documents
from bpc.storage.jobs import open_job_sessions
from bpc.storage.passports import passports, products
from bpc.tasks.job_types import PipelineJobs, declare_job_types
from tests.cli.program import Program
from tests.measurements import allow_seconds, choose_effort
from tests.pipeline.compile_fixtures import publish_rules

WORKERS: Final = choose_effort(test=1, shown=2, campaign=2)
AT_ONCE: Final = 6
COMPONENTS: Final = 5
RULES: Final = b"""
field battery.name @public: Text = productName();
field battery.capacity_kwh @public: Dec(6) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "battery missing");
  requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity");
"""
COUNT_QUEUED: Final = "SELECT count(*) FROM jobs.job WHERE tenant_id = $1 AND status = 'QUEUED'"
COUNT_UNREAD: Final = "SELECT count(*) FROM document_versions WHERE tenant_id = $1 AND status = 'UPLOADED'"
SELECT_FAILED: Final = (
    "SELECT type, last_error::text FROM jobs.job WHERE tenant_id = $1 AND status NOT IN ('QUEUED', 'SUCCEEDED')"
)
COUNT_ACTIVE: Final = (
    "SELECT count(*) FROM passport_versions WHERE tenant_id = $1 AND status = 'ACTIVE' AND qr_png IS NOT NULL"
)


class PassportLoad:
    """One tenant of an installation, and the workers that work for it."""

    def __init__(
        self,
        program: Program,
        database: Database,
        superuser: "asyncpg.Connection[asyncpg.Record]",
        jobs: Jobs,
        steps: PipelineJobs,
        tenant: TenantId,
    ) -> None:
        self.program, self.database, self.superuser, self.tenant = program, database, superuser, tenant
        self.requested = 0
        self.workers: list[subprocess.Popen[str]] = []
        self._jobs, self._steps = jobs, steps
        self._settings = Settings(data_dir=program.data_dir)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._rules: RulePackageVersionId

    async def start(self) -> None:
        """Workers that are there, and the rules."""
        program = replace(self.program, with_coverage=False).with_settings(BPC_LOG_LEVEL="warn")  # nobody reads it
        self.workers = [program.start("worker", "--json") for _ in range(WORKERS)]
        for worker in self.workers:
            assert worker.stdout is not None
            line = await asyncio.to_thread(worker.stdout.readline)
            assert line, worker.communicate()
            assert "worker" in json.loads(line), line
        async with self.database.tenant(self.tenant) as conn:
            self._rules = await publish_rules(conn, self.tenant, Act(None, clock.now()), RULES)

    async def request(self, count: int) -> None:
        """Upload what is known of so many new products; as soon as it is read, ask for their passports, to count."""
        skus = [f"PACK-{number}" for number in range(self.requested, self.requested + count)]
        self.requested += count
        await asyncio.gather(*map(self._upload, skus))
        await self._wait_for_zero(COUNT_UNREAD)
        await asyncio.gather(*map(self._compile, skus))

    async def wait_until_active(self) -> None:
        """Return when all that was asked for counts."""
        await self._wait_for_zero(COUNT_QUEUED)
        assert await self.superuser.fetch(SELECT_FAILED, self.tenant) == []
        assert await self.superuser.fetchval(COUNT_ACTIVE, self.tenant) == self.requested

    async def request_until(self, stopped: asyncio.Event) -> None:
        """A load: a few more, again and again."""
        while not stopped.is_set():
            await self.request(3)

    def kill(self) -> None:
        """`kill -9` of all workers."""
        for worker in self.workers:
            worker.kill()
            worker.communicate()

    async def _upload(self, sku: str) -> None:
        content = canonical_json.encode(_make_bom(sku))
        async with self._slots, self.database.tenant(self.tenant) as conn:
            act = Act(None, clock.now())
            document = await documents.create_document(conn, self.tenant, kind="BOM", external_ref=sku, act=act)
            await upload(
                conn,
                RequestQueue(jobs=self._jobs, conn=conn, tenant=self.tenant),
                self._steps.parse,
                self.tenant,
                document.document_id,
                FileUpload(content=content, mime_type="application/json"),
                act=act,
            )

    async def _compile(self, sku: str) -> None:
        async with self._slots, self.database.tenant(self.tenant) as conn:
            act = Act(None, clock.now())
            product = await products.create_product(conn, self.tenant, sku=sku, name=f"Pack {sku}", act=act)
            passport = await passports.create_passport(conn, self.tenant, product.battery_product_id, act=act)
            snapshot = await snapshot_product(conn, self.tenant, sku, label=sku, act=act)
            await request_compile(
                conn,
                RequestQueue(jobs=self._jobs, conn=conn, tenant=self.tenant),
                self._steps.compile,
                self.tenant,
                passport.passport_id,
                snapshot=snapshot.snapshot_id,
                rule_version=self._rules,
                compiler_build_id=self._settings.compiler_build_id,
                signing_key_id=self._settings.signing_key_id,
                act=act,
                activate=True,
            )

    async def _wait_for_zero(self, count: str) -> None:
        deadline = time.monotonic() + allow_seconds(60 + self.requested / 10)
        while left := await self.superuser.fetchval(count, self.tenant):
            assert time.monotonic() < deadline, f"{left} are not over"
            await asyncio.sleep(0.02)


def _make_bom(sku: str) -> canonical_json.Json:
    parts: list[canonical_json.Json] = [
        {"part": f"part-{part}", "mass_g": f"{part + 1}.5"} for part in range(COMPONENTS)
    ]
    return {"battery": {"sku": sku, "capacity_kwh": "75.5"}, "components": parts}


@asynccontextmanager
async def run_passport_load(
    program: Program, address: Address, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: UUID
) -> AsyncIterator[PassportLoad]:
    """An installation that was seeded, with workers; whatever happens, they do not outlive the test."""
    database = await open_database(address, pool_size=AT_ONCE + 1)
    work = declare_job_types(Settings(data_dir=program.data_dir), database=database, key_ring=KeyRing({}))
    try:
        async with open_job_sessions(database) as sessions:
            issuer = PassportLoad(
                program, database, superuser, Jobs(work.handlers, sessions), work.pipeline_jobs, TenantId(tenant)
            )
            try:
                await issuer.start()
                yield issuer
            finally:
                issuer.kill()
    finally:
        await database.close()
