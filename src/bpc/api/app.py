"""The application: all routes, one shape of error, one edge around it."""

from collections.abc import Iterator
from typing import Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.documentation import document_of
from bpc.api.edge import Edge
from bpc.api.envelope import of_problems, of_refusal, of_status
from bpc.api.installation import Installation
from bpc.api.metrics import HttpMetrics
from bpc.api.readiness import Readiness
from bpc.api.routes import FAMILIES
from bpc.api.routes.well_known import PublicKeys
from bpc.api.service import Service
from bpc.core.errors import Refusal
from bpc.jobs.errors import JobsRefusal

TITLE: Final = "BatteryPassportCompiler API"
ABOUT: Final = (
    "Documents become facts, facts a sealed snapshot, a snapshot and published rules a signed passport that anyone "
    "can check. Every write needs an Idempotency-Key; every list is paged by cursor; every error has one shape."
)


def create_app(service: Service | None = None) -> FastAPI:
    """The application on an open service; it closes nothing. Without one it can say what it would be, and no more."""
    app = FastAPI(
        title=TITLE,
        version="1.0.0",
        description=ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Spans are made at the edge, with templates of routes; the framework's own would carry paths and queries.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    for family in FAMILIES:
        # Not `include_router`: it builds every route once more at the first request, and looks twice for each.
        app.router.routes.extend(family.routes)
    if service is not None:
        app.state.service = service
        app.state.readiness = Readiness(service)
        app.state.installation = Installation(service, app.state.readiness)
        app.state.public_keys = PublicKeys(service)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(JobsRefusal, _refused)
    app.add_exception_handler(RequestValidationError, _wrong)
    app.add_exception_handler(HTTPException, _by_status)
    app.add_middleware(Edge, metrics=HttpMetrics() if service is None else service.metrics)
    app.openapi = lambda: document_of(app)  # type: ignore[method-assign]
    return app


# Asynchronous although they wait for nothing: the framework runs the others in threads.


async def _refused(_: Request, refusal: Exception) -> Response:
    if not isinstance(refusal, Refusal | JobsRefusal):
        raise refusal
    return of_refusal(refusal)


async def _wrong(_: Request, wrong: Exception) -> Response:
    if not isinstance(wrong, RequestValidationError):
        raise wrong
    return of_problems(wrong.errors())


async def _by_status(request: Request, raised: Exception) -> Response:
    if not isinstance(raised, HTTPException):
        raise raised
    headers = {"Allow": ", ".join(sorted(_allowed(request)))} if raised.status_code == 405 else raised.headers
    return of_status(raised.status_code, headers)


def _allowed(request: Request) -> Iterator[str]:
    """The methods that some route takes on this path; the framework names those of the first one only."""
    for family in FAMILIES:
        for route in family.routes:
            if isinstance(route, APIRoute) and route.path_regex.match(request.scope["path"]):
                methods = route.methods or set()
                yield from methods
                if "GET" in methods:
                    yield "HEAD"
