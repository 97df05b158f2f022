"""Signing keys over HTTP: the public halves, for whoever may sign; retired, never forgotten."""

import pytest

from bpc.core.errors import Conflict, NotFound
from bpc.core.events import Act
from bpc.core.signing import public_key_of, seed_of, to_base64
from bpc.db import signing_keys
from bpc.db.database import Database
from tests.api.conftest import KEY_ID, SEED, Api


async def test_the_public_halves_are_listed_newest_first(admin: Api, database: Database, act: Act) -> None:
    other = public_key_of(seed_of(bytes(32)))
    await signing_keys.register(database, "later", other, act=act)

    listed = await admin.got("/v1/signing-keys")

    assert listed["next_cursor"] is None
    assert [(key["key_id"], key["public_key"], key["status"]) for key in listed["items"]] == [
        ("later", to_base64(other), "ACTIVE"),
        (KEY_ID, to_base64(public_key_of(SEED)), "ACTIVE"),
    ]


async def test_a_retired_key_stays_listed_and_stays_retired(admin: Api, database: Database, act: Act) -> None:
    await signing_keys.retire(database, KEY_ID, act=act)

    [key] = (await admin.got("/v1/signing-keys"))["items"]
    assert (key["key_id"], key["status"]) == (KEY_ID, "RETIRED")
    assert key["retired_at"] is not None
    with pytest.raises(Conflict, match="is retired already"):
        await signing_keys.retire(database, KEY_ID, act=act)
    with pytest.raises(NotFound, match="there is no signing key `nobody`"):
        await signing_keys.retire(database, "nobody", act=act)


async def test_only_who_may_sign_sees_them(officer: Api, auditor: Api, nobody: Api) -> None:
    answers = [await api.get("/v1/signing-keys") for api in (officer, auditor, nobody)]

    assert [answer.status_code for answer in answers] == [403, 403, 401]
