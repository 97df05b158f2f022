"""/v1/audit: what happened, who did it, and whether the record is whole."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field, StringConstraints

from bpc.api.models import Answer, Hash, Id, Moment, Page
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Doing, Work
from bpc.core.cursor import Place
from bpc.core.errors import Invalid, Refusal
from bpc.core.events import Stream
from bpc.core.ids import ActorId, AggregateId, EventId
from bpc.db import audit, events
from bpc.db.audit import Wanted
from bpc.db.events import Verified

routes = Routes("Audit")

MOST_FAULTS: Final = 1000
# Ends a little before the request does, so that the answer can say what to do instead.
PART_OF_THE_TIME: Final = 0.9

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}$")]
AggregateType = Annotated[Name | None, Query(description="What was acted on.", examples=["Document"])]
AggregateIdOf = Annotated[Id | None, Query(description="Which one; needs `aggregate_type`.")]


class Event(Answer):
    event_id: Id = Field(description="Made of the first 16 bytes of `event_hash`.")
    aggregate_type: str = Field(description="What was acted on.", examples=["Document"])
    aggregate_id: Id
    aggregate_version: int = Field(description="Its place in the chain of this aggregate: 1, 2, 3 …", examples=[1])
    event_type: str = Field(examples=["DOCUMENT_CREATED"])
    occurred_at: Moment
    actor_id: Id | None = Field(description="Who did it; null for what happened by itself.")
    payload: dict[str, Any] = Field(examples=[{"kind": "BOM", "external_ref": "ERP-4711"}])
    payload_hash: Hash
    prev_event_hash: Hash | None = Field(description="`event_hash` of the event before; null for the first of a chain.")
    event_hash: Hash


class EventFault(Answer):
    aggregate_type: str
    aggregate_id: Id
    version: int
    says: str = Field(examples=["its payload does not have the hash it claims"])


class Verification(Answer):
    ok: bool = Field(description="Whether every event is as it was written and follows the one before.")
    complete: bool = Field(description=f"False where there are more than {MOST_FAULTS} faults: the rest is not listed.")
    events: int = Field(description="How many events were looked at.", examples=[1204])
    chains: int = Field(description="How many chains they make up, one for each aggregate.", examples=[88])
    faults: list[EventFault]


class VerificationTooLong(Refusal):
    """There are more events than can be looked at in the time of a request."""

    code = "REQUEST_TIMEOUT"

    def __init__(self) -> None:
        super().__init__(
            "verifying takes longer than a request may",
            fix="run `bpc audit verify` on the server, or verify one aggregate at a time",
        )


@routes.read("/v1/audit/events", permission="audit:read", resource="Event")
async def list_events(
    work: Work,
    paged: Paged,
    aggregate_type: AggregateType = None,
    aggregate_id: AggregateIdOf = None,
    event_type: Annotated[Name | None, Query(examples=["DOCUMENT_CREATED"])] = None,
    actor_id: Annotated[Id | None, Query(description="Who did it.")] = None,
    occurred_after: Annotated[Moment | None, Query(description="From this moment on.")] = None,
    occurred_before: Annotated[Moment | None, Query(description="Before this moment, which is not included.")] = None,
) -> Page[Event]:
    """List audit events, newest first.

    One filter is looked up: an aggregate by its id, else the type of event, else the actor, else the type of aggregate.
    The others are applied to what it finds, so a page of something rare among much may take long; `occurred_after` and
    `occurred_before` bound it.
    """
    wanted = Wanted(
        aggregate_type=aggregate_type,
        aggregate_id=None if aggregate_id is None else AggregateId(aggregate_id),
        event_type=event_type,
        actor_id=None if actor_id is None else ActorId(actor_id),
        after=occurred_after,
        before=occurred_before,
    )
    rows = await audit.page(work.conn, work.tenant, paged.ask, wanted)
    return paged.page(rows, lambda row: Place(row.occurred_at, row.event_id), Event.model_validate)


@routes.read("/v1/audit/events/{event_id}", permission="audit:read", resource="Event")
async def get_event(work: Work, event_id: Id) -> Event:
    """Get an audit event."""
    return Event.model_validate(await audit.get(work.conn, work.tenant, EventId(event_id)))


@routes.read("/v1/audit/verify", permission="audit:read", resource="Event")
async def verify_events(
    work: Work, aggregate_type: AggregateType = None, aggregate_id: AggregateIdOf = None
) -> Verification:
    """Compute all hashes again: of every chain, or of one. Where there are too many for a request, it says so."""
    chain = _chain(work, aggregate_type, aggregate_id)
    try:
        async with asyncio.timeout(PART_OF_THE_TIME * work.service.settings.request_timeout_seconds):
            if chain is None:
                return _shown(await events.verify_tenant(work.conn, work.tenant))
            return _shown(await events.verify_chain(work.conn, chain))
    except TimeoutError:
        raise VerificationTooLong from None


def _chain(work: Doing, aggregate_type: str | None, aggregate_id: Id | None) -> Stream | None:
    if aggregate_type is None and aggregate_id is None:
        return None
    if aggregate_type is None or aggregate_id is None:
        raise Invalid("one chain is named by `aggregate_type` and `aggregate_id`", fix="send both, or neither")
    return Stream(work.tenant, aggregate_type, AggregateId(aggregate_id))


def _shown(found: Verified) -> Verification:
    return Verification(
        ok=not found.faults,
        complete=len(found.faults) <= MOST_FAULTS,
        events=found.events,
        chains=found.chains,
        faults=[
            EventFault(
                aggregate_type=fault.stream.aggregate_type,
                aggregate_id=fault.stream.aggregate_id,
                version=fault.version,
                says=fault.says,
            )
            for fault in found.faults[:MOST_FAULTS]
        ],
    )
