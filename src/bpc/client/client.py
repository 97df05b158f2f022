"""The client: where the API is, who asks, and what takes more than one call."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import httpx2

from bpc.client.calls import Patience, plain
from bpc.client.errors import ApiError, JobFailed, StillWaiting
from bpc.client.models import Job
from bpc.client.operations import Operations
from bpc.client.shapes import Page

P = ParamSpec("P")
T = TypeVar("T")

SECONDS: Final = 40.0  # more than the API takes to give up on a request
OVER: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "DEAD_LETTER"})
FIRST_LOOK: Final = 0.05
LONGEST_LOOK: Final = 2.0


class Client(Operations):
    """The API at `url`, asked with `api_key`. Every operation of its OpenAPI document is a method of this name.

    `transport` is for tests and proxies: whatever httpx2 can send with.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        seconds: float = SECONDS,
        patience: Patience = Patience(),  # noqa: B008 (frozen)
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        host_of(url)
        headers = {"Accept": "*/*", "User-Agent": "bpc-client"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        http = httpx2.AsyncClient(
            base_url=url, headers=headers, timeout=seconds, transport=transport, follow_redirects=False
        )
        super().__init__(http, patience)
        self.key_prefix = None if api_key is None else api_key.rpartition("_")[0]  # the part that is no secret

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def get(self, path: str) -> bytes:
        """The body of any GET of the API, such as `/v1/documents?limit=3`."""
        if not path.startswith("/") or path.startswith("//"):  # the key is for this API, and goes nowhere else
            raise ValueError(f"`{path}` is no path: it starts with one `/`")
        try:
            return (await self._send("GET", path)).content
        except httpx2.InvalidURL as wrong:
            raise ValueError(f"`{path}` is no path: {wrong}") from None

    async def list_all(
        self, operation: Callable[P, Awaitable[Page[T]]], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[T]:
        """Every item of a list, page after page: `async for each in bpc.list_all(bpc.list_documents)`."""
        call: Callable[..., Awaitable[Page[T]]] = operation
        following: dict[str, Any] = {"limit": 200, **kwargs}
        while True:
            page = await call(*args, **following)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            following["cursor"] = page.next_cursor

    async def wait(self, job_id: UUID, *, seconds: float = 300.0) -> Job:
        """Return the job when it has succeeded; `JobFailed` if it is over otherwise, `StillWaiting` if it is not."""
        job = await self._until(
            lambda: self.get_job(job_id), lambda job: job.status in OVER, seconds, f"job {job_id}", may_be_missing=False
        )
        if job.status != "SUCCEEDED":
            raise JobFailed(str(job_id), job.status, plain(job.last_error))
        return job

    async def until(
        self, look: Callable[[], Awaitable[T]], is_so: Callable[[T], bool] = bool, *, seconds: float = 300.0
    ) -> T:
        """Look until `is_so`, and return what was seen. What is not found yet is waited for."""
        return await self._until(look, is_so, seconds, "what is waited for", may_be_missing=True)

    async def _until(
        self,
        look: Callable[[], Awaitable[T]],
        is_so: Callable[[T], bool],
        seconds: float,
        what: str,
        *,
        may_be_missing: bool,
    ) -> T:
        deadline, rest = time.monotonic() + seconds, FIRST_LOOK
        while True:
            try:
                seen = await look()
                if is_so(seen):
                    return seen
            except ApiError as refused:
                if refused.code != "NOT_FOUND" or not may_be_missing:
                    raise
            if time.monotonic() + rest > deadline:
                raise StillWaiting(what, seconds)
            await asyncio.sleep(rest)
            rest = min(rest * 1.5, LONGEST_LOOK)


def host_of(url: str) -> str:
    """The host of an address that an API can have; `ValueError` otherwise."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return parts.hostname
    raise ValueError(f"`{url}` is no address of an API; write it like http://127.0.0.1:8080")
