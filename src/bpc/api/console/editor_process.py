"""A language server in a child process: messages of the protocol in and out, as texts.

    async with start_language_server() as server:
        await server.send(text)
        text = await server.receive()         # None once it has ended

The child is `bpc rules lsp --memory-only`. It reads no file of ours, gets nothing of our environment but the path, has
bounded memory, and is killed with all that it started when the block ends.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import psutil

MEMORY_MIB: Final = 2_048
NICE: Final = 5
MAX_ANSWER_BYTES: Final = 16_000_000
LENGTH_HEADER: Final = b"content-length:"


class LanguageServerProcess:
    """One language server. `answers` counts what it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.answers = 0

    async def send(self, message: str) -> None:
        """Hand over a message. Raises `ConnectionError` if the process has ended."""
        stdin = self._process.stdin
        if stdin is None:
            raise ConnectionResetError
        content = message.encode()
        stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(content), content))
        await stdin.drain()

    async def receive(self) -> str | None:
        """The next message; None if there will be no more."""
        stdout = self._process.stdout
        if stdout is None:
            return None
        length = 0
        try:
            while (line := (await stdout.readline())).strip():
                if line.lower().startswith(LENGTH_HEADER):
                    length = int(line[len(LENGTH_HEADER) :])
            if not 0 < length <= MAX_ANSWER_BYTES:
                return None
            content = await stdout.readexactly(length)
        except (asyncio.IncompleteReadError, ValueError):
            return None
        self.answers += 1
        return content.decode()

    def measure_cpu_seconds(self) -> float:
        """The processor time that it has used; 0 if it has ended."""
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)


@asynccontextmanager
async def start_language_server() -> AsyncIterator[LanguageServerProcess]:
    """A language server that ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # what is in the current folder is no module
        "-m",
        "bpc",
        "rules",
        "lsp",
        "--memory-only",
        "--memory-mib",
        str(MEMORY_MIB),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONUTF8": "1"},
        start_new_session=True,  # it and what it starts are one group, to be killed together
    )
    with suppress(psutil.Error):
        psutil.Process(process.pid).nice(NICE)
    try:
        yield LanguageServerProcess(process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
