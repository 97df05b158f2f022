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

from bpc.core.formats.canonical_json import Json, decode, encode
from bpc.core.formats.ids import AggregateId, EventId, TenantId, WebhookDeliveryId
from bpc.core.formats.timestamps import format_time

WebhookType = Literal[
    "document.version.validated",
    "document.version.rejected",
    "document.parse.failed",
    "document.ingest.failed",
    "snapshot.build.failed",
    "rules.version.published",
    "rules.tests.failed",
    "rules.tests.aborted",
    "passport.compile.failed",
    "passport.sign.failed",
    "passport.qr.failed",
    "passport.activation.failed",
    "passport.export.ready",
    "passport.export.failed",
    "passport.version.signed",
    "passport.version.ready",
    "passport.version.waived",
    "passport.version.active",
    "passport.version.revoked",
    "passport.version.mismatch",
    "compile_run.finished",
    "battery.passports.issued",
    "api_key.created",
    "api_key.changed",
    "api_key.revoked",
    "signing_key.created",
    "signing_key.changed",
    "view.requested",
    "webhook.endpoint.disabled",
    "webhook.endpoint.enabled",
]

WEBHOOK_TYPES: Final[Mapping[str, WebhookType]] = {
    "FACTS_PARSED": "document.version.validated",
    "DOCUMENT_REJECTED": "document.version.rejected",
    "DOCUMENT_PARSE_FAILED": "document.parse.failed",
    "DOCUMENT_INGEST_FAILED": "document.ingest.failed",
    "SNAPSHOT_BUILD_FAILED": "snapshot.build.failed",
    "RULES_PUBLISHED": "rules.version.published",
    "RULE_TESTS_FAILED": "rules.tests.failed",
    "RULE_TESTS_ABORTED": "rules.tests.aborted",
    "COMPILE_FAILED": "passport.compile.failed",
    "PASSPORT_SIGN_FAILED": "passport.sign.failed",
    "QR_FAILED": "passport.qr.failed",
    "ACTIVATION_FAILED": "passport.activation.failed",
    "EXPORT_CREATED": "passport.export.ready",
    "EXPORT_FAILED": "passport.export.failed",
    "PASSPORT_SIGNED": "passport.version.signed",
    "QR_GENERATED": "passport.version.ready",
    "PASSPORT_WAIVED": "passport.version.waived",
    "PASSPORT_ACTIVATED": "passport.version.active",
    "PASSPORT_REVOKED": "passport.version.revoked",
    "REPLAY_MISMATCH": "passport.version.mismatch",
    "COMPILE_RUN_FINISHED": "compile_run.finished",
    "ITEMS_ISSUED": "battery.passports.issued",
    "API_KEY_CREATED": "api_key.created",
    "API_KEY_CHANGED": "api_key.changed",
    "API_KEY_REVOKED": "api_key.revoked",
    "SIGNING_KEY_CREATED": "signing_key.created",
    "SIGNING_KEY_CHANGED": "signing_key.changed",
    "SIGNING_KEY_COMPROMISED": "signing_key.changed",
    "TENANT_KEY_CREATED": "signing_key.created",
    "TENANT_KEY_RETIRED": "signing_key.changed",
    "TENANT_KEY_COMPROMISED": "signing_key.changed",
    "VIEW_REQUESTED": "view.requested",
    "WEBHOOK_ENDPOINT_DISABLED": "webhook.endpoint.disabled",
    "WEBHOOK_ENDPOINT_ENABLED": "webhook.endpoint.enabled",
}
TEST_EVENT_TYPE: Final = "WEBHOOK_ENDPOINT_TESTED"  # sent on demand, to one endpoint
TEST_WEBHOOK_TYPE: Final = "webhook.test"

ROTATION_OVERLAP: Final = timedelta(hours=24)  # so long the secret before a rotation still signs, too
MAX_RETRY_AFTER_SECONDS: Final = 86_400  # seconds that we let a receiver put us off
RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})
GONE: Final = 410
_SECONDS: Final = re.compile("[0-9]+")
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
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
        return TEST_WEBHOOK_TYPE if self.event_type == TEST_EVENT_TYPE else WEBHOOK_TYPES[self.event_type]

    def encode_body(self) -> bytes:
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
class WebhookKeys:
    """What an endpoint's webhooks are signed with: the key, and the one before if it was replaced not long ago."""

    current: bytes = field(repr=False)
    previous: bytes | None = field(default=None, repr=False)
    rotated_at: datetime | None = None

    def list_active(self, moment: datetime) -> Sequence[bytes]:
        """The keys to sign with, the newest first."""
        if self.previous is None or self.rotated_at is None or moment >= self.rotated_at + ROTATION_OVERLAP:
            return (self.current,)
        return (self.current, self.previous)


class DeliveryVerdict(StrEnum):
    """What an answer means for its delivery."""

    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    AGAIN = "AGAIN"


def build_headers(
    body: bytes, *, webhook_type: str, delivery: WebhookDeliveryId, moment: datetime, keys: WebhookKeys
) -> dict[str, str]:
    """All headers of one attempt. `moment` is when it is sent, so that a receiver can tell a copy that comes late."""
    seconds = (moment - _UNIX_EPOCH) // timedelta(seconds=1)
    active_keys = keys.list_active(moment)
    fields = {
        "Content-Type": "application/json",
        "X-BPC-Event-Type": webhook_type,
        "X-BPC-Delivery-Id": str(delivery),
        "X-BPC-Timestamp": str(seconds),
        "X-BPC-Signature": _sign_body(active_keys[0], body),
        "webhook-id": str(delivery),
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(_sign_standard_webhook(key, delivery, seconds, body) for key in active_keys),
    }
    for key in active_keys[1:]:
        fields["X-BPC-Signature-Previous"] = _sign_body(key, body)
    return fields


def judge_status(status: int, *, retry_client_errors: bool = False) -> DeliveryVerdict:
    """2xx is taken; a redirect and most of 4xx are final; the rest may be different next time.

    With `retry_client_errors`, of 4xx only 410 is final.
    """
    if 200 <= status < 300:
        return DeliveryVerdict.DELIVERED
    if status == GONE or 300 <= status < 400:
        return DeliveryVerdict.FAILED
    is_refusal = 400 <= status < 500 and status not in RETRYABLE_STATUSES
    return DeliveryVerdict.FAILED if is_refusal and not retry_client_errors else DeliveryVerdict.AGAIN


def parse_retry_after(retry_after: str | None, moment: datetime) -> int:
    """The seconds a `Retry-After` asks for, up to `MAX_RETRY_AFTER_SECONDS`; 0 without one that can be read."""
    # RFC 9110 10.2.3: a number of seconds, or a date.
    text = (retry_after or "").strip()
    if _SECONDS.fullmatch(text):
        return min(int(text[:10]), MAX_RETRY_AFTER_SECONDS)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max(-((moment - until) // timedelta(seconds=1)), 0), MAX_RETRY_AFTER_SECONDS)


def _sign_body(key: bytes, body: bytes) -> str:
    return f"sha256={hmac.digest(key, body, 'sha256').hex()}"


def _sign_standard_webhook(key: bytes, delivery: WebhookDeliveryId, seconds: int, body: bytes) -> str:
    signed_content = f"{delivery}.{seconds}.".encode() + body
    return f"v1,{b64encode(hmac.digest(key, signed_content, 'sha256')).decode()}"
