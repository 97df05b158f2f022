"""A broker that is away, silent or broken: one warning, and everything goes on without it."""

import asyncio
import logging
import time

import pytest
from aio_pika.abc import AbstractChannel
from service_jobs.worker.rabbitmq import BrokerTimeouts, RabbitTrigger
from tests.jobs.support.rabbitmq_broker import Wire
from tests.jobs.worker.rabbitmq.broker_scenario import JOB, MOST, QUICK, Triggers, Worker, list_warnings, wait_until

from tests.measurements import allow_seconds, choose_effort
from tests.ports import find_free_ports


async def test_without_a_broker_there_is_one_warning_and_submitting_goes_on(
    exchange: str, caplog: pytest.LogCaptureFixture
) -> None:
    (port,) = find_free_ports(1)
    trigger = RabbitTrigger(f"amqp://bpc:hunter2@127.0.0.1:{port}/", exchange, timeouts=QUICK)
    trigger.listen(lambda: None)
    await wait_until(lambda: bool(list_warnings(caplog)))

    begun = time.perf_counter()
    for _ in range(1_000):
        trigger.publish([JOB])
    assert time.perf_counter() - begun < allow_seconds(1)
    await asyncio.sleep(0.5)  # long enough for several attempts
    assert not trigger.healthy
    await trigger.close()

    assert list_warnings(caplog) == ["RabbitMQ is unreachable; workers fall back to polling"]
    assert caplog.records[-1].__dict__["broker"] == f"127.0.0.1:{port}"
    assert "hunter2" not in str([record.__dict__ for record in caplog.records])


async def test_a_broker_that_dies_is_reported_once_and_used_again_when_it_is_back(
    triggers: Triggers, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    worker = Worker()
    trigger = await triggers.make_listening(worker, wire.url)

    for outage in (1, 2):
        await wire.cut()
        await wait_until(lambda: not trigger.healthy)
        trigger.publish([JOB])
        await asyncio.sleep(0.2)  # long enough for several attempts
        assert len(list_warnings(caplog)) == outage

        await wire.join()
        await worker.is_woken()  # for what it may have missed
        await wait_until(lambda: trigger.healthy)
        triggers.make().publish([JOB])
        await worker.is_woken()

    assert [record.getMessage() for record in caplog.records if record.name.startswith("service_jobs")] == [
        "RabbitMQ is unreachable; workers fall back to polling",
        "RabbitMQ is back",
    ] * 2


async def test_a_line_that_breaks_again_and_again_while_jobs_are_published_is_always_mended(
    triggers: Triggers, wire: Wire
) -> None:
    worker, submitting = Worker(), Worker()
    await triggers.make_listening(worker)
    trigger = triggers.make(wire.url, BrokerTimeouts(answer=2.0, first_pause=0.001, longest_pause=0.001))
    trigger.listen(submitting.wake)

    for broken in range(choose_effort(test=30, shown=300, campaign=3_000)):
        for _ in range(broken % 30):  # so that it breaks in another place each time
            trigger.publish([JOB])
            await asyncio.sleep(0)
        wire.hang_up()
        await asyncio.sleep(broken % 7 / 1_000)

    await wait_until(lambda: trigger.healthy)
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
    await triggers.make_listening(worker)
    submitter = triggers.make(wire.url)
    submitter.open()
    await wait_until(lambda: submitter.healthy)
    await wire.cut()
    await wait_until(lambda: not submitter.healthy)

    worker.forget()
    submitter.publish([JOB])
    await wire.join()

    await worker.is_woken()
    assert worker.woken >= 1


async def test_a_broker_that_takes_calls_and_says_nothing_is_away(
    triggers: Triggers, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    wire.go_dumb()
    trigger = triggers.make(wire.url, BrokerTimeouts(answer=0.2, first_pause=0.02, longest_pause=0.1))
    trigger.listen(lambda: None)

    await wait_until(lambda: wire.calls >= 3)

    assert not trigger.healthy
    assert list_warnings(caplog) == ["RabbitMQ is unreachable; workers fall back to polling"]


async def test_a_broker_that_falls_silent_does_not_hold_up_submitting_or_closing(
    triggers: Triggers, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    trigger = triggers.make(wire.url, BrokerTimeouts(answer=0.2, first_pause=0.02, longest_pause=0.1))
    trigger.open()
    await wait_until(lambda: trigger.healthy)
    wire.go_dumb()

    begun = time.perf_counter()
    trigger.publish([JOB])
    assert time.perf_counter() - begun < allow_seconds(0.1)
    await wait_until(lambda: not trigger.healthy)  # nobody confirmed it
    async with asyncio.timeout(MOST):
        await trigger.close()

    assert len(list_warnings(caplog)) == 1


async def test_an_exchange_that_is_somebody_elses_is_named_as_the_reason(
    triggers: Triggers, channel: AbstractChannel, caplog: pytest.LogCaptureFixture
) -> None:
    await channel.declare_exchange(triggers.exchange, "fanout")

    triggers.make().publish([JOB])
    await wait_until(lambda: bool(list_warnings(caplog)))

    assert "PRECONDITION_FAILED" in caplog.records[-1].__dict__["reason"]
