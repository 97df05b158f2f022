"""Authentication: each thing that may be wrong with a key, told as far as its holder may know it."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from bpc.api.http.request_context import Service
from bpc.core.api_keys import ENTROPY_BYTES, SECRET_LENGTH, ApiKeySecret, _compute_checksum
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.access import api_requests, tenants_and_actors
from bpc.storage.database import Database
from tests.api.conftest import Api

PATH = "/v1/documents"


def _parse_key(api: Api) -> ApiKeySecret:
    assert api.key is not None
    return ApiKeySecret.parse(api.key)


def _make_similar_key(key: ApiKeySecret) -> str:
    """Another key with the same prefix, well formed."""
    secret = ApiKeySecret.generate(clock.random_bytes(ENTROPY_BYTES)).text.split("_")[2][:SECRET_LENGTH]
    body = f"bpc_{key.prefix}_{secret}"
    return body + _compute_checksum(body)


def _read_code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def _count_denials(superuser: Any) -> int:
    count: int = await superuser.fetchval("SELECT count(*) FROM events WHERE event_type = 'ACCESS_DENIED'")
    return count


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (None, "the request has no API key"),
        ("", "the request has no API key"),
        ("Bearer", "the request has no API key"),
        ("Bearer ", "the request has no API key"),
        ("Basic YWRtaW46YWRtaW4=", "the request has no API key"),
        ("bpc_0123456789_x", "the request has no API key"),
        ("Bearer nonsense", "this is not an API key"),
        ("Bearer bpc_0123456789_short", "this is not an API key"),
        ("Bearer bpc_0123456789_" + "0" * 49, "this API key has a typing mistake"),
        ("Bearer " + "x" * 4000, "this is not an API key"),
    ],
)
async def test_what_is_no_key_is_unauthorized_counted_and_in_no_log_of_events(
    http: httpx2.AsyncClient, service: Service, superuser: Any, header: str | None, says: str
) -> None:
    sent = {} if header is None else {"Authorization": header}

    answer = await http.get(PATH, headers=sent)

    assert _read_code(answer) == (401, "UNAUTHORIZED")
    assert answer.json()["error"]["message"].startswith(says)
    assert answer.headers["www-authenticate"] == 'Bearer realm="bpc"'
    assert service.metrics.registry.get_sample_value("bpc_unauthorized_total") == 1
    assert await _count_denials(superuser) == 0


async def test_two_keys_at_once_are_none(http: httpx2.AsyncClient, admin: Api, officer: Api) -> None:
    headers = [("Authorization", f"Bearer {admin.key}"), ("Authorization", f"Bearer {officer.key}")]

    assert _read_code(await http.get(PATH, headers=headers)) == (401, "UNAUTHORIZED")


async def test_the_scheme_is_read_in_any_case(http: httpx2.AsyncClient, admin: Api) -> None:
    assert (await http.get(PATH, headers={"Authorization": f"bearer {admin.key}"})).status_code == 200


async def test_a_wrong_secret_is_told_exactly_like_an_unknown_key(http: httpx2.AsyncClient, admin: Api) -> None:
    unknown = ApiKeySecret.generate(clock.random_bytes(ENTROPY_BYTES)).text
    named = {"X-Correlation-Id": str(clock.new_id())}

    answers = [await Api(http, key).get(PATH, headers=named) for key in (_make_similar_key(_parse_key(admin)), unknown)]

    assert answers[0].content == answers[1].content
    assert _read_code(answers[0]) == (401, "UNAUTHORIZED")


async def test_that_a_key_was_revoked_is_told_only_to_who_has_it(
    http: httpx2.AsyncClient, admin: Api, officer: Api, superuser: Any
) -> None:
    keys = (await admin.get_json("/v1/api-keys"))["items"]
    revoked = next(key["api_key_id"] for key in keys if key["key_prefix"] == _parse_key(officer).prefix)
    await admin.post_json(f"/v1/api-keys/{revoked}:revoke", status=200)

    guessed = await Api(http, _make_similar_key(_parse_key(officer))).get(PATH)
    assert (_read_code(guessed), await _count_denials(superuser)) == ((401, "UNAUTHORIZED"), 0)

    known = await officer.get(PATH)
    assert (_read_code(known), await _count_denials(superuser)) == ((401, "API_KEY_REVOKED"), 1)
    payload = await superuser.fetchval("SELECT payload_canonical FROM events WHERE event_type = 'ACCESS_DENIED'")
    assert payload == b'{"method":"GET","permission":"docs:read","reason":"API_KEY_REVOKED","route":"/v1/documents"}'


async def test_a_revoked_key_stays_revoked_to_its_holder_when_it_has_also_expired(
    admin: Api, officer: Api, superuser: Any
) -> None:
    await superuser.execute(
        "UPDATE api_keys SET revoked_at = now(), expires_at = now() - interval '1 day' WHERE key_prefix = $1",
        _parse_key(officer).prefix,
    )

    assert _read_code(await officer.get(PATH)) == (401, "API_KEY_REVOKED")


async def test_a_key_ends_at_the_moment_it_says(officer: Api, superuser: Any) -> None:
    async def ends(at: datetime) -> None:
        await superuser.execute(
            "UPDATE api_keys SET expires_at = $2 WHERE key_prefix = $1", _parse_key(officer).prefix, at
        )

    await ends(clock.now() + timedelta(minutes=5))
    before = await officer.get(PATH)
    await ends(clock.now())
    after = await officer.get(PATH)

    assert before.status_code == 200
    assert _read_code(after) == (401, "UNAUTHORIZED")
    assert await _count_denials(superuser) == 0


async def test_keys_of_an_inactive_actor_or_tenant_are_unauthorized(
    database: Database, officer: Api, auditor: Api, superuser: Any, act: Act
) -> None:
    await superuser.execute("UPDATE actors SET is_active = false WHERE display_name = 'ComplianceOfficer'")
    inactive_actor = await officer.get(PATH)
    acme = await tenants_and_actors.find_tenant(database, "acme")
    await tenants_and_actors.set_tenant_active(database, acme, active=False, act=act)
    inactive_tenant = await auditor.get("/v1/rule-packages")

    assert _read_code(inactive_actor) == _read_code(inactive_tenant) == (401, "UNAUTHORIZED")
    assert inactive_actor.json()["error"]["message"] == inactive_tenant.json()["error"]["message"]


async def test_a_refused_key_is_in_no_answer(http: httpx2.AsyncClient, officer: Api, superuser: Any) -> None:
    await superuser.execute("UPDATE api_keys SET revoked_at = now() WHERE key_prefix = $1", _parse_key(officer).prefix)

    for key in (officer.key, _make_similar_key(_parse_key(officer)), f"{officer.key}x"):
        answer = await Api(http, key).get(PATH)

        assert str(key)[15:40] not in answer.text


async def test_a_key_of_one_tenant_opens_nothing_of_another(admin: Api, other_admin: Api) -> None:
    await admin.post_json(PATH, {"kind": "OTHER"})

    assert (await other_admin.get_json(PATH))["items"] == []


async def test_when_a_key_was_used_is_written_at_most_once_a_minute(
    service: Service, officer: Api, superuser: Any
) -> None:
    async def used() -> datetime | None:
        used_at: datetime | None = await superuser.fetchval(
            "SELECT last_used_at FROM api_keys WHERE key_prefix = $1", _parse_key(officer).prefix
        )
        return used_at

    async def set_used(at: datetime) -> None:
        # Naming `expires_at` lets processes look the key up again: they remember when they wrote it last.
        await superuser.execute(
            "UPDATE api_keys SET last_used_at = $2, expires_at = expires_at WHERE key_prefix = $1",
            _parse_key(officer).prefix,
            at,
        )

    assert await used() is None
    await officer.get(PATH)
    first = await used()
    await officer.get(PATH)
    assert first is not None
    assert await used() == first

    recently, long_ago = clock.now() - timedelta(seconds=50), clock.now() - timedelta(seconds=61)
    await set_used(recently)
    await officer.get(PATH)
    assert await used() == recently
    await set_used(long_ago)
    await asyncio.gather(*(officer.get(PATH) for _ in range(10)))
    assert (await used() or long_ago) > first


async def test_a_refused_request_is_a_use_of_the_key_too(auditor: Api, superuser: Any) -> None:
    assert (await auditor.get(PATH)).status_code == 403

    used = await superuser.fetchval(
        "SELECT last_used_at FROM api_keys WHERE key_prefix = $1", _parse_key(auditor).prefix
    )
    assert used is not None


async def test_a_key_that_is_in_use_can_be_revoked_meanwhile(
    database: Database, tenant: TenantId, admin: Api, officer: Api
) -> None:
    keys = (await admin.get_json("/v1/api-keys"))["items"]
    api_key_id = next(key["api_key_id"] for key in keys if key["key_prefix"] == _parse_key(officer).prefix)
    async with database.plain() as conn:
        caller = await api_requests.find_caller(conn, _parse_key(officer).prefix)
    assert caller is not None
    async with database.plain() as conn:  # a request under way, that has noted its use
        await api_requests.record_key_use(conn, caller, clock.now())

        revoked = await admin.post(f"/v1/api-keys/{api_key_id}:revoke")

    assert revoked.status_code == 200


async def test_a_key_is_good_from_the_moment_it_is_made_until_it_expires(admin: Api) -> None:
    actor = await admin.post_json(
        "/v1/actors", {"type": "SERVICE", "display_name": "S", "roles": ["ComplianceOfficer"]}
    )
    soon = format_time(clock.now() + timedelta(hours=1))
    api_key = await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"], "expires_at": soon})

    assert (await Api(admin.http, api_key["api_key"]).get(PATH)).status_code == 200
