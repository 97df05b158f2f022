"""What a body names may be denied like what a path names, and needs no grant of its own."""

from typing import Any

import httpx2
import orjson
import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.evidence_fixtures import create_facts
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, request_version


async def _create_policy(
    admin: Api, effect: str, target: str, *, about: dict[str, Any] | None = None, priority: int = 100
) -> None:
    conditions = {} if about is None else {"resource": about}
    body = {"effect": effect, "target": target, "priority": priority, "policy_json": conditions}
    await admin.post_json("/v1/policies", {"name": f"{effect} {target} {clock.new_id()}", **body})


async def _create_product(admin: Api, sku: str) -> str:
    return str((await admin.post_json("/v1/battery-products", {"sku": sku, "name": "Cell"}))["battery_product_id"])


def _is_denied(answer: httpx2.Response) -> bool:
    assert answer.status_code in {200, 201, 202, 403}, answer.text
    return answer.status_code == 403


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


async def test_no_passport_is_created_for_a_sku_that_a_policy_denies(admin: Api, officer: Api, superuser: Any) -> None:
    denied, other = await _create_product(admin, "SKU-91"), await _create_product(admin, "SKU-8")
    await _create_policy(admin, "DENY", "passport:*", about={"type": "Passport", "sku": "SKU-9*"})

    answers = [await officer.post("/v1/passports", {"battery_product_id": product}) for product in (denied, other)]

    assert [answer.status_code for answer in answers] == [403, 201]
    assert answers[0].json()["error"]["details"]["permission"] == "passport:compile"
    assert await superuser.fetchval("SELECT count(*) FROM passports") == 1
    [rows] = await superuser.fetch("SELECT payload_canonical FROM events WHERE event_type = 'ACCESS_DENIED'")
    on_record = orjson.loads(rows["payload_canonical"])
    assert (on_record["route"], on_record["reason"]) == ("/v1/passports", "a policy denies `passport:*`")


@pytest.mark.parametrize("target", ["passport:compile", "passport:read"])
async def test_no_passport_is_created_for_a_product_that_a_policy_denies(admin: Api, officer: Api, target: str) -> None:
    product = await _create_product(admin, "SKU-1")
    await _create_policy(admin, "DENY", target, about={"type": "BatteryProduct", "ids": [product]})

    assert _is_denied(await officer.post("/v1/passports", {"battery_product_id": product}))


async def test_a_product_that_does_not_exist_is_not_found_whatever_policies_say(admin: Api, officer: Api) -> None:
    await _create_policy(admin, "DENY", "passport:*", about={"type": "Passport", "sku": "SKU-9*"})

    answer = await officer.post("/v1/passports", {"battery_product_id": str(clock.new_id())})

    assert answer.status_code == 404


async def test_no_product_is_created_with_a_sku_that_a_policy_denies(admin: Api) -> None:
    await _create_policy(admin, "DENY", "tenant:admin", about={"type": "BatteryProduct", "sku": "SKU-9*"})

    assert _is_denied(await admin.post("/v1/battery-products", {"sku": "SKU-91", "name": "Cell"}))
    assert not _is_denied(await admin.post("/v1/battery-products", {"sku": "SKU-8", "name": "Cell"}))


@pytest.mark.parametrize(
    ("target", "kind", "member"),
    [
        ("passport:compile", "DataSnapshot", "snapshot_id"),
        ("snapshot:build", "DataSnapshot", "snapshot_id"),
        ("passport:*", "RulePackageVersion", "rule_package_version_id"),
        ("rules:read", "RulePackageVersion", "rule_package_version_id"),
    ],
)
async def test_nothing_is_compiled_of_what_a_policy_denies(
    admin: Api, officer: Api, inputs: PassportInputs, target: str, kind: str, member: str
) -> None:
    path = f"/v1/passports/{inputs.passport}/compile"
    assert not _is_denied(await officer.post(path, inputs.body))

    await _create_policy(admin, "DENY", target, about={"type": kind, "ids": [inputs.body[member]]})

    assert _is_denied(await officer.post(path, inputs.body))
    another = await officer.post(path, {**inputs.body, member: str(clock.new_id())})
    assert another.status_code == 404


async def test_an_allow_that_is_tried_before_counts(admin: Api, officer: Api, inputs: PassportInputs) -> None:
    about = {"type": "DataSnapshot", "ids": [inputs.body["snapshot_id"]]}
    await _create_policy(admin, "ALLOW", "*", about=about, priority=1)
    await _create_policy(admin, "DENY", "*", about=about, priority=2)

    await request_version(officer, inputs)


async def test_a_deny_that_is_about_no_thing_is_about_routes_and_hides_none_that_is(
    admin: Api, officer: Api, inputs: PassportInputs
) -> None:
    await _create_policy(admin, "DENY", "rules:*", priority=1)
    await request_version(officer, inputs)

    about = {"type": "RulePackageVersion", "ids": [inputs.body["rule_package_version_id"]]}
    await _create_policy(admin, "DENY", "rules:read", about=about, priority=2)

    assert _is_denied(await officer.post(f"/v1/passports/{inputs.passport}/compile", inputs.body))


async def test_what_a_body_names_needs_no_grant_of_its_own(admin: Api, auditor: Api, inputs: PassportInputs) -> None:
    await _create_policy(
        admin, "ALLOW", "passport:compile", about={"type": "Passport", "ids": [inputs.passport]}, priority=1
    )
    await _create_policy(admin, "DENY", "passport:compile", priority=2)
    await _create_policy(admin, "DENY", "docs:read", about={"type": "Document"})

    await request_version(auditor, inputs)


@pytest.mark.parametrize("target", ["docs:read", "snapshot:build"])
async def test_a_fact_that_a_policy_denies_comes_into_no_snapshot(
    admin: Api, service: Service, superuser: Any, target: str
) -> None:
    facts = await create_facts(admin, service, [{"sku": "A"}, {"sku": "B"}], kind="PCF")
    snapshot = (await admin.post_json("/v1/snapshots", {}))["snapshot_id"]
    await _create_policy(admin, "DENY", target, about={"type": "Fact", "ids": [facts[1]]})

    path = f"/v1/snapshots/{snapshot}/items"
    assert _is_denied(await admin.post(path, {"fact_ids": facts}))
    assert _is_denied(await admin.post(path, {"fact_id": facts[1]}))
    assert await superuser.fetchval("SELECT count(*) FROM snapshot_items") == 0
    assert not _is_denied(await admin.post(path, {"fact_id": facts[0]}))


async def test_nobody_subscribes_an_endpoint_that_a_policy_denies(admin: Api) -> None:
    endpoints = [await admin.post_json("/v1/webhook-endpoints", {"url": "https://example.com/hooks"}) for _ in range(2)]
    denied, other = (each["webhook_endpoint_id"] for each in endpoints)
    await _create_policy(admin, "DENY", "tenant:admin", about={"type": "WebhookEndpoint", "ids": [denied]})

    answers = [
        await admin.post(
            "/v1/webhook-subscriptions", {"webhook_endpoint_id": endpoint, "event_type": "passport.version.active"}
        )
        for endpoint in (denied, other)
    ]

    assert [_is_denied(answer) for answer in answers] == [True, False]


async def test_nobody_asks_about_an_actor_that_a_policy_denies(admin: Api, superuser: Any) -> None:
    actor = str(await superuser.fetchval("SELECT actor_id FROM actors WHERE display_name = 'Auditor'"))
    body = {"actor_id": actor, "permission": "docs:read"}
    assert not _is_denied(await admin.post("/v1/policies:dry-run", body))

    await _create_policy(admin, "DENY", "access:admin", about={"type": "Actor", "ids": [actor]})

    assert _is_denied(await admin.post("/v1/policies:dry-run", body))
