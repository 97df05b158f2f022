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

from bpc import fresh
from bpc.assembly import assembled
from bpc.core import canon
from bpc.core.events import Act
from bpc.core.ids import RulePackageVersionId, TenantId
from bpc.core.signing import Signer
from bpc.db import documents, facts, passports, products
from bpc.db.address import Address
from bpc.db.database import Database, open_database
from bpc.db.jobs import sessions_of
from bpc.jobs import Jobs, RequestQueue
from bpc.pipeline import Steps
from bpc.pipeline.compile import request_compile
from bpc.pipeline.snapshot import sealed_of
from bpc.pipeline.upload import upload
from bpc.settings import Settings
from tests.cli.program import Program
from tests.measuring import allowed, effort
from tests.pipeline.ready import published_rules

WORKERS: Final = effort(test=1, shown=2, campaign=2)
AT_ONCE: Final = 6
COMPONENTS: Final = 5
RULES: Final = b"""
field battery.name @public: Text = productName();
field battery.capacity_kwh @public: Dec(6) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "battery missing");
  requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity");
"""
OPEN: Final = "SELECT count(*) FROM jobs.job WHERE tenant_id = $1 AND status = 'QUEUED'"
UNREAD: Final = "SELECT count(*) FROM document_versions WHERE tenant_id = $1 AND status = 'UPLOADED'"
LOST: Final = (
    "SELECT type, last_error::text FROM jobs.job WHERE tenant_id = $1 AND status NOT IN ('QUEUED', 'SUCCEEDED')"
)
ACTIVE: Final = (
    "SELECT count(*) FROM passport_versions WHERE tenant_id = $1 AND status = 'ACTIVE' AND qr_png IS NOT NULL"
)


class Issuer:
    """One tenant of an installation, and the workers that work for it."""

    def __init__(
        self,
        program: Program,
        database: Database,
        superuser: "asyncpg.Connection[asyncpg.Record]",
        jobs: Jobs,
        steps: Steps,
        tenant: TenantId,
    ) -> None:
        self.program, self.database, self.superuser, self.tenant = program, database, superuser, tenant
        self.asked = 0
        self.workers: list[subprocess.Popen[str]] = []
        self._jobs, self._steps = jobs, steps
        self._settings = Settings(data_dir=program.data_dir)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._rules: RulePackageVersionId

    async def start(self) -> None:
        """Workers that are there, and the rules."""
        program = replace(self.program, measured=False).having(BPC_LOG_LEVEL="warn")  # nobody reads it
        self.workers = [program.start("worker", "--json") for _ in range(WORKERS)]
        for worker in self.workers:
            assert worker.stdout is not None
            told = await asyncio.to_thread(worker.stdout.readline)
            assert told, worker.communicate()
            assert "worker" in json.loads(told), told
        async with self.database.tenant(self.tenant) as conn:
            self._rules = await published_rules(conn, self.tenant, Act(None, fresh.now()), RULES)

    async def ask(self, count: int) -> None:
        """Upload what is known of so many new products; as soon as it is read, ask for their passports, to count."""
        skus = [f"PACK-{number}" for number in range(self.asked, self.asked + count)]
        self.asked += count
        await asyncio.gather(*map(self._upload, skus))
        await self._none_left(UNREAD)
        await asyncio.gather(*map(self._compile, skus))

    async def over(self) -> None:
        """Return when all that was asked for counts."""
        await self._none_left(OPEN)
        assert await self.superuser.fetch(LOST, self.tenant) == []
        assert await self.superuser.fetchval(ACTIVE, self.tenant) == self.asked

    async def ask_until(self, stopped: asyncio.Event) -> None:
        """A load: a few more, again and again."""
        while not stopped.is_set():
            await self.ask(3)

    def kill(self) -> None:
        """`kill -9` of all workers."""
        for worker in self.workers:
            worker.kill()
            worker.communicate()

    async def _upload(self, sku: str) -> None:
        content = canon.encode(_bom(sku))
        async with self._places, self.database.tenant(self.tenant) as conn:
            act = Act(None, fresh.now())
            document = await documents.create(conn, self.tenant, kind="BOM", external_ref=sku, act=act)
            await upload(
                conn,
                RequestQueue(jobs=self._jobs, conn=conn, tenant=self.tenant),
                self._steps.parse,
                self.tenant,
                document.document_id,
                mime_type="application/json",
                content=content,
                act=act,
            )

    async def _compile(self, sku: str) -> None:
        async with self._places, self.database.tenant(self.tenant) as conn:
            act = Act(None, fresh.now())
            product = await products.create(conn, self.tenant, sku=sku, name=f"Pack {sku}", act=act)
            passport = await passports.create(conn, self.tenant, product.battery_product_id, act=act)
            known = await facts.newest_about(conn, self.tenant, sku)
            snapshot = await sealed_of(conn, self.tenant, known, label=sku, act=act)
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

    async def _none_left(self, count: str) -> None:
        deadline = time.monotonic() + allowed(60 + self.asked / 10)
        while left := await self.superuser.fetchval(count, self.tenant):
            assert time.monotonic() < deadline, f"{left} are not over"
            await asyncio.sleep(0.02)


def _bom(sku: str) -> canon.Json:
    parts: list[canon.Json] = [{"part": f"part-{part}", "mass_g": f"{part + 1}.5"} for part in range(COMPONENTS)]
    return {"battery": {"sku": sku, "capacity_kwh": "75.5"}, "components": parts}


@asynccontextmanager
async def issuing(
    program: Program, address: Address, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: UUID
) -> AsyncIterator[Issuer]:
    """An installation that was seeded, with workers; whatever happens, they do not outlive the test."""
    work = assembled(Settings(data_dir=program.data_dir), signer=_nobody_signs)
    database = await open_database(address, pool_size=AT_ONCE + 1)
    try:
        async with sessions_of(database) as sessions:
            issuer = Issuer(program, database, superuser, Jobs(work.handlers, sessions), work.steps, TenantId(tenant))
            try:
                await issuer.start()
                yield issuer
            finally:
                issuer.kill()
    finally:
        await database.close()


def _nobody_signs(key_id: str) -> Signer | None:
    return None
