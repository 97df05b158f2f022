"""The clients: the address and the key of an API, and the helpers that make more than one call."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import httpx2

from bpc_client.base_models import Page
from bpc_client.calls import RetryPolicy, to_plain
from bpc_client.errors import ApiError, JobFailed, WaitTimeout
from bpc_client.models import Job
from bpc_client.operations import Operations
from bpc_client.sync_operations import SyncOperations

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_SECONDS: Final = 40.0  # more than the API takes to give up on a request
END_STATUSES: Final = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "DEAD_LETTER"})
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
WAIT_SECONDS: Final = 300.0
LONGEST_WAIT: Final = 20  # seconds that the API waits for us before it answers
MAX_PAGE_SIZE: Final = 200


class Client(Operations):
    """The API at `url`, called with `api_key`. Every operation of its OpenAPI document is a method with its name.

    `transport` is for tests and proxies: any transport of httpx2.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 (frozen)
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        parse_host(url)
        headers = {"Accept": "*/*", "User-Agent": "bpc-client"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        http = httpx2.AsyncClient(
            base_url=url, headers=headers, timeout=seconds, transport=transport, follow_redirects=False
        )
        super().__init__(http, retry)
        self.key_prefix = None if api_key is None else api_key.rpartition("_")[0]  # the part that is not secret

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Close the connections. Leaving an `async with` block does it."""
        await self._http.aclose()

    async def get(self, path: str) -> bytes:
        """Return the body of any GET of the API, such as `/v1/documents?limit=3`."""
        if not path.startswith("/") or path.startswith("//"):  # another host must not get the API key
            raise ValueError(f"`{path}` is not a path; write it with one `/` in front")
        try:
            return (await self._send("GET", path)).content
        except httpx2.InvalidURL as error:
            raise ValueError(f"`{path}` is not a path: {error}") from None

    async def list_all(
        self, operation: Callable[P, Awaitable[Page[T]]], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[T]:
        """Yield every item of a list, page after page: `async for document in bpc.list_all(bpc.list_documents)`."""
        call: Callable[..., Awaitable[Page[T]]] = operation
        page_arguments: dict[str, Any] = {"limit": MAX_PAGE_SIZE, **kwargs}
        while True:
            page = await call(*args, **page_arguments)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            page_arguments["cursor"] = page.next_cursor

    async def wait(self, job_id: UUID, *, seconds: float = WAIT_SECONDS) -> Job:
        """Wait for a job to succeed, and return it.

        Raises `JobFailed` if the job ends in another way, `WaitTimeout` if it has not ended in time.
        """
        deadline = time.monotonic() + seconds
        job = await self._poll(
            lambda: self.get_job(job_id, wait_seconds=_choose_wait(deadline - time.monotonic())),
            lambda job: job.status in END_STATUSES,
            seconds,
            f"job {job_id}",
            may_be_missing=False,
        )
        if job.status != "SUCCEEDED":
            raise JobFailed(str(job_id), job.status, to_plain(job.last_error))
        return job

    async def wait_until(
        self, look: Callable[[], Awaitable[T]], is_done: Callable[[T], bool] = bool, *, seconds: float = WAIT_SECONDS
    ) -> T:
        """Call `look` until `is_done` is true of its result, and return that result.

        NOT_FOUND does not end the wait. Raises `WaitTimeout` if it takes too long.
        """
        return await self._poll(look, is_done, seconds, "the condition", may_be_missing=True)

    async def _poll(
        self,
        look: Callable[[], Awaitable[T]],
        is_done: Callable[[T], bool],
        seconds: float,
        label: str,
        *,
        may_be_missing: bool,
    ) -> T:
        deadline, pause = time.monotonic() + seconds, FIRST_PAUSE
        while True:
            try:
                value = await look()
                if is_done(value):
                    return value
            except ApiError as error:
                if error.code != "NOT_FOUND" or not may_be_missing:
                    raise
            if time.monotonic() + pause > deadline:
                raise WaitTimeout(label, seconds)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)


class SyncClient(SyncOperations):
    """The same without `await`. It takes the same arguments as `Client`."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 (frozen)
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._client = Client(url, api_key, seconds=seconds, retry=retry, transport=transport)
        super().__init__(self._client)

    @property
    def key_prefix(self) -> str | None:
        """The part of the API key that is not secret."""
        return self._client.key_prefix

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread. Leaving a `with` block does it."""
        if not self._thread.is_closed:
            self._thread.run(self._client.close())
            self._thread.close()

    def get(self, path: str) -> bytes:
        """Return the body of any GET of the API, such as `/v1/documents?limit=3`."""
        return self._thread.run(self._client.get(path))

    def list_all(self, operation: Callable[P, Page[T]], *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        """Yield every item of a list, page after page: `for document in bpc.list_all(bpc.list_documents)`."""
        call: Callable[..., Page[T]] = operation
        page_arguments: dict[str, Any] = {"limit": MAX_PAGE_SIZE, **kwargs}
        while True:
            page = call(*args, **page_arguments)
            yield from page.items
            if page.next_cursor is None:
                return
            page_arguments["cursor"] = page.next_cursor

    def wait(self, job_id: UUID, *, seconds: float = WAIT_SECONDS) -> Job:
        """Wait for a job to succeed, and return it.

        Raises `JobFailed` if the job ends in another way, `WaitTimeout` if it has not ended in time.
        """
        return self._thread.run(self._client.wait(job_id, seconds=seconds))

    def wait_until(
        self, look: Callable[[], T], is_done: Callable[[T], bool] = bool, *, seconds: float = WAIT_SECONDS
    ) -> T:
        """Call `look` until `is_done` is true of its result, and return that result.

        NOT_FOUND does not end the wait. Raises `WaitTimeout` if it takes too long.
        """
        return self._thread.run(self._client.wait_until(lambda: asyncio.to_thread(look), is_done, seconds=seconds))


def _choose_wait(remaining_seconds: float) -> int:
    return max(0, min(LONGEST_WAIT, int(remaining_seconds)))


def parse_host(url: str) -> str:
    """Return the host of an API's address; raise ValueError if it is not an address."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return parts.hostname
    raise ValueError(f"`{url}` is not the address of an API; write it like http://127.0.0.1:8080")
