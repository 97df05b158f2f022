"""Specification of issuing at once: the same row and events as by three jobs, or the jobs."""

from dataclasses import dataclass, replace
from itertools import pairwise

import asyncpg
import pytest
from service_jobs.job import Ending

from bpc.core.audit.events import Act
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.core.passport.receipt import read_receipt
from bpc.pipeline.compile_order import CompileOrder
from bpc.pipeline.quick_signing import QUICK_SECONDS, REMEMBERED_SIGNATURES, QuickSigning
from bpc.pipeline.replay import replay
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.storage.database import Database
from bpc.storage.passports import passport_versions
from bpc.storage.webhooks import endpoints
from tests.pipeline.compile_fixtures import (
    KEY_ID,
    SIGNER,
    CompileInputs,
    PipelineRunner,
    list_event_types,
    make_compile_order,
    make_runner,
    run_compile,
    run_qr,
    run_sign,
)

EVENTS = ["PASSPORT_COMPILED", "PASSPORT_SIGNED", "QR_GENERATED"]
SELECT_ROW = """
    SELECT v.*, s.state AS status_entry FROM passport_versions v
      LEFT JOIN status_entries s ON s.tenant_id = v.tenant_id AND s.passport_version_id = v.passport_version_id
     WHERE v.passport_version_id = $1
"""
SELECT_PAYLOADS = """
    SELECT event_type, payload_canonical FROM events WHERE aggregate_id = $1 ORDER BY aggregate_version
"""


@dataclass(frozen=True, slots=True)
class SlowKeyRing(KeyRing):
    """A key ring whose keys take their time."""

    @property
    def provider_seconds(self) -> float:
        return 2 * QUICK_SECONDS


@dataclass(frozen=True, slots=True)
class BrokenKeyRing(KeyRing):
    """A key ring that does not answer."""

    async def sign(self, kind: str, document: bytes) -> bytes:
        raise ConnectionError("the key store does not answer")


async def order_version(database: Database, tenant: TenantId, inputs: CompileInputs, act: Act) -> CompileOrder:
    async with database.tenant(tenant) as conn:
        return await make_compile_order(conn, tenant, inputs, act)


async def load_row(superuser: "asyncpg.Connection[asyncpg.Record]", version: PassportVersionId) -> dict[str, object]:
    """The row of a version, and what its events say; all but the times of the events."""
    row = await superuser.fetchrow(SELECT_ROW, version)
    assert row is not None
    return {**row, "events": [tuple(event) for event in await superuser.fetch(SELECT_PAYLOADS, version)]}


async def test_a_version_issued_at_once_has_the_row_and_the_events_of_one_that_three_jobs_issued(
    database: Database,
    runner: PipelineRunner,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    order = await order_version(database, tenant, inputs, act)
    version = order.passport_version_id
    await run_compile(runner, tenant, order)
    await run_sign(runner, tenant, version)
    await run_qr(runner, tenant, version)
    by_jobs = await load_row(superuser, version)
    await superuser.execute("SET session_replication_role = replica")
    for table in ("status_entries", "passport_versions"):
        await superuser.execute(f"DELETE FROM {table} WHERE passport_version_id = $1", version)
    for table in ("events", "log_outbox"):
        await superuser.execute(f"DELETE FROM {table} WHERE aggregate_id = $1", version)
    await superuser.execute("RESET session_replication_role")

    ran = await run_compile(await make_runner(database, act, sign_at_once=True), tenant, order)
    at_once = await load_row(superuser, version)

    assert (ran.ending, ran.output.sign_job_id, ran.follow_ups) == (Ending.SUCCEEDED, None, [])
    assert at_once == by_jobs
    assert [event_type for event_type, _ in at_once["events"]] == EVENTS  # type: ignore[attr-defined]
    async with database.tenant(tenant) as conn:
        assert (await replay(conn, tenant, version, act=Act(None, clock.now()))).refusal is None


async def test_its_events_are_in_their_order_by_time_too(
    database: Database,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    order = await order_version(database, tenant, inputs, act)

    await run_compile(await make_runner(database, act, sign_at_once=True), tenant, order)

    times = await superuser.fetch(
        "SELECT occurred_at FROM events WHERE aggregate_id = $1 ORDER BY aggregate_version", order.passport_version_id
    )
    assert [later["occurred_at"] > earlier["occurred_at"] for earlier, later in pairwise(times)] == [True, True]


async def test_who_wants_to_know_hears_of_the_signature_and_of_the_code(
    database: Database, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        issued = await endpoints.create_endpoint(conn, tenant, url="https://example.org/heard", act=act)
        for event_type in ("passport.version.signed", "passport.version.ready"):
            await endpoints.subscribe(conn, tenant, issued.webhook_endpoint_id, event_type, act=act)
    order = await order_version(database, tenant, inputs, act)

    await run_compile(await make_runner(database, act, sign_at_once=True), tenant, order)

    async with database.tenant(tenant) as conn:
        rows = await conn.fetch(
            """SELECT e.event_type, d.status::text, j.type FROM webhook_deliveries d
                 JOIN events e ON e.tenant_id = d.tenant_id AND e.event_id = d.event_id
                 JOIN jobs.job j ON j.tenant_id = d.tenant_id
                  AND j.idempotency_key = 'webhook:' || d.webhook_delivery_id ORDER BY e.aggregate_version"""
        )
    assert [tuple(row) for row in rows] == [
        (event_type, "PENDING", "DELIVER_WEBHOOK") for event_type in ("PASSPORT_SIGNED", "QR_GENERATED")
    ]


async def test_a_version_that_is_to_be_activated_gets_the_job_that_activates_it(
    database: Database, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    order = replace(await order_version(database, tenant, inputs, act), activate=True)

    ran = await run_compile(await make_runner(database, act, sign_at_once=True), tenant, order)

    [activation] = ran.follow_ups
    assert (activation.handler.type, activation.key, activation.job_id) == (
        "ACTIVATE_PASSPORT",
        f"activate:{order.passport_version_id}",
        ran.output.activate_job_id,
    )


@pytest.mark.parametrize("at_hand", ["none", "broken", "retired"])
async def test_without_a_signature_the_version_waits_for_the_job_that_signs_it(
    database: Database,
    tenant: TenantId,
    inputs: CompileInputs,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    at_hand: str,
) -> None:
    runner = await make_runner(database, act, signer=None if at_hand == "none" else SIGNER, sign_at_once=True)
    if at_hand == "broken":
        runner = await make_runner(database, act, key_ring=BrokenKeyRing({KEY_ID: SIGNER}), sign_at_once=True)
    if at_hand == "retired":
        await superuser.execute("UPDATE signing_keys SET status = 'RETIRED', retired_at = now()")
    order = await order_version(database, tenant, inputs, act)
    version = order.passport_version_id

    ran = await run_compile(runner, tenant, order)

    assert [wish.handler.type for wish in ran.follow_ups] == ["SIGN_PASSPORT"]
    assert (ran.output.sign_job_id, ran.output.qr_payload) == (ran.follow_ups[0].job_id, None)
    assert await list_event_types(database, tenant, "PassportVersion", version) == ["PASSPORT_COMPILED"]
    async with database.tenant(tenant) as conn:
        assert (await passport_versions.get_version(conn, tenant, version)).status == "COMPILING"


async def test_signatures_that_come_slowly_are_left_to_jobs(
    database: Database, tenant: TenantId, inputs: CompileInputs, act: Act
) -> None:
    order = await order_version(database, tenant, inputs, act)
    await run_compile(await make_runner(database, act), tenant, order)
    async with database.tenant(tenant) as conn:
        stored = await passport_versions.load_bytes(conn, tenant, order.passport_version_id)
    signing = QuickSigning(SlowKeyRing({KEY_ID: SIGNER}))

    signed = [await signing.sign(stored.receipt, SIGNER.public_key) for _ in range(REMEMBERED_SIGNATURES + 1)]

    assert signed[-1] is None
    for each in signed[:-1]:
        assert each is not None
        read_receipt(each.encoded).verify(SIGNER.public_key)
