"""Actors over HTTP: who is there, what they may do, and that somebody always stays who can change it."""

import asyncio
from typing import Any

from bpc import fresh
from bpc.core.access import ROLES
from tests.api.conftest import Api


async def _actor(admin: Api, *roles: str, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = await admin.made(
        "/v1/actors", {"type": "USER", "display_name": "Ada", "roles": list(roles), **more}
    )
    return made


async def _key(admin: Api, actor: dict[str, Any]) -> Api:
    made = await admin.made("/v1/api-keys", {"actor_id": actor["actor_id"]})
    return Api(admin.http, made["api_key"])


async def _me(api: Api) -> str:
    """The actor of an administrator's key."""
    assert api.key is not None
    prefix = api.key.split("_")[1]
    found = await api.got("/v1/api-keys", params={"limit": 200})
    return str(next(key["actor_id"] for key in found["items"] if key["key_prefix"] == prefix))


async def _events(superuser: Any, actor: str) -> list[tuple[str, Any]]:
    rows = await superuser.fetch(
        "SELECT event_type, payload_canonical FROM events WHERE aggregate_id = $1 ORDER BY aggregate_version", actor
    )
    return [(row["event_type"], row["payload_canonical"].decode()) for row in rows]


async def test_an_actor_is_created_listed_and_found_with_its_roles(admin: Api, superuser: Any) -> None:
    made = await _actor(admin, "Auditor", "ComplianceOfficer", "Auditor", email="ada@example.com")

    assert made["roles"] == ["Auditor", "ComplianceOfficer"]
    assert (made["type"], made["display_name"], made["email"], made["is_active"]) == (
        "USER",
        "Ada",
        "ada@example.com",
        True,
    )
    assert await admin.got(f"/v1/actors/{made['actor_id']}") == made
    assert (await admin.got("/v1/actors"))["items"][0] == made
    assert await _events(superuser, made["actor_id"]) == [
        ("ACTOR_CREATED", '{"display_name":"Ada","roles":["Auditor","ComplianceOfficer"],"type":"USER"}')
    ]


async def test_the_list_is_paged_and_every_actor_is_on_one_page(admin: Api) -> None:
    made = [(await _actor(admin))["actor_id"] for _ in range(5)]

    first = await admin.got("/v1/actors", params={"limit": 3})
    rest = await admin.got("/v1/actors", params={"limit": 200, "cursor": first["next_cursor"]})

    assert [item["actor_id"] for item in first["items"] + rest["items"]][:5] == made[::-1]
    assert len(first["items"] + rest["items"]) == 5 + len(ROLES)
    assert rest["next_cursor"] is None


async def test_what_is_left_out_of_a_change_stays_and_null_removes_the_address(admin: Api, superuser: Any) -> None:
    actor = (await _actor(admin, email="ada@example.com"))["actor_id"]

    renamed = await admin.send("PATCH", f"/v1/actors/{actor}", {"display_name": "Ada L."})
    removed = await admin.send("PATCH", f"/v1/actors/{actor}", {"email": None})

    assert (renamed.json()["display_name"], renamed.json()["email"]) == ("Ada L.", "ada@example.com")
    assert (removed.json()["display_name"], removed.json()["email"]) == ("Ada L.", None)
    changes = await _events(superuser, actor)
    assert changes[1:] == [
        ("ACTOR_CHANGED", '{"display_name":"Ada L.","email_changed":false}'),
        ("ACTOR_CHANGED", '{"email_changed":true}'),
    ]
    assert "example.com" not in str(changes), "what can never be removed from the log does not go into it"


async def test_a_change_that_says_nothing_or_nonsense_is_refused(admin: Api) -> None:
    actor = (await _actor(admin))["actor_id"]

    for wrong in ({}, {"display_name": None}, {"display_name": ""}, {"is_active": None}, {"is_active": "no"}, {"x": 1}):
        answer = await admin.send("PATCH", f"/v1/actors/{actor}", wrong)

        assert answer.status_code == 422, wrong


async def test_an_address_belongs_to_one_actor(admin: Api) -> None:
    await _actor(admin, email="ada@example.com")

    again = await admin.post(
        "/v1/actors", {"type": "USER", "display_name": "Eve", "roles": [], "email": "ada@example.com"}
    )

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")


async def test_an_unknown_role_is_not_found_and_nothing_is_made(admin: Api) -> None:
    before = await admin.got("/v1/actors")

    answer = await admin.post("/v1/actors", {"type": "USER", "display_name": "Eve", "roles": ["Auditor", "King"]})

    assert answer.status_code == 404
    assert "`King`" in answer.json()["error"]["message"]
    assert await admin.got("/v1/actors") == before


async def test_roles_are_replaced_and_count_from_the_next_request_on(admin: Api, superuser: Any) -> None:
    actor = await _actor(admin, "Auditor")
    ada = await _key(admin, actor)
    assert (await ada.get("/v1/documents")).status_code == 403

    changed = await admin.send("PUT", f"/v1/actors/{actor['actor_id']}/roles", {"roles": ["ComplianceOfficer"]})

    assert changed.json()["roles"] == ["ComplianceOfficer"]
    assert (await ada.get("/v1/documents")).status_code == 200
    found = await _events(superuser, actor["actor_id"])
    assert ("ACTOR_CHANGED", '{"roles":["ComplianceOfficer"]}') in found


async def test_a_deactivated_actors_keys_open_nothing_until_it_is_back(admin: Api) -> None:
    actor = await _actor(admin, "ComplianceOfficer")
    ada, path = await _key(admin, actor), f"/v1/actors/{actor['actor_id']}"

    await admin.send("PATCH", path, {"is_active": False})
    closed = await ada.get("/v1/documents")
    await admin.send("PATCH", path, {"is_active": True})

    assert (closed.status_code, closed.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    assert (await ada.get("/v1/documents")).status_code == 200


async def test_nobody_deactivates_themselves(admin: Api) -> None:
    await _actor(admin, "Admin")

    answer = await admin.send("PATCH", f"/v1/actors/{await _me(admin)}", {"is_active": False})

    assert answer.status_code == 409
    assert "themselves" in answer.json()["error"]["message"]
    assert (await admin.get("/v1/actors")).status_code == 200


async def test_the_last_administrator_stays_one(admin: Api) -> None:
    me = await _me(admin)

    alone = await admin.send("PUT", f"/v1/actors/{me}/roles", {"roles": ["Auditor"]})
    await _actor(admin, "Admin")
    handed_over = await admin.send("PUT", f"/v1/actors/{me}/roles", {"roles": ["Auditor"]})

    assert alone.status_code == 409
    assert "no active actor that can administer access" in alone.json()["error"]["message"]
    assert handed_over.status_code == 200
    assert (await admin.get("/v1/actors")).status_code == 403


async def test_an_inactive_administrator_is_none(admin: Api) -> None:
    me, second = await _me(admin), await _actor(admin, "Admin")
    await admin.send("PATCH", f"/v1/actors/{second['actor_id']}", {"is_active": False})

    answer = await admin.send("PUT", f"/v1/actors/{me}/roles", {"roles": []})

    assert answer.status_code == 409


async def test_two_administrators_who_deactivate_each_other_leave_one(admin: Api) -> None:
    for _ in range(5):
        actor = await _actor(admin, "Admin")
        other, me = await _key(admin, actor), await _me(admin)

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
        made = await api.post("/v1/actors", {"type": "USER", "display_name": "Eve", "roles": ["Admin"]})
        assert made.status_code == 403


async def test_an_actor_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, rival: Api) -> None:
    foreign, unknown = (await _actor(admin))["actor_id"], str(fresh.new_id())
    named = {"X-Correlation-Id": str(fresh.new_id())}

    for method, suffix, body in (
        ("GET", "", None),
        ("PATCH", "", {"is_active": False}),
        ("PUT", "/roles", {"roles": ["Admin"]}),
    ):
        answers = [
            await rival.send(method, f"/v1/actors/{actor}{suffix}", body, headers=named) for actor in (foreign, unknown)
        ]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text.replace(foreign, unknown) == answers[1].text
    key = await rival.post("/v1/api-keys", {"actor_id": foreign})
    assert key.status_code == 404
