"""Specification of exports: made once, stored with their hash and recorded; or FAILED with the reason."""

import asyncpg
import pytest
from service_jobs import LOW, Handlers, Jobs, ProcessPool, RequestQueue, Worker, queries
from service_jobs.job import Ending
from service_jobs.testing import run_inline
from tests.jobs.support.run_workers import run_worker, wait_until_status

from bpc.core.audit.events import Act, EventStream
from bpc.core.errors import Conflict, Invalid, UnknownResource
from bpc.core.exports.disclosure import Audience, ExportFormat
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import AggregateId, ExportId, PassportVersionId, TenantId
from bpc.printing import render_export
from bpc.runtime import clock
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.jobs import open_job_sessions
from bpc.storage.passports import exports
from bpc.storage.passports.exports import ExportRow
from bpc.storage.passports.passports import load_subject_of_version
from bpc.tasks.export import ExportOrder, RequestedExport, declare_export_job, request_export
from tests.pipeline.compile_fixtures import create_compile_inputs, make_compile_order, make_runner


@pytest.fixture
async def version(database: Database, tenant: TenantId, act: Act) -> PassportVersionId:
    """A version that is signed and has its QR code."""
    on = await make_runner(database, act)
    async with database.tenant(tenant) as conn:
        order = await make_compile_order(conn, tenant, await create_compile_inputs(conn, tenant, act), act)
    async with open_job_sessions(database) as sessions:
        jobs = Jobs(on.handlers, sessions)
        await jobs.submit(on.pipeline_jobs.compile, order, tenant=tenant)
        await Worker(jobs).run_until_idle()
        await jobs.close()
    return PassportVersionId(order.passport_version_id)


async def _request_and_run(
    database: Database,
    tenant: TenantId,
    act: Act,
    version: PassportVersionId,
    name: ExportFormat,
    audience: Audience | None = None,
    *,
    processes: ProcessPool | None = None,
) -> RequestedExport:
    """Ask for an export and let a worker do what there is to do."""
    handlers = Handlers()
    job = declare_export_job(handlers, open_transaction=database.tenant)
    async with open_job_sessions(database) as sessions:
        jobs = Jobs(handlers, sessions, processes=processes)
        async with database.tenant(tenant) as conn:
            queue = RequestQueue(jobs=jobs, conn=conn, tenant=tenant)
            requested_export = await request_export(
                conn, queue, job, tenant, version, name=name, audience=audience, act=act
            )
        async with run_worker(jobs):
            await wait_until_status(
                jobs, tenant, requested_export.job_id, "SUCCEEDED", "FAILED", "DEAD_LETTER", seconds=60
            )
        await jobs.close()
    return requested_export


async def _get_export(database: Database, tenant: TenantId, export: ExportId) -> tuple[ExportRow, bytes | None]:
    async with database.tenant(tenant) as conn:
        return await exports.get_export(conn, tenant, export), await exports.load_export_content(conn, tenant, export)


async def _read_events(database: Database, tenant: TenantId, version: PassportVersionId) -> list[tuple[str, object]]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, "PassportVersion", AggregateId(version)))
    created_events = [stored.event for stored in chain if stored.event.event_type == "EXPORT_CREATED"]
    return [(event.event_type, canonical_json.decode(event.payload_canonical)) for event in created_events]


@pytest.mark.parametrize("name", ["PDF", "JSON_LD", "XML", "DATA_POINTS", "BUNDLE"])
async def test_an_export_is_made_stored_and_recorded(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId, name: ExportFormat
) -> None:
    async with database.tenant(tenant) as conn:
        bundle = await exports.load_bundle(conn, tenant, version, with_events=name == "BUNDLE")

    requested_export = await _request_and_run(database, tenant, act, version, name)

    export, content = await _get_export(database, tenant, requested_export.export_id)
    assert content == render_export(bundle, name, export.audience, waived_count=0)
    assert (export.status, export.format, export.size) == ("READY", name, len(content))
    assert export.sha256 == sha256(content)
    assert export.job_id == requested_export.job_id
    async with database.tenant(tenant) as conn:
        assert (await queries.get_job(conn, tenant, requested_export.job_id)).priority == LOW
        subject = await load_subject_of_version(conn, tenant, version)
    assert export.audience == ("public" if name == "PDF" else "tenant")
    assert await _read_events(database, tenant, version) == [
        (
            "EXPORT_CREATED",
            {
                "audience": export.audience,
                "bytes": len(content),
                "export_id": str(requested_export.export_id),
                "format": name,
                "sha256": to_hex(sha256(content)),
                **subject.to_event_payload(),
            },
        )
    ]


async def test_a_pdf_is_made_in_a_child_process(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId
) -> None:
    processes = ProcessPool(1)
    try:
        requested_export = await _request_and_run(database, tenant, act, version, "PDF", "tenant", processes=processes)
    finally:
        await processes.close()

    _, content = await _get_export(database, tenant, requested_export.export_id)
    async with database.tenant(tenant) as conn:
        bundle = await exports.load_bundle(conn, tenant, version, with_events=False)
    assert content == render_export(bundle, "PDF", "tenant")


async def test_two_exports_of_a_version_have_the_same_bytes(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId
) -> None:
    one, other = [await _request_and_run(database, tenant, act, version, "PDF") for _ in range(2)]

    first, second = [
        (await _get_export(database, tenant, requested_export.export_id))[0] for requested_export in (one, other)
    ]
    assert first.export_id != second.export_id
    assert first.sha256 == second.sha256 is not None


async def test_an_order_that_runs_twice_stores_one_export(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId
) -> None:
    requested_export = await _request_and_run(database, tenant, act, version, "XML")

    async with database.tenant(tenant) as conn:
        order = ExportOrder(export_id=requested_export.export_id, actor_id=None)
        again = await run_inline(
            declare_export_job(Handlers(), open_transaction=database.tenant), order, tenant=tenant, conn=conn
        )

    assert again.ending is Ending.SUCCEEDED
    assert len(await _read_events(database, tenant, version)) == 1


async def test_a_version_that_fails_verification_is_not_exported_and_the_reason_is_stored(
    database: Database,
    tenant: TenantId,
    act: Act,
    version: PassportVersionId,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        "UPDATE passport_versions SET payload_canonical ="
        " convert_to(replace(convert_from(payload_canonical, 'UTF8'), 'Cell', 'Sell'), 'UTF8')"
    )

    requested_export = await _request_and_run(database, tenant, act, version, "PDF")

    export, content = await _get_export(database, tenant, requested_export.export_id)
    assert (export.status, content) == ("FAILED", None)
    assert export.last_error is not None
    assert export.last_error["code"] == "VALIDATION_ERROR"
    assert "failed verification" in export.last_error["message"]
    assert export.finished_at is not None
    assert await _read_events(database, tenant, version) == []


async def test_an_export_of_an_unsigned_version_is_refused_at_the_request(
    database: Database, tenant: TenantId, act: Act
) -> None:
    on = await make_runner(database, act)
    async with database.tenant(tenant) as conn:
        order = await make_compile_order(conn, tenant, await create_compile_inputs(conn, tenant, act), act)
        await run_inline(on.pipeline_jobs.compile, order, tenant=tenant, conn=conn)

    with pytest.raises(Conflict, match="is COMPILING"):
        await _request_and_run(database, tenant, act, PassportVersionId(order.passport_version_id), "PDF")


async def test_an_export_of_an_unknown_version_is_refused_at_the_request(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId
) -> None:
    with pytest.raises(UnknownResource):
        await _request_and_run(database, tenant, act, PassportVersionId(clock.new_id()), "PDF")
    with pytest.raises(Invalid, match="a bundle always holds every field"):
        await _request_and_run(database, tenant, act, version, "BUNDLE", "public")
    with pytest.raises(UnknownResource):
        await _get_export(database, tenant, ExportId(clock.new_id()))
