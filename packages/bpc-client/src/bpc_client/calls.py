"""One call: a request, sent again while that can help, and its answer as what it is.

    _json      the answer as a model
    _stored    the answer as bytes with their ETag
    _nothing   no answer is expected

Every write carries an Idempotency-Key, the same each time it is sent, so that sending it again never does it twice.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx2
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json

from bpc.client.errors import ApiError, UnexpectedAnswer, Unreachable
from bpc.client.shapes import Stored

T = TypeVar("T")

LONGEST_RETRY_AFTER: Final = 60.0
_ADAPTERS: Final[dict[Any, TypeAdapter[Any]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often a call is sent at most, and how long it rests in between, in seconds; each rest is twice as long.

    Where the server says how long to wait, that is what is waited, unless it is more than a minute.
    """

    attempts: int = 5
    first_rest: float = 0.2
    longest_rest: float = 5.0

    def rest(self, attempt: int) -> float:
        """Between half and all of it: many clients that were refused together must not come back together."""
        longest = min(self.first_rest * float(2 ** (attempt - 1)), self.longest_rest)
        share = int.from_bytes(os.urandom(2)) / 0xFFFF  # noqa: TID251 (a library of its own)
        return longest * (0.5 + share / 2)


class Calls:
    """What the operations are made of."""

    def __init__(self, http: httpx2.AsyncClient, patience: Patience) -> None:
        self._http = http
        self._patience = patience

    async def _json(self, answer: type[T], method: str, path: str, **how: Any) -> T:
        response = await self._send(method, path, **how)
        try:
            return adapter(answer).validate_json(response.content)
        except ValidationError as wrong:
            first = wrong.errors(include_url=False, include_input=False, include_context=False)[0]
            at = ".".join(str(step) for step in first["loc"]) or "the answer"
            raise UnexpectedAnswer(
                response.status_code,
                f"the answer is not what this client expects: `{at}`: {first['msg']}",
                correlation_id=response.headers.get("x-correlation-id"),
            ) from None

    async def _stored(self, method: str, path: str, *, known: Stored | None = None, **how: Any) -> Stored:
        """The bytes; `known` itself where they are still the same."""
        etag = None if known is None else known.etag
        response = await self._send(method, path, headers={} if etag is None else {"If-None-Match": etag}, **how)
        if response.status_code == 304 and known is not None:
            return known
        return Stored(response.content, response.headers.get("etag"), response.headers.get("content-type", ""))

    async def _nothing(self, method: str, path: str, **how: Any) -> None:
        await self._send(method, path, **how)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        sent = dict(headers or {})
        if key is not None:
            sent["Idempotency-Key"] = key
        content = None if body is None else to_json(plain(body))
        if content is not None:
            sent["Content-Type"] = "application/json"
        asked = {name: in_query(value) for name, value in (query or {}).items() if value is not None}
        for attempt in count(1):
            rest = self._patience.rest(attempt)
            try:
                response = await self._http.request(method, path, params=asked or None, content=content, headers=sent)
            except httpx2.TransportError as lost:
                failed: ApiError | Unreachable = Unreachable(str(self._http.base_url), _why(lost))
            else:
                if response.is_success or response.status_code == 304:
                    return response
                failed = refusal_in(response)
                rest = _retry_after(response, rest)
                if not failed.is_retryable or rest > LONGEST_RETRY_AFTER:
                    raise failed
            if attempt >= self._patience.attempts:
                raise failed
            await asyncio.sleep(rest)
        raise AssertionError("unreachable")


def new_key() -> str:
    """An Idempotency-Key that nobody has used."""
    return str(UUID(bytes=os.urandom(16), version=4))  # noqa: TID251 (a library of its own)


def part(value: object) -> str:
    """A value as one part of a path."""
    return quote(str(value), safe="")


def plain(value: Any) -> Any:
    """A body as JSON: times as the API reads them, and of models what was given."""
    match value:
        case datetime():
            return moment(value)
        case UUID():
            return str(value)
        case BaseModel():
            return {name: plain(each) for name, each in value if each is not None or name in value.model_fields_set}
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case _:
            return value


def given(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a body that were given."""
    return {name: value for name, value in members.items() if value is not None}


def in_query(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return moment(value) if isinstance(value, datetime) else str(value)


def moment(value: datetime) -> str:
    """A time as the API writes and reads it; one without a time zone is refused."""
    if value.utcoffset() is None:
        raise ValueError(f"`{value}` has no time zone")
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def adapter(answer: type[T]) -> TypeAdapter[T]:
    """What reads a type; made once for each."""
    if answer not in _ADAPTERS:
        _ADAPTERS[answer] = TypeAdapter(answer)
    return _ADAPTERS[answer]


def refusal_in(response: httpx2.Response) -> ApiError:
    """The error of an answer that is no success."""
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
            f"HTTP {response.status_code}, and not from the API: is the address right?",
            correlation_id=correlation_id,
        )


def _retry_after(response: httpx2.Response, otherwise: float) -> float:
    said = response.headers.get("retry-after", "")
    return float(said) if said.isdecimal() else otherwise


def _why(lost: httpx2.TransportError) -> str:
    return str(lost) or type(lost).__name__
