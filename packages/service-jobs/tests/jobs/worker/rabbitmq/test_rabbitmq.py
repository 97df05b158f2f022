"""RabbitMQ wakes workers sooner, and nothing depends on it."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from uuid import UUID

import aio_pika
import orjson
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import ChannelPreconditionFailed
from pamqp.commands import Basic

from bpc import fresh
from bpc.jobs.rabbit import Patience, RabbitTrigger
from tests.jobs.broker import Wire, broker_url, wire_to
from tests.measuring import Measured, allowed, effort
from tests.ports import free_ports

__all__ = ["broker_url"]

JOB = UUID("01938c3e-7a40-7000-8000-000000000001")
KEY = "jobs.trigger"
QUICK = Patience(answer=2.0, first=0.02, longest=0.1)
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
        self._made: list[RabbitTrigger] = []

    def make(self, url: str | None = None, patience: Patience = QUICK) -> RabbitTrigger:
        made = RabbitTrigger(url or self.url, self.exchange, KEY, patience=patience)
        self._made.append(made)
        return made

    async def listening(self, worker: Worker, url: str | None = None) -> RabbitTrigger:
        """A trigger that has connected, which wakes its worker once."""
        made = self.make(url)
        made.listen(worker.wake)
        await worker.is_woken()
        return made

    async def close(self) -> None:
        async with asyncio.timeout(MOST):
            for made in self._made:
                await made.close()


@pytest.fixture
def exchange() -> str:
    return f"bpc-test-{fresh.new_id().hex}"


@pytest.fixture
async def channel(broker_url: str) -> AsyncIterator[AbstractChannel]:
    """The broker as somebody else sees it."""
    async with await aio_pika.connect(broker_url, timeout=MOST) as connection:
        yield await connection.channel()


@pytest.fixture
async def triggers(broker_url: str, exchange: str) -> AsyncIterator[Triggers]:
    made = Triggers(broker_url, exchange)
    yield made
    await made.close()
    async with await aio_pika.connect(broker_url, timeout=MOST) as connection:
        await (await connection.channel()).exchange_delete(exchange)


@pytest.fixture
async def wire(broker_url: str) -> AsyncIterator[Wire]:
    async with wire_to(broker_url) as joined:
        yield joined


@pytest.fixture(autouse=True)
def drivers_speak_as_elsewhere() -> Iterator[None]:
    """Their loggers are the process's: what one test sets must not help the next."""
    yield
    for name in ("aio_pika", "aiormq"):
        logging.getLogger(name).setLevel(logging.NOTSET)


async def test_a_worker_is_woken_when_a_job_is_published(triggers: Triggers) -> None:
    worker = Worker()
    await triggers.listening(worker)

    triggers.make().publish([JOB])

    await worker.is_woken()
    assert worker.woken >= 1


async def test_every_worker_is_woken_and_so_is_the_one_that_submits(triggers: Triggers) -> None:
    workers = [Worker(), Worker(), Worker()]
    listening = [await triggers.listening(worker) for worker in workers]

    listening[0].publish([JOB])

    for worker in workers:
        await worker.is_woken()
    assert all(worker.woken >= 1 for worker in workers)


async def test_one_that_published_first_can_listen_later(triggers: Triggers) -> None:
    worker = Worker()
    trigger = triggers.make()
    trigger.publish([JOB])
    await until(lambda: trigger.healthy)

    trigger.listen(worker.wake)
    await worker.is_woken()
    trigger.publish([JOB])

    await worker.is_woken()
    assert worker.woken >= 2


async def test_a_message_is_the_id_of_a_job_and_one_stands_for_a_batch(
    triggers: Triggers, channel: AbstractChannel
) -> None:
    received = await heard_by_somebody_else(channel, triggers.exchange)

    triggers.make().publish([fresh.new_id(), fresh.new_id(), JOB])

    assert await received.next() == {"job_id": str(JOB)}
    assert received.waiting == 0


async def test_the_exchange_is_durable_and_direct_and_the_queue_goes_with_its_worker(
    triggers: Triggers, channel: AbstractChannel, broker_url: str
) -> None:
    trigger = await triggers.listening(Worker())
    exchange = await channel.declare_exchange(triggers.exchange, "direct", durable=True)
    assert await routed(channel, triggers.exchange)

    await trigger.close()

    async with asyncio.timeout(MOST):
        while await routed(channel, triggers.exchange):
            await asyncio.sleep(0.02)
    with pytest.raises(ChannelPreconditionFailed):
        await channel.declare_exchange(exchange.name, "direct", durable=False)


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\xff\x00", b"not json", b'{"job_id": "\'; DROP TABLE jobs.job; --"}', b"[" * 100_000, b"x" * 1_000_000],
    ids=["empty", "bytes", "text", "an attack", "deep", "large"],
)
async def test_whatever_a_message_contains_it_wakes_and_does_nothing_else(
    triggers: Triggers, channel: AbstractChannel, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()
    trigger = await triggers.listening(worker)
    exchange = await channel.declare_exchange(triggers.exchange, durable=True)
    odd = aio_pika.Message(garbage, content_type="text/html", content_encoding="br", headers={"x": 1}, reply_to="me")

    await exchange.publish(odd, KEY)
    await worker.is_woken()
    trigger.publish([JOB])
    await worker.is_woken()

    assert trigger.healthy
    assert problems(caplog) == []


async def test_a_flood_of_messages_wakes_a_worker_fifty_times_a_second_at_most(
    triggers: Triggers, channel: AbstractChannel
) -> None:
    worker = Worker()
    trigger = await triggers.listening(worker)
    exchange = await channel.declare_exchange(triggers.exchange, durable=True)
    begun = time.monotonic()

    for _ in range(500):
        await exchange.publish(aio_pika.Message(b"!"), KEY)
    took = time.monotonic() - begun
    await trigger.close()

    assert worker.woken <= 5 + took * 50
    assert worker.woken >= 2


async def test_ten_thousand_submissions_are_told_in_few_messages_and_cost_microseconds(
    triggers: Triggers, channel: AbstractChannel, measured: Measured
) -> None:
    received = await heard_by_somebody_else(channel, triggers.exchange)
    trigger = triggers.make()
    trigger.open()
    await until(lambda: trigger.healthy)
    ids = [JOB]

    begun = time.perf_counter()
    for _ in range(10_000):
        trigger.publish(ids)
    each = (time.perf_counter() - begun) / 10_000

    assert await received.next() == {"job_id": str(JOB)}
    assert received.waiting < 100
    measured("rabbitmq-publish", nanoseconds_per_call=round(each * 1e9))
    assert each < allowed(20e-6)


async def test_without_a_broker_there_is_one_warning_and_submitting_goes_on(
    exchange: str, caplog: pytest.LogCaptureFixture
) -> None:
    (port,) = free_ports(1)
    trigger = RabbitTrigger(f"amqp://bpc:hunter2@127.0.0.1:{port}/", exchange, patience=QUICK)
    trigger.listen(lambda: None)
    await until(lambda: bool(problems(caplog)))

    begun = time.perf_counter()
    for _ in range(1_000):
        trigger.publish([JOB])
    assert time.perf_counter() - begun < allowed(1)
    await asyncio.sleep(0.5)  # long enough for several attempts
    assert not trigger.healthy
    await trigger.close()

    assert problems(caplog) == ["RabbitMQ is away; jobs are found without it"]
    assert caplog.records[-1].__dict__["broker"] == f"127.0.0.1:{port}"
    assert "hunter2" not in str([record.__dict__ for record in caplog.records])


async def test_a_broker_that_dies_is_reported_once_and_used_again_when_it_is_back(
    triggers: Triggers, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    worker = Worker()
    trigger = await triggers.listening(worker, wire.url)

    for outage in (1, 2):
        await wire.cut()
        await until(lambda: not trigger.healthy)
        trigger.publish([JOB])
        await asyncio.sleep(0.2)  # long enough for several attempts
        assert len(problems(caplog)) == outage

        await wire.join()
        await worker.is_woken()  # for what it may have missed
        await until(lambda: trigger.healthy)
        triggers.make().publish([JOB])
        await worker.is_woken()

    assert [record.getMessage() for record in caplog.records if record.name.startswith("bpc")] == [
        "RabbitMQ is away; jobs are found without it",
        "RabbitMQ is back",
    ] * 2


async def test_a_line_that_breaks_again_and_again_while_jobs_are_published_is_always_mended(
    triggers: Triggers, wire: Wire
) -> None:
    worker, submitting = Worker(), Worker()
    await triggers.listening(worker)
    trigger = triggers.make(wire.url, Patience(answer=2.0, first=0.001, longest=0.001))
    trigger.listen(submitting.wake)

    for broken in range(effort(test=30, shown=300, campaign=3_000)):
        for _ in range(broken % 30):  # so that it breaks in another place each time
            trigger.publish([JOB])
            await asyncio.sleep(0)
        wire.hang_up()
        await asyncio.sleep(broken % 7 / 1_000)

    await until(lambda: trigger.healthy)
    worker.forget()
    trigger.publish([JOB])
    await worker.is_woken()
    submitting.forget()
    triggers.make().publish([JOB])
    await submitting.is_woken()

    assert trigger.healthy


async def test_what_was_published_while_the_broker_was_away_is_told_when_it_is_back(
    triggers: Triggers, wire: Wire
) -> None:
    worker = Worker()
    await triggers.listening(worker)
    submitter = triggers.make(wire.url)
    submitter.open()
    await until(lambda: submitter.healthy)
    await wire.cut()
    await until(lambda: not submitter.healthy)

    worker.forget()
    submitter.publish([JOB])
    await wire.join()

    await worker.is_woken()
    assert worker.woken >= 1


async def test_a_broker_that_takes_calls_and_says_nothing_is_away(
    triggers: Triggers, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    wire.go_dumb()
    trigger = triggers.make(wire.url, Patience(answer=0.2, first=0.02, longest=0.1))
    trigger.listen(lambda: None)

    await until(lambda: wire.calls >= 3)

    assert not trigger.healthy
    assert problems(caplog) == ["RabbitMQ is away; jobs are found without it"]


async def test_a_broker_that_falls_silent_does_not_hold_up_submitting_or_closing(
    triggers: Triggers, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    trigger = triggers.make(wire.url, Patience(answer=0.2, first=0.02, longest=0.1))
    trigger.open()
    await until(lambda: trigger.healthy)
    wire.go_dumb()

    begun = time.perf_counter()
    trigger.publish([JOB])
    assert time.perf_counter() - begun < allowed(0.1)
    await until(lambda: not trigger.healthy)  # nobody confirmed it
    async with asyncio.timeout(MOST):
        await trigger.close()

    assert len(problems(caplog)) == 1


async def test_an_exchange_that_is_somebody_elses_is_named_as_the_reason(
    triggers: Triggers, channel: AbstractChannel, caplog: pytest.LogCaptureFixture
) -> None:
    await channel.declare_exchange(triggers.exchange, "fanout")

    triggers.make().publish([JOB])
    await until(lambda: bool(problems(caplog)))

    assert "PRECONDITION_FAILED" in caplog.records[-1].__dict__["reason"]


async def test_closing_sends_what_was_published_just_before(triggers: Triggers, channel: AbstractChannel) -> None:
    received = await heard_by_somebody_else(channel, triggers.exchange)
    trigger = triggers.make()
    trigger.open()
    await until(lambda: trigger.healthy)

    trigger.publish([JOB])
    await trigger.close()

    assert await received.next() == {"job_id": str(JOB)}


async def test_after_closing_nothing_is_sent_and_nothing_fails(triggers: Triggers) -> None:
    trigger = await triggers.listening(Worker())

    await trigger.close()
    await trigger.close()
    trigger.publish([JOB])
    trigger.open()

    assert not trigger.healthy


async def test_a_worker_that_cannot_be_woken_is_logged_and_called_again(
    triggers: Triggers, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()

    def wake() -> None:
        worker.wake()
        raise OSError("not today")

    trigger = triggers.make()
    trigger.listen(wake)
    await worker.is_woken()
    trigger.publish([JOB])
    await worker.is_woken()

    assert problems(caplog) == ["a worker could not be woken"] * 2


async def test_what_is_submitted_first_does_not_lend_its_context_to_what_follows(triggers: Triggers) -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: asyncio.Queue[str] = asyncio.Queue()
    trigger = triggers.make()

    request.set("the first")
    trigger.listen(lambda: seen.put_nowait(request.get()))

    async with asyncio.timeout(MOST):
        assert await seen.get() == "none"


def test_publishing_without_an_event_loop_or_without_jobs_does_nothing() -> None:
    trigger = RabbitTrigger("amqp://nowhere.invalid/")

    trigger.publish([JOB])
    trigger.publish([])

    assert not trigger.healthy


@pytest.mark.parametrize("url", ["", "localhost:5672", "http://localhost/", "amqp://", "amqp://u:hunter2@host:x/"])
def test_an_address_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="amqp://") as refused:
        RabbitTrigger(url)

    assert "hunter2" not in str(refused.value)


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What anybody warned of, the drivers and asyncio too."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def until(true: Callable[[], bool]) -> None:
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


async def heard_by_somebody_else(channel: AbstractChannel, exchange: str) -> Received:
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind(await channel.declare_exchange(exchange, durable=True), KEY)
    received = Received()
    await queue.consume(received.take, no_ack=True)
    return received


async def routed(channel: AbstractChannel, exchange: str) -> bool:
    """Whether a message would reach anybody."""
    there = await channel.get_exchange(exchange)
    answer = await there.publish(aio_pika.Message(b"?"), KEY, mandatory=True)
    return isinstance(answer, Basic.Ack)
