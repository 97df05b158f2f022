"""Routes: what every endpoint goes through before and after its own few lines.

    request ─► who calls, may they ─► body read, bounded ─► one transaction ┬─► answered before under this key? ─► that
                                                                            └─► the route ─► its answer, kept ─► commit

A route is declared with its permission, so none can be forgotten:

    @routes.write("/v1/documents", permission="docs:upload", resource="Document", status=201)
    async def create_document(work: Work, body: NewDocument) -> DocumentMade: ...

    read    GET: no key needed, nothing changes
    write   POST, PUT, PATCH, DELETE: needs an Idempotency-Key; effect, event and answer commit together
    ask     POST without effect (a query too large for a URL): takes no key
    open    for everybody, without a key; no transaction, no tenant

A route that computes for long is `heavy`: there are few places for such requests, and whoever waits for one holds no
connection.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from bpc import fresh
from bpc.api.caller import authenticated, authorised, on_record, presented, within_limit
from bpc.api.documentation import documented
from bpc.api.intake import AWAY_FROM, body_read
from bpc.api.service import Service
from bpc.api.work import Doing
from bpc.core import canon
from bpc.core.apikeys import ApiKey
from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.errors import Conflict, Invalid, Refusal
from bpc.core.events import Act
from bpc.db import callers, idempotency
from bpc.db.callers import Caller
from bpc.db.connection import Connection
from bpc.db.database import bound
from bpc.db.idempotency import Answer
from bpc.logs import correlation_id

Kind = Literal["read", "write", "ask", "open"]
Answering: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]
F = TypeVar("F", bound=Callable[..., Any])

LONGEST_KEY: Final = 200
GOOD_FOR: Final = 0.25  # seconds that who was let in need not be asked again
NAME: Final = re.compile("[a-z]{1,20}([_-][a-z]{1,20}){0,3}")
KEPT_HEADERS: Final = ("content-type", "location", "etag")
SECRET_OF: Final = "secret-of"  # noqa: S105 (the name of a note beside an answer)


class IdempotencyConflict(Refusal):
    """The key was used for something else."""

    code = "IDEMPOTENCY_CONFLICT"

    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used for another request", fix="use a new key for every new request")


class RequestTimeout(Refusal):
    """It took too long."""

    code = "REQUEST_TIMEOUT"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the request took longer than {seconds:g} s",
            fix="send it again with the same Idempotency-Key; if it stays so, send less at once",
        )


class Admitted(NamedTuple):
    """Who was let in, with which key, and when."""

    key: ApiKey
    caller: Caller
    at: float


class Endpoint(APIRoute):
    """A route with a permission. FastAPI checks the input and writes the answer; around that is ours."""

    kind: Kind
    permission: str  # empty where the route is open to everybody
    resource: str | None
    secret: str | None
    heavy: bool

    def get_route_handler(self) -> Answering:
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            service: Service = request.app.state.service
            seconds = service.settings.request_timeout_seconds
            try:
                async with asyncio.timeout(seconds):
                    return await self._handle(service, request, answer)
            except TimeoutError:
                raise RequestTimeout(seconds) from None

        return handle

    async def _handle(self, service: Service, request: Request, answer: Answering) -> Response:
        request.state.now = fresh.now()
        self._check_query(request.query_params)
        if self.kind == "open":
            return await answer(request)
        try:
            if self.kind == "read":
                return await self._read(service, request, answer)
            return await self._with_body(service, request, answer)
        finally:
            await on_record(service, request)

    async def _read(self, service: Service, request: Request, answer: Answering) -> Response:
        """Who calls and what they get, on one connection where there is nothing to wait for in between."""
        if self.heavy:
            admitted = await self._admitted(service, request)
            async with self._begun(service, admitted, request):
                return await answer(request)
        key = presented(service, request)
        async with service.database.plain() as conn:
            caller = await self._caller(service, conn, request, key)
            async with bound(conn, caller.tenant_id):
                request.state.work = _doing(service, conn, caller, request)
                return await answer(request)

    async def _with_body(self, service: Service, request: Request, answer: Answering) -> Response:
        admitted = await self._admitted(service, request)
        caller, largest = admitted.caller, service.settings.upload_max_bytes
        key = _idempotency_key(request) if self.kind == "write" else None
        async with body_read(request, caller.tenant_id, service.room, largest) as (whole, body):
            if key is None:
                async with self._begun(service, admitted, whole):
                    return await answer(whole)
            request_hash = await _request_hash(caller, whole, body)
            async with self._begun(service, admitted, whole) as conn:
                return await self._once(conn, caller, key, request_hash, whole, answer)

    async def _admitted(self, service: Service, request: Request) -> Admitted:
        """Who calls, if they may; on a connection that is given back before anything else is waited for."""
        key = presented(service, request)
        async with service.database.plain() as conn:
            caller = await self._caller(service, conn, request, key)
        return Admitted(key, caller, time.monotonic())

    async def _caller(self, service: Service, conn: Connection, request: Request, key: ApiKey) -> Caller:
        caller = await authenticated(service, conn, request, key, request.state.now)
        await within_limit(service, conn, caller, request)
        await callers.note_use(conn, caller, request.state.now)
        await authorised(conn, caller, request, self.permission, self.resource)
        return caller

    @asynccontextmanager
    async def _begun(self, service: Service, admitted: Admitted, request: Request) -> AsyncIterator[Connection]:
        """The transaction of the route, and what it works with. All waiting is over: it happens now.

        Who had to wait for long is asked once more: a key may have been revoked meanwhile, or a right taken.
        """
        caller = admitted.caller
        async with (
            service.heavy.of(caller.tenant_id) if self.heavy else nullcontext(),
            service.database.tenant(caller.tenant_id) as conn,
        ):
            request.state.now = fresh.now()
            if time.monotonic() - admitted.at > GOOD_FOR:
                caller = await authenticated(service, conn, request, admitted.key, request.state.now)
                await authorised(conn, caller, request, self.permission, self.resource)
            request.state.work = work = _doing(service, conn, caller, request)
            yield conn
        service.jobs.committed(work.submitted)

    async def _once(
        self,
        conn: Connection,
        caller: Caller,
        key: str,
        request_hash: Digest,
        request: Request,
        answer: Answering,
    ) -> Response:
        """The answer of the first request with this key, whoever sends it again."""
        before = await idempotency.answered(conn, caller.tenant_id, key)
        if before is not None:
            return _again(before, request_hash)
        response = await answer(request)
        if response.status_code < 300:
            await idempotency.keep(conn, caller.tenant_id, key, self._kept(response, request_hash))
        return response

    def _kept(self, response: Response, request_hash: Digest) -> Answer:
        headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
        body = bytes(response.body)
        if self.secret is not None:
            shown = canon.read_json(body)
            headers[SECRET_OF] = str(shown[self.secret]) if isinstance(shown, Mapping) else ""
            body = b""
        return Answer(request_hash=request_hash, status=response.status_code, headers=headers, body=body)

    def _check_query(self, given: QueryParams) -> None:
        """A misspelt filter must not silently give everything."""
        known = _query_names(self)
        for name in given:
            if name not in known:
                # What is no name may be a secret in the wrong place: it is not repeated.
                called = f" `{name}`" if NAME.fullmatch(name) else " of that name"
                raise Invalid(f"there is no query parameter{called}", fix=_known(known))
            if len(given.getlist(name)) > 1:
                raise Invalid(f"the query parameter `{name}` is there twice", fix="send it once")


def _query_names(route: APIRoute) -> set[str]:
    names: set[str] = set()
    todo = [route.dependant]
    while todo:
        found = todo.pop()
        names |= {field.alias for field in found.query_params}
        todo += found.dependencies
    return names


def _known(names: set[str]) -> str:
    return f"the parameters are {', '.join(sorted(names))}" if names else "this route takes none"


def _doing(service: Service, conn: Connection, caller: Caller, request: Request) -> Doing:
    return Doing(
        service=service,
        conn=conn,
        caller=caller,
        act=Act(caller.actor_id, request.state.now),
        correlation_id=correlation_id() or "",
    )


def _idempotency_key(request: Request) -> str:
    given = request.headers.getlist("idempotency-key")
    if len(given) != 1 or not 1 <= len(given[0]) <= LONGEST_KEY or not all("!" <= sign <= "~" for sign in given[0]):
        raise Invalid(
            "the header Idempotency-Key is missing or not usable",
            fix=f"send one with 1 to {LONGEST_KEY} visible ASCII characters, new for every new request",
        )
    return given[0]


async def _request_hash(caller: Caller, request: Request, body: bytes) -> Digest:
    digest = await asyncio.to_thread(sha256, body) if len(body) > AWAY_FROM else sha256(body)
    return sha256(
        canon.encode(
            {
                "actor_id": str(caller.actor_id),
                "body_sha256": to_hex(digest),
                "method": request.method,
                "path": request.url.path,
                "query": request.url.query,
            }
        )
    )


def _again(before: Answer, request_hash: Digest) -> Response:
    if before.request_hash != request_hash:
        raise IdempotencyConflict
    if SECRET_OF in before.headers:
        raise Conflict(
            "this was done already, and its answer held a secret that is shown only once",
            fix="make a new one if the secret was lost",
            details={"id": before.headers[SECRET_OF]},
        )
    return Response(before.body, status_code=before.status, headers=dict(before.headers))


class Routes(APIRouter):
    """A family of routes."""

    def __init__(self, tag: str) -> None:
        super().__init__(route_class=Endpoint, tags=[tag])

    def read(
        self, path: str, *, permission: str, resource: str | None = None, heavy: bool = False, **how: Any
    ) -> Callable[[F], F]:
        return self._add("GET", path, kind="read", permission=permission, resource=resource, heavy=heavy, **how)

    def write(
        self,
        path: str,
        *,
        permission: str,
        resource: str | None = None,
        method: str = "POST",
        status: int = 200,
        secret: str | None = None,
        heavy: bool = False,
        **how: Any,
    ) -> Callable[[F], F]:
        """`secret` names the member of the answer that says whose secret it shows: such an answer is not kept."""
        return self._add(
            method,
            path,
            kind="write",
            permission=permission,
            resource=resource,
            status=status,
            secret=secret,
            heavy=heavy,
            **how,
        )

    def ask(
        self, path: str, *, permission: str, resource: str | None = None, heavy: bool = False, **how: Any
    ) -> Callable[[F], F]:
        return self._add("POST", path, kind="ask", permission=permission, resource=resource, heavy=heavy, **how)

    def open(self, path: str, **how: Any) -> Callable[[F], F]:
        return self._add("GET", path, kind="open", **how)

    def _add(
        self,
        method: str,
        path: str,
        *,
        kind: Kind,
        permission: str = "",
        resource: str | None = None,
        status: int = 200,
        secret: str | None = None,
        heavy: bool = False,
        errors: Sequence[str] = (),
        **how: Any,
    ) -> Callable[[F], F]:
        def declared(function: F) -> F:
            extra = documented(kind, path, permission, errors)
            responses = {**extra.pop("responses"), **how.pop("responses", {})}
            self.add_api_route(
                path,
                function,
                methods=[method],
                status_code=status,
                responses=responses,
                openapi_extra=extra,
                operation_id=function.__name__,
                **how,
            )
            route = self.routes[-1]
            if not isinstance(route, Endpoint):
                raise TypeError(f"{path} is not one of our routes")
            route.kind, route.permission, route.resource = kind, permission, resource
            route.secret, route.heavy = secret, heavy
            return function

        return declared
