"""A wrong clock harms nobody: each process alone, 16 years ahead and 400 days behind, with libfaketime."""

import asyncio
import os
import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.database import open_database
from tests.cli.conftest import Installation
from tests.cli.program import Program, start_command
from tests.ports import find_free_ports

CLOCKS = {"+16y": "ahead", "-400d": "behind"}


@pytest.fixture(scope="session")
def libfaketime() -> str:
    """The library; root installs it, from Debian."""
    if not _find_library() and os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "libfaketime"]
        subprocess.run(command, capture_output=True, timeout=120, check=False)
    if (path := _find_library()) is None:
        pytest.skip("libfaketime is missing, and only root can install it: apt-get install libfaketime")
    return path


def _find_library() -> str | None:
    return next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)


@pytest.fixture(params=CLOCKS)
def wrong(request: pytest.FixtureRequest, installation: Installation, libfaketime: str) -> Program:
    """The program on a machine with a wrong clock, on a database with a right one."""
    return installation.bpc.with_settings(
        DATABASE_URL=str(installation.server.address("bpc")), LD_PRELOAD=libfaketime, FAKETIME=request.param
    )


def _run(bpc: Program, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(argument) for argument in bpc.command(*arguments)]
    return subprocess.run(
        command, env=bpc.environment(), cwd="/", capture_output=True, text=True, timeout=100, check=False
    )


def test_the_fake_reaches_the_program(wrong: Program) -> None:
    code = "from bpc.runtime import clock; print(clock.system_now().isoformat())"
    environment = wrong.environment()
    command = [wrong.command()[0], "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)

    apart = datetime.fromisoformat(done.stdout.strip()) - clock.system_now()
    assert abs(apart) > timedelta(days=300)


def test_retention_deletes_nothing_unless_somebody_confirms_the_clock_on_record(
    wrong: Program, installation: Installation
) -> None:
    slug = f"kept-{clock.new_id().hex[-12:]}"
    asyncio.run(_create_tenant(installation, slug))
    before = _count_events(installation, slug)

    refused = _run(wrong, "retention", "run", "--tenant", slug)
    confirmed = _run(wrong, "retention", "run", "--tenant", slug, "--confirm-clock", "--json")

    assert refused.returncode != 0
    assert "CLOCK_DIFFERS" in refused.stderr
    assert confirmed.returncode == 0, confirmed.stderr
    assert _count_events(installation, slug) == before > 0  # of today, by the database's time
    row = _fetch(
        installation, "SELECT payload::text AS text FROM events WHERE event_type = 'RETENTION_CLOCK_CONFIRMED'"
    )
    assert "seconds_ahead" in row[-1]["text"]


def test_the_api_is_not_ready_lets_nobody_in_and_issues_with_the_right_time(
    wrong: Program, installation: Installation
) -> None:
    expired, valid = (_create_key(installation) for _ in range(2))
    _set_expiry(installation, expired, "now() - interval '1 day'")
    _set_expiry(installation, valid, "now() + interval '1 year'")

    with start_command(wrong, "api", "--port", "0") as (_, line), httpx2.Client(base_url=line["url"]) as http:
        ready = http.get("/v1/health/ready")
        refused = http.get("/v1/documents", headers=_authorise(expired))
        accepted = http.get("/v1/documents", headers=_authorise(valid))
        headers = {**_authorise(valid), "Idempotency-Key": str(clock.new_id())}
        document = http.post("/v1/documents", json={"kind": "BOM"}, headers=headers).json()["document_id"]
        created = http.get(f"/v1/documents/{document}", headers=_authorise(valid)).json()["created_at"]

    assert (ready.status_code, ready.json()["error"]["code"]) == (503, "CLOCK_DIFFERS")
    assert ready.json()["error"]["details"]["checks"]["clock"] == "FAILED"
    assert (refused.status_code, accepted.status_code) == (401, 200)
    assert abs(datetime.fromisoformat(created) - clock.system_now()) < timedelta(minutes=2)


def test_a_worker_is_not_ready(wrong: Program) -> None:
    [port] = find_free_ports(1)
    with start_command(wrong.with_settings(BPC_WORKER_HTTP_PORT=str(port)), "worker") as _:
        answer = httpx2.get(f"http://127.0.0.1:{port}/health/ready", timeout=30)

    assert answer.status_code == 503
    assert answer.json()["workers"][0]["checks"]["clock"] == "FAILED"


async def _create_tenant(installation: Installation, slug: str) -> TenantId:
    database = await open_database(installation.server.address("bpc"), pool_size=1)
    try:
        return await tenants_and_actors.create_tenant(database, slug=slug, name=slug, act=Act(None, clock.now()))
    finally:
        await database.close()


def _create_key(installation: Installation) -> str:
    done = installation.bpc.run_ok("apikeys", "create", "--tenant", "dev", "--role", "Admin", "--json")
    return str(done.json()["api_key"])


def _set_expiry(installation: Installation, key: str, moment: str) -> None:
    prefix = key.split("_")[1]
    installation.execute(f"UPDATE api_keys SET expires_at = {moment} WHERE key_prefix = '{prefix}'")


def _authorise(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _count_events(installation: Installation, slug: str) -> int:
    sql = f"SELECT count(*) AS n FROM events JOIN tenants USING (tenant_id) WHERE slug = '{slug}'"
    return int(_fetch(installation, sql)[0]["n"])


def _fetch(installation: Installation, sql: str) -> list[Any]:
    async def fetch() -> list[Any]:
        conn = await asyncpg.connect(**installation.server.superuser_address("bpc").connect_arguments())
        try:
            return list(await conn.fetch(sql))
        finally:
            await conn.close()

    return asyncio.run(fetch())
