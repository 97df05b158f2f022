"""RabbitMQ as a second bell: whoever submits rings it after the commit, and every worker that hears it looks for jobs.

    trigger = RabbitTrigger(url)
    trigger.listen(wake)              a worker: `wake()` for every message, and whenever the broker is there again
    trigger.publish([job_id])         a submitter: returns at once, never raises
    await trigger.close()

The bell carries no authority. What a message says is not read: jobs are found in the database, by polling if need be,
so a lost message costs a moment and a forged one costs a query. Rings that come faster than they can be sent become
one. While the broker is away there is one warning, and everything goes on without it.
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

Wake = Callable[[], None]

HEARTBEAT: Final = 10  # seconds; a broker that is silent three times as long is gone
PAUSE: Final = 0.02  # seconds between two messages to a worker: nobody can make it look more often than that
FAREWELL: Final = 1.0  # seconds that closing waits for a last message


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """In seconds: how long the broker may take for an answer, and how long we wait before we ask again."""

    answer: float = 5.0
    first: float = 0.5
    longest: float = 30.0


class BrokerGone(Exception):
    """The broker ended the conversation."""


class RabbitTrigger:
    """One connection to the broker, made anew whenever it is lost. Belongs to the event loop it is first used on."""

    def __init__(
        self,
        url: str,
        exchange: str = "bpc",
        routing_key: str = "jobs.trigger",
        *,
        patience: Patience = Patience(),  # noqa: B008 (frozen)
    ) -> None:
        self._broker, self._secret = _parts(url)
        self._url = url
        self._exchange = exchange
        self._routing_key = routing_key
        self._patience = patience
        self._wake: Wake | None = None
        self._pending: UUID | None = None  # the last job nobody was told of yet
        self._sent = asyncio.Event()  # everybody was told
        self._sent.set()
        self._something = asyncio.Event()  # to do, or to notice
        self._keeper: asyncio.Task[None] | None = None
        self._closed = False
        self._connected = False
        self._warned = False

    @property
    def healthy(self) -> bool:
        """Whether the broker is there; False until it first answered."""
        return self._connected

    def open(self) -> None:
        """Connect in the background. `listen` and `publish` do it too."""
        if self._keeper is None and not self._closed:
            # In a context of its own: what is submitted first must not lend its trace to every later message.
            self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="rabbitmq", context=Context())

    def listen(self, wake: Wake) -> None:
        """From now on call `wake` when jobs may have come, until `close`."""
        self._wake = wake
        self._something.set()
        self.open()

    def publish(self, job_ids: Sequence[UUID]) -> None:
        """Ring for these jobs, which are committed. One message, with the last of them, stands for all."""
        if not job_ids or self._closed:
            return
        self._pending = job_ids[-1]
        self._sent.clear()
        self._something.set()
        with suppress(RuntimeError):  # no event loop runs here: then there is nobody to do it
            self.open()

    async def close(self) -> None:
        """Send what was published a moment ago, if the broker is there, and hang up."""
        self._closed = True
        if self._connected:
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL):
                    await self._sent.wait()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    async def _keep(self) -> None:
        _hush()
        loop = asyncio.get_running_loop()
        pause = self._patience.first
        while True:
            begun = loop.time()
            await self._serve()
            if loop.time() - begun > self._patience.longest:
                pause = self._patience.first  # that was a good connection
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._patience.longest)

    async def _serve(self) -> None:
        """Connect, ring and listen until the connection is lost."""
        connection: AbstractConnection | None = None
        try:
            async with asyncio.timeout(self._patience.answer):
                connection = await aio_pika.connect(
                    self._url, heartbeat=HEARTBEAT, client_properties={"connection_name": "bpc jobs"}
                )
                line = await _Line.open(connection, self._exchange, self._notice)
            await self._talk(line)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            self._lost(BrokerGone("the connection was closed"))
        except Exception as error:  # noqa: BLE001 (whatever the broker or its driver does, jobs go on)
            self._lost(error)
        finally:
            self._connected = False
            if connection is not None:
                await self._hang_up(connection)

    async def _talk(self, line: "_Line") -> None:
        """Until the line is dead, which raises."""
        listening = False
        while True:
            if self._wake is not None and not listening:
                async with asyncio.timeout(self._patience.answer):
                    await line.listen(self._routing_key, self._ring)
                listening = True
                self._ring()  # for what was missed
            if self._pending is not None:
                await self._tell(line, self._pending)
            # Only now: a broker short of memory lets us in and takes no messages.
            self._back()
            await self._something.wait()
            self._something.clear()
            line.check()

    async def _tell(self, line: "_Line", job_id: UUID) -> None:
        self._pending = None  # first: what is published from here on needs a message of its own
        try:
            async with asyncio.timeout(self._patience.answer):
                await line.tell(self._routing_key, job_id)
        except BaseException:
            self._untold(job_id)
            raise
        self._told()

    def _told(self) -> None:
        if self._pending is None:
            self._sent.set()

    def _untold(self, job_id: UUID) -> None:
        if self._pending is None:
            self._pending = job_id

    async def _hang_up(self, connection: AbstractConnection) -> None:
        try:
            async with asyncio.timeout(self._patience.answer):
                await connection.close()
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
        except Exception as error:  # it is over, in order or not
            log.debug("the connection to RabbitMQ did not end in order", exc_info=error)

    def _notice(self) -> None:
        self._something.set()

    def _ring(self) -> None:
        if self._wake is None:
            return
        try:
            self._wake()
        except Exception:
            log.exception("a worker could not be woken")

    def _back(self) -> None:
        self._connected = True
        if self._warned:
            self._warned = False
            log.info("RabbitMQ is back", extra={"broker": self._broker})

    def _lost(self, error: Exception) -> None:
        self._connected = False
        if self._warned:
            return
        self._warned = True
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        if self._secret:
            reason = reason.replace(self._secret, "***")
        log.warning(
            "RabbitMQ is away; jobs are found without it", extra={"broker": self._broker, "reason": reason[:500]}
        )


class _Line:
    """One connection while it lasts: a channel, and the exchange on it."""

    __slots__ = ("_channel", "_exchange", "_notice", "_why")

    def __init__(self, channel: AbstractChannel, exchange: AbstractExchange, notice: Wake) -> None:
        self._channel = channel
        self._exchange = exchange
        self._notice = notice
        self._why: str | None = None

    @classmethod
    async def open(cls, connection: AbstractConnection, exchange: str, notice: Wake) -> "_Line":
        channel = await connection.channel()
        line = cls(
            channel, await channel.declare_exchange(exchange, aio_pika.ExchangeType.DIRECT, durable=True), notice
        )
        channel.close_callbacks.add(line._ended)
        return line

    async def listen(self, routing_key: str, ring: Wake) -> None:
        """A queue of this process only, gone with it. It holds one message: a second would say the same."""
        await self._channel.set_qos(prefetch_count=1)
        queue = await self._channel.declare_queue(exclusive=True, auto_delete=True, arguments={"x-max-length": 1})
        await queue.bind(self._exchange, routing_key)

        async def heard(message: AbstractIncomingMessage) -> None:
            ring()
            await asyncio.sleep(PAUSE)
            await message.ack()

        (await self._channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(self._cancelled)
        await queue.consume(heard)

    async def tell(self, routing_key: str, job_id: UUID) -> None:
        message = aio_pika.Message(
            orjson.dumps({"job_id": str(job_id)}),
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.NOT_PERSISTENT,
        )
        await self._exchange.publish(message, routing_key, mandatory=False)

    def check(self) -> None:
        """Raise if this line is dead."""
        if self._why is not None or self._channel.is_closed:
            raise BrokerGone(self._why or "the connection was closed")

    def _ended(self, _channel: object, why: BaseException | None) -> None:
        self._why = f"the connection was closed ({why})" if str(why or "") else "the connection was closed"
        self._notice()

    def _cancelled(self, _frame: object) -> None:
        self._why = "the queue of this worker was deleted"
        self._notice()


def _parts(url: str) -> tuple[str, str | None]:
    """Where the broker is, which may be shown, and its password, which may not."""
    try:
        split = urlsplit(url)
        if split.scheme in {"amqp", "amqps"} and split.hostname:
            return f"{split.hostname}:{split.port or (5671 if split.scheme == 'amqps' else 5672)}", split.password
    except ValueError:
        pass
    raise ValueError("the broker's address must be `amqp://` or `amqps://` and name a host")


def _is_cancelled() -> bool:
    """Whether somebody cancelled us. The drivers raise the same error when a connection is lost in their midst."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _hush() -> None:
    """The drivers report every lost connection with a stack trace; we say it once, and plainly."""
    for name in ("aio_pika", "aiormq"):
        driver = logging.getLogger(name)
        if driver.level == logging.NOTSET:  # nobody asked to hear more
            driver.setLevel(logging.CRITICAL)
