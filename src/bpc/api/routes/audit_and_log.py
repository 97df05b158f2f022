"""/v1/audit, /log: audit events, and the transparency log."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from pydantic import Field, StringConstraints
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.http.child_compute import compute_in_child
from bpc.api.http.models import CreatedAfter, CreatedBefore, Hash, Id, IdOf, Moment, Page, Paging, ResponseBody
from bpc.api.http.request_context import Context, RequestContext, Service
from bpc.api.http.routing import RouteFamily
from bpc.core.audit.events import EventStream
from bpc.core.errors import Invalid, Refusal
from bpc.core.formats.ids import ActorId, AggregateId, EventId
from bpc.runtime.settings import Settings
from bpc.storage.audit import event_search
from bpc.storage.audit.event_search import EventFilter
from bpc.storage.audit.verification import AuditVerification
from bpc.storage.audit.verification_child import verify_events_in_child
from bpc.storage.tlog.log_bucket import open_log
from bpc.storage.tlog.log_files import CHECKPOINT_FILE, LogFile, find_log_file

routes = RouteFamily("Audit", resource="Event")

MAX_FAULTS: Final = 1000
# Ends a little before the request does, so that the answer can say what to do instead.
TIMEOUT_SHARE: Final = 0.9

EventName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}$")]
AggregateTypeFilter = Annotated[
    EventName | None, Query(description="The type of resource that changed.", examples=["Document"])
]
AggregateIdFilter = Annotated[
    IdOf[AggregateId] | None, Query(description="The id of that resource; needs `aggregate_type`.")
]


class Event(ResponseBody):
    ordered_by = "occurred_at"

    event_id: Id = Field(description="The first 16 bytes of `event_hash`.")
    aggregate_type: str = Field(description="The type of resource that changed.", examples=["Document"])
    aggregate_id: Id
    aggregate_version: int = Field(description="Its number in the chain of this resource: 1, 2, 3 …", examples=[1])
    event_type: str = Field(examples=["DOCUMENT_CREATED"])
    occurred_at: Moment
    actor_id: Id | None = Field(description="Who did it; null if the system did.")
    payload: dict[str, Any] = Field(examples=[{"kind": "BOM", "external_ref": "ERP-4711"}])
    payload_hash: Hash
    prev_event_hash: Hash | None = Field(
        description="`event_hash` of the previous event; null for the first of a chain."
    )
    event_hash: Hash


class EventFault(ResponseBody):
    aggregate_type: str
    aggregate_id: Id
    version: int
    says: str = Field(examples=["its payload does not have the hash it claims"])


class AuditedRowFault(ResponseBody):
    table: str = Field(examples=["passport_versions"])
    row_id: str = Field(description="The key of the row; several columns are joined by `/`.")
    column: str | None = Field(description="Null if the whole row is wrong.", examples=["status"])
    problem: Literal["CHANGED", "ADDED", "DELETED"]
    says: str = Field(examples=["`status` is `ACTIVE`, and the events say `REVOKED`"])


class RowsNotCovered(ResponseBody):
    table: str = Field(examples=["passport_versions"])
    column: str | None = Field(description="Null if events tell nothing of the rows.", examples=["proof_canonical"])
    reason: str
    rows: int = Field(description="How many rows.", examples=[12])
    examples: list[str] = Field(description="The keys of the first of them.")


class Verification(ResponseBody):
    ok: bool = Field(description="True if every event is unchanged and follows the previous one, and rows follow.")
    complete: bool = Field(description=f"False if there are more than {MAX_FAULTS} faults; the rest is not listed.")
    events: int = Field(description="Number of events that were checked.", examples=[1204])
    chains: int = Field(description="Number of chains; there is one for each resource.", examples=[88])
    faults: list[EventFault]
    rows: int = Field(description="Number of rows that were compared; 0 for one chain.", examples=[530])
    row_faults: list[AuditedRowFault] = Field(description="Rows that do not follow from the events.")
    not_covered: list[RowsNotCovered] = Field(description="What events of earlier releases do not tell.")


class VerificationTooLong(Refusal):
    """There are more events than can be verified within a request."""

    code = "REQUEST_TIMEOUT"

    def __init__(self) -> None:
        super().__init__(
            "verifying takes longer than a request may take",
            fix="run `bpc audit verify` on the server, or verify one aggregate at a time",
        )


@routes.read("/v1/audit/events", permission="audit:read")
async def list_events(
    ctx: Context,
    page: Paging,
    aggregate_type: AggregateTypeFilter = None,
    aggregate_id: AggregateIdFilter = None,
    event_type: Annotated[EventName | None, Query(examples=["DOCUMENT_CREATED"])] = None,
    actor_id: Annotated[IdOf[ActorId] | None, Query(description="Who did it.")] = None,
    occurred_after: CreatedAfter = None,
    occurred_before: CreatedBefore = None,
) -> Page[Event]:
    """List audit events, newest first.

    One filter uses an index: the id of the aggregate, else the type of event, else the actor, else the type of
    aggregate. The other filters are applied to its rows, so a page of rare events may take long; limit it with
    `occurred_after` and `occurred_before`.
    """
    event_filter = EventFilter(
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        event_type=event_type,
        actor_id=actor_id,
        after=occurred_after,
        before=occurred_before,
    )
    return page.build_page(await event_search.list_events(ctx.conn, ctx.tenant, page.query, event_filter), Event)


@routes.read("/v1/audit/events/{event_id}", permission="audit:read")
async def get_event(ctx: Context, event_id: IdOf[EventId]) -> Event:
    """Get an audit event."""
    return Event.model_validate(await event_search.get_event(ctx.conn, ctx.tenant, event_id))


@routes.read("/v1/audit/verify", permission="audit:read", heavy=True)
async def verify_events(
    ctx: Context, aggregate_type: AggregateTypeFilter = None, aggregate_id: AggregateIdFilter = None
) -> Verification:
    """Verify the hashes of all chains and that all rows follow from the events, or the hashes of one chain.

    With too many events, the answer is REQUEST_TIMEOUT.
    """
    chain = _parse_chain(ctx, aggregate_type, aggregate_id)
    try:
        async with asyncio.timeout(TIMEOUT_SHARE * ctx.service.settings.request_timeout_seconds):
            floor_days = ctx.service.settings.retention_floor
            order = (ctx.service.database.address, ctx.tenant, chain, floor_days, MAX_FAULTS + 1)
            return _to_verification(await compute_in_child(ctx.service.processes, verify_events_in_child, *order))
    except TimeoutError:
        raise VerificationTooLong from None


def _parse_chain(
    ctx: RequestContext, aggregate_type: str | None, aggregate_id: AggregateId | None
) -> EventStream | None:
    if aggregate_type is None and aggregate_id is None:
        return None
    if aggregate_type is None or aggregate_id is None:
        raise Invalid("a chain needs both `aggregate_type` and `aggregate_id`", fix="send both, or neither")
    return EventStream(ctx.tenant, aggregate_type, aggregate_id)


def _to_verification(result: AuditVerification) -> Verification:
    chains, state = result.chains, result.state
    row_faults, gaps = ((), ()) if state is None else (state.faults, state.gaps)
    return Verification(
        ok=result.is_intact,
        complete=len(chains.faults) <= MAX_FAULTS and len(row_faults) <= MAX_FAULTS,
        events=chains.events,
        chains=chains.chains,
        faults=[
            EventFault(
                aggregate_type=fault.stream.aggregate_type,
                aggregate_id=fault.stream.aggregate_id,
                version=fault.version,
                says=fault.says,
            )
            for fault in chains.faults[:MAX_FAULTS]
        ],
        rows=0 if state is None else state.rows,
        row_faults=[AuditedRowFault.model_validate(asdict(fault)) for fault in row_faults[:MAX_FAULTS]],
        not_covered=[RowsNotCovered.model_validate(asdict(gap)) for gap in gaps],
    )


# The transparency log as files, for everybody and without a key (C2SP tlog-tiles).

log_routes = RouteFamily("Transparency log")


@log_routes.open("/log/checkpoint", include_in_schema=False)
async def get_log_checkpoint(request: Request) -> Response:
    """Get the newest signed checkpoint of the log."""
    return await _serve_file(request, CHECKPOINT_FILE)


@log_routes.open("/log/tile/{path:path}", include_in_schema=False)
async def get_log_tile(request: Request, path: str) -> Response:
    """Get a tile of the log's tree, or a bundle of its entries."""
    return await _serve_file(request, f"tile/{path}")


@log_routes.open("/log/timestamp/{path:path}", include_in_schema=False)
async def get_log_time_stamp(request: Request, path: str) -> Response:
    """Get a checkpoint that an authority stamped with the time, or its answer (RFC 3161)."""
    return await _serve_file(request, f"timestamp/{path}")


async def _serve_file(request: Request, path: str) -> Response:
    service: Service = request.app.state.service
    file = await asyncio.to_thread(_find_file, service.settings, path)
    if file is None:
        raise HTTPException(404)
    return Response(file.data, headers=dict(file.headers))


def _find_file(settings: Settings, path: str) -> LogFile | None:
    return find_log_file(open_log(settings), path)  # a bucket that is opened first takes a moment
