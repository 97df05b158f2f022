"""Roles over HTTP: names for sets of permissions, of a tenant's own."""

from typing import Any

from bpc import fresh
from bpc.core.access import PERMISSIONS, ROLES
from tests.api.conftest import Api


async def _role(admin: Api, name: str = "Intern", *permissions: str) -> dict[str, Any]:
    made: dict[str, Any] = await admin.made("/v1/roles", {"name": name, "permissions": list(permissions)})
    return made


async def test_a_role_is_created_listed_and_found(admin: Api, superuser: Any) -> None:
    made = await _role(admin, "Intern", "docs:read", "audit:read", "docs:read")

    assert made["permissions"] == ["audit:read", "docs:read"]
    assert await admin.got(f"/v1/roles/{made['role_id']}") == made
    assert (await admin.got("/v1/roles"))["items"][0] == made
    said = await superuser.fetchval(
        "SELECT payload_canonical FROM events WHERE event_type = 'ROLE_CREATED' AND aggregate_id = $1", made["role_id"]
    )
    assert said == b'{"name":"Intern","permissions":["audit:read","docs:read"]}'


async def test_a_tenant_starts_with_the_three_of_the_matrix(admin: Api) -> None:
    listed = await admin.got("/v1/roles")

    assert {role["name"]: role["permissions"] for role in listed["items"]} == {
        name: sorted(permissions) for name, permissions in ROLES.items()
    }


async def test_the_list_is_paged(admin: Api) -> None:
    made = [(await _role(admin, f"Role {number}"))["role_id"] for number in range(3)]

    first = await admin.got("/v1/roles", params={"limit": 2})
    rest = await admin.got("/v1/roles", params={"cursor": first["next_cursor"]})

    assert [role["role_id"] for role in first["items"] + rest["items"]][:3] == made[::-1]
    assert len(rest["items"]) == 4


async def test_permissions_are_replaced_and_count_from_the_next_request_on(admin: Api, superuser: Any) -> None:
    role = await _role(admin, "Intern", "docs:read")
    actor = await admin.made("/v1/actors", {"type": "USER", "display_name": "Ada", "roles": ["Intern"]})
    ada = Api(admin.http, (await admin.made("/v1/api-keys", {"actor_id": actor["actor_id"]}))["api_key"])
    assert (await ada.get("/v1/documents")).status_code == 200

    changed = await admin.send("PUT", f"/v1/roles/{role['role_id']}/permissions", {"permissions": ["audit:read"]})

    assert changed.json() == {**role, "permissions": ["audit:read"]}
    assert (await ada.get("/v1/documents")).status_code == 403
    said = await superuser.fetchval(
        "SELECT payload_canonical FROM events WHERE event_type = 'ROLE_CHANGED' AND aggregate_id = $1", role["role_id"]
    )
    assert said == b'{"permissions":["audit:read"]}'


async def test_the_right_to_administer_cannot_be_taken_from_the_last_who_has_it(admin: Api) -> None:
    roles = (await admin.got("/v1/roles"))["items"]
    standard = next(role for role in roles if role["name"] == "Admin")

    answer = await admin.send("PUT", f"/v1/roles/{standard['role_id']}/permissions", {"permissions": ["tenant:admin"]})

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
    assert await admin.got(f"/v1/roles/{standard['role_id']}") == standard


async def test_an_unknown_permission_is_refused_by_name(admin: Api) -> None:
    answer = await admin.post("/v1/roles", {"name": "Pilot", "permissions": ["docs:read", "passport:fly"]})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert "passport:fly" in answer.json()["error"]["message"]


async def test_a_name_is_given_once(admin: Api) -> None:
    answer = await admin.post("/v1/roles", {"name": "Auditor", "permissions": []})

    assert answer.status_code == 409
    assert "a role with this name exists already" in answer.json()["error"]["message"]


async def test_all_permissions_are_listed_for_who_may_hand_them_out(admin: Api, officer: Api) -> None:
    assert await admin.got("/v1/permissions") == {"items": list(PERMISSIONS)}
    assert (await officer.get("/v1/permissions")).status_code == 403


async def test_a_role_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, rival: Api) -> None:
    foreign, unknown = (await _role(admin))["role_id"], str(fresh.new_id())
    named = {"X-Correlation-Id": unknown}

    for method, suffix, body in (("GET", "", None), ("PUT", "/permissions", {"permissions": list(PERMISSIONS)})):
        answers = [
            await rival.send(method, f"/v1/roles/{role}{suffix}", body, headers=named) for role in (foreign, unknown)
        ]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text.replace(foreign, unknown) == answers[1].text
