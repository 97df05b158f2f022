"""Actors over HTTP: who is there, what they may do, and that somebody always stays who can change it."""

import asyncio
from typing import Any

from bpc.core.policies import PERMISSIONS, ROLES
from bpc.runtime import clock
from tests.api.conftest import Api


async def _create_actor(admin: Api, *roles: str, **more: Any) -> dict[str, Any]:
    actor: dict[str, Any] = await admin.post_json(
        "/v1/actors", {"type": "USER", "display_name": "Ada", "roles": list(roles), **more}
    )
    return actor


async def _create_key(admin: Api, actor: dict[str, Any]) -> Api:
    api_key = await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"]})
    return Api(admin.http, api_key["api_key"])


async def _get_own_actor(api: Api) -> str:
    """The actor of an administrator's key."""
    assert api.key is not None
    prefix = api.key.split("_")[1]
    own_actor = await api.get_json("/v1/api-keys", params={"limit": 200})
    return str(next(key["actor_id"] for key in own_actor["items"] if key["key_prefix"] == prefix))


async def _read_events(superuser: Any, actor: str) -> list[tuple[str, Any]]:
    rows = await superuser.fetch(
        "SELECT event_type, payload_canonical FROM events WHERE aggregate_id = $1 ORDER BY aggregate_version", actor
    )
    return [(row["event_type"], row["payload_canonical"].decode()) for row in rows]


async def test_an_actor_is_created_listed_and_found_with_its_roles(admin: Api, superuser: Any) -> None:
    created = await _create_actor(admin, "Auditor", "ComplianceOfficer", "Auditor", email="ada@example.com")

    assert created["roles"] == ["Auditor", "ComplianceOfficer"]
    assert (created["type"], created["display_name"], created["email"], created["is_active"]) == (
        "USER",
        "Ada",
        "ada@example.com",
        True,
    )
    assert await admin.get_json(f"/v1/actors/{created['actor_id']}") == created
    assert (await admin.get_json("/v1/actors"))["items"][0] == created
    assert await _read_events(superuser, created["actor_id"]) == [
        ("ACTOR_CREATED", '{"display_name":"Ada","roles":["Auditor","ComplianceOfficer"],"type":"USER"}')
    ]


async def test_the_list_is_paged_and_every_actor_is_on_one_page(admin: Api) -> None:
    items = [(await _create_actor(admin))["actor_id"] for _ in range(5)]

    first = await admin.get_json("/v1/actors", params={"limit": 3})
    rest = await admin.get_json("/v1/actors", params={"limit": 200, "cursor": first["next_cursor"]})

    assert [item["actor_id"] for item in first["items"] + rest["items"]][:5] == items[::-1]
    assert len(first["items"] + rest["items"]) == 5 + len(ROLES)
    assert rest["next_cursor"] is None


async def test_what_is_left_out_of_a_change_stays_and_null_removes_the_address(admin: Api, superuser: Any) -> None:
    actor = (await _create_actor(admin, email="ada@example.com"))["actor_id"]

    renamed = await admin.send("PATCH", f"/v1/actors/{actor}", {"display_name": "Ada L."})
    removed = await admin.send("PATCH", f"/v1/actors/{actor}", {"email": None})

    assert (renamed.json()["display_name"], renamed.json()["email"]) == ("Ada L.", "ada@example.com")
    assert (removed.json()["display_name"], removed.json()["email"]) == ("Ada L.", None)
    changes = await _read_events(superuser, actor)
    assert changes[1:] == [
        ("ACTOR_CHANGED", '{"display_name":"Ada L.","email_changed":false}'),
        ("ACTOR_CHANGED", '{"email_changed":true}'),
    ]
    assert "example.com" not in str(changes), "what can never be removed from the log does not go into it"


async def test_a_change_that_says_nothing_or_nonsense_is_refused(admin: Api) -> None:
    actor = (await _create_actor(admin))["actor_id"]

    for wrong in ({}, {"display_name": None}, {"display_name": ""}, {"is_active": None}, {"is_active": "no"}, {"x": 1}):
        answer = await admin.send("PATCH", f"/v1/actors/{actor}", wrong)

        assert answer.status_code == 422, wrong


async def test_an_address_belongs_to_one_actor(admin: Api) -> None:
    await _create_actor(admin, email="ada@example.com")

    again = await admin.post(
        "/v1/actors", {"type": "USER", "display_name": "Eve", "roles": [], "email": "ada@example.com"}
    )

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")


async def test_an_unknown_role_is_not_found_and_nothing_is_made(admin: Api) -> None:
    before = await admin.get_json("/v1/actors")

    answer = await admin.post("/v1/actors", {"type": "USER", "display_name": "Eve", "roles": ["Auditor", "King"]})

    assert answer.status_code == 404
    assert "`King`" in answer.json()["error"]["message"]
    assert await admin.get_json("/v1/actors") == before


async def test_roles_are_replaced_and_count_from_the_next_request_on(admin: Api, superuser: Any) -> None:
    actor = await _create_actor(admin, "Auditor")
    ada = await _create_key(admin, actor)
    assert (await ada.get("/v1/documents")).status_code == 403

    changed = await admin.send("PUT", f"/v1/actors/{actor['actor_id']}/roles", {"roles": ["ComplianceOfficer"]})

    assert changed.json()["roles"] == ["ComplianceOfficer"]
    assert (await ada.get("/v1/documents")).status_code == 200
    event_list = await _read_events(superuser, actor["actor_id"])
    assert ("ACTOR_CHANGED", '{"roles":["ComplianceOfficer"]}') in event_list


async def test_a_deactivated_actors_keys_open_nothing_until_it_is_back(admin: Api) -> None:
    actor = await _create_actor(admin, "ComplianceOfficer")
    ada, path = await _create_key(admin, actor), f"/v1/actors/{actor['actor_id']}"

    await admin.send("PATCH", path, {"is_active": False})
    closed = await ada.get("/v1/documents")
    await admin.send("PATCH", path, {"is_active": True})

    assert (closed.status_code, closed.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    assert (await ada.get("/v1/documents")).status_code == 200


async def test_nobody_deactivates_themselves(admin: Api) -> None:
    await _create_actor(admin, "Admin")

    answer = await admin.send("PATCH", f"/v1/actors/{await _get_own_actor(admin)}", {"is_active": False})

    assert answer.status_code == 409
    assert "yourself" in answer.json()["error"]["message"]
    assert (await admin.get("/v1/actors")).status_code == 200


async def test_the_last_administrator_stays_one(admin: Api) -> None:
    me = await _get_own_actor(admin)

    alone = await admin.send("PUT", f"/v1/actors/{me}/roles", {"roles": ["Auditor"]})
    await _create_actor(admin, "Admin")
    handed_over = await admin.send("PUT", f"/v1/actors/{me}/roles", {"roles": ["Auditor"]})

    assert alone.status_code == 409
    assert "no active actor that can administer access" in alone.json()["error"]["message"]
    assert handed_over.status_code == 200
    assert (await admin.get("/v1/actors")).status_code == 403


async def test_an_inactive_administrator_is_none(admin: Api) -> None:
    me, second = await _get_own_actor(admin), await _create_actor(admin, "Admin")
    await admin.send("PATCH", f"/v1/actors/{second['actor_id']}", {"is_active": False})

    answer = await admin.send("PUT", f"/v1/actors/{me}/roles", {"roles": []})

    assert answer.status_code == 409


async def test_two_administrators_who_deactivate_each_other_leave_one(admin: Api) -> None:
    for _ in range(5):
        actor = await _create_actor(admin, "Admin")
        other, me = await _create_key(admin, actor), await _get_own_actor(admin)

        answers = await asyncio.gather(
            admin.send("PUT", f"/v1/actors/{actor['actor_id']}/roles", {"roles": []}),
            other.send("PUT", f"/v1/actors/{me}/roles", {"roles": []}),
        )

        # The second is refused, or, if it had to wait for long, is no administrator any more when its turn comes.
        assert sorted(answer.status_code for answer in answers) in ([200, 409], [200, 403])
        if answers[1].status_code == 200:
            admin = other


async def test_somebody_without_the_right_sees_and_changes_no_actor(officer: Api, auditor: Api) -> None:
    for api in (officer, auditor):
        assert (await api.get("/v1/actors")).status_code == 403
        answer = await api.post("/v1/actors", {"type": "USER", "display_name": "Eve", "roles": ["Admin"]})
        assert answer.status_code == 403


async def test_an_actor_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, other_admin: Api) -> None:
    foreign, unknown = (await _create_actor(admin))["actor_id"], str(clock.new_id())
    named = {"X-Correlation-Id": str(clock.new_id())}

    for method, suffix, body in (
        ("GET", "", None),
        ("PATCH", "", {"is_active": False}),
        ("PUT", "/roles", {"roles": ["Admin"]}),
    ):
        answers = [
            await other_admin.send(method, f"/v1/actors/{actor}{suffix}", body, headers=named)
            for actor in (foreign, unknown)
        ]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text.replace(foreign, unknown) == answers[1].text
    key = await other_admin.post("/v1/api-keys", {"actor_id": foreign})
    assert key.status_code == 404


# Roles over HTTP: names for sets of permissions, of a tenant's own.


async def _create_role(admin: Api, name: str = "Intern", *permissions: str) -> dict[str, Any]:
    answer: dict[str, Any] = await admin.post_json("/v1/roles", {"name": name, "permissions": list(permissions)})
    return answer


async def test_a_role_is_created_listed_and_found(admin: Api, superuser: Any) -> None:
    role = await _create_role(admin, "Intern", "docs:read", "audit:read", "docs:read")

    assert role["permissions"] == ["audit:read", "docs:read"]
    assert await admin.get_json(f"/v1/roles/{role['role_id']}") == role
    assert (await admin.get_json("/v1/roles"))["items"][0] == role
    event_type = await superuser.fetchval(
        "SELECT payload_canonical FROM events WHERE event_type = 'ROLE_CREATED' AND aggregate_id = $1", role["role_id"]
    )
    assert event_type == b'{"name":"Intern","permissions":["audit:read","docs:read"]}'


async def test_a_tenant_starts_with_the_three_of_the_matrix(admin: Api) -> None:
    listed = await admin.get_json("/v1/roles")

    assert {role["name"]: role["permissions"] for role in listed["items"]} == {
        name: sorted(permissions) for name, permissions in ROLES.items()
    }


async def test_the_list_is_paged(admin: Api) -> None:
    role_ids = [(await _create_role(admin, f"Role {number}"))["role_id"] for number in range(3)]

    first = await admin.get_json("/v1/roles", params={"limit": 2})
    rest = await admin.get_json("/v1/roles", params={"cursor": first["next_cursor"]})

    assert [role["role_id"] for role in first["items"] + rest["items"]][:3] == role_ids[::-1]
    assert len(rest["items"]) == 4


async def test_permissions_are_replaced_and_count_from_the_next_request_on(admin: Api, superuser: Any) -> None:
    role = await _create_role(admin, "Intern", "docs:read")
    actor = await admin.post_json("/v1/actors", {"type": "USER", "display_name": "Ada", "roles": ["Intern"]})
    ada = Api(admin.http, (await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"]}))["api_key"])
    assert (await ada.get("/v1/documents")).status_code == 200

    changed = await admin.send("PUT", f"/v1/roles/{role['role_id']}/permissions", {"permissions": ["audit:read"]})

    assert changed.json() == {**role, "permissions": ["audit:read"]}
    assert (await ada.get("/v1/documents")).status_code == 403
    event_type = await superuser.fetchval(
        "SELECT payload_canonical FROM events WHERE event_type = 'ROLE_CHANGED' AND aggregate_id = $1", role["role_id"]
    )
    assert event_type == b'{"permissions":["audit:read"]}'


async def test_the_right_to_administer_cannot_be_taken_from_the_last_who_has_it(admin: Api) -> None:
    roles = (await admin.get_json("/v1/roles"))["items"]
    standard = next(role for role in roles if role["name"] == "Admin")

    answer = await admin.send("PUT", f"/v1/roles/{standard['role_id']}/permissions", {"permissions": ["tenant:admin"]})

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
    assert await admin.get_json(f"/v1/roles/{standard['role_id']}") == standard


async def test_an_unknown_permission_is_refused_by_name(admin: Api) -> None:
    answer = await admin.post("/v1/roles", {"name": "Pilot", "permissions": ["docs:read", "passport:fly"]})

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    assert "passport:fly" in answer.json()["error"]["message"]


async def test_a_name_is_given_once(admin: Api) -> None:
    answer = await admin.post("/v1/roles", {"name": "Auditor", "permissions": []})

    assert answer.status_code == 409
    assert "a role with this name already exists" in answer.json()["error"]["message"]


async def test_all_permissions_are_listed_for_who_may_hand_them_out(admin: Api, officer: Api) -> None:
    assert await admin.get_json("/v1/permissions") == {"items": list(PERMISSIONS)}
    assert (await officer.get("/v1/permissions")).status_code == 403


async def test_a_role_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, other_admin: Api) -> None:
    foreign, unknown = (await _create_role(admin))["role_id"], str(clock.new_id())
    named = {"X-Correlation-Id": unknown}

    for method, suffix, body in (("GET", "", None), ("PUT", "/permissions", {"permissions": list(PERMISSIONS)})):
        answers = [
            await other_admin.send(method, f"/v1/roles/{role}{suffix}", body, headers=named)
            for role in (foreign, unknown)
        ]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text.replace(foreign, unknown) == answers[1].text
