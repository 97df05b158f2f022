"""Specification of retention: only expired data is removed, and the rest still verifies."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from bpc.core.audit.checkpoint import Checkpoint, find_missing_events
from bpc.core.audit.events import Act, ChainHead, EventStream
from bpc.core.errors import NotFound
from bpc.core.formats.ids import AggregateId, DocumentVersionId, PassportVersionId, TenantId
from bpc.core.passport.bundle import write_bundle
from bpc.core.verify.bundle import verify_bundle
from bpc.pipeline.activate import activate
from bpc.pipeline.replay import replay
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.audit import events, retention
from bpc.storage.database import Database
from bpc.storage.evidence import documents
from bpc.storage.passports import exports, passport_versions
from bpc.tasks.retention import (
    Cutoffs,
    PartSize,
    RemovedCounts,
    RetentionOrder,
)
from tests.pipeline import compile_fixtures
from tests.pipeline.compile_fixtures import make_runner, sign_version
from tests.storage import evidence_rows, rows
from tests.storage.access_and_job_rows import insert_webhook
from tests.storage.statements import insert_row
from tests.tasks.retention_fixtures import (
    CUTOFF,
    NOW,
    SETTINGS,
    YEARS_AGO,
    Superuser,
    age_row,
    append_chain,
    find_faults,
    list_versions,
    make_order,
    read_applied_events,
    run_all_parts,
    run_part,
)


async def test_the_rest_of_a_chain_verifies_after_its_first_events_are_removed(
    database: Database, tenant: TenantId
) -> None:
    old, newer = (
        await append_chain(database, tenant, *[YEARS_AGO] * 3),
        await append_chain(database, tenant, YEARS_AGO, NOW),
    )

    counts = await run_all_parts(database, tenant)

    assert counts == RemovedCounts(events=4, anchors=2)
    assert await list_versions(database, old) == []
    assert await list_versions(database, newer) == [2]
    assert await find_faults(database, tenant) == []
    async with database.tenant(tenant) as conn:
        for stream in (old, newer):
            await events.append(conn, stream, Act(None, NOW).new_event("DOCUMENT_CHANGED", {}))
    assert await list_versions(database, old) == [4]
    assert await find_faults(database, tenant) == []


async def test_only_events_before_the_first_one_that_stays_are_removed(database: Database, tenant: TenantId) -> None:
    # Clocks go back: a chain's times need not be in the order of its versions.
    mixed = await append_chain(database, tenant, YEARS_AGO, NOW, YEARS_AGO, YEARS_AGO)
    first_is_new = await append_chain(database, tenant, NOW, YEARS_AGO)
    at_the_cutoff = await append_chain(database, tenant, CUTOFF - timedelta(microseconds=1), CUTOFF)

    await run_all_parts(database, tenant)

    assert await list_versions(database, mixed) == [2, 3, 4]
    assert await list_versions(database, first_is_new) == [1, 2]
    assert await list_versions(database, at_the_cutoff) == [2]
    assert await find_faults(database, tenant) == []


async def test_the_tenants_own_chain_is_never_cut(database: Database, superuser: Superuser) -> None:
    tenant = await tenants_and_actors.create_tenant(database, slug="old-one", name="Old One", act=Act(None, YEARS_AGO))

    counts = await run_all_parts(database, tenant)

    assert counts.events == 3  # of its three roles
    chain = EventStream(tenant, "Tenant", AggregateId(tenant))
    assert await list_versions(database, chain) == [1, 2]
    with pytest.raises(asyncpg.PostgresError, match="the chain of a tenant is never cut"):
        await superuser.execute(
            "INSERT INTO event_anchors SELECT tenant_id, aggregate_type, aggregate_id, aggregate_version, event_hash"
            " FROM events WHERE aggregate_id = $1 AND aggregate_version = 1",
            tenant,
        )


async def test_retention_removes_only_the_content_of_documents(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        old, new = [await evidence_rows.insert_document_version(conn, tenant, status="VALIDATED") for _ in range(2)]
        await insert_row(conn, "document_texts", tenant_id=tenant, document_version_id=old, pages=1, text="x")
    await age_row(database, "document_versions", "uploaded_at", old)
    async with database.tenant(tenant) as conn:
        before = await documents.get_document_version(conn, tenant, DocumentVersionId(old))

    counts = await run_all_parts(database, tenant)

    assert counts == RemovedCounts(document_versions=1)
    async with database.tenant(tenant) as conn:
        after = await documents.get_document_version(conn, tenant, DocumentVersionId(old))
        assert (await documents.load_content(conn, tenant, DocumentVersionId(old))).content is None
        assert (await documents.load_content(conn, tenant, DocumentVersionId(new))).content is not None
        assert await conn.fetchval("SELECT count(*) FROM document_texts") == 0
    assert after.content_removed_at is not None
    assert after == replace(before, size=None, content_removed_at=after.content_removed_at)


@pytest.mark.parametrize("status", ["COMPILING", "SIGNED", "ACTIVE", "SUPERSEDED", "REVOKED"])
async def test_only_passport_versions_that_ended_before_the_cutoff_are_removed(
    database: Database, tenant: TenantId, status: str
) -> None:
    await rows.insert_signing_keys(database)
    ended = {"SUPERSEDED": "superseded_at", "REVOKED": "revoked_at"}.get(status)
    async with database.tenant(tenant) as conn:
        at: dict[str, Any] = {} if ended is None else {ended: YEARS_AGO}
        version = await rows.insert_passport_version(conn, tenant, status=status, **at)
        stream = EventStream(tenant, "PassportVersion", AggregateId(version))
        await events.append(conn, stream, Act(None, YEARS_AGO).new_event("PASSPORT_COMPILED", {}))
    await age_row(database, "passport_versions", "created_at", version)

    counts = await run_all_parts(database, tenant)

    async with database.tenant(tenant) as conn:
        is_there = await conn.fetchval("SELECT count(*) FROM passport_versions WHERE passport_version_id = $1", version)
    # Its chain is part of its evidence, and stays as long as it does.
    assert is_there == (0 if ended else 1)
    assert await list_versions(database, stream) == ([] if ended else [1])
    assert counts == (RemovedCounts(passport_versions=1, events=1, anchors=1) if ended else RemovedCounts())
    payloads = [one["passport_version_ids"] for one in await read_applied_events(database, tenant)]
    assert payloads == ([[str(version)]] if ended else [])
    assert await find_faults(database, tenant) == []


@pytest.mark.parametrize("given_up_at", [YEARS_AGO, NOW])
async def test_a_version_that_was_given_up_is_removed_like_one_that_ended(
    database: Database, tenant: TenantId, given_up_at: datetime
) -> None:
    async with database.tenant(tenant) as conn:
        kept = await rows.insert_passport_version(conn, tenant, status="COMPILING")
        version = await rows.insert_passport_version(conn, tenant, status="COMPILING")
        await passport_versions.set_abandoned(conn, tenant, PassportVersionId(version), at=given_up_at, reason="lost")
        stream = EventStream(tenant, "PassportVersion", AggregateId(version))
        await events.append(conn, stream, Act(None, YEARS_AGO).new_event("PASSPORT_COMPILED", {}))
    for each in (kept, version):
        await age_row(database, "passport_versions", "created_at", each)
    is_old = given_up_at is YEARS_AGO

    async with database.tenant(tenant) as conn:
        periods = {"documents": CUTOFF, "passports": CUTOFF, "exports": CUTOFF, "events": CUTOFF}
        expected = await retention.count_removable(conn, tenant, **periods)
    counts = await run_all_parts(database, tenant)

    assert counts == (RemovedCounts(passport_versions=1, events=1, anchors=1) if is_old else RemovedCounts())
    assert RemovedCounts(**expected) == counts
    async with database.tenant(tenant) as conn:
        left = {row[0] for row in await conn.fetch("SELECT passport_version_id FROM passport_versions")}
    assert left == ({kept} if is_old else {kept, version})
    assert await list_versions(database, stream) == ([] if is_old else [1])
    assert await find_faults(database, tenant) == []


async def test_an_active_version_still_replays_and_its_bundle_verifies(
    database: Database, tenant: TenantId, act: Act
) -> None:
    runner = await make_runner(database, act)
    async with database.tenant(tenant) as conn:
        inputs = await compile_fixtures.create_compile_inputs(conn, tenant, act)
    before, current = [await sign_version(runner, tenant, inputs, act) for _ in range(2)]
    async with database.tenant(tenant) as conn:
        for version in (before, current):
            await activate(conn, tenant, version, act=act)

    counts = await run_all_parts(database, tenant, make_order(clock.now() + timedelta(days=1)))

    assert (counts.passport_versions, counts.document_versions > 0) == (1, True)
    async with database.tenant(tenant) as conn:
        assert (await replay(conn, tenant, current, act=Act(None, clock.now()))).refusal is None
        bundle_bytes = write_bundle(await exports.load_bundle(conn, tenant, current))
        with pytest.raises(NotFound):
            await exports.load_bundle(conn, tenant, before)
    assert verify_bundle(bundle_bytes).ok
    assert await find_faults(database, tenant) == []


async def test_a_version_that_was_superseded_long_ago_and_revoked_since_stays(
    database: Database, tenant: TenantId
) -> None:
    await rows.insert_signing_keys(database)
    async with database.tenant(tenant) as conn:
        await rows.insert_passport_version(conn, tenant, status="REVOKED", superseded_at=YEARS_AGO, revoked_at=NOW)

    assert await run_all_parts(database, tenant) == RemovedCounts()


async def test_deliveries_are_removed_with_their_events(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        for moment in (YEARS_AGO, NOW):
            stream = EventStream(tenant, "Document", AggregateId(clock.new_id()))
            event = await events.append(conn, stream, Act(None, moment).new_event("DOCUMENT_CREATED", {}))
            await insert_webhook(conn, tenant, event.event_id)

    counts = await run_all_parts(database, tenant)

    assert counts == RemovedCounts(events=1, webhook_deliveries=1, anchors=1)
    async with database.tenant(tenant) as conn:
        assert await conn.fetchval("SELECT count(*) FROM webhook_deliveries") == 1


async def test_other_tenants_are_untouched(database: Database, tenant: TenantId, other_tenant: TenantId) -> None:
    theirs = await append_chain(database, other_tenant, YEARS_AGO, YEARS_AGO)
    async with database.tenant(other_tenant) as conn:
        version = await evidence_rows.insert_document_version(conn, other_tenant)
    await age_row(database, "document_versions", "uploaded_at", version)

    assert await run_all_parts(database, tenant) == RemovedCounts()

    assert await list_versions(database, theirs) == [1, 2]
    assert await find_faults(database, other_tenant) == []


async def test_exports_are_removed_with_their_jobs_and_their_version_stays(
    database: Database, tenant: TenantId
) -> None:
    await rows.insert_signing_keys(database)
    old = NOW - timedelta(days=15)
    async with database.tenant(tenant) as conn:
        version = await rows.insert_passport_version(conn, tenant, status="SIGNED")
        for status in ("READY", "FAILED", "READY"):
            await rows.insert_export(conn, tenant, version=version, status=status, created_at=old, finished_at=old)
        pending = await rows.insert_export(conn, tenant, version=version, created_at=old)
        recent = await rows.insert_export(conn, tenant, version=version, status="READY", created_at=old)
    order = RetentionOrder(run_id=clock.new_id(), cutoffs=Cutoffs.from_settings(SETTINGS, NOW))

    async with database.system(tenant) as conn:
        before = order.cutoffs
        counted = await retention.count_removable(
            conn,
            tenant,
            documents=before.document_versions,
            passports=before.passport_versions,
            exports=before.passport_exports,
            events=before.events,
        )
    counts = await run_all_parts(database, tenant, order, size=PartSize(exports=2))

    assert counts == RemovedCounts(passport_exports=3) == RemovedCounts(**counted)
    assert [payloads["counts"]["passport_exports"] for payloads in await read_applied_events(database, tenant)] == [
        2,
        1,
    ]
    async with database.tenant(tenant) as conn:
        left = await conn.fetch("SELECT export_id FROM passport_exports WHERE tenant_id = $1", tenant)
        assert await conn.fetchval("SELECT count(*) FROM passport_versions WHERE tenant_id = $1", tenant) == 1
    assert {row["export_id"] for row in left} == {pending, recent}


# On record ----------------------------------------------------------------------------------------------------------


async def test_each_part_records_counts_and_cutoffs_and_an_empty_part_records_nothing(
    database: Database, tenant: TenantId
) -> None:
    await append_chain(database, tenant, YEARS_AGO, YEARS_AGO)
    order = make_order()

    await run_all_parts(database, tenant, order)
    assert await run_all_parts(database, tenant) == RemovedCounts()

    [payloads] = await read_applied_events(database, tenant)
    assert (payloads["run_id"], payloads["part"]) == (str(order.run_id), 1)
    assert set(payloads["cutoffs"]) == {"document_versions", "events", "passport_exports", "passport_versions"}
    assert payloads["counts"] == {
        "document_versions": 0,
        "passport_versions": 0,
        "passport_exports": 0,
        "events": 2,
        "webhook_deliveries": 0,
        "anchors": 1,
    }


async def test_small_parts_remove_the_same_and_the_chains_verify_after_each_part(
    database: Database, tenant: TenantId
) -> None:
    step = timedelta(seconds=1)
    for number in range(7):
        await append_chain(database, tenant, *[YEARS_AGO + number * step, YEARS_AGO, YEARS_AGO + 20 * step, NOW])
    same_moment = await append_chain(database, tenant, *[YEARS_AGO] * 12)
    following: RetentionOrder | None = make_order()

    total, parts = RemovedCounts(), 0
    while following is not None:
        done = await run_part(database, tenant, following, PartSize(events=5))
        total, parts, following = total + done.counts, parts + 1, done.next_order
        assert done.counts.events <= 15
        assert await find_faults(database, tenant) == []

    assert parts >= 7
    assert total.events == 7 * 3 + 12
    assert await list_versions(database, same_moment) == []


async def test_a_later_run_moves_the_anchors_and_lists_them(database: Database, tenant: TenantId) -> None:
    stream = await append_chain(database, tenant, YEARS_AGO, CUTOFF + timedelta(days=1), NOW)

    await run_all_parts(database, tenant)
    assert await list_versions(database, stream) == [2, 3]
    await run_all_parts(database, tenant, make_order(CUTOFF + timedelta(days=2)))

    assert await list_versions(database, stream) == [3]
    assert await find_faults(database, tenant) == []
    async with database.tenant(tenant) as conn:
        assert (await events.verify_chain(conn, stream)).faults == ()
        assert await conn.fetchval("SELECT count(*) FROM retention_anchors") == 2


async def test_a_checkpoint_taken_before_still_verifies(database: Database, tenant: TenantId) -> None:
    stream = await append_chain(database, tenant, YEARS_AGO, YEARS_AGO, CUTOFF + timedelta(days=1))
    async with database.tenant(tenant) as conn:
        first_checkpoint = Checkpoint(tenant_id=tenant, taken_at=NOW, heads=await events.load_heads(conn, tenant))
        early = Checkpoint(
            tenant_id=tenant,
            taken_at=NOW,
            heads={stream: ChainHead(2, (await events.read_chain(conn, stream))[1].event.event_hash)},
        )

    await run_all_parts(database, tenant)
    await run_all_parts(database, tenant, make_order(CUTOFF + timedelta(days=2)))

    async with database.tenant(tenant) as conn:
        now = await events.load_heads(conn, tenant)
        for checkpoint in (first_checkpoint, early):
            assert (
                find_missing_events(checkpoint, now, await events.load_hashes_at(conn, tenant, checkpoint.heads)) == []
            )
        # The anchor has moved on, and where it was before is still known.
        other = replace(early, heads={stream: ChainHead(2, first_checkpoint.heads[stream].event_hash)})
        missing_heads = find_missing_events(other, now, await events.load_hashes_at(conn, tenant, other.heads))
    assert [fault.says for fault in missing_heads] == ["the checkpoint saw another event here"]
