"""Signing keys and the log over HTTP: public halves, retired, never forgotten; files of the log for everybody."""

import asyncio
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from bpc.api.access import signing_key_routes
from bpc.core.audit.events import Act
from bpc.core.audit.signing import PinnedKey, derive_public_key, parse_seed, read_key_set, to_base64
from bpc.core.errors import Conflict, NotFound
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time
from bpc.core.tlog.entries import read_readable_entry
from bpc.runtime import clock
from bpc.runtime.settings import Settings
from bpc.storage.access import tenants_and_actors
from bpc.storage.audit import signing_keys, tenant_keys
from bpc.storage.database import Database
from bpc.storage.tlog import log_rows
from tests.api.conftest import KEY_ID, SEED, Api
from tests.storage.tlog.log_fixtures import append_signed_events, make_sequencer


async def test_the_public_halves_are_listed_newest_first(admin: Api, database: Database, act: Act) -> None:
    other = derive_public_key(parse_seed(bytes(32)))
    await signing_keys.register_key(database, "later", other, act=act)

    listed = await admin.get_json("/v1/signing-keys")

    assert listed["next_cursor"] is None
    assert [(key["key_id"], key["public_key"], key["status"]) for key in listed["items"]] == [
        ("later", to_base64(other), "ACTIVE"),
        (KEY_ID, to_base64(derive_public_key(SEED)), "ACTIVE"),
    ]


async def test_nothing_is_compiled_while_no_key_can_sign(admin: Api, database: Database, act: Act) -> None:
    await signing_keys.retire_key(database, KEY_ID, act=act)
    unused = str(clock.new_id())

    for path, body in (
        (f"/v1/passports/{unused}/compile", {"snapshot_id": unused, "rule_package_version_id": unused}),
        ("/v1/passports:bulk-compile", {"items": [{"sku": "SKU-1"}], "rule_package_version_id": unused}),
    ):
        answer = await admin.post(path, body)

        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (500, "SIGNING_KEY_MISSING"), path
        assert error["details"] == {"signing_key_id": KEY_ID}
        assert "let the operator register a key" in error["message"]
    assert (await admin.get_json("/v1/jobs"))["items"] == []
    assert (await admin.get_json("/v1/compile-runs"))["items"] == []


async def test_a_retired_key_stays_listed_and_stays_retired(admin: Api, database: Database, act: Act) -> None:
    await signing_keys.retire_key(database, KEY_ID, act=act)

    [key] = (await admin.get_json("/v1/signing-keys"))["items"]
    assert (key["key_id"], key["status"]) == (KEY_ID, "RETIRED")
    assert key["retired_at"] is not None
    with pytest.raises(Conflict, match="is already retired"):
        await signing_keys.retire_key(database, KEY_ID, act=act)
    with pytest.raises(NotFound, match="there is no signing key `nobody`"):
        await signing_keys.retire_key(database, "nobody", act=act)


async def test_only_who_may_sign_sees_them(officer: Api, auditor: Api, anonymous: Api) -> None:
    answers = [await api.get("/v1/signing-keys") for api in (officer, auditor, anonymous)]

    assert [answer.status_code for answer in answers] == [403, 403, 401]


async def test_a_tenant_makes_retires_and_reports_its_own_keys_and_the_log_shows_it(
    admin: Api, key_reader: Api, database: Database, tenant: TenantId, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing_key_routes, "KEPT_SECONDS", 0.0)
    async with database.system() as conn:
        [row] = [row for row in await tenants_and_actors.list_tenants(conn) if row.tenant_id == tenant]
    assert (await key_reader.get(f"/.well-known/bpc-keys/{row.slug}.json")).status_code == 404

    first = (await admin.post("/v1/signing-keys", {})).json()
    second = (await admin.post("/v1/signing-keys", {"valid_until": "2999-01-01T00:00:00Z"})).json()

    async with database.tenant(tenant) as conn:
        assert await tenant_keys.choose_key(conn, tenant, installation_key=KEY_ID) == second["key_id"]
        assert await signing_keys.find_key_that_signs(conn, second["key_id"], tenant) is not None
        assert await signing_keys.find_key_that_signs(conn, second["key_id"]) is None, "no other tenant's passports"
    retired = (await admin.post(f"/v1/signing-keys/{first['key_id']}:retire")).json()
    assert (retired["status"], retired["tenant"]) == ("RETIRED", row.slug)
    again = await admin.post(f"/v1/signing-keys/{first['key_id']}:retire")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    path = f"/v1/signing-keys/{second['key_id']}:report-compromise"
    for since, status in (("2999-01-01T00:00:00Z", 422), ("2026-01-02T00:00:00Z", 200), ("2026-01-03T00:00:00Z", 409)):
        answer = await admin.post(path, {"since": since, "reason": "stolen"})
        assert answer.status_code == status, answer.text
    earlier = (await admin.post(path, {"since": "2026-01-01T00:00:00Z", "reason": "stolen before"})).json()
    assert (earlier["status"], earlier["compromised_since"]) == ("COMPROMISED", "2026-01-01T00:00:00.000000Z")
    async with database.tenant(tenant) as conn:
        # A tenant with keys never falls back to the installation's: those who pinned its keys would not accept that.
        assert await tenant_keys.choose_key(conn, tenant, installation_key=KEY_ID) != KEY_ID
    # A key of the installation is not the tenant's to stop.
    assert (await admin.post(f"/v1/signing-keys/{KEY_ID}:retire")).status_code == 404

    pins = read_key_set((await key_reader.get(f"/.well-known/bpc-keys/{row.slug}.json")).content)
    assert {(pin.key_id, pin.tenant, pin.tenant_id) for pin in pins} == {
        (key["key_id"], row.slug, str(tenant)) for key in (first, second)
    }
    assert KEY_ID in {pin.key_id for pin in read_key_set((await key_reader.get(PATH)).content)}
    await make_sequencer(database, tmp_path / "log").run_once()
    async with database.system() as conn:
        entries = await log_rows.load_entries(conn, 0, 100)
    statements = [statement for entry in entries if (statement := read_readable_entry(entry)) is not None]
    assert [(entry["kind"], entry["key_id"], entry.get("tenant")) for entry in statements if "tenant" in entry] == [
        ("KEY_ADDED", first["key_id"], row.slug),
        ("KEY_ADDED", second["key_id"], row.slug),
        ("KEY_RETIRED", first["key_id"], row.slug),
        ("KEY_COMPROMISED", second["key_id"], row.slug),
        ("KEY_COMPROMISED", second["key_id"], row.slug),
    ]
    assert statements[-1]["compromised_since"] == "2026-01-01T00:00:00.000000Z"


# /.well-known/bpc-keys.json: every public key, for everybody, as bytes that can be kept.


PATH = "/.well-known/bpc-keys.json"
OTHER = derive_public_key(parse_seed(bytes(32)))


@pytest.fixture
def key_reader(http: httpx2.AsyncClient, admin: Api) -> Api:
    return Api(http, None)


async def test_all_keys_are_there_for_everybody_and_retired_ones_stay(
    key_reader: Api, database: Database, act: Act
) -> None:
    await signing_keys.register_key(database, "later", OTHER, act=act)
    await signing_keys.retire_key(database, KEY_ID, act=act)

    answer = await key_reader.get(PATH)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert read_key_set(answer.content) == [
        PinnedKey(OTHER, "later"),
        PinnedKey(derive_public_key(SEED), KEY_ID, valid_until=act.at),
    ]
    later, first = answer.json()["keys"]
    assert (later["key_id"], later["status"], later["retired_at"]) == ("later", "ACTIVE", None)
    assert (first["key_id"], first["public_key"], first["status"]) == (
        KEY_ID,
        to_base64(derive_public_key(SEED)),
        "RETIRED",
    )
    assert first["retired_at"] == format_time(act.at)


async def test_it_may_be_kept_and_asked_for_by_its_tag(key_reader: Api) -> None:
    answer = await key_reader.get(PATH)

    again = await key_reader.get(PATH, headers={"If-None-Match": answer.headers["etag"]})

    assert answer.headers["etag"] == f'"{to_hex(sha256(answer.content))}"'
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert (again.status_code, again.content) == (304, b"")


async def test_everybody_may_ask_at_once_and_the_database_is_asked_once(
    key_reader: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0
    every = signing_keys.list_all_keys

    async def counted(*value: object) -> object:
        nonlocal count
        count += 1
        return await every(*value)  # type: ignore[arg-type]

    monkeypatch.setattr(signing_keys, "list_all_keys", counted)
    monkeypatch.setattr(signing_key_routes, "KEPT_SECONDS", 60.0)

    answers = await asyncio.gather(*(key_reader.get(PATH) for _ in range(20)))

    assert {answer.status_code for answer in answers} == {200}
    assert count == 1


# The transparency log: everybody reads it without a key; tiles may be kept for ever, a checkpoint for seconds.


@pytest.fixture
async def stranger(app: FastAPI) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test")


async def test_the_log_is_served_to_everybody(
    stranger: httpx2.AsyncClient, settings: Settings, database: Database, tenant: TenantId, act: Act
) -> None:
    assert (await stranger.get("/log/checkpoint")).status_code == 404
    await append_signed_events(database, tenant, act, 300)
    folder = settings.data_dir / "log"
    await make_sequencer(database, folder).run_once()

    checkpoint = await stranger.get("/log/checkpoint")
    assert checkpoint.content == (folder / "checkpoint").read_bytes()
    assert checkpoint.headers["content-type"] == "text/plain; charset=utf-8"
    assert checkpoint.headers["cache-control"] == "public, max-age=2"
    paths = [str(path.relative_to(folder)) for path in folder.glob("tile/**/*") if path.is_file()]
    assert "tile/entries/001.p/" in "".join(paths)
    for path in paths:
        answer = await stranger.get(f"/log/{path}")
        assert answer.content == (folder / path).read_bytes()
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "path",
    [
        *("tile/0/999", "tile/0/000.p/7", "tile/64/000", "tile/0/..%2f..%2fcheckpoint"),
        *("tile/", "tile/entries", "other", "tile/0/000/x", ".sequencer.lock", "tile/0/%00"),
    ],
)
async def test_nothing_else_is(stranger: httpx2.AsyncClient, settings: Settings, path: str) -> None:
    (settings.data_dir / "log").mkdir(parents=True)
    (settings.data_dir / "log" / "checkpoint").write_bytes(b"note")
    (settings.data_dir / "log" / ".sequencer.lock").touch()

    assert (await stranger.get(f"/log/{path}")).status_code == 404
