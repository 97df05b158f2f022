"""What tests of RabbitMQ share: a worker that counts, triggers, and a listener that uses the driver itself."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import aio_pika
import orjson
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from pamqp.commands import Basic
from service_jobs.worker.rabbitmq import BrokerTimeouts, RabbitTrigger

JOB = UUID("01938c3e-7a40-7000-8000-000000000001")
KEY = "jobs.trigger"
QUICK = BrokerTimeouts(answer=2.0, first_pause=0.02, longest_pause=0.1)
MOST = 60.0  # seconds anything here is waited for


@dataclass
class Worker:
    """Counts how often it is woken."""

    woken: int = 0
    _ring: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self.woken += 1
        self._ring.set()

    def forget(self) -> None:
        self._ring.clear()

    async def is_woken(self) -> None:
        async with asyncio.timeout(MOST):
            await self._ring.wait()
        self._ring.clear()


class Triggers:
    """Makes triggers on the exchange of this test, and closes them."""

    def __init__(self, url: str, exchange: str) -> None:
        self.url = url
        self.exchange = exchange
        self._triggers: list[RabbitTrigger] = []

    def make(self, url: str | None = None, patience: BrokerTimeouts = QUICK) -> RabbitTrigger:
        trigger = RabbitTrigger(url or self.url, self.exchange, KEY, timeouts=patience)
        self._triggers.append(trigger)
        return trigger

    async def make_listening(self, worker: Worker, url: str | None = None) -> RabbitTrigger:
        """A trigger that has connected, which wakes its worker once."""
        trigger = self.make(url)
        trigger.listen(worker.wake)
        await worker.is_woken()
        return trigger

    async def close(self) -> None:
        async with asyncio.timeout(MOST):
            for trigger in self._triggers:
                await trigger.close()


def list_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What anybody warned of, the drivers and asyncio too."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def wait_until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(MOST):
        while not true():
            await asyncio.sleep(0.01)


class Received:
    """What the messages said, to somebody who reads them."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[object] = asyncio.Queue()

    async def take(self, message: AbstractIncomingMessage) -> None:
        await self._queue.put(orjson.loads(message.body))

    async def next(self) -> object:
        async with asyncio.timeout(MOST):
            return await self._queue.get()

    @property
    def waiting(self) -> int:
        return self._queue.qsize()


async def listen_with_driver(channel: AbstractChannel, exchange: str) -> Received:
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(await channel.declare_exchange(exchange, durable=True), KEY)
    received = Received()
    await queue.consume(received.take, no_ack=True)
    return received


async def is_routed(channel: AbstractChannel, exchange: str) -> bool:
    """Whether a message would reach anybody."""
    there = await channel.get_exchange(exchange)
    answer = await there.publish(aio_pika.Message(b"?"), KEY, mandatory=True)
    return isinstance(answer, Basic.Ack)
