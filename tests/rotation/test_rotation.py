"""Every secret can be changed while requests are answered, and none of them fails: docs/secrets.md, done under load.

One installation in prod: API processes on a socket that stays, a worker, a PostgreSQL that asks for passwords. Clients
never stop asking and never ask twice for what failed.
"""

import asyncio
import json
import os
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bpc import fresh
from bpc.cli.seed import plant
from bpc.client import Client
from bpc.core.apikeys import ApiKey
from bpc.core.events import Act
from bpc.core.receipt import read_receipt
from bpc.core.signing import checked_public_key
from bpc.db import actors, apikeys, tenants
from bpc.db.opening import opened
from bpc.settings import load, pepper
from tests.cli.program import Program
from tests.journey.compilable import compilable
from tests.measuring import Measured, effort
from tests.rotation.fleet import Fleet, fleet
from tests.rotation.load import CLIENTS, Load, loaded
from tests.rotation.server import PasswordServer, password_server

APIS = effort(test=1, shown=2, campaign=3)  # while one is replaced, there is one more
STEADY = effort(test=15, shown=2_000, campaign=20_000)  # requests between two steps
COMPONENTS = [{"part": part, "material": "steel", "mass_g": 10} for part in ("casing", "lid", "bolt", "rail", "foot")]
BOM = json.dumps({"battery": {"sku": "SKU-123", "capacity_kwh": 75.5}, "components": COMPONENTS}).encode()
TENANT = "acme"
HASHES = "SELECT key_prefix, key_hash FROM api_keys ORDER BY created_at"
SIGNED = "SELECT receipt_canonical, signing_key_id, status::text AS status FROM passport_versions"
UNSIGNED = """
    SELECT count(*) FROM unnest($1::uuid[]) asked(id)
     WHERE NOT EXISTS (SELECT FROM passport_versions v WHERE v.passport_version_id = id AND v.status <> 'COMPILING')
"""
WHO = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1"


def secret() -> str:
    return b64encode(fresh.entropy(32)).decode()


@dataclass(slots=True)
class House:
    """The installation, what runs of it, and the load that it is under."""

    server: PasswordServer
    fleet: Fleet
    load: Load
    api_keys: list[str]
    unused: ApiKey

    async def bpc(self, *arguments: str, **settings: str) -> Any:
        """What a command of the operator prints, with the settings that are being rolled out."""
        program = self.fleet.bpc.having(**settings)
        return (await asyncio.to_thread(program.ok, *arguments, "--json")).json()

    async def roll_out(self, *, workers: bool = True, without: tuple[str, ...] = (), **settings: str) -> None:
        """Give every process these settings, one process after the other; then have the load go on for a while."""
        bpc = self.fleet.bpc.having(**settings)
        kept = {name: value for name, value in bpc.settings.items() if name not in without}
        await self.fleet.roll_out(Program(bpc.data_dir, kept, bpc.measured), workers=workers)
        await self.settled()

    async def settled(self) -> None:
        await self.load.settled(STEADY)
        assert self.load.failed == []

    async def rows(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        """What is stored, read past all rules."""
        conn = await asyncpg.connect(self.server.url("postgres", self.server.password))
        try:
            return await conn.fetch(query, *arguments)
        finally:
            await conn.close()


@pytest.fixture
async def house(run_folder: Path) -> AsyncIterator[House]:
    folder = Path(tempfile.mkdtemp(prefix="rotation-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    data = folder / "data"
    data.mkdir(mode=0o700)
    with password_server(folder / "cluster") as server:
        login = await _first_login(server)
        bpc = Program(
            data,
            {
                "BPC_ENV": "prod",
                "BPC_LOG_LEVEL": "error",
                "BPC_SIGNING_KEY_ID": "key-1",
                "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64": secret(),
                "BPC_API_KEY_PEPPER_BASE64": secret(),
                "DATABASE_URL": login,
            },
            measured=False,
        )
        *api_keys, unused = await _seeded(bpc)
        async with fleet(bpc, apis=APIS, workers=1) as running:
            async with Client(running.url, api_keys[0]) as client:
                about = await compilable(client, bom=BOM)
            async with loaded(running.url, api_keys, about) as load:
                yield House(server, running, load, api_keys, ApiKey.parse(unused))


async def _first_login(server: PasswordServer) -> str:
    """What docs/database.md has an administrator do."""
    password = fresh.entropy(16).hex()
    await server.administer(
        *(f"CREATE ROLE {role} NOLOGIN NOBYPASSRLS" for role in ("bpc_owner", "bpc_app", "bpc_system")),
        "GRANT bpc_app TO bpc_system",
        "CREATE DATABASE bpc OWNER bpc_owner",
        *_new_login("bpc_login_1", password),
    )
    return server.url("bpc_login_1", password)


def _new_login(name: str, password: str) -> tuple[str, ...]:
    return (f"CREATE ROLE {name} LOGIN PASSWORD '{password}'", f"GRANT bpc_owner, bpc_app, bpc_system TO {name}")


async def _seeded(bpc: Program) -> list[str]:
    """Tables, the signing key, a tenant, and a key for each client, and one that nobody will use."""
    settings, act = load(bpc.environment(), cwd=bpc.data_dir), Act(None, fresh.now())
    async with opened(settings, migrate_first=True) as database:
        await plant(database, settings)
        tenant = await tenants.create(database, slug=TENANT, name="Acme", act=act)
        api_keys = []
        async with database.tenant(tenant) as conn:
            for _ in range(len(CLIENTS) + 1):
                actor = await actors.create(
                    conn, tenant, kind="API_CLIENT", display_name="Client", roles=["Admin"], act=act
                )
                issued = await apikeys.create(conn, tenant, actor, pepper=pepper(settings), act=act)
                api_keys.append(issued.api_key.text)
    return api_keys


async def test_every_secret_is_replaced_under_load(house: House, measured: Measured, tmp_path: Path) -> None:
    # One test: three would each need a server, processes and a load of their own, at the same time.
    await _replace_the_pepper(house, measured)
    await _replace_the_signing_key(house, measured, tmp_path / "key-1.key")
    await _replace_the_password_of_the_database(house, measured)


async def _measured(house: House, measured: Measured, name: str, rotate: Callable[[], Awaitable[None]]) -> None:
    """Rotate under load, and keep what it took."""
    await house.settled()
    requests, restarts, started = house.load.requests, house.fleet.restarts, time.monotonic()
    await rotate()
    assert house.load.failed == []
    measured(
        f"rotation-{name}",
        requests=house.load.requests - requests,
        failed=len(house.load.failed),
        processes_replaced=house.fleet.restarts - restarts,
        seconds=round(time.monotonic() - started, 1),
    )


async def _replace_the_pepper(house: House, measured: Measured) -> None:
    old, new = house.fleet.bpc.settings["BPC_API_KEY_PEPPER_BASE64"], secret()

    async def rotate() -> None:
        await house.roll_out(workers=False, BPC_API_KEY_PEPPER_NEXT_BASE64=new)
        await house.roll_out(
            workers=False,
            without=("BPC_API_KEY_PEPPER_NEXT_BASE64",),
            BPC_API_KEY_PEPPER_BASE64=new,
            BPC_API_KEY_PEPPER_PREVIOUS_BASE64=old,
        )
        listed = await house.bpc("apikey", "list", "--tenant", TENANT)
        left = [key["key_prefix"] for key in listed if key["pepper"] == "previous"]
        assert left == [house.unused.prefix]
        await house.bpc("apikey", "revoke", left[0], "--tenant", TENANT)
        (found,) = [each for each in (await house.bpc("doctor"))["checks"] if each["check"] == "API keys"]
        assert (found["health"], found["says"].endswith(" may go")) == ("ok", True)
        await house.roll_out(workers=False, without=("BPC_API_KEY_PEPPER_PREVIOUS_BASE64",))

    await _measured(house, measured, "pepper", rotate)

    stored = {row["key_prefix"]: row["key_hash"] for row in await house.rows(HASHES)}
    keys = [ApiKey.parse(text) for text in house.api_keys]
    assert [key.matches(stored[key.prefix], b64decode(new)) for key in keys] == [True] * len(CLIENTS)
    assert [key.matches(stored[key.prefix], b64decode(old)) for key in keys] == [False] * len(CLIENTS)


async def _replace_the_signing_key(house: House, measured: Measured, kept: Path) -> None:
    old = house.fleet.bpc.settings["BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64"]

    async def rotate() -> None:
        new = Path((await house.bpc("keys", "add", "key-2", "--new"))["file"])
        kept.write_text(old)
        kept.chmod(0o600)
        await house.bpc("keys", "add", "key-1", "--key", str(kept))
        await house.roll_out(BPC_SIGNING_KEY_ID="key-2", BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64=new.read_text().strip())
        await _all_signed(house)
        await house.bpc("keys", "retire", "key-1")
        await house.settled()

    await _measured(house, measured, "signing-key", rotate)
    await _all_signed(house)

    public = {each["key_id"]: each for each in await house.bpc("keys", "list")}
    assert (public["key-1"]["status"], public["key-2"]["status"]) == ("RETIRED", "ACTIVE")
    signed_by = set()
    for row in await house.rows(SIGNED):
        receipt = read_receipt(row["receipt_canonical"])
        if row["status"] == "COMPILING":  # asked for since
            continue
        assert receipt.signing_key_id == row["signing_key_id"]
        receipt.verify(checked_public_key(b64decode(public[receipt.signing_key_id]["public_key"])))
        signed_by.add(receipt.signing_key_id)
    assert signed_by == {"key-1", "key-2"}


async def _all_signed(house: House) -> None:
    """Return when every version that was asked for until now is signed."""
    asked, deadline = list(house.load.versions), time.monotonic() + 120
    while (await house.rows(UNSIGNED, asked))[0]["count"]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def _replace_the_password_of_the_database(house: House, measured: Measured) -> None:
    password = fresh.entropy(16).hex()
    before = house.fleet.bpc.settings["DATABASE_URL"]

    async def rotate() -> None:
        await house.server.administer(*_new_login("bpc_login_2", password))
        await house.roll_out(DATABASE_URL=house.server.url("bpc_login_2", password))
        admin = await house.server.connect()
        try:
            assert await admin.fetchval(WHO, "bpc_login_1") == 0
            assert await admin.fetchval(WHO, "bpc_login_2") > 0
        finally:
            await admin.close()
        await house.server.administer("ALTER ROLE bpc_login_1 NOLOGIN PASSWORD NULL")
        await house.settled()

    await _measured(house, measured, "database-password", rotate)

    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        await asyncpg.connect(before)
