"""Four eyes: off by default; switched on, an action waits for another holder of its permission, on record."""

from typing import Any

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.four_eyes import SWITCHABLE_ACTIONS
from bpc.runtime import clock
from bpc.storage.database import Database
from tests.api.conftest import Api, create_key
from tests.api.passport_fixtures import create_passport_inputs, issue_version
from tests.api.route_inventory import ROUTES

SWITCH = "/v1/tenant/four-eyes"


@pytest.fixture
async def second(admin: Api, database: Database, tenant: TenantId, act: Act) -> Api:
    return Api(admin.http, await create_key(database, tenant, "Admin", act))


@pytest.fixture
async def version(admin: Api, database: Database, service: Service, tenant: TenantId, act: Act) -> str:
    inputs = await create_passport_inputs(admin, database, tenant, act)
    return f"/v1/passport-versions/{await issue_version(admin, service, inputs)}"


async def _switch_on(admin: Api, *actions: str) -> None:
    answer = await admin.send("PUT", SWITCH, {"actions": list(actions)})
    assert (answer.status_code, answer.json()) == (200, {"actions": sorted(actions)}), answer.text


async def _ask(api: Api, method: str, path: str, body: Any = None) -> str:
    answer = await api.send(method, path, body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["approval_id"])


async def _read_status(admin: Api, version: str) -> str:
    return str((await admin.get_json(version))["status"])


async def test_it_is_off_until_somebody_switches_it_on(admin: Api, version: str) -> None:
    assert await admin.get_json(SWITCH) == {"actions": []}

    assert (await admin.post(f"{version}/activate")).status_code == 200
    assert (await admin.get_json("/v1/approvals"))["items"] == []


async def test_an_action_waits_for_another_holder_of_its_permission_and_is_done_then(
    admin: Api, second: Api, officer: Api, version: str, superuser: Any
) -> None:
    await _switch_on(admin, "activate", "revoke")

    activation = await _ask(admin, "POST", f"{version}/activate")
    assert await _read_status(admin, version) == "SIGNED"
    own = await admin.post(f"/v1/approvals/{activation}:approve")
    assert (own.status_code, own.json()["error"]["code"]) == (409, "CONFLICT")
    approved = await officer.post_json(f"/v1/approvals/{activation}:approve", status=200)
    assert (approved["answer_status"], await _read_status(admin, version)) == (200, "ACTIVE")
    again = await second.post(f"/v1/approvals/{activation}:approve")
    assert again.status_code == 409

    revocation = await _ask(admin, "POST", f"{version}/revoke", {"reason": "recall"})
    assert (await officer.post(f"/v1/approvals/{revocation}:approve")).status_code == 403  # has no passport:revoke
    assert await _read_status(admin, version) == "ACTIVE"
    rejected = await second.post_json(f"/v1/approvals/{revocation}:reject", {"reason": "no recall"}, status=200)
    assert (rejected["status"], await _read_status(admin, version)) == ("REJECTED", "ACTIVE")
    types = await superuser.fetch(
        "SELECT event_type FROM events WHERE aggregate_type = 'Approval' ORDER BY occurred_at, aggregate_version"
    )
    assert [row["event_type"] for row in types] == [
        "APPROVAL_REQUESTED",
        "APPROVAL_GRANTED",
        "APPROVAL_REQUESTED",
        "APPROVAL_REJECTED",
    ]


async def test_what_cannot_be_done_is_refused_at_once_and_leaves_nothing(
    admin: Api, second: Api, version: str, superuser: Any
) -> None:
    await _switch_on(admin, "activate", "waive", "revoke", "publish")
    before = await superuser.fetchval("SELECT count(*) FROM events")

    unknown = await admin.post(f"/v1/passport-versions/{clock.new_id()}/activate")
    entries = [{"code": "X", "field": "y"}]
    nothing = await admin.post(f"{version}:waive", {"entries": entries, "reason": "z"})
    rules = (await admin.get_json(version))["rule_package_version_id"]
    bulk = await admin.post(
        "/v1/passports:bulk-compile", {"rule_package_version_id": rules, "all": True, "activate": True}
    )

    assert unknown.status_code == 404
    assert 400 <= nothing.status_code < 500, nothing.text
    assert (bulk.status_code, "second person" in bulk.text) == (409, True), bulk.text
    assert await superuser.fetchval("SELECT count(*) FROM events") == before


async def test_nobody_makes_themselves_a_second_person_nor_switches_it_off_alone(
    admin: Api, second: Api, database: Database, tenant: TenantId
) -> None:
    await _switch_on(admin, "revoke")

    actor = {"type": "USER", "display_name": "Straw", "roles": ["Admin"]}
    waiting = [
        await _ask(admin, "POST", "/v1/actors", actor),
        await _ask(admin, "POST", "/v1/roles", {"name": "Straw", "permissions": ["passport:revoke"]}),
        await _ask(admin, "PUT", SWITCH, {"actions": []}),
    ]
    actors = (await admin.get_json("/v1/actors"))["items"]
    waiting.append(await _ask(admin, "POST", "/v1/api-keys", {"actor_id": actors[0]["actor_id"]}))

    assert len((await admin.get_json("/v1/actors"))["items"]) == len(actors)
    assert await admin.get_json(SWITCH) == {"actions": ["revoke"]}
    answers = [await second.post_json(f"/v1/approvals/{each}:approve", status=200) for each in waiting]
    assert [answer["answer_status"] for answer in answers] == [201, 201, 200, 201]
    assert answers[3]["answer"]["api_key"].startswith("bpc_")
    assert await admin.get_json(SWITCH) == {"actions": []}


async def test_a_signing_key_that_waits_is_not_made_before_somebody_confirms(
    admin: Api, second: Api, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_ids: list[str] = []
    create_key = type(service.key_ring).create_key

    async def note_key(ring: Any, key_id: str, tenant: str) -> Any:
        key_ids.append(key_id)
        return await create_key(ring, key_id, tenant)

    monkeypatch.setattr(type(service.key_ring), "create_key", note_key)
    await _switch_on(admin, "key_changes")

    approval = await _ask(admin, "POST", "/v1/signing-keys", {})
    assert key_ids == []
    approved = await second.post_json(f"/v1/approvals/{approval}:approve", status=200)

    assert [approved["answer"]["key_id"]] == key_ids


async def test_switching_it_on_needs_two_who_can_confirm(admin: Api) -> None:
    answer = await admin.send("PUT", SWITCH, {"actions": ["revoke"]})

    assert (answer.status_code, answer.json()["error"]["details"]["permission"]) == (409, "access:admin")


async def test_a_requester_who_lost_the_permission_asks_in_vain(
    admin: Api, second: Api, version: str, superuser: Any
) -> None:
    await _switch_on(admin, "revoke")
    approval = await _ask(admin, "POST", f"{version}/revoke", {"reason": "recall"})
    prefix = (admin.key or "").split("_")[1]
    await superuser.execute(
        "DELETE FROM actor_roles WHERE actor_id = (SELECT actor_id FROM api_keys WHERE key_prefix = $1)", prefix
    )

    answer = await second.post(f"/v1/approvals/{approval}:approve")

    assert (answer.status_code, await _read_status(second, version)) == (409, "SIGNED")


async def test_nobody_switches_the_gate_off_alone(admin: Api, second: Api) -> None:
    settings = "/v1/tenant/settings"
    assert (await admin.send("PUT", settings, {"activation_blocked_by": "FAIL"})).status_code == 200
    await _switch_on(admin, "waive")

    change = await _ask(admin, "PUT", settings, {"activation_blocked_by": "NOTHING"})

    assert (await admin.get_json(settings))["activation_blocked_by"] == "FAIL"
    await second.post_json(f"/v1/approvals/{change}:approve", status=200)
    assert (await admin.get_json(settings))["activation_blocked_by"] == "NOTHING"


@pytest.mark.parametrize("about_requester", [True, False])
async def test_what_a_policy_denies_since_to_either_person_is_not_done(
    admin: Api, second: Api, version: str, superuser: Any, about_requester: bool
) -> None:
    await _switch_on(admin, "revoke")
    approval = await _ask(admin, "POST", f"{version}/revoke", {"reason": "recall"})
    prefix = (admin.key or "").split("_")[1]
    requester = await superuser.fetchval("SELECT actor_id FROM api_keys WHERE key_prefix = $1", prefix)
    conditions: dict[str, Any] = {"resource": {"type": "PassportVersion", "ids": [version.rsplit("/", 1)[1]]}}
    if about_requester:
        conditions["actor_ids"] = [str(requester)]
    denial = {"name": "no recall", "effect": "DENY", "target": "passport:revoke", "policy_json": conditions}
    policy = await _ask(second, "POST", "/v1/policies", denial)
    await admin.post_json(f"/v1/approvals/{policy}:approve", status=200)

    answer = await second.post(f"/v1/approvals/{approval}:approve")

    expected_code = 409 if about_requester else 403
    assert (answer.status_code, await _read_status(second, version)) == (expected_code, "SIGNED")


async def test_all_actions_can_be_switched_on(admin: Api, second: Api) -> None:
    await _switch_on(admin, *SWITCHABLE_ACTIONS)


def test_the_routes_that_wait_are_these() -> None:
    assert {route.name: route.four_eyes for route in ROUTES if route.four_eyes} == {
        "POST /v1/rule-package-versions/{rule_package_version_id}:publish": "publish",
        "POST /v1/passport-versions/{passport_version_id}/activate": "activate",
        "POST /v1/passport-versions/{passport_version_id}:waive": "waive",
        "POST /v1/passport-versions/{passport_version_id}/revoke": "revoke",
        "POST /v1/transfers": "transfer",
        "POST /v1/transfers/{transfer_id}:accept": "transfer",
        "POST /v1/actors": "role_grants",
        "PATCH /v1/actors/{actor_id}": "role_grants",
        "PUT /v1/actors/{actor_id}/roles": "role_grants",
        "POST /v1/roles": "role_grants",
        "PUT /v1/roles/{role_id}/permissions": "role_grants",
        "POST /v1/policies": "role_grants",
        "POST /v1/policies/{policy_id}/versions": "role_grants",
        "POST /v1/policies/{policy_id}:deactivate": "role_grants",
        "POST /v1/view-grants": "role_grants",
        "POST /v1/view-requests/{view_request_id}:approve": "role_grants",
        "POST /v1/api-keys": "key_changes",
        "POST /v1/api-keys/{api_key_id}:rotate": "key_changes",
        "POST /v1/signing-keys": "key_changes",
        "POST /v1/signing-keys/{key_id}:report-compromise": "key_changes",
        "POST /v1/signing-keys/{key_id}:retire": "key_changes",
        "PUT /v1/tenant/branding": "settings",
        "PUT /v1/tenant/four-eyes": "settings",
        "PUT /v1/tenant/settings": "settings",
    }
