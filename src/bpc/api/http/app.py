"""The application: all routes, the middleware around them, and the handlers of errors."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from service_jobs.job import JobsRefusal
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bpc import __version__
from bpc.api.access import approval_routes, signing_key_routes, view_grant_routes
from bpc.api.access.admission import find_address
from bpc.api.access.client_address import TrustedProxies
from bpc.api.access.loop_shares import LoopShares, run_metered
from bpc.api.access.signing_key_routes import PublishedKeys
from bpc.api.access.tenant_limits import TenantActivity
from bpc.api.console.editor_socket import EditorSockets
from bpc.api.console.families import CONSOLE_PATHS, list_console_routes
from bpc.api.graphql import routes as graphql_routes
from bpc.api.http.error_responses import (
    answer_internal_error,
    answer_large_head,
    answer_refusal,
    answer_status,
    answer_stopping,
    answer_validation_errors,
)
from bpc.api.http.health_checks import InstallationMetrics, ReadinessChecker
from bpc.api.http.openapi import build_openapi
from bpc.api.http.request_context import Service
from bpc.api.http.route_index import IndexedRouter
from bpc.api.http.telemetry import UNKNOWN_PATH, HttpMetrics, RequestSpan, start_request_span
from bpc.api.pages import access_routes, branding_routes, granted_routes
from bpc.api.pages import resolver as page_resolver
from bpc.api.pages import routes as page_routes
from bpc.api.pages.own_passports import OwnPassports
from bpc.api.pages.page_settings import PageSettingsCache
from bpc.api.pages.printed_passports import PrintedPassports
from bpc.api.pages.public_site import HostMiddleware, PublicHosts, find_own_url
from bpc.api.pages.public_versions import PublicVersions
from bpc.api.routes import (
    actors_and_keys,
    artifacts_and_exports,
    attachments,
    audit_and_log,
    compile_runs,
    differences,
    documents,
    facts_and_snapshots,
    gate,
    health_and_docs,
    jobs,
    passports,
    policies,
    products,
    readiness,
    rule_versions,
    rules,
    schedules,
    suppliers,
    templates,
    uploads,
    webhook_events,
    webhooks,
    what_if,
)
from bpc.api.routes.batteries import batch_passports, item_passports, item_runs
from bpc.api.routes.batteries import batches as battery_batches
from bpc.api.routes.batteries import life as battery_life
from bpc.api.routes.batteries import readings as battery_readings
from bpc.api.routes.batteries import registration as battery_registration
from bpc.api.routes.batteries import transfers as battery_transfers
from bpc.core.errors import Refusal
from bpc.runtime import clock
from bpc.runtime.logs import bind_correlation_id, get_logger

COMPONENT: Final = "api"
MAX_HEAD_BYTES: Final = 32_768  # bytes of request line and headers
CLIENT_LEFT: Final = 499  # in logs and metrics only: the client cannot be answered
SECURITY_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
UUID_TEXT: Final = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
log = get_logger(__name__)


class EdgeMiddleware:
    """Around everything: correlation id, span, security headers, metrics, and an answer for every exception."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics, shares: LoopShares, proxies: TrustedProxies) -> None:
        self.app = app
        self.metrics = metrics
        self.shares = shares
        self.proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._pass_on(scope, receive, send)
            return
        scope.setdefault("state", {})
        method, headers = scope["method"], Headers(scope=scope)
        if method == "HEAD":
            scope = {**scope, "method": "GET"}  # the server's own scope still says HEAD, so it sends no body
        client = self.proxies.find_client(scope)
        if client is not None:
            scope = {**scope, "client": (client, 0)}
        with bind_correlation_id(_read_correlation_id(headers)) as request_id, start_request_span(headers) as span:
            response = _OutgoingResponse(scope, send, request_id, span, body=method != "HEAD")
            started_at = time.perf_counter()
            try:
                with self.shares.measure() as meter:
                    scope["state"]["meter"] = meter
                    await run_metered(self._answer(scope, receive, response), meter)
            finally:
                span.record_answer(method, _find_route_template(scope), response.status)
                self._record_request(method, scope, response.status, time.perf_counter() - started_at)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is no request: the server's start and end, and a WebSocket, which is measured as requests are."""
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        client = self.proxies.find_client(scope)
        if client is not None:
            scope = {**scope, "client": (client, 0)}
        with bind_correlation_id(_read_correlation_id(Headers(scope=scope))), self.shares.measure() as meter:
            scope.setdefault("state", {})["meter"] = meter
            await run_metered(self._open_socket(scope, receive, send), meter)

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, response: "_OutgoingResponse") -> None:
        if _count_head_bytes(scope) > MAX_HEAD_BYTES:
            await answer_large_head(MAX_HEAD_BYTES)(scope, receive, response.send)
            return
        # A proxy in front of us would see another path than we do. A serial number of GS1 may have a slash.
        path: bytes = scope.get("raw_path", b"")
        if b"%2f" in path.lower() and not path.startswith(b"/01/"):
            await answer_status(404, None)(scope, receive, response.send)
            return
        try:
            await self.app(scope, receive, response.send)
        except ClientDisconnect:
            response.status = CLIENT_LEFT
        except asyncio.CancelledError:  # the server stops and waits no longer
            if not response.started:
                await answer_stopping()(scope, receive, response.send)
            raise
        except Exception:
            log.exception(
                "a request failed", component=COMPONENT, method=scope["method"], route=_find_route_template(scope)
            )
            if not response.started:
                await answer_internal_error()(scope, receive, response.send)

    def _record_request(self, method: str, scope: Scope, status: int, seconds: float) -> None:
        route = _find_route_template(scope)
        self.metrics.record_answer(method, route, status, seconds)
        write = log.error if status >= 500 else log.warning if status == 429 else log.info
        write(
            "request completed",
            component=COMPONENT,
            http={
                "method": method,
                "path": route or UNKNOWN_PATH,
                "status": status,
                "duration_ms": round(seconds * 1000, 1),
            },
        )


class _OutgoingResponse:
    """One answer while it is sent."""

    def __init__(self, scope: Scope, send: Send, correlation_id: str, span: RequestSpan, *, body: bool) -> None:
        self._scope = scope
        self._send = send
        self._id = correlation_id
        self._span = span
        self._body = body
        self.status = 500
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            self._add_headers(MutableHeaders(scope=message))
        elif message["type"] == "http.response.body" and not self._body:
            message = {**message, "body": b""}
        await self._send(message)

    def _add_headers(self, headers: MutableHeaders) -> None:
        headers["X-Correlation-Id"] = self._id
        if self._span.traceparent is not None:
            headers["traceparent"] = self._span.traceparent
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        for name, value in self._scope["state"].get("answer_headers", {}).items():
            headers[name] = value


def _read_correlation_id(headers: Headers) -> str:
    sent_id = headers.get("x-correlation-id", "")
    return sent_id if UUID_TEXT.fullmatch(sent_id) else str(clock.new_id())


def _count_head_bytes(scope: Scope) -> int:
    line = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


def _find_route_template(scope: Scope) -> str | None:
    """Return the template of the matching route, also if the route does not take the method."""
    template: str | None = getattr(scope.get("route"), "path", None)
    return template


# In the order of the OpenAPI document.
FAMILIES: Final = (
    page_routes.routes,  # first: a single battery has an address of the same form
    access_routes.routes,
    page_resolver.routes,
    documents.document_routes,
    uploads.routes,
    suppliers.routes,
    attachments.attachment_routes,
    facts_and_snapshots.fact_routes,
    facts_and_snapshots.conflict_routes,
    facts_and_snapshots.snapshot_routes,
    rules.routes,
    rule_versions.routes,
    products.routes,
    battery_batches.identification_routes,
    battery_batches.batch_routes,
    battery_registration.routes,
    battery_readings.routes,
    battery_life.routes,
    item_runs.routes,
    batch_passports.routes,
    item_passports.routes,
    battery_transfers.routes,
    passports.passport_routes,
    compile_runs.routes,
    readiness.routes,
    what_if.routes,
    passports.version_routes,
    gate.waiver_routes,
    differences.routes,
    artifacts_and_exports.artifact_routes,
    attachments.attached_file_routes,
    artifacts_and_exports.export_routes,
    artifacts_and_exports.status_routes,
    jobs.routes,
    jobs.type_routes,
    jobs.figure_routes,
    schedules.routes,
    audit_and_log.routes,
    actors_and_keys.actor_routes,
    actors_and_keys.role_routes,
    actors_and_keys.api_key_routes,
    policies.routes,
    gate.setting_routes,
    branding_routes.routes,
    approval_routes.routes,
    approval_routes.four_eyes_routes,
    view_grant_routes.request_routes,
    view_grant_routes.grant_routes,
    granted_routes.routes,
    signing_key_routes.routes,
    webhooks.endpoint_routes,
    webhooks.subscription_routes,
    webhooks.delivery_routes,
    webhook_events.routes,
    graphql_routes.routes,
    health_and_docs.health_routes,
    health_and_docs.documentation_routes,
    audit_and_log.log_routes,
    templates.routes,
    templates.schema_routes,  # last: its path would also match those of others
)

TITLE: Final = "BatteryPassportCompiler API"
DESCRIPTION: Final = (
    "Documents become facts, facts a sealed snapshot, a snapshot and published rules a signed passport that anyone "
    "can check. Every write needs an Idempotency-Key; every list is paged by cursor; every error has one shape."
)


def create_app(service: Service | None = None) -> FastAPI:
    """Create the application on an open service. Without a service it only has its OpenAPI document."""
    app = FastAPI(
        title=TITLE,
        version=__version__,
        description=DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # The middleware makes spans with route templates; the framework's own would contain paths and queries.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        lifespan=None if service is None else _run_beside_requests,
    )
    for family in FAMILIES:
        # Not `include_router`: it builds every route again at the first request and matches each twice.
        app.router.routes.extend(family.routes)
    app.router.routes.extend(list_console_routes())
    app.router.routes.append(EditorSockets().make_route())
    app.router.middleware_stack = IndexedRouter(app.router, app.router.middleware_stack)
    app.state.console_paths = CONSOLE_PATHS
    if service is not None:
        app.state.service = service
        app.state.readiness = ReadinessChecker(service)
        app.state.installation = InstallationMetrics(service, app.state.readiness)
        app.state.public_keys = PublishedKeys()
        app.state.public_versions = PublicVersions()
        app.state.page_settings = PageSettingsCache()
        app.state.printed_passports = PrintedPassports()
        app.state.own_passports = OwnPassports(app.state.public_versions)
        app.state.public_hosts = PublicHosts(service.database)
    app.add_exception_handler(Refusal, _answer_refusal)
    app.add_exception_handler(JobsRefusal, _answer_refusal)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(HTTPException, _answer_http_exception)
    metrics = HttpMetrics() if service is None else service.metrics
    shares = LoopShares(TenantActivity()) if service is None else service.admission.shares
    if service is not None:
        app.add_middleware(HostMiddleware, hosts=app.state.public_hosts, public_url=find_own_url(service.settings))
    proxies = TrustedProxies(() if service is None else service.settings.trusted_proxies)
    app.add_middleware(EdgeMiddleware, metrics=metrics, shares=shares, proxies=proxies)
    app.openapi = lambda: build_openapi(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _run_beside_requests(app: FastAPI) -> AsyncIterator[None]:
    """What runs from the start of the server to its end."""
    async with app.state.public_hosts.keep_current():
        yield


# Asynchronous although they do not wait: the framework runs other handlers in threads.


async def _answer_refusal(_: Request, error: Exception) -> Response:
    if not isinstance(error, Refusal | JobsRefusal):
        raise error
    return answer_refusal(error)


async def _answer_invalid_request(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    return answer_validation_errors(error.errors())


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    if request.scope.get("route") is None:  # an unknown path: nobody is authenticated there
        service: Service = request.app.state.service
        await service.admission.wait_as_stranger(find_address(request.scope), request.state.meter)
    headers = (
        {"Allow": ", ".join(sorted(_list_allowed_methods(request)))} if error.status_code == 405 else error.headers
    )
    return answer_status(error.status_code, headers)


def _list_allowed_methods(request: Request) -> Iterator[str]:
    """Yield the methods of all routes on this path; the framework has only those of the first route."""
    for family in FAMILIES:
        for route in family.routes:
            if isinstance(route, APIRoute) and route.path_regex.match(request.scope["path"]):
                methods = route.methods or set()
                yield from methods
                if "GET" in methods:
                    yield "HEAD"
