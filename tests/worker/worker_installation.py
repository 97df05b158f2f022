"""An installation to break workers of: a tenant with passports to compile, and `bpc worker` as processes of their own.

async with planted(program, address) as plant:
    plant.start()
    await plant.request(20)         # compile, then by jobs: sign, QR code, webhook
    await plant.over()
    await plant.judge()
"""

import asyncio
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any, Final
from uuid import UUID

import asyncpg

from bpc import fresh
from bpc.assembly import assembled
from bpc.core.events import Act
from bpc.core.ids import PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.signing import Signer
from bpc.db import events, passports, products, webhooks
from bpc.db.address import Address
from bpc.db.database import Database, open_database
from bpc.db.jobs import sessions_of
from bpc.jobs import Jobs, RequestQueue
from bpc.pipeline import Steps
from bpc.pipeline.compile import request_compile
from bpc.pipeline.replay import replay
from bpc.settings import Settings
from tests.cli.program import Program
from tests.measuring import allowed
from tests.outbound.receiver import Receiver
from tests.pipeline.ready import published_rules, sealed_snapshot

RULES: Final = b"""
field battery.name @public: Text = productName();
field battery.capacity_kwh @public: Dec(6) =
  let b = requireSome(getFact("Battery", "battery:SKU-1"), "E001", "battery missing");
  requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity");
"""
# Of one version, each once.
EVENTS: Final = ("PASSPORT_COMPILED", "PASSPORT_SIGNED", "QR_GENERATED")
JOBS: Final = ("COMPILE_PASSPORT", "SIGN_PASSPORT", "GENERATE_QR", "DELIVER_WEBHOOK")
OPEN: Final = "SELECT count(*) FROM jobs.job WHERE tenant_id = $1 AND status = 'QUEUED'"
HOLDING: Final = "SELECT DISTINCT split_part(owner, ':', 2)::int FROM jobs.job_lease WHERE tenant_id = $1"
ENDED: Final = """
    SELECT type, status, count(*)::int AS jobs, max(attempts)::int AS attempts
      FROM jobs.job WHERE tenant_id = $1 GROUP BY type, status
"""


class Plant:
    """One tenant, and the workers that work for it."""

    def __init__(
        self, program: Program, database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", receiver: Receiver
    ) -> None:
        self.program = program
        self.database = database
        self.superuser = superuser
        self.receiver = receiver
        self.versions: list[PassportVersionId] = []
        self.tenant: TenantId
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self._settings = Settings(data_dir=program.data_dir)
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed at the end)
        self._snapshot: SnapshotId
        self._rules: RulePackageVersionId
        self._jobs: Jobs
        self._steps: Steps

    # Before -----------------------------------------------------------------------------------------------------

    async def prepare(self, jobs: Jobs, steps: Steps, tenant: UUID) -> None:
        """What versions are compiled of, and somebody who wants to know when they are signed."""
        self._jobs, self._steps, self.tenant = jobs, steps, TenantId(tenant)
        act = Act(None, fresh.now())
        async with self.database.tenant(self.tenant) as conn:
            self._snapshot = await sealed_snapshot(conn, self.tenant)
            self._rules = await published_rules(conn, self.tenant, act, RULES)
            issued = await webhooks.create(conn, self.tenant, url=self.receiver.url, act=act)
            await webhooks.subscribe(conn, self.tenant, issued.webhook_endpoint_id, "passport.version.signed", act=act)

    async def request(self, count: int) -> None:
        """Ask for the first versions of so many new passports."""
        for _ in range(count):
            act = Act(None, fresh.now())
            async with self.database.tenant(self.tenant) as conn:
                number = len(self.versions)
                product = await products.create(conn, self.tenant, sku=f"CELL-{number}", name=f"Cell {number}", act=act)
                passport = await passports.create(conn, self.tenant, product.battery_product_id, act=act)
                asked = await request_compile(
                    conn,
                    RequestQueue(jobs=self._jobs, conn=conn, tenant=self.tenant),
                    self._steps.compile,
                    self.tenant,
                    passport.passport_id,
                    snapshot=self._snapshot,
                    rule_version=self._rules,
                    compiler_build_id=self._settings.compiler_build_id,
                    signing_key_id=self._settings.signing_key_id,
                    act=act,
                )
            self.versions.append(asked.passport_version_id)

    # Workers ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        process = subprocess.Popen(
            self.program.command("worker", "--json"),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=self.program.environment(),
            cwd="/",
        )
        self.workers[process.pid] = process

    async def at_work(self) -> list[int]:
        """Those of the workers that hold a job right now."""
        rows = await self.superuser.fetch(HOLDING, self.tenant)
        return [pid for (pid,) in rows if pid in self.workers and self.workers[pid].poll() is None]

    async def kill_one_at_work(self, chosen: Any) -> None:
        """`kill -9` of one that has a job in its hands; where nobody has, there is more to do."""
        deadline = time.monotonic() + allowed(30)
        while not (found := await self.at_work()):
            assert time.monotonic() < deadline, f"nobody works\n{self.logs()}"
            if not await self.superuser.fetchval(OPEN, self.tenant):
                await self.request(3)
            await asyncio.sleep(0.002)
        victim = self.workers[chosen.choice(found)]
        victim.kill()
        victim.wait()

    async def over(self, seconds: float) -> None:
        """Return when nothing is left to do."""
        deadline = time.monotonic() + allowed(seconds)
        while left := await self.superuser.fetchval(OPEN, self.tenant):
            assert time.monotonic() < deadline, f"{left} jobs are not over\n{self.logs()}"
            await asyncio.sleep(0.05)

    def stop(self) -> None:
        for process in self.workers.values():
            process.terminate()
        for process in self.workers.values():
            process.wait(timeout=allowed(10))

    def end(self) -> None:
        for process in self.workers.values():
            process.kill()
            process.wait()
        self._log.close()

    def logs(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-8_000:]

    # After ------------------------------------------------------------------------------------------------------

    async def judge(self) -> int:
        """Assert that all happened, and once; return how often the job was begun that was begun most often."""
        rows = [dict(row) for row in await self.superuser.fetch(ENDED, self.tenant)]
        assert {row["type"]: (row["status"], row["jobs"]) for row in rows} == {
            job_type: ("SUCCEEDED", len(self.versions)) for job_type in JOBS
        }, f"{rows}\n{self.logs()}"
        await self._versions_are_whole()
        await self._said_once()
        await self._told_once()
        async with self.database.tenant(self.tenant) as conn:
            assert (await events.verify_tenant(conn, self.tenant)).faults == ()
        for version in self.versions:
            async with self.database.tenant(self.tenant) as conn:
                found = await replay(conn, self.tenant, version, act=Act(None, fresh.now()))
            assert found.refusal is None, found
        return max(int(row["attempts"]) for row in rows)

    async def _versions_are_whole(self) -> None:
        found = await self._all(
            """SELECT passport_version_id, status::text, signature IS NOT NULL AND qr_png IS NOT NULL AS whole
                 FROM passport_versions WHERE tenant_id = $1"""
        )
        assert {row["passport_version_id"] for row in found} == set(self.versions)
        assert Counter((row["status"], row["whole"]) for row in found) == {("SIGNED", True): len(self.versions)}

    async def _said_once(self) -> None:
        found = await self._all(
            "SELECT aggregate_id, event_type FROM events WHERE tenant_id = $1 AND aggregate_type = 'PassportVersion'"
        )
        assert Counter((row["aggregate_id"], row["event_type"]) for row in found) == {
            (version, said): 1 for version in self.versions for said in EVENTS
        }

    async def _told_once(self) -> None:
        """One delivery of each signature; a receiver may hear it again, by the same id."""
        found = await self._all(
            """SELECT d.webhook_delivery_id, d.status::text, e.aggregate_id
                 FROM webhook_deliveries d JOIN events e ON e.tenant_id = d.tenant_id AND e.event_id = d.event_id
                WHERE d.tenant_id = $1"""
        )
        assert Counter(row["aggregate_id"] for row in found) == dict.fromkeys(self.versions, 1)
        assert {row["status"] for row in found} == {"DELIVERED"}
        heard = {request.headers["x-bpc-delivery-id"] for request in self.receiver.received}
        assert heard == {str(row["webhook_delivery_id"]) for row in found}

    async def _all(self, query: str) -> Sequence[asyncpg.Record]:
        return await self.superuser.fetch(query, self.tenant)


@asynccontextmanager
async def planted(
    program: Program, address: Address, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> AsyncIterator[Plant]:
    """An installation on the database at `address`, seeded, with nobody at work yet."""
    seeded = await asyncio.to_thread(program.ok, "seed", "--json")
    settings = Settings(data_dir=program.data_dir)
    work = assembled(settings, signer=_nobody_signs)
    database = await open_database(address, pool_size=5)
    try:
        async with Receiver() as receiver, sessions_of(database) as sessions:
            plant = Plant(program, database, superuser, receiver)
            try:
                await plant.prepare(Jobs(work.handlers, sessions), work.steps, UUID(seeded.json()["tenant_id"]))
                yield plant
            finally:
                plant.end()
    finally:
        await database.close()


def _nobody_signs(key_id: str) -> Signer | None:
    return None
