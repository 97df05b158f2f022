"""Compile, the fourth step: a sealed snapshot and published rules in, a passport version with its proof out.

Everything that the bytes depend on is fixed when somebody asks: the moment, the version's id, the product's SKU and
name, build, key, and the hashes of snapshot and rules. So the job gives the same bytes however often and wherever it
runs. A job that ends FAILED or DEAD_LETTER, for whatever reason, is on the passport's record once.

    request_compile ─► COMPILE_PASSPORT ┬─► a version that is COMPILING, and a job that signs it
                                        └─► no version, COMPILE_FAILED on the passport's record
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass as plain_dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal, Protocol, TypeVar, TypeVarTuple
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.compile import Compiled, Limits, compile_passport
from bpc.core.compile_input import CompileInput, Product
from bpc.core.digest import from_hex, sha256, to_hex
from bpc.core.errors import Conflict
from bpc.core.events import EMPTY, Act, Stream
from bpc.core.ids import (
    AggregateId,
    JobId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.rules.evaluating.evaluate import Machine
from bpc.core.rules.package import checked_program
from bpc.core.timestamps import format_time
from bpc.db import compiling, events, passport_versions, passports, products, rules, snapshots
from bpc.db import jobs as recorded
from bpc.db.connection import Connection
from bpc.db.failures import SnapshotNotReady
from bpc.jobs import HIGH, Context, Handler, Handlers, JobError, NoProcesses, Queue
from bpc.pipeline.sign import SignOrder

MACHINES: Final = 32
AT_ONCE: Final = 0.005  # seconds that a compile may take before others in this process notice
LARGE: Final = 65_536  # bytes; longer rules take seconds to make ready, and hold the interpreter lock for some of it
T = TypeVar("T")
Args = TypeVarTuple("Args")

Result = Literal["SUCCEEDED", "FAILED"]


@dataclass(frozen=True, kw_only=True)
class CompileOrder:
    """What is to be compiled, of what, and as what."""

    passport_version_id: UUID
    passport_id: UUID
    snapshot_id: UUID
    rule_package_version_id: UUID
    product_sku: str
    product_name: str
    issued_at: datetime
    compiler_build_id: str
    signing_key_id: str
    snapshot_hash: str
    dsl_sha256: str
    tests_sha256: str
    actor_id: UUID | None
    activate: bool = False  # as soon as it has its QR code


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """A compile that was asked for; the version is there when the job has succeeded."""

    job_id: JobId
    passport_version_id: PassportVersionId
    issued_at: datetime


class Measures(Protocol):
    """Whoever keeps count of what was compiled."""

    def compiled(
        self,
        result: Result,
        seconds: float,
        payload_bytes: int | None,
        proof_bytes: int | None,
        receipt_bytes: int | None,
    ) -> None:
        """One execution is over; there are sizes if it succeeded."""
        ...


class Beside(Protocol):
    """Runs a function in a child process; `NoProcesses` where there are none."""

    async def __call__(self, function: Callable[[*Args], T], *arguments: *Args) -> T: ...


class RulesNotPublished(Conflict):
    """Only published rules compile."""

    code = "RULE_PKG_NOT_PUBLISHED"

    def __init__(self, version: RulePackageVersionId, status: str) -> None:
        super().__init__(
            f"rule package version `{version}` is {status}, and only PUBLISHED rules compile",
            fix="publish it, or use a version that is published",
            details={"rule_package_version_id": str(version), "status": status},
        )


class BuildTooOld(Conflict):
    """The rules are written in a later form of the language."""

    def __init__(self, needed: str) -> None:
        super().__init__(
            f"these rules need a build of language level {needed}, and this one has {rules.LANGUAGE_LEVEL}",
            fix="upgrade bpc",
            details={"needed": needed, "level": rules.LANGUAGE_LEVEL},
        )


class NotWhatWasAskedFor(Conflict):
    """What is stored today is not what the request fixed."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the {what} stored today are not those the compile was asked for", fix="ask for the compile again"
        )


class OtherVersion(Conflict):
    """There is a version of this id with other bytes."""

    def __init__(self, version: PassportVersionId) -> None:
        super().__init__(
            f"passport version `{version}` exists already, with other hashes",
            fix="ask for the compile again: it gets an id of its own",
        )


async def request_compile(
    conn: Connection,
    queue: Queue,
    job: Handler[CompileOrder, None],
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
) -> Requested:
    """Fix what a new version will be compiled of, on record, and have it compiled; with `activate`, to count then."""
    product = await products.get(conn, tenant, (await passports.get(conn, tenant, passport)).battery_product_id)
    order = CompileOrder(
        passport_version_id=fresh.new_id(),
        passport_id=passport,
        snapshot_id=snapshot,
        rule_package_version_id=rule_version,
        product_sku=product.sku,
        product_name=product.name,
        issued_at=act.at,
        compiler_build_id=compiler_build_id,
        signing_key_id=signing_key_id,
        snapshot_hash=await _snapshot_hash(conn, tenant, snapshot),
        **await _rule_hashes(conn, tenant, rule_version),
        actor_id=act.actor_id,
        activate=activate,
    )
    said = act.says("COMPILE_REQUESTED", _as_json(order))
    await events.append(conn, Stream(tenant, "Passport", AggregateId(passport)), said)
    job_id = await queue.submit(job, order, key=f"compile:{order.passport_version_id}", priority=priority)
    return Requested(
        job_id=JobId(job_id), passport_version_id=PassportVersionId(order.passport_version_id), issued_at=act.at
    )


def compile_job(
    handlers: Handlers, *, limits: Limits, measures: Measures, then: Handler[SignOrder, None]
) -> Handler[CompileOrder, None]:
    """Compile; a refusal of rules or facts is the job's end."""

    shelf = Shelf()

    @handlers.job("COMPILE_PASSPORT")
    async def run(ctx: Context, order: CompileOrder) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        compiled = await _measured(ctx, tenant, order, shelf, limits, measures)
        await _keep(conn, tenant, order, compiled, _act(order))
        version = order.passport_version_id
        following = SignOrder(passport_version_id=version, actor_id=order.actor_id, activate=order.activate)
        ctx.submit(then, following, key=f"sign:{version}", priority=HIGH)

    @run.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        # Also where nobody ran it to its end: all that is known then is what is stored of the job.
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = run.read_input(await recorded.payload_of(conn, tenant, ctx.job_id))
        await _put_on_record(conn, tenant, order, error, _act(order))

    return run


@lru_cache(maxsize=MACHINES)
def machine_of(dsl: bytes) -> Machine:
    """Rules, ready to run. A pure function of their bytes that is expensive, so the last few are remembered."""
    return Machine(checked_program(dsl))


@plain_dataclass(slots=True, kw_only=True)
class Texts:
    """Rules and their tests as they were written. Compiling so many facts by them has not taken long."""

    dsl: bytes
    tests: bytes
    quick_with: int = 0

    def took(self, seconds: float, facts: int) -> None:
        """Remember how a compile went: what was quick is done where it stands, what was not in a thread."""
        self.quick_with = max(self.quick_with, facts) if seconds <= AT_ONCE else 0


class Shelf:
    """The texts of the last few rules that were compiled, by their hashes: what has the hashes is the text."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Texts] = OrderedDict()

    async def texts(self, conn: Connection, tenant: TenantId, order: CompileOrder) -> Texts:
        """The texts that an order names, whose hashes have been compared with what is stored."""
        wanted = order.dsl_sha256, order.tests_sha256
        if wanted not in self._known:
            found = await rules.sources(conn, tenant, RulePackageVersionId(order.rule_package_version_id))
            if (to_hex(sha256(found.dsl)), to_hex(sha256(found.tests))) != wanted:
                raise NotWhatWasAskedFor("rules")
            self._known[wanted] = Texts(dsl=found.dsl, tests=found.tests)
        self._known.move_to_end(wanted)
        if len(self._known) > MACHINES:
            self._known.popitem(last=False)
        return self._known[wanted]


async def _snapshot_hash(conn: Connection, tenant: TenantId, snapshot: SnapshotId) -> str:
    found = await snapshots.shared(conn, tenant, snapshot)
    if found.snapshot_hash is None:
        raise SnapshotNotReady(
            f"snapshot `{snapshot}` is {found.status}, and only SEALED ones compile",
            fix="build and seal it first",
            details={"snapshot_id": str(snapshot), "status": found.status},
        )
    return to_hex(found.snapshot_hash)


async def _rule_hashes(conn: Connection, tenant: TenantId, version: RulePackageVersionId) -> dict[str, str]:
    # Whoever deprecates it now waits until our job is there, and whoever was first is seen.
    found = await rules.shared_version(conn, tenant, version)
    if found.status != "PUBLISHED":
        raise RulesNotPublished(version, found.status)
    _check_level(found.compiler_min_build)
    return {"dsl_sha256": to_hex(found.dsl_sha256), "tests_sha256": to_hex(found.tests_sha256)}


def _check_level(needed: str) -> None:
    if int(needed) > int(rules.LANGUAGE_LEVEL):
        raise BuildTooOld(needed)


async def _input(conn: Connection, tenant: TenantId, order: CompileOrder, shelf: Shelf) -> tuple[CompileInput, Texts]:
    """What the order names, as it is stored; refused where it is no longer what the order fixed."""
    passport, rule_version = PassportId(order.passport_id), RulePackageVersionId(order.rule_package_version_id)
    found = await compiling.found(conn, tenant, passport, rule_version)
    _check_level(found.compiler_min_build)
    if (to_hex(found.dsl_sha256), to_hex(found.tests_sha256)) != (order.dsl_sha256, order.tests_sha256):
        raise NotWhatWasAskedFor("rules")
    texts, snapshot = await shelf.texts(conn, tenant, order), SnapshotId(order.snapshot_id)
    given = CompileInput(
        tenant_id=tenant,
        passport_id=passport,
        passport_version_id=PassportVersionId(order.passport_version_id),
        product=Product(battery_product_id=found.battery_product_id, sku=order.product_sku, name=order.product_name),
        snapshot_id=snapshot,
        rule_package_version_id=rule_version,
        issued_at=order.issued_at,
        compiler_build_id=order.compiler_build_id,
        signing_key_id=order.signing_key_id,
        facts=tuple(await snapshots.facts_of(conn, tenant, snapshot)),
        rules=texts.dsl,
        tests=texts.tests,
    )
    return given, texts


async def _measured(
    ctx: Context, tenant: TenantId, order: CompileOrder, shelf: Shelf, limits: Limits, measures: Measures
) -> Compiled:
    started = time.perf_counter()
    try:
        given, texts = await _input(await ctx.transaction(), tenant, order, shelf)
        compiled = await _made(ctx, given, texts, order, limits)
    except Exception:
        measures.compiled("FAILED", time.perf_counter() - started, None, None, None)
        raise
    sizes = len(compiled.payload), len(compiled.proof), len(compiled.receipt)
    measures.compiled("SUCCEEDED", time.perf_counter() - started, *sizes)
    return compiled


async def _made(ctx: Context, given: CompileInput, texts: Texts, order: CompileOrder, limits: Limits) -> Compiled:
    """Compile, here if that has been quick with as many facts; elsewhere otherwise, so that others go on."""
    facts, asked = len(given.facts), (given, order.snapshot_hash, limits)
    if facts <= texts.quick_with:
        compiled, seconds = _timed(*asked)
    else:
        compiled, seconds = await elsewhere(ctx.compute, given.rules, _timed, *asked)
    if len(given.rules) <= LARGE:  # others are ready in a child process, and not here
        texts.took(seconds, facts)
    return compiled


async def elsewhere(beside: Beside | None, rules: bytes, function: Callable[[*Args], T], *arguments: *Args) -> T:
    """What a function makes that runs these rules: large ones in a child process, if there is one; else in a thread."""
    if beside is not None and len(rules) > LARGE:
        with suppress(NoProcesses):
            return await beside(function, *arguments)
    return await asyncio.to_thread(function, *arguments)


def _timed(given: CompileInput, snapshot_hash: str, limits: Limits) -> tuple[Compiled, float]:
    started = time.thread_time()
    return _compiled(given, snapshot_hash, limits), time.thread_time() - started


def _compiled(given: CompileInput, snapshot_hash: str, limits: Limits) -> Compiled:
    compiled = compile_passport(given, limits=limits, machine=machine_of(given.rules))
    # The compiler lists and hashes the facts it was given; so this is the check of every one of them.
    if compiled.snapshot_hash != from_hex(snapshot_hash):
        raise NotWhatWasAskedFor("snapshot's facts")
    return compiled


async def _keep(conn: Connection, tenant: TenantId, order: CompileOrder, compiled: Compiled, act: Act) -> None:
    version = PassportVersionId(order.passport_version_id)
    added = await passport_versions.add(
        conn,
        tenant,
        version,
        compiled,
        passport=PassportId(order.passport_id),
        snapshot=SnapshotId(order.snapshot_id),
        rules=RulePackageVersionId(order.rule_package_version_id),
        compiler_build_id=order.compiler_build_id,
        at=order.issued_at,
    )
    if not added:
        there = await passport_versions.get(conn, tenant, version)
        hashes = compiled.payload_hash, compiled.proof_root_hash, compiled.receipt_hash
        if (there.payload_hash, there.proof_root_hash, there.receipt_hash) != hashes:
            raise OtherVersion(version)
        return
    payload = {
        "passport_id": str(order.passport_id),
        "payload_hash": to_hex(compiled.payload_hash),
        "proof_root_hash": to_hex(compiled.proof_root_hash),
        "receipt_hash": to_hex(compiled.receipt_hash),
    }
    stream = Stream(tenant, "PassportVersion", AggregateId(version))
    await events.append(conn, stream, act.says("PASSPORT_COMPILED", payload), head=EMPTY)


async def _put_on_record(conn: Connection, tenant: TenantId, order: CompileOrder, error: JobError, act: Act) -> None:
    payload = {
        "passport_version_id": str(order.passport_version_id),
        "snapshot_id": str(order.snapshot_id),
        "rule_package_version_id": str(order.rule_package_version_id),
        "code": error.code,
        # A rule's own words may hold what an event cannot.
        "message": error.message.replace("\0", "\N{REPLACEMENT CHARACTER}"),
    }
    stream = Stream(tenant, "Passport", AggregateId(order.passport_id))
    await events.append(conn, stream, act.says("COMPILE_FAILED", payload))


def _act(order: CompileOrder) -> Act:
    return Act.ordered_by(order.actor_id, fresh.now())


def _as_json(order: CompileOrder) -> dict[str, object]:
    return {
        "passport_version_id": str(order.passport_version_id),
        "snapshot_id": str(order.snapshot_id),
        "snapshot_hash": order.snapshot_hash,
        "rule_package_version_id": str(order.rule_package_version_id),
        "dsl_sha256": order.dsl_sha256,
        "tests_sha256": order.tests_sha256,
        "product_sku": order.product_sku,
        "product_name": order.product_name,
        "compiler_build_id": order.compiler_build_id,
        "signing_key_id": order.signing_key_id,
        "issued_at": format_time(order.issued_at),
        "activate": order.activate,
    }
