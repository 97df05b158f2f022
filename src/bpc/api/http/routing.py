"""Routes: what happens before and after the few lines of every endpoint.

    request ─► authenticate, authorise ─► read the body ─► one transaction ┬─► stored answer of this Idempotency-Key
                                                                           └─► the route ─► store its answer ─► commit

A route is declared with its permission, so none can be forgotten:

    @routes.write("/v1/documents", permission="docs:upload", status=201)
    async def create_document(ctx: Context, body: NewDocument) -> DocumentMade: ...

    read    GET: changes nothing
    write   POST, PUT, PATCH, DELETE: needs an Idempotency-Key; effect, event and answer are committed together
    ask     POST that changes nothing (a query too large for a URL): takes no Idempotency-Key
    open    for everybody, without an API key; no transaction, no tenant

A route that computes for long is `heavy`: there are few slots for such requests, and a request that waits for a slot
holds no connection. If only some bodies make it compute for long, `heavy` is a function that tells them.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.access.auth import authenticate, authorise, read_api_key, take_rate_token, write_denials
from bpc.api.http.approval_requests import answer_or_ask
from bpc.api.http.etag import JSON, describe_bytes
from bpc.api.http.openapi import build_openapi_extra
from bpc.api.http.request_body import read_body
from bpc.api.http.request_context import RequestContext, Service
from bpc.core.api_keys import ApiKeySecret
from bpc.core.audit.events import Act
from bpc.core.errors import Conflict, Invalid, Refusal
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.four_eyes import FourEyesAction
from bpc.runtime import clock
from bpc.runtime.logs import get_correlation_id
from bpc.storage.access import api_requests
from bpc.storage.access.api_requests import Caller, IdempotentResponse
from bpc.storage.connection import Connection
from bpc.storage.database import begin_tenant_transaction

Kind = Literal["read", "write", "ask", "open"]
RouteHandler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]
HeavyBody: TypeAlias = Callable[[bytes], bool]
F = TypeVar("F", bound=Callable[..., Any])

MAX_KEY_CHARS: Final = 200
IDEMPOTENCY_KEY: Final = re.compile(f"[!-~]{{1,{MAX_KEY_CHARS}}}")
RECHECK_AFTER_SECONDS: Final = 0.25  # a caller who waited longer is checked again
# Pauses between two looks for a caller who waits for an end. A waiting request is answered before it times out.
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 0.5
WAIT_MARGIN_SECONDS: Final = 5
PARAMETER_NAME: Final = re.compile("[a-z]{1,20}([_-][a-z]{1,20}){0,3}")
STORED_HEADERS: Final = ("content-type", "location", "etag")
SECRET_OF: Final = "secret-of"  # noqa: S105 (the name of a stored header)


class IdempotencyConflict(Refusal):
    """The Idempotency-Key was used for another request."""

    code = "IDEMPOTENCY_CONFLICT"

    def __init__(self) -> None:
        super().__init__("this Idempotency-Key was used for another request", fix="use a new key for every new request")


class RequestTimeout(Refusal):
    """The request took too long."""

    code = "REQUEST_TIMEOUT"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the request took longer than {seconds:g} s",
            fix="send it again with the same Idempotency-Key; if it happens again, send less at once",
        )


class AdmittedCaller(NamedTuple):
    """A caller who is authorised, the key, and when that was checked."""

    key: ApiKeySecret
    caller: Caller
    at: float


class PermissionedRoute(APIRoute):
    """A route with a permission. FastAPI checks the input and writes the answer."""

    kind: Kind
    permission: str  # empty if the route is open to everybody
    alternatives: tuple[str, ...]  # permissions that open the route too; the route decides what they show
    resource: str | None
    secret: str | None
    four_eyes: FourEyesAction | None
    heavy: bool | HeavyBody
    takes_file: bool

    def get_route_handler(self) -> RouteHandler:
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

    async def _handle(self, service: Service, request: Request, answer: RouteHandler) -> Response:
        request.state.now = clock.now()
        request.state.wait_seconds = 0
        self._check_query(request.query_params)
        if self.kind == "open":
            return await answer(request)
        try:
            if self.kind == "read":
                return await self._handle_read(service, request, answer)
            return await self._handle_with_body(service, request, answer)
        finally:
            await write_denials(service, request)

    async def _handle_read(self, service: Service, request: Request, answer: RouteHandler) -> Response:
        """Authorise and answer on one connection, unless the route is heavy and may wait for a slot."""
        if await self._is_heavy(request):
            admission = await self._admit(service, request)
            async with self._open_transaction(service, admission, request):
                return await answer(request)
        key = read_api_key(service, request)
        async with service.database.plain() as conn:
            caller = await self._authorise_caller(service, conn, request, key)
            async with begin_tenant_transaction(conn, caller.tenant_id):
                request.state.context = _make_context(service, conn, caller, request)
                response = await answer(request)
        if request.state.wait_seconds:
            return await self._answer_again(service, AdmittedCaller(key, caller, time.monotonic()), request, answer)
        return response

    async def _answer_again(
        self, service: Service, admission: AdmittedCaller, request: Request, answer: RouteHandler
    ) -> Response:
        """Answer once the route no longer asks for a wait, or its `wait_seconds` have passed.

        No connection is held between two looks.
        """
        longest = service.settings.request_timeout_seconds - WAIT_MARGIN_SECONDS
        deadline, pause = time.monotonic() + min(request.state.wait_seconds, longest), FIRST_PAUSE_SECONDS
        while True:
            await asyncio.sleep(max(0, min(pause, deadline - time.monotonic())))
            request.state.wait_seconds = 0
            async with self._open_transaction(service, admission, request):
                response = await answer(request)
            if not request.state.wait_seconds or time.monotonic() >= deadline:
                return response
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    async def _handle_with_body(self, service: Service, request: Request, answer: RouteHandler) -> Response:
        admission = await self._admit(service, request)
        caller, largest = admission.caller, service.settings.upload_max_bytes
        key = _read_idempotency_key(request) if self.kind == "write" else None
        async with read_body(request, caller.tenant_id, service.body_memory, largest) as (body_request, body_hash):
            if key is None:
                async with self._open_transaction(service, admission, body_request):
                    return await answer(body_request)
            request_hash = _hash_request(caller, body_request, body_hash)
            async with self._open_transaction(service, admission, body_request) as conn:
                return await self._answer_once(conn, caller, key, request_hash, body_request, answer)

    async def _admit(self, service: Service, request: Request) -> AdmittedCaller:
        """Return the authorised caller. The connection is given back before anything else is waited for."""
        key = read_api_key(service, request)
        async with service.database.plain() as conn:
            caller = await self._authorise_caller(service, conn, request, key)
        return AdmittedCaller(key, caller, time.monotonic())

    async def _authorise_caller(
        self, service: Service, conn: Connection, request: Request, key: ApiKeySecret
    ) -> Caller:
        caller = await authenticate(service, conn, request, key, request.state.now)
        await take_rate_token(service, conn, caller, request)
        await api_requests.record_key_use(conn, caller, request.state.now)
        await authorise(conn, caller, request, self.permission, self.resource, self.alternatives)
        return caller

    @asynccontextmanager
    async def _open_transaction(
        self, service: Service, admission: AdmittedCaller, request: Request
    ) -> AsyncIterator[Connection]:
        """Open the transaction of the route and set its context.

        A caller who waited is checked again: meanwhile the key may have been revoked or a permission removed.
        """
        caller = admission.caller
        async with (
            service.heavy_slots.take(caller.tenant_id) if await self._is_heavy(request) else nullcontext(),
            service.database.tenant(caller.tenant_id) as conn,
        ):
            request.state.now = clock.now()
            if time.monotonic() - admission.at > RECHECK_AFTER_SECONDS:
                caller = await authenticate(service, conn, request, admission.key, request.state.now)
                await authorise(conn, caller, request, self.permission, self.resource, self.alternatives)
            request.state.context = ctx = _make_context(service, conn, caller, request)
            yield conn
        service.jobs.notify_committed(ctx.submitted)

    async def _is_heavy(self, request: Request) -> bool:
        return self.heavy if isinstance(self.heavy, bool) else self.heavy(await request.body())

    async def _answer_once(
        self, conn: Connection, caller: Caller, key: str, request_hash: Digest, request: Request, answer: RouteHandler
    ) -> Response:
        """Return the stored answer of this Idempotency-Key; without one, run the route and store its answer."""
        stored_answer = await api_requests.lock_key_and_find_response(conn, caller, key, request_hash)
        if stored_answer is not None:
            return _repeat_answer(stored_answer, request_hash)
        response = await self._answer_or_ask(request, answer)
        if response.status_code < 300:
            await api_requests.store_response(
                conn,
                caller.tenant_id,
                key,
                self._to_stored_answer(response, request_hash),
                actor=caller.actor_id,
            )
        return response

    async def _answer_or_ask(self, request: Request, answer: RouteHandler) -> Response:
        if self.four_eyes is None:
            return await answer(request)
        return await answer_or_ask(request.state.context, request, self.four_eyes, self.permission, answer)

    def _to_stored_answer(self, response: Response, request_hash: Digest) -> IdempotentResponse:
        headers = {name: response.headers[name] for name in STORED_HEADERS if name in response.headers}
        body = bytes(response.body)
        if self.secret is not None and response.status_code != 202:
            members = canonical_json.read_json(body)
            headers[SECRET_OF] = str(members[self.secret]) if isinstance(members, Mapping) else ""
            body = b""
        return IdempotentResponse(request_hash=request_hash, status=response.status_code, headers=headers, body=body)

    def _check_query(self, params: QueryParams) -> None:
        """Refuse unknown parameters: a misspelt filter must not silently return everything."""
        names = _list_query_names(self)
        for name in params:
            if name not in names:
                # It may be a secret in the wrong place, so only a plain name is repeated.
                fix = f"the parameters are {', '.join(sorted(names))}" if names else "this route takes none"
                label = f" `{name}`" if PARAMETER_NAME.fullmatch(name) else " of that name"
                raise Invalid(f"there is no query parameter{label}", fix=fix)
            if len(params.getlist(name)) > 1:
                raise Invalid(f"the query parameter `{name}` is sent twice", fix="send it once")


def _list_query_names(route: APIRoute) -> set[str]:
    names: set[str] = set()
    todo = [route.dependant]
    while todo:
        dependant = todo.pop()
        names |= {field.alias for field in dependant.query_params}
        todo += dependant.dependencies
    return names


def _make_context(service: Service, conn: Connection, caller: Caller, request: Request) -> RequestContext:
    return RequestContext(
        service=service,
        conn=conn,
        caller=caller,
        act=Act(caller.actor_id, request.state.now),
        correlation_id=get_correlation_id() or "",
    )


def _read_idempotency_key(request: Request) -> str:
    values = request.headers.getlist("idempotency-key")
    if len(values) != 1 or not IDEMPOTENCY_KEY.fullmatch(values[0]):
        raise Invalid(
            "the header Idempotency-Key is missing or invalid",
            fix=f"send one with 1 to {MAX_KEY_CHARS} visible ASCII characters, new for every new request",
        )
    return values[0]


def _hash_request(caller: Caller, request: Request, body_hash: Digest) -> Digest:
    return sha256(
        canonical_json.encode(
            {
                "actor_id": str(caller.actor_id),
                "body_sha256": to_hex(body_hash),
                "method": request.method,
                "path": request.url.path,
                "query": request.url.query,
            }
        )
    )


def _repeat_answer(stored_answer: IdempotentResponse, request_hash: Digest) -> Response:
    if stored_answer.request_hash != request_hash:
        raise IdempotencyConflict
    if SECRET_OF in stored_answer.headers:
        raise Conflict(
            "this request was already done, and its answer contained a secret that is shown only once",
            fix="create a new one if the secret is lost",
            details={"id": stored_answer.headers[SECRET_OF]},
        )
    return Response(stored_answer.body, status_code=stored_answer.status, headers=dict(stored_answer.headers))


class RouteFamily(APIRouter):
    """Routes under one tag of the OpenAPI document, about one type of resource unless a route names another."""

    def __init__(self, tag: str, *, resource: str | None = None) -> None:
        super().__init__(route_class=PermissionedRoute, tags=[tag])
        self._resource = resource

    def read(self, path: str, *, permission: str, **options: Any) -> Callable[[F], F]:
        return self._add("GET", path, kind="read", permission=permission, **options)

    def write(self, path: str, *, permission: str, method: str = "POST", **options: Any) -> Callable[[F], F]:
        """Declare a write. An answer that shows a secret is not stored; `secret` names the member with its id."""
        return self._add(method, path, kind="write", permission=permission, **options)

    def ask(self, path: str, *, permission: str, **options: Any) -> Callable[[F], F]:
        return self._add("POST", path, kind="ask", permission=permission, **options)

    def open(self, path: str, **options: Any) -> Callable[[F], F]:
        return self._add("GET", path, kind="open", **options)

    def _add(
        self,
        method: str,
        path: str,
        *,
        kind: Kind,
        permission: str = "",
        alternatives: Sequence[str] = (),
        resource: str | None = None,
        status: int = 200,
        secret: str | None = None,
        four_eyes: FourEyesAction | None = None,
        heavy: bool | HeavyBody = False,
        takes_file: bool = False,
        errors: Sequence[str] = (),
        media_type: str | None = None,
        stored_json: type[BaseModel] | None = None,
        header_names: Sequence[str] = (),
        **options: Any,
    ) -> Callable[[F], F]:
        """Declare a route. One that serves bytes names their `media_type`, or the format of the JSON that they are.

        A route that takes a file gets it as raw bytes or in a form, in `request.state.upload`.
        """
        if media_type is not None or stored_json is not None:
            responses = describe_bytes(media_type or JSON, stored_json, header_names)
            options |= {"response_class": Response, "responses": responses}

        def declare(function: F) -> F:
            extra = build_openapi_extra(kind, path, permission, errors, takes_file=takes_file)
            if alternatives:
                extra["x-permission-alternatives"] = list(alternatives)
            responses = {**extra.pop("responses"), **options.pop("responses", {})}
            self.add_api_route(
                path,
                function,
                methods=[method],
                status_code=status,
                responses=responses,
                openapi_extra=extra,
                operation_id=function.__name__,
                **options,
            )
            route = self.routes[-1]
            if not isinstance(route, PermissionedRoute):
                raise TypeError(f"{path} is not one of our routes")
            route.kind, route.permission, route.alternatives = kind, permission, tuple(alternatives)
            route.resource = None if kind == "open" else resource or self._resource
            route.four_eyes = four_eyes
            route.secret, route.heavy, route.takes_file = secret, heavy, takes_file
            return function

        return declare
