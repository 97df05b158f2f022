"""A product of 16 times as many parts costs 16 times as much, whatever PostgreSQL knows of its tables.

Counted in pages that a transaction asks for, in its statements, triggers and checks of foreign keys; and in rows that
each part of a plan handles. Nothing here depends on the machine. Plans are kept from the first, small product on, as a
session keeps them, and autovacuum has not come by.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import asyncpg
import orjson
import pytest
from service_jobs.testing import run_inline

from bpc.core.audit.events import Act
from bpc.core.formats.ids import DocumentVersionId, TenantId
from bpc.pipeline.facts import parse
from bpc.pipeline.replay import replay
from bpc.pipeline.sign import SignOrder
from bpc.pipeline.snapshot import snapshot_product
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.storage.evidence import statements
from bpc.storage.passports import passports, products
from tests.measurements import RecordMeasurement, choose_effort
from tests.pipeline.compile_fixtures import CompileInputs, PipelineRunner, make_compile_order, publish_rules
from tests.pipeline.document_fixtures import InProcessReader, create_unread_version

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

FIRST: Final = 5  # parts of the product that plans are made for
SMALL: Final = choose_effort(test=50, shown=300, campaign=300)
SIZES: Final = SMALL, 4 * SMALL, 16 * SMALL
STEPS: Final = ("parse", "snapshot", "compile", "replay")
MOST_ROWS: Final = 60  # that the parts of one plan may handle for a part of the product, all together
KEEP_PLANS: Final = "SET plan_cache_mode = force_generic_plan"
COUNT_PAGES: Final = """
    SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(c.oid)), 0)::bigint
      FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
"""


@dataclass(slots=True)
class GrowthRun:
    """Products of several sizes through the steps, and what each step cost."""

    runner: PipelineRunner
    tenant: TenantId
    act: Act
    pages: dict[tuple[str, int], int] = field(default_factory=dict)
    queries: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    async def run_steps(self, parts: int) -> None:
        sku, tenant, act = f"SKU-{parts}", self.tenant, self.act
        async with self.runner.database.tenant(tenant) as conn:
            content = orjson.dumps({"battery": _make_battery(sku), "components": [*map(_make_part, range(parts))]})
            version = await self._create_statement(conn, content)
        await self._measure(
            "parse", parts, lambda conn: parse(conn, tenant, version, reader_pool=InProcessReader(), act=act)
        )
        async with self.runner.database.tenant(tenant) as conn:
            footprint = await self._create_statement(conn, orjson.dumps(_make_footprint(sku)), kind="PCF")
            await parse(conn, tenant, footprint, reader_pool=InProcessReader(), act=act)
        sealed = await self._measure(
            "snapshot", parts, lambda conn: snapshot_product(conn, tenant, sku, label=None, act=act)
        )
        async with self.runner.database.tenant(tenant) as conn:
            product = await products.create_product(conn, tenant, sku=sku, name="Cell", act=act)
            passport = await passports.create_passport(conn, tenant, product.battery_product_id, act=act)
            rules = await publish_rules(conn, tenant, act)
            inputs = CompileInputs(passport=passport.passport_id, snapshot=sealed.snapshot_id, rules=rules)
            order = replace(await make_compile_order(conn, tenant, inputs, act), product_sku=sku)
        jobs, compiled_version = self.runner.pipeline_jobs, order.passport_version_id
        await self._measure("compile", parts, lambda conn: run_inline(jobs.compile, order, tenant=tenant, conn=conn))
        sign_order = SignOrder(passport_version_id=compiled_version, actor_id=None)
        async with self.runner.database.tenant(tenant) as conn:
            await run_inline(jobs.sign, sign_order, tenant=tenant, conn=conn)
        result = await self._measure("replay", parts, lambda conn: replay(conn, tenant, compiled_version, act=act))
        assert result.refusal is None

    async def _create_statement(self, conn: Connection, content: bytes, **options: Any) -> DocumentVersionId:
        version = await create_unread_version(conn, self.tenant, content, **options)
        document = await conn.fetchval(
            "SELECT document_id FROM document_versions WHERE document_version_id = $1", version
        )
        await statements.insert_statement(conn, self.tenant, document, version, file_name=None, act=self.act)
        return version

    async def _measure(self, step: str, parts: int, work: Callable[[Connection], Awaitable[Any]]) -> Any:
        async with self.runner.database.tenant(self.tenant) as conn:
            await conn.execute(KEEP_PLANS)
            start = await conn.fetchval(COUNT_PAGES)
            with conn.query_logger(self._keep_query):
                result = await work(conn)
                await asyncio.sleep(0)  # the driver tells of a statement in the next turn of the loop
            self.pages[step, parts] = await conn.fetchval(COUNT_PAGES) - start
        assert getattr(result, "error", None) is None, result
        return result

    def _keep_query(self, record: Any) -> None:
        if record.query.lstrip().startswith(("SELECT f.", "SELECT w.", "WITH known")):
            self.queries.append((record.query, record.args))


def _make_battery(sku: str) -> dict[str, object]:
    return {"sku": sku, "name": "Pack", "capacity_kwh": 75.5}


def _make_part(number: int) -> dict[str, object]:
    return {"part": f"part-{number}", "mass_kg": 0.5 + number}


def _make_footprint(sku: str) -> dict[str, object]:
    return {"sku": sku, "total_gco2e": 6040}


@pytest.mark.slow
@pytest.mark.parametrize("is_analyzed", [False, True], ids=["never-analyzed", "analyzed-when-empty"])
async def test_16_times_as_many_parts_read_16_times_as_much(
    database: Database,
    runner: PipelineRunner,
    tenant: TenantId,
    act: Act,
    superuser: Superuser,
    record_measurement: RecordMeasurement,
    is_analyzed: bool,
) -> None:
    if is_analyzed:
        await superuser.execute("VACUUM ANALYZE")
    run = GrowthRun(runner, tenant, act)
    await run.run_steps(FIRST)

    for parts in SIZES:
        run.queries.clear()
        await run.run_steps(parts)

    pages = {step: [round(run.pages[step, parts] / parts, 1) for parts in SIZES] for step in STEPS}
    figures: dict[str, Any] = {
        f"{step}_of_{parts}": pages[step][at] for step in STEPS for at, parts in enumerate(SIZES)
    }
    record_measurement(f"growth-{'analyzed-when-empty' if is_analyzed else 'never-analyzed'}", **figures)
    for step, (_, middle, large) in pages.items():
        assert large <= 1.3 * middle + 1, (step, pages)
    for query, arguments in run.queries:
        handled = await _count_handled_rows(database, tenant, query, arguments)
        assert handled <= MOST_ROWS * SIZES[-1], (handled, query)


async def _count_handled_rows(database: Database, tenant: TenantId, query: str, arguments: tuple[Any, ...]) -> int:
    async with database.tenant(tenant) as conn:
        text = await conn.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", *arguments)
    return sum(map(_count_rows, _iterate_nodes(json.loads(text)[0]["Plan"])))


def _iterate_nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _iterate_nodes(part)


def _count_rows(node: dict[str, Any]) -> int:
    """The rows that a part of a plan gave and threw away."""
    thrown = sum(value for name, value in node.items() if name.startswith("Rows Removed by"))
    return int((node["Actual Rows"] + thrown) * node["Actual Loops"])
