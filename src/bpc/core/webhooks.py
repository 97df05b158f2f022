"""Webhooks: which events are announced, what is sent, how it is signed, and what an answer means.

Pure. The body, BPC-WEBHOOK-1, is made of the event alone, so that sending it again sends the same bytes. The headers
sign it in two ways, both with the same keys: BPC-WH-1 and Standard Webhooks (https://www.standardwebhooks.com).

    Event ──────────────► body ─┐
    delivery, time, keys ───────┴─► headers
    status of the answer ─► Verdict(DELIVERED, FAILED or AGAIN)
"""

import hmac
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final, Literal, cast

from bpc.core.canon import Json, decode, encode
from bpc.core.ids import AggregateId, EventId, TenantId, WebhookDeliveryId
from bpc.core.timestamps import format_time

WebhookType = Literal[
    "document.version.validated",
    "rules.version.published",
    "passport.version.signed",
    "passport.version.active",
    "passport.version.revoked",
    "passport.version.mismatch",
]

ANNOUNCED: Final[Mapping[str, WebhookType]] = {
    "FACTS_PARSED": "document.version.validated",
    "RULES_PUBLISHED": "rules.version.published",
    "PASSPORT_SIGNED": "passport.version.signed",
    "PASSPORT_ACTIVATED": "passport.version.active",
    "PASSPORT_REVOKED": "passport.version.revoked",
    "REPLAY_MISMATCH": "passport.version.mismatch",
}
TESTED: Final = "WEBHOOK_ENDPOINT_TESTED"  # sent on demand, to one endpoint
TEST_TYPE: Final = "webhook.test"

OVERLAP: Final = timedelta(hours=24)  # so long the secret before a rotation still signs, too
LONGEST_REST: Final = 1024  # seconds that we let a receiver put us off
NOT_FINAL: Final = frozenset({408, 425, 429})
GONE: Final = 410
_SECONDS: Final = re.compile("[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a webhook tells about one event."""

    tenant_id: TenantId
    event_id: EventId
    event_type: str
    occurred_at: datetime
    aggregate_type: str
    aggregate_id: AggregateId
    aggregate_version: int
    payload_canonical: bytes

    @property
    def webhook_type(self) -> str:
        return TEST_TYPE if self.event_type == TESTED else ANNOUNCED[self.event_type]

    def body(self) -> bytes:
        """BPC-WEBHOOK-1: canonical JSON, the same whenever it is made."""
        return encode(
            {
                "event_type": self.webhook_type,
                "event_id": str(self.event_id),
                "occurred_at": format_time(self.occurred_at),
                "tenant_id": str(self.tenant_id),
                "data": {
                    "aggregate_type": self.aggregate_type,
                    "aggregate_id": str(self.aggregate_id),
                    "aggregate_version": self.aggregate_version,
                    "payload": cast("dict[str, Json]", decode(self.payload_canonical)),
                },
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What an endpoint's webhooks are signed with: the key, and the one before if it was replaced not long ago."""

    current: bytes = field(repr=False)
    previous: bytes | None = field(default=None, repr=False)
    rotated_at: datetime | None = None

    def at(self, moment: datetime) -> Sequence[bytes]:
        """The keys to sign with, the newest first."""
        if self.previous is None or self.rotated_at is None or moment >= self.rotated_at + OVERLAP:
            return (self.current,)
        return (self.current, self.previous)


class Verdict(StrEnum):
    """What an answer means for its delivery."""

    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    AGAIN = "AGAIN"


def headers(
    body: bytes, *, webhook_type: str, delivery: WebhookDeliveryId, moment: datetime, keys: Keys
) -> dict[str, str]:
    """All headers of one attempt. `moment` is when it is sent, so that a receiver can tell a copy that comes late."""
    seconds = _unix_seconds(moment)
    signing = keys.at(moment)
    sent = {
        "Content-Type": "application/json",
        "X-BPC-Event-Type": webhook_type,
        "X-BPC-Delivery-Id": str(delivery),
        "X-BPC-Timestamp": str(seconds),
        "X-BPC-Signature": _plain_signature(signing[0], body),
        "webhook-id": str(delivery),
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(_standard_signature(key, delivery, seconds, body) for key in signing),
    }
    for key in signing[1:]:
        sent["X-BPC-Signature-Previous"] = _plain_signature(key, body)
    return sent


def verdict_on(status: int) -> Verdict:
    """2xx is taken; a redirect and most of 4xx are final; the rest may be different next time."""
    if 200 <= status < 300:
        return Verdict.DELIVERED
    return Verdict.FAILED if 300 <= status < 500 and status not in NOT_FINAL else Verdict.AGAIN


def rest_asked(retry_after: str | None, moment: datetime) -> int:
    """The seconds a `Retry-After` asks for, at most `LONGEST_REST`; 0 for none, or one that cannot be read."""
    # RFC 9110 10.2.3: a number of seconds, or a date.
    text = (retry_after or "").strip()
    if _SECONDS.fullmatch(text):
        return min(int(text[:10]), LONGEST_REST)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max(-((moment - until) // timedelta(seconds=1)), 0), LONGEST_REST)


def _unix_seconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


def _plain_signature(key: bytes, body: bytes) -> str:
    return f"sha256={hmac.digest(key, body, 'sha256').hex()}"


def _standard_signature(key: bytes, delivery: WebhookDeliveryId, seconds: int, body: bytes) -> str:
    signed = f"{delivery}.{seconds}.".encode() + body
    return f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}"
