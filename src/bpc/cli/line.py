"""The line between a process and those it started: questions and answers over a socket, and its end as news.

    parent   Line(socket, {})                        await line.ask("figures")
    child    Line(socket, {"figures": figures})      answers until the line is lost

Each message is a line of JSON, `{"ask": 7, "what": "figures"}` or `{"to": 7, "answer": "…"}`; both sides may ask. The
operating system ends the line with the process that holds the other end, however that process ended.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

from bpc.logs import logger

LONGEST: Final = 16_000_000  # bytes of a message
PATIENCE: Final = 2.0  # seconds that an answer may take

Answers = Mapping[str, Callable[[], Awaitable[str]]]
log = logger(__name__)


class Line:
    """One end of a line. `run` is what keeps it going; it returns when the line is lost."""

    def __init__(self, sock: socket.socket, answers: Answers) -> None:
        self._socket = sock
        self._answers = answers
        self._writer: asyncio.StreamWriter | None = None
        self._asked: dict[int, asyncio.Future[str]] = {}
        self._numbers = count()
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Answer, and pass answers on, until nobody is at the other end."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._socket, limit=LONGEST)
        try:
            with suppress(OSError, ValueError):  # lost in the middle of a message
                while line := await reader.readline():
                    self._heard(json.loads(line))
        finally:
            self._writer.transport.abort()
            self._writer = None
            for waiting in self._asked.values():
                waiting.cancel()

    async def ask(self, what: str, seconds: float = PATIENCE) -> str | None:
        """What the other side answers; None if it does not, or not in time."""
        if self._writer is None:
            return None
        number = next(self._numbers)
        self._asked[number] = answer = asyncio.get_running_loop().create_future()
        self._send({"ask": number, "what": what})
        try:
            await asyncio.wait([answer], timeout=seconds)
            return None if answer.cancelled() or not answer.done() else answer.result()
        finally:
            del self._asked[number]

    def _heard(self, message: Any) -> None:
        if "to" in message:
            waiting = self._asked.get(message["to"])
            if waiting is not None and not waiting.done():
                waiting.set_result(message["answer"])
        else:
            task = asyncio.create_task(self._answer(message["ask"], message["what"]))
            self._answering.add(task)  # or nobody holds it, and it may vanish in the middle
            task.add_done_callback(self._answering.discard)

    async def _answer(self, number: int, what: str) -> None:
        try:
            self._send({"to": number, "answer": await self._answers[what]()})
        except Exception:
            log.exception("a question of another process could not be answered", what=what)

    def _send(self, message: Mapping[str, object]) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(message).encode() + b"\n")
