"""Nobody hands out what they do not have: every administrative route, every permission, with it and without it.

The routes are the application's own: one that is added later must be named here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from bpc.core.policies import PERMISSIONS
from bpc.runtime import clock
from tests.api.conftest import Api
from tests.api.route_inventory import ROUTES

ADMIN = "access:admin"
# Every write that needs `access:admin`, and how it hands out rights; None: it only takes rights away.
ADMINISTRATIVE = {
    "POST /v1/actors": "create an actor with a role",
    "PATCH /v1/actors/{actor_id}": "reactivate an actor",
    "PUT /v1/actors/{actor_id}/roles": "give an actor a role",
    "POST /v1/roles": "create a role",
    "PUT /v1/roles/{role_id}/permissions": "add to a role",
    "POST /v1/api-keys": "create a key of an actor",
    "POST /v1/api-keys/{api_key_id}:rotate": "rotate the key of an actor",
    "POST /v1/api-keys/{api_key_id}:revoke": None,
    "POST /v1/policies": "allow by a policy",
    "POST /v1/policies/{policy_id}/versions": "allow by a version of a policy",
    "POST /v1/policies/{policy_id}:deactivate": None,
    # They hand out views and no permissions.
    "POST /v1/view-grants": None,
    "POST /v1/view-grants/{view_grant_id}:revoke": None,
    "POST /v1/view-requests/{view_request_id}:approve": None,
    "POST /v1/view-requests/{view_request_id}:reject": None,
    "POST /v1/view-requests/{view_request_id}:remove-words": None,
}


@dataclass(frozen=True, slots=True)
class Attempt:
    method: str
    path: str
    body: Mapping[str, Any]


class Stage:
    """Things that have one permission, made by somebody who has all."""

    def __init__(self, admin: Api) -> None:
        self.admin = admin

    async def create_role(self, permissions: list[str]) -> dict[str, Any]:
        role: dict[str, Any] = await self.admin.post_json(
            "/v1/roles", {"name": f"role {clock.new_id()}", "permissions": permissions}
        )
        return role

    async def create_actor(self, *roles: str) -> str:
        body = {"type": "USER", "display_name": "Ada", "roles": list(roles)}
        return str((await self.admin.post_json("/v1/actors", body))["actor_id"])

    async def create_caller(self, permissions: list[str]) -> Api:
        actor = await self.create_actor((await self.create_role(permissions))["name"])
        key = await self.admin.post_json("/v1/api-keys", {"actor_id": actor})
        return Api(self.admin.http, key["api_key"])

    async def list_attempts(self, permission: str) -> dict[str, Attempt]:
        role = await self.create_role([permission])
        holder, idle, other = await self.create_actor(role["name"]), await self.create_actor(role["name"]), ""
        other = await self.create_actor()
        empty_role = await self.create_role([])
        key = await self.admin.post_json("/v1/api-keys", {"actor_id": holder})
        await self.admin.send("PATCH", f"/v1/actors/{idle}", {"is_active": False})
        allow = {"effect": "ALLOW", "target": permission, "policy_json": {"actor_ids": [other]}}
        policy = await self.admin.post_json("/v1/policies", _name({"effect": "DENY", "target": permission, **_never()}))
        return {
            "create an actor with a role": Attempt(
                "POST", "/v1/actors", {"type": "USER", "display_name": "New", "roles": [role["name"]]}
            ),
            "reactivate an actor": Attempt("PATCH", f"/v1/actors/{idle}", {"is_active": True}),
            "give an actor a role": Attempt("PUT", f"/v1/actors/{other}/roles", {"roles": [role["name"]]}),
            "create a role": Attempt("POST", "/v1/roles", {"name": str(clock.new_id()), "permissions": [permission]}),
            "add to a role": Attempt(
                "PUT", f"/v1/roles/{empty_role['role_id']}/permissions", {"permissions": [permission]}
            ),
            "create a key of an actor": Attempt("POST", "/v1/api-keys", {"actor_id": holder}),
            "rotate the key of an actor": Attempt("POST", f"/v1/api-keys/{key['api_key_id']}:rotate", {}),
            "allow by a policy": Attempt("POST", "/v1/policies", _name(allow)),
            "allow by a version of a policy": Attempt("POST", f"/v1/policies/{policy['policy_id']}/versions", allow),
        }


def _name(policy: dict[str, Any]) -> dict[str, Any]:
    return {"name": str(clock.new_id()), **policy}


def _never() -> dict[str, Any]:
    """A condition that is about nobody."""
    return {"policy_json": {"actor_ids": [str(clock.new_id())]}}


async def _send(caller: Api, attempt: Attempt) -> httpx2.Response:
    return await caller.send(attempt.method, attempt.path, dict(attempt.body))


RIGHTS = """
    SELECT (SELECT count(*) FROM actors WHERE is_active), (SELECT count(*) FROM actor_roles),
           (SELECT count(*) FROM role_permissions), (SELECT count(*) FROM api_keys),
           (SELECT count(*) FROM policy_versions)
"""


def test_every_administrative_route_is_tried_below() -> None:
    writes = {route.name for route in ROUTES if route.permission == ADMIN and route.kind == "write"}

    assert writes == set(ADMINISTRATIVE)


@pytest.mark.parametrize("permission", [permission for permission in PERMISSIONS if permission != ADMIN])
async def test_a_permission_is_handed_out_by_those_who_have_it_and_by_nobody_else(
    admin: Api, superuser: Any, permission: str
) -> None:
    stage = Stage(admin)
    attempts = await stage.list_attempts(permission)
    assert set(attempts) == {name for name in ADMINISTRATIVE.values() if name is not None}
    without = await stage.create_caller([each for each in PERMISSIONS if each != permission])
    holder = await stage.create_caller([ADMIN, permission])
    before = await superuser.fetchrow(RIGHTS)

    refused = {name: await _send(without, attempt) for name, attempt in attempts.items()}
    after = await superuser.fetchrow(RIGHTS)
    allowed = {name: await _send(holder, attempt) for name, attempt in attempts.items()}

    assert {name: answer.status_code for name, answer in refused.items()} == dict.fromkeys(attempts, 403)
    for name, answer in refused.items():
        assert answer.json()["error"]["details"]["permissions"] == [permission], name
    assert after == before
    assert {name: answer.status_code for name, answer in allowed.items() if answer.status_code >= 300} == {}


async def test_nobody_gives_themselves_a_role_with_more(admin: Api, superuser: Any) -> None:
    stage = Stage(admin)
    caller = await stage.create_caller([ADMIN])
    me = await superuser.fetchval(
        "SELECT actor_id FROM api_keys WHERE key_prefix = $1", (caller.key or "").split("_")[1]
    )

    for roles in (["Admin"], ["ComplianceOfficer"], ["Auditor"]):
        answer = await caller.send("PUT", f"/v1/actors/{me}/roles", {"roles": roles})
        assert answer.status_code == 403, answer.text
    assert (await caller.post("/v1/api-keys", {"actor_id": str(me)})).status_code == 201  # a key of one's own


async def test_what_a_policy_allows_an_actor_is_not_taken_by_way_of_its_key(admin: Api) -> None:
    stage = Stage(admin)
    caller, favoured = await stage.create_caller([ADMIN]), await stage.create_actor()
    await admin.post_json(
        "/v1/policies", _name({"effect": "ALLOW", "target": "docs:*", "policy_json": {"actor_ids": [favoured]}})
    )

    answer = await caller.post("/v1/api-keys", {"actor_id": favoured})

    assert (answer.status_code, answer.json()["error"]["details"]["permissions"]) == (403, ["docs:upload", "docs:read"])


async def test_what_a_policy_denies_the_granter_is_not_handed_out_to_somebody_it_does_not_deny(
    admin: Api, superuser: Any
) -> None:
    stage = Stage(admin)
    caller = await stage.create_caller(list(PERMISSIONS))
    me = str(
        await superuser.fetchval(
            "SELECT actor_id FROM api_keys WHERE key_prefix = $1", (caller.key or "").split("_")[1]
        )
    )
    policy = await admin.post_json(
        "/v1/policies", _name({"effect": "DENY", "target": "docs:read", "policy_json": {"actor_ids": [me]}})
    )
    version = {"effect": "DENY", "target": "docs:upload", "policy_json": {"actor_ids": [me]}}
    attempts = [
        Attempt("POST", "/v1/actors", {"type": "USER", "display_name": "Straw", "roles": ["ComplianceOfficer"]}),
        Attempt("POST", "/v1/roles", {"name": "readers", "permissions": ["docs:read"]}),
        Attempt("POST", "/v1/policies", _name({"effect": "ALLOW", "target": "docs:read", "priority": 1})),
        Attempt("POST", f"/v1/policies/{policy['policy_id']}:deactivate", {}),
        Attempt("POST", f"/v1/policies/{policy['policy_id']}/versions", version),
    ]

    for attempt in attempts:
        answer = await _send(caller, attempt)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), (attempt, answer.text)
    assert (await admin.post(f"/v1/policies/{policy['policy_id']}:deactivate")).status_code == 200


async def test_a_role_that_keeps_a_denial_in_force_is_not_dropped_by_who_is_denied(admin: Api, superuser: Any) -> None:
    stage = Stage(admin)
    bound, powerful = await stage.create_role([]), await stage.create_role(list(PERMISSIONS))
    actor = await stage.create_actor(bound["name"], powerful["name"])
    caller = Api(admin.http, (await admin.post_json("/v1/api-keys", {"actor_id": actor}))["api_key"])
    condition = {"policy_json": {"roles": [bound["name"]]}}
    await admin.post_json("/v1/policies", _name({"effect": "DENY", "target": "passport:revoke", **condition}))

    answer = await caller.send("PUT", f"/v1/actors/{actor}/roles", {"roles": [powerful["name"]]})

    assert (answer.status_code, answer.json()["error"]["details"]["permissions"]) == (403, ["passport:revoke"])


async def test_a_denial_of_all_administrators_can_be_lifted_by_each(admin: Api) -> None:
    policy = await admin.post_json("/v1/policies", _name({"effect": "DENY", "target": "docs:*"}))

    answer = await admin.post(f"/v1/policies/{policy['policy_id']}:deactivate")

    assert answer.status_code == 200


@pytest.mark.parametrize("type_", ["Actor", "Role", "ApiKey"])
async def test_a_policy_reaches_what_a_path_or_a_body_names(admin: Api, superuser: Any, type_: str) -> None:
    stage = Stage(admin)
    role = await stage.create_role(["docs:read"])
    actor, other = await stage.create_actor(role["name"]), await stage.create_actor()
    key = await admin.post_json("/v1/api-keys", {"actor_id": actor})
    ids = {"Actor": actor, "Role": role["role_id"], "ApiKey": key["api_key_id"]}
    caller = await stage.create_caller(list(PERMISSIONS))
    me = await superuser.fetchval(
        "SELECT actor_id FROM api_keys WHERE key_prefix = $1", (caller.key or "").split("_")[1]
    )
    condition = {"actor_ids": [str(me)], "resource": {"type": type_, "ids": [ids[type_]]}}
    await admin.post_json("/v1/policies", _name({"effect": "DENY", "target": ADMIN, "policy_json": condition}))
    about = {"effect": "DENY", "target": "docs:read"}
    reached = {
        "Actor": [
            Attempt("PATCH", f"/v1/actors/{actor}", {"display_name": "Eve"}),
            Attempt("PUT", f"/v1/actors/{actor}/roles", {"roles": []}),
            Attempt("POST", "/v1/api-keys", {"actor_id": actor}),
            Attempt("POST", f"/v1/api-keys/{key['api_key_id']}:rotate", {}),
            Attempt("POST", f"/v1/api-keys/{key['api_key_id']}:revoke", {}),
            Attempt("POST", "/v1/policies", _name({**about, "policy_json": {"actor_ids": [actor]}})),
        ],
        "Role": [
            Attempt("PUT", f"/v1/roles/{role['role_id']}/permissions", {"permissions": []}),
            Attempt("PUT", f"/v1/actors/{other}/roles", {"roles": [role["name"]]}),
            Attempt("PUT", f"/v1/actors/{actor}/roles", {"roles": []}),
            Attempt("POST", "/v1/actors", {"type": "USER", "display_name": "Eve", "roles": [role["name"]]}),
            Attempt("POST", "/v1/policies", _name({**about, "policy_json": {"roles": [role["name"]]}})),
        ],
        "ApiKey": [
            Attempt("POST", f"/v1/api-keys/{key['api_key_id']}:rotate", {}),
            Attempt("POST", f"/v1/api-keys/{key['api_key_id']}:revoke", {}),
            Attempt(
                "POST",
                "/v1/policies",
                _name({**about, "policy_json": {"resource": {"type": "ApiKey", "ids": [key["api_key_id"]]}}}),
            ),
        ],
    }

    for attempt in reached[type_]:
        answer = await _send(caller, attempt)
        assert (answer.status_code, answer.json()["error"]["details"].get("policy_version")) == (403, 1), answer.text
