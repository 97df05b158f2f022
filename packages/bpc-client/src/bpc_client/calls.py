"""One call: a request, retried where a retry can help, and its answer.

    _request_model      the answer as a model
    _request_bytes      the answer as bytes with their ETag
    _request_nothing    an answer without a body

Every write carries an Idempotency-Key. A retry sends the same key, so the API does the write only once.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx2
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json

from bpc_client.base_models import StoredBytes
from bpc_client.errors import ApiError, ApprovalPending, UnexpectedAnswer, Unreachable

T = TypeVar("T")

MAX_RETRY_AFTER: Final = 60.0
_ADAPTERS: Final[dict[Any, TypeAdapter[Any]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How many times a call is sent at most, and the pauses between, in seconds. Each pause is twice as long.

    If the server sends Retry-After, the pause is that long; if that is more than a minute, the call fails at once.
    """

    attempts: int = 5
    first_pause: float = 0.2
    longest_pause: float = 5.0

    def pause(self, attempt: int) -> float:
        """Return a random part of the pause, at least half: clients that failed together must not retry together."""
        longest = min(self.first_pause * float(2 ** (attempt - 1)), self.longest_pause)
        share = int.from_bytes(os.urandom(2)) / 0xFFFF  # noqa: TID251 (a library has nobody to ask for randomness)
        return longest * (0.5 + share / 2)


class Calls:
    """What the operations are made of: a call for each kind of answer."""

    def __init__(self, http: httpx2.AsyncClient, retry: RetryPolicy) -> None:
        self._http = http
        self._retry = retry

    async def _request_model(self, answer: type[T], method: str, path: str, **options: Any) -> T:
        response = await self._send(method, path, **options)
        if response.status_code == 202 and b'"approval_id"' in response.content:
            members = response.json()
            correlation_id = response.headers.get("x-correlation-id")
            raise ApprovalPending(members["approval_id"], members, correlation_id=correlation_id)
        try:
            return get_adapter(answer).validate_json(response.content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            at = ".".join(str(step) for step in first["loc"]) or "the answer"
            raise UnexpectedAnswer(
                response.status_code,
                f"the answer does not have the expected form: `{at}`: {first['msg']}",
                correlation_id=response.headers.get("x-correlation-id"),
            ) from None

    async def _request_bytes(
        self, method: str, path: str, *, known: StoredBytes | None = None, **options: Any
    ) -> StoredBytes:
        """Return the bytes; return `known` itself if they have not changed."""
        etag = None if known is None else known.etag
        response = await self._send(method, path, headers={} if etag is None else {"If-None-Match": etag}, **options)
        if response.status_code == 304 and known is not None:
            return known
        return StoredBytes(response.content, response.headers.get("etag"), response.headers.get("content-type", ""))

    async def _request_nothing(self, method: str, path: str, **options: Any) -> None:
        await self._send(method, path, **options)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        all_headers = dict(headers or {})
        if key is not None:
            all_headers["Idempotency-Key"] = key
        if body is not None:
            content = to_json(to_plain(body))
        if content is not None:
            all_headers["Content-Type"] = content_type
        params = {name: format_query_value(value) for name, value in (query or {}).items() if value is not None}
        for attempt in count(1):
            pause = self._retry.pause(attempt)
            try:
                response = await self._http.request(
                    method, path, params=params or None, content=content, headers=all_headers
                )
            except httpx2.TransportError as error:
                failure: ApiError | Unreachable = Unreachable(str(self._http.base_url), _describe_loss(error))
            else:
                if response.is_success or response.status_code == 304:
                    return response
                failure = parse_error(response)
                pause = _read_retry_after(response, pause)
                if not failure.is_retryable or pause > MAX_RETRY_AFTER:
                    raise failure
            if attempt >= self._retry.attempts:
                raise failure
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")


# For programs that do not use asyncio: one thread runs an event loop, every call is run there and waited for. Several
# threads may use one client.


class LoopThread:
    """An event loop that runs in a thread of its own until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="bpc-client", daemon=True)
        self._thread.start()

    def _run_loop(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and return its result. An interrupt (Ctrl-C) cancels it."""
        if self.is_closed:
            coroutine.close()
            raise RuntimeError("this client is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class SyncCalls:
    """What the synchronous operations are made of."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._thread = LoopThread()

    def _request_model(self, answer: type[T], method: str, path: str, **options: Any) -> T:
        return self._thread.run(self._calls._request_model(answer, method, path, **options))

    def _request_bytes(self, method: str, path: str, **options: Any) -> StoredBytes:
        return self._thread.run(self._calls._request_bytes(method, path, **options))

    def _request_nothing(self, method: str, path: str, **options: Any) -> None:
        self._thread.run(self._calls._request_nothing(method, path, **options))


# Values of a request, and errors of an answer -----------------------------------------------------------------------


def new_idempotency_key() -> str:
    """Return a random Idempotency-Key."""
    return str(UUID(bytes=os.urandom(16), version=4))  # noqa: TID251 (a library has nobody to ask for randomness)


def quote_path_part(value: object) -> str:
    """Quote a value as one part of a path."""
    return quote(str(value), safe="")


def quote_path(value: str) -> str:
    """Quote a text that may stand for several parts of a path: its slashes stay."""
    return quote(value, safe="/")


def to_plain(value: Any) -> Any:
    """Turn a body into plain JSON values: times as the API reads them; of a model only the members that were set."""
    match value:
        case datetime():
            return format_time(value)
        case UUID():
            return str(value)
        case BaseModel():
            return {
                name: to_plain(member) for name, member in value if member is not None or name in value.model_fields_set
            }
        case dict():
            return {name: to_plain(member) for name, member in value.items()}
        case list() | tuple():
            return [to_plain(member) for member in value]
        case _:
            return value


def drop_missing(members: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the members of a body that are None."""
    return {name: value for name, value in members.items() if value is not None}


def format_query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_time(value) if isinstance(value, datetime) else str(value)


def format_time(value: datetime) -> str:
    """Write a time as the API does. Raise ValueError if it has no time zone."""
    if value.utcoffset() is None:
        raise ValueError(f"`{value}` has no time zone")
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def get_adapter(answer: type[T]) -> TypeAdapter[T]:
    """Return the validator of a type; each is built once."""
    if answer not in _ADAPTERS:
        _ADAPTERS[answer] = TypeAdapter(answer)
    return _ADAPTERS[answer]


def parse_error(response: httpx2.Response) -> ApiError:
    """Read the error from an answer that is not a success."""
    correlation_id = response.headers.get("x-correlation-id")
    try:
        error = response.json()["error"]
        return ApiError(
            str(error["code"]),
            str(error["message"]),
            status=response.status_code,
            correlation_id=error.get("correlation_id") or correlation_id,
            details=error.get("details"),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return UnexpectedAnswer(
            response.status_code,
            f"HTTP {response.status_code}, but not from the API; check the address",
            correlation_id=correlation_id,
        )


def _read_retry_after(response: httpx2.Response, otherwise: float) -> float:
    header = response.headers.get("retry-after", "")
    return float(header) if header.isdecimal() else otherwise


def _describe_loss(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__
