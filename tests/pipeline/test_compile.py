"""Specification of compile, sign and QR: what was fixed at the request decides the bytes, and each step runs once."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from bpc import fresh
from bpc.api.computing import Computed
from bpc.core.bundle import qr_text_of
from bpc.core.compile import Limits
from bpc.core.digest import sha256, to_hex
from bpc.core.errors import NotFound
from bpc.core.events import Act, Stream
from bpc.core.ids import AggregateId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.qr import check_qr_png
from bpc.core.receipt import read_receipt
from bpc.core.signing import Seed, Signer
from bpc.db import events, passport_versions, rule_status, rules, snapshots
from bpc.db.database import Database
from bpc.db.failures import SnapshotNotReady
from bpc.db.jobs import sessions_of
from bpc.db.passport_versions import VersionUnknown
from bpc.db.passports import PassportUnknown
from bpc.jobs import HIGH, NORMAL, Jobs, Processes, RequestQueue
from bpc.jobs.outcome import Ending
from bpc.pipeline import Means
from bpc.pipeline import compile as compiling
from bpc.pipeline import replay as replaying
from bpc.pipeline.compile import CompileOrder, Requested, RulesNotPublished, request_compile
from bpc.pipeline.replay import replay
from bpc.settings import Settings
from tests.db.rows import a_snapshot
from tests.jobs.stages import running
from tests.jobs.working import until_status, working
from tests.pipeline import ready as steps
from tests.pipeline.ready import BATTERY, Bench, Ready, bench, compiled, published_rules, run_compile, run_qr, run_sign


@pytest.fixture
async def given(database: Database, tenant: TenantId, act: Act) -> Ready:
    async with database.tenant(tenant) as conn:
        return await steps.ready(conn, tenant, act)


@pytest.fixture
async def ours(database: Database, act: Act) -> Bench:
    return await bench(database, act)


async def types_of(database: Database, tenant: TenantId, aggregate: str, thing: object) -> list[str]:
    """The types of the events of an aggregate, in order."""
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, Stream(tenant, aggregate, AggregateId(thing)))  # type: ignore[arg-type]
    return [stored.event.event_type for stored in chain]


async def order(ours: Bench, tenant: TenantId, given: Ready, act: Act) -> CompileOrder:
    async with ours.database.tenant(tenant) as conn:
        return await steps.order_of(conn, tenant, given, act)


async def test_a_version_holds_what_was_fixed_and_its_job_asks_for_a_signature(
    ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    ordered = await order(ours, tenant, given, act)

    ran = await run_compile(ours, tenant, ordered)

    assert ran.ending is Ending.SUCCEEDED
    assert [(wish.handler.type, wish.key, wish.priority) for wish in ran.follow_ups] == [
        ("SIGN_PASSPORT", f"sign:{ordered.passport_version_id}", HIGH)
    ]
    version = PassportVersionId(ordered.passport_version_id)
    async with ours.database.tenant(tenant) as conn:
        found = await passport_versions.get(conn, tenant, version)
        stored = await passport_versions.stored(conn, tenant, version)
    receipt = read_receipt(stored.receipt)
    assert (found.status, found.created_at, found.signing_key_id) == ("COMPILING", act.at, None)
    assert (receipt.issued_at, receipt.passport_version_id, receipt.signature) == (act.at, version, None)
    assert (to_hex(receipt.snapshot_hash), to_hex(receipt.dsl_sha256)) == (ordered.snapshot_hash, ordered.dsl_sha256)
    assert found.payload_hash == sha256(stored.payload)
    assert await types_of(ours.database, tenant, "PassportVersion", version) == ["PASSPORT_COMPILED"]


async def test_a_compile_that_runs_again_completes_without_a_second_effect(
    ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    ordered = await order(ours, tenant, given, act)
    await run_compile(ours, tenant, ordered)

    again = await run_compile(ours, tenant, ordered)

    assert again.ending is Ending.SUCCEEDED
    assert await types_of(ours.database, tenant, "PassportVersion", ordered.passport_version_id) == [
        "PASSPORT_COMPILED"
    ]


async def test_other_bytes_under_the_same_id_are_a_conflict(
    ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    ordered = await order(ours, tenant, given, act)
    await run_compile(ours, tenant, ordered)

    other = await run_compile(ours, tenant, replace(ordered, compiler_build_id="bpc-other"))

    assert (other.ending, other.error and other.error.code) == (Ending.FAILED, "CONFLICT")
    assert other.follow_ups == []


@pytest.fixture
async def jobs(database: Database, ours: Bench) -> AsyncIterator[Jobs]:
    async with sessions_of(database) as sessions:
        opened = Jobs(ours.handlers, sessions)
        yield opened
        await opened.close()


async def worked(ours: Bench, jobs: Jobs, tenant: TenantId, ordered: CompileOrder, *ends: str) -> None:
    """Have a worker compile, until the job is over. It is started once."""
    job = await jobs.submit(ours.steps.compile, ordered, tenant=tenant, attempts=1)
    async with working(jobs):
        await until_status(jobs, tenant, job, *ends)


async def failures(database: Database, tenant: TenantId, given: Ready) -> list[tuple[str, str]]:
    """Code and message of every failed compile on the passport's record."""
    async with database.tenant(tenant) as conn:
        chain = await events.read_chain(conn, Stream(tenant, "Passport", AggregateId(given.passport)))
    told = [stored.event for stored in chain if stored.event.event_type == "COMPILE_FAILED"]
    payloads = [json.loads(event.payload_canonical) for event in told]
    return [(payload["code"], payload["message"]) for payload in payloads]


async def test_a_rule_that_fails_leaves_no_version_and_its_code_on_the_passports_record_once(
    database: Database, ours: Bench, jobs: Jobs, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        given = await steps.ready(conn, tenant, act, facts=[BATTERY])
    ordered = await order(ours, tenant, given, act)

    await worked(ours, jobs, tenant, ordered, "FAILED")

    [(code, message)] = await failures(database, tenant, given)
    assert code == "RULE_ASSERTION_FAILED"
    assert "pcf missing" in message
    async with database.tenant(tenant) as conn:
        with pytest.raises(VersionUnknown):
            await passport_versions.get(conn, tenant, PassportVersionId(ordered.passport_version_id))


async def test_a_compile_that_comes_to_other_bytes_is_on_record_too(
    database: Database, ours: Bench, jobs: Jobs, tenant: TenantId, given: Ready, act: Act
) -> None:
    ordered = await order(ours, tenant, given, act)
    await run_compile(ours, tenant, ordered)

    await worked(ours, jobs, tenant, replace(ordered, compiler_build_id="bpc-other"), "FAILED")

    [(code, message)] = await failures(database, tenant, given)
    assert code == "CONFLICT"
    assert "with other hashes" in message


async def test_a_compile_that_nobody_could_finish_is_on_record_too(
    database: Database,
    ours: Bench,
    jobs: Jobs,
    tenant: TenantId,
    given: Ready,
    act: Act,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(compiling, "_compiled", broken)

    await worked(ours, jobs, tenant, await order(ours, tenant, given, act), "DEAD_LETTER")

    assert await failures(database, tenant, given) == [("INTERNAL_ERROR", "OSError: the disk is full")]


async def test_a_compile_whose_worker_died_for_the_last_time_is_on_record_too(
    database: Database, ours: Bench, jobs: Jobs, tenant: TenantId, given: Ready, act: Act
) -> None:
    ordered = await order(ours, tenant, given, act)
    job = await jobs.submit(ours.steps.compile, ordered, tenant=tenant, attempts=1)
    await running(jobs.sessions, tenant, job, owner="dead", seconds=0)

    async with working(jobs):
        await until_status(jobs, tenant, job, "DEAD_LETTER", seconds=60)

    [(code, _)] = await failures(database, tenant, given)
    assert code == "JOB_LEASE_LOST"


async def test_a_passport_above_its_limit_is_refused_with_the_limits_code(
    database: Database, tenant: TenantId, given: Ready, act: Act
) -> None:
    small = await bench(database, act, limits=Limits(payload=100))
    ordered = await order(small, tenant, given, act)

    ran = await run_compile(small, tenant, ordered)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "PAYLOAD_TOO_LARGE")


async def test_a_compile_above_the_steps_that_are_set_fails_and_is_on_record(
    database: Database, tenant: TenantId, given: Ready, act: Act, tmp_path: Path
) -> None:
    settings = Settings(env="test", data_dir=tmp_path, rules_max_steps=10)
    few = await bench(database, act, limits=Means.of(settings, lambda _: None).limits)
    ordered = await order(few, tenant, given, act)

    async with sessions_of(database) as sessions:
        jobs = Jobs(few.handlers, sessions)
        await worked(few, jobs, tenant, ordered, "FAILED")
        await jobs.close()

    [(code, message)] = await failures(database, tenant, given)
    assert code == "RULE_LIMIT_EXCEEDED"
    assert "more than 10 steps, which are all that BPC_RULES_MAX_STEPS allows" in message
    async with database.tenant(tenant) as conn:
        with pytest.raises(VersionUnknown):
            await passport_versions.get(conn, tenant, PassportVersionId(ordered.passport_version_id))


async def test_large_rules_are_compiled_and_replayed_in_a_child_process(
    database: Database, ours: Bench, tenant: TenantId, given: Ready, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = steps.RULES + b"-- much is said of these rules\n" * 3000
    for step in (compiling, replaying):
        monkeypatch.setattr(step, "machine_of", lambda _: pytest.fail("it is not made ready here"))
    async with database.tenant(tenant) as conn:
        given = replace(given, rules=await published_rules(conn, tenant, act, large))
    ordered = await order(ours, tenant, given, act)
    version = PassportVersionId(ordered.passport_version_id)
    processes = Processes(1)

    async with sessions_of(database) as sessions:
        jobs = Jobs(ours.handlers, sessions, processes=processes)
        await worked(ours, jobs, tenant, ordered, "SUCCEEDED")
        await run_sign(ours, tenant, version)
        async with database.tenant(tenant) as conn:
            found = await replay(conn, tenant, version, act=act, beside=Computed(processes))
        await jobs.close()
    await processes.close()

    assert found.refusal is None


async def test_large_rules_that_fail_in_a_child_process_say_the_same(
    database: Database, ours: Bench, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        given = await steps.ready(conn, tenant, act, facts=[BATTERY])
        large = await published_rules(conn, tenant, act, steps.RULES + b"-- much is said of these rules\n" * 3000)
    ordered = await order(ours, tenant, replace(given, rules=large), act)
    processes = Processes(1)

    async with sessions_of(database) as sessions:
        jobs = Jobs(ours.handlers, sessions, processes=processes)
        await worked(ours, jobs, tenant, ordered, "FAILED")
        await jobs.close()
    await processes.close()

    [(code, message)] = await failures(database, tenant, given)
    assert code == "RULE_ASSERTION_FAILED"
    assert "pcf missing" in message


async def test_a_product_that_is_renamed_after_the_request_changes_nothing(
    ours: Bench, jobs: Jobs, tenant: TenantId, given: Ready, act: Act
) -> None:
    asked = await ask(ours, jobs, tenant, given, act)
    async with ours.database.tenant(tenant) as conn:
        await conn.execute("UPDATE battery_products SET name = 'Another' WHERE tenant_id = $1", tenant)

    async with working(jobs):
        await until_status(jobs, tenant, asked.job_id, "SUCCEEDED")

    async with ours.database.tenant(tenant) as conn:
        stored = await passport_versions.stored(conn, tenant, asked.passport_version_id)
    assert (await jobs.job(tenant, asked.job_id)).priority == HIGH
    assert b'"Cell"' in stored.payload
    assert b"Another" not in stored.payload


class Counts:
    """What was measured."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool, tuple[int | None, ...]]] = []

    def compiled(self, result: str, seconds: float, *sizes: int | None) -> None:
        self.seen.append((result, seconds > 0, sizes))


async def test_every_compile_is_measured(database: Database, tenant: TenantId, given: Ready, act: Act) -> None:
    counts = Counts()
    ours = await bench(database, act, measures=counts)
    ordered = await order(ours, tenant, given, act)

    await run_compile(ours, tenant, ordered)
    await run_compile(ours, tenant, replace(ordered, dsl_sha256=ANOTHER))

    async with database.tenant(tenant) as conn:
        stored = await passport_versions.stored(conn, tenant, PassportVersionId(ordered.passport_version_id))
    sizes = len(stored.payload), len(stored.proof), len(stored.receipt)
    assert counts.seen == [("SUCCEEDED", True, sizes), ("FAILED", True, (None, None, None))]


ANOTHER: Final = to_hex(sha256(b"another"))


@pytest.mark.parametrize(
    "changed",
    [
        lambda order: replace(order, snapshot_hash=ANOTHER),
        lambda order: replace(order, dsl_sha256=ANOTHER),
        lambda order: replace(order, tests_sha256=ANOTHER),
    ],
    ids=["snapshot", "rules", "tests"],
)
async def test_what_is_not_what_was_asked_for_is_not_compiled(
    ours: Bench, tenant: TenantId, given: Ready, act: Act, changed: Callable[[CompileOrder], CompileOrder]
) -> None:
    ordered = await order(ours, tenant, given, act)

    ran = await run_compile(ours, tenant, changed(ordered))

    assert ran.error is not None
    assert ran.error.code == "CONFLICT"
    assert await types_of(ours.database, tenant, "PassportVersion", ordered.passport_version_id) == []


async def test_a_fact_that_was_changed_behind_our_back_is_found_before_it_is_compiled(
    ours: Bench, tenant: TenantId, given: Ready, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    ordered = await order(ours, tenant, given, act)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute(
        "UPDATE facts SET payload_canonical = $1 WHERE fact_type = 'Battery'", b'{"capacity_kwh":"99","sku":"SKU-1"}'
    )

    ran = await run_compile(ours, tenant, ordered)

    assert ran.error is not None
    assert ran.error.code == "CONFLICT"
    assert "facts" in ran.error.message


# Asking --------------------------------------------------------------------------------------------------------


async def ask(ours: Bench, jobs: Jobs, tenant: TenantId, given: Ready, act: Act) -> Requested:
    async with ours.database.tenant(tenant) as conn:
        return await request_compile(
            conn,
            RequestQueue(jobs=jobs, conn=conn, tenant=tenant),
            ours.steps.compile,
            tenant,
            given.passport,
            snapshot=given.snapshot,
            rule_version=given.rules,
            compiler_build_id=steps.BUILD,
            signing_key_id=steps.KEY_ID,
            act=act,
        )


@pytest.mark.parametrize("status", ["BUILDING", "READY"])
async def test_only_a_sealed_snapshot_can_be_compiled(
    ours: Bench, jobs: Jobs, tenant: TenantId, given: Ready, act: Act, status: str
) -> None:
    async with ours.database.tenant(tenant) as conn:
        snapshot = await a_snapshot(conn, tenant, status=status)

    with pytest.raises(SnapshotNotReady, match=status):
        await ask(ours, jobs, tenant, replace(given, snapshot=snapshot), act)


@pytest.mark.parametrize("status", ["DRAFT", "VALIDATED", "DEPRECATED", "RETIRED"])
async def test_only_published_rules_compile(
    ours: Bench, jobs: Jobs, tenant: TenantId, given: Ready, act: Act, status: str
) -> None:
    async with ours.database.tenant(tenant) as conn:
        other = await published_rules(conn, tenant, act, status=status)

    with pytest.raises(RulesNotPublished, match=status):
        await ask(ours, jobs, tenant, replace(given, rules=other), act)


async def test_rules_that_are_being_deprecated_are_waited_for(
    ours: Bench, jobs: Jobs, tenant: TenantId, given: Ready, act: Act
) -> None:
    async with ours.database.tenant(tenant) as conn:
        await rule_status.deprecate(conn, tenant, given.rules, act=act)
        asking = asyncio.create_task(ask(ours, jobs, tenant, given, act))
        await until_somebody_waits(ours.database)

    with pytest.raises(RulesNotPublished, match="DEPRECATED"):
        await asking


async def test_rules_are_not_deprecated_while_somebody_asks_for_a_compile_and_others_may_ask_too(
    ours: Bench, jobs: Jobs, tenant: TenantId, given: Ready, act: Act
) -> None:
    async def deprecate() -> None:
        async with ours.database.tenant(tenant) as conn:
            await rule_status.deprecate(conn, tenant, given.rules, act=act)

    async with ours.database.tenant(tenant) as conn:
        await rules.shared_version(conn, tenant, given.rules)
        await snapshots.shared(conn, tenant, given.snapshot)
        await ask(ours, jobs, tenant, given, act)
        deprecating = asyncio.create_task(deprecate())
        await until_somebody_waits(ours.database)
        assert not deprecating.done()
    await deprecating


async def until_somebody_waits(database: Database) -> None:
    """Return when a session waits for another one's lock."""
    async with asyncio.timeout(60), database.plain() as conn:
        while not await conn.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
            await asyncio.sleep(0.005)


async def test_what_does_not_exist_is_named(
    ours: Bench, jobs: Jobs, tenant: TenantId, other_tenant: TenantId, given: Ready, act: Act
) -> None:
    unknown = fresh.new_id()

    for wrong in (
        replace(given, snapshot=SnapshotId(unknown)),
        replace(given, rules=RulePackageVersionId(unknown)),
    ):
        with pytest.raises(NotFound, match=str(unknown)):
            await ask(ours, jobs, tenant, wrong, act)
    with pytest.raises(PassportUnknown, match=str(given.passport)):
        await ask(ours, jobs, other_tenant, given, act)


async def test_rules_of_a_later_language_ask_for_a_newer_build(
    ours: Bench,
    jobs: Jobs,
    tenant: TenantId,
    given: Ready,
    act: Act,
    superuser: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE rule_package_versions SET compiler_min_build = '2'")

    with pytest.raises(Exception, match="language level 2"):
        await ask(ours, jobs, tenant, given, act)


# Signing and the QR code ---------------------------------------------------------------------------------------


async def test_signing_adds_the_signature_of_the_key_that_the_receipt_names(
    ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    version = await compiled(ours, tenant, given, act)

    ran = await run_sign(ours, tenant, version)

    assert [(wish.handler.type, wish.key) for wish in ran.follow_ups] == [("GENERATE_QR", f"qr:{version}")]
    assert ran.follow_ups[0].priority == NORMAL
    async with ours.database.tenant(tenant) as conn:
        found = await passport_versions.get(conn, tenant, version)
        stored = await passport_versions.stored(conn, tenant, version)
    receipt = read_receipt(stored.receipt)
    receipt.verify(steps.SIGNER.public_key)
    assert (found.status, found.signing_key_id) == ("SIGNED", steps.KEY_ID)
    assert (stored.signature, found.receipt_hash) == (receipt.signature, receipt.hash())


async def test_signing_and_the_qr_code_happen_once(ours: Bench, tenant: TenantId, given: Ready, act: Act) -> None:
    version = await compiled(ours, tenant, given, act)

    for _ in range(2):
        assert (await run_sign(ours, tenant, version)).ending is Ending.SUCCEEDED
        assert (await run_qr(ours, tenant, version)).ending is Ending.SUCCEEDED

    assert await types_of(ours.database, tenant, "PassportVersion", version) == [
        "PASSPORT_COMPILED",
        "PASSPORT_SIGNED",
        "QR_GENERATED",
    ]
    async with ours.database.tenant(tenant) as conn:
        stored = await passport_versions.stored(conn, tenant, version)
    assert stored.qr_payload == qr_text_of(read_receipt(stored.receipt))
    assert stored.qr_png is not None
    check_qr_png(stored.qr_png, stored.qr_payload)


@pytest.mark.parametrize("at_hand", [None, Signer(Seed(bytes(32)))], ids=["none", "another"])
async def test_a_key_that_is_not_at_hand_fails_the_job_and_can_be_put_right(
    database: Database, tenant: TenantId, given: Ready, act: Act, at_hand: Signer | None
) -> None:
    poor = await bench(database, act, signer=at_hand)
    version = await compiled(poor, tenant, given, act)

    ran = await run_sign(poor, tenant, version)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "SIGNING_KEY_MISSING")
    assert (await run_sign(await bench(database, act), tenant, version)).ending is Ending.SUCCEEDED


async def test_a_retired_key_does_not_sign(
    ours: Bench, tenant: TenantId, given: Ready, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    version = await compiled(ours, tenant, given, act)
    await superuser.execute("UPDATE signing_keys SET status = 'RETIRED', retired_at = now()")

    ran = await run_sign(ours, tenant, version)

    assert ran.error is not None
    assert ran.error.code == "SIGNING_KEY_MISSING"
    assert ran.error.details == {"signing_key_id": steps.KEY_ID}


async def test_nobody_signs_a_payload_that_was_changed(
    ours: Bench, tenant: TenantId, given: Ready, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    version = await compiled(ours, tenant, given, act)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE passport_versions SET payload_canonical = $1", b"{}")

    ran = await run_sign(ours, tenant, version)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "CONFLICT")


async def test_a_version_that_is_not_signed_gets_no_qr_code(
    ours: Bench, tenant: TenantId, given: Ready, act: Act
) -> None:
    version = await compiled(ours, tenant, given, act)

    ran = await run_qr(ours, tenant, version)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "CONFLICT")


async def test_rules_that_were_changed_behind_our_back_compile_nothing_also_where_they_are_known(
    ours: Bench, tenant: TenantId, given: Ready, act: Act, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    first, second = await order(ours, tenant, given, act), await order(ours, tenant, given, act)
    await run_compile(ours, tenant, first)
    await superuser.execute("SET session_replication_role = replica")
    await superuser.execute("UPDATE rule_package_versions SET dsl_source = dsl_source || '-- x'::bytea")

    ran = await run_compile(ours, tenant, second)

    assert (ran.ending, ran.error and ran.error.code) == (Ending.FAILED, "CONFLICT")
    assert ran.error is not None
    assert "rules stored today" in ran.error.message


async def test_what_has_been_quick_is_compiled_where_it_stands_and_what_has_not_in_a_thread(
    ours: Bench, tenant: TenantId, given: Ready, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[bool]()
    compile_it = compiling._timed

    def noted(*arguments: object) -> object:
        threads.append(threading.current_thread() is not threading.main_thread())
        return compile_it(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "_timed", noted)
    monkeypatch.setattr(compiling, "AT_ONCE", 60.0)
    for _ in range(2):
        await run_compile(ours, tenant, await order(ours, tenant, given, act))
    monkeypatch.setattr(compiling, "AT_ONCE", 0.0)
    for _ in range(2):
        await run_compile(ours, tenant, await order(ours, tenant, given, act))

    assert threads == [True, False, False, True]
