"""RabbitMQ wakes workers sooner, and nothing depends on it."""

import asyncio
import time
from contextvars import ContextVar

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelPreconditionFailed
from service_jobs.worker.rabbitmq import RabbitTrigger
from tests.jobs.worker.rabbitmq.broker_scenario import (
    JOB,
    KEY,
    MOST,
    Triggers,
    Worker,
    is_routed,
    list_warnings,
    listen_with_driver,
    wait_until,
)

from bpc.runtime import clock
from tests.measurements import RecordMeasurement, allow_seconds


async def test_a_worker_is_woken_when_a_job_is_published(triggers: Triggers) -> None:
    worker = Worker()
    await triggers.make_listening(worker)

    triggers.make().publish([JOB])

    await worker.is_woken()
    assert worker.woken >= 1


async def test_every_worker_is_woken_and_so_is_the_one_that_submits(triggers: Triggers) -> None:
    workers = [Worker(), Worker(), Worker()]
    listening = [await triggers.make_listening(worker) for worker in workers]

    listening[0].publish([JOB])

    for worker in workers:
        await worker.is_woken()
    assert all(worker.woken >= 1 for worker in workers)


async def test_one_that_published_first_can_listen_later(triggers: Triggers) -> None:
    worker = Worker()
    trigger = triggers.make()
    trigger.publish([JOB])
    await wait_until(lambda: trigger.healthy)

    trigger.listen(worker.wake)
    await worker.is_woken()
    trigger.publish([JOB])

    await worker.is_woken()
    assert worker.woken >= 2


async def test_a_message_is_the_id_of_a_job_and_one_stands_for_a_batch(
    triggers: Triggers, channel: AbstractChannel
) -> None:
    received = await listen_with_driver(channel, triggers.exchange)

    triggers.make().publish([clock.new_id(), clock.new_id(), JOB])

    assert await received.next() == {"job_id": str(JOB)}
    assert received.waiting == 0


async def test_the_exchange_is_durable_and_direct_and_the_queue_goes_with_its_worker(
    triggers: Triggers, channel: AbstractChannel, broker_url: str
) -> None:
    trigger = await triggers.make_listening(Worker())
    exchange = await channel.declare_exchange(triggers.exchange, "direct", durable=True)
    assert await is_routed(channel, triggers.exchange)

    await trigger.close()

    async with asyncio.timeout(MOST):
        while await is_routed(channel, triggers.exchange):
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
    trigger = await triggers.make_listening(worker)
    exchange = await channel.declare_exchange(triggers.exchange, durable=True)
    odd = aio_pika.Message(garbage, content_type="text/html", content_encoding="br", headers={"x": 1}, reply_to="me")

    await exchange.publish(odd, KEY)
    await worker.is_woken()
    trigger.publish([JOB])
    await worker.is_woken()

    assert trigger.healthy
    assert list_warnings(caplog) == []


async def test_a_flood_of_messages_wakes_a_worker_fifty_times_a_second_at_most(
    triggers: Triggers, channel: AbstractChannel
) -> None:
    worker = Worker()
    trigger = await triggers.make_listening(worker)
    exchange = await channel.declare_exchange(triggers.exchange, durable=True)
    begun = time.monotonic()

    for _ in range(500):
        await exchange.publish(aio_pika.Message(b"!"), KEY)
    took = time.monotonic() - begun
    await trigger.close()

    assert worker.woken <= 5 + took * 50
    assert worker.woken >= 2


async def test_ten_thousand_submissions_are_told_in_few_messages_and_cost_microseconds(
    triggers: Triggers, channel: AbstractChannel, record_measurement: RecordMeasurement
) -> None:
    received = await listen_with_driver(channel, triggers.exchange)
    trigger = triggers.make()
    trigger.open()
    await wait_until(lambda: trigger.healthy)
    ids = [JOB]

    begun = time.perf_counter()
    for _ in range(10_000):
        trigger.publish(ids)
    each = (time.perf_counter() - begun) / 10_000

    assert await received.next() == {"job_id": str(JOB)}
    assert received.waiting < 100
    record_measurement("rabbitmq-publish", nanoseconds_per_call=round(each * 1e9))
    assert each < allow_seconds(20e-6)


async def test_closing_sends_what_was_published_just_before(triggers: Triggers, channel: AbstractChannel) -> None:
    received = await listen_with_driver(channel, triggers.exchange)
    trigger = triggers.make()
    trigger.open()
    await wait_until(lambda: trigger.healthy)

    trigger.publish([JOB])
    await trigger.close()

    assert await received.next() == {"job_id": str(JOB)}


async def test_after_closing_nothing_is_sent_and_nothing_fails(triggers: Triggers) -> None:
    trigger = await triggers.make_listening(Worker())

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

    assert list_warnings(caplog) == ["a worker could not be woken"] * 2


async def test_what_is_submitted_first_does_not_lend_its_context_to_what_follows(triggers: Triggers) -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: asyncio.Queue[str] = asyncio.Queue()
    trigger = triggers.make()

    request.set("the first")
    trigger.listen(lambda: seen.put_nowait(request.get()))

    async with asyncio.timeout(MOST):
        assert await seen.get() == "none"


def test_publishing_without_an_event_loop_or_without_jobs_does_nothing() -> None:
    trigger = RabbitTrigger("amqp://nowhere.invalid/", "jobs")

    trigger.publish([JOB])
    trigger.publish([])

    assert not trigger.healthy


@pytest.mark.parametrize("url", ["", "localhost:5672", "http://localhost/", "amqp://", "amqp://u:hunter2@host:x/"])
def test_an_address_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="amqp://") as refused:
        RabbitTrigger(url, "jobs")

    assert "hunter2" not in str(refused.value)
