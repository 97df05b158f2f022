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

from bpc import fresh
from bpc.cli.session import operator_act
from bpc.client import Client
from bpc.core.signing import public_key_of, seed_of, to_base64
from bpc.db import embedded, tenants
from bpc.db.embedded.account import server_account
from bpc.db.embedded.binaries import find_binaries
from bpc.db.opening import opened
from bpc.errands.retention import Cutoffs, Periods, RetentionOrder, apply
from bpc.settings import load
from tools.freeze_life import Made, elsewhere, left_waiting, lived

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
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**kept, "HOME": "/nonexistent", "BPC_DATA_DIR": str(data_dir), **SETTINGS}

    def said(self, *arguments: str) -> Any:
        """What a command prints with --json."""
        return json.loads(self._run(*arguments, "--json"))

    def _run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "bpc", *arguments]
        return subprocess.run(
            command, env=self.environment, cwd="/", check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    @contextmanager
    def started(self, *arguments: str, ends_with: signal.Signals) -> Iterator[dict[str, Any]]:
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
        server = embedded.use(data_dir)  # held, or it would stop and start again between the parts
        try:
            written = _frozen(Program(data_dir), folder, server)
        finally:
            server.release_and_wait()
    for file in sorted(written.iterdir()):
        print(f"{file.relative_to(FROZEN.parent)}: {file.stat().st_size:,} bytes")


def _frozen(bpc: Program, folder: Path, server: embedded.Server) -> Path:
    bpc.said("migrate")
    for slug in (TENANT, BYGONE):
        bpc.said("tenant", "create", slug)
    keys = {slug: bpc.said("apikey", "create", "--tenant", slug, "--role", "Admin") for slug in (TENANT, BYGONE)}
    key, bygone = (keys[slug]["api_key"] for slug in (TENANT, BYGONE))
    with elsewhere() as away:
        # Killed, so that what it was doing stays as it was: leased, and never ended.
        with bpc.started("up", ends_with=signal.SIGKILL) as up:
            made = asyncio.run(_with_a_worker(up["url"], key, bygone, away, folder))
        with bpc.started("api", ends_with=signal.SIGTERM) as api:
            waiting = asyncio.run(_without(api["url"], key, made))
    asyncio.run(_forgotten(bpc.environment))
    checkpoint = folder / "checkpoint.json"
    bpc.said("audit", "checkpoint", "--tenant", TENANT, "--out", str(checkpoint))
    return asyncio.run(_written(server, checkpoint.read_bytes(), key, waiting))


async def _with_a_worker(url: str, key: str, bygone: str, away: str, folder: Path) -> Made:
    async with Client(url, bygone) as bpc:
        for number in range(3):
            await bpc.create_battery_product(sku=f"SKU-BYGONE-{number}", name="Of another time")
    async with Client(url, key) as bpc:
        return await lived(bpc, url, away, folder)


async def _without(url: str, key: str, made: Made) -> list[UUID]:
    async with Client(url, key) as bpc:
        return await left_waiting(bpc, made)


async def _forgotten(environment: dict[str, str]) -> None:
    """What retention leaves, in a tenant of its own: it is told that a long time has passed."""
    settings = load(environment, cwd=Path("/"))
    periods = Periods.of(settings)
    much_later = fresh.now() + timedelta(days=periods.events + 1)
    async with opened(settings) as database:
        tenant = await tenants.find(database, BYGONE)
        order: RetentionOrder | None = RetentionOrder(run_id=fresh.new_id(), cutoffs=Cutoffs.at(much_later, periods))
        while order is not None:
            async with database.system(tenant.tenant_id) as conn:
                order = (await apply(conn, tenant.tenant_id, order, act=operator_act())).following


async def _written(server: embedded.Server, checkpoint: bytes, key: str, waiting: list[UUID]) -> Path:
    address = server.superuser_address("bpc")
    conn = await asyncpg.connect(**address.connect_arguments())
    applied = await conn.fetch("SELECT name FROM schema_migrations ORDER BY component DESC, version")
    counts = {row[0]: await conn.fetchval(f"SELECT count(*) FROM {row[0]}") for row in await conn.fetch(TABLES)}
    statuses = [row[0] for row in await conn.fetch(STATUSES)]
    await conn.close()
    out = FROZEN / str(applied[-1]["name"]).partition("_")[0]
    out.mkdir(parents=True, exist_ok=True)
    dump = _dumped(address.host, address.port, address.user)
    (out / "database.sql.gz").write_bytes(gzip.compress(dump.encode(), mtime=0))
    (out / "checkpoint.json").write_bytes(checkpoint)
    facts = {
        "what": "a database for tests, and the keys to it; they open nothing else",
        "migrations": [row["name"] for row in applied],
        "tenant": TENANT,
        "api_key": key,
        "settings": SETTINGS,
        "public_key_base64": to_base64(public_key_of(seed_of(SEED))),
        "waiting_jobs": [str(job) for job in waiting],
        "job_statuses": statuses,
        "rows": counts,
    }
    (out / "frozen.json").write_text(json.dumps(facts, indent=2) + "\n")
    return out


def _dumped(host: str, port: int, user: str) -> str:
    """The whole database as statements; without what only psql or only this version of the server understands."""
    program = str(find_binaries(server_account()).path("pg_dump"))
    command = [program, "--inserts", "--rows-per-insert=100"]
    command += ["-h", host, "-p", str(port), "-U", user, "bpc"]
    text = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout
    lines = [line for line in text.split("\n") if not line.startswith(("\\", "SET transaction_timeout", "--"))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


if __name__ == "__main__":
    main()
