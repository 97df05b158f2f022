"""An installation to break workers of: a tenant with passports to compile, and `bpc worker` as processes of their own.

async with planted(program, address) as plant:
    plant.start()
    await plant.request(20)         # to be compiled and signed, and told of by webhook
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
from service_jobs import Jobs, RequestQueue

from bpc.core.audit.events import Act
from bpc.core.formats.ids import PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.pipeline.compile import request_compile
from bpc.pipeline.replay import replay
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.audit import events
from bpc.storage.database import Database, open_database
from bpc.storage.jobs import open_job_sessions
from bpc.storage.passports import passports, products
from bpc.storage.webhooks import endpoints
from bpc.tasks.job_types import PipelineJobs, declare_job_types
from tests.cli.program import Program
from tests.measurements import allow_seconds
from tests.outbound.receiver import Receiver
from tests.pipeline.compile_fixtures import create_sealed_snapshot, publish_rules

RULES: Final = b"""
field battery.name @public: Text = productName();
field battery.capacity_kwh @public: Dec(6) =
  let b = requireSome(getFact("Battery", "battery:SKU-1"), "E001", "battery missing");
  requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity");
"""
# Of one version, each once.
EVENTS: Final = ("PASSPORT_COMPILED", "PASSPORT_SIGNED", "QR_GENERATED")
JOBS: Final = ("COMPILE_PASSPORT", "DELIVER_WEBHOOK")
# Of those versions that could not be signed in the transaction that compiled them.
LATER_JOBS: Final = ("SIGN_PASSPORT", "GENERATE_QR")
COUNT_QUEUED: Final = "SELECT count(*) FROM jobs.job WHERE tenant_id = $1 AND status = 'QUEUED'"
WORKERS_WITH_LEASE: Final = "SELECT DISTINCT split_part(owner, ':', 2)::int FROM jobs.job_lease WHERE tenant_id = $1"
JOBS_BY_STATUS: Final = """
    SELECT type, status, count(*)::int AS jobs, max(attempts)::int AS attempts
      FROM jobs.job WHERE tenant_id = $1 GROUP BY type, status
"""


class WorkerInstallation:
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
        self._steps: PipelineJobs

    # Before -----------------------------------------------------------------------------------------------------

    async def prepare(self, jobs: Jobs, steps: PipelineJobs, tenant: UUID) -> None:
        """What versions are compiled of, and somebody who wants to know when they are signed."""
        self._jobs, self._steps, self.tenant = jobs, steps, TenantId(tenant)
        act = Act(None, clock.now())
        async with self.database.tenant(self.tenant) as conn:
            self._snapshot = await create_sealed_snapshot(conn, self.tenant)
            self._rules = await publish_rules(conn, self.tenant, act, RULES)
            issued = await endpoints.create_endpoint(conn, self.tenant, url=self.receiver.url, act=act)
            await endpoints.subscribe(conn, self.tenant, issued.webhook_endpoint_id, "passport.version.signed", act=act)

    async def request_versions(self, count: int) -> None:
        """Ask for the first versions of so many new passports."""
        for _ in range(count):
            act = Act(None, clock.now())
            async with self.database.tenant(self.tenant) as conn:
                number = len(self.versions)
                product = await products.create_product(
                    conn, self.tenant, sku=f"CELL-{number}", name=f"Cell {number}", act=act
                )
                passport = await passports.create_passport(conn, self.tenant, product.battery_product_id, act=act)
                requested_compile = await request_compile(
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
            self.versions.append(requested_compile.passport_version_id)

    # Workers ----------------------------------------------------------------------------------------------------

    def start_worker(self) -> None:
        process = subprocess.Popen(
            self.program.command("worker", "--json"),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=self.program.environment(),
            cwd="/",
        )
        self.workers[process.pid] = process

    async def list_busy_workers(self) -> list[int]:
        """Those of the workers that hold a job right now."""
        rows = await self.superuser.fetch(WORKERS_WITH_LEASE, self.tenant)
        return [pid for (pid,) in rows if pid in self.workers and self.workers[pid].poll() is None]

    async def kill_busy_worker(self, chosen: Any) -> None:
        """`kill -9` of one that has a job in its hands; where nobody has, there is more to do."""
        deadline = time.monotonic() + allow_seconds(30)
        while not (busy_pids := await self.list_busy_workers()):
            assert time.monotonic() < deadline, f"nobody works\n{self.read_logs()}"
            if not await self.superuser.fetchval(COUNT_QUEUED, self.tenant):
                await self.request_versions(3)
            await asyncio.sleep(0.002)
        victim = self.workers[chosen.choice(busy_pids)]
        victim.kill()
        victim.wait()

    async def wait_until_idle(self, seconds: float) -> None:
        """Return when nothing is left to do."""
        deadline = time.monotonic() + allow_seconds(seconds)
        while left := await self.superuser.fetchval(COUNT_QUEUED, self.tenant):
            assert time.monotonic() < deadline, f"{left} jobs are not over\n{self.read_logs()}"
            await asyncio.sleep(0.05)

    def stop(self) -> None:
        for process in self.workers.values():
            process.terminate()
        for process in self.workers.values():
            process.wait(timeout=allow_seconds(10))

    def kill_all(self) -> None:
        for process in self.workers.values():
            process.kill()
            process.wait()
        self._log.close()

    def read_logs(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-8_000:]

    # After ------------------------------------------------------------------------------------------------------

    async def assert_done_once(self, *other_events: str) -> int:
        """Assert that all happened once, these other events too; return the attempts of the job that had most."""
        rows = [dict(row) for row in await self.superuser.fetch(JOBS_BY_STATUS, self.tenant)]
        later_count = max((row["jobs"] for row in rows if row["type"] in LATER_JOBS), default=0)
        counts = dict.fromkeys(JOBS, len(self.versions)) | dict.fromkeys(LATER_JOBS[: 2 * later_count], later_count)
        assert {row["type"]: (row["status"], row["jobs"]) for row in rows} == {
            job_type: ("SUCCEEDED", count) for job_type, count in counts.items()
        }, f"{rows}\n{self.read_logs()}"
        await self._assert_versions_complete()
        await self._assert_events_once(*other_events)
        await self._assert_deliveries_once()
        async with self.database.tenant(self.tenant) as conn:
            assert (await events.verify_tenant(conn, self.tenant)).faults == ()
        for version in self.versions:
            async with self.database.tenant(self.tenant) as conn:
                replay_result = await replay(conn, self.tenant, version, act=Act(None, clock.now()))
            assert replay_result.refusal is None, replay_result
        return max(int(row["attempts"]) for row in rows)

    async def _assert_versions_complete(self) -> None:
        rows = await self._fetch_all(
            """SELECT passport_version_id, status::text, signature IS NOT NULL AND qr_png IS NOT NULL AS whole
                 FROM passport_versions WHERE tenant_id = $1"""
        )
        assert {row["passport_version_id"] for row in rows} == set(self.versions)
        assert Counter((row["status"], row["whole"]) for row in rows) == {("SIGNED", True): len(self.versions)}

    async def _assert_events_once(self, *other_events: str) -> None:
        rows = await self._fetch_all(
            "SELECT aggregate_id, event_type FROM events WHERE tenant_id = $1 AND aggregate_type = 'PassportVersion'"
        )
        assert Counter((row["aggregate_id"], row["event_type"]) for row in rows) == {
            (version, event_type): 1 for version in self.versions for event_type in (*EVENTS, *other_events)
        }

    async def _assert_deliveries_once(self) -> None:
        """One delivery of each signature; a receiver may hear it again, by the same id."""
        rows = await self._fetch_all(
            """SELECT d.webhook_delivery_id, d.status::text, e.aggregate_id
                 FROM webhook_deliveries d JOIN events e ON e.tenant_id = d.tenant_id AND e.event_id = d.event_id
                WHERE d.tenant_id = $1"""
        )
        assert Counter(row["aggregate_id"] for row in rows) == dict.fromkeys(self.versions, 1)
        assert {row["status"] for row in rows} == {"DELIVERED"}
        heard = {request.headers["x-bpc-delivery-id"] for request in self.receiver.received}
        assert heard == {str(row["webhook_delivery_id"]) for row in rows}

    async def _fetch_all(self, query: str) -> Sequence[asyncpg.Record]:
        return await self.superuser.fetch(query, self.tenant)


@asynccontextmanager
async def open_installation(
    program: Program, address: Address, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> AsyncIterator[WorkerInstallation]:
    """An installation on the database at `address`, seeded, with nobody at work yet."""
    seed_output = await asyncio.to_thread(program.run_ok, "seed", "--no-rules", "--json")
    settings = Settings(data_dir=program.data_dir)
    database = await open_database(address, pool_size=5)
    job_types = declare_job_types(settings, database=database, key_ring=KeyRing({}))
    try:
        async with Receiver() as receiver, open_job_sessions(database) as sessions:
            installation = WorkerInstallation(program, database, superuser, receiver)
            try:
                await installation.prepare(
                    Jobs(job_types.handlers, sessions), job_types.pipeline_jobs, UUID(seed_output.json()["tenant_id"])
                )
                yield installation
            finally:
                installation.kill_all()
    finally:
        await database.close()
