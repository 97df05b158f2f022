"""An exchange for each test, triggers on it, and a line to the broker that can be cut."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from tests.jobs.support.rabbitmq_broker import Wire, broker_url, wire_to
from tests.jobs.worker.rabbitmq.broker_scenario import MOST, Triggers

from bpc.runtime import clock

__all__ = ["broker_url"]


@pytest.fixture(autouse=True)
async def end_connections() -> AsyncIterator[None]:
    """Let the driver end connections that were never established: it does so when they are collected as garbage."""
    yield
    gc.collect()
    await asyncio.sleep(0)


@pytest.fixture
def exchange() -> str:
    return f"bpc-test-{clock.new_id().hex}"


@pytest.fixture
async def channel(broker_url: str) -> AsyncIterator[AbstractChannel]:
    """The broker as somebody else sees it."""
    async with await aio_pika.connect(broker_url, timeout=MOST) as connection:
        yield await connection.channel()


@pytest.fixture
async def triggers(broker_url: str, exchange: str) -> AsyncIterator[Triggers]:
    all_triggers = Triggers(broker_url, exchange)
    yield all_triggers
    await all_triggers.close()
    async with await aio_pika.connect(broker_url, timeout=MOST) as connection:
        await (await connection.channel()).exchange_delete(exchange)


@pytest.fixture
async def wire(broker_url: str) -> AsyncIterator[Wire]:
    async with wire_to(broker_url) as joined:
        yield joined


@pytest.fixture(autouse=True)
def reset_driver_loggers() -> Iterator[None]:
    """Their loggers are the process's: what one test sets must not help the next."""
    yield
    for name in ("aio_pika", "aiormq"):
        logging.getLogger(name).setLevel(logging.NOTSET)
