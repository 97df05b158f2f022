"""Webhooks over HTTP: where they go, what they tell, what became of them; and a secret that is shown once."""

from base64 import b64decode
from typing import Final
from uuid import UUID

import asyncpg
import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from bpc.storage.webhooks.endpoint_secrets import open_secret
from tests.api.conftest import Api
from tests.api.routes.webhooks.webhook_calls import URL, create_endpoint, insert_delivery, list_event_types
from tests.storage.rows import insert_event

TYPES: Final = (
    "document.version.validated",
    "rules.version.published",
    "passport.version.signed",
    "passport.version.active",
    "passport.version.revoked",
    "passport.version.mismatch",
)


async def test_an_endpoint_is_created_with_a_secret_that_is_shown_once(admin: Api) -> None:
    endpoint = await create_endpoint(admin)

    answer = await admin.get_json(f"/v1/webhook-endpoints/{endpoint['webhook_endpoint_id']}")
    listed = await admin.get_json("/v1/webhook-endpoints")

    assert set(endpoint) == {"webhook_endpoint_id", "url", "secret"}
    assert endpoint["secret"].startswith("whsec_")
    assert len(b64decode(endpoint["secret"].removeprefix("whsec_"), validate=True)) == 32
    assert set(answer) == {
        *("webhook_endpoint_id", "url", "is_active", "created_at", "rotated_at", "timeout_seconds"),
        *("retry_client_errors", "failing_since", "failed_attempts", "disabled_at", "disabled_reason"),
    }
    assert (answer["url"], answer["is_active"], answer["rotated_at"]) == (URL, True, None)
    assert listed == {"items": [answer], "next_cursor": None}
    assert await list_event_types(admin, "WebhookEndpoint", endpoint["webhook_endpoint_id"]) == [
        "WEBHOOK_ENDPOINT_CREATED"
    ]


async def test_a_secret_is_in_its_answer_and_nowhere_else(
    admin: Api, superuser: "asyncpg.Connection[asyncpg.Record]", capfd: pytest.CaptureFixture[str]
) -> None:
    answer = await admin.post("/v1/webhook-endpoints", {"url": URL}, idempotency_key="first")
    endpoint = answer.json()["webhook_endpoint_id"]
    rotated = await admin.post(f"/v1/webhook-endpoints/{endpoint}:rotate", idempotency_key="second")
    secrets = [one.json()["secret"].removeprefix("whsec_") for one in (answer, rotated)]
    assert secrets[0] != secrets[1]

    again = await admin.post("/v1/webhook-endpoints", {"url": URL}, idempotency_key="first")

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert again.json()["error"]["details"]["id"] == endpoint
    rows = await superuser.fetch("SELECT response_headers::text, response_body FROM idempotency_keys ORDER BY key")
    assert [row["response_body"] for row in rows] == [b"", b""]
    assert await _find_tables_with(superuser, secrets) == set()
    out, err = capfd.readouterr()
    assert not _contains_secret(out + err + again.text + rows[0]["response_headers"], secrets)


async def _find_tables_with(superuser: "asyncpg.Connection[asyncpg.Record]", secrets: list[str]) -> set[str]:
    tables = await superuser.fetch("SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'jobs')")
    return {
        table
        for schema, table in tables
        for [row] in await superuser.fetch(f'SELECT to_jsonb(t)::text FROM {schema}."{table}" AS t')
        if _contains_secret(row, secrets)
    }


def _contains_secret(text: str, secrets: list[str]) -> bool:
    # Bytes of the database are shown in hex, texts in JSON.
    return any(secret in text or secret.encode().hex() in text for secret in secrets)


async def test_a_rotation_keeps_the_secret_before_and_both_are_stored_encrypted(
    admin: Api, service: Service, tenant: TenantId, superuser: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    new_endpoint = await create_endpoint(admin)
    endpoint = new_endpoint["webhook_endpoint_id"]

    rotated = await admin.post_json(f"/v1/webhook-endpoints/{endpoint}:rotate", status=200)

    row = await superuser.fetchrow("SELECT secret_base64, previous_secret_base64 FROM webhook_endpoints")
    assert row is not None
    box, shown = service.secret_box, [rotated["secret"], new_endpoint["secret"]]
    opened = [open_secret(box, tenant, UUID(endpoint), text) for text in row.values()]
    assert ["whsec_" + text for text in opened] == shown
    assert not any(secret.removeprefix("whsec_") in text for secret in shown for text in row.values())
    assert (await admin.get_json(f"/v1/webhook-endpoints/{endpoint}"))["rotated_at"] is not None
    types = await list_event_types(admin, "WebhookEndpoint", endpoint)
    assert types == ["WEBHOOK_ENDPOINT_CREATED", "WEBHOOK_ENDPOINT_CHANGED"]


async def test_a_deleted_endpoint_stays_and_takes_nothing_more(admin: Api) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]

    deleted = await admin.delete(f"/v1/webhook-endpoints/{endpoint}")

    assert (deleted.status_code, deleted.json()["is_active"]) == (200, False)
    assert await admin.get_json(f"/v1/webhook-endpoints/{endpoint}") == deleted.json()
    refused = [
        await admin.delete(f"/v1/webhook-endpoints/{endpoint}"),
        await admin.post(f"/v1/webhook-endpoints/{endpoint}:rotate"),
        await admin.post(f"/v1/webhook-endpoints/{endpoint}:test"),
        await admin.post("/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": TYPES[0]}),
    ]
    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in refused] == [(409, "CONFLICT")] * 4
    types = await list_event_types(admin, "WebhookEndpoint", endpoint)
    assert types == ["WEBHOOK_ENDPOINT_CREATED", "WEBHOOK_ENDPOINT_DELETED"]


async def test_an_endpoint_has_a_timeout_and_retries_of_its_own_which_can_be_changed(admin: Api) -> None:
    body = {"url": URL, "timeout_seconds": 5, "retry_client_errors": True}
    endpoint = (await admin.post_json("/v1/webhook-endpoints", body))["webhook_endpoint_id"]
    path = f"/v1/webhook-endpoints/{endpoint}"
    created = await admin.get_json(path)
    assert (created["timeout_seconds"], created["retry_client_errors"]) == (5, True)

    quick = (await admin.send("PATCH", path, {"timeout_seconds": None})).json()
    moved = (await admin.send("PATCH", path, {"url": URL + "2", "retry_client_errors": False})).json()
    same = (await admin.send("PATCH", path, {"retry_client_errors": False})).json()

    assert (quick["timeout_seconds"], quick["retry_client_errors"], quick["url"]) == (None, True, URL)
    assert (moved["timeout_seconds"], moved["retry_client_errors"], moved["url"]) == (None, False, URL + "2")
    assert same == moved
    types = await list_event_types(admin, "WebhookEndpoint", endpoint)
    assert types == ["WEBHOOK_ENDPOINT_CREATED", "WEBHOOK_ENDPOINT_CHANGED", "WEBHOOK_ENDPOINT_CHANGED"]
    for wrong in ({}, {"timeout_seconds": 0}, {"timeout_seconds": 61}, {"url": "https://10.0.0.1/"}, {"secret": "x"}):
        assert (await admin.send("PATCH", path, wrong)).status_code == 422, wrong


async def test_an_endpoint_is_disabled_and_enabled_on_record(admin: Api) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]
    path = f"/v1/webhook-endpoints/{endpoint}"

    disabled = await admin.post_json(f"{path}:disable", {"reason": "maintenance until Monday"}, status=200)
    refused = await admin.post(f"{path}:test")
    enabled = await admin.post_json(f"{path}:enable", {"reason": "it works again"}, status=200)
    again = await admin.post(f"{path}:enable", {})

    assert (disabled["is_active"], disabled["disabled_reason"]) == (False, "maintenance until Monday")
    assert disabled["disabled_at"] is not None
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")
    assert "is disabled: maintenance until Monday" in refused.json()["error"]["message"]
    assert (enabled["is_active"], enabled["disabled_at"], enabled["disabled_reason"]) == (True, None, None)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    chain = {"aggregate_type": "WebhookEndpoint", "aggregate_id": endpoint}
    events = (await admin.get_json("/v1/audit/events", params=chain))["items"]
    assert [(event["event_type"], event["payload"]["reason"]) for event in reversed(events[:2])] == [
        ("WEBHOOK_ENDPOINT_DISABLED", "maintenance until Monday"),
        ("WEBHOOK_ENDPOINT_ENABLED", "it works again"),
    ]
    assert all(event["actor_id"] is not None for event in events)


async def test_where_nothing_is_sent_there_is_no_endpoint(admin: Api) -> None:
    blocked = await admin.post("/v1/webhook-endpoints", {"url": "https://127.0.0.1/hook"})
    wrong = await admin.post("/v1/webhook-endpoints", {"url": "ftp://example.com"})

    assert (blocked.status_code, blocked.json()["error"]["code"]) == (422, "OUTBOUND_BLOCKED")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert (await admin.get_json("/v1/webhook-endpoints"))["items"] == []


async def test_the_installation_decides_what_else_may_be_reached(admin: Api, service: Service) -> None:
    object.__setattr__(service, "settings", service.settings.model_copy(update={"outbound_allow": ("127.0.0.1",)}))
    await create_endpoint(admin, "http://127.0.0.1:9000/hook")
    object.__setattr__(service, "settings", service.settings.model_copy(update={"env": "prod"}))

    answer = await admin.post("/v1/webhook-endpoints", {"url": "http://127.0.0.1:9000/hook"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert "https" in answer.json()["error"]["message"]


async def test_an_endpoint_is_subscribed_to_each_type_once(admin: Api) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]
    other = (await create_endpoint(admin))["webhook_endpoint_id"]
    subscriptions = [
        await admin.post_json("/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": name})
        for name in TYPES
    ]

    again = await admin.post("/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": TYPES[0]})
    wrong = await admin.post(
        "/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": "webhook.test"}
    )

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert again.json()["error"]["details"]["webhook_subscription_id"] == subscriptions[0]["webhook_subscription_id"]
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    full_list = await admin.get_json("/v1/webhook-subscriptions")
    assert full_list["items"] == list(reversed(subscriptions))
    assert await admin.get_json("/v1/webhook-subscriptions", params={"webhook_endpoint_id": endpoint}) == full_list
    assert (await admin.get_json("/v1/webhook-subscriptions", params={"webhook_endpoint_id": other}))["items"] == []


async def test_the_subscriptions_of_an_endpoint_come_page_by_page(admin: Api) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]
    for name in TYPES[:3]:
        await admin.post_json("/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": name})
    params = {"webhook_endpoint_id": endpoint, "limit": "2"}

    first = await admin.get_json("/v1/webhook-subscriptions", params=params)
    rest = await admin.get_json("/v1/webhook-subscriptions", params={**params, "cursor": first["next_cursor"]})

    assert [item["event_type"] for item in first["items"] + rest["items"]] == list(reversed(TYPES[:3]))
    assert rest["next_cursor"] is None


async def test_a_subscription_ends_and_both_are_on_record(admin: Api) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]
    wish = {"webhook_endpoint_id": endpoint, "event_type": TYPES[0]}
    answer = await admin.post_json("/v1/webhook-subscriptions", wish)
    subscription = answer["webhook_subscription_id"]

    ended = await admin.delete(f"/v1/webhook-subscriptions/{subscription}")
    again = await admin.delete(f"/v1/webhook-subscriptions/{subscription}")

    assert (ended.status_code, ended.json()) == (200, answer)
    assert again.status_code == 404
    assert (await admin.get_json("/v1/webhook-subscriptions"))["items"] == []
    types = await list_event_types(admin, "WebhookSubscription", subscription)
    assert types == ["WEBHOOK_SUBSCRIPTION_CREATED", "WEBHOOK_SUBSCRIPTION_DELETED"]
    await admin.post_json("/v1/webhook-subscriptions", wish)


async def test_prod_takes_https_only(admin: Api, service: Service) -> None:
    object.__setattr__(service, "settings", service.settings.model_copy(update={"env": "prod"}))

    refused = await admin.post("/v1/webhook-endpoints", {"url": "http://example.com/hook"})

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_only_who_runs_the_tenant_sees_or_changes_webhooks(officer: Api, auditor: Api, anonymous: Api) -> None:
    some = clock.new_id()
    calls = [
        *(("GET", f"/v1/webhook-{what}") for what in ("endpoints", "subscriptions", "deliveries")),
        *(("GET", f"/v1/webhook-{what}/{some}") for what in ("endpoints", "deliveries")),
        *(("DELETE", f"/v1/webhook-{what}/{some}") for what in ("endpoints", "subscriptions")),
        ("POST", f"/v1/webhook-endpoints/{some}:rotate"),
        ("POST", f"/v1/webhook-endpoints/{some}:test"),
        ("POST", f"/v1/webhook-deliveries/{some}:redeliver"),
    ]

    for method, path in calls:
        assert (await officer.send(method, path)).status_code == 403, path
        assert (await auditor.send(method, path)).status_code == 403, path
        assert (await anonymous.send(method, path)).status_code == 401, path
    assert (await officer.post("/v1/webhook-endpoints", {"url": URL})).status_code == 403


async def test_another_tenants_webhooks_are_like_ones_that_do_not_exist(
    admin: Api, other_admin: Api, database: Database, tenant: TenantId, act: Act
) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]
    wish = {"webhook_endpoint_id": endpoint, "event_type": TYPES[0]}
    subscription = (await admin.post_json("/v1/webhook-subscriptions", wish))["webhook_subscription_id"]
    async with database.tenant(tenant) as conn:
        delivery = await insert_delivery(conn, tenant, endpoint, await insert_event(conn, tenant, act), "PENDING")
    unknown = str(clock.new_id())
    same = {"X-Correlation-Id": unknown}

    for method, path, which in (
        ("GET", "/v1/webhook-endpoints/{}", endpoint),
        ("DELETE", "/v1/webhook-endpoints/{}", endpoint),
        ("POST", "/v1/webhook-endpoints/{}:rotate", endpoint),
        ("POST", "/v1/webhook-endpoints/{}:test", endpoint),
        ("DELETE", "/v1/webhook-subscriptions/{}", subscription),
        ("GET", "/v1/webhook-deliveries/{}", delivery),
        ("POST", "/v1/webhook-deliveries/{}:redeliver", delivery),
    ):
        foreign = await other_admin.send(method, path.format(which), headers=same)
        missing = await other_admin.send(method, path.format(unknown), headers=same)
        assert foreign.status_code == missing.status_code == 404, path
        assert foreign.text.replace(which, unknown) == missing.text
    foreign = await other_admin.post("/v1/webhook-subscriptions", wish, headers=same)
    missing = await other_admin.post("/v1/webhook-subscriptions", wish | {"webhook_endpoint_id": unknown}, headers=same)
    assert foreign.status_code == missing.status_code == 404
    assert foreign.text.replace(endpoint, unknown) == missing.text
    for what in ("endpoints", "subscriptions", "deliveries"):
        assert await other_admin.get_json(f"/v1/webhook-{what}") == {"items": [], "next_cursor": None}
    assert (await admin.get_json(f"/v1/webhook-endpoints/{endpoint}"))["is_active"]
