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
from bpc_client import Client

from bpc.cli.setup.seed import seed_database
from bpc.core.api_keys import ApiKeySecret
from bpc.core.audit.events import Act
from bpc.core.audit.signing import parse_public_key
from bpc.core.passport.receipt import read_receipt
from bpc.runtime import clock
from bpc.runtime.settings import load_settings
from bpc.runtime.settings.data_dir import load_pepper
from bpc.storage.access import api_keys as apikeys
from bpc.storage.access import tenants_and_actors
from bpc.storage.database import open_migrated_database
from tests.cli.program import Program
from tests.journey.compile_ready import prepare_compile
from tests.measurements import RecordMeasurement, choose_effort
from tests.rotation.fleet import Fleet, run_fleet
from tests.rotation.load import CLIENTS, Load, run_load
from tests.rotation.password_server import PasswordServer, run_password_server

APIS = choose_effort(test=1, shown=2, campaign=3)  # while one is replaced, there is one more
STEADY = choose_effort(test=15, shown=2_000, campaign=20_000)  # requests between two steps
COMPONENTS = [{"part": part, "material": "steel", "mass_g": 10} for part in ("casing", "lid", "bolt", "rail", "foot")]
BOM = json.dumps({"battery": {"sku": "SKU-123", "capacity_kwh": 75.5}, "components": COMPONENTS}).encode()
TENANT = "acme"
HASHES = "SELECT key_prefix, key_hash FROM api_keys ORDER BY created_at"
SIGNED = "SELECT receipt_canonical, signing_key_id, status::text AS status FROM passport_versions"
UNSIGNED = """
    SELECT count(*) FROM unnest($1::uuid[]) asked(id)
     WHERE NOT EXISTS (SELECT FROM passport_versions v WHERE v.passport_version_id = id AND v.status <> 'COMPILING')
"""
COUNT_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1"


def make_secret() -> str:
    return b64encode(clock.random_bytes(32)).decode()


@dataclass(slots=True)
class RunningInstallation:
    """The installation, what runs of it, and the load that it is under."""

    server: PasswordServer
    fleet: Fleet
    load: Load
    api_keys: list[str]
    unused: ApiKeySecret

    async def bpc(self, *arguments: str, **settings: str) -> Any:
        """What a command of the operator prints, with the settings that are being rolled out."""
        program = self.fleet.bpc.with_settings(**settings)
        return (await asyncio.to_thread(program.run_ok, *arguments, "--json")).json()

    async def roll_out(self, *, workers: bool = True, without: tuple[str, ...] = (), **settings: str) -> None:
        """Give every process these settings, one process after the other; then have the load go on for a while."""
        bpc = self.fleet.bpc.with_settings(**settings)
        settings_left = {name: value for name, value in bpc.settings.items() if name not in without}
        await self.fleet.roll_out(Program(bpc.data_dir, settings_left, bpc.with_coverage), workers=workers)
        await self.wait_for_load()

    async def wait_for_load(self) -> None:
        await self.load.wait_for_requests(STEADY)
        assert self.load.failed == []

    async def fetch_rows(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        """What is stored, read past all rules."""
        conn = await asyncpg.connect(self.server.url("postgres", self.server.password))
        try:
            return await conn.fetch(query, *arguments)
        finally:
            await conn.close()


@pytest.fixture
async def installation(run_folder: Path) -> AsyncIterator[RunningInstallation]:
    folder = Path(tempfile.mkdtemp(prefix="rotation-", dir=run_folder))
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    data = folder / "data"
    data.mkdir(mode=0o700)
    with run_password_server(folder / "cluster") as server:
        login = await _create_first_login(server)
        bpc = Program(
            data,
            {
                "BPC_ENV": "prod",
                "BPC_LOG_LEVEL": "error",
                "BPC_SIGNING_KEY_ID": "key-1",
                "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64": make_secret(),
                "BPC_API_KEY_PEPPER_BASE64": make_secret(),
                "DATABASE_URL": login,
            },
            with_coverage=False,
        )
        *api_keys, unused = await _seed_keys(bpc)
        async with run_fleet(bpc, apis=APIS, workers=1) as running:
            async with Client(running.url, api_keys[0]) as client:
                about = await prepare_compile(client, bom=BOM)
            async with run_load(running.url, api_keys, about) as load:
                yield RunningInstallation(server, running, load, api_keys, ApiKeySecret.parse(unused))


async def _create_first_login(server: PasswordServer) -> str:
    """What docs/database.md has an administrator do."""
    password = clock.random_bytes(16).hex()
    await server.administer(
        *(f"CREATE ROLE {role} NOLOGIN NOBYPASSRLS" for role in ("bpc_owner", "bpc_app", "bpc_system")),
        "GRANT bpc_app TO bpc_system",
        "CREATE DATABASE bpc OWNER bpc_owner",
        *_make_login_statements("bpc_login_1", password),
    )
    return server.url("bpc_login_1", password)


def _make_login_statements(name: str, password: str) -> tuple[str, ...]:
    return (f"CREATE ROLE {name} LOGIN PASSWORD '{password}'", f"GRANT bpc_owner, bpc_app, bpc_system TO {name}")


async def _seed_keys(bpc: Program) -> list[str]:
    """Tables, the signing key, a tenant, and a key for each client, and one that nobody will use."""
    settings, act = load_settings(bpc.environment(), cwd=bpc.data_dir), Act(None, clock.now())
    async with open_migrated_database(settings, migrate_first=True) as database:
        await seed_database(database, settings)
        tenant = await tenants_and_actors.create_tenant(database, slug=TENANT, name="Acme", act=act)
        api_keys = []
        async with database.tenant(tenant) as conn:
            for _ in range(len(CLIENTS) + 1):
                actor = await tenants_and_actors.create_actor(
                    conn, tenant, kind="API_CLIENT", display_name="Client", roles=["Admin"], act=act
                )
                issued = await apikeys.create_key(conn, tenant, actor, pepper=load_pepper(settings), act=act)
                api_keys.append(issued.api_key.text)
    return api_keys


@pytest.mark.long
async def test_every_secret_is_replaced_under_load(
    installation: RunningInstallation, record_measurement: RecordMeasurement, tmp_path: Path
) -> None:
    # One test: three would each need a server, processes and a load of their own, at the same time.
    await _rotate_pepper(installation, record_measurement)
    await _rotate_signing_key(installation, record_measurement, tmp_path / "key-1.key")
    await _rotate_database_password(installation, record_measurement)


async def _measure_rotation(
    installation: RunningInstallation, measured: RecordMeasurement, name: str, rotate: Callable[[], Awaitable[None]]
) -> None:
    """Rotate under load, and keep what it took."""
    await installation.wait_for_load()
    requests, restarts, started = installation.load.requests, installation.fleet.restarts, time.monotonic()
    await rotate()
    assert installation.load.failed == []
    measured(
        f"rotation-{name}",
        requests=installation.load.requests - requests,
        failed=len(installation.load.failed),
        processes_replaced=installation.fleet.restarts - restarts,
        seconds=round(time.monotonic() - started, 1),
    )


async def _rotate_pepper(installation: RunningInstallation, measured: RecordMeasurement) -> None:
    old, new = installation.fleet.bpc.settings["BPC_API_KEY_PEPPER_BASE64"], make_secret()

    async def rotate() -> None:
        await installation.roll_out(workers=False, BPC_API_KEY_PEPPER_NEXT_BASE64=new)
        await installation.roll_out(
            workers=False,
            without=("BPC_API_KEY_PEPPER_NEXT_BASE64",),
            BPC_API_KEY_PEPPER_BASE64=new,
            BPC_API_KEY_PEPPER_PREVIOUS_BASE64=old,
        )
        key_rows = await installation.bpc("apikey", "list", "--tenant", TENANT)
        unrotated = [key["key_prefix"] for key in key_rows if key["pepper"] == "previous"]
        assert unrotated == [installation.unused.prefix]
        await installation.bpc("apikey", "revoke", unrotated[0], "--tenant", TENANT)
        (check,) = [entry for entry in (await installation.bpc("doctor"))["checks"] if entry["check"] == "API keys"]
        assert (check["health"], "you can unset BPC_API_KEY_PEPPER_PREVIOUS_BASE64" in check["says"]) == ("ok", True)
        await installation.roll_out(workers=False, without=("BPC_API_KEY_PEPPER_PREVIOUS_BASE64",))

    await _measure_rotation(installation, measured, "pepper", rotate)

    stored = {row["key_prefix"]: row["key_hash"] for row in await installation.fetch_rows(HASHES)}
    keys = [ApiKeySecret.parse(text) for text in installation.api_keys]
    assert [key.matches(stored[key.prefix], b64decode(new)) for key in keys] == [True] * len(CLIENTS)
    assert [key.matches(stored[key.prefix], b64decode(old)) for key in keys] == [False] * len(CLIENTS)


async def _rotate_signing_key(
    installation: RunningInstallation, measured: RecordMeasurement, old_key_file: Path
) -> None:
    old = installation.fleet.bpc.settings["BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64"]

    async def rotate() -> None:
        new = Path((await installation.bpc("keys", "add", "key-2", "--new"))["file"])
        old_key_file.write_text(old)
        old_key_file.chmod(0o600)
        await installation.bpc("keys", "add", "key-1", "--key", str(old_key_file))
        await installation.roll_out(
            BPC_SIGNING_KEY_ID="key-2", BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64=new.read_text().strip()
        )
        await _wait_until_all_signed(installation)
        await installation.bpc("keys", "retire", "key-1")
        await installation.wait_for_load()

    await _measure_rotation(installation, measured, "signing-key", rotate)
    await _wait_until_all_signed(installation)

    public = {key["key_id"]: key for key in await installation.bpc("keys", "list")}
    assert (public["key-1"]["status"], public["key-2"]["status"]) == ("RETIRED", "ACTIVE")
    signed_by = set()
    for row in await installation.fetch_rows(SIGNED):
        receipt = read_receipt(row["receipt_canonical"])
        if row["status"] == "COMPILING":  # asked for since
            continue
        assert receipt.signing_key_id == row["signing_key_id"]
        receipt.verify(parse_public_key(b64decode(public[receipt.signing_key_id]["public_key"])))
        signed_by.add(receipt.signing_key_id)
    assert signed_by == {"key-1", "key-2"}


async def _wait_until_all_signed(installation: RunningInstallation) -> None:
    """Return when every version that was asked for until now is signed."""
    version_ids, deadline = list(installation.load.versions), time.monotonic() + 120
    while (await installation.fetch_rows(UNSIGNED, version_ids))[0]["count"]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def _rotate_database_password(installation: RunningInstallation, measured: RecordMeasurement) -> None:
    password = clock.random_bytes(16).hex()
    before = installation.fleet.bpc.settings["DATABASE_URL"]

    async def rotate() -> None:
        await installation.server.administer(*_make_login_statements("bpc_login_2", password))
        await installation.roll_out(DATABASE_URL=installation.server.url("bpc_login_2", password))
        admin = await installation.server.connect()
        try:
            assert await admin.fetchval(COUNT_SESSIONS, "bpc_login_1") == 0
            assert await admin.fetchval(COUNT_SESSIONS, "bpc_login_2") > 0
        finally:
            await admin.close()
        await installation.server.administer("ALTER ROLE bpc_login_1 NOLOGIN PASSWORD NULL")
        await installation.wait_for_load()

    await _measure_rotation(installation, measured, "database-password", rotate)

    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        await asyncpg.connect(before)
