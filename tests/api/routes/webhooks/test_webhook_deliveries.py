"""Deliveries of webhooks over HTTP: what became of them, and sending again."""

from datetime import timedelta

import asyncpg

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.database import Database
from bpc.storage.webhooks.webhook_fanout import append_and_announce
from tests.api.conftest import Api
from tests.api.routes.webhooks.webhook_calls import FAULT, create_endpoint, insert_delivery, list_event_types
from tests.storage.rows import insert_event


async def test_what_an_endpoint_has_not_got_is_sent_again_once(
    admin: Api, database: Database, tenant: TenantId
) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]
    path = f"/v1/webhook-endpoints/{endpoint}"
    wish = {"webhook_endpoint_id": endpoint, "event_type": "passport.version.signed"}
    await admin.post_json("/v1/webhook-subscriptions", wish)
    since = format_time(clock.now() - timedelta(hours=1))
    await admin.post_json(f"{path}:disable", {}, status=200)
    async with database.tenant(tenant) as conn:
        for _ in range(2):
            act = Act(None, clock.now())
            await append_and_announce(conn, act, tenant, "PassportVersion", clock.new_id(), "PASSPORT_SIGNED", {})
    await admin.post_json(f"{path}:enable", {}, status=200)

    first = await admin.post_json(f"{path}:redeliver-failed?since={since}&at_most=1", status=202)
    second = await admin.post_json(f"{path}:redeliver-failed?since={since}", status=202)
    third = await admin.post_json(f"{path}:redeliver-failed?since={since}", status=202)

    assert (first, second, third) == (
        {"queued": 1, "has_more": True},
        {"queued": 1, "has_more": False},
        {"queued": 0, "has_more": False},
    )
    listed = await admin.get_json("/v1/webhook-deliveries", params={"webhook_endpoint_id": endpoint})
    assert [item["status"] for item in listed["items"]] == ["PENDING", "PENDING"]
    assert len({item["event_id"] for item in listed["items"]}) == 2
    types = await list_event_types(admin, "WebhookEndpoint", endpoint)
    assert types.count("WEBHOOK_FAILED_REDELIVERED") == 2
    long_ago = format_time(clock.now() - timedelta(days=31))
    for query in (f"since={long_ago}", f"since={since}&at_most=1001", "since=yesterday", ""):
        assert (await admin.post(f"{path}:redeliver-failed?{query}")).status_code == 422, query


async def test_deliveries_are_found_by_endpoint_and_status(
    admin: Api, database: Database, tenant: TenantId, act: Act
) -> None:
    endpoints = [(await create_endpoint(admin))["webhook_endpoint_id"] for _ in range(2)]
    delivery_ids: dict[tuple[str, str], str] = {}
    async with database.tenant(tenant) as conn:
        event = await insert_event(conn, tenant, act)
        for endpoint in endpoints:
            for status in ("PENDING", "FAILED"):
                delivery_ids[endpoint, status] = await insert_delivery(conn, tenant, endpoint, event, status)

    async def list_ids(**filters: str) -> set[str]:
        listed = await admin.get_json("/v1/webhook-deliveries", params=filters)
        return {item["webhook_delivery_id"] for item in listed["items"]}

    first, second = endpoints
    assert await list_ids() == set(delivery_ids.values())
    assert await list_ids(webhook_endpoint_id=first) == {
        delivery_ids[first, "PENDING"],
        delivery_ids[first, "FAILED"],
    }
    assert await list_ids(status="FAILED") == {delivery_ids[first, "FAILED"], delivery_ids[second, "FAILED"]}
    assert await list_ids(status="FAILED", webhook_endpoint_id=second) == {delivery_ids[second, "FAILED"]}
    assert await list_ids(status="DELIVERED") == await list_ids(webhook_endpoint_id=str(clock.new_id())) == set()
    delivery = await admin.get_json(f"/v1/webhook-deliveries/{delivery_ids[first, 'FAILED']}")
    assert (delivery["event_id"], delivery["status"], delivery["attempt"]) == (str(event), "FAILED", 0)
    assert delivery["last_error"] == FAULT
    assert (delivery["response_status"], delivery["response"], delivery["redelivery_of"]) == (None, None, None)
    assert (await admin.get("/v1/webhook-deliveries?status=SENT")).status_code == 422


async def test_an_endpoint_is_tested_by_a_delivery_of_its_own(admin: Api) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]

    answer = await admin.post_json(f"/v1/webhook-endpoints/{endpoint}:test", status=202)

    delivery = await admin.get_json(f"/v1/webhook-deliveries/{answer['webhook_delivery_id']}")
    job = await admin.get_json(f"/v1/jobs/{answer['job_id']}")
    assert (delivery["webhook_endpoint_id"], delivery["status"], delivery["attempt"]) == (endpoint, "PENDING", 0)
    assert (job["type"], job["status"], job["max_attempts"]) == ("DELIVER_WEBHOOK", "QUEUED", 40)
    types = await list_event_types(admin, "WebhookEndpoint", endpoint)
    assert types == ["WEBHOOK_ENDPOINT_CREATED", "WEBHOOK_ENDPOINT_TESTED"]


async def test_a_redelivery_is_asked_for_once_the_delivery_has_ended(
    admin: Api, database: Database, tenant: TenantId, act: Act
) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]
    async with database.tenant(tenant) as conn:
        event = await insert_event(conn, tenant, act)
        failed = await insert_delivery(conn, tenant, endpoint, event, "FAILED")

    delivery = await admin.post_json(f"/v1/webhook-deliveries/{failed}:redeliver", status=202)
    too_early = await admin.post(f"/v1/webhook-deliveries/{delivery['webhook_delivery_id']}:redeliver")

    answer = await admin.get_json(f"/v1/webhook-deliveries/{delivery['webhook_delivery_id']}")
    assert (answer["redelivery_of"], answer["event_id"], answer["status"]) == (failed, str(event), "PENDING")
    assert (too_early.status_code, too_early.json()["error"]["code"]) == (409, "CONFLICT")
    types = await list_event_types(admin, "WebhookEndpoint", endpoint)
    assert types == ["WEBHOOK_ENDPOINT_CREATED", "WEBHOOK_REDELIVERED"]


async def test_what_an_endpoint_answered_is_shown_with_its_delivery_and_not_in_lists(
    admin: Api, database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", tenant: TenantId, act: Act
) -> None:
    endpoint = (await create_endpoint(admin))["webhook_endpoint_id"]
    async with database.tenant(tenant) as conn:
        delivery = await insert_delivery(conn, tenant, endpoint, await insert_event(conn, tenant, act), "PENDING")
    await superuser.execute(
        "UPDATE webhook_deliveries SET response_status = 500, response_headers = $1, response_body = $2",
        '{"server": "x"}',
        b"out of order \xff",
    )

    body = await admin.get_json(f"/v1/webhook-deliveries/{delivery}")
    [listed] = (await admin.get_json("/v1/webhook-deliveries"))["items"]

    answer = {"status": 500, "headers": {"server": "x"}, "body": "out of order \ufffd", "is_cut": False}
    assert body["response"] == answer
    assert listed == {name: value for name, value in body.items() if name != "response"}
