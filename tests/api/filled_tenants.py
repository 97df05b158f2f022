"""Two tenants with at least one row of everything, for tests that go over all routes.

    async with open_two_tenants(server, template, data_dir) as app:      # a new database, two filled tenants
        await app.own.clients["Admin"].get("/v1/documents")

Rows are inserted with the product's database roles, not through the routes: a route that is missing or wrong does not
keep the others from being tested. Every text of a tenant contains its `mark`, so a leak is found by searching for it.
"""

import io
import logging
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
from tests.api.conftest import KEY_ID, PEPPERS, SEED, Api
from tests.api.tenant_data import FilledTenant
from tests.api.tenant_rows import fill_tenant
from tests.fixtures import TestServer


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
    admin = await asyncpg.connect(**server.admin.connect_arguments())
    try:
        await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER bpc_owner')
        superuser = await asyncpg.connect(**server.admin.with_database(name).connect_arguments())
        database = await open_database(server.login.with_database(name), pool_size=pool_size)
        try:
            async with _open_application(database, superuser, {"data_dir": data_dir, **settings}) as two_tenants:
                yield two_tenants
        finally:
            await database.close()
            await superuser.close()
    finally:
        await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await admin.close()


@asynccontextmanager
async def _open_application(
    database: Database, superuser: "asyncpg.Connection[asyncpg.Record]", settings_values: dict[str, Any]
) -> AsyncIterator[TwoTenantApp]:
    act = Act(None, clock.now())
    await signing_keys.register_key(database, KEY_ID, derive_public_key(SEED), act=act)
    settings = Settings(**{"env": "test", "signing_key_id": KEY_ID, "compiler_build_id": "bpc-test", **settings_values})
    signer = Signer(SEED)
    async with open_service(settings, database, peppers=PEPPERS, key_ring=KeyRing({KEY_ID: signer})) as service:
        app = create_app(service)
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as http:
            yield TwoTenantApp(
                app=app,
                service=service,
                database=database,
                address=database.address,
                superuser=superuser,
                http=http,
                own=await fill_tenant(database, http, "acme"),
                foreign=await fill_tenant(database, http, "rival"),
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
