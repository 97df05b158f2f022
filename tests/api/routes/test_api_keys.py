"""API keys over HTTP: shown once, two at a time, ended for good."""

from datetime import timedelta
from typing import Any

from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from tests.api.conftest import Api


async def _create_actor(admin: Api, role: str = "ComplianceOfficer") -> str:
    actor = await admin.post_json("/v1/actors", {"type": "API_CLIENT", "display_name": "Robot", "roles": [role]})
    return str(actor["actor_id"])


async def _create_key(admin: Api, **more: Any) -> dict[str, Any]:
    api_key: dict[str, Any] = await admin.post_json("/v1/api-keys", {"actor_id": await _create_actor(admin), **more})
    return api_key


async def _try_key(admin: Api, key: str) -> int:
    return (await Api(admin.http, key).get("/v1/documents")).status_code


def _format_later(**how: float) -> str:
    return format_time(clock.now() + timedelta(**how))


async def _read_events(superuser: Any, key: str) -> list[tuple[str, str]]:
    rows = await superuser.fetch(
        "SELECT event_type, payload_canonical FROM events WHERE aggregate_id = $1 ORDER BY aggregate_version", key
    )
    return [(row["event_type"], row["payload_canonical"].decode()) for row in rows]


async def test_a_key_is_shown_once_and_opens_what_its_actor_may(admin: Api) -> None:
    api_key = await _create_key(admin, label="ci", expires_at=_format_later(days=1))

    listed = await admin.get_json("/v1/api-keys")
    answer = await admin.get_json(f"/v1/api-keys/{api_key['api_key_id']}")

    assert await _try_key(admin, api_key["api_key"]) == 200
    assert listed["items"][0] == answer
    assert (answer["label"], answer["expires_at"], answer["roles"], answer["display_name"], answer["revoked_at"]) == (
        "ci",
        api_key["expires_at"],
        ["ComplianceOfficer"],
        "Robot",
        None,
    )
    secret = api_key["api_key"].rsplit("_", 1)[1]
    assert secret not in str(listed)
    assert "hash" not in str(listed)


async def test_sending_it_again_makes_no_second_key_and_shows_no_secret(admin: Api) -> None:
    body = {"actor_id": await _create_actor(admin)}
    api_key = (await admin.post("/v1/api-keys", body, idempotency_key="once")).json()

    again = await admin.post("/v1/api-keys", body, idempotency_key="once")

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert again.json()["error"]["details"] == {"id": api_key["api_key_id"]}
    assert api_key["api_key"] not in again.text
    keys = [key["actor_id"] for key in (await admin.get_json("/v1/api-keys"))["items"]]
    assert keys.count(body["actor_id"]) == 1


async def test_a_revoked_key_is_refused_by_name_from_the_next_request_on(admin: Api, superuser: Any) -> None:
    api_key = await _create_key(admin)
    path = f"/v1/api-keys/{api_key['api_key_id']}"

    revoked = await admin.post(f"{path}:revoke")

    assert revoked.status_code == 200
    assert revoked.json()["revoked_at"] is not None
    answer = await Api(admin.http, api_key["api_key"]).get("/v1/documents")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "API_KEY_REVOKED")
    again = await admin.post(f"{path}:revoke")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert await admin.get_json(path) == revoked.json(), "the first revocation counts"
    assert [event for event, _ in await _read_events(superuser, api_key["api_key_id"])] == [
        "API_KEY_CREATED",
        "API_KEY_REVOKED",
    ]


async def test_rotating_makes_a_second_valid_key(admin: Api, superuser: Any) -> None:
    old = await _create_key(admin, label="ci")

    new = await admin.post_json(f"/v1/api-keys/{old['api_key_id']}:rotate", {})

    assert (new["actor_id"], new["label"]) == (old["actor_id"], "ci")
    assert [await _try_key(admin, key["api_key"]) for key in (old, new)] == [200, 200]
    await admin.post_json(f"/v1/api-keys/{old['api_key_id']}:revoke", status=200)
    assert [await _try_key(admin, key["api_key"]) for key in (old, new)] == [401, 200]
    assert (await _read_events(superuser, old["api_key_id"]))[1] == (
        "API_KEY_CHANGED",
        f'{{"expires_at":null,"rotated_to":"{new["api_key_id"]}"}}',
    )
    assert [event for event, _ in await _read_events(superuser, new["api_key_id"])] == ["API_KEY_CREATED"]


async def test_rotating_may_say_when_the_old_key_ends_but_never_makes_it_live_longer(admin: Api) -> None:
    old, short = await _create_key(admin), await _create_key(admin, expires_at=_format_later(minutes=5))
    tomorrow, next_year = _format_later(days=1), _format_later(days=365)

    for key in (old, short):
        path = f"/v1/api-keys/{key['api_key_id']}"
        await admin.post_json(f"{path}:rotate", {"old_expires_at": tomorrow, "expires_at": next_year})

    assert (await admin.get_json(f"/v1/api-keys/{old['api_key_id']}"))["expires_at"] == tomorrow
    assert (await admin.get_json(f"/v1/api-keys/{short['api_key_id']}"))["expires_at"] == short["expires_at"]


async def test_a_key_that_has_ended_is_not_rotated(admin: Api, superuser: Any) -> None:
    revoked, expired = await _create_key(admin), await _create_key(admin)
    await admin.post_json(f"/v1/api-keys/{revoked['api_key_id']}:revoke", status=200)
    await superuser.execute(
        "UPDATE api_keys SET expires_at = now() - interval '1 s' WHERE api_key_id = $1", expired["api_key_id"]
    )

    for key in (revoked, expired):
        answer = await admin.post(f"/v1/api-keys/{key['api_key_id']}:rotate", {})

        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")


async def test_a_key_cannot_have_ended_before_it_begins(admin: Api) -> None:
    old = await _create_key(admin)
    past = _format_later(seconds=-1)

    api_key = await admin.post("/v1/api-keys", {"actor_id": old["actor_id"], "expires_at": past})
    rotated = await admin.post(f"/v1/api-keys/{old['api_key_id']}:rotate", {"old_expires_at": past})

    assert [api_key.status_code, rotated.status_code] == [422, 422]
    assert "`expires_at` is not in the future" in api_key.json()["error"]["message"]
    assert "`old_expires_at` is not in the future" in rotated.json()["error"]["message"]


async def test_there_is_no_key_for_an_actor_that_is_inactive_or_not_there(admin: Api) -> None:
    actor = await _create_actor(admin)
    await admin.send("PATCH", f"/v1/actors/{actor}", {"is_active": False})

    inactive = await admin.post("/v1/api-keys", {"actor_id": actor})
    unknown = await admin.post("/v1/api-keys", {"actor_id": str(clock.new_id())})

    assert [inactive.status_code, unknown.status_code] == [409, 404]


async def test_a_key_or_actor_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, other_admin: Api) -> None:
    api_key, unknown = await _create_key(admin), str(clock.new_id())
    foreign, named = api_key["api_key_id"], {"X-Correlation-Id": unknown}

    for method, suffix, body in (("GET", "", None), ("POST", ":revoke", None), ("POST", ":rotate", {})):
        answers = [
            await other_admin.send(method, f"/v1/api-keys/{key}{suffix}", body, headers=named)
            for key in (foreign, unknown)
        ]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text.replace(foreign, unknown) == answers[1].text
    answers = [
        await other_admin.post("/v1/api-keys", {"actor_id": actor}, headers=named)
        for actor in (api_key["actor_id"], unknown)
    ]
    assert answers[0].text.replace(api_key["actor_id"], unknown) == answers[1].text
    assert answers[0].status_code == 404
    assert await _try_key(admin, api_key["api_key"]) == 200


async def test_the_list_is_paged(admin: Api) -> None:
    api_key = [(await _create_key(admin))["api_key_id"] for _ in range(3)]

    first = await admin.get_json("/v1/api-keys", params={"limit": 2})
    rest = await admin.get_json("/v1/api-keys", params={"cursor": first["next_cursor"]})

    assert [key["api_key_id"] for key in first["items"] + rest["items"]][:3] == api_key[::-1]
