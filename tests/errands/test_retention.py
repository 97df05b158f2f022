"""Retention: what has outlived its time goes, nothing else does, and what is left still proves itself."""

import asyncio
import os
import sys
import time
from dataclasses import fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import orjson
import pytest

from bpc import fresh
from bpc.core.bundle import write_bundle
from bpc.core.checkpoint import Checkpoint, missing
from bpc.core.errors import NotFound
from bpc.core.events import Act, Head, Stream
from bpc.core.ids import AggregateId, DocumentVersionId, TenantId
from bpc.core.verify.bundle import verify_bundle
from bpc.db import bundles, documents, events, retention, tenants
from bpc.db.address import Address
from bpc.db.database import Database, open_database
from bpc.db.jobs import sessions_of
from bpc.db.tenants import SYSTEM_TENANT
from bpc.errands.retention import (
    Counts,
    Cutoffs,
    Done,
    Periods,
    RetentionOrder,
    Size,
    SweepOrder,
    apply,
    nightly,
    retention_jobs,
)
from bpc.jobs import Handlers, Jobs, schedules
from bpc.jobs.outcome import Ending, Status
from bpc.jobs.testing import run_inline
from bpc.pipeline.activate import activate
from bpc.pipeline.replay import replay
from tests.db import rows
from tests.db.rows import insert
from tests.jobs.working import until_status, working
from tests.measuring import Measured, allowed, effort
from tests.pipeline import ready
from tests.pipeline.ready import bench, signed

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

ROOT = Path(__file__).resolve().parents[2]
NOW = fresh.now()
YEARS_AGO = NOW - timedelta(days=20 * 365)
CUTOFF = NOW - timedelta(days=15 * 365)
ALL_SIZES = Size()
PERIODS = Periods(events=5475, passport_versions=5475, document_versions=3650, exports=14)


def an_order(cutoff: datetime = CUTOFF) -> RetentionOrder:
    cutoffs = Cutoffs(document_versions=cutoff, passport_versions=cutoff, passport_exports=cutoff, events=cutoff)
    return RetentionOrder(run_id=fresh.new_id(), cutoffs=cutoffs)


async def part(database: Database, tenant: TenantId, order: RetentionOrder, size: Size = ALL_SIZES) -> Done:
    async with database.system(tenant) as conn:
        return await apply(conn, tenant, order, act=Act(None, fresh.now()), size=size)


async def run(
    database: Database, tenant: TenantId, order: RetentionOrder | None = None, *, size: Size = ALL_SIZES
) -> Counts:
    total, following = Counts(), order or an_order()
    while True:
        done = await part(database, tenant, following, size)
        total += done.counts
        if done.following is None:
            return total
        following = done.following


async def a_chain(database: Database, tenant: TenantId, *moments: datetime, kind: str = "Document") -> Stream:
    stream = Stream(tenant, kind, AggregateId(fresh.new_id()))
    async with database.tenant(tenant) as conn:
        for moment in moments:
            await events.append(conn, stream, Act(None, moment).says("DOCUMENT_CHANGED", {"at": str(moment)}))
    return stream


async def versions_of(database: Database, stream: Stream) -> list[int]:
    async with database.tenant(stream.tenant_id) as conn:
        return [stored.event.version for stored in await events.read_chain(conn, stream)]


async def faults(database: Database, tenant: TenantId) -> list[tuple[str, int, str]]:
    async with database.tenant(tenant) as conn:
        found = await events.verify_tenant(conn, tenant)
    return [(fault.stream.aggregate_type, fault.version, fault.says) for fault in found.faults]


async def applied(database: Database, tenant: TenantId) -> list[dict[str, Any]]:
    async with database.tenant(tenant) as conn:
        chain = await conn.fetch(
            "SELECT payload::text FROM events WHERE tenant_id = $1 AND event_type = 'RetentionApplied'"
            " ORDER BY aggregate_version",
            tenant,
        )
    return [orjson.loads(row[0]) for row in chain]


# What goes and what stays -------------------------------------------------------------------------------------------


async def test_the_beginning_of_a_chain_goes_and_the_rest_still_verifies(database: Database, tenant: TenantId) -> None:
    old, newer = await a_chain(database, tenant, *[YEARS_AGO] * 3), await a_chain(database, tenant, YEARS_AGO, NOW)

    counts = await run(database, tenant)

    assert counts == Counts(events=4, anchors=2)
    assert await versions_of(database, old) == []
    assert await versions_of(database, newer) == [2]
    assert await faults(database, tenant) == []
    async with database.tenant(tenant) as conn:
        for stream in (old, newer):
            await events.append(conn, stream, Act(None, NOW).says("DOCUMENT_CHANGED", {}))
    assert await versions_of(database, old) == [4]
    assert await faults(database, tenant) == []


async def test_only_what_comes_before_the_first_event_that_stays_goes(database: Database, tenant: TenantId) -> None:
    # Clocks go back: a chain's times need not be in the order of its versions.
    mixed = await a_chain(database, tenant, YEARS_AGO, NOW, YEARS_AGO, YEARS_AGO)
    first_is_new = await a_chain(database, tenant, NOW, YEARS_AGO)
    at_the_cutoff = await a_chain(database, tenant, CUTOFF - timedelta(microseconds=1), CUTOFF)

    await run(database, tenant)

    assert await versions_of(database, mixed) == [2, 3, 4]
    assert await versions_of(database, first_is_new) == [1, 2]
    assert await versions_of(database, at_the_cutoff) == [2]
    assert await faults(database, tenant) == []


async def test_the_chain_of_the_tenant_is_never_cut(database: Database, superuser: Superuser) -> None:
    tenant = await tenants.create(database, slug="old-one", name="Old One", act=Act(None, YEARS_AGO))

    counts = await run(database, tenant)

    assert counts.events == 3  # of its three roles
    chain = Stream(tenant, "Tenant", AggregateId(tenant))
    assert await versions_of(database, chain) == [1, 2]
    with pytest.raises(asyncpg.PostgresError, match="the chain of a tenant is never cut"):
        await superuser.execute(
            "INSERT INTO event_anchors SELECT tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash"
            " FROM events WHERE aggregate_id = $1 AND aggregate_version = 1",
            tenant,
        )


async def test_documents_lose_their_content_and_nothing_else(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        old, new = [await rows.a_document_version(conn, tenant, status="VALIDATED") for _ in range(2)]
        await insert(conn, "document_texts", tenant_id=tenant, document_version_id=old, pages=1, text="x")
    await grown_old(database, "document_versions", "uploaded_at", old)
    async with database.tenant(tenant) as conn:
        before = await documents.version(conn, tenant, DocumentVersionId(old))

    counts = await run(database, tenant)

    assert counts == Counts(document_versions=1)
    async with database.tenant(tenant) as conn:
        after = await documents.version(conn, tenant, DocumentVersionId(old))
        assert (await documents.content(conn, tenant, DocumentVersionId(old))).content is None
        assert (await documents.content(conn, tenant, DocumentVersionId(new))).content is not None
        assert await conn.fetchval("SELECT count(*) FROM document_texts") == 0
    assert after.content_removed_at is not None
    assert after == replace(before, size=None, content_removed_at=after.content_removed_at)


@pytest.mark.parametrize("status", ["COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"])
async def test_of_passport_versions_only_those_that_ended_long_ago_go(
    database: Database, tenant: TenantId, status: str
) -> None:
    await rows.signing_keys(database)
    ended = {"SUPERSEDED": "superseded_at", "REVOKED": "revoked_at"}.get(status)
    async with database.tenant(tenant) as conn:
        at: dict[str, Any] = {} if ended is None else {ended: YEARS_AGO}
        version = await rows.a_passport_version(conn, tenant, status=status, **at)
        stream = Stream(tenant, "PassportVersion", AggregateId(version))
        await events.append(conn, stream, Act(None, YEARS_AGO).says("PASSPORT_COMPILED", {}))
    await grown_old(database, "passport_versions", "created_at", version)

    counts = await run(database, tenant)

    async with database.tenant(tenant) as conn:
        is_there = await conn.fetchval("SELECT count(*) FROM passport_versions WHERE passport_version_id = $1", version)
    # Its chain is part of its evidence, and stays as long as it does.
    assert is_there == (0 if ended else 1)
    assert await versions_of(database, stream) == ([] if ended else [1])
    assert counts == (Counts(passport_versions=1, events=1, anchors=1) if ended else Counts())
    said = [one["passport_version_ids"] for one in await applied(database, tenant)]
    assert said == ([[str(version)]] if ended else [])
    assert await faults(database, tenant) == []


async def test_what_counts_still_replays_and_its_bundle_still_verifies(
    database: Database, tenant: TenantId, act: Act
) -> None:
    ours = await bench(database, act)
    async with database.tenant(tenant) as conn:
        given = await ready.ready(conn, tenant, act)
    before, current = [await signed(ours, tenant, given, act) for _ in range(2)]
    async with database.tenant(tenant) as conn:
        for version in (before, current):
            await activate(conn, tenant, version, act=act)

    counts = await run(database, tenant, an_order(fresh.now() + timedelta(days=1)))

    assert (counts.passport_versions, counts.document_versions > 0) == (1, True)
    async with database.tenant(tenant) as conn:
        assert (await replay(conn, tenant, current, act=Act(None, fresh.now()))).refusal is None
        kept = write_bundle(await bundles.bundle(conn, tenant, current))
        with pytest.raises(NotFound):
            await bundles.bundle(conn, tenant, before)
    assert verify_bundle(kept).ok
    assert await faults(database, tenant) == []


async def test_a_version_that_was_superseded_long_ago_and_revoked_since_stays(
    database: Database, tenant: TenantId
) -> None:
    await rows.signing_keys(database)
    async with database.tenant(tenant) as conn:
        await rows.a_passport_version(conn, tenant, status="REVOKED", superseded_at=YEARS_AGO, revoked_at=NOW)

    assert await run(database, tenant) == Counts()


async def test_deliveries_go_with_their_events(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        for moment in (YEARS_AGO, NOW):
            stream = Stream(tenant, "Document", AggregateId(fresh.new_id()))
            event = await events.append(conn, stream, Act(None, moment).says("DOCUMENT_CREATED", {}))
            await rows.a_webhook(conn, tenant, event.event_id)

    counts = await run(database, tenant)

    assert counts == Counts(events=1, webhook_deliveries=1, anchors=1)
    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM webhook_deliveries") == 1


async def test_other_tenants_are_untouched(database: Database, tenant: TenantId, other_tenant: TenantId) -> None:
    theirs = await a_chain(database, other_tenant, YEARS_AGO, YEARS_AGO)
    async with database.tenant(other_tenant) as conn:
        version = await rows.a_document_version(conn, other_tenant)
    await grown_old(database, "document_versions", "uploaded_at", version)

    assert await run(database, tenant) == Counts()

    assert await versions_of(database, theirs) == [1, 2]
    assert await faults(database, other_tenant) == []


async def test_exports_go_with_the_jobs_that_made_them_and_their_version_stays(
    database: Database, tenant: TenantId
) -> None:
    await rows.signing_keys(database)
    old = NOW - timedelta(days=15)
    async with database.tenant(tenant) as conn:
        version = await rows.a_passport_version(conn, tenant, status="SIGNED")
        for status in ("READY", "FAILED", "READY"):
            await rows.an_export(conn, tenant, version=version, status=status, created_at=old, finished_at=old)
        pending = await rows.an_export(conn, tenant, version=version, created_at=old)
        recent = await rows.an_export(conn, tenant, version=version, status="READY", created_at=old)
    order = RetentionOrder(run_id=fresh.new_id(), cutoffs=Cutoffs.at(NOW, PERIODS))

    async with database.system(tenant) as conn:
        before = order.cutoffs
        counted = await retention.counted(
            conn,
            tenant,
            documents=before.document_versions,
            passports=before.passport_versions,
            exports=before.passport_exports,
            events=before.events,
        )
    counts = await run(database, tenant, order, size=Size(exports=2))

    assert counts == Counts(passport_exports=3) == Counts(**counted)
    assert [said["counts"]["passport_exports"] for said in await applied(database, tenant)] == [2, 1]
    async with database.tenant(tenant) as conn:
        left = await conn.fetch("SELECT export_id FROM passport_exports WHERE tenant_id = $1", tenant)
        assert await conn.fetchval("SELECT count(*) FROM passport_versions WHERE tenant_id = $1", tenant) == 1
    assert {row["export_id"] for row in left} == {pending, recent}


# On record ----------------------------------------------------------------------------------------------------------


async def test_each_part_is_on_record_with_counts_and_cutoffs_and_nothing_to_do_is_not(
    database: Database, tenant: TenantId
) -> None:
    await a_chain(database, tenant, YEARS_AGO, YEARS_AGO)
    order = an_order()

    await run(database, tenant, order)
    assert await run(database, tenant) == Counts()

    [said] = await applied(database, tenant)
    assert (said["run_id"], said["part"]) == (str(order.run_id), 1)
    assert set(said["cutoffs"]) == {"document_versions", "events", "passport_exports", "passport_versions"}
    assert said["counts"] == {
        "document_versions": 0,
        "passport_versions": 0,
        "passport_exports": 0,
        "events": 2,
        "webhook_deliveries": 0,
        "anchors": 1,
    }


async def test_a_run_in_small_parts_removes_the_same_and_every_moment_between_verifies(
    database: Database, tenant: TenantId
) -> None:
    step = timedelta(seconds=1)
    for number in range(7):
        await a_chain(database, tenant, *[YEARS_AGO + number * step, YEARS_AGO, YEARS_AGO + 20 * step, NOW])
    same_moment = await a_chain(database, tenant, *[YEARS_AGO] * 12)
    following: RetentionOrder | None = an_order()

    total, parts = Counts(), 0
    while following is not None:
        done = await part(database, tenant, following, Size(events=5))
        total, parts, following = total + done.counts, parts + 1, done.following
        assert done.counts.events <= 15
        assert await faults(database, tenant) == []

    assert parts >= 7
    assert total.events == 7 * 3 + 12
    assert await versions_of(database, same_moment) == []


async def test_a_later_run_moves_anchors_on_and_vouches_for_where_they_are(
    database: Database, tenant: TenantId
) -> None:
    stream = await a_chain(database, tenant, YEARS_AGO, CUTOFF + timedelta(days=1), NOW)

    await run(database, tenant)
    assert await versions_of(database, stream) == [2, 3]
    await run(database, tenant, an_order(CUTOFF + timedelta(days=2)))

    assert await versions_of(database, stream) == [3]
    assert await faults(database, tenant) == []
    async with database.tenant(tenant) as conn:
        assert (await events.verify_chain(conn, stream)).faults == ()
        assert await conn.fetchval("SELECT count(*) FROM retention_anchors") == 2


async def test_a_checkpoint_taken_before_still_verifies(database: Database, tenant: TenantId) -> None:
    stream = await a_chain(database, tenant, YEARS_AGO, YEARS_AGO, CUTOFF + timedelta(days=1))
    async with database.tenant(tenant) as conn:
        kept = Checkpoint(tenant_id=tenant, taken_at=NOW, heads=await events.heads(conn, tenant))
        early = Checkpoint(
            tenant_id=tenant,
            taken_at=NOW,
            heads={stream: Head(2, (await events.read_chain(conn, stream))[1].event.event_hash)},
        )

    await run(database, tenant)
    await run(database, tenant, an_order(CUTOFF + timedelta(days=2)))

    async with database.tenant(tenant) as conn:
        now = await events.heads(conn, tenant)
        for checkpoint in (kept, early):
            assert missing(checkpoint, now, await events.hashes_at(conn, tenant, checkpoint.heads)) == []
        # The anchor has moved on, and where it was before is still known.
        other = replace(early, heads={stream: Head(2, kept.heads[stream].event_hash)})
        found = missing(other, now, await events.hashes_at(conn, tenant, other.heads))
    assert [fault.says for fault in found] == ["the checkpoint saw another event here"]


# Forgeries: what somebody does who can switch the triggers off -------------------------------------------------------

UNVOUCHED = "no RetentionApplied event vouches for the anchor its chain begins at"
ANCHOR_AT_2 = """
    INSERT INTO event_anchors (tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash FROM events
     WHERE aggregate_id = $1 AND aggregate_version = 2
        ON CONFLICT (tenant_id, aggregate_type, aggregate_id) DO UPDATE
       SET aggregate_version = excluded.aggregate_version, event_hash = excluded.event_hash
"""
LIST_IT = """
    INSERT INTO retention_anchors (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_hash)
    SELECT a.tenant_id, e.event_id, a.aggregate_type, a.aggregate_id, a.aggregate_version, a.event_hash
      FROM event_anchors a JOIN events e ON e.tenant_id = a.tenant_id AND e.event_type = $2
     WHERE a.aggregate_id = $1
"""


@pytest.fixture
async def cut(database: Database, tenant: TenantId) -> Stream:
    """A chain of four whose first event retention has removed."""
    return await a_chain(database, tenant, YEARS_AGO, NOW, NOW, NOW)


@pytest.mark.parametrize("is_listed", ["RetentionApplied", "TENANT_CREATED", None])
async def test_a_forged_anchor_is_found(
    database: Database, superuser: Superuser, tenant: TenantId, cut: Stream, is_listed: str | None
) -> None:
    await a_chain(database, tenant, YEARS_AGO)
    untouched = await a_chain(database, tenant, NOW, NOW, NOW)
    await run(database, tenant)
    assert await faults(database, tenant) == []

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute(ANCHOR_AT_2, untouched.aggregate_id)
        await superuser.execute("DELETE FROM events WHERE aggregate_id = $1 AND aggregate_version <= 2", untouched[2])
        if is_listed is not None:
            await superuser.execute(LIST_IT, untouched.aggregate_id, is_listed)

    found = await faults(database, tenant)
    assert ("Document", 2, UNVOUCHED) in found
    if is_listed == "RetentionApplied":
        assert ("Tenant", 2, "the anchors listed under it do not have the hash it claims") in found
    async with database.tenant(tenant) as conn:
        of_chain = (await events.verify_chain(conn, untouched)).faults
        assert UNVOUCHED in [fault.says for fault in of_chain]


async def test_an_anchor_moved_on_past_the_rules_is_found(
    database: Database, superuser: Superuser, tenant: TenantId, cut: Stream
) -> None:
    await run(database, tenant)

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute(ANCHOR_AT_2, cut.aggregate_id)
        await superuser.execute("DELETE FROM events WHERE aggregate_id = $1 AND aggregate_version = 2", cut[2])

    assert await faults(database, tenant) == [("Document", 2, UNVOUCHED)]


async def test_a_chain_removed_together_with_its_anchor_is_found_without_a_checkpoint(
    database: Database, superuser: Superuser, tenant: TenantId, cut: Stream
) -> None:
    await run(database, tenant)

    async with superuser.transaction():
        await superuser.execute("SET LOCAL session_replication_role = replica")
        await superuser.execute("DELETE FROM event_anchors WHERE aggregate_id = $1", cut.aggregate_id)
        await superuser.execute("DELETE FROM events WHERE aggregate_id = $1", cut.aggregate_id)

    assert await faults(database, tenant) == [("Document", 1, "the anchor that retention left here is gone")]
    async with database.tenant(tenant) as conn:
        assert [fault.says for fault in (await events.verify_chain(conn, cut)).faults] == [
            "the anchor that retention left here is gone"
        ]


# As jobs ------------------------------------------------------------------------------------------------------------


async def test_the_sweep_gives_every_tenant_its_job_once_and_the_schedule_is_nightly(
    database: Database, tenant: TenantId, other_tenant: TenantId, act: Act
) -> None:
    jobs = retention_jobs(Handlers(), periods=PERIODS)
    async with database.system() as conn:
        inactive = await tenants.by_slug(conn, "rival")
    await tenants.set_active(database, inactive, active=False, act=act)

    async with database.tenant(SYSTEM_TENANT) as conn:
        ran = await run_inline(jobs.sweep, SweepOrder(), tenant=SYSTEM_TENANT, conn=conn)
        assert await conn.fetchval("SELECT current_user::text || current_setting('app.tenant_id')") == (
            f"bpc_app{SYSTEM_TENANT}"
        )
        await schedules.put(conn, SYSTEM_TENANT, nightly())
        [planned] = await schedules.every(conn, SYSTEM_TENANT)

    assert ran.ending is Ending.SUCCEEDED
    for each in (tenant, other_tenant, SYSTEM_TENANT):
        async with database.tenant(each) as conn:
            assert await conn.fetchval("SELECT count(*) FROM jobs.job WHERE type = 'RETENTION'") == 1
    assert (planned.schedule.cron, planned.schedule.type) == ("17 3 * * *", "RETENTION_SWEEP")


async def test_a_worker_goes_through_all_parts(database: Database, tenant: TenantId) -> None:
    handlers = Handlers()
    work = retention_jobs(handlers, periods=PERIODS, size=Size(events=4))
    for _ in range(5):
        await a_chain(database, tenant, YEARS_AGO, YEARS_AGO)

    async with sessions_of(database) as sessions:
        jobs = Jobs(handlers, sessions)
        async with working(jobs):
            sweep = await jobs.submit(work.sweep, SweepOrder(), tenant=SYSTEM_TENANT)
            await until_status(jobs, SYSTEM_TENANT, sweep, Status.SUCCEEDED)
            await _until(database, "SELECT count(*) = 0 FROM jobs.job WHERE status <> 'SUCCEEDED'", tenant)

    said = await applied(database, tenant)
    assert [one["part"] for one in said] == [1, 2, 3]
    assert len({one["run_id"] for one in said}) == 1
    assert await faults(database, tenant) == []


async def test_while_retention_is_paused_nothing_goes(database: Database, tenant: TenantId) -> None:
    jobs = retention_jobs(Handlers(), periods=PERIODS)
    stream = await a_chain(database, tenant, YEARS_AGO)

    for is_paused, left in ((True, [1]), (False, [])):
        async with database.system(SYSTEM_TENANT) as conn:
            await schedules.put(conn, SYSTEM_TENANT, nightly())
            await (schedules.pause if is_paused else schedules.resume)(conn, SYSTEM_TENANT, "retention")
        async with database.tenant(tenant) as conn:
            ran = await run_inline(jobs.part, an_order(), tenant=tenant, conn=conn)
        assert (ran.ending, ran.follow_ups) == (Ending.SUCCEEDED, [])
        assert await versions_of(database, stream) == left


async def test_two_runs_at_once_remove_everything_once(database: Database, tenant: TenantId) -> None:
    for _ in range(10):
        await a_chain(database, tenant, YEARS_AGO, YEARS_AGO)

    found = await asyncio.gather(*[run(database, tenant, size=Size(events=3)) for _ in range(3)])

    assert sum(counts.events for counts in found) == 20
    assert await faults(database, tenant) == []


async def test_events_come_while_others_go(database: Database, tenant: TenantId) -> None:
    streams = [await a_chain(database, tenant, YEARS_AGO, YEARS_AGO) for _ in range(10)]

    async def go_on() -> None:
        for stream in streams * 3:
            async with database.tenant(tenant) as conn:
                await events.append(conn, stream, Act(None, NOW).says("DOCUMENT_CHANGED", {}))

    await asyncio.gather(run(database, tenant, size=Size(events=2)), go_on())

    assert await faults(database, tenant) == []
    for stream in streams:
        assert await versions_of(database, stream) == [3, 4, 5]


async def test_a_part_that_is_interrupted_leaves_nothing_and_is_done_again(
    database: Database, superuser: Superuser, tenant: TenantId
) -> None:
    for number in range(6):
        await a_chain(database, tenant, *[YEARS_AGO + timedelta(seconds=number)] * 2)
    order = an_order()
    first = await part(database, tenant, order, Size(events=4))
    assert first.following is not None

    with pytest.raises(Exception):  # noqa: B017, PT011 (whatever the driver says of a connection that is gone)
        async with database.system(tenant) as conn:
            await apply(conn, tenant, first.following, act=Act(None, NOW), size=Size(events=4))
            await superuser.execute("SELECT pg_terminate_backend($1)", await conn.fetchval("SELECT pg_backend_pid()"))
            await conn.execute("SELECT 1")

    assert await faults(database, tenant) == []
    assert len(await applied(database, tenant)) == 1
    rest = await run(database, tenant, first.following, size=Size(events=4))
    assert first.counts.events + rest.events == 12
    assert await faults(database, tenant) == []


async def work(address: dict[str, Any], tenant: str) -> None:
    """A run in tiny parts, as a process of its own."""
    database = await open_database(Address(**address), pool_size=1)
    await run(database, TenantId(UUID(tenant)), size=Size(events=2))


async def test_a_run_that_is_killed_leaves_what_it_did_on_record_and_the_next_goes_on(
    database: Database, tenant: TenantId
) -> None:
    count = 200
    chains = [await a_chain(database, tenant, *[YEARS_AGO + timedelta(seconds=number)] * 2) for number in range(count)]
    given = {field.name: getattr(database.address, field.name) for field in fields(database.address)}
    program = f"import asyncio; from {__name__} import work; asyncio.run(work({given!r}, '{tenant}'))"
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    try:
        async with asyncio.timeout(60):
            while len(await applied(database, tenant)) < 3:
                await asyncio.sleep(0.005)
    finally:
        running.kill()
        await running.wait()

    done = sum(one["counts"]["events"] for one in await applied(database, tenant))
    left = [stream for stream in chains if await versions_of(database, stream)]
    assert 0 < done < 2 * count
    assert len(left) == count - done // 2
    assert await faults(database, tenant) == []
    assert (await run(database, tenant)).events == 2 * count - done
    assert await faults(database, tenant) == []


async def test_a_long_chain_and_many_short_ones_go_in_bounded_transactions(
    database: Database, superuser: Superuser, tenant: TenantId, measured: Measured
) -> None:
    count = effort(test=2_000, shown=20_000, campaign=200_000)
    await _filled(superuser, tenant, count)

    began, longest, removed = time.monotonic(), 0.0, 0
    following: RetentionOrder | None = an_order()
    while following is not None:
        started = time.monotonic()
        done = await part(database, tenant, following)
        longest, removed = max(longest, time.monotonic() - started), removed + done.counts.events
        following = done.following
    seconds = time.monotonic() - began

    assert removed == count
    assert longest < allowed(5.0)
    measured(
        "retention",
        events=count,
        seconds=round(seconds, 2),
        events_per_second=round(count / seconds),
        longest_transaction_seconds=round(longest, 2),
    )


async def _filled(superuser: Superuser, tenant: TenantId, count: int) -> None:
    """Half of the events in one chain, the others in chains of four; hashes of no meaning."""
    await superuser.execute(
        """
        INSERT INTO events (tenant_id, event_id, aggregate_type, aggregate_id, aggregate_version, event_type,
                            occurred_at, payload, payload_canonical, payload_hash, prev_event_hash, event_hash)
        SELECT $1, gen_random_uuid(), 'Document', md5((CASE WHEN n <= $2 / 2 THEN 0 ELSE (n - 1) / 4 END)::text)::uuid,
               CASE WHEN n <= $2 / 2 THEN n ELSE (n - 1) % 4 + 1 END, 'DOCUMENT_CHANGED',
               $3::timestamptz + n * interval '1 second', '{}', '{}', sha256('{}'), NULL, sha256(n::text::bytea)
          FROM generate_series(1, $2::bigint) AS n
        """,
        tenant,
        count,
        YEARS_AGO - timedelta(days=3650),
    )
    await superuser.execute("ANALYZE events")


async def grown_old(database: Database, table: str, column: str, id_of_row: UUID) -> None:
    """Move a row into the past, as only who passes every rule can."""
    keys = {"document_versions": "document_version_id", "passport_versions": "passport_version_id"}
    conn = await asyncpg.connect(**database.address.connect_arguments())
    try:
        await conn.execute("SET ROLE bpc_owner")
        await conn.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        await conn.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        await conn.execute(f"UPDATE {table} SET {column} = $2 WHERE {keys[table]} = $1", id_of_row, YEARS_AGO)
        await conn.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        await conn.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    finally:
        await conn.close()


async def _until(database: Database, question: str, tenant: TenantId) -> None:
    async with asyncio.timeout(20):
        while True:
            async with database.tenant(tenant) as conn:
                if await conn.fetchval(question):
                    return
            await asyncio.sleep(0.02)
