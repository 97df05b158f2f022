"""Bulk compiles: many passports asked for at once, a job for each, and each for itself.

    request_run ─► COMPILE_ROW, one a row ─► product, passport, sealed snapshot ─► COMPILE_PASSPORT and what follows it

A row does its part in one transaction: either everything its passport needs is there and the compile is asked for, or
nothing has changed and the row says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from typing import Final, Protocol
from uuid import UUID

from pydantic.dataclasses import dataclass

from bpc import fresh
from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act
from bpc.core.ids import (
    BatteryProductId,
    CompileRunId,
    FactId,
    PassportId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.db import compile_runs, facts, passports, products
from bpc.db import jobs as recorded
from bpc.db.compile_runs import LockedRow, Problem, Wanted
from bpc.db.connection import Connection
from bpc.jobs import LOW, Context, Handler, Handlers, JobError, JobQueue, Jobs, Queue

PRIORITY: Final = LOW  # whoever asks for one passport need not wait for thousands


@dataclass(frozen=True, kw_only=True)
class RowOrder:
    """Which row is to be begun."""

    run_id: UUID
    row_number: int
    actor_id: UUID | None


@plain_dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """A run that was asked for, and the jobs that begin its rows."""

    run_id: CompileRunId
    rows: int
    job_ids: Sequence[UUID]


class Sealing(Protocol):
    """Makes a sealed snapshot of facts."""

    async def __call__(
        self, conn: Connection, tenant: TenantId, wanted: Sequence[FactId], *, label: str, act: Act
    ) -> SnapshotId: ...


class Compiling(Protocol):
    """Asks for a new version of a passport."""

    async def __call__(
        self,
        conn: Connection,
        queue: Queue,
        tenant: TenantId,
        passport: PassportId,
        *,
        snapshot: SnapshotId,
        rule_version: RulePackageVersionId,
        activate: bool,
        act: Act,
    ) -> PassportVersionId: ...


class SkuUnknown(NotFound):
    """A row names a product that is not there."""

    def __init__(self, sku: str) -> None:
        super().__init__(
            f"there is no battery product with the SKU `{sku}`",
            fix="create it, or give the row a `name` to create it by",
        )


class NoFacts(Conflict):
    """Nothing is known of the product."""

    def __init__(self, sku: str) -> None:
        super().__init__(
            f"there are no facts about `{sku}`",
            fix="upload its documents first, or give the row a sealed `snapshot_id`",
        )


async def request_run(
    conn: Connection,
    jobs: Jobs,
    job: Handler[RowOrder, None],
    tenant: TenantId,
    rows: Sequence[Wanted],
    *,
    rule_version: RulePackageVersionId,
    activate: bool,
    act: Act,
    correlation_id: str | None = None,
) -> Requested:
    """Write down what is asked for, on record, and have each row begun that nothing stands in the way of."""
    run = CompileRunId(fresh.new_id())
    begun = [number for number, row in enumerate(rows, start=1) if row.problem is None]
    batch = await jobs.submit_batch(
        job,
        [RowOrder(run_id=run, row_number=number, actor_id=act.actor_id) for number in begun],
        tenant=tenant,
        conn=conn,
        keys=[compile_runs.key_of(run, number) for number in begun],
        priority=PRIORITY,
        name=f"compile run {run}",
        correlation_id=correlation_id,
        actor=None if act.actor_id is None else str(act.actor_id),
    )
    await compile_runs.create(
        conn, tenant, run, rows, rule_version=rule_version, activate=activate, batch=batch.batch_id, act=act
    )
    return Requested(run_id=run, rows=len(rows), job_ids=batch.job_ids)


def row_job(handlers: Handlers, *, seal: Sealing, compile: Compiling) -> Handler[RowOrder, None]:  # noqa: A002
    """Begin a row; one that was begun, or whose run is cancelled, is left as it is."""

    @handlers.job("COMPILE_ROW")
    async def run(ctx: Context, order: RowOrder) -> None:
        conn, tenant, run_id = await ctx.transaction(), TenantId(ctx.tenant), CompileRunId(order.run_id)
        row = await compile_runs.locked_row(conn, tenant, run_id, order.row_number)
        if row.passport_version_id is not None or row.cancelled_at is not None:
            return
        act = Act.ordered_by(order.actor_id, fresh.now())
        passport = await _passport(conn, tenant, row, act)
        version = await compile(
            conn,
            JobQueue(ctx),
            tenant,
            passport,
            snapshot=row.snapshot_id or await _sealed(conn, tenant, row.sku, seal, act),
            rule_version=row.rule_package_version_id,
            activate=row.activate,
            act=act,
        )
        await compile_runs.set_version(conn, tenant, run_id, order.row_number, version)

    @run.on_failure
    async def failed(ctx: Context, error: JobError) -> None:
        conn, tenant = await ctx.transaction(), TenantId(ctx.tenant)
        order = run.read_input(await recorded.payload_of(conn, tenant, ctx.job_id))
        problem = Problem(code=error.code, message=error.message)
        await compile_runs.set_problem(conn, tenant, CompileRunId(order.run_id), order.row_number, problem)

    return run


async def _passport(conn: Connection, tenant: TenantId, row: LockedRow, act: Act) -> PassportId:
    """The passport of the row's product; whatever of the two is not there is made, by whoever comes first."""
    found = (await compile_runs.known(conn, tenant, [row.sku])).get(row.sku)
    if found is None:
        return await _new_passport(conn, tenant, await _new_product(conn, tenant, row, act), act)
    return found.passport_id or await _new_passport(conn, tenant, found.battery_product_id, act)


async def _new_product(conn: Connection, tenant: TenantId, row: LockedRow, act: Act) -> BatteryProductId:
    if row.name is None:
        raise SkuUnknown(row.sku)
    made = await products.create_or_find(conn, tenant, sku=row.sku, name=row.name, act=act)
    return made.battery_product_id


async def _new_passport(conn: Connection, tenant: TenantId, product: BatteryProductId, act: Act) -> PassportId:
    return await passports.create_or_find(conn, tenant, product, act=act)


async def _sealed(conn: Connection, tenant: TenantId, sku: str, seal: Sealing, act: Act) -> SnapshotId:
    """A snapshot of what is known of a product now."""
    newest = await facts.newest_about(conn, tenant, sku)
    if not newest:
        raise NoFacts(sku)
    return await seal(conn, tenant, newest, label=f"{sku}, bulk compile", act=act)
