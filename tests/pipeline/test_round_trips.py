"""The number of SQL statements of each step. They are most of the cost of a passport, so the number is fixed here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from service_jobs import Handler
from service_jobs.job import Ending
from service_jobs.testing import run_inline

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.pipeline.qr import QrOrder
from bpc.pipeline.sign import SignOrder
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from tests.pipeline.compile_fixtures import PipelineRunner, create_compile_inputs, make_compile_order, make_runner

# Beside beginning, whose transaction it is, ending and committing, which are the engine's.
COMPILE: Final = 4  # what it is of, the facts; the version, its event
SIGN: Final = 5  # version and chain, the key; the signature, its event, who wants to know
QR: Final = 4  # version and chain; the code, its event, who wants to know
ISSUE: Final = 3  # what it is of and who signs, the facts; the version with its events and who wants to know


@asynccontextmanager
async def count_statements(conn: Connection) -> AsyncIterator[list[str]]:
    """The statements of a connection, as they are sent."""
    statements: list[str] = []
    with conn.query_logger(lambda record: statements.append(record.query)):
        yield statements


async def _count_statements_of(
    runner: PipelineRunner, tenant: TenantId, handler: Handler[Any, Any], order: object
) -> list[str]:
    async with runner.database.tenant(tenant) as conn, count_statements(conn) as statements:
        ran = await run_inline(handler, order, tenant=tenant, conn=conn)
        assert ran.ending is Ending.SUCCEEDED
    return [query for query in statements if "LOCAL" not in query and "COMMIT" not in query]


async def test_each_step_sends_a_fixed_number_of_statements(runner: PipelineRunner, tenant: TenantId, act: Act) -> None:
    async with runner.database.tenant(tenant) as conn:
        inputs = await create_compile_inputs(conn, tenant, act)
        first, second = [await make_compile_order(conn, tenant, inputs, act) for _ in range(2)]
    version = second.passport_version_id
    await _count_statements_of(
        runner, tenant, runner.pipeline_jobs.compile, first
    )  # which reads the rules, once in a process

    compiled = await _count_statements_of(runner, tenant, runner.pipeline_jobs.compile, second)
    signed = await _count_statements_of(
        runner, tenant, runner.pipeline_jobs.sign, SignOrder(passport_version_id=version, actor_id=None)
    )
    drawn = await _count_statements_of(
        runner, tenant, runner.pipeline_jobs.qr, QrOrder(passport_version_id=version, actor_id=None)
    )

    assert (len(compiled), len(signed), len(drawn)) == (COMPILE, SIGN, QR), (compiled, signed, drawn)


async def test_a_version_that_is_issued_at_once_takes_three_statements(
    database: Database, tenant: TenantId, act: Act
) -> None:
    runner = await make_runner(database, act, sign_at_once=True)
    async with database.tenant(tenant) as conn:
        inputs = await create_compile_inputs(conn, tenant, act)
        first, second = [await make_compile_order(conn, tenant, inputs, act) for _ in range(2)]
    await _count_statements_of(runner, tenant, runner.pipeline_jobs.compile, first)

    issued = await _count_statements_of(runner, tenant, runner.pipeline_jobs.compile, second)

    assert len(issued) == ISSUE, issued
