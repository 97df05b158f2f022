"""API keys over HTTP: shown once, two at a time, ended for good."""

from datetime import timedelta
from typing import Any

from bpc import fresh
from bpc.core.timestamps import format_time
from tests.api.conftest import Api


async def _actor(admin: Api, role: str = "ComplianceOfficer") -> str:
    made = await admin.made("/v1/actors", {"type": "API_CLIENT", "display_name": "Robot", "roles": [role]})
    return str(made["actor_id"])


async def _key(admin: Api, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = await admin.made("/v1/api-keys", {"actor_id": await _actor(admin), **more})
    return made


async def _opens(admin: Api, key: str) -> int:
    return (await Api(admin.http, key).get("/v1/documents")).status_code


def _later(**how: float) -> str:
    return format_time(fresh.now() + timedelta(**how))


async def _said(superuser: Any, key: str) -> list[tuple[str, str]]:
    rows = await superuser.fetch(
        "SELECT event_type, payload_canonical FROM events WHERE aggregate_id = $1 ORDER BY aggregate_version", key
    )
    return [(row["event_type"], row["payload_canonical"].decode()) for row in rows]


async def test_a_key_is_shown_once_and_opens_what_its_actor_may(admin: Api) -> None:
    made = await _key(admin, label="ci", expires_at=_later(days=1))

    listed = await admin.got("/v1/api-keys")
    found = await admin.got(f"/v1/api-keys/{made['api_key_id']}")

    assert await _opens(admin, made["api_key"]) == 200
    assert listed["items"][0] == found
    assert (found["label"], found["expires_at"], found["roles"], found["display_name"], found["revoked_at"]) == (
        "ci",
        made["expires_at"],
        ["ComplianceOfficer"],
        "Robot",
        None,
    )
    secret = made["api_key"].rsplit("_", 1)[1]
    assert secret not in str(listed)
    assert "hash" not in str(listed)


async def test_sending_it_again_makes_no_second_key_and_shows_no_secret(admin: Api) -> None:
    body = {"actor_id": await _actor(admin)}
    made = (await admin.post("/v1/api-keys", body, idempotency_key="once")).json()

    again = await admin.post("/v1/api-keys", body, idempotency_key="once")

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert again.json()["error"]["details"] == {"id": made["api_key_id"]}
    assert made["api_key"] not in again.text
    keys = [key["actor_id"] for key in (await admin.got("/v1/api-keys"))["items"]]
    assert keys.count(body["actor_id"]) == 1


async def test_a_revoked_key_is_refused_by_name_from_the_next_request_on(admin: Api, superuser: Any) -> None:
    made = await _key(admin)
    path = f"/v1/api-keys/{made['api_key_id']}"

    revoked = await admin.post(f"{path}:revoke")

    assert revoked.status_code == 200
    assert revoked.json()["revoked_at"] is not None
    answer = await Api(admin.http, made["api_key"]).get("/v1/documents")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "API_KEY_REVOKED")
    again = await admin.post(f"{path}:revoke")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert await admin.got(path) == revoked.json(), "the first revocation counts"
    assert [event for event, _ in await _said(superuser, made["api_key_id"])] == ["API_KEY_CREATED", "API_KEY_REVOKED"]


async def test_rotating_makes_a_second_valid_key(admin: Api, superuser: Any) -> None:
    old = await _key(admin, label="ci")

    new = await admin.made(f"/v1/api-keys/{old['api_key_id']}:rotate", {})

    assert (new["actor_id"], new["label"]) == (old["actor_id"], "ci")
    assert [await _opens(admin, key["api_key"]) for key in (old, new)] == [200, 200]
    await admin.made(f"/v1/api-keys/{old['api_key_id']}:revoke", status=200)
    assert [await _opens(admin, key["api_key"]) for key in (old, new)] == [401, 200]
    assert (await _said(superuser, old["api_key_id"]))[1] == (
        "API_KEY_CHANGED",
        f'{{"expires_at":null,"rotated_to":"{new["api_key_id"]}"}}',
    )
    assert [event for event, _ in await _said(superuser, new["api_key_id"])] == ["API_KEY_CREATED"]


async def test_rotating_may_say_when_the_old_key_ends_but_never_makes_it_live_longer(admin: Api) -> None:
    old, short = await _key(admin), await _key(admin, expires_at=_later(minutes=5))
    tomorrow, next_year = _later(days=1), _later(days=365)

    for key in (old, short):
        path = f"/v1/api-keys/{key['api_key_id']}"
        await admin.made(f"{path}:rotate", {"old_expires_at": tomorrow, "expires_at": next_year})

    assert (await admin.got(f"/v1/api-keys/{old['api_key_id']}"))["expires_at"] == tomorrow
    assert (await admin.got(f"/v1/api-keys/{short['api_key_id']}"))["expires_at"] == short["expires_at"]


async def test_a_key_that_has_ended_is_not_rotated(admin: Api, superuser: Any) -> None:
    revoked, expired = await _key(admin), await _key(admin)
    await admin.made(f"/v1/api-keys/{revoked['api_key_id']}:revoke", status=200)
    await superuser.execute(
        "UPDATE api_keys SET expires_at = now() - interval '1 s' WHERE api_key_id = $1", expired["api_key_id"]
    )

    for key in (revoked, expired):
        answer = await admin.post(f"/v1/api-keys/{key['api_key_id']}:rotate", {})

        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")


async def test_a_key_cannot_have_ended_before_it_begins(admin: Api) -> None:
    old = await _key(admin)
    past = _later(seconds=-1)

    made = await admin.post("/v1/api-keys", {"actor_id": old["actor_id"], "expires_at": past})
    rotated = await admin.post(f"/v1/api-keys/{old['api_key_id']}:rotate", {"old_expires_at": past})

    assert [made.status_code, rotated.status_code] == [422, 422]
    assert "`expires_at` is not in the future" in made.json()["error"]["message"]
    assert "`old_expires_at` is not in the future" in rotated.json()["error"]["message"]


async def test_there_is_no_key_for_an_actor_that_is_inactive_or_not_there(admin: Api) -> None:
    actor = await _actor(admin)
    await admin.send("PATCH", f"/v1/actors/{actor}", {"is_active": False})

    inactive = await admin.post("/v1/api-keys", {"actor_id": actor})
    unknown = await admin.post("/v1/api-keys", {"actor_id": str(fresh.new_id())})

    assert [inactive.status_code, unknown.status_code] == [409, 404]


async def test_a_key_or_actor_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, rival: Api) -> None:
    made, unknown = await _key(admin), str(fresh.new_id())
    foreign, named = made["api_key_id"], {"X-Correlation-Id": unknown}

    for method, suffix, body in (("GET", "", None), ("POST", ":revoke", None), ("POST", ":rotate", {})):
        answers = [
            await rival.send(method, f"/v1/api-keys/{key}{suffix}", body, headers=named) for key in (foreign, unknown)
        ]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text.replace(foreign, unknown) == answers[1].text
    answers = [
        await rival.post("/v1/api-keys", {"actor_id": actor}, headers=named) for actor in (made["actor_id"], unknown)
    ]
    assert answers[0].text.replace(made["actor_id"], unknown) == answers[1].text
    assert answers[0].status_code == 404
    assert await _opens(admin, made["api_key"]) == 200


async def test_the_list_is_paged(admin: Api) -> None:
    made = [(await _key(admin))["api_key_id"] for _ in range(3)]

    first = await admin.got("/v1/api-keys", params={"limit": 2})
    rest = await admin.got("/v1/api-keys", params={"cursor": first["next_cursor"]})

    assert [key["api_key_id"] for key in first["items"] + rest["items"]][:3] == made[::-1]
