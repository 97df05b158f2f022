"""Compile, the fourth step: a sealed snapshot and published rules in, a passport version with its proof out.

The request fixes everything that the bytes depend on: the time, the version's id, the product's SKU and name, the
build, the signing key, and the hashes of snapshot and rules. So the job gives the same bytes on every run and every
machine. A job that ends FAILED or DEAD_LETTER is recorded once on the passport, whatever the reason.

    request_compile ─► COMPILE_PASSPORT ┬─► a version with status SIGNED and its QR code (bpc.pipeline.new_version)
                                        ├─► a version with status COMPILING, and the job that signs it
                                        └─► no version; COMPILE_FAILED is recorded on the passport

The job: run ─► load_input ─► compile_here_or_in_child ─► sign at once, or by a job ─► store
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar, TypeVarTuple
from uuid import UUID

from service_jobs import HIGH, NORMAL, Context, Handler, Handlers, JobError, ProcessesUnavailable, SubmitQueue

from bpc.core.audit.events import Act
from bpc.core.audit.signing import PublicKey
from bpc.core.errors import Conflict
from bpc.core.formats.hashes import from_hex, to_hex
from bpc.core.formats.ids import (
    JobId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.language.evaluating.ready_machines import load_machine
from bpc.core.passport.compile import ArtifactLimits, CompiledPassport, compile_passport
from bpc.core.passport.compile_input import CompileInput, Product
from bpc.core.passport.trace import trace_fields
from bpc.pipeline.activate import ActivateOrder, activate_job_key
from bpc.pipeline.compile_order import CompileOrder
from bpc.pipeline.new_version import store_issued_version, store_unsigned_version
from bpc.pipeline.quick_signing import QuickSigning
from bpc.pipeline.rule_cache import CompileInputChanged, RuleCache, RuleTexts
from bpc.pipeline.sign import SignOrder, sign_job_key
from bpc.runtime import clock
from bpc.runtime.logs import get_logger, is_debug_logged
from bpc.runtime.telemetry import JobMetrics
from bpc.storage.audit import events, tenant_keys
from bpc.storage.connection import Connection
from bpc.storage.error_mapping import SnapshotNotReady
from bpc.storage.evidence import snapshots
from bpc.storage.jobs import describe_failure, load_job_input, make_subject
from bpc.storage.passports import compile_inputs, passports, products
from bpc.storage.passports.passports import PassportSubject, load_subject
from bpc.storage.rules import packages
from bpc.storage.webhooks.webhook_fanout import append_and_announce

SIGN_WITHIN_SECONDS: Final = 10.0  # after a longer compile, a job looks at the key again
LARGE_RULES_BYTES: Final = 65_536  # longer rules take seconds to parse, and hold the interpreter lock for part of it
log = get_logger(__name__)
T = TypeVar("T")
Args = TypeVarTuple("Args")
# Runs a function with its arguments in a child process. Raises `ProcessesUnavailable` if there are no child processes.
ComputePool: TypeAlias = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCompile:
    """A requested compile. The version exists once the job has succeeded."""

    job_id: JobId
    passport_version_id: PassportVersionId
    issued_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOutcome:
    """The compiled version, and how many facts it was compiled from.

    If it was issued at once, it has the text of its QR code; otherwise it has the job that signs it.
    """

    passport_version_id: PassportVersionId
    passport_id: PassportId
    payload_hash: str
    fact_count: int
    fail_count: int
    warn_count: int
    sign_job_id: UUID | None
    qr_payload: str | None = None
    activate_job_id: UUID | None = None


class RulesNotPublished(Conflict):
    """Only published rules compile."""

    code = "RULE_PKG_NOT_PUBLISHED"

    def __init__(self, version: RulePackageVersionId, status: str) -> None:
        super().__init__(
            f"rule package version `{version}` is {status}, and only PUBLISHED rules compile",
            fix="publish it, or use a version that is published",
            details={"rule_package_version_id": str(version), "status": status},
        )


async def request_compile(
    conn: Connection,
    queue: SubmitQueue,
    job: Handler[CompileOrder, Any],
    tenant: TenantId,
    passport: PassportId,
    *,
    snapshot: SnapshotId,
    rule_version: RulePackageVersionId,
    compiler_build_id: str,
    signing_key_id: str,
    act: Act,
    activate: bool = False,
    priority: int = HIGH,
) -> RequestedCompile:
    """Fix and record what a new version is compiled from, and submit the job. `activate` also activates it.

    The tenant's own key signs it; `signing_key_id`, the installation's, only if it has none.
    """
    product = await products.get_product(
        conn, tenant, (await passports.get_passport(conn, tenant, passport)).battery_product_id
    )
    if not product.is_active:
        raise products.ProductInactive(product)
    order = CompileOrder(
        passport_version_id=PassportVersionId(clock.new_id()),
        passport_id=passport,
        snapshot_id=snapshot,
        rule_package_version_id=rule_version,
        product_sku=product.sku,
        product_name=product.name,
        issued_at=act.at,
        compiler_build_id=compiler_build_id,
        signing_key_id=await tenant_keys.choose_key(conn, tenant, installation_key=signing_key_id),
        snapshot_hash=await _require_snapshot_hash(conn, tenant, snapshot),
        **await _require_rule_hashes(conn, tenant, rule_version),
        actor_id=act.actor_id,
        activate=activate,
    )
    await events.append_act(conn, act, tenant, "Passport", passport, "COMPILE_REQUESTED", order.to_event_payload())
    job_id = await queue.submit(job, order, key=f"compile:{order.passport_version_id}", priority=priority)
    return RequestedCompile(job_id=JobId(job_id), passport_version_id=order.passport_version_id, issued_at=act.at)


def declare_compile_job(
    handlers: Handlers,
    *,
    limits: ArtifactLimits,
    metrics: JobMetrics,
    then: Handler[SignOrder, Any],
    quick_signing: QuickSigning | None,
    activate_job: Handler[ActivateOrder, Any],
) -> Handler[CompileOrder, CompileOutcome]:
    """The job COMPILE_PASSPORT. If the rules or facts are refused, the job has failed.

    Without `quick_signing`, signing is always a job of its own.
    """
    rule_cache = RuleCache()

    @handlers.job(
        "COMPILE_PASSPORT",
        subject=lambda order: make_subject("passport_version", order.passport_version_id, sku=order.product_sku),
        description="Compiles a passport version from a sealed snapshot and published rules.",
    )
    async def run(ctx: Context, order: CompileOrder) -> CompileOutcome:
        conn, tenant, start_seconds = await ctx.transaction(), TenantId(ctx.tenant), time.perf_counter()
        try:
            compile_input, texts, public_key = await load_input(conn, tenant, order, rule_cache)
            output = await compile_here_or_in_child(ctx, compile_input, texts, order.snapshot_hash, limits)
        except Exception:
            metrics.record_compile(time.perf_counter() - start_seconds, None)
            raise
        seconds, version = time.perf_counter() - start_seconds, order.passport_version_id
        metrics.record_compile(seconds, output)
        if is_debug_logged():
            for field in trace_fields(output.proof):
                log.debug("field evaluated", tenant_id=str(tenant), passport_version_id=str(version), **asdict(field))
        signed_receipt, qr_text, sign_job_id, activate_job_id = None, None, None, None
        if quick_signing is not None and seconds <= SIGN_WITHIN_SECONDS:
            signed_receipt = await quick_signing.sign(output.receipt, public_key)
        if signed_receipt is not None:
            product = compile_input.product
            subject = PassportSubject(
                passport_id=order.passport_id, battery_product_id=product.battery_product_id, sku=product.sku
            )
            qr_text = await store_issued_version(conn, tenant, order, output, signed_receipt, subject)
        if qr_text is None:
            await store_unsigned_version(conn, tenant, order, output)
            sign_order = SignOrder(passport_version_id=version, actor_id=order.actor_id, activate=order.activate)
            sign_job_id = ctx.submit(then, sign_order, key=sign_job_key(version), priority=HIGH)
        elif order.activate:
            activate_order = ActivateOrder(passport_version_id=version, actor_id=order.actor_id)
            activate_job_id = ctx.submit(activate_job, activate_order, key=activate_job_key(version), priority=NORMAL)
        return CompileOutcome(
            passport_version_id=version,
            passport_id=order.passport_id,
            payload_hash=to_hex(output.payload_hash),
            fact_count=len(compile_input.facts),
            fail_count=output.compliance.fail,
            warn_count=output.compliance.warn,
            sign_job_id=sign_job_id,
            qr_payload=qr_text,
            activate_job_id=activate_job_id,
        )

    @run.on_failure
    async def record_failure(ctx: Context, error: JobError) -> None:
        # Also runs where the worker died: then only the stored input of the job is known.
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = await load_job_input(conn, tenant, ctx.job_id, run)
        await _record_failure(conn, tenant, order, describe_failure(ctx.job_id, error))

    return run


async def load_input(
    conn: Connection, tenant: TenantId, order: CompileOrder, rule_cache: RuleCache
) -> tuple[CompileInput, RuleTexts, PublicKey | None]:
    """Load what the order names, and the public key if that signs now.

    Raises `CompileInputChanged` if the rules are not those that the order fixed.
    """
    stored_input = await compile_inputs.load_compile_input(
        conn, tenant, order.passport_id, order.rule_package_version_id, order.signing_key_id
    )
    _require_language_level(stored_input.compiler_min_build)
    if (to_hex(stored_input.dsl_sha256), to_hex(stored_input.tests_sha256)) != (order.dsl_sha256, order.tests_sha256):
        raise CompileInputChanged("rules")
    hashes = order.dsl_sha256, order.tests_sha256
    texts = await rule_cache.load_texts(conn, tenant, order.rule_package_version_id, hashes)
    compile_input = CompileInput(
        tenant_id=tenant,
        passport_id=order.passport_id,
        passport_version_id=order.passport_version_id,
        product=Product(
            battery_product_id=stored_input.battery_product_id, sku=order.product_sku, name=order.product_name
        ),
        snapshot_id=order.snapshot_id,
        rule_package_version_id=order.rule_package_version_id,
        issued_at=order.issued_at,
        compiler_build_id=order.compiler_build_id,
        signing_key_id=order.signing_key_id,
        facts=tuple(await snapshots.load_facts(conn, tenant, order.snapshot_id)),
        rules=texts.dsl,
        tests=texts.tests,
    )
    return compile_input, texts, stored_input.signing_key


async def compile_here_or_in_child(
    ctx: Context, compile_input: CompileInput, texts: RuleTexts, snapshot_hash: str, limits: ArtifactLimits
) -> CompiledPassport:
    """Compile on the event loop if as many facts were quick before; otherwise beside it, so that other jobs go on."""
    fact_count, arguments = len(compile_input.facts), (compile_input, snapshot_hash, limits)
    if fact_count <= texts.quick_fact_count:
        output, seconds = compile_and_check(*arguments)
    else:
        pool = choose_pool(ctx.compute, texts.dsl)
        async with texts.wait_until_ready():
            output, seconds = await run_in_child_or_thread(pool, compile_and_check, *arguments)
    if len(texts.dsl) <= LARGE_RULES_BYTES:  # larger rules are parsed in a child process, and not here
        texts.record_duration(seconds, fact_count)
    return output


def compile_and_check(
    compile_input: CompileInput, snapshot_hash: str, limits: ArtifactLimits
) -> tuple[CompiledPassport, float]:
    """The compiled passport, and how many seconds of CPU time it took. Pure, and may run in a child process."""
    start_seconds = time.thread_time()
    output = compile_passport(compile_input, limits=limits, machine=load_machine(compile_input.rules))
    # The compiler lists and hashes the facts that it read, so this one comparison checks all of them.
    if output.snapshot_hash != from_hex(snapshot_hash):
        raise CompileInputChanged("facts of the snapshot")
    return output, time.thread_time() - start_seconds


def choose_pool(pool: ComputePool | None, rules: bytes) -> ComputePool | None:
    """The child processes for large rules; None for others, which are quicker in a thread."""
    return pool if len(rules) > LARGE_RULES_BYTES else None


async def run_in_child_or_thread(pool: ComputePool | None, function: Callable[[*Args], T], *arguments: *Args) -> T:
    """Run a module-level function in a child process; in a thread if there is no pool or no process in it."""
    if pool is not None:
        with suppress(ProcessesUnavailable):
            result: T = await pool(function, *arguments)
            return result
    return await asyncio.to_thread(function, *arguments)


async def _require_snapshot_hash(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> str:
    row = await snapshots.lock_snapshot_shared(conn, tenant, snapshot)
    if row.snapshot_hash is None:
        raise SnapshotNotReady(
            f"snapshot `{snapshot}` is {row.status}, and only a SEALED snapshot can be compiled",
            fix="build and seal it first",
            details={"snapshot_id": str(snapshot), "status": row.status},
        )
    return to_hex(row.snapshot_hash)


async def _require_rule_hashes(conn: Connection, tenant: TenantId, version: RulePackageVersionId) -> dict[str, str]:
    # The lock makes a deprecation wait until our job is submitted; one that came first is seen here.
    row = await packages.lock_version_shared(conn, tenant, version)
    if row.status != "PUBLISHED":
        raise RulesNotPublished(version, row.status)
    await packages.require_active_package(conn, tenant, row.rule_package_id)
    _require_language_level(row.compiler_min_build)
    return {"dsl_sha256": to_hex(row.dsl_sha256), "tests_sha256": to_hex(row.tests_sha256)}


def _require_language_level(level: str) -> None:
    if int(level) > packages.LANGUAGE_LEVEL:
        raise Conflict(
            f"these rules need a build of language level {level}, and this one has {packages.LANGUAGE_LEVEL}",
            fix="upgrade bpc",
            details={"needed": level, "level": str(packages.LANGUAGE_LEVEL)},
        )


async def _record_failure(conn: Connection, tenant: TenantId, order: CompileOrder, failure: dict[str, object]) -> None:
    subject = await load_subject(conn, tenant, order.passport_id)
    payload = {
        **subject.to_event_payload(),
        "passport_version_id": str(order.passport_version_id),
        "snapshot_id": str(order.snapshot_id),
        "rule_package_version_id": str(order.rule_package_version_id),
        **failure,
    }
    act = Act(order.actor_id, clock.now())
    await append_and_announce(conn, act, tenant, "Passport", order.passport_id, "COMPILE_FAILED", payload)
