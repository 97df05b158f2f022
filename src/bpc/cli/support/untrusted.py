"""Functions on files from strangers, in a child process with limits; a small text is read in this process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from service_jobs import ProcessLimits, ProcessPool

from bpc.core.documents.reader import is_text

READ_LIMITS: Final = ProcessLimits(memory_bytes=220_000_000, cpu_seconds=30)  # as the service has
MAX_INLINE_BYTES: Final = 4_096

T = TypeVar("T")


class UntrustedFiles:
    """Runs functions; raises `LimitExceeded`."""

    def __init__(self, pool: ProcessPool) -> None:
        self._pool = pool

    async def run(self, function: Callable[..., T], arguments: tuple[Any, ...], content: bytes) -> T:
        """What `function(*arguments)` returns. `content` is the file that it reads."""
        if len(content) <= MAX_INLINE_BYTES and is_text(content):
            return function(*arguments)
        return await self._pool.run(function, arguments)


@asynccontextmanager
async def open_untrusted() -> AsyncIterator[UntrustedFiles]:
    """Child processes are started when they are needed."""
    pool = ProcessPool(1, limits=READ_LIMITS)
    try:
        yield UntrustedFiles(pool)
    finally:
        await pool.close()
