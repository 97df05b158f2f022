"""What routes work with: `Service`, made once for a process, and `RequestContext`, made for each request."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Generic, TypeVar
from uuid import UUID

from fastapi import Depends
from service_jobs import Jobs, ProcessPool, RequestQueue
from starlette.requests import Request

from bpc.api.access.admission import Admission
from bpc.api.access.caller_memory import CallerMemory
from bpc.api.access.denials import Denials
from bpc.api.access.rate_slices import RateSlices
from bpc.api.access.tenant_limits import HeavyRequestSlots, TenantMemory
from bpc.api.http.telemetry import HttpMetrics
from bpc.api.http.view_cache import ViewCache
from bpc.core.api_keys import Peppers
from bpc.core.audit.events import Act
from bpc.core.formats.cursor import derive_cursor_key
from bpc.core.formats.ids import TenantId
from bpc.core.secret_box import SecretBox
from bpc.outbound.openid import OpenIdClient
from bpc.runtime.key_ring import SigningService
from bpc.runtime.logs import get_correlation_id
from bpc.runtime.settings import Settings
from bpc.storage.access.api_requests import Caller
from bpc.storage.connection import Connection
from bpc.storage.database import Database
from bpc.tasks.job_types import PipelineJobs, TaskJobs

T = TypeVar("T")


class KeptValue(Generic[T]):
    """A value that is loaded again when it is too old. Concurrent callers get the same value."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._value: T
        self._loaded_at: float | None = None

    async def get(self, load: Callable[[], Awaitable[T]], seconds: float) -> T:
        async with self._lock:
            if self._loaded_at is None or time.monotonic() - self._loaded_at > seconds:
                self._value = await load()
                self._loaded_at = time.monotonic()
            return self._value


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Everything that the routes of one process share.

    `admission` shares connections and the event loop between tenants, `heavy_slots` limits requests that compute for
    long, `processes` runs such work outside of the event loop, and `parsers` reads large bodies there, one of a tenant
    at a time (`parser_turns`). In `readers` untrusted documents are looked at within limits. `body_memory` and
    `answer_memory` limit large bodies and answers.
    `read_worker_metrics` reads the metrics of the workers that were started together with this process, if any.
    """

    settings: Settings
    database: Database
    jobs: Jobs
    pipeline_jobs: PipelineJobs
    task_jobs: TaskJobs
    peppers: Peppers
    secret_box: SecretBox
    heavy_slots: HeavyRequestSlots
    parser_turns: HeavyRequestSlots
    admission: Admission
    processes: ProcessPool
    parsers: ProcessPool
    readers: ProcessPool
    body_memory: TenantMemory
    answer_memory: TenantMemory
    rate_slices: RateSlices
    key_ring: SigningService
    metrics: HttpMetrics = field(default_factory=HttpMetrics)
    denials: Denials = field(default_factory=Denials)
    callers: CallerMemory = field(default_factory=CallerMemory)
    views: ViewCache = field(default_factory=ViewCache)
    providers: Mapping[str, OpenIdClient] = field(default_factory=dict)  # by their names, for signing in
    read_worker_metrics: Callable[[], Awaitable[bytes | None]] | None = None

    @property
    def pepper(self) -> bytes:
        """The pepper that new keys are hashed with."""
        return self.peppers.in_use

    @property
    def cursor_key(self) -> bytes:
        """The key that new cursors are sealed with."""
        return derive_cursor_key(self.pepper)

    @property
    def cursor_keys(self) -> tuple[bytes, ...]:
        """All keys that a cursor may be sealed with, so that a list goes on while the pepper is replaced."""
        return tuple(derive_cursor_key(pepper) for pepper in self.peppers.accepted)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """One request of one caller, in one transaction that is bound to the caller's tenant.

    It is committed when the route returns, together with the answer stored for the Idempotency-Key, and rolled back
    when the route raises. `submitted` are the ids of the jobs it submitted.
    """

    service: Service
    conn: Connection
    caller: Caller
    act: Act
    correlation_id: str
    submitted: list[UUID] = field(default_factory=list)

    @property
    def tenant(self) -> TenantId:
        return self.caller.tenant_id

    @property
    def queue(self) -> RequestQueue:
        """A queue for jobs that exist once the request is committed."""
        return RequestQueue(
            jobs=self.service.jobs,
            conn=self.conn,
            tenant=self.tenant,
            correlation_id=self.correlation_id,
            actor=None if self.act.actor_id is None else str(self.act.actor_id),
            submitted_ids=self.submitted,
        )


def make_context(service: Service, conn: Connection, caller: Caller, request: Request) -> RequestContext:
    """The context of a request in an open transaction."""
    return RequestContext(
        service=service,
        conn=conn,
        caller=caller,
        act=Act(caller.actor_id, request.state.now),
        correlation_id=get_correlation_id() or "",
    )


async def _get_context(request: Request) -> RequestContext:  # async: FastAPI runs other dependencies in threads
    context: RequestContext = request.state.context
    return context


Context = Annotated[RequestContext, Depends(_get_context)]
