"""Passports through the engine: compiled, signed and with QR code, by real `bpc worker` processes on PostgreSQL.

Everything up to the compile requests is there before the first worker starts; a run lasts from the start of the first
compile to the last QR code. Durable defaults, events, locks and checks as in production. Beside passports a
second stands the processor time that one passport takes, which does not depend on who else uses the machine.

    small       the two rules of examples/first for any product; a battery, a footprint and ten components each
    reference   tests/core/golden/reference-2: 151 fields of level 1, 300 parts each

    BENCH_PASSPORTS=2000  BENCH_REFERENCE=200   how many of each
    BENCH_WORKERS=2  BENCH_CONCURRENCY=4        worker processes, and jobs that each runs at a time
    BENCH_STORED=1000,50000                     small ones once more, with so many stored before (rows copied from one)
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import asyncpg
import psutil
from service_jobs import Jobs, RequestQueue
from service_jobs.job import lowest_id_at

from bench import Table
from bench.passport_kinds import PassportKind, make_reference_kind, make_small_kind
from bpc.cli.setup.seed import seed_database
from bpc.core.audit.events import Act
from bpc.core.documents.reader import ExtractedFact
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import DocumentVersionId, FactId, RulePackageVersionId, TenantId
from bpc.core.language.check_result import list_fields
from bpc.core.language.package import read_program
from bpc.pipeline import snapshot as steps
from bpc.pipeline.compile import request_compile
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings, load_settings
from bpc.storage.connection import Connection
from bpc.storage.database import Database, DatabaseLocation, locate_database, open_migrated_database
from bpc.storage.evidence import documents, facts, snapshots
from bpc.storage.jobs import open_job_sessions
from bpc.storage.passports import passports, products
from bpc.storage.rules import packages
from bpc.tasks.job_types import JobTypes, declare_job_types

PASSPORTS: Final = int(os.environ.get("BENCH_PASSPORTS", "2000"))
REFERENCE: Final = int(os.environ.get("BENCH_REFERENCE", "200"))
WORKERS: Final = int(os.environ.get("BENCH_WORKERS", "2"))
CONCURRENCY: Final = int(os.environ.get("BENCH_CONCURRENCY", "4"))
STORED: Final = tuple(int(count) for count in os.environ.get("BENCH_STORED", "").split(",") if count)
STAGES: Final = ("COMPILE_PASSPORT", "SIGN_PASSPORT", "GENERATE_QR")
PATIENCE_SECONDS: Final = 900

# Jobs of a run are those whose ids, which follow time, come after its beginning: looking must not cost what is stored.
OF_RUN: Final = "FROM jobs.job WHERE tenant_id = $1 AND job_id > $2"
ENDED: Final = f"""
    SELECT count(*) {OF_RUN} AND status = 'SUCCEEDED'
       AND (type = 'GENERATE_QR' OR type = 'COMPILE_PASSPORT' AND result ->> 'sign_job_id' IS NULL)
"""
LOST: Final = f"SELECT count(*) {OF_RUN} AND status IN ('FAILED', 'DEAD_LETTER')"
TIMES: Final = f"""
    SELECT type, extract(epoch FROM sum(finished_at - started_at)) AS seconds {OF_RUN} AND type = ANY ($3) GROUP BY type
"""
SPAN: Final = f"SELECT extract(epoch FROM max(finished_at) - min(started_at)) {OF_RUN} AND type = ANY ($3)"
RECENT_PASSPORT: Final = """
    SELECT v.passport_version_id, v.passport_id, v.snapshot_id, p.battery_product_id
      FROM passport_versions v JOIN passports p USING (tenant_id, passport_id)
     WHERE v.passport_version_id = (SELECT (payload->>'passport_version_id')::uuid FROM jobs.job
                                     WHERE type = 'COMPILE_PASSPORT' ORDER BY created_at DESC LIMIT 1)
"""
# Whatever belongs to the one passport there is, again: new ids by adding a number to the old ones.
SHIFTED: Final = "(lpad(to_hex(n), 8, '0') || substr({0}::text, 9))::uuid"
COPIED: Final = {
    "battery_products": {"battery_product_id": SHIFTED, "sku": "{0} || '-' || n"},
    "passports": {"passport_id": SHIFTED, "battery_product_id": SHIFTED, "current_passport_version_id": "NULL"},
    "facts": {"fact_id": SHIFTED, "fact_key": "{0} || '-' || n"},
    "data_snapshots": {"snapshot_id": SHIFTED},
    "snapshot_items": {"snapshot_id": SHIFTED, "fact_id": SHIFTED},
    "passport_versions": {"passport_version_id": SHIFTED, "passport_id": SHIFTED, "snapshot_id": SHIFTED},
    "events": {"event_id": SHIFTED, "aggregate_id": SHIFTED},
    "jobs.job": {"job_id": SHIFTED, "idempotency_key": "{0} || '-' || n"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What one run gave. Seconds of a processor are those of all workers and of all of PostgreSQL.

    `asking` is what came before: products, facts, snapshots and requests, Python's and PostgreSQL's.
    """

    passports: int
    seconds: float
    python: float
    postgres: float
    stages: dict[str, float]
    asking: tuple[float, float]

    def format_row(self, name: str) -> tuple[str, ...]:
        total = sum(self.stages.values())
        return (
            name,
            f"{self.passports:,}",
            f"{self.passports / self.seconds:,.0f}",
            f"{self.python / self.passports * 1e3:.2f}",
            f"{self.postgres / self.passports * 1e3:.2f}",
            *(f"{self.stages.get(stage, 0) / total:.0%}" for stage in STAGES),
        )


def run() -> Iterable[Table]:
    with tempfile.TemporaryDirectory(prefix="bpc-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield asyncio.run(_measure_pipeline(Path(folder)))


async def _measure_pipeline(folder: Path) -> Table:
    rows: list[tuple[str, ...]] = []
    async with open_bench(folder) as bench:
        small, reference = make_small_kind(), make_reference_kind()
        await bench.measure_run(small, 20)  # the first ones pay for everybody's caches
        rows.append((await bench.measure_run(small, PASSPORTS)).format_row("small"))
        if REFERENCE:
            rows.append((await bench.measure_run(reference, REFERENCE)).format_row("reference"))
        for stored in STORED:
            await bench.copy_passports(stored)
            rows.append(
                (await bench.measure_run(small, min(1_000, PASSPORTS))).format_row(f"small, {stored:,} stored before")
            )
        used = await bench.measure_database_size()
    return Table(
        title=f"Passports through the engine: {WORKERS} workers, {CONCURRENCY} jobs each, {os.cpu_count()} processors",
        columns=("", "passports", "a second", "Python ms each", "PostgreSQL ms each", "compile", "sign", "QR"),
        rows=tuple(rows),
        note="compile, sign, QR: shares of the time that jobs take; a compile that signs is one of compile\n"
        f"the database had {used / 1e6:,.0f} MB at the end\n"
        "goal: at least 400 small and 90 reference ones a second, and a cost that does not grow with what is stored",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An installation of its own, without workers until a run starts some."""

    settings: Settings
    place: DatabaseLocation
    database: Database
    jobs: Jobs
    assembly: JobTypes
    tenant: TenantId
    document: DocumentVersionId
    superuser: "asyncpg.Connection[asyncpg.Record]"

    async def measure_run(self, kind: PassportKind, count: int) -> RunResult:
        """Ask for `count` passports, then let workers make them."""
        async with self.database.tenant(self.tenant) as conn:
            version = await _publish_rules(conn, self.tenant, kind.rules)
        of_run = self.tenant, lowest_id_at(clock.now())
        places = asyncio.Semaphore(6)
        mark = clock.new_id().hex[-8:]
        before = time.process_time(), self.measure_postgres_seconds()
        await asyncio.gather(
            *(self._request_passport(kind, f"{kind.name}-{mark}-{n}", version, places) for n in range(count))
        )
        asking = time.process_time() - before[0], self.measure_postgres_seconds() - before[1]
        # What writes in the background does so before, or is part of what a passport costs.
        await self.superuser.execute("VACUUM ANALYZE")
        await self.superuser.execute("CHECKPOINT")
        idle = self.measure_postgres_seconds()
        async with run_workers(self.settings) as workers:
            started = sum(map(_measure_cpu_seconds, workers))
            await self._wait_until_done(of_run, count)
            python, postgres = sum(map(_measure_cpu_seconds, workers)) - started, self.measure_postgres_seconds() - idle
        stages = {
            row["type"]: float(row["seconds"]) for row in await self.superuser.fetch(TIMES, *of_run, list(STAGES))
        }
        seconds = float(await self.superuser.fetchval(SPAN, *of_run, list(STAGES)))
        return RunResult(
            passports=count, seconds=seconds, python=python, postgres=postgres, stages=stages, asking=asking
        )

    async def copy_passports(self, stored: int) -> None:
        """Have `stored` passports in the tables, with all that belongs to each: copies of one, past all rules."""
        present: int = await self.superuser.fetchval("SELECT count(*) FROM passport_versions")
        if stored <= present:
            return
        print(f"pipeline: copying {stored - present:,} passports", file=sys.stderr, flush=True)
        template_row = await self.superuser.fetchrow(RECENT_PASSPORT)
        ids = list(template_row or ())
        async with self.superuser.transaction():
            await self.superuser.execute("SET LOCAL session_replication_role = replica")
            for table, changed in COPIED.items():
                await self._copy_table(table, changed, ids, present, stored)

    async def _copy_table(self, table: str, changed: dict[str, str], ids: list[Any], first: int, last: int) -> None:
        names = await self.superuser.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped"
            "   AND attgenerated = '' AND attidentity = ''",
            table,
        )
        columns = [row["attname"] for row in names]
        values = [changed.get(column, "{0}").format(f"t.{column}") for column in columns]
        which = {
            "facts": "t.fact_id IN (SELECT fact_id FROM snapshot_items WHERE snapshot_id = ANY ($1))",
            "events": "t.aggregate_id = ANY ($1)",
            "jobs.job": "t.type = ANY ('{COMPILE_PASSPORT,SIGN_PASSPORT,GENERATE_QR}')"
            " AND t.payload->>'passport_version_id' = ($1::uuid[])[1]::text",
        }.get(table, " OR ".join(f"t.{column} = ANY ($1)" for column in columns if column in _IDS))
        await self.superuser.execute(
            f"INSERT INTO {table} ({', '.join(columns)})"
            f" SELECT {', '.join(values)} FROM {table} t, generate_series($2::int, $3::int) AS n WHERE {which}",
            ids,
            first + 1,
            last,
        )

    async def measure_database_size(self) -> int:
        """Bytes of the database."""
        size: int = await self.superuser.fetchval("SELECT pg_database_size(current_database())")
        return size

    async def _request_passport(
        self, kind: PassportKind, sku: str, version: RulePackageVersionId, places: asyncio.Semaphore
    ) -> None:
        """A product, its facts, a sealed snapshot of them, and a compile request."""
        async with places, self.database.tenant(self.tenant) as conn:
            act, tenant = Act(None, clock.now()), self.tenant
            product = await products.create_product(conn, tenant, sku=sku, name="Pack 75", act=act)
            passport = await passports.create_passport(conn, tenant, product.battery_product_id, act=act)
            await facts.insert_facts(
                conn, tenant, self.document, [_extract_fact(fact) for fact in kind.facts(sku)], at=act.at
            )
            fact_rows = await conn.fetch(
                "SELECT fact_id FROM facts WHERE tenant_id = $1 AND fact_key = ANY ($2)",
                tenant,
                [fact.fact_key for fact in kind.facts(sku)],
            )
            snapshot = (await snapshots.create_snapshot(conn, tenant, label=None, act=act)).snapshot_id
            await steps.add_items(conn, tenant, snapshot, [FactId(row["fact_id"]) for row in fact_rows], act=act)
            await steps.build_snapshot(conn, tenant, snapshot, act=act)
            await steps.seal(conn, tenant, snapshot, act=act)
            await request_compile(
                conn,
                RequestQueue(jobs=self.jobs, conn=conn, tenant=tenant),
                self.assembly.pipeline_jobs.compile,
                tenant,
                passport.passport_id,
                snapshot=snapshot,
                rule_version=version,
                compiler_build_id=self.settings.compiler_build_id,
                signing_key_id=self.settings.signing_key_id,
                act=Act(None, kind.issued_at),
            )

    async def _wait_until_done(self, of_run: tuple[TenantId, UUID], count: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while await self.superuser.fetchval(ENDED, *of_run) < count:
            if await self.superuser.fetchval(LOST, *of_run) or time.monotonic() > deadline:
                raise RuntimeError("not all passports were made")
            await asyncio.sleep(0.5)

    def measure_postgres_seconds(self) -> float:
        """Of the server, of its processes that are there, and of those that have ended."""
        if self.place.server is None:
            raise RuntimeError("the embedded server is measured")
        cluster = self.place.server.layout.find_cluster_folder()
        server = psutil.Process(int((cluster / "postmaster.pid").read_text().split()[0]))
        times = server.cpu_times()
        ended = times.children_user + times.children_system
        return ended + _measure_cpu_seconds(server) + sum(map(_measure_cpu_seconds, server.children()))


_IDS: Final = ("battery_product_id", "passport_id", "snapshot_id", "passport_version_id")


@asynccontextmanager
async def open_bench(folder: Path) -> AsyncIterator[Bench]:
    settings = load_settings({"BPC_DATA_DIR": str(folder), "BPC_ENV": "dev"}, cwd=folder)
    async with locate_database(settings) as place, open_migrated_database(settings, migrate_first=True) as database:
        tenant = (await seed_database(database, settings)).tenant_id
        if tenant is None or place.server is None:
            raise RuntimeError("dev has a tenant, and a server of its own")
        assembly = declare_job_types(settings, database=database, key_ring=KeyRing.from_settings(settings))
        superuser = await asyncpg.connect(
            **place.server.superuser_address().with_database(settings.db_name).connect_arguments()
        )
        async with open_job_sessions(database) as sessions:
            jobs = Jobs(assembly.handlers, sessions)
            async with database.tenant(tenant) as conn:
                document = await _create_document(conn, tenant)
            yield Bench(
                settings=settings,
                place=place,
                database=database,
                jobs=jobs,
                assembly=assembly,
                tenant=tenant,
                document=document,
                superuser=superuser,
            )
            await jobs.close()
        await superuser.close()


async def _create_document(conn: Connection, tenant: TenantId) -> DocumentVersionId:
    """What all facts are from."""
    act, version = Act(None, clock.now()), DocumentVersionId(clock.new_id())
    document = (await documents.create_document(conn, tenant, kind="BOM", external_ref=None, act=act)).document_id
    await documents.insert_document_version(
        conn, tenant, document, version, mime_type="application/json", sha256=sha256(b"{}"), content=b"{}", at=act.at
    )
    return version


async def _publish_rules(conn: Connection, tenant: TenantId, dsl: bytes) -> RulePackageVersionId:
    act = Act(None, clock.now())
    package = (
        await packages.create_package(conn, tenant, name=f"rules {clock.new_id()}", description=None, act=act)
    ).rule_package_id
    fields, tests = list_fields(read_program(dsl)), f"-- {package}".encode()
    rule_version = await packages.insert_version(conn, tenant, package, dsl=dsl, tests=tests, fields=fields, act=act)
    for status in ("VALIDATED", "PUBLISHED"):
        await conn.execute(
            f"UPDATE rule_package_versions SET status = '{status}' WHERE rule_package_version_id = $1",
            rule_version.rule_package_version_id,
        )
    return rule_version.rule_package_version_id


def _extract_fact(fact: SnapshotFact) -> ExtractedFact:
    canonical = canonical_json.encode(fact.payload)
    return ExtractedFact(
        fact_type=fact.fact_type,
        fact_key=fact.fact_key,
        schema_version=fact.schema_version,
        payload_canonical=canonical,
        payload_hash=sha256(canonical),
        source_path="/",
    )


@asynccontextmanager
async def run_workers(settings: Settings) -> AsyncIterator[list[psutil.Process]]:
    environment = {
        **os.environ,
        "BPC_DATA_DIR": str(settings.data_dir),
        "BPC_LOG_LEVEL": "warn",
        "BPC_WORKER_HTTP_PORT": "0",
        "BPC_JOBS_CONCURRENCY": str(CONCURRENCY),
    }
    command = [sys.executable, "-m", "bpc", "worker", "--json"]
    processes = [
        await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        for _ in range(WORKERS)
    ]
    try:
        for process in processes:  # what it takes to start is not what a passport takes
            if process.stdout is None or not await process.stdout.readline():
                raise RuntimeError("a worker did not start")
        yield [psutil.Process(process.pid) for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            await process.wait()


def _measure_cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
