"""/.well-known/bpc-keys.json: every public key, for everybody, as bytes that can be kept."""

import asyncio

import httpx2
import pytest

from bpc.api.routes import well_known
from bpc.core.digest import sha256, to_hex
from bpc.core.events import Act
from bpc.core.key_set import read_key_set
from bpc.core.signing import PinnedKey, public_key_of, seed_of, to_base64
from bpc.core.timestamps import format_time
from bpc.db import signing_keys
from bpc.db.database import Database
from tests.api.conftest import KEY_ID, SEED, Api

PATH = "/.well-known/bpc-keys.json"
OTHER = public_key_of(seed_of(bytes(32)))


@pytest.fixture
def anybody(http: httpx2.AsyncClient, admin: Api) -> Api:
    return Api(http, None)


async def test_all_keys_are_there_for_everybody_and_retired_ones_stay(
    anybody: Api, database: Database, act: Act
) -> None:
    await signing_keys.register(database, "later", OTHER, act=act)
    await signing_keys.retire(database, KEY_ID, act=act)

    answer = await anybody.get(PATH)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert read_key_set(answer.content) == [
        PinnedKey(OTHER, "later"),
        PinnedKey(public_key_of(SEED), KEY_ID),
    ]
    later, first = answer.json()["keys"]
    assert (later["key_id"], later["status"], later["retired_at"]) == ("later", "ACTIVE", None)
    assert (first["key_id"], first["public_key"], first["status"]) == (
        KEY_ID,
        to_base64(public_key_of(SEED)),
        "RETIRED",
    )
    assert first["retired_at"] == format_time(act.at)


async def test_it_may_be_kept_and_asked_for_by_its_tag(anybody: Api) -> None:
    answer = await anybody.get(PATH)

    again = await anybody.get(PATH, headers={"If-None-Match": answer.headers["etag"]})

    assert answer.headers["etag"] == f'"{to_hex(sha256(answer.content))}"'
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert (again.status_code, again.content) == (304, b"")


async def test_everybody_may_ask_at_once_and_the_database_is_asked_once(
    anybody: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    every = signing_keys.every

    async def counted(*given: object) -> object:
        nonlocal asked
        asked += 1
        return await every(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(signing_keys, "every", counted)
    monkeypatch.setattr(well_known, "KEPT_SECONDS", 60.0)

    answers = await asyncio.gather(*(anybody.get(PATH) for _ in range(20)))

    assert {answer.status_code for answer in answers} == {200}
    assert asked == 1
