"""`bpc keys`: a name means one key for ever, private halves are private, and keys can be changed while in use."""

import asyncio
import stat
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bpc.api.http.app import create_app
from bpc.api.http.server import open_service
from bpc.core.audit.events import Act
from bpc.core.audit.signing import derive_public_key, parse_seed, to_base64
from bpc.core.formats.ids import TenantId
from bpc.core.passport.receipt import read_receipt
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.database import Database
from bpc.storage.passports import passport_versions
from bpc.worker.run import run_worker
from tests.api.conftest import PEPPERS, Api, create_key
from tests.cli.program import Program, RunResult
from tests.pipeline.compile_fixtures import CompileInputs, create_compile_inputs

FIRST, NEXT = "dev-key-1", "passport-2028"
IDENTITY = b64encode((1).to_bytes(32, "little")).decode()  # of small order: anybody can sign for it


@pytest.fixture
def bpc(data_dir: Path, address: Address) -> Program:
    """The program on a database of its own, where the first key is registered."""
    program = Program(data_dir, {"DATABASE_URL": str(address), "BPC_LOG_LEVEL": "warn"})
    program.run_ok("seed", "--no-rules")
    return program


def list_keys(bpc: Program) -> dict[str, Any]:
    return {key["key_id"]: key for key in bpc.run_ok("keys", "list", "--json").json()}


def assert_refused(ended: RunResult, code: str, says: str) -> None:
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"{code}: ")
    assert says in ended.err


def test_a_tenant_has_keys_of_its_own_that_are_retired_and_reported(bpc: Program) -> None:
    bpc.run_ok("tenants", "create", "acme", "--name", "Acme")

    created = bpc.run_ok("keys", "create", "acme-1", "--tenant", "acme", "--json").json()
    bpc.run_ok("keygen", "--out", bpc.data_dir / "acme-2.key")
    bpc.run_ok("keys", "add", "acme-2", "--key", bpc.data_dir / "acme-2.key", "--tenant", "acme")

    assert (created["key_id"], created["tenant"]) == ("acme-1", "acme")
    owners = {key: row["tenant"] for key, row in list_keys(bpc).items()}
    assert owners == {FIRST: None, "acme-1": "acme", "acme-2": "acme"}
    assert all(row["signs"] for row in list_keys(bpc).values())
    again = bpc.run("keys", "create", "acme-1", "--tenant", "acme")
    assert_refused(again, "CONFLICT", "is already the name of a key")
    assert "cannot be the name of a key" in bpc.run("keys", "create", "log", "--tenant", "acme").err
    assert bpc.run_ok("keys", "retire", "acme-1").out == "`acme-1` is retired; what it signed stays valid\n"
    for key, since in (("acme-1", "2026-01-02T00:00:00"), (FIRST, "2026-01-01T00:00:00")):
        bpc.run_ok("keys", "report-compromise", key, "--since", since, "--reason", "stolen")
        row = list_keys(bpc)[key]
        assert (row["status"], row["compromised_since"][:19], row["signs"]) == ("COMPROMISED", since, False)
    unknown = bpc.run("keys", "report-compromise", "nobody", "--since", "2026-01-01", "--reason", "stolen")
    assert_refused(unknown, "NOT_FOUND", "there is no signing key `nobody`")


def test_a_new_key_is_registered_and_kept_where_only_its_owner_reads_it(bpc: Program) -> None:
    added = bpc.run_ok("keys", "add", NEXT, "--new", "--json").json()

    file = bpc.data_dir / "keys" / f"{NEXT}.key"
    assert added["file"] == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert added["public_key"] != file.read_text().strip()
    keys = list_keys(bpc)
    assert (keys[NEXT]["status"], keys[NEXT]["at_hand"], keys[NEXT]["signs"]) == ("ACTIVE", True, False)
    assert (keys[FIRST]["at_hand"], keys[FIRST]["signs"]) == (True, True)
    # The first one was made without a name. It keeps signing what was compiled for it when the next one takes over.
    keys = list_keys(bpc.with_settings(BPC_SIGNING_KEY_ID=NEXT))
    assert (keys[NEXT]["signs"], keys[FIRST]["signs"], keys[FIRST]["at_hand"]) == (True, False, True)


def test_a_key_of_a_file_is_copied_and_one_of_elsewhere_only_registered(bpc: Program, tmp_path: Path) -> None:
    keys_dir = tmp_path / "keys"
    here = bpc.with_settings(BPC_SIGNING_KEYS_DIR=str(keys_dir))
    public = here.run_ok("keygen", "--out", tmp_path / "made.key", "--json").json()["public_key"]
    elsewhere = to_base64(derive_public_key(parse_seed(bytes(32))))

    here.run_ok("keys", "add", NEXT, "--key", tmp_path / "made.key")
    output = here.run_ok("keys", "add", "hsm", "--public", elsewhere).out

    assert (keys_dir / f"{NEXT}.key").read_text() == (tmp_path / "made.key").read_text()
    assert stat.S_IMODE(keys_dir.stat().st_mode) == 0o700
    assert "private key" not in output
    keys = list_keys(here)
    assert (keys[NEXT]["public_key"], keys[NEXT]["at_hand"]) == (public, True)
    assert (keys["hsm"]["public_key"], keys["hsm"]["at_hand"]) == (elsewhere, False)
    lines = here.run_ok("keys", "list").out.splitlines()
    assert lines[0].split() == ["ID", "TENANT", "STATUS", "SIGNS", "AVAILABLE", "CREATED", "RETIRED", "PUBLIC", "KEY"]
    assert {line.split()[0] for line in lines[1:]} == {FIRST, NEXT, "hsm"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("x", "--public", IDENTITY), "of small order, under which anybody can sign"),
        (("x", "--public", b64encode(b"\xff" * 32).decode()), "not canonically encoded"),
        (("x", "--public", b64encode(bytes([2, *bytes(31)])).decode()), "not a point of the curve"),
        (("x", "--public", "AAAA"), "3 bytes long, not 32"),
        (("x", "--public", "%%%%"), "not base64"),
        (("x", "--key", "/dev/null"), "0 bytes long"),
        (("x", "--key", "/nonexistent"), "cannot be read"),
        (("x",), "the source of the key is missing or ambiguous"),
        (("x", "--new", "--public", IDENTITY), "the source of the key is missing or ambiguous"),
        (("pepper", "--new"), "`pepper` cannot be the name of a key"),
        (("../x", "--new"), "`../x` cannot be the name of a key"),
    ],
)
def test_an_invalid_key_or_name_is_refused(bpc: Program, arguments: tuple[str, ...], says: str) -> None:
    assert_refused(bpc.run("keys", "add", *arguments), "VALIDATION_ERROR", says)
    assert list_keys(bpc).keys() == {FIRST}


def test_a_name_never_means_another_key_and_a_key_has_one_name(bpc: Program) -> None:
    public = bpc.run_ok("keys", "add", NEXT, "--new", "--json").json()["public_key"]
    file = bpc.data_dir / "keys" / f"{NEXT}.key"
    before = file.read_bytes()

    assert_refused(bpc.run("keys", "add", NEXT, "--new"), "CONFLICT", f"`{NEXT}` is already the name of another key")
    assert_refused(bpc.run("keys", "add", "b", "--public", public), "CONFLICT", f"is registered already, as `{NEXT}`")
    assert_refused(bpc.run("keys", "add", NEXT, "--public", public), "CONFLICT", "is registered already")
    assert_refused(bpc.run("keys", "add", NEXT, "--key", file), "CONFLICT", "is registered already")
    assert file.read_bytes() == before


def test_a_registered_key_gets_the_file_that_was_lost(bpc: Program) -> None:
    bpc.run_ok("keys", "add", NEXT, "--new")
    copy = (bpc.data_dir / "keys" / f"{NEXT}.key").rename(bpc.data_dir / "copy.key")
    assert not list_keys(bpc)[NEXT]["at_hand"]

    bpc.run_ok("keys", "add", NEXT, "--key", copy)

    assert list_keys(bpc)[NEXT]["at_hand"]


def test_the_key_that_signs_is_retired_only_by_force_and_then_it_shows(bpc: Program) -> None:
    ended = bpc.run("keys", "retire", FIRST)
    assert_refused(ended, "CONFLICT", f"`{FIRST}` is the key that signs")
    assert "first `bpc keys add NEW --new`, then set BPC_SIGNING_KEY_ID=NEW and restart" in ended.err

    bpc.run_ok("keys", "retire", FIRST, "--force")

    assert (list_keys(bpc)[FIRST]["status"], list_keys(bpc)[FIRST]["signs"]) == ("RETIRED", False)
    assert f"no key can sign: BPC_SIGNING_KEY_ID is `{FIRST}`" in bpc.run_ok("keys", "list").out
    assert f"`{FIRST}` is retired: nothing can be signed" in bpc.run("doctor").out
    assert "the signing key is retired: nothing will be signed" in bpc.run("seed").err
    assert_refused(bpc.run("keys", "retire", FIRST, "--force"), "CONFLICT", "is already retired")
    assert_refused(bpc.run("keys", "retire", "nobody"), "NOT_FOUND", "there is no signing key `nobody`")


class RunningService:
    """The API and a worker of one configuration, as after a restart."""

    def __init__(self, api: Api, compile_ready: CompileInputs) -> None:
        self.api = api
        self.compile_ready = compile_ready

    async def compile(self) -> tuple[str, str]:
        """A new version that was asked for, and the id of its job."""
        body = {
            "snapshot_id": str(self.compile_ready.snapshot),
            "rule_package_version_id": str(self.compile_ready.rules),
        }
        requested = await self.api.post_json(f"/v1/passports/{self.compile_ready.passport}/compile", body, status=202)
        return requested["passport_version_id"], requested["job_id"]

    async def wait_for_status(self, version: str, status: str) -> Any:
        async with asyncio.timeout(60):
            while True:
                answer = await self.api.get(f"/v1/passport-versions/{version}")
                if answer.status_code == 200 and answer.json()["status"] == status:
                    return answer.json()
                await asyncio.sleep(0.02)

    async def find_sign_job(self, status: str) -> Any:
        async with asyncio.timeout(60):
            while True:
                jobs = (await self.api.get_json("/v1/jobs", params={"type": "SIGN_PASSPORT", "status": status}))[
                    "items"
                ]
                if jobs:
                    return jobs[0]
                await asyncio.sleep(0.02)


@asynccontextmanager
async def restart_service(
    settings: Settings, database: Database, key: str, compile_ready: CompileInputs
) -> AsyncIterator[RunningService]:
    key_ring = KeyRing.from_settings(settings)
    async with (
        open_service(settings, database, peppers=PEPPERS, key_ring=key_ring) as service,
        run_worker(settings, database, key_ring=key_ring),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=create_app(service)), base_url="http://bpc.test") as http,
    ):
        yield RunningService(Api(http, key), compile_ready)


async def test_keys_are_changed_while_in_use_and_what_the_old_one_signed_stays_good(
    bpc: Program, database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    async with database.tenant(tenant) as conn:
        compile_ready = await create_compile_inputs(conn, tenant, act)
    key = await create_key(database, tenant, "Admin", act)
    first = Settings(env="test", data_dir=bpc.data_dir)

    async with restart_service(first, database, key, compile_ready) as before:
        old, _ = await before.compile()
        await before.wait_for_status(old, "SIGNED")
        await asyncio.to_thread(bpc.run_ok, "keys", "add", NEXT, "--new")

    async with restart_service(
        Settings(env="test", data_dir=bpc.data_dir, signing_key_id=NEXT), database, key, compile_ready
    ) as now:
        new, _ = await now.compile()
        await now.wait_for_status(new, "SIGNED")
        retired = await asyncio.to_thread(bpc.with_settings(BPC_SIGNING_KEY_ID=NEXT).run_ok, "keys", "retire", FIRST)
        assert "in the last hour 1 version named this key: an API that still runs with" in retired.out
        keys = tmp_path / "bpc-keys.json"
        keys.write_bytes((await now.api.get("/.well-known/bpc-keys.json")).content)
        for version, signed_by in ((old, FIRST), (new, NEXT)):
            bundle = tmp_path / f"{version}.zip"
            async with asyncio.timeout(60):
                while (answer := await now.api.get(f"/v1/passport-versions/{version}/bundle")).status_code != 200:
                    await asyncio.sleep(0.02)  # its QR code is still being drawn
            bundle.write_bytes(answer.content)
            async with database.tenant(tenant) as conn:
                stored = await passport_versions.load_bytes(conn, tenant, version)  # type: ignore[arg-type]
            assert read_receipt(stored.receipt).signing_key_id == signed_by
            assert (await now.api.post_json(f"/v1/passport-versions/{version}/replay", status=200))["status"] == "OK"
            checked = await asyncio.to_thread(bpc.run_ok, "verify", bundle, "--keys", keys, "--json")
            assert checked.json()["issuer"] == "pinned"


async def test_a_version_whose_key_is_away_is_signed_once_it_is_back_without_a_restart(
    bpc: Program, database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        compile_ready = await create_compile_inputs(conn, tenant, act)
    key = await create_key(database, tenant, "Admin", act)
    await asyncio.to_thread(bpc.run_ok, "keys", "add", NEXT, "--new")
    settings = Settings(env="test", data_dir=bpc.data_dir)
    key_path, away = bpc.data_dir / "keys" / f"{NEXT}.key", bpc.data_dir / "away.key"

    async with restart_service(settings, database, key, compile_ready) as running:
        key_ring = KeyRing.from_settings(settings)
        key_path.rename(away)
        # The API names the next key, and the worker has not got it.
        named = settings.model_copy(update={"signing_key_id": NEXT})
        async with open_service(named, database, peppers=PEPPERS, key_ring=key_ring) as service:
            transport = httpx2.ASGITransport(app=create_app(service))
            async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
                version, _ = await RunningService(Api(http, key), compile_ready).compile()
        failed = await running.find_sign_job("FAILED")
        key_path.write_bytes(b"not a key")
        key_path.chmod(0o600)
        assert key_ring.load().find(NEXT) is None
        waits = await asyncio.to_thread(bpc.run, "keys", "retire", NEXT)
        away.rename(key_path)

        await running.api.post_json(f"/v1/jobs/{failed['job_id']}:retry", status=200)
        signed = await running.wait_for_status(version, "SIGNED")

    assert_refused(waits, "CONFLICT", f"`{NEXT}` still has to sign 1 version of")
    assert failed["last_error"]["code"] == "SIGNING_KEY_MISSING"
    assert signed["signing_key_id"] == NEXT
