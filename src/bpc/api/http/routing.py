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
    granted for whoever has the code of a view grant, which the route checks itself; no API key opens it

A route that computes for long is `heavy`: there are few slots for such requests, and a request that waits for a slot
holds no connection. If only some bodies make it compute for long, `heavy` is a function that tells them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bpc.api.access.admission import find_address
from bpc.api.access.admitted_callers import (
    AccessRule,
    AdmittedCaller,
    announces_large_body,
    begin_for,
    find_known_caller,
    look_up_caller,
)
from bpc.api.access.answer_memory import hold_answer
from bpc.api.access.auth import authenticate, authorise, read_credential, write_denials
from bpc.api.access.caller_memory import Credential
from bpc.api.access.direct_reads import DirectRead
from bpc.api.access.grantees import admit_grantee, read_code
from bpc.api.http.approval_requests import answer_or_ask
from bpc.api.http.error_responses import RequestTimeout
from bpc.api.http.etag import JSON, describe_bytes
from bpc.api.http.idempotency import hash_request, read_idempotency_key, repeat_answer, to_stored_answer
from bpc.api.http.models import check_query
from bpc.api.http.openapi import build_openapi_extra
from bpc.api.http.request_body import read_body, read_small_body
from bpc.api.http.request_context import Service, make_context
from bpc.core.api_keys import Unauthorized
from bpc.core.formats.hashes import Digest
from bpc.core.four_eyes import FourEyesAction
from bpc.runtime import clock
from bpc.storage.access import api_requests
from bpc.storage.access.api_requests import Caller
from bpc.storage.connection import AccessChanged, Connection, NewKey
from bpc.storage.database import begin_tenant_transaction

Kind = Literal["read", "write", "ask", "open", "granted"]
KINDS_WITHOUT_KEY: Final = frozenset({"open", "granted"})
RouteHandler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]
HeavyBody: TypeAlias = Callable[[bytes], bool]
F = TypeVar("F", bound=Callable[..., Any])

# Pauses between two looks for a caller who waits for an end. A waiting request is answered before it times out.
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 0.5
WAIT_MARGIN_SECONDS: Final = 5
HEALTH_PATHS: Final = "/v1/health"


class _Abandonment:
    """Ends the task of a request whose client has left."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is answered in a task")
        self.task: asyncio.Task[Any] = task
        self.is_abandoned = False

    def abandon(self) -> None:
        self.is_abandoned = True
        self.task.cancel()


class PermissionedRoute(APIRoute):
    """A route with a permission. FastAPI checks the input and writes the answer."""

    kind: Kind
    permission: str  # empty if no API key opens it
    alternatives: tuple[str, ...]  # permissions that open the route too; the route decides what they show
    resource: str | None
    secret: str | None
    four_eyes: FourEyesAction | None
    heavy: bool | HeavyBody
    takes_file: bool
    takes_any_query: bool
    direct: DirectRead | None

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = None if self.direct is None else await self.direct.answer(scope, self.permission, self.resource)
        await (super().handle(scope, receive, send) if answer is None else answer(scope, receive, send))

    def get_route_handler(self) -> RouteHandler:
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            service: Service = request.app.state.service
            seconds = service.settings.request_timeout_seconds
            abandonment = _Abandonment()
            # A write that has begun is finished: its client may ask again. So is a read that goes on record.
            if self.kind not in {"write", "granted"}:
                request.scope["state"]["abandon"] = abandonment.abandon
            try:
                async with asyncio.timeout(seconds):
                    response = await self._handle(service, request, answer)
            except TimeoutError:
                raise RequestTimeout(seconds) from None
            except asyncio.CancelledError:
                if not abandonment.is_abandoned:
                    raise
                abandonment.task.uncancel()
                raise ClientDisconnect from None
            finally:
                request.scope["state"].pop("abandon", None)
            if self.kind == "write" or self.kind in KINDS_WITHOUT_KEY:
                return response
            return hold_answer(service.answer_memory, request.state.context.tenant, response)

        return handle

    @property
    def rule(self) -> AccessRule:
        return AccessRule(self.permission, self.resource, self.alternatives)

    async def _handle(self, service: Service, request: Request, answer: RouteHandler) -> Response:
        request.state.now = clock.now()
        request.state.wait_seconds = 0
        if not self.takes_any_query:
            check_query(self, request.query_params)
        if self.kind in KINDS_WITHOUT_KEY:
            return await self._handle_without_key(service, request, answer)
        try:
            if self.kind == "read":
                return await self._handle_read(service, request, answer)
            return await self._handle_with_body(service, request, answer)
        except Unauthorized:
            await service.admission.wait_as_stranger(find_address(request.scope), request.state.meter)
            raise
        finally:
            await write_denials(service, request)

    async def _handle_without_key(self, service: Service, request: Request, answer: RouteHandler) -> Response:
        """Answer everybody, or whoever has the code of a grant, which is looked at before the body."""
        if request.url.path.startswith(HEALTH_PATHS):
            return await answer(request)
        admit_reader = partial(service.admission.admit_reader, request.scope, request.state.meter)
        if self.kind == "granted":
            async with admit_reader():
                request.state.grantee = await admit_grantee(request, read_code(request.headers.get("authorization")))
        if request.method == "POST":  # without a turn: a body may come slowly
            request = await read_small_body(request, has_model=self.body_field is not None)
        async with admit_reader():
            return await answer(request)

    async def _handle_read(self, service: Service, request: Request, answer: RouteHandler) -> Response:
        """Authorise and answer on one connection, unless the route is heavy and may wait for a slot."""
        if await self._is_heavy(request):
            admission = await self._admit(service, request)
            async with self._open_transaction(service, admission, request):
                return await answer(request)
        key = read_credential(service, request)
        caller = find_known_caller(service, request, key, self.rule)
        response = None
        if caller is not None:
            try:
                async with (
                    self._take_turn(service, key, request),
                    service.database.tenant(caller.tenant_id, access_version=caller.access_version) as conn,
                ):
                    request.state.context = make_context(service, conn, caller, request)
                    response = await answer(request)
            except AccessChanged:
                service.callers.forget(key)
        if caller is None or response is None:
            async with self._take_turn(service, key, request), service.database.plain() as conn:
                caller = await look_up_caller(service, conn, request, key, self.rule)
                async with begin_tenant_transaction(conn, caller.tenant_id):
                    request.state.context = make_context(service, conn, caller, request)
                    response = await answer(request)
        if request.state.wait_seconds:
            admission = AdmittedCaller(key, caller, time.monotonic())
            return await self._answer_again(service, admission, request, answer)
        return response

    def _take_turn(self, service: Service, key: Credential, request: Request) -> AbstractAsyncContextManager[None]:
        return service.admission.admit(key, find_address(request.scope), request.state.meter)

    async def _answer_again(
        self, service: Service, admission: AdmittedCaller, request: Request, answer: RouteHandler
    ) -> Response:
        """Answer once the route no longer asks for a wait, or its `wait_seconds` have passed.

        No connection is held between two looks.
        """
        longest = service.settings.request_timeout_seconds - WAIT_MARGIN_SECONDS
        deadline, pause = time.monotonic() + min(request.state.wait_seconds, longest), FIRST_PAUSE_SECONDS
        while True:
            with service.admission.hold_place(admission.caller.tenant_id):
                await asyncio.sleep(max(0, min(pause, deadline - time.monotonic())))
            request.state.wait_seconds = 0
            async with self._open_transaction(service, admission, request):
                response = await answer(request)
            if not request.state.wait_seconds or time.monotonic() >= deadline:
                return response
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)

    async def _handle_with_body(self, service: Service, request: Request, answer: RouteHandler) -> Response:
        admission = await self._admit(service, request)
        caller = admission.caller
        key = read_idempotency_key(request) if self.kind == "write" else None
        with service.admission.hold_place(caller.tenant_id):
            return await self._answer_body(service, admission, request, key, answer)

    async def _answer_body(
        self,
        service: Service,
        admission: AdmittedCaller,
        request: Request,
        key: str | None,
        answer: RouteHandler,
    ) -> Response:
        caller = admission.caller
        async with read_body(request, caller.tenant_id, service) as (body_request, body_hash):
            if key is None:
                async with self._open_transaction(service, admission, body_request):
                    return await answer(body_request)
            request_hash = hash_request(caller, body_request, body_hash)
            new_key = NewKey(caller.actor_id, key, request_hash)
            async with self._open_transaction(service, admission, body_request, new_key) as conn:
                return await self._answer_once(conn, caller, new_key, body_request, answer)

    async def _admit(self, service: Service, request: Request) -> AdmittedCaller:
        """Return the authorised caller. The connection is given back before anything else is waited for."""
        key = read_credential(service, request)
        if not announces_large_body(request):
            caller = find_known_caller(service, request, key, self.rule)
            if caller is not None:
                return AdmittedCaller(key, caller, time.monotonic())
        async with self._take_turn(service, key, request), service.database.plain() as conn:
            caller = await look_up_caller(service, conn, request, key, self.rule)
        return AdmittedCaller(key, caller, time.monotonic())

    @asynccontextmanager
    async def _open_transaction(
        self, service: Service, admission: AdmittedCaller, request: Request, new_key: NewKey | None = None
    ) -> AsyncIterator[Connection]:
        """Open the transaction of the route and set its context.

        A caller is checked again if access has changed: the key may have been revoked or a permission removed. If it is
        not known whether it has, whoever waited is checked again.
        """
        caller = admission.caller
        async with (
            service.heavy_slots.take(caller.tenant_id) if await self._is_heavy(request) else nullcontext(),
            self._take_turn(service, admission.key, request),
            AsyncExitStack() as stack,
        ):
            conn, is_current, request.state.is_new_key = await begin_for(stack, service, admission, new_key)
            request.state.now = clock.now()
            if not is_current or caller.has_expired(request.state.now):
                caller = await authenticate(service, conn, request, admission.key, request.state.now)
                await authorise(conn, caller, request, *self.rule)
            request.state.context = ctx = make_context(service, conn, caller, request)
            yield conn
        service.jobs.notify_committed(ctx.submitted)

    async def _is_heavy(self, request: Request) -> bool:
        return self.heavy if isinstance(self.heavy, bool) else self.heavy(await request.body())

    async def _answer_once(
        self, conn: Connection, caller: Caller, new_key: NewKey, request: Request, answer: RouteHandler
    ) -> Response:
        """Return the stored answer of this Idempotency-Key; without one, run the route and store its answer."""
        _, key, request_hash = new_key
        if not request.state.is_new_key:
            stored_answer = await api_requests.lock_key_and_find_response(conn, caller, key, request_hash)
            if stored_answer is not None:
                return repeat_answer(stored_answer, Digest(request_hash))
        response = await self._answer_or_ask(request, answer)
        if response.status_code < 300:
            await api_requests.store_response(
                conn,
                caller.tenant_id,
                key,
                to_stored_answer(response, Digest(request_hash), secret=self.secret),
                actor=caller.actor_id,
            )
        return response

    async def _answer_or_ask(self, request: Request, answer: RouteHandler) -> Response:
        if self.four_eyes is None:
            return await answer(request)
        return await answer_or_ask(request.state.context, request, self.four_eyes, self.permission, answer)


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

    def open(self, path: str, *, method: str = "GET", **options: Any) -> Callable[[F], F]:
        return self._add(method, path, kind="open", **options)

    def granted(self, path: str, *, method: str = "GET", **options: Any) -> Callable[[F], F]:
        return self._add(method, path, kind="granted", **options)

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
        takes_any_query: bool = False,
        direct: DirectRead | None = None,
        errors: Sequence[str] = (),
        media_type: str | None = None,
        stored_json: type[BaseModel] | None = None,
        header_names: Sequence[str] = (),
        **options: Any,
    ) -> Callable[[F], F]:
        """Declare a route. One that serves bytes names their `media_type`, or the format of the JSON that they are.

        A route that takes a file gets it as raw bytes or in a form, in `request.state.upload`. One that takes any query
        is an address on a label, to which others add parameters of their own.
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
            route.resource = None if kind in KINDS_WITHOUT_KEY else resource or self._resource
            route.four_eyes = four_eyes
            route.secret, route.heavy, route.takes_file = secret, heavy, takes_file
            route.takes_any_query, route.direct = takes_any_query, direct
            return function

        return declare
