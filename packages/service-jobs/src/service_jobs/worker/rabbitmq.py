"""RabbitMQ as a second wake-up signal: submitters publish after the commit, and every worker that listens polls then.

    trigger = RabbitTrigger(url, "exchange")
    trigger.listen(wake)              a worker: calls `wake()` for every message, and when the broker is back
    trigger.publish([job_id])         a submitter: returns at once, never raises
    await trigger.close()

The messages carry no authority and are not read: workers find jobs in the database, by polling if need be. A lost
message costs a moment, a forged one costs a query. Messages that cannot be sent fast enough are merged into one. While
the broker is unreachable there is one warning, and everything goes on without it. Needs the extra `rabbitmq`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

import aio_pika
import orjson
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractIncomingMessage

log = logging.getLogger(__name__)

WakeCallback = Callable[[], None]

HEARTBEAT: Final = 10  # seconds; a broker that is silent three times as long is gone
MIN_WAKE_INTERVAL: Final = 0.02  # seconds between two messages to a worker: nobody can make it poll more often
CLOSE_SECONDS: Final = 1.0  # how long closing waits for a last message


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTimeouts:
    """In seconds: how long the broker may take to answer, and how long to wait before the next try."""

    answer: float = 5.0
    first_pause: float = 0.5
    longest_pause: float = 30.0


class BrokerDisconnected(Exception):
    """The broker closed the connection."""


class RabbitTrigger:
    """One connection to the broker, reopened whenever it is lost. It belongs to the event loop of its first use."""

    def __init__(
        self,
        url: str,
        exchange: str,
        routing_key: str = "jobs.trigger",
        *,
        connection_name: str = "service-jobs",
        timeouts: BrokerTimeouts = BrokerTimeouts(),  # noqa: B008 (frozen)
    ) -> None:
        self._broker, self._password = _parse_url(url)
        self._url = url
        self._exchange = exchange
        self._routing_key = routing_key
        self._connection_name = connection_name
        self._timeouts = timeouts
        self._wake: WakeCallback | None = None
        self._pending: UUID | None = None  # the last job that is not published yet
        self._all_published = asyncio.Event()
        self._all_published.set()
        self._has_work = asyncio.Event()  # something to publish, to listen to, or to notice
        self._keeper: asyncio.Task[None] | None = None
        self._closed = False
        self._connected = False
        self._warned = False

    @property
    def healthy(self) -> bool:
        """Whether the broker is connected; False until it first answered."""
        return self._connected

    def open(self) -> None:
        """Connect in the background. `listen` and `publish` do it too."""
        if self._keeper is None and not self._closed:
            # In a context of its own: the first submission must not pass its trace on to all later messages.
            self._keeper = asyncio.get_running_loop().create_task(
                self._keep_connected(), name="rabbitmq", context=Context()
            )

    def listen(self, wake: WakeCallback) -> None:
        """Call `wake` whenever there may be new jobs, until `close`."""
        self._wake = wake
        self._has_work.set()
        self.open()

    def publish(self, job_ids: Sequence[UUID]) -> None:
        """Announce these committed jobs, with one message that carries the last id."""
        if not job_ids or self._closed:
            return
        self._pending = job_ids[-1]
        self._all_published.clear()
        self._has_work.set()
        with suppress(RuntimeError):  # no event loop runs here: then nothing is sent
            self.open()

    async def close(self) -> None:
        """Send what was published a moment ago, if the broker is connected, and disconnect."""
        self._closed = True
        if self._connected:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._all_published.wait()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    async def _keep_connected(self) -> None:
        _silence_drivers()
        loop = asyncio.get_running_loop()
        pause = self._timeouts.first_pause
        while True:
            begun_at = loop.time()
            await self._connect_and_serve()
            if loop.time() - begun_at > self._timeouts.longest_pause:
                pause = self._timeouts.first_pause  # that was a good connection
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._timeouts.longest_pause)

    async def _connect_and_serve(self) -> None:
        """Connect, publish and listen until the connection is lost."""
        connection: AbstractConnection | None = None
        try:
            async with asyncio.timeout(self._timeouts.answer):
                connection = await aio_pika.connect(
                    self._url, heartbeat=HEARTBEAT, client_properties={"connection_name": self._connection_name}
                )
                channel = await _BrokerChannel.open(connection, self._exchange, self._has_work.set)
            await self._serve_channel(channel)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            self._mark_disconnected(BrokerDisconnected("the connection was closed"))
        except Exception as error:  # noqa: BLE001 (whatever the broker or its driver does, jobs go on)
            self._mark_disconnected(error)
        finally:
            self._connected = False
            if connection is not None:
                await self._close_connection(connection)

    async def _serve_channel(self, channel: "_BrokerChannel") -> None:
        """Runs until the channel is closed, which raises."""
        listening = False
        while True:
            if self._wake is not None and not listening:
                async with asyncio.timeout(self._timeouts.answer):
                    await channel.listen(self._routing_key, self._wake_worker)
                listening = True
                self._wake_worker()  # for what was missed
            if self._pending is not None:
                await self._publish_pending(channel, self._pending)
            # Only now: a broker short of memory accepts connections but no messages.
            self._mark_connected()
            await self._has_work.wait()
            self._has_work.clear()
            channel.require_open()

    async def _publish_pending(self, channel: "_BrokerChannel", job_id: UUID) -> None:
        self._pending = None  # before sending: what is published from here on needs another message
        try:
            async with asyncio.timeout(self._timeouts.answer):
                await channel.publish(self._routing_key, job_id)
        except BaseException:
            self._restore_pending(job_id)
            raise
        self._mark_published()

    def _mark_published(self) -> None:
        if self._pending is None:
            self._all_published.set()

    def _restore_pending(self, job_id: UUID) -> None:
        if self._pending is None:
            self._pending = job_id

    async def _close_connection(self, connection: AbstractConnection) -> None:
        try:
            async with asyncio.timeout(self._timeouts.answer):
                await connection.close()
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
        except Exception as error:  # it is closed in any case
            log.debug("the connection to RabbitMQ was not closed cleanly", exc_info=error)

    def _wake_worker(self) -> None:
        if self._wake is None:
            return
        try:
            self._wake()
        except Exception:
            log.exception("a worker could not be woken")

    def _mark_connected(self) -> None:
        self._connected = True
        if self._warned:
            self._warned = False
            log.info("RabbitMQ is back", extra={"broker": self._broker})

    def _mark_disconnected(self, error: Exception) -> None:
        self._connected = False
        if self._warned:
            return
        self._warned = True
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        if self._password:
            reason = reason.replace(self._password, "***")
        log.warning(
            "RabbitMQ is unreachable; workers fall back to polling",
            extra={"broker": self._broker, "reason": reason[:500]},
        )


class _BrokerChannel:
    """A channel and its exchange, while the connection lasts."""

    __slots__ = ("_channel", "_closed_reason", "_exchange", "_notice")

    def __init__(self, channel: AbstractChannel, exchange: AbstractExchange, notice: WakeCallback) -> None:
        self._channel = channel
        self._exchange = exchange
        self._notice = notice
        self._closed_reason: str | None = None

    @classmethod
    async def open(cls, connection: AbstractConnection, exchange: str, notice: WakeCallback) -> "_BrokerChannel":
        channel = await connection.channel()
        broker_channel = cls(
            channel, await channel.declare_exchange(exchange, aio_pika.ExchangeType.DIRECT, durable=True), notice
        )
        channel.close_callbacks.add(broker_channel._handle_closed)
        return broker_channel

    async def listen(self, routing_key: str, wake: WakeCallback) -> None:
        """Listen on an exclusive queue of this process. It holds one message: a second would say the same."""
        await self._channel.set_qos(prefetch_count=1)
        queue = await self._channel.declare_queue(exclusive=True, auto_delete=True, arguments={"x-max-length": 1})
        await queue.bind(self._exchange, routing_key)

        async def handle_message(message: AbstractIncomingMessage) -> None:
            wake()
            await asyncio.sleep(MIN_WAKE_INTERVAL)
            await message.ack()

        (await self._channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(self._handle_queue_deleted)
        await queue.consume(handle_message)

    async def publish(self, routing_key: str, job_id: UUID) -> None:
        message = aio_pika.Message(
            orjson.dumps({"job_id": str(job_id)}),
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.NOT_PERSISTENT,
        )
        await self._exchange.publish(message, routing_key, mandatory=False)

    def require_open(self) -> None:
        """Raise if the channel is closed."""
        if self._closed_reason is not None or self._channel.is_closed:
            raise BrokerDisconnected(self._closed_reason or "the connection was closed")

    def _handle_closed(self, _channel: object, error: BaseException | None) -> None:
        self._closed_reason = (
            f"the connection was closed ({error})" if str(error or "") else "the connection was closed"
        )
        self._notice()

    def _handle_queue_deleted(self, _frame: object) -> None:
        self._closed_reason = "the queue of this worker was deleted"
        self._notice()


def _parse_url(url: str) -> tuple[str, str | None]:
    """Host and port of the broker, for log lines, and its password, which must not be in any."""
    try:
        split = urlsplit(url)
        if split.scheme in {"amqp", "amqps"} and split.hostname:
            return f"{split.hostname}:{split.port or (5671 if split.scheme == 'amqps' else 5672)}", split.password
    except ValueError:
        pass
    raise ValueError("the broker's URL must begin with `amqp://` or `amqps://` and name a host")


def _is_cancelled() -> bool:
    """Whether this task was cancelled. The drivers raise the same error when a connection is lost."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _silence_drivers() -> None:
    """The drivers log every lost connection with a stack trace; we log it once, in one line."""
    for name in ("aio_pika", "aiormq"):
        driver = logging.getLogger(name)
        if driver.level == logging.NOTSET:  # the service has not set a level
            driver.setLevel(logging.CRITICAL)
