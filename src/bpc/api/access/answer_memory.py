"""Large answers while they are on their way: sent piece by piece, and counted until the client has fetched them.

A client that does not fetch its answer holds the bytes of it in memory. Each tenant may have so many; one that asks for
more is refused with RATE_LIMITED, before anything is sent.

    answer of a route ─► hold_answer ─► CountedResponse          # its bytes are there already
    hold_large ─► read ─► CountedResponse                        # counted before they are read
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bpc.api.access.tenant_limits import TenantMemory
from bpc.core.formats.ids import TenantId

LARGE_ANSWER_BYTES: Final = 65_536  # smaller ones are not counted: the socket takes most of them
PIECE_BYTES: Final = 131_072


class MemoryHold:
    """Bytes of a tenant that are counted until they are given back, once; at the latest when nobody knows them."""

    def __init__(self, memory: TenantMemory, tenant: TenantId, size: int) -> None:
        """Count the bytes. Raises `RateLimited` if the tenant has too many on their way."""
        self._size = 0
        self._memory = memory
        self._tenant = tenant
        memory.take(tenant, size)
        self._size = size

    def release(self) -> None:
        size, self._size = self._size, 0
        if size:
            self._memory.release(self._tenant, size)

    def __del__(self) -> None:
        self.release()


class CountedResponse(Response):
    """An answer whose bytes are counted until they are sent."""

    def __init__(
        self,
        pieces: Iterable[bytes],
        size: int,
        hold: MemoryHold | None,
        *,
        headers: Mapping[str, str],
        media_type: str | None,
    ) -> None:
        super().__init__(headers={**headers, "Content-Length": str(size)}, media_type=media_type)
        self._pieces = iter(pieces)
        self._hold = hold

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (of the protocol)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            # Each piece waits until the socket has taken the one before it, so no buffer holds all of them again.
            for piece in self._pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if self._hold is not None:
                self._hold.release()
        if self.background is not None:
            await self.background()


def hold_large(memory: TenantMemory, tenant: TenantId, size: int) -> MemoryHold | None:
    """Count the bytes of a large answer that is still to be read; `RateLimited` if the tenant has too many."""
    return MemoryHold(memory, tenant, size) if size > LARGE_ANSWER_BYTES else None


def hold_answer(memory: TenantMemory, tenant: TenantId, answer: Response) -> Response:
    """Return the answer to send. A large one is counted; `RateLimited` if the tenant has too many on their way."""
    size = len(answer.body)
    hold = hold_large(memory, tenant, size)
    if hold is None:
        return answer
    counted = CountedResponse(_cut(bytes(answer.body)), size, hold, headers={}, media_type=None)
    counted.status_code, counted.raw_headers = answer.status_code, answer.raw_headers
    counted.background = answer.background
    return counted


def _cut(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), PIECE_BYTES):
        yield body[start : start + PIECE_BYTES]
