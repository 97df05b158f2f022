"""Freeze a database: `python -m tools.freeze_database`, once for each release, with the code of that release.

    bpc up ─► a life (freeze_life.py) ─► kill -9 ─► bpc api, no worker ─► pg_dump ─► tests/upgrades/frozen/<schema>/

    database.sql.gz    everything, as plain SQL that any PostgreSQL from 15 on takes, if the three roles are there
    checkpoint.json    where the audit log stood, signed
    frozen.json        the keys to it, and what is in it

Every later version must upgrade what this one stored (tests/upgrades). What is secret in it was made for it: the pepper
and the signing key say so themselves, and the API key opens nothing else.
"""

import asyncio
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
from bpc_client import Client

from bpc.cli.support.session import make_operator_act
from bpc.core.audit.signing import derive_public_key, parse_seed, to_base64
from bpc.runtime import clock, postgres
from bpc.runtime.postgres.programs import find_binaries, find_server_account
from bpc.runtime.settings import load_settings
from bpc.storage.access import tenants_and_actors
from bpc.storage.database import open_migrated_database
from bpc.tasks.retention import Cutoffs, RetentionOrder, remove_expired
from tools.freeze_life import LifeInputs, fill_database, queue_waiting_jobs, serve_external

FROZEN = Path(__file__).parent.parent / "tests" / "upgrades" / "frozen"
PEPPER = b"a pepper of a frozen database, for tests only"
SEED = b"a signing key of frozen databases"[:32]
TENANT, BYGONE = "frozen", "bygone"
SETTINGS = {
    "BPC_API_KEY_PEPPER_BASE64": b64encode(PEPPER).decode(),
    "BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64": b64encode(SEED).decode(),
    "BPC_SIGNING_KEY_ID": "frozen-1",
    "BPC_COMPILER_BUILD_ID": "frozen",
    "BPC_WORKER_ID": "frozen",
    "BPC_WORKER_HTTP_PORT": "0",
    "BPC_OUTBOUND_ALLOW": "127.0.0.1",
    "BPC_RATE_LIMIT_ENABLED": "true",
    "BPC_RATE_LIMIT_RPS": "10000",
    "BPC_RATE_LIMIT_BURST": "10000",
    "BPC_JOBS_MAX_ATTEMPTS_DEFAULT": "1",
    "BPC_LOG_LEVEL": "error",
}
STATUSES = "SELECT DISTINCT status FROM jobs.job ORDER BY 1"
TABLES = """
    SELECT format('%I.%I', schemaname, relname) FROM pg_stat_user_tables
     WHERE schemaname IN ('public', 'jobs') ORDER BY 1
"""


class Program:
    """`bpc` of the version whose code this runs with."""

    def __init__(self, data_dir: Path) -> None:
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**inherited, "HOME": "/nonexistent", "BPC_DATA_DIR": str(data_dir), **SETTINGS}

    def run_json(self, *arguments: str) -> Any:
        """What a command prints with --json."""
        return json.loads(self._run(*arguments, "--json"))

    def _run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "bpc", *arguments]
        return subprocess.run(
            command, env=self.environment, cwd="/", check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    @contextmanager
    def run_until(self, *arguments: str, ends_with: signal.Signals) -> Iterator[dict[str, Any]]:
        """A command that stays, from its line of JSON on until it is sent this signal."""
        command = [sys.executable, "-m", "bpc", *arguments, "--port", "0", "--json"]
        process = subprocess.Popen(command, env=self.environment, cwd="/", stdout=subprocess.PIPE, text=True)
        if process.stdout is None:
            raise RuntimeError("no output to read")
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.send_signal(ends_with)
            process.communicate()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bpc-freeze-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        data_dir = folder / "data"
        data_dir.mkdir(mode=0o711)
        server = postgres.use_server(data_dir)  # held, or it would stop and start again between the parts
        try:
            frozen_folder = _freeze(Program(data_dir), folder, server)
        finally:
            server.release_and_wait()
    for file in sorted(frozen_folder.iterdir()):
        print(f"{file.relative_to(FROZEN.parent)}: {file.stat().st_size:,} bytes")


def _freeze(bpc: Program, folder: Path, server: postgres.EmbeddedServer) -> Path:
    bpc.run_json("migrate")
    for slug in (TENANT, BYGONE):
        bpc.run_json("tenant", "create", slug)
    keys = {slug: bpc.run_json("apikey", "create", "--tenant", slug, "--role", "Admin") for slug in (TENANT, BYGONE)}
    key, bygone = (keys[slug]["api_key"] for slug in (TENANT, BYGONE))
    with serve_external() as external_url:
        # Killed, so that what it was doing stays as it was: leased, and never ended.
        with bpc.run_until("up", ends_with=signal.SIGKILL) as up:
            inputs = asyncio.run(_fill_with_worker(up["url"], key, bygone, external_url, folder))
        with bpc.run_until("api", ends_with=signal.SIGTERM) as api:
            waiting = asyncio.run(_fill_without_worker(api["url"], key, inputs))
    asyncio.run(_apply_retention(bpc.environment))
    checkpoint = folder / "checkpoint.json"
    bpc.run_json("audit", "checkpoint", "--tenant", TENANT, "--out", str(checkpoint))
    return asyncio.run(_write_frozen(server, checkpoint.read_bytes(), key, waiting))


async def _fill_with_worker(url: str, key: str, bygone: str, external_url: str, folder: Path) -> LifeInputs:
    async with Client(url, bygone) as bpc:
        for number in range(3):
            await bpc.create_battery_product(sku=f"SKU-BYGONE-{number}", name="Of another time")
    async with Client(url, key) as bpc:
        return await fill_database(bpc, url, external_url, folder)


async def _fill_without_worker(url: str, key: str, inputs: LifeInputs) -> list[UUID]:
    async with Client(url, key) as bpc:
        return await queue_waiting_jobs(bpc, inputs)


async def _apply_retention(environment: dict[str, str]) -> None:
    """What retention leaves, in a tenant of its own: it is told that a long time has passed."""
    settings = load_settings(environment, cwd=Path("/"))
    much_later = clock.now() + timedelta(days=settings.retention_events_days + 1)
    async with open_migrated_database(settings) as database:
        tenant = await tenants_and_actors.find_tenant(database, BYGONE)
        order: RetentionOrder | None = RetentionOrder(
            run_id=clock.new_id(), cutoffs=Cutoffs.from_settings(settings, much_later)
        )
        while order is not None:
            async with database.system(tenant.tenant_id) as conn:
                order = (await remove_expired(conn, tenant.tenant_id, order, act=make_operator_act())).next_order


async def _write_frozen(server: postgres.EmbeddedServer, checkpoint: bytes, key: str, waiting: list[UUID]) -> Path:
    address = server.superuser_address("bpc")
    conn = await asyncpg.connect(**address.connect_arguments())
    applied = await conn.fetch("SELECT name FROM schema_migrations ORDER BY component DESC, version")
    counts = {row[0]: await conn.fetchval(f"SELECT count(*) FROM {row[0]}") for row in await conn.fetch(TABLES)}
    statuses = [row[0] for row in await conn.fetch(STATUSES)]
    await conn.close()
    out = FROZEN / str(applied[-1]["name"]).partition("_")[0]
    out.mkdir(parents=True, exist_ok=True)
    dump = _dump_database(address.host, address.port, address.user)
    (out / "database.sql.gz").write_bytes(gzip.compress(dump.encode(), mtime=0))
    (out / "checkpoint.json").write_bytes(checkpoint)
    facts = {
        "what": "a database for tests, and the keys to it; they open nothing else",
        "migrations": [row["name"] for row in applied],
        "tenant": TENANT,
        "api_key": key,
        "settings": SETTINGS,
        "public_key_base64": to_base64(derive_public_key(parse_seed(SEED))),
        "waiting_jobs": [str(job) for job in waiting],
        "job_statuses": statuses,
        "rows": counts,
    }
    (out / "frozen.json").write_text(json.dumps(facts, indent=2) + "\n")
    return out


def _dump_database(host: str, port: int, user: str) -> str:
    """The whole database as statements; without what only psql or only this version of the server understands."""
    program = str(find_binaries(find_server_account()) / "pg_dump")
    command = [program, "--inserts", "--rows-per-insert=100"]
    command += ["-h", host, "-p", str(port), "-U", user, "bpc"]
    text = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout
    lines = [line for line in text.split("\n") if not line.startswith(("\\", "SET transaction_timeout", "--"))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


if __name__ == "__main__":
    main()
