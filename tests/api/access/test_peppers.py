"""Replacing the pepper: keys and cursors are good under each that is accepted, and keys move to the one in use."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TypeAlias

import asyncpg
import httpx2
import pytest

from bpc.api.access.caller_memory import CallerMemory
from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.core.api_keys import ApiKeySecret, Peppers, compute_pepper_id
from bpc.runtime import clock
from bpc.storage.access import api_requests
from bpc.storage.database import Database
from tests.api.conftest import PEPPER, Api

NEW = b"the pepper that replaces it, long"
STORED = "SELECT key_hash, pepper_id FROM api_keys WHERE key_prefix = $1"
PATH = "/v1/documents"

Superuser: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
With: TypeAlias = Callable[[Peppers], AbstractAsyncContextManager[Api]]


@pytest.fixture
def open_with_peppers(service: Service, admin: Api) -> With:
    """The administrator, asking a process that has these peppers."""

    @asynccontextmanager
    async def open_api(peppers: Peppers) -> AsyncIterator[Api]:
        app = create_app(replace(service, peppers=peppers, callers=CallerMemory()))
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as client:
            yield Api(client, admin.key)

    return open_api


@pytest.fixture
def key(admin: Api) -> ApiKeySecret:
    assert admin.key is not None
    return ApiKeySecret.parse(admin.key)


async def read_stored_hash(superuser: Superuser, key: ApiKeySecret) -> tuple[bytes, str | None]:
    row = await superuser.fetchrow(STORED, key.prefix)
    assert row is not None
    return row["key_hash"], row["pepper_id"]


def hash_with(key: ApiKeySecret, pepper: bytes) -> tuple[bytes, str]:
    return key.hash(pepper), compute_pepper_id(pepper)


async def get_status(open_with_peppers: With, peppers: Peppers) -> int:
    async with open_with_peppers(peppers) as api:
        return (await api.get(PATH)).status_code


async def test_a_key_on_the_previous_pepper_is_good_and_is_hashed_again_when_it_is_used(
    open_with_peppers: With, superuser: Superuser, key: ApiKeySecret
) -> None:
    assert await read_stored_hash(superuser, key) == hash_with(key, PEPPER)

    assert await get_status(open_with_peppers, Peppers(in_use=NEW, previous=PEPPER)) == 200

    assert await read_stored_hash(superuser, key) == hash_with(key, NEW)
    assert await get_status(open_with_peppers, Peppers(in_use=NEW)) == 200
    assert await get_status(open_with_peppers, Peppers(in_use=PEPPER)) == 401


async def test_who_accepts_the_next_pepper_leaves_alone_what_others_have_moved_to_it(
    open_with_peppers: With, superuser: Superuser, key: ApiKeySecret
) -> None:
    behind, ahead = Peppers(in_use=PEPPER, next=NEW), Peppers(in_use=NEW, previous=PEPPER)

    assert await get_status(open_with_peppers, behind) == 200
    assert await read_stored_hash(superuser, key) == hash_with(key, PEPPER)
    assert await get_status(open_with_peppers, ahead) == 200
    assert await get_status(open_with_peppers, behind) == 200

    assert await read_stored_hash(superuser, key) == hash_with(key, NEW)


async def test_a_step_back_is_as_good_as_a_step_ahead(
    open_with_peppers: With, superuser: Superuser, key: ApiKeySecret
) -> None:
    assert await get_status(open_with_peppers, Peppers(in_use=NEW, previous=PEPPER)) == 200

    assert await get_status(open_with_peppers, Peppers(in_use=PEPPER, previous=NEW)) == 200

    assert await read_stored_hash(superuser, key) == hash_with(key, PEPPER)


async def test_many_requests_at_once_are_all_answered(
    open_with_peppers: With, superuser: Superuser, key: ApiKeySecret
) -> None:
    async with open_with_peppers(Peppers(in_use=NEW, previous=PEPPER)) as api:
        answers = await asyncio.gather(*(api.get(PATH) for _ in range(20)))

    assert [answer.status_code for answer in answers] == [200] * 20
    assert await read_stored_hash(superuser, key) == hash_with(key, NEW)


async def test_a_key_that_nobody_may_use_is_not_hashed_again(
    open_with_peppers: With, superuser: Superuser, admin: Api, key: ApiKeySecret
) -> None:
    await superuser.execute("UPDATE api_keys SET revoked_at = now() WHERE key_prefix = $1", key.prefix)

    assert await get_status(open_with_peppers, Peppers(in_use=NEW, previous=PEPPER)) == 401

    assert await read_stored_hash(superuser, key) == hash_with(key, PEPPER)


async def test_a_key_of_an_earlier_build_gets_the_name_of_its_pepper_when_it_is_used(
    open_with_peppers: With, superuser: Superuser, key: ApiKeySecret
) -> None:
    await superuser.execute("UPDATE api_keys SET pepper_id = NULL")

    assert await get_status(open_with_peppers, Peppers(in_use=PEPPER)) == 200

    assert await read_stored_hash(superuser, key) == hash_with(key, PEPPER)


async def test_who_is_late_does_not_name_a_pepper_that_another_has_replaced(
    service: Service, database: Database, open_with_peppers: With, superuser: Superuser, key: ApiKeySecret
) -> None:
    """A process on the old pepper looked the key up; before it notes the use, one on the new pepper moves the key."""
    now = clock.now()
    async with database.plain() as conn:
        caller = await api_requests.find_caller(conn, key.prefix)
        assert caller is not None
        late = replace(caller, new_hash=api_requests.PepperedHash(*hash_with(key, PEPPER)))
        assert await get_status(open_with_peppers, Peppers(in_use=NEW, previous=PEPPER)) == 200
        await superuser.execute("UPDATE api_keys SET last_used_at = NULL")

        await api_requests.record_key_use(conn, late, now + timedelta(hours=1))

    assert await read_stored_hash(superuser, key) == hash_with(key, NEW)


@pytest.mark.parametrize("peppers", [Peppers(in_use=NEW, previous=PEPPER), Peppers(in_use=PEPPER, next=NEW)])
async def test_a_list_goes_on_with_a_cursor_of_either_pepper(
    open_with_peppers: With, admin: Api, peppers: Peppers
) -> None:
    for _ in range(5):
        await admin.post_json(PATH, {"kind": "BOM"})
    everything = [item["document_id"] for item in (await admin.get_json(PATH))["items"]]

    seen, cursor = [], ""
    sides = [Peppers(in_use=PEPPER, next=NEW), Peppers(in_use=NEW, previous=PEPPER)]
    for at in range(5):  # one page here, the next one there
        async with open_with_peppers(sides[at % 2] if peppers == sides[0] else sides[1 - at % 2]) as api:
            page = await api.get_json(f"{PATH}?limit=1{cursor}")
        seen += [item["document_id"] for item in page["items"]]
        cursor = f"&cursor={page['next_cursor']}"

    assert seen == everything


async def test_a_cursor_of_a_pepper_that_is_gone_is_no_cursor(open_with_peppers: With, admin: Api) -> None:
    for _ in range(2):
        await admin.post_json(PATH, {"kind": "BOM"})
    cursor = (await admin.get_json(f"{PATH}?limit=1"))["next_cursor"]
    assert await get_status(open_with_peppers, Peppers(in_use=NEW, previous=PEPPER)) == 200  # the key moves

    async with open_with_peppers(Peppers(in_use=NEW)) as api:
        answer = await api.get(f"{PATH}?limit=1&cursor={cursor}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
