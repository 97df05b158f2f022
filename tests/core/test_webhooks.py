"""What a webhook says, how it is signed, and what an answer means."""

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from bpc.core.audit.events import EMPTY_CHAIN, Act, AuditEvent, EventStream
from bpc.core.formats.canonical_json import encode
from bpc.core.formats.ids import AggregateId, TenantId, WebhookDeliveryId
from bpc.core.webhooks import (
    MAX_RETRY_AFTER_SECONDS,
    ROTATION_OVERLAP,
    TEST_EVENT_TYPE,
    WEBHOOK_TYPES,
    DeliveryVerdict,
    WebhookKeys,
    WebhookMessage,
    WebhookType,
    build_headers,
    judge_status,
    parse_retry_after,
)
from bpc.runtime import clock

TENANT = TenantId(UUID("00000000-0000-4000-8000-000000000001"))
ABOUT = AggregateId(UUID("00000000-0000-4000-8000-000000000002"))
DELIVERY = WebhookDeliveryId(UUID("00000000-0000-4000-8000-000000000003"))
NOON = datetime(2027, 2, 18, 12, tzinfo=UTC)
NEW, OLD = b"n" * 32, b"o" * 32
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="ascii"), max_size=5), inner),
    max_leaves=10,
)


def make_message(event_type: str, payload: dict[str, object]) -> tuple[AuditEvent, WebhookMessage]:
    event = AuditEvent.chain_after(
        EMPTY_CHAIN, EventStream(TENANT, "PassportVersion", ABOUT), Act(None, NOON).new_event(event_type, payload)
    )
    return event, WebhookMessage(
        tenant_id=TENANT,
        event_id=event.event_id,
        event_type=event.event_type,
        occurred_at=event.occurred_at,
        aggregate_type="PassportVersion",
        aggregate_id=ABOUT,
        aggregate_version=event.version,
        payload_canonical=event.payload_canonical,
    )


def encode_secret(key: bytes) -> str:
    return "whsec_" + b64encode(key).decode()


def sign_body(body: bytes, keys: WebhookKeys, moment: datetime) -> dict[str, str]:
    return build_headers(body, webhook_type="passport.version.active", delivery=DELIVERY, moment=moment, keys=keys)


# The body ----------------------------------------------------------------------------------------------------------


def test_the_body_is_canonical_json_with_the_event_and_where_it_stands_in_its_chain() -> None:
    event, announcement = make_message("PASSPORT_ACTIVATED", {"was": "SIGNED", "é": [1]})

    assert announcement.encode_body() == (
        b'{"data":{"aggregate_id":"00000000-0000-4000-8000-000000000002","aggregate_type":"PassportVersion",'
        b'"aggregate_version":1,"payload":{"was":"SIGNED","\xc3\xa9":[1]}},"event_id":"'
        + str(event.event_id).encode()
        + b'","event_type":"passport.version.active","occurred_at":"2027-02-18T12:00:00.000000Z",'
        b'"tenant_id":"00000000-0000-4000-8000-000000000001"}'
    )


@given(
    st.dictionaries(st.text(st.characters(codec="ascii", exclude_characters="\0")), JSON),
    st.sampled_from([*WEBHOOK_TYPES, TEST_EVENT_TYPE]),
)
def test_the_body_always_says_what_the_audit_chain_says(payload: dict[str, object], event_type: str) -> None:
    try:
        event, announcement = make_message(event_type, payload)
    except Exception:  # noqa: BLE001 (not a payload an event can have)
        return

    decoded = json.loads(announcement.encode_body())

    assert hashlib.sha256(encode(decoded["data"]["payload"])).digest() == event.payload_hash
    assert UUID(decoded["event_id"]) == event.event_id  # which is made of the event's hash
    assert announcement.encode_body() == encode(decoded)


def test_every_type_that_can_be_subscribed_to_is_announced_by_an_event() -> None:
    assert set(WEBHOOK_TYPES.values()) == set(get_args(WebhookType))


# Signatures --------------------------------------------------------------------------------------------------------


def test_the_headers_are_what_a_receiver_can_make_by_hand() -> None:
    body = b'{"a":1}'

    sent = sign_body(body, WebhookKeys(current=NEW), NOON)

    stamp = str(int(NOON.timestamp()))
    standard = hmac.new(NEW, f"{DELIVERY}.{stamp}.".encode() + body, "sha256").digest()
    assert sent == {
        "Content-Type": "application/json",
        "X-BPC-Event-Type": "passport.version.active",
        "X-BPC-Delivery-Id": str(DELIVERY),
        "X-BPC-Timestamp": stamp,
        "X-BPC-Signature": "sha256=" + hmac.new(NEW, body, "sha256").hexdigest(),
        "webhook-id": str(DELIVERY),
        "webhook-timestamp": stamp,
        "webhook-signature": "v1," + b64encode(standard).decode(),
    }


def test_for_a_day_after_a_rotation_both_secrets_sign_and_then_the_new_one_alone() -> None:
    keys = WebhookKeys(current=NEW, previous=OLD, rotated_at=NOON)

    during = sign_body(b"{}", keys, NOON + ROTATION_OVERLAP - timedelta(microseconds=1))
    later = sign_body(b"{}", keys, NOON + ROTATION_OVERLAP)

    assert (
        during["X-BPC-Signature"]
        == later["X-BPC-Signature"]
        == sign_body(b"{}", WebhookKeys(current=NEW), NOON)["X-BPC-Signature"]
    )
    assert during["X-BPC-Signature-Previous"] == sign_body(b"{}", WebhookKeys(current=OLD), NOON)["X-BPC-Signature"]
    assert "X-BPC-Signature-Previous" not in later
    assert len(during["webhook-signature"].split(" ")) == 2
    assert len(later["webhook-signature"].split(" ")) == 1


@pytest.mark.parametrize("known", [OLD, NEW])
def test_the_published_receiver_takes_it_whichever_of_the_two_secrets_it_knows(known: bytes) -> None:
    now = clock.now()
    keys = WebhookKeys(current=NEW, previous=OLD, rotated_at=now - timedelta(hours=1))

    verified = Webhook(encode_secret(known)).verify(b'{"a":1}', sign_body(b'{"a":1}', keys, now))

    assert verified == {"a": 1}


def test_any_changed_bit_of_the_body_or_a_signature_shows() -> None:
    now, body = clock.now(), b'{"a":1}'
    sent, receiver = sign_body(body, WebhookKeys(current=NEW), now), Webhook(encode_secret(NEW))
    mac = b64decode(sent["webhook-signature"].removeprefix("v1,"))

    accepted = 0
    for bit in range(len(body) * 8):
        accepted += _is_accepted(receiver, _flip_bit(body, bit), sent)
    for bit in range(len(mac) * 8):
        accepted += _is_accepted(
            receiver, body, sent | {"webhook-signature": "v1," + b64encode(_flip_bit(mac, bit)).decode()}
        )

    assert accepted == 0
    assert _is_accepted(receiver, body, sent)


def _flip_bit(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def _is_accepted(receiver: Webhook, body: bytes, headers: dict[str, str]) -> bool:
    try:
        receiver.verify(body, headers)
    except Exception:  # noqa: BLE001 (whatever it says, it is no)
        return False
    return True


def test_keys_are_in_no_text() -> None:
    assert repr(WebhookKeys(current=NEW, previous=OLD)) == "WebhookKeys(rotated_at=None)"


# Answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ((200, 201, 202, 204, 299), DeliveryVerdict.DELIVERED),
        ((300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 410, 413, 422, 451), DeliveryVerdict.FAILED),
        ((408, 425, 429, 500, 501, 502, 503, 504, 599, 999), DeliveryVerdict.AGAIN),
    ],
)
def test_a_status_means_delivered_failed_or_again(statuses: tuple[int, ...], verdict: DeliveryVerdict) -> None:
    assert {judge_status(status) for status in statuses} == {verdict}


def test_an_endpoint_may_have_client_errors_retried_but_never_410_or_a_redirect() -> None:
    again = {status for status in range(300, 500) if _judge_patiently(status) is DeliveryVerdict.AGAIN}

    assert again == {status for status in range(400, 500) if status != 410}
    assert _judge_patiently(204) is DeliveryVerdict.DELIVERED


def _judge_patiently(status: int) -> DeliveryVerdict:
    return judge_status(status, retry_client_errors=True)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        ("7", 7),
        (" 120 ", 120),
        ("86400", 86_400),
        ("86401", MAX_RETRY_AFTER_SECONDS),
        ("9" * 5000, MAX_RETRY_AFTER_SECONDS),
        ("-1", 0),
        ("1.5", 0),
        ("soon", 0),
        ("١٢", 0),
        (format_datetime(NOON + timedelta(seconds=30), usegmt=True), 30),
        (format_datetime(NOON - timedelta(seconds=30), usegmt=True), 0),
        (format_datetime(NOON + timedelta(days=30), usegmt=True), MAX_RETRY_AFTER_SECONDS),
        ("Thu, 18 Feb 2027 13:00:30 +0100", 30),
        ("Thu, 18 Feb 2027 12:00:30 -0000", 30),
        ("Thu, 99 Feb 2027 12:00:30 GMT", 0),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_is_bounded(retry_after: str | None, seconds: int) -> None:
    assert parse_retry_after(retry_after, NOON) == seconds
