"""/v1/health, /v1/metrics, /v1/openapi.json, /v1/docs: for operators, and the documentation of the API.

The documentation page loads nothing from other hosts.
"""

import asyncio
from functools import cache
from importlib import resources
from typing import Final, Literal

import fastapi_offline
import orjson
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.http.error_responses import build_error_response
from bpc.api.http.health_checks import CheckState, ReadinessChecker, ReadinessReport
from bpc.api.http.metrics_server import render_metrics
from bpc.api.http.models import ResponseBody
from bpc.api.http.request_context import Service
from bpc.api.http.routing import RouteFamily

health_routes = RouteFamily("Health")


class Live(ResponseBody):
    status: Literal["OK"] = "OK"


class ReadinessChecks(ResponseBody):
    @model_serializer(mode="wrap")
    def _leave_out_what_holds(self, serialize: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        return {name: value for name, value in serialize(self).items() if value is not None}

    database: CheckState
    migrations: CheckState = Field(description="OK if the tables are those of this build.")
    queue: CheckState = Field(description="RabbitMQ; OFF if it is not used.")
    writes: CheckState | None = Field(
        None, description="FAILED if the database answers and takes no writes, as with a full disk; otherwise left out."
    )
    clock: CheckState | None = Field(
        None, description="FAILED if the clock of this machine differs from the database's; otherwise left out."
    )
    workers: CheckState = Field(description="NONE if no worker reports: jobs wait, requests are still answered.")


class JobBacklog(ResponseBody):
    depth: int = Field(description="Jobs that could run now; 100,000 means that many or more.")
    active: int = Field(description="Jobs that are running.")
    stale: int = Field(description="Running jobs whose lease has expired or whose worker no longer reports.")
    oldest_seconds: float | None = Field(description="Waiting time of the oldest job, in seconds.")


class Ready(ResponseBody):
    status: Literal["OK"] = "OK"
    checks: ReadinessChecks
    jobs: JobBacklog


@health_routes.open("/v1/health/live")
async def get_live() -> Live:
    """Check that the process is running."""
    return Live()


@health_routes.open("/v1/health/ready", response_model=Ready, errors=("QUEUE_UNAVAILABLE", "CLOCK_DIFFERS"))
async def get_ready(request: Request) -> Ready | Response:
    """Check that the process can serve requests. The answer may be a second old; its details name the failed checks."""
    readiness: ReadinessChecker = request.app.state.readiness
    report = await readiness.check()
    if report.error_code is not None or report.jobs is None:
        return _answer_not_ready(report)
    return Ready(checks=_to_checks(report), jobs=JobBacklog.model_validate(report.jobs))


@health_routes.open("/v1/health/reads", response_model=Live, errors=("CLOCK_DIFFERS",))
async def get_reads(request: Request) -> Live | Response:
    """Check that the process can serve requests that only read, also while the database takes no writes."""
    readiness: ReadinessChecker = request.app.state.readiness
    report = await readiness.check()
    return Live() if report.reads_error_code is None else _answer_not_ready(report)


def _answer_not_ready(report: ReadinessReport) -> Response:
    return build_error_response(
        report.error_code or "DB_UNAVAILABLE",
        "this process is not ready; the details name the failed checks, and the log has the reasons",
        {"checks": _to_checks(report).model_dump(exclude_none=True)},
        headers={"Retry-After": "1"},
    )


def _to_checks(report: ReadinessReport) -> ReadinessChecks:
    return ReadinessChecks(
        database="FAILED" if report.jobs is None else report.database,
        migrations=report.migrations,
        writes="FAILED" if report.writes == "FAILED" and report.database == "OK" else None,
        clock="FAILED" if report.clock == "FAILED" and report.database == "OK" else None,
        queue=report.queue,
        workers=report.workers,
    )


@health_routes.open(
    "/v1/metrics",
    response_class=Response,
    responses={
        200: {"description": "Prometheus' text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    },
    errors=("NOT_FOUND",),
)
async def get_metrics(request: Request) -> Response:
    """Get the metrics of this process; under `bpc up`, also of its workers.

    Answers 404 if metrics are switched off, and in production: there they have a port of their own.
    """
    service: Service = request.app.state.service
    if not service.settings.has_public_metrics:
        raise HTTPException(404)
    return await render_metrics(service, request.app.state.installation)


documentation_routes = RouteFamily("Documentation")

# The page may run its own two scripts and call this service; its icons are data URLs.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
Asset = Literal["docs.js", "swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"]
MEDIA_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "png": "image/png",
}


@documentation_routes.open("/v1/openapi.json", include_in_schema=False)
async def get_openapi(request: Request) -> Response:
    """Get the OpenAPI document."""
    document = await asyncio.to_thread(request.app.openapi)  # building it takes a while, once
    return Response(orjson.dumps(document), media_type="application/json")


@documentation_routes.open("/v1/docs", include_in_schema=False)
async def get_documentation() -> Response:
    """Get the interactive documentation."""
    return _serve_asset("docs.html")


@documentation_routes.open("/v1/docs/{asset}", include_in_schema=False)
async def get_documentation_asset(asset: Asset) -> Response:
    """Get a file of the interactive documentation."""
    return _serve_asset(asset)


def _serve_asset(name: str) -> Response:
    content = _read_asset(name)
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache"}
    return Response(content, headers=headers | {"Content-Type": MEDIA_TYPES[name.rpartition(".")[2]]})


@cache
def _read_asset(name: str) -> bytes:
    own_file = resources.files("bpc.api") / "static" / name
    file = own_file if own_file.is_file() else resources.files(fastapi_offline) / "static" / name
    return file.read_bytes()
