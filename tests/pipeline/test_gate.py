"""Specification of the gate before Activate: what blocks, what a waiver changes, and what is on record."""

import json
from typing import Any

import asyncpg
import pytest
from service_jobs.job import Ending
from service_jobs.testing import run_inline

from bpc.core.audit.events import Act, EventStream
from bpc.core.errors import Conflict, Invalid
from bpc.core.formats.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.passport.gate import ComplianceBlocked, EntryName
from bpc.pipeline.activate import ActivateOrder, activate, revoke
from bpc.pipeline.gate import waive
from bpc.storage.access import tenant_settings
from bpc.storage.audit import events
from bpc.storage.database import Database
from bpc.storage.passports import passport_versions, passports, products, waivers
from tests.pipeline.compile_fixtures import (
    RULES,
    SKU,
    CompileInputs,
    PipelineRunner,
    compile_version,
    create_sealed_snapshot,
    publish_rules,
    sign_version,
)
from tests.pipeline.passport_subject import load_subject_payload

CHECKS = b"""
field checks.recycled @public: Bool = emitCompliance("R1", "FAIL", "no recycled share is known");
field checks.report @authority: Bool =
  emitCompliance("T1", "FAIL", "no test report") || emitCompliance("T1", "WARN", "no report number");
field checks.name @public: Bool = emitCompliance("N1", "WARN", "the name is short");
"""
R1, T1, N1 = EntryName("R1", "checks.recycled"), EntryName("T1", "checks.report"), EntryName("N1", "checks.name")


@pytest.fixture
async def failing_inputs(database: Database, tenant: TenantId, act: Act) -> CompileInputs:
    """What compiles to a passport with two FAIL and two WARN entries."""
    async with database.tenant(tenant) as conn:
        product = await products.create_product(conn, tenant, sku=SKU, name="Cell", act=act)
        passport = await passports.create_passport(conn, tenant, product.battery_product_id, act=act)
        return CompileInputs(
            passport=passport.passport_id,
            snapshot=await create_sealed_snapshot(conn, tenant),
            rules=await publish_rules(conn, tenant, act, RULES + CHECKS),
        )


@pytest.fixture
async def version(
    runner: PipelineRunner, tenant: TenantId, failing_inputs: CompileInputs, act: Act
) -> PassportVersionId:
    return await sign_version(runner, tenant, failing_inputs, act)


async def activate_version(database: Database, tenant: TenantId, version: PassportVersionId, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        await activate(conn, tenant, version, act=act)


async def waive_entries(
    database: Database, tenant: TenantId, version: PassportVersionId, *names: EntryName, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        await waive(conn, tenant, version, names, reason="It is not due yet.", act=act)


async def set_blocker(database: Database, tenant: TenantId, blocker: str, act: Act) -> None:
    async with database.tenant(tenant) as conn:
        await tenant_settings.change_settings(conn, tenant, {"activation_blocked_by": blocker}, act=act)


async def read_events(database: Database, tenant: TenantId, version: PassportVersionId) -> list[tuple[str, Any]]:
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, EventStream(tenant, "PassportVersion", AggregateId(version)))
    return [(stored.event.event_type, json.loads(stored.event.payload_canonical)) for stored in chain]


async def test_a_version_with_an_entry_fail_stays_signed_and_every_entry_is_named(
    database: Database, tenant: TenantId, version: PassportVersionId, act: Act
) -> None:
    with pytest.raises(ComplianceBlocked) as refusal:
        await activate_version(database, tenant, version, act)

    entries: Any = refusal.value.details["entries"]
    assert [(entry["code"], entry["field"], entry["status"]) for entry in entries] == [
        ("R1", "checks.recycled", "FAIL"),
        ("T1", "checks.report", "FAIL"),
    ]
    async with database.tenant(tenant) as conn:
        row = await passport_versions.get_version(conn, tenant, version)
    assert (row.status, row.has_qr, row.fail_count, row.warn_count, row.waived_count) == ("SIGNED", True, 2, 2, 0)


async def test_what_is_waived_no_longer_blocks_and_the_event_says_all_of_it(
    database: Database, tenant: TenantId, version: PassportVersionId, act: Act
) -> None:
    await waive_entries(database, tenant, version, R1, act=act)
    with pytest.raises(ComplianceBlocked) as refusal:
        await activate_version(database, tenant, version, act)
    await waive_entries(database, tenant, version, T1, act=act)

    await activate_version(database, tenant, version, act)

    entries: Any = refusal.value.details["entries"]
    assert [entry["code"] for entry in entries] == ["T1"]
    recorded = await read_events(database, tenant, version)
    async with database.tenant(tenant) as conn:
        rows = await waivers.load_waivers(conn, tenant, version)
    described = [
        {"waiver_id": str(row.waiver_id), "code": row.code, "field": row.field, "entries": row.entries} for row in rows
    ]
    async with database.tenant(tenant) as conn:
        passport = (await passport_versions.get_version(conn, tenant, version)).passport_id
    subject = await load_subject_payload(database, tenant, passport)
    assert [(name, payload) for name, payload in recorded if name == "PASSPORT_WAIVED"] == [
        ("PASSPORT_WAIVED", {"reason": "It is not due yet.", "waived": [waiver], **subject}) for waiver in described
    ]
    assert [(waiver["code"], waiver["entries"]) for waiver in described] == [("R1", 1), ("T1", 2)]
    assert recorded[-1] == (
        "PASSPORT_ACTIVATED",
        {
            "superseded_passport_version_id": None,
            "activation_blocked_by": "FAIL",
            "fail_count": 2,
            "warn_count": 2,
            "finding_fail_count": 0,
            "finding_warn_count": 0,
            "waived": described,
            **subject,
        },
    )


async def test_the_next_version_is_blocked_again(
    database: Database,
    runner: PipelineRunner,
    tenant: TenantId,
    failing_inputs: CompileInputs,
    version: PassportVersionId,
    act: Act,
) -> None:
    await waive_entries(database, tenant, version, R1, T1, act=act)
    await activate_version(database, tenant, version, act)

    following = await sign_version(runner, tenant, failing_inputs, act)

    with pytest.raises(ComplianceBlocked):
        await activate_version(database, tenant, following, act)
    async with database.tenant(tenant) as conn:
        assert await passport_versions.find_active_version(conn, tenant, failing_inputs.passport) == version


async def test_the_setting_in_force_decides_and_active_versions_stay_active(
    database: Database, runner: PipelineRunner, tenant: TenantId, failing_inputs: CompileInputs, act: Act
) -> None:
    first, second = [await sign_version(runner, tenant, failing_inputs, act) for _ in range(2)]
    await set_blocker(database, tenant, "NOTHING", act)
    await activate_version(database, tenant, first, act)

    await set_blocker(database, tenant, "FAIL_AND_WARN", act)

    with pytest.raises(ComplianceBlocked) as refusal:
        await activate_version(database, tenant, second, act)
    entries: Any = refusal.value.details["entries"]
    assert sorted(entry["status"] for entry in entries) == ["FAIL", "FAIL", "WARN", "WARN"]
    async with database.tenant(tenant) as conn:
        assert (await passport_versions.get_version(conn, tenant, first)).status == "ACTIVE"
    assert (await read_events(database, tenant, first))[-1][1]["activation_blocked_by"] == "NOTHING"


async def test_entries_that_do_not_exist_or_are_waived_already_are_all_named(
    database: Database, tenant: TenantId, version: PassportVersionId, act: Act
) -> None:
    await waive_entries(database, tenant, version, N1, act=act)

    with pytest.raises(Invalid) as refusal:
        await waive_entries(database, tenant, version, EntryName("R1", "checks.report"), N1, R1, act=act)

    assert "`R1` of field `checks.report`" in refusal.value.says
    problems: Any = refusal.value.details["problems"]
    assert [(problem["code"], problem["field"]) for problem in problems] == [("N1", "checks.name")]
    async with database.tenant(tenant) as conn:
        assert [row.name for row in await waivers.load_waivers(conn, tenant, version)] == [N1]


async def test_only_a_version_that_is_not_activated_yet_has_entries_to_waive(
    database: Database, runner: PipelineRunner, tenant: TenantId, failing_inputs: CompileInputs, act: Act
) -> None:
    compiling = await compile_version(runner, tenant, failing_inputs, act)
    active, revoked = [await sign_version(runner, tenant, failing_inputs, act) for _ in range(2)]
    await waive_entries(database, tenant, compiling, R1, act=act)
    await waive_entries(database, tenant, active, R1, T1, act=act)
    await activate_version(database, tenant, active, act)
    async with database.tenant(tenant) as conn:
        await revoke(conn, tenant, revoked, reason="wrong", act=act)

    for version in (active, revoked):
        with pytest.raises(Conflict, match="not activated yet"):
            await waive_entries(database, tenant, version, N1, act=act)


async def test_the_activation_at_the_end_of_a_bulk_compile_fails_with_the_same_code(
    runner: PipelineRunner, tenant: TenantId, version: PassportVersionId
) -> None:
    order = ActivateOrder(passport_version_id=version, actor_id=None)
    async with runner.database.tenant(tenant) as conn:
        ran = await run_inline(runner.pipeline_jobs.activate, order, tenant=tenant, conn=conn)

    assert ran.ending is Ending.FAILED
    assert ran.error is not None
    assert ran.error.code == "COMPLIANCE_BLOCKED"


@pytest.mark.parametrize(
    "message",
    [r"is\u0000", r"is C:\\u0000", r"is C:\\\u0000", r"ends with \\"],
    ids=["an escape", "a text after a backslash", "an escape after a backslash", "a backslash"],
)
async def test_versions_of_an_earlier_build_are_counted_and_blocked_too(
    message: str,
    database: Database,
    tenant: TenantId,
    version: PassportVersionId,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        """UPDATE passport_versions SET fail_count = NULL, warn_count = NULL, payload_canonical = convert_to(
                  replace(convert_from(payload_canonical, 'UTF8'), 'is short', $1), 'UTF8')""",
        message,
    )

    async with database.tenant(tenant) as conn:
        row = await passport_versions.get_version(conn, tenant, version)
    with pytest.raises(ComplianceBlocked):
        await activate_version(database, tenant, version, act)

    assert (row.fail_count, row.warn_count) == (2, 2)
