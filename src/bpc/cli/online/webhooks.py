"""`bpc webhooks`: where events are sent, whether they arrive, and what to send again, over the API."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

import typer
from bpc_client import Client
from bpc_client.models import Delivery, Endpoint

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.support.arguments import UrlOption, command_group, require_utf8
from bpc.cli.support.output import (
    AsJson,
    format_count,
    format_optional_time,
    format_yes_no,
    print_json,
    print_line,
    print_result,
)
from bpc.cli.support.times import parse_when
from bpc.core.errors import Invalid
from bpc.core.formats.ids import NotAnId, parse_uuid
from bpc.core.formats.timestamps import format_time
from bpc.core.webhooks import WEBHOOK_TYPES

webhooks_app = command_group(
    "Where events are sent: list, add, test and disable endpoints; send again what failed.\n\n"
    "The commands need a key with the permission tenant:admin. `bpc listen` shows the same events without an endpoint."
)

EndpointArgument = Annotated[str, typer.Argument(metavar="ENDPOINT", help="The endpoint's id.", show_default=False)]
ReasonOption = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Stored in the audit log.")]
TypesOption = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Type of event, such as passport.version.ready; repeat it for more."),
]


@webhooks_app.command("list")
async def list_endpoints(url: UrlOption = None, as_json: AsJson = False) -> None:
    """List endpoints, the newest first."""
    async with open_api(url, as_json=as_json) as bpc:
        endpoints = await collect(bpc.list_all(bpc.list_webhook_endpoints))
    print_models(
        endpoints,
        ("endpoint", "state", "url"),
        lambda each: (str(each.webhook_endpoint_id), describe_state(each), each.url),
        as_json=as_json,
    )


@webhooks_app.command("show")
async def show_endpoint(endpoint: EndpointArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Show an endpoint: its subscriptions, and whether its deliveries arrive."""
    async with open_api(url, as_json=as_json) as bpc:
        row = await bpc.get_webhook_endpoint(_parse_id(endpoint))
        types = await _list_types(bpc, row.webhook_endpoint_id)
    _print_endpoint(row, types, as_json=as_json)


@webhooks_app.command("create")
async def create_endpoint(
    target: Annotated[str, typer.Argument(metavar="URL", help="Where to send, https.", show_default=False)],
    types: TypesOption = None,
    timeout_seconds: Annotated[
        int | None, typer.Option("--timeout", metavar="SECONDS", min=1, max=60, help="How long to wait for its answer.")
    ] = None,
    retry_client_errors: Annotated[
        bool, typer.Option("--retry-client-errors", help="Retry after 4xx answers, too.")
    ] = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Create an endpoint and subscribe it. Its secret is printed once, here.

    \b
    bpc webhooks create https://example.com/hooks --type passport.version.ready --type passport.compile.failed

    Without --type it is subscribed to nothing.
    """
    wanted_types = check_types(types)
    async with open_api(url, as_json=as_json) as bpc:
        new_endpoint = await bpc.create_webhook_endpoint(
            url=require_utf8("the URL", target),
            timeout_seconds=timeout_seconds,
            retry_client_errors=retry_client_errors,
        )
        for event_type in wanted_types:
            await bpc.create_webhook_subscription(
                webhook_endpoint_id=new_endpoint.webhook_endpoint_id,
                event_type=event_type,  # type: ignore[arg-type]
            )
    print_result(
        {**new_endpoint.model_dump(mode="json"), "event_types": wanted_types},
        f"endpoint  {new_endpoint.webhook_endpoint_id}",
        f"url       {new_endpoint.url}",
        f"secret    {new_endpoint.secret}",
        f"events    {', '.join(wanted_types) or 'none: subscribe it'}",
        "Store the secret now: it is not shown again.",
        as_json=as_json,
    )


@webhooks_app.command("disable")
async def disable_endpoint(
    endpoint: EndpointArgument, reason: ReasonOption = None, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Send nothing to an endpoint until it is enabled again."""
    async with open_api(url, as_json=as_json) as bpc:
        row = await bpc.disable_webhook_endpoint(_parse_id(endpoint), reason=reason)
    print_result(
        row.model_dump(mode="json"),
        f"endpoint {endpoint} is disabled; `bpc webhooks enable {endpoint}` enables it",
        as_json=as_json,
    )


@webhooks_app.command("enable")
async def enable_endpoint(
    endpoint: EndpointArgument, reason: ReasonOption = None, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Send to a disabled endpoint again."""
    async with open_api(url, as_json=as_json) as bpc:
        before = await bpc.get_webhook_endpoint(_parse_id(endpoint))
        row = await bpc.enable_webhook_endpoint(before.webhook_endpoint_id, reason=reason)
    since = before.failing_since or before.disabled_at
    sentences = [f"endpoint {endpoint} is enabled"]
    if since is not None:
        command = f"bpc webhooks redeliver-failed {endpoint} --since {format_time(since)}"
        sentences.append(f"send it what it missed: {command}")
    print_result(row.model_dump(mode="json"), *sentences, as_json=as_json)


@webhooks_app.command("test")
async def send_test(endpoint: EndpointArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Send a `webhook.test` to an endpoint; exit 1 unless it arrives."""
    async with open_api(url, as_json=as_json) as bpc:
        test = await bpc.test_webhook_endpoint(_parse_id(endpoint))
        await bpc.wait(test.job_id)
        delivery = await bpc.get_webhook_delivery(test.webhook_delivery_id)
    sentence = f"delivery {delivery.webhook_delivery_id}: {delivery.status}, the answer was {delivery.response_status}"
    print_result(delivery.model_dump(mode="json"), sentence, as_json=as_json)


@webhooks_app.command("deliveries")
async def list_deliveries(
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="ENDPOINT", help="Only of this endpoint.")
    ] = None,
    status: Annotated[
        Literal["PENDING", "DELIVERED", "FAILED"] | None, typer.Option("--status", help="Only with this status.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=200, help="Maximum number to show.")] = 50,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List deliveries, the newest first, with their last answers.

    \b
    bpc webhooks deliveries --status FAILED
    """
    endpoint_id = None if endpoint is None else _parse_id(endpoint)
    async with open_api(url, as_json=as_json) as bpc:
        page = await bpc.list_webhook_deliveries(webhook_endpoint_id=endpoint_id, status=status, limit=limit)
    headings = ("delivery", "status", "attempts", "answer", "created", "error")
    print_models(page.items, headings, _to_row, as_json=as_json)


@webhooks_app.command("redeliver")
async def redeliver(
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="The delivery's id.", show_default=False)],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Send one event again, as a new delivery."""
    async with open_api(url, as_json=as_json) as bpc:
        redelivery = await bpc.redeliver_webhook(_parse_id(delivery))
    print_result(
        redelivery.model_dump(mode="json"), f"queued as delivery {redelivery.webhook_delivery_id}", as_json=as_json
    )


@webhooks_app.command("redeliver-failed")
async def redeliver_failed(
    endpoint: EndpointArgument,
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Events from this time on: a time, a day, or 30m, 2h, 7d.")
    ],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Send an endpoint all events since a time that it has not received.

    \b
    bpc webhooks redeliver-failed 6f9619ff-8b86-4d01-b42d-00cf4fc964ff --since 3d

    What is on its way or has arrived is not sent again, so the command can be repeated.
    """
    moment, endpoint_id, queued_count = parse_when(since), _parse_id(endpoint), 0
    async with open_api(url, as_json=as_json) as bpc:
        while True:
            answer = await bpc.redeliver_failed_webhooks(endpoint_id, since=moment)
            queued_count += answer.queued
            if not answer.has_more:
                break
    print_result({"queued": queued_count}, f"{format_count(queued_count, 'event')} queued", as_json=as_json)


def check_types(types: list[str] | None) -> list[str]:
    """Refuse a type of event that there is not."""
    for event_type in types or ():
        if event_type not in WEBHOOK_TYPES.values():
            known_types = ", ".join(sorted(WEBHOOK_TYPES.values()))
            raise Invalid(f"`{event_type}` is not a type of event", fix=f"the types are {known_types}")
    return list(types or ())


def describe_state(endpoint: Endpoint) -> str:
    """One word for a table, and since when it fails."""
    if not endpoint.is_active:
        return "deleted" if endpoint.disabled_at is None else "disabled"
    return "active" if endpoint.failing_since is None else f"failing since {format_time(endpoint.failing_since)}"


def _parse_id(text: str) -> UUID:
    try:
        return parse_uuid(text)
    except NotAnId:
        fix = "`bpc webhooks list` and `bpc webhooks deliveries` show them"
        raise Invalid(f"`{text}` is not an id", fix=fix) from None


async def _list_types(bpc: Client, endpoint: UUID) -> list[str]:
    pages = bpc.list_all(bpc.list_webhook_subscriptions, webhook_endpoint_id=endpoint)
    return sorted([str(subscription.event_type) async for subscription in pages])


def _print_endpoint(endpoint: Endpoint, types: list[str], *, as_json: bool) -> None:
    value: Mapping[str, Any] = {**endpoint.model_dump(mode="json"), "event_types": types}
    if as_json:
        print_json(value)
        return
    timeout = "of the installation" if endpoint.timeout_seconds is None else f"{endpoint.timeout_seconds} s"
    print_line(f"endpoint      {endpoint.webhook_endpoint_id}")
    print_line(f"url           {endpoint.url}")
    print_line(f"state         {describe_state(endpoint)}")
    if endpoint.disabled_reason is not None:
        print_line(f"disabled      {format_optional_time(endpoint.disabled_at)}: {endpoint.disabled_reason}")
    print_line(f"failures      {endpoint.failed_attempts} in a row")
    print_line(f"timeout       {timeout}")
    print_line(f"retries 4xx   {format_yes_no(endpoint.retry_client_errors)}")
    print_line(f"events        {', '.join(types) or 'none'}")


def _to_row(delivery: Delivery) -> tuple[object, ...]:
    error = None if delivery.last_error is None or delivery.status == "DELIVERED" else delivery.last_error.message
    answer, created_at = delivery.response_status, format_optional_time(delivery.created_at)
    return str(delivery.webhook_delivery_id), delivery.status, delivery.attempt, answer, created_at, error
