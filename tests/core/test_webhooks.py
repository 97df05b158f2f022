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

from bpc import fresh
from bpc.core.canon import encode
from bpc.core.events import EMPTY, Act, Event, Stream
from bpc.core.ids import AggregateId, TenantId, WebhookDeliveryId
from bpc.core.webhooks import (
    ANNOUNCED,
    LONGEST_REST,
    OVERLAP,
    TESTED,
    Announcement,
    Keys,
    Verdict,
    WebhookType,
    headers,
    rest_asked,
    verdict_on,
)

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


def announced(event_type: str, payload: dict[str, object]) -> tuple[Event, Announcement]:
    event = Event.following(EMPTY, Stream(TENANT, "PassportVersion", ABOUT), Act(None, NOON).says(event_type, payload))
    return event, Announcement(
        tenant_id=TENANT,
        event_id=event.event_id,
        event_type=event.event_type,
        occurred_at=event.occurred_at,
        aggregate_type="PassportVersion",
        aggregate_id=ABOUT,
        aggregate_version=event.version,
        payload_canonical=event.payload_canonical,
    )


def secret(key: bytes) -> str:
    return "whsec_" + b64encode(key).decode()


def signed(body: bytes, keys: Keys, moment: datetime) -> dict[str, str]:
    return headers(body, webhook_type="passport.version.active", delivery=DELIVERY, moment=moment, keys=keys)


# The body ----------------------------------------------------------------------------------------------------------


def test_the_body_is_canonical_json_with_the_event_and_where_it_stands_in_its_chain() -> None:
    event, announcement = announced("PASSPORT_ACTIVATED", {"was": "SIGNED", "é": [1]})

    assert announcement.body() == (
        b'{"data":{"aggregate_id":"00000000-0000-4000-8000-000000000002","aggregate_type":"PassportVersion",'
        b'"aggregate_version":1,"payload":{"was":"SIGNED","\xc3\xa9":[1]}},"event_id":"'
        + str(event.event_id).encode()
        + b'","event_type":"passport.version.active","occurred_at":"2027-02-18T12:00:00.000000Z",'
        b'"tenant_id":"00000000-0000-4000-8000-000000000001"}'
    )


@given(
    st.dictionaries(st.text(st.characters(codec="ascii", exclude_characters="\0")), JSON),
    st.sampled_from([*ANNOUNCED, TESTED]),
)
def test_the_body_always_says_what_the_audit_chain_says(payload: dict[str, object], event_type: str) -> None:
    try:
        event, announcement = announced(event_type, payload)
    except Exception:  # noqa: BLE001 (not a payload an event can have)
        return

    told = json.loads(announcement.body())

    assert hashlib.sha256(encode(told["data"]["payload"])).digest() == event.payload_hash
    assert UUID(told["event_id"]) == event.event_id  # which is made of the event's hash
    assert announcement.body() == encode(told)


def test_every_type_that_can_be_subscribed_to_is_announced_by_one_event() -> None:
    assert sorted(ANNOUNCED.values()) == sorted(get_args(WebhookType))


# Signatures --------------------------------------------------------------------------------------------------------


def test_the_headers_are_what_a_receiver_can_make_by_hand() -> None:
    body = b'{"a":1}'

    sent = signed(body, Keys(current=NEW), NOON)

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
    keys = Keys(current=NEW, previous=OLD, rotated_at=NOON)

    during = signed(b"{}", keys, NOON + OVERLAP - timedelta(microseconds=1))
    later = signed(b"{}", keys, NOON + OVERLAP)

    assert (
        during["X-BPC-Signature"]
        == later["X-BPC-Signature"]
        == signed(b"{}", Keys(current=NEW), NOON)["X-BPC-Signature"]
    )
    assert during["X-BPC-Signature-Previous"] == signed(b"{}", Keys(current=OLD), NOON)["X-BPC-Signature"]
    assert "X-BPC-Signature-Previous" not in later
    assert len(during["webhook-signature"].split(" ")) == 2
    assert len(later["webhook-signature"].split(" ")) == 1


@pytest.mark.parametrize("known", [OLD, NEW])
def test_the_published_receiver_takes_it_whichever_of_the_two_secrets_it_knows(known: bytes) -> None:
    now = fresh.now()
    keys = Keys(current=NEW, previous=OLD, rotated_at=now - timedelta(hours=1))

    told = Webhook(secret(known)).verify(b'{"a":1}', signed(b'{"a":1}', keys, now))

    assert told == {"a": 1}


def test_any_changed_bit_of_the_body_or_a_signature_shows() -> None:
    now, body = fresh.now(), b'{"a":1}'
    sent, receiver = signed(body, Keys(current=NEW), now), Webhook(secret(NEW))
    mac = b64decode(sent["webhook-signature"].removeprefix("v1,"))

    accepted = 0
    for bit in range(len(body) * 8):
        accepted += _takes(receiver, _flipped(body, bit), sent)
    for bit in range(len(mac) * 8):
        accepted += _takes(receiver, body, sent | {"webhook-signature": "v1," + b64encode(_flipped(mac, bit)).decode()})

    assert accepted == 0
    assert _takes(receiver, body, sent)


def _flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def _takes(receiver: Webhook, body: bytes, sent: dict[str, str]) -> bool:
    try:
        receiver.verify(body, sent)
    except Exception:  # noqa: BLE001 (whatever it says, it is no)
        return False
    return True


def test_keys_are_in_no_text() -> None:
    assert repr(Keys(current=NEW, previous=OLD)) == "Keys(rotated_at=None)"


# Answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ((200, 201, 202, 204, 299), Verdict.DELIVERED),
        ((300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 409, 410, 413, 422, 451), Verdict.FAILED),
        ((408, 425, 429, 500, 501, 502, 503, 504, 599, 999), Verdict.AGAIN),
    ],
)
def test_an_answer_is_taken_final_or_another_try(statuses: tuple[int, ...], verdict: Verdict) -> None:
    assert {verdict_on(status) for status in statuses} == {verdict}


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        ("7", 7),
        (" 120 ", 120),
        ("1024", 1024),
        ("1025", LONGEST_REST),
        ("9" * 5000, LONGEST_REST),
        ("-1", 0),
        ("1.5", 0),
        ("soon", 0),
        ("١٢", 0),
        (format_datetime(NOON + timedelta(seconds=30), usegmt=True), 30),
        (format_datetime(NOON - timedelta(seconds=30), usegmt=True), 0),
        (format_datetime(NOON + timedelta(days=30), usegmt=True), LONGEST_REST),
        ("Thu, 18 Feb 2027 13:00:30 +0100", 30),
        ("Thu, 18 Feb 2027 12:00:30 -0000", 30),
        ("Thu, 99 Feb 2027 12:00:30 GMT", 0),
    ],
)
def test_a_rest_is_asked_for_in_seconds_or_by_a_date_and_has_a_bound(said: str | None, seconds: int) -> None:
    assert rest_asked(said, NOON) == seconds
