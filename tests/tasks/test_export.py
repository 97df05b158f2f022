"""Exporting as a job: made once, kept with its hash, on the version's record; or FAILED with the reason."""

import asyncpg
import pytest

from bpc import fresh
from bpc.core import canon
from bpc.core.digest import sha256, to_hex
from bpc.core.errors import Conflict, Invalid
from bpc.core.events import Act, Stream
from bpc.core.exports.disclosed import Audience
from bpc.core.exports.formats import Format
from bpc.core.ids import AggregateId, ExportId, PassportVersionId, TenantId
from bpc.db import bundles, events, exports
from bpc.db.database import Database
from bpc.db.exports import Export, ExportUnknown
from bpc.db.jobs import sessions_of
from bpc.db.passport_versions import VersionUnknown
from bpc.errands.export import ExportOrder, Requested, export_job, request_export
from bpc.jobs import LOW, Handlers, Jobs, Processes, RequestQueue, Worker, queries
from bpc.jobs.outcome import Ending
from bpc.jobs.testing import run_inline
from bpc.printing import exported
from tests.jobs.working import until_status, working
from tests.pipeline.ready import bench, order_of, ready


@pytest.fixture
async def version(database: Database, tenant: TenantId, act: Act) -> PassportVersionId:
    """A version that is signed and has its QR code."""
    on = await bench(database, act)
    async with database.tenant(tenant) as conn:
        order = await order_of(conn, tenant, await ready(conn, tenant, act), act)
    async with sessions_of(database) as sessions:
        jobs = Jobs(on.handlers, sessions)
        await jobs.submit(on.steps.compile, order, tenant=tenant)
        await Worker(jobs).run_until_idle()
        await jobs.close()
    return PassportVersionId(order.passport_version_id)


async def _asked(
    database: Database,
    tenant: TenantId,
    act: Act,
    version: PassportVersionId,
    name: Format,
    audience: Audience | None = None,
    *,
    processes: Processes | None = None,
) -> Requested:
    """Ask for an export and let a worker do what there is to do."""
    handlers = Handlers()
    job = export_job(handlers, opening=database.tenant)
    async with sessions_of(database) as sessions:
        jobs = Jobs(handlers, sessions, processes=processes)
        async with database.tenant(tenant) as conn:
            queue = RequestQueue(jobs=jobs, conn=conn, tenant=tenant)
            asked = await request_export(conn, queue, job, tenant, version, name=name, audience=audience, act=act)
        async with working(jobs):
            await until_status(jobs, tenant, asked.job_id, "SUCCEEDED", "FAILED", "DEAD_LETTER", seconds=60)
        await jobs.close()
    return asked


async def _known(database: Database, tenant: TenantId, export: ExportId) -> tuple[Export, bytes | None]:
    async with database.tenant(tenant) as conn:
        return await exports.get(conn, tenant, export), await exports.content(conn, tenant, export)


async def _told(database: Database, tenant: TenantId, version: PassportVersionId) -> list[tuple[str, object]]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, Stream(tenant, "PassportVersion", AggregateId(version)))
    made = [stored.event for stored in chain if stored.event.event_type == "EXPORT_CREATED"]
    return [(event.event_type, canon.decode(event.payload_canonical)) for event in made]


@pytest.mark.parametrize("name", ["PDF", "JSON_LD", "XML", "DATA_POINTS", "BUNDLE"])
async def test_an_export_is_made_kept_and_put_on_record(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId, name: Format
) -> None:
    async with database.tenant(tenant) as conn:
        bundle = await bundles.bundle(conn, tenant, version, with_events=name == "BUNDLE")

    asked = await _asked(database, tenant, act, version, name)

    export, content = await _known(database, tenant, asked.export_id)
    assert content == exported(bundle, name, export.audience)
    assert (export.status, export.format, export.size) == ("READY", name, len(content))
    assert export.sha256 == sha256(content)
    assert export.job_id == asked.job_id
    async with database.tenant(tenant) as conn:
        assert (await queries.get(conn, tenant, asked.job_id)).priority == LOW
    assert export.audience == ("public" if name == "PDF" else "tenant")
    assert await _told(database, tenant, version) == [
        (
            "EXPORT_CREATED",
            {
                "audience": export.audience,
                "bytes": len(content),
                "export_id": str(asked.export_id),
                "format": name,
                "sha256": to_hex(sha256(content)),
            },
        )
    ]


async def test_a_print_is_made_in_a_child_process(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId
) -> None:
    processes = Processes(1)
    try:
        asked = await _asked(database, tenant, act, version, "PDF", "tenant", processes=processes)
    finally:
        await processes.close()

    _, content = await _known(database, tenant, asked.export_id)
    async with database.tenant(tenant) as conn:
        bundle = await bundles.bundle(conn, tenant, version, with_events=False)
    assert content == exported(bundle, "PDF", "tenant")


async def test_two_exports_of_a_version_have_the_same_bytes(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId
) -> None:
    one, other = [await _asked(database, tenant, act, version, "PDF") for _ in range(2)]

    first, second = [(await _known(database, tenant, asked.export_id))[0] for asked in (one, other)]
    assert first.export_id != second.export_id
    assert first.sha256 == second.sha256 is not None


async def test_an_order_that_is_carried_out_twice_is_one_export(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId
) -> None:
    asked = await _asked(database, tenant, act, version, "XML")

    async with database.tenant(tenant) as conn:
        order = ExportOrder(export_id=asked.export_id, actor_id=None)
        again = await run_inline(export_job(Handlers(), opening=database.tenant), order, tenant=tenant, conn=conn)

    assert again.ending is Ending.SUCCEEDED
    assert len(await _told(database, tenant, version)) == 1


async def test_a_version_that_does_not_check_any_more_is_not_exported_and_the_reason_is_kept(
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

    asked = await _asked(database, tenant, act, version, "PDF")

    export, content = await _known(database, tenant, asked.export_id)
    assert (export.status, content) == ("FAILED", None)
    assert export.last_error is not None
    assert export.last_error["code"] == "VALIDATION_ERROR"
    assert "does not check" in export.last_error["message"]
    assert export.finished_at is not None
    assert await _told(database, tenant, version) == []


async def test_a_version_that_is_not_signed_is_refused_when_it_is_asked_for(
    database: Database, tenant: TenantId, act: Act
) -> None:
    on = await bench(database, act)
    async with database.tenant(tenant) as conn:
        order = await order_of(conn, tenant, await ready(conn, tenant, act), act)
        await run_inline(on.steps.compile, order, tenant=tenant, conn=conn)

    with pytest.raises(Conflict, match="is COMPILING"):
        await _asked(database, tenant, act, PassportVersionId(order.passport_version_id), "PDF")


async def test_what_there_is_not_is_refused_when_it_is_asked_for(
    database: Database, tenant: TenantId, act: Act, version: PassportVersionId
) -> None:
    with pytest.raises(VersionUnknown):
        await _asked(database, tenant, act, PassportVersionId(fresh.new_id()), "PDF")
    with pytest.raises(Invalid, match="a bundle holds everything"):
        await _asked(database, tenant, act, version, "BUNDLE", "public")
    with pytest.raises(ExportUnknown):
        await _known(database, tenant, ExportId(fresh.new_id()))
