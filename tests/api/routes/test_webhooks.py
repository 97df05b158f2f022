"""Webhooks over HTTP: where they go, what they tell, what became of them; and a secret that is shown once."""

import json
from base64 import b64decode
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest

from bpc import fresh
from bpc.api.service import Service
from bpc.core.errors import Refusal
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.core.outbound_urls import LONGEST, BadUrl, OutboundBlocked, checked_url
from bpc.db import deliveries, webhooks
from bpc.db.connection import Connection
from bpc.db.database import Database
from bpc.db.pages import Ask
from tests.api.conftest import Api
from tests.db.rows import an_event, insert
from tests.jobs.test_explain import Node, nodes_of

URL: Final = "https://example.com/hooks?battery=1"
TYPES: Final = (
    "document.version.validated",
    "rules.version.published",
    "passport.version.signed",
    "passport.version.active",
    "passport.version.revoked",
    "passport.version.mismatch",
)
FAULT: Final = {"code": "INTERNAL_ERROR", "message": "it answered 500", "retryable": True, "details": {"status": 500}}
MANY: Final = 20_000
FILL_ENDPOINTS: Final = """
    INSERT INTO webhook_endpoints (tenant_id, webhook_endpoint_id, url, secret_base64, created_at)
    SELECT $1, gen_random_uuid(), 'https://example.com', 'AAAA', '2026-01-01 UTC'::timestamptz + n * interval '1 s'
      FROM generate_series(1, $2::int) AS n
"""
FILL_SUBSCRIPTIONS: Final = """
    INSERT INTO webhook_subscriptions (tenant_id, webhook_subscription_id, webhook_endpoint_id, event_type, created_at)
    SELECT tenant_id, gen_random_uuid(), webhook_endpoint_id, 'passport.version.active', created_at
      FROM webhook_endpoints WHERE tenant_id = $1
"""
# What is looked for is common, but long ago: the newer half is of another endpoint and status.
FILL_DELIVERIES: Final = """
    INSERT INTO webhook_deliveries (tenant_id, webhook_delivery_id, webhook_endpoint_id, event_id, status, created_at)
    SELECT $1, gen_random_uuid(), CASE WHEN n > $2 / 2 THEN $4::uuid ELSE $3::uuid END, $5,
           CASE WHEN n > $2 / 2 THEN 'DELIVERED' WHEN n % 2 = 0 THEN 'PENDING' ELSE 'FAILED' END,
           '2026-01-01 UTC'::timestamptz + n * interval '1 s'
      FROM generate_series(1, $2::int) AS n
"""


async def _endpoint(admin: Api, url: str = URL) -> Any:
    return await admin.made("/v1/webhook-endpoints", {"url": url})


async def _event_types(admin: Api, kind: str, which: str) -> list[str]:
    listed = await admin.got("/v1/audit/events", params={"aggregate_type": kind, "aggregate_id": which})
    return [item["event_type"] for item in reversed(listed["items"])]


# Endpoints -----------------------------------------------------------------------------------------------------------


async def test_an_endpoint_is_created_with_a_secret_that_is_shown_once(admin: Api) -> None:
    made = await _endpoint(admin)

    shown = await admin.got(f"/v1/webhook-endpoints/{made['webhook_endpoint_id']}")
    listed = await admin.got("/v1/webhook-endpoints")

    assert set(made) == {"webhook_endpoint_id", "url", "secret"}
    assert made["secret"].startswith("whsec_")
    assert len(b64decode(made["secret"].removeprefix("whsec_"), validate=True)) == 32
    assert set(shown) == {"webhook_endpoint_id", "url", "is_active", "created_at", "rotated_at"}
    assert (shown["url"], shown["is_active"], shown["rotated_at"]) == (URL, True, None)
    assert listed == {"items": [shown], "next_cursor": None}
    assert await _event_types(admin, "WebhookEndpoint", made["webhook_endpoint_id"]) == ["WEBHOOK_ENDPOINT_CREATED"]


async def test_a_secret_is_in_its_answer_and_its_row_and_nowhere_else(
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
    kept = await superuser.fetch("SELECT response_headers::text, response_body FROM idempotency_keys ORDER BY key")
    assert [row["response_body"] for row in kept] == [b"", b""]
    assert await _tables_with(superuser, secrets) == {"webhook_endpoints"}
    out, err = capfd.readouterr()
    assert not _holds(out + err + again.text + kept[0]["response_headers"], secrets)


async def _tables_with(superuser: "asyncpg.Connection[asyncpg.Record]", secrets: list[str]) -> set[str]:
    tables = await superuser.fetch("SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'jobs')")
    return {
        table
        for schema, table in tables
        for [row] in await superuser.fetch(f'SELECT to_jsonb(t)::text FROM {schema}."{table}" AS t')
        if _holds(row, secrets)
    }


def _holds(text: str, secrets: list[str]) -> bool:
    # Bytes of the database are shown in hex, texts in JSON.
    return any(secret in text or secret.encode().hex() in text for secret in secrets)


async def test_a_rotation_keeps_the_secret_before(admin: Api, superuser: "asyncpg.Connection[asyncpg.Record]") -> None:
    made = await _endpoint(admin)
    endpoint = made["webhook_endpoint_id"]

    rotated = await admin.made(f"/v1/webhook-endpoints/{endpoint}:rotate", status=200)

    row = await superuser.fetchrow("SELECT secret_base64, previous_secret_base64 FROM webhook_endpoints")
    assert row is not None
    assert ["whsec_" + text for text in row.values()] == [rotated["secret"], made["secret"]]
    assert (await admin.got(f"/v1/webhook-endpoints/{endpoint}"))["rotated_at"] is not None
    types = await _event_types(admin, "WebhookEndpoint", endpoint)
    assert types == ["WEBHOOK_ENDPOINT_CREATED", "WEBHOOK_ENDPOINT_CHANGED"]


async def test_a_deleted_endpoint_stays_and_takes_nothing_more(admin: Api) -> None:
    endpoint = (await _endpoint(admin))["webhook_endpoint_id"]

    deleted = await admin.delete(f"/v1/webhook-endpoints/{endpoint}")

    assert (deleted.status_code, deleted.json()["is_active"]) == (200, False)
    assert await admin.got(f"/v1/webhook-endpoints/{endpoint}") == deleted.json()
    refused = [
        await admin.delete(f"/v1/webhook-endpoints/{endpoint}"),
        await admin.post(f"/v1/webhook-endpoints/{endpoint}:rotate"),
        await admin.post(f"/v1/webhook-endpoints/{endpoint}:test"),
        await admin.post("/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": TYPES[0]}),
    ]
    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in refused] == [(409, "CONFLICT")] * 4
    types = await _event_types(admin, "WebhookEndpoint", endpoint)
    assert types == ["WEBHOOK_ENDPOINT_CREATED", "WEBHOOK_ENDPOINT_DELETED"]


async def test_where_nothing_is_sent_there_is_no_endpoint(admin: Api) -> None:
    blocked = await admin.post("/v1/webhook-endpoints", {"url": "https://127.0.0.1/hook"})
    wrong = await admin.post("/v1/webhook-endpoints", {"url": "ftp://example.com"})

    assert (blocked.status_code, blocked.json()["error"]["code"]) == (422, "OUTBOUND_BLOCKED")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert (await admin.got("/v1/webhook-endpoints"))["items"] == []


async def test_the_installation_decides_what_else_may_be_reached(admin: Api, service: Service) -> None:
    object.__setattr__(service, "settings", service.settings.model_copy(update={"outbound_allow": ("127.0.0.1",)}))
    await _endpoint(admin, "http://127.0.0.1:9000/hook")
    object.__setattr__(service, "settings", service.settings.model_copy(update={"env": "prod"}))

    answer = await admin.post("/v1/webhook-endpoints", {"url": "http://127.0.0.1:9000/hook"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert "https" in answer.json()["error"]["message"]


# Subscriptions -------------------------------------------------------------------------------------------------------


async def test_an_endpoint_is_subscribed_to_each_type_once(admin: Api) -> None:
    endpoint = (await _endpoint(admin))["webhook_endpoint_id"]
    other = (await _endpoint(admin))["webhook_endpoint_id"]
    made = [
        await admin.made("/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": name})
        for name in TYPES
    ]

    again = await admin.post("/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": TYPES[0]})
    wrong = await admin.post(
        "/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": "webhook.test"}
    )

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert again.json()["error"]["details"]["webhook_subscription_id"] == made[0]["webhook_subscription_id"]
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    whole = await admin.got("/v1/webhook-subscriptions")
    assert whole["items"] == list(reversed(made))
    assert await admin.got("/v1/webhook-subscriptions", params={"webhook_endpoint_id": endpoint}) == whole
    assert (await admin.got("/v1/webhook-subscriptions", params={"webhook_endpoint_id": other}))["items"] == []


async def test_the_subscriptions_of_an_endpoint_come_page_by_page(admin: Api) -> None:
    endpoint = (await _endpoint(admin))["webhook_endpoint_id"]
    for name in TYPES[:3]:
        await admin.made("/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": name})
    asked = {"webhook_endpoint_id": endpoint, "limit": "2"}

    first = await admin.got("/v1/webhook-subscriptions", params=asked)
    rest = await admin.got("/v1/webhook-subscriptions", params={**asked, "cursor": first["next_cursor"]})

    assert [item["event_type"] for item in first["items"] + rest["items"]] == list(reversed(TYPES[:3]))
    assert rest["next_cursor"] is None


async def test_a_subscription_ends_and_both_are_on_record(admin: Api) -> None:
    endpoint = (await _endpoint(admin))["webhook_endpoint_id"]
    wish = {"webhook_endpoint_id": endpoint, "event_type": TYPES[0]}
    made = await admin.made("/v1/webhook-subscriptions", wish)
    subscription = made["webhook_subscription_id"]

    ended = await admin.delete(f"/v1/webhook-subscriptions/{subscription}")
    again = await admin.delete(f"/v1/webhook-subscriptions/{subscription}")

    assert (ended.status_code, ended.json()) == (200, made)
    assert again.status_code == 404
    assert (await admin.got("/v1/webhook-subscriptions"))["items"] == []
    types = await _event_types(admin, "WebhookSubscription", subscription)
    assert types == ["WEBHOOK_SUBSCRIPTION_CREATED", "WEBHOOK_SUBSCRIPTION_DELETED"]
    await admin.made("/v1/webhook-subscriptions", wish)


# Deliveries ----------------------------------------------------------------------------------------------------------


async def test_deliveries_are_found_by_endpoint_and_status(
    admin: Api, database: Database, tenant: TenantId, act: Act
) -> None:
    endpoints = [(await _endpoint(admin))["webhook_endpoint_id"] for _ in range(2)]
    made: dict[tuple[str, str], str] = {}
    async with database.tenant(tenant) as conn:
        event = await an_event(conn, tenant, act)
        for endpoint in endpoints:
            for status in ("PENDING", "FAILED"):
                made[endpoint, status] = await _delivery(conn, tenant, endpoint, event, status)

    async def found(**filters: str) -> set[str]:
        listed = await admin.got("/v1/webhook-deliveries", params=filters)
        return {item["webhook_delivery_id"] for item in listed["items"]}

    first, second = endpoints
    assert await found() == set(made.values())
    assert await found(webhook_endpoint_id=first) == {made[first, "PENDING"], made[first, "FAILED"]}
    assert await found(status="FAILED") == {made[first, "FAILED"], made[second, "FAILED"]}
    assert await found(status="FAILED", webhook_endpoint_id=second) == {made[second, "FAILED"]}
    assert await found(status="DELIVERED") == await found(webhook_endpoint_id=str(fresh.new_id())) == set()
    shown = await admin.got(f"/v1/webhook-deliveries/{made[first, 'FAILED']}")
    assert (shown["event_id"], shown["status"], shown["attempt"]) == (str(event), "FAILED", 0)
    assert shown["last_error"] == FAULT
    assert (shown["response_status"], shown["response"], shown["redelivery_of"]) == (None, None, None)
    assert (await admin.get("/v1/webhook-deliveries?status=SENT")).status_code == 422


async def _delivery(conn: Connection, tenant: TenantId, endpoint: str, event: UUID, status: str) -> str:
    delivery = fresh.new_id()
    await insert(
        conn,
        "webhook_deliveries",
        tenant_id=tenant,
        webhook_delivery_id=delivery,
        webhook_endpoint_id=endpoint,
        event_id=event,
        status=status,
        last_error=json.dumps(FAULT) if status == "FAILED" else None,
    )
    return str(delivery)


# On demand -----------------------------------------------------------------------------------------------------------


async def test_an_endpoint_is_tested_by_a_delivery_of_its_own(admin: Api) -> None:
    endpoint = (await _endpoint(admin))["webhook_endpoint_id"]

    asked = await admin.made(f"/v1/webhook-endpoints/{endpoint}:test", status=202)

    shown = await admin.got(f"/v1/webhook-deliveries/{asked['webhook_delivery_id']}")
    job = await admin.got(f"/v1/jobs/{asked['job_id']}")
    assert (shown["webhook_endpoint_id"], shown["status"], shown["attempt"]) == (endpoint, "PENDING", 0)
    assert (job["type"], job["status"], job["max_attempts"]) == ("DELIVER_WEBHOOK", "QUEUED", 5)
    types = await _event_types(admin, "WebhookEndpoint", endpoint)
    assert types == ["WEBHOOK_ENDPOINT_CREATED", "WEBHOOK_ENDPOINT_TESTED"]


async def test_a_redelivery_is_asked_for_once_the_delivery_has_ended(
    admin: Api, database: Database, tenant: TenantId, act: Act
) -> None:
    endpoint = (await _endpoint(admin))["webhook_endpoint_id"]
    async with database.tenant(tenant) as conn:
        event = await an_event(conn, tenant, act)
        failed = await _delivery(conn, tenant, endpoint, event, "FAILED")

    asked = await admin.made(f"/v1/webhook-deliveries/{failed}:redeliver", status=202)
    too_early = await admin.post(f"/v1/webhook-deliveries/{asked['webhook_delivery_id']}:redeliver")

    shown = await admin.got(f"/v1/webhook-deliveries/{asked['webhook_delivery_id']}")
    assert (shown["redelivery_of"], shown["event_id"], shown["status"]) == (failed, str(event), "PENDING")
    assert (too_early.status_code, too_early.json()["error"]["code"]) == (409, "CONFLICT")
    types = await _event_types(admin, "WebhookEndpoint", endpoint)
    assert types == ["WEBHOOK_ENDPOINT_CREATED", "WEBHOOK_REDELIVERED"]


async def test_what_an_endpoint_answered_is_shown_with_its_delivery_and_not_in_lists(
    admin: Api, database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, act: Act
) -> None:
    endpoint = (await _endpoint(admin))["webhook_endpoint_id"]
    async with database.tenant(tenant) as conn:
        delivery = await _delivery(conn, tenant, endpoint, await an_event(conn, tenant, act), "PENDING")
    await superuser.execute(
        "UPDATE webhook_deliveries SET response_status = 500, response_headers = $1, response_body = $2",
        '{"server": "x"}',
        b"out of order \xff",
    )

    shown = await admin.got(f"/v1/webhook-deliveries/{delivery}")
    [listed] = (await admin.got("/v1/webhook-deliveries"))["items"]

    answer = {"status": 500, "headers": {"server": "x"}, "body": "out of order \ufffd", "is_cut": False}
    assert shown["response"] == answer
    assert listed == {name: value for name, value in shown.items() if name != "response"}


async def test_prod_takes_https_only(admin: Api, service: Service) -> None:
    object.__setattr__(service, "settings", service.settings.model_copy(update={"env": "prod"}))

    refused = await admin.post("/v1/webhook-endpoints", {"url": "http://example.com/hook"})

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


# Who may, and whose --------------------------------------------------------------------------------------------------


async def test_only_who_runs_the_tenant_sees_or_changes_webhooks(officer: Api, auditor: Api, nobody: Api) -> None:
    some = fresh.new_id()
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
        assert (await nobody.send(method, path)).status_code == 401, path
    assert (await officer.post("/v1/webhook-endpoints", {"url": URL})).status_code == 403


async def test_another_tenants_webhooks_are_like_ones_that_do_not_exist(
    admin: Api, rival: Api, database: Database, tenant: TenantId, act: Act
) -> None:
    endpoint = (await _endpoint(admin))["webhook_endpoint_id"]
    wish = {"webhook_endpoint_id": endpoint, "event_type": TYPES[0]}
    subscription = (await admin.made("/v1/webhook-subscriptions", wish))["webhook_subscription_id"]
    async with database.tenant(tenant) as conn:
        delivery = await _delivery(conn, tenant, endpoint, await an_event(conn, tenant, act), "PENDING")
    unknown = str(fresh.new_id())
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
        foreign = await rival.send(method, path.format(which), headers=same)
        missing = await rival.send(method, path.format(unknown), headers=same)
        assert foreign.status_code == missing.status_code == 404, path
        assert foreign.text.replace(which, unknown) == missing.text
    foreign = await rival.post("/v1/webhook-subscriptions", wish, headers=same)
    missing = await rival.post("/v1/webhook-subscriptions", wish | {"webhook_endpoint_id": unknown}, headers=same)
    assert foreign.status_code == missing.status_code == 404
    assert foreign.text.replace(endpoint, unknown) == missing.text
    for what in ("endpoints", "subscriptions", "deliveries"):
        assert await rival.got(f"/v1/webhook-{what}") == {"items": [], "next_cursor": None}
    assert (await admin.got(f"/v1/webhook-endpoints/{endpoint}"))["is_active"]


# Plans ---------------------------------------------------------------------------------------------------------------


async def test_every_list_is_read_from_its_index(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        event = await an_event(conn, tenant, act)
        mine, other = [(await webhooks.create(conn, tenant, url=URL, act=act)).webhook_endpoint_id for _ in range(2)]
    await superuser.execute(FILL_DELIVERIES, tenant, MANY, mine, other, event)
    await superuser.execute(FILL_ENDPOINTS, tenant, MANY)
    await superuser.execute(FILL_SUBSCRIPTIONS, tenant)
    await superuser.execute("VACUUM ANALYZE webhook_endpoints, webhook_subscriptions, webhook_deliveries")

    for statement, filters, index, most in (
        (webhooks.PAGE, (), "webhook_endpoints_by_time", 51),
        (webhooks.SUBSCRIPTIONS, (), "webhook_subscriptions_by_time", 51),
        (webhooks.SUBSCRIPTIONS_OF, (mine,), "webhook_subscriptions_event_key", 6),
        (deliveries.PAGE, (), "webhook_deliveries_by_time", 51),
        (deliveries.PAGE_TO, (mine,), "webhook_deliveries_by_endpoint", 51),
        (deliveries.PAGE_WITH, ("FAILED",), "webhook_deliveries_by_status", 51),
        (deliveries.PAGE_TO_WITH, (mine, "FAILED"), "webhook_deliveries_by_endpoint_status", 51),
    ):
        async with database.tenant(tenant) as conn:
            scan = await _scan(conn, statement, tenant, *Ask.of(None, 51), *filters)
        assert (scan.kind, scan.index) == ("Index Scan", index), scan
        assert int(scan.raw["Actual Rows"]) + int(scan.raw.get("Rows Removed by Filter", 0)) <= most, scan


async def _scan(conn: Connection, statement: str, *arguments: object) -> Node:
    text = await conn.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
    [scan] = [node for node in nodes_of(json.loads(text)[0]["Plan"]) if node.relation is not None]
    return scan


# URLs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "https://example.com",
        "http://hooks.example.com:8080/a/b?c=d&e=%20f",
        "https://xn--bcher-kva.example/",
        "https://localhost/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]:8443/x",
        "https://1.example.com/",
    ],
)
def test_a_url_of_the_open_internet_is_taken_as_it_is(url: str) -> None:
    assert checked_url(url, https_only=False) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://example.com/",
        "HTTPS://example.com/",
        "https:///path",
        "https://user@example.com/",
        "https://user:password@example.com/",
        "https://example.com/#part",
        "https://example.com#part",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:/",
        "https://example.com\\@other.example/",
        "https://example.com/a b",
        "https://example.com/\n",
        "https://bücher.example/",
        "https://example.com/%zz",
        "https://exa%6dple.com/",
        "https://example..com/",
        "https://example.com./",
        "https://-example.com/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://127.1/",
        "https://0177.0.0.1/",
        "https://127.0.0.1.0x1/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://[example.com]/",
        "https://example.com/" + "a" * LONGEST,
    ],
)
def test_a_url_that_could_be_read_in_two_ways_or_none_is_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        checked_url(url, https_only=False)


CLOSED: Final = (
    *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1"),
    *("172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("[::]", "[::1]", "[::ffff:10.0.0.1]", "[::10.0.0.1]", "[64:ff9b::10.0.0.1]", "[64:ff9b:1::1]", "[100::1]"),
    *("[2001::1]", "[2001:db8::1]", "[2002:a00:1::]", "[3fff::1]", "[5f00::1]", "[fc00::1]", "[fe80::1]", "[fec0::1]"),
    *("[ff02::1]",),
)


@pytest.mark.parametrize("host", CLOSED)
def test_nothing_is_sent_to_an_address_that_is_not_public(host: str) -> None:
    with pytest.raises(OutboundBlocked):
        checked_url(f"https://{host}/", https_only=True)


@pytest.mark.parametrize(
    ("url", "allowed", "taken"),
    [
        ("http://10.1.2.3/", "10.1.2.3", True),
        ("http://10.1.2.3/", "10.0.0.0/8", True),
        ("http://10.1.2.3:8080/", "10.1.2.3:8080", True),
        ("https://10.1.2.3/", "10.1.2.3:443", True),
        ("http://[fd00::1]/", "fd00::/8", True),
        ("http://10.1.2.3:8081/", "10.1.2.3:8080", False),
        ("http://11.0.0.0@10.1.2.3/", "10.1.2.3", False),
        ("http://192.168.0.1/", "10.0.0.0/8", False),
        ("http://[::ffff:10.1.2.3]/", "10.1.2.3", False),
        ("http://10.1.2.3/", "*.example.com", False),
        ("http://10.1.2.3/", "/srv/files", False),
    ],
)
def test_an_address_that_the_installation_names_is_taken(url: str, allowed: str, *, taken: bool) -> None:
    if taken:
        assert checked_url(url, https_only=False, allowed=[allowed]) == url
    else:
        with pytest.raises(Refusal):
            checked_url(url, https_only=False, allowed=[allowed])


def test_where_https_is_a_must_http_is_refused() -> None:
    with pytest.raises(BadUrl, match="https"):
        checked_url("http://example.com/", https_only=True)
