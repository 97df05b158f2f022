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

from bpc.api.app import create_app
from bpc.api.serve import serving
from bpc.cli.session import signer_of
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.core.receipt import read_receipt
from bpc.core.signing import public_key_of, seed_of, to_base64
from bpc.db import passport_versions
from bpc.db.address import Address
from bpc.db.database import Database
from bpc.settings import Settings
from bpc.worker.run import working
from tests.api.conftest import PEPPERS, Api, key_for
from tests.cli.program import Ended, Program
from tests.pipeline.ready import Ready, ready

FIRST, NEXT = "dev-key-1", "passport-2028"
IDENTITY = b64encode((1).to_bytes(32, "little")).decode()  # of small order: anybody can sign for it


@pytest.fixture
def bpc(data_dir: Path, address: Address) -> Program:
    """The program on a database of its own, where the first key is registered."""
    program = Program(data_dir, {"DATABASE_URL": str(address), "BPC_LOG_LEVEL": "warn"})
    program.ok("seed")
    return program


def listed(bpc: Program) -> dict[str, Any]:
    return {key["key_id"]: key for key in bpc.ok("keys", "list", "--json").json()}


def refused(ended: Ended, code: str, says: str) -> None:
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"{code}: ")
    assert says in ended.err


def test_a_new_key_is_registered_and_kept_where_only_its_owner_reads_it(bpc: Program) -> None:
    added = bpc.ok("keys", "add", NEXT, "--new", "--json").json()

    file = bpc.data_dir / "keys" / f"{NEXT}.key"
    assert added["file"] == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert added["public_key"] != file.read_text().strip()
    found = listed(bpc)
    assert (found[NEXT]["status"], found[NEXT]["at_hand"], found[NEXT]["signs"]) == ("ACTIVE", True, False)
    assert (found[FIRST]["at_hand"], found[FIRST]["signs"]) == (True, True)
    # The first one was made without a name. It keeps signing what was compiled for it when the next one takes over.
    found = listed(bpc.having(BPC_SIGNING_KEY_ID=NEXT))
    assert (found[NEXT]["signs"], found[FIRST]["signs"], found[FIRST]["at_hand"]) == (True, False, True)


def test_a_key_of_a_file_is_copied_and_one_of_elsewhere_only_registered(bpc: Program, tmp_path: Path) -> None:
    kept = tmp_path / "keys"
    here = bpc.having(BPC_SIGNING_KEYS_DIR=str(kept))
    public = here.ok("keygen", "--out", tmp_path / "made.key", "--json").json()["public_key"]
    elsewhere = to_base64(public_key_of(seed_of(bytes(32))))

    here.ok("keys", "add", NEXT, "--key", tmp_path / "made.key")
    shown = here.ok("keys", "add", "hsm", "--public", elsewhere).out

    assert (kept / f"{NEXT}.key").read_text() == (tmp_path / "made.key").read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert "private key" not in shown
    found = listed(here)
    assert (found[NEXT]["public_key"], found[NEXT]["at_hand"]) == (public, True)
    assert (found["hsm"]["public_key"], found["hsm"]["at_hand"]) == (elsewhere, False)
    lines = here.ok("keys", "list").out.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "SIGNS", "AT", "HAND", "CREATED", "RETIRED", "PUBLIC", "KEY"]
    assert {line.split()[0] for line in lines[1:]} == {FIRST, NEXT, "hsm"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("x", "--public", IDENTITY), "of small order, under which anybody can sign"),
        (("x", "--public", b64encode(b"\xff" * 32).decode()), "not canonically encoded"),
        (("x", "--public", b64encode(bytes([2, *bytes(31)])).decode()), "not a point of the curve"),
        (("x", "--public", "AAAA"), "3 bytes long, not 32"),
        (("x", "--public", "%%%%"), "not base64"),
        (("x", "--key", "/dev/null"), "0 bytes long"),
        (("x", "--key", "/nonexistent"), "cannot be read"),
        (("x",), "say where the key comes from, once"),
        (("x", "--new", "--public", IDENTITY), "say where the key comes from, once"),
        (("pepper", "--new"), "`pepper` cannot be the name of a key"),
        (("../x", "--new"), "`../x` cannot be the name of a key"),
    ],
)
def test_what_is_no_key_or_no_name_is_refused(bpc: Program, given: tuple[str, ...], says: str) -> None:
    refused(bpc.run("keys", "add", *given), "VALIDATION_ERROR", says)
    assert listed(bpc).keys() == {FIRST}


def test_a_name_never_means_another_key_and_a_key_has_one_name(bpc: Program) -> None:
    public = bpc.ok("keys", "add", NEXT, "--new", "--json").json()["public_key"]
    file = bpc.data_dir / "keys" / f"{NEXT}.key"
    before = file.read_bytes()

    refused(bpc.run("keys", "add", NEXT, "--new"), "CONFLICT", f"`{NEXT}` is the name of another key, for ever")
    refused(bpc.run("keys", "add", "b", "--public", public), "CONFLICT", f"is registered already, as `{NEXT}`")
    refused(bpc.run("keys", "add", NEXT, "--public", public), "CONFLICT", "is registered already")
    refused(bpc.run("keys", "add", NEXT, "--key", file), "CONFLICT", "is registered already")
    assert file.read_bytes() == before


def test_a_registered_key_gets_the_file_that_was_lost(bpc: Program) -> None:
    bpc.ok("keys", "add", NEXT, "--new")
    copy = (bpc.data_dir / "keys" / f"{NEXT}.key").rename(bpc.data_dir / "copy.key")
    assert not listed(bpc)[NEXT]["at_hand"]

    bpc.ok("keys", "add", NEXT, "--key", copy)

    assert listed(bpc)[NEXT]["at_hand"]


def test_the_key_that_signs_is_retired_only_by_force_and_then_it_shows(bpc: Program) -> None:
    ended = bpc.run("keys", "retire", FIRST)
    refused(ended, "CONFLICT", f"`{FIRST}` is the key that signs")
    assert "first `bpc keys add NEW --new`, then set BPC_SIGNING_KEY_ID=NEW and restart" in ended.err

    bpc.ok("keys", "retire", FIRST, "--force")

    assert (listed(bpc)[FIRST]["status"], listed(bpc)[FIRST]["signs"]) == ("RETIRED", False)
    assert f"none signs: BPC_SIGNING_KEY_ID names `{FIRST}`" in bpc.ok("keys", "list").out
    assert f"`{FIRST}` is retired: nothing can be signed" in bpc.run("doctor").out
    assert "the signing key is retired: nothing will be signed" in bpc.run("seed").err
    refused(bpc.run("keys", "retire", FIRST, "--force"), "CONFLICT", "is retired already")
    refused(bpc.run("keys", "retire", "nobody"), "NOT_FOUND", "there is no signing key `nobody`")


class Running:
    """The API and a worker of one configuration, as after a restart."""

    def __init__(self, api: Api, given: Ready) -> None:
        self.api = api
        self.given = given

    async def compiled(self) -> tuple[str, str]:
        """A new version that was asked for, and the id of its job."""
        body = {"snapshot_id": str(self.given.snapshot), "rule_package_version_id": str(self.given.rules)}
        made = await self.api.made(f"/v1/passports/{self.given.passport}/compile", body, status=202)
        return made["passport_version_id"], made["job_id"]

    async def until(self, version: str, status: str) -> Any:
        async with asyncio.timeout(60):
            while True:
                answer = await self.api.get(f"/v1/passport-versions/{version}")
                if answer.status_code == 200 and answer.json()["status"] == status:
                    return answer.json()
                await asyncio.sleep(0.02)

    async def sign_job(self, status: str) -> Any:
        async with asyncio.timeout(60):
            while True:
                jobs = (await self.api.got("/v1/jobs", params={"type": "SIGN_PASSPORT", "status": status}))["items"]
                if jobs:
                    return jobs[0]
                await asyncio.sleep(0.02)


@asynccontextmanager
async def restarted(settings: Settings, database: Database, key: str, given: Ready) -> AsyncIterator[Running]:
    signer = signer_of(settings)
    async with (
        serving(settings, database, peppers=PEPPERS, signer=signer) as service,
        working(settings, database, signer=signer),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=create_app(service)), base_url="http://bpc.test") as http,
    ):
        yield Running(Api(http, key), given)


async def test_keys_are_changed_while_in_use_and_what_the_old_one_signed_stays_good(
    bpc: Program, database: Database, tenant: TenantId, act: Act, tmp_path: Path
) -> None:
    async with database.tenant(tenant) as conn:
        given = await ready(conn, tenant, act)
    key = await key_for(database, tenant, "Admin", act)
    first = Settings(env="test", data_dir=bpc.data_dir)

    async with restarted(first, database, key, given) as before:
        old, _ = await before.compiled()
        await before.until(old, "SIGNED")
        await asyncio.to_thread(bpc.ok, "keys", "add", NEXT, "--new")

    async with restarted(Settings(env="test", data_dir=bpc.data_dir, signing_key_id=NEXT), database, key, given) as now:
        new, _ = await now.compiled()
        await now.until(new, "SIGNED")
        retired = await asyncio.to_thread(bpc.having(BPC_SIGNING_KEY_ID=NEXT).ok, "keys", "retire", FIRST)
        assert "in the last hour it was named for 1 version(s): if an API still runs with" in retired.out
        keys = tmp_path / "bpc-keys.json"
        keys.write_bytes((await now.api.get("/.well-known/bpc-keys.json")).content)
        for version, signed_by in ((old, FIRST), (new, NEXT)):
            bundle = tmp_path / f"{version}.zip"
            async with asyncio.timeout(60):
                while (answer := await now.api.get(f"/v1/passport-versions/{version}/bundle")).status_code != 200:
                    await asyncio.sleep(0.02)  # its QR code is still being drawn
            bundle.write_bytes(answer.content)
            async with database.tenant(tenant) as conn:
                stored = await passport_versions.stored(conn, tenant, version)  # type: ignore[arg-type]
            assert read_receipt(stored.receipt).signing_key_id == signed_by
            assert (await now.api.made(f"/v1/passport-versions/{version}/replay", status=200))["status"] == "OK"
            checked = await asyncio.to_thread(bpc.ok, "verify", bundle, "--keys", keys, "--json")
            assert checked.json()["issuer"] == "pinned"


async def test_a_version_whose_key_is_away_is_signed_once_it_is_back_without_a_restart(
    bpc: Program, database: Database, tenant: TenantId, act: Act
) -> None:
    async with database.tenant(tenant) as conn:
        given = await ready(conn, tenant, act)
    key = await key_for(database, tenant, "Admin", act)
    await asyncio.to_thread(bpc.ok, "keys", "add", NEXT, "--new")
    settings = Settings(env="test", data_dir=bpc.data_dir)
    there, away = bpc.data_dir / "keys" / f"{NEXT}.key", bpc.data_dir / "away.key"

    async with restarted(settings, database, key, given) as running:
        signer = signer_of(settings)
        there.rename(away)
        # The API names the next key, and the worker has not got it.
        named = settings.model_copy(update={"signing_key_id": NEXT})
        async with serving(named, database, peppers=PEPPERS, signer=signer) as service:
            transport = httpx2.ASGITransport(app=create_app(service))
            async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
                version, _ = await Running(Api(http, key), given).compiled()
        failed = await running.sign_job("FAILED")
        there.write_bytes(b"not a key")
        there.chmod(0o600)
        assert signer(NEXT) is None
        waits = await asyncio.to_thread(bpc.run, "keys", "retire", NEXT)
        away.rename(there)

        await running.api.made(f"/v1/jobs/{failed['job_id']}:retry", status=200)
        signed = await running.until(version, "SIGNED")

    refused(waits, "CONFLICT", f"`{NEXT}` has 1 version(s) still to sign")
    assert failed["last_error"]["code"] == "SIGNING_KEY_MISSING"
    assert signed["signing_key_id"] == NEXT
