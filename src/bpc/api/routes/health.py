"""/v1/health, /v1/metrics: for whoever keeps this running."""

from typing import Literal

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.envelope import envelope
from bpc.api.installation import Installation
from bpc.api.models import Answer
from bpc.api.readiness import Found, Readiness, State
from bpc.api.routing import Routes
from bpc.api.service import Service
from bpc.jobs.figures import combined

routes = Routes("Health")


class Live(Answer):
    status: Literal["OK"] = "OK"


class Checks(Answer):
    database: State
    migrations: State = Field(description="Whether the tables are the ones that this build works with.")
    queue: State = Field(description="RabbitMQ; OFF where it is not used.")
    workers: State = Field(description="NONE where no worker gives a sign of life: jobs wait, requests are answered.")


class Waiting(Answer):
    depth: int = Field(description="Jobs that could run now; 100,000 stands for that many or more.")
    active: int = Field(description="Jobs that run.")
    stale: int = Field(description="Of these, the ones whose lease is over or whose worker is silent.")
    oldest_seconds: float | None = Field(description="How long the one has waited that waits for the longest time.")


class Ready(Answer):
    status: Literal["OK"] = "OK"
    checks: Checks
    jobs: Waiting


@routes.open("/v1/health/live")
async def get_live() -> Live:
    """Say that the process answers."""
    return Live()


@routes.open("/v1/health/ready", response_model=Ready, errors=("QUEUE_UNAVAILABLE",))
async def get_ready(request: Request) -> Ready | Response:
    """Say whether the process can do its work. An answer may be a second old; details name the checks that fail."""
    readiness: Readiness = request.app.state.readiness
    found = await readiness.look()
    if found.failing is not None or found.jobs is None:
        return _not_ready(found)
    return Ready(checks=_checks(found), jobs=Waiting.model_validate(found.jobs))


def _not_ready(found: Found) -> Response:
    return envelope(
        found.failing or "DB_UNAVAILABLE",
        "this process is not ready; the details say what is missing, and the log why",
        {"checks": _checks(found).model_dump()},
        headers={"Retry-After": "1"},
    )


def _checks(found: Found) -> Checks:
    return Checks(
        database="FAILED" if found.jobs is None else found.database,
        migrations=found.migrations,
        queue=found.queue,
        workers=found.workers,
    )


@routes.open(
    "/v1/metrics",
    response_class=Response,
    responses={
        200: {"description": "Prometheus' text format.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    },
    errors=("NOT_FOUND",),
)
async def get_metrics(request: Request) -> Response:
    """Get the figures of this process; under `bpc up`, of its workers too. Switched off, there is no such route."""
    service: Service = request.app.state.service
    if not service.settings.metrics_enabled:
        raise HTTPException(404)
    pool = service.database.pool
    service.metrics.pool_in_use.set(pool.get_size() - pool.get_idle_size())
    service.metrics.pool_size.set(pool.get_max_size())
    installation: Installation = request.app.state.installation
    text = generate_latest(service.metrics.registry) + service.jobs.metrics.text() + await installation.text()
    theirs = None if service.workers is None else await service.workers()
    if theirs is not None:
        text = combined([text, theirs])
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})
