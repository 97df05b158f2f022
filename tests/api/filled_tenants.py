"""Two tenants with at least one row of everything, for tests that go over all routes.

    async with open_two_tenants(server, template, data_dir) as app:      # a new database, two filled tenants
        await app.own.clients["Admin"].get("/v1/documents")

Rows are inserted with the product's database roles, not through the routes: a route that is missing or wrong does not
keep the others from being tested. Every text of a tenant contains its `mark`, so a leak is found by searching for it.
"""

import fcntl
import io
import json
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import structlog
from fastapi import FastAPI

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.http.server import open_service
from bpc.core.audit.events import Act
from bpc.core.audit.signing import Signer, derive_public_key
from bpc.runtime import clock, logs
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.postgres.address import Address
from bpc.runtime.settings import Settings
from bpc.storage.audit import signing_keys
from bpc.storage.database import Database, open_database
from tests.api.battery_rows import write_packs
from tests.api.conftest import KEY_ID, PEPPERS, SEED, Api
from tests.api.tenant_data import FilledTenant, StoredTenant, open_tenant
from tests.api.tenant_rows import fill_tenant
from tests.fixtures import RUN_FOLDER, TestServer


@dataclass(frozen=True, slots=True)
class TwoTenantApp:
    """The application on a database of its own, with two filled tenants."""

    app: FastAPI
    service: Service
    database: Database
    address: Address
    superuser: "asyncpg.Connection[asyncpg.Record]"
    http: httpx2.AsyncClient
    own: FilledTenant
    foreign: FilledTenant

    @property
    def anonymous(self) -> Api:
        return Api(self.http, None)


@asynccontextmanager
async def open_two_tenants(
    server: TestServer, template: str, data_dir: Path, *, pool_size: int = 10, **settings: Any
) -> AsyncIterator[TwoTenantApp]:
    """Two filled tenants in a new database, dropped at the end; `settings` are those of the service."""
    name = f"bpc_stage_{clock.new_id().hex}"
    filled_template, tenants = await _fill_template(server, template)
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    try:
        await _copy_database(admin, server, name, filled_template)
        superuser = await asyncpg.connect(**server.admin.with_database(name).connect_arguments())
        database = await open_database(server.login.with_database(name), pool_size=pool_size)
        try:
            _write_log_files(data_dir / "log")
            for tenant in tenants:
                write_packs(data_dir, tenant)
            opened = _open_application(database, superuser, tenants, {"data_dir": data_dir, **settings})
            async with opened as two_tenants:
                yield two_tenants
        finally:
            await database.close()
            await superuser.close()
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


def _write_log_files(folder: Path) -> None:
    """Files that the API serves as its transparency log; what they say does not matter to it."""
    tile = folder / "tile" / "0" / "000.p" / "1"
    tile.parent.mkdir(parents=True, exist_ok=True)
    tile.write_bytes(bytes(32))
    (folder / "checkpoint").write_text("localhost/log\n1\n")
    (folder / "timestamp").mkdir(exist_ok=True)
    (folder / "timestamp" / "latest").write_text("1\n")


async def _copy_database(
    admin: "asyncpg.Connection[asyncpg.Record]", server: TestServer, name: str, template: str
) -> None:
    strategy = server.copy_strategy
    await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY {strategy} OWNER bpc_owner')


async def _fill_template(server: TestServer, template: str) -> tuple[str, list[StoredTenant]]:
    """The name of a database with two filled tenants, and what they hold: filled once for all tests of this run."""
    name, folder = f"{template}_with_two_tenants", Path(os.environ[RUN_FOLDER])
    stored = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stored.exists():
            admin = await asyncpg.connect(**server.admin.connect_arguments())
            await _copy_database(admin, server, name, template)
            await admin.close()
            stored.write_text(json.dumps(await _fill_database(server.login.with_database(name))))
    return name, json.loads(stored.read_text())


async def _fill_database(address: Address) -> list[StoredTenant]:
    database = await open_database(address, pool_size=2)
    await signing_keys.register_key(database, KEY_ID, derive_public_key(SEED), act=Act(None, clock.now()))
    tenants = [await fill_tenant(database, slug) for slug in ("acme", "rival")]
    await database.close()
    return tenants


@asynccontextmanager
async def _open_application(
    database: Database,
    superuser: "asyncpg.Connection[asyncpg.Record]",
    tenants: list[StoredTenant],
    settings_values: dict[str, Any],
) -> AsyncIterator[TwoTenantApp]:
    settings = Settings(**{"env": "test", "signing_key_id": KEY_ID, "compiler_build_id": "bpc-test", **settings_values})
    key_ring = KeyRing({KEY_ID: Signer(SEED)}, settings)
    async with open_service(settings, database, peppers=PEPPERS, key_ring=key_ring) as service:
        app = create_app(service)
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
            own, foreign = (open_tenant(tenant, http) for tenant in tenants)
            yield TwoTenantApp(
                app=app,
                service=service,
                database=database,
                address=database.address,
                superuser=superuser,
                http=http,
                own=own,
                foreign=foreign,
            )


class LogCapture(io.StringIO):
    """What was logged, in one of the two forms."""

    as_json = True


@contextmanager
def capture_logs(level: logs.Level, *, as_json: bool = True) -> Iterator[LogCapture]:
    """Everything that is logged while inside; logging is as before at the end."""
    root, out, configured = logging.getLogger(), LogCapture(), structlog.get_config()
    out.as_json = as_json
    handlers, before, hook, thread_hook = root.handlers[:], root.level, sys.excepthook, threading.excepthook
    logs.configure(level=level, json=as_json, component="api", stream=out)
    try:
        yield out
    finally:
        root.handlers[:], sys.excepthook, threading.excepthook = handlers, hook, thread_hook
        root.setLevel(before)
        logging.captureWarnings(capture=False)
        structlog.configure(**configured)
