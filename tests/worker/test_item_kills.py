"""Specification of `kill -9` of workers that issue passports of batteries: none is lost, and none is issued twice."""

import asyncio
from pathlib import Path

import asyncpg
import pytest
from service_jobs import Jobs, RequestQueue
from tests.jobs.faults.fault_database import create_random

from bpc.core.audit.events import Act
from bpc.core.batteries.row_files import read_rows
from bpc.core.formats.hashes import sha256
from bpc.core.formats.ids import ItemRunId
from bpc.core.items.item_rows import ITEM_COLUMNS, ITEM_REQUIRED
from bpc.pipeline.compile import request_compile
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.runtime.stored_secrets import load_secret_box
from bpc.storage.items import runs, versions
from bpc.storage.items.chunk_audit import verify_item_chunks
from bpc.storage.items.packs import PackFolder
from bpc.storage.jobs import open_job_sessions
from bpc.storage.passports import passports, products
from bpc.tasks import item_run_storage
from bpc.tasks.item_models import Installation
from bpc.tasks.item_runs import ItemRunRequest, request_item_run
from bpc.tasks.job_types import JobTypes, declare_job_types
from tests.cli.program import Program
from tests.core.items import sample_layers as sample
from tests.measurements import RecordMeasurement, choose_effort
from tests.pipeline.compile_fixtures import create_sealed_snapshot, publish_rules
from tests.worker.test_kills import SETTINGS
from tests.worker.worker_installation import WorkerInstallation, open_installation

KILLS = choose_effort(test=2, shown=50, campaign=50)
ITEMS = choose_effort(test=600, shown=50_000, campaign=100_000)
CHUNK = choose_effort(test=40, shown=200, campaign=400)
FACTS = (
    sample.make_fact("Battery", f"battery:{sample.SKU}", {"sku": sample.SKU, "rated_capacity_ah": "10"}),
    sample.make_fact("Component", f"component:{sample.SKU}:a", {"sku": sample.SKU, "part": "a", "mass_g": "800"}),
    sample.make_fact("Item", f"item:{sample.SKU}", {"serial_number": "MODEL"}),
)


async def test_killing_workers_loses_no_battery_and_issues_none_twice(
    address: Address,
    data_dir: Path,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    record_measurement: RecordMeasurement,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(item_run_storage, "CHUNK_SIZE", CHUNK)
    chance = create_random(request.node.name)
    program = Program(data_dir, {"DATABASE_URL": str(address), **SETTINGS})
    async with (
        open_installation(program, address, superuser) as installation,
        open_job_sessions(installation.database) as sessions,
    ):
        settings = Settings(data_dir=data_dir)
        job_types = declare_job_types(settings, database=installation.database, key_ring=KeyRing({}))
        jobs = Jobs(job_types.handlers, sessions)
        for _ in range(2):
            installation.start_worker()
        await _issue_model(installation, jobs, job_types, settings)
        run = await _request_items(installation, jobs, job_types, settings)

        for _ in range(KILLS):
            await installation.kill_busy_worker(chance)
            installation.start_worker()
        await installation.wait_until_idle(seconds=60 + ITEMS / 50)
        installation.stop()

        rows = await superuser.fetch(
            "SELECT battery_id, count(*) AS versions FROM item_passport_versions GROUP BY battery_id"
        )
        assert (len(rows), {row["versions"] for row in rows}) == (ITEMS, {1})
        async with installation.database.tenant(installation.tenant) as conn:
            progress = await runs.get_run(conn, installation.tenant, run)
            assert (progress.status, progress.issued, progress.refused) == ("FINISHED", ITEMS, 0)
            assert await verify_item_chunks(conn, installation.tenant) == (ITEMS, [])
            packs = PackFolder(data_dir)
            for row in rows[:: max(1, ITEMS // 100)]:
                version = await versions.get_version(conn, installation.tenant, row["battery_id"])
                packs.read_item(version.pack_sha256, version.place, version.receipt_hash)
        record_measurement("items-kill-9", kills=KILLS, batteries=ITEMS, chunk=CHUNK, lost=0, doubled=0)


async def _issue_model(installation: WorkerInstallation, jobs: Jobs, job_types: JobTypes, settings: Settings) -> None:
    act, tenant = Act(None, clock.now()), installation.tenant
    async with installation.database.tenant(tenant) as conn:
        product = await products.create_product(conn, tenant, sku=sample.SKU, name="Pack", act=act)
        passport = await passports.create_passport(conn, tenant, product.battery_product_id, act=act)
        await request_compile(
            conn,
            RequestQueue(jobs=jobs, conn=conn, tenant=tenant),
            job_types.pipeline_jobs.compile,
            tenant,
            passport.passport_id,
            snapshot=await create_sealed_snapshot(conn, tenant, FACTS),
            rule_version=await publish_rules(conn, tenant, act, sample.RULES.encode()),
            compiler_build_id=settings.compiler_build_id,
            signing_key_id=settings.signing_key_id,
            act=act,
            activate=True,
        )
    await installation.wait_until_idle(seconds=60)


async def _request_items(
    installation: WorkerInstallation, jobs: Jobs, job_types: JobTypes, settings: Settings
) -> ItemRunId:
    content = b"serial_number,remaining_capacity_ah\n" + b"".join(b"S%06d,9.5\n" % number for number in range(ITEMS))
    async with installation.database.tenant(installation.tenant) as conn:
        outcome = await request_item_run(
            conn,
            jobs,
            job_types.task_jobs.issue_items,
            installation.tenant,
            ItemRunRequest(
                sku=sample.SKU, file=read_rows(content, ITEM_COLUMNS, ITEM_REQUIRED), content_hash=sha256(content)
            ),
            installation=Installation(
                compiler_build_id=settings.compiler_build_id,
                signing_key_id=settings.signing_key_id,
                secret_box=load_secret_box(settings),
                compute=asyncio.to_thread,
            ),
            act=Act(None, clock.now()),
        )
    assert outcome.run is not None, outcome.faults
    return outcome.run
