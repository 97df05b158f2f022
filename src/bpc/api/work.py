"""Work: what a route is given beside its input."""

from dataclasses import dataclass, field
from typing import Annotated
from uuid import UUID

from fastapi import Depends
from starlette.requests import Request

from bpc.api.service import Service
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.db.callers import Caller
from bpc.db.connection import Connection
from bpc.jobs import RequestQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """One request of one caller, in one transaction that is bound to the caller's tenant.

    It is committed when the route returns, together with the answer kept under the idempotency key, and rolled back
    when it raises. `submitted` are the jobs it asked for.
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
        """Jobs submitted here are there when the request is committed."""
        return RequestQueue(
            jobs=self.service.jobs,
            conn=self.conn,
            tenant=self.tenant,
            correlation_id=self.correlation_id,
            actor=None if self.act.actor_id is None else str(self.act.actor_id),
            submitted=self.submitted,
        )


async def _work(request: Request) -> Doing:  # not in a thread, where FastAPI puts what is not async
    found: Doing = request.state.work
    return found


Work = Annotated[Doing, Depends(_work)]
