"""How often a step asks the database, which is most of what a passport costs: a figure that grows only on purpose."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.jobs import Handler
from bpc.jobs.outcome import Ending
from bpc.jobs.testing import run_inline
from bpc.pipeline.qr import QrOrder
from bpc.pipeline.sign import SignOrder
from tests.pipeline.ready import Bench, bench, order_of, ready

# Beside beginning, whose transaction it is, ending and committing, which are the engine's.
COMPILE: Final = 4  # what it is of, the facts; the version, its event
SIGN: Final = 5  # version and chain, the key; the signature, its event, who wants to know
QR: Final = 3  # version and chain; the code, its event


@asynccontextmanager
async def counted(conn: Connection) -> AsyncIterator[list[str]]:
    """The statements of a connection, as they are sent."""
    asked: list[str] = []
    with conn.query_logger(lambda record: asked.append(record.query)):
        yield asked


@pytest.fixture
async def ours(database: Database, act: Act) -> Bench:
    return await bench(database, act)


async def _asked(ours: Bench, tenant: TenantId, handler: Handler[Any, None], order: object) -> list[str]:
    async with ours.database.tenant(tenant) as conn, counted(conn) as asked:
        ran = await run_inline(handler, order, tenant=tenant, conn=conn)
        assert ran.ending is Ending.SUCCEEDED
    return [query for query in asked if "LOCAL" not in query and "COMMIT" not in query]


async def test_a_step_asks_no_more_than_it_has_to(ours: Bench, tenant: TenantId, act: Act) -> None:
    async with ours.database.tenant(tenant) as conn:
        given = await ready(conn, tenant, act)
        first, second = [await order_of(conn, tenant, given, act) for _ in range(2)]
    version = second.passport_version_id
    await _asked(ours, tenant, ours.steps.compile, first)  # which reads the rules, once in a process

    compiled = await _asked(ours, tenant, ours.steps.compile, second)
    signed = await _asked(ours, tenant, ours.steps.sign, SignOrder(passport_version_id=version, actor_id=None))
    drawn = await _asked(ours, tenant, ours.steps.qr, QrOrder(passport_version_id=version, actor_id=None))

    assert (len(compiled), len(signed), len(drawn)) == (COMPILE, SIGN, QR), (compiled, signed, drawn)
