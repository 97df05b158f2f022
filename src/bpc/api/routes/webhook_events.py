"""/v1/webhook-events: what webhooks announce, for programs that ask instead of being told."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from bpc.api.http.models import FILTER_FORMS, FilterMoment, Id, Moment, ResponseBody
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.feed_cursor import FeedPosition
from bpc.core.webhooks import WEBHOOK_TYPES, WebhookType
from bpc.storage.webhooks import event_feed
from bpc.storage.webhooks.event_feed import FeedEvent

routes = RouteFamily("Webhooks", resource="Event")

MAX_EVENTS = 200


class AnnouncedData(ResponseBody):
    aggregate_type: str = Field(description="The type of resource that changed.", examples=["PassportVersion"])
    aggregate_id: Id
    aggregate_version: int = Field(description="The number of the event in the chain of this resource.", examples=[3])
    payload: dict[str, Any] = Field(description="What happened; with `sku` and ids where there are any.")


class AnnouncedEvent(ResponseBody):
    """An event, with the members of the body of its webhook."""

    event_type: WebhookType = Field(examples=["passport.version.active"])
    event_id: Id
    occurred_at: Moment
    tenant_id: Id
    data: AnnouncedData
    cursor: str = Field(
        description="Send it as `after` to continue after this event. It is not a member of the webhook.",
        examples=["evt_90211_1803000000000000_8f0e4ab151d88c6f9b531f3f5f2f3c11"],
    )


class AnnouncedEvents(ResponseBody):
    items: list[AnnouncedEvent] = Field(description="Oldest first.")
    next_cursor: str = Field(
        description="Send it as `after` to get what comes next. There is always one, even if there are no events yet.",
        examples=["evt_90211_0_00000000000000000000000000000000"],
    )
    has_more: bool = Field(description="True if there are more already; false: ask again in a second or later.")


@routes.read("/v1/webhook-events", permission="audit:read", errors=("CONFLICT",))
async def list_webhook_events(
    ctx: Context,
    after: Annotated[
        str | None, Query(min_length=1, max_length=100, description="`next_cursor` of the previous answer.")
    ] = None,
    since: Annotated[
        FilterMoment | None, Query(description=f"Only events from this time on, inclusive. {FILTER_FORMS}")
    ] = None,
    event_type: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=1000,
            description="Only these types, separated by commas.",
            examples=["passport.version.ready,passport.compile.failed"],
        ),
    ] = None,
    at_most: Annotated[int, Query(ge=1, le=MAX_EVENTS, description="The largest number of events.")] = 50,
) -> AnnouncedEvents:
    """List what webhooks announce, oldest first, from a place on.

    Without `after` and `since`, the answer is empty and its `next_cursor` is now. A client that
    continues from a cursor misses nothing and gets nothing twice, whatever happens at the same time.
    """
    page = await event_feed.read_feed(
        ctx.conn,
        ctx.tenant,
        after=None if after is None else FeedPosition.from_cursor(after),
        since=since,
        types=() if event_type is None else _parse_types(event_type),
        limit=at_most,
    )
    return AnnouncedEvents(
        items=[_to_event(each) for each in page.events],
        next_cursor=page.position.to_cursor(),
        has_more=page.has_more,
    )


def _parse_types(text: str) -> list[WebhookType]:
    types_by_name = {str(webhook_type): webhook_type for webhook_type in WEBHOOK_TYPES.values()}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in types_by_name:
            raise Invalid(
                f"`{name[:80]}` is not a type of event", fix=f"the types are {', '.join(sorted(types_by_name))}"
            )
    return [types_by_name[name] for name in names]


def _to_event(event: FeedEvent) -> AnnouncedEvent:
    body = canonical_json.decode(event.message.encode_body())
    assert isinstance(body, dict)
    return AnnouncedEvent.model_validate({**body, "cursor": event.position.to_cursor()})
