"""`bpc listen`: events as they happen, over the API, and on to a local URL, signed like webhooks.

    GET /v1/webhook-events?after=… ─► print ─► POST to --forward-to, if it is set ─► the next cursor

The API gives each event once, in an order that only grows. So the cursor is all there is to remember: Ctrl-C prints it,
and `--since` continues there.
"""

import asyncio
import json
import re
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from urllib.parse import urlencode, urlsplit

import httpx2
import typer
from bpc_client import Client, Unreachable

from bpc.cli.online.api_client import open_api
from bpc.cli.online.webhooks import TypesOption, check_types
from bpc.cli.support.arguments import UrlOption
from bpc.cli.support.output import AsJson, escape_controls, print_json, print_line
from bpc.cli.support.times import parse_when
from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import WebhookDeliveryId, parse_uuid
from bpc.core.formats.timestamps import format_time
from bpc.core.webhooks import WebhookKeys, build_headers
from bpc.runtime import clock

POLL_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0  # while the API or the receiver cannot be reached
SECRET_BYTES: Final = 32
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 (the prefix of every secret)
FORWARD_SECONDS: Final = 30.0
CURSOR: Final = re.compile("evt_[0-9]+_[0-9]+_[0-9a-f]{32}")


@dataclass(slots=True)
class Forwarder:
    """Posts events to a URL of the developer's own machine, signed with a secret of this session."""

    url: str
    key: bytes = field(repr=False)
    http: httpx2.AsyncClient

    async def forward(self, event: Mapping[str, Any]) -> int:
        """Post an event until somebody answers, and return the status. An answer is final, whatever it is."""
        body, pause = canonical_json.encode(dict(event)), 0.5
        delivery = WebhookDeliveryId(parse_uuid(event["event_id"]))  # the same whenever this event is forwarded
        while True:
            headers = build_headers(
                body,
                webhook_type=event["event_type"],
                delivery=delivery,
                moment=clock.now(),
                keys=WebhookKeys(current=self.key),
            )
            try:
                return (await self.http.post(self.url, content=body, headers=headers)).status_code
            except httpx2.TransportError:
                _say(f"{self.url} cannot be reached; trying again in {pause:g} s")
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


@dataclass(slots=True)
class Listener:
    """How far the events were printed: `cursor` is None until the API gave one."""

    types: list[str]
    as_json: bool
    cursor: str | None = None
    since: str | None = None
    shown: int = 0

    async def follow(self, bpc: Client, forwarder: Forwarder | None, *, at_most: int | None) -> None:
        """Print events until there were `at_most`, or for ever."""
        while at_most is None or self.shown < at_most:
            page = await self._read_page(bpc, 50 if at_most is None else min(50, at_most - self.shown))
            for item in page["items"]:
                after = item.pop("cursor")  # what remains is the body of its webhook
                await self._show(item, forwarder)
                self.cursor = after
            self.cursor = page["next_cursor"]
            if not page["has_more"] and (at_most is None or self.shown < at_most):
                await asyncio.sleep(POLL_SECONDS)

    async def _read_page(self, bpc: Client, limit: int) -> dict[str, Any]:
        parts = {"at_most": str(limit), "after": self.cursor, "since": self.since, "event_type": ",".join(self.types)}
        query = {name: value for name, value in parts.items() if value}
        pause = POLL_SECONDS
        while True:
            try:
                page: dict[str, Any] = json.loads(await bpc.get(f"/v1/webhook-events?{urlencode(query)}"))
            except Unreachable:
                if self.cursor is None:
                    raise
                _say(f"the API cannot be reached; trying again in {pause:g} s")
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                return page

    async def _show(self, event: Mapping[str, Any], forwarder: Forwarder | None) -> None:
        status = None if forwarder is None else await forwarder.forward(event)
        self.shown += 1
        if self.as_json:
            print_json(event if status is None else {**event, "forwarded": status})
            return
        data = event["data"]
        subject = data["payload"].get("sku") or data["aggregate_id"]
        answer = "" if status is None else f"  -> {status}"
        print_line(f"{event['occurred_at']}  {event['event_type']}  {subject}{answer}")


async def listen(
    types: TypesOption = None,
    forward_to: Annotated[
        str | None, typer.Option("--forward-to", metavar="URL", help="Post each event there, signed like a webhook.")
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(
            "--secret", metavar="WHSEC", envvar="BPC_LISTEN_SECRET", help="Sign with this secret [default: a new one]."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="WHEN", help="Begin there: what Ctrl-C printed, a time, a day, or 30m, 2h, 7d."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="Stop after this number of events.")
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Print events as they happen, or forward them to a local URL.

    \b
    bpc listen --type passport.version.ready
    bpc listen --forward-to http://127.0.0.1:3000/hooks

    No endpoint is needed, and the URL may be private. Ctrl-C ends it and says how to continue. Needs audit:read.
    """
    listener = Listener(types=check_types(types), as_json=as_json)
    if since is not None and CURSOR.fullmatch(since):
        listener.cursor = since
    elif since is not None:
        listener.since = format_time(parse_when(since))
    key = _read_secret(secret)
    target = None if forward_to is None else _check_target(forward_to)
    async with open_api(url, as_json=as_json) as bpc, httpx2.AsyncClient(timeout=FORWARD_SECONDS) as http:
        forwarder = None if target is None else Forwarder(target, key, http)
        if forwarder is not None and secret is None:
            _say(f"the signing secret is {SECRET_PREFIX}{b64encode(key).decode()}")
        _say("listening; Ctrl-C ends it")
        with suppress(asyncio.CancelledError):  # Ctrl-C is how it ends
            await listener.follow(bpc, forwarder, at_most=count)
        if listener.cursor is not None:
            _say(f"to continue from here: {_name_continuation(listener, forward_to)}")


def _say(sentence: str) -> None:
    """What is not an event goes to standard error."""
    typer.echo(escape_controls(sentence), err=True)


def _name_continuation(listener: Listener, forward_to: str | None) -> str:
    parts = ["bpc listen", f"--since {listener.cursor}", *(f"--type {each}" for each in listener.types)]
    return " ".join(parts if forward_to is None else [*parts, f"--forward-to {forward_to}"])


def _read_secret(text: str | None) -> bytes:
    if text is None:
        return clock.random_bytes(SECRET_BYTES)
    try:
        key = b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (BadBase64, ValueError):
        key = b""
    if not key:
        raise Invalid("the secret is not one of a webhook", fix="write it like whsec_ and base64")
    return key


def _check_target(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise Invalid(f"`{text}` is not a URL to forward to", fix="write it like http://127.0.0.1:3000/hooks")
    return text
