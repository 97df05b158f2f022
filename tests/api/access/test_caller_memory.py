"""Callers from memory: fewer questions to the database, and whatever is taken away is gone at the very next request.

Each change is made past the process that serves, as another process or an operator would make it.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import asyncpg
import httpx2
import pytest

from bpc.api.access.caller_memory import CallerMemory
from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.http.server import open_service
from bpc.core.api_keys import ENTROPY_BYTES, ApiKeySecret
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.storage.access.api_requests import find_caller
from bpc.storage.database import Database, open_database
from tests.api.conftest import PEPPERS, Api, create_key

PATH: Final = "/v1/documents"
BODY: Final = {"kind": "OTHER"}
INSERT_POLICY: Final = """
    WITH policy AS (INSERT INTO policies (tenant_id, policy_id, name)
                    SELECT tenant_id, gen_random_uuid(), 'no documents' FROM tenants WHERE tenant_id = $1
                    RETURNING tenant_id, policy_id)
    INSERT INTO policy_versions (tenant_id, policy_version_id, policy_id, version, effect, target, policy_json,
                                 policy_canonical, policy_hash)
    SELECT tenant_id, gen_random_uuid(), policy_id, 1, 'DENY', 'docs:*', '{}', '\\x7b7d', sha256('\\x7b7d') FROM policy
"""
CHANGES: Final = {
    "the key is revoked": ("UPDATE api_keys SET revoked_at = now() WHERE tenant_id = $1", 401, "API_KEY_REVOKED"),
    "the key is made to expire": ("UPDATE api_keys SET expires_at = now() WHERE tenant_id = $1", 401, "UNAUTHORIZED"),
    "the actor is deactivated": ("UPDATE actors SET is_active = false WHERE tenant_id = $1", 401, "UNAUTHORIZED"),
    "the tenant is deactivated": ("UPDATE tenants SET is_active = false WHERE tenant_id = $1", 401, "UNAUTHORIZED"),
    "a role is taken from the actor": ("DELETE FROM actor_roles WHERE tenant_id = $1", 403, "FORBIDDEN"),
    "permissions are taken from a role": ("DELETE FROM role_permissions WHERE tenant_id = $1", 403, "FORBIDDEN"),
    "a policy denies it": (INSERT_POLICY, 403, "FORBIDDEN"),
}


@pytest.fixture
async def two_processes(service: Service, database: Database) -> AsyncIterator[Sequence[Service]]:
    """Two services with memories and connections of their own."""
    pool = await open_database(database.address, pool_size=3)
    async with open_service(service.settings, pool, peppers=PEPPERS, key_ring=KeyRing({})) as other:
        yield service, other
    await pool.close()


def _open_client(service: Service, key: str) -> Api:
    transport = httpx2.ASGITransport(app=create_app(service))
    return Api(httpx2.AsyncClient(transport=transport, base_url="http://bpc.test"), key)


def _read_code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize("change", CHANGES)
async def test_what_is_taken_away_is_gone_at_the_next_request_of_every_process(
    two_processes: Sequence[Service], database: Database, tenant: TenantId, act: Act, superuser: Any, change: str
) -> None:
    statement, status, code = CHANGES[change]
    key = await create_key(database, tenant, "Admin", act)
    readers = [_open_client(each, key) for each in two_processes]
    for api in readers:
        for _ in range(2):
            assert (await api.get(PATH)).status_code == 200
    assert all(each.callers.find(ApiKeySecret.parse(key), clock.now()) for each in two_processes)

    await superuser.execute(statement, tenant)

    reading, writing = readers
    assert _read_code(await reading.get(PATH)) == (status, code)
    assert _read_code(await writing.post(PATH, BODY)) == (status, code)
    assert _read_code(await reading.get(PATH)) == (status, code)
    assert await superuser.fetchval("SELECT count(*) FROM documents WHERE tenant_id = $1", tenant) == 0
    for api in readers:
        await api.http.aclose()


async def test_what_is_given_is_there_at_the_next_request(
    service: Service, database: Database, tenant: TenantId, act: Act, superuser: Any
) -> None:
    api = _open_client(service, await create_key(database, tenant, "Auditor", act))
    for _ in range(2):
        assert (await api.post(PATH, BODY)).status_code == 403

    await superuser.execute(
        "INSERT INTO role_permissions SELECT tenant_id, role_id, 'docs:upload' FROM roles WHERE name = 'Auditor'"
    )

    assert (await api.post(PATH, BODY)).status_code == 201
    await api.http.aclose()


async def test_a_denial_is_recorded_once_whether_or_not_the_caller_was_known(
    service: Service, database: Database, tenant: TenantId, act: Act, superuser: Any
) -> None:
    api = _open_client(service, await create_key(database, tenant, "Auditor", act))

    for _ in range(3):
        assert (await api.post(PATH, BODY)).status_code == 403

    count = await superuser.fetchval("SELECT count(*) FROM events WHERE event_type = 'ACCESS_DENIED'")
    assert count == 3
    await api.http.aclose()


async def test_a_known_caller_reads_in_three_round_trips(
    service: Service, database: Database, tenant: TenantId, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = _open_client(service, await create_key(database, tenant, "Admin", act))
    document = (await api.post(PATH, BODY)).json()["document_id"]
    await api.get(f"{PATH}/{document}")
    statements: list[str] = []
    for name in ("execute", "fetchrow", "fetch", "fetchval"):
        monkeypatch.setattr(asyncpg.Connection, name, _note(getattr(asyncpg.Connection, name), statements))

    assert (await api.get(f"{PATH}/{document}")).status_code == 200

    assert [" ".join(text.split())[:6] for text in statements] == ["BEGIN;", "SELECT", "COMMIT"]
    assert "require_access_version" in statements[0]
    await api.http.aclose()


def _note(method: Any, statements: list[str]) -> Any:
    async def noted(conn: Any, query: str, *arguments: Any, **options: Any) -> Any:
        statements.append(query)
        return await method(conn, query, *arguments, **options)

    return noted


async def test_a_connection_comes_back_with_nothing_of_the_last_request(database: Database, tenant: TenantId) -> None:
    async with database.tenant(tenant) as conn:
        await conn.execute("SET app.tenant_id = 'left behind'; SET statement_timeout = 12345; LISTEN noise")
        await conn.execute("SELECT pg_advisory_lock(42)")
        process = await conn.fetchval("SELECT pg_backend_pid()")

    async with database.plain() as conn:
        assert await conn.fetchval("SELECT pg_backend_pid()") == process
        assert not await conn.fetchval("SELECT current_setting('app.tenant_id', true)")
        assert await conn.fetchval("SHOW statement_timeout") == "0"
        assert await conn.fetchval("SELECT count(*) FROM pg_listening_channels()") == 0
        assert (
            await conn.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
            == 0
        )
        assert await conn.fetchval("SELECT current_user") == "bpc_app"


async def test_nobody_is_remembered_longer_than_the_key_is_valid_or_a_use_goes_unwritten(
    database: Database, tenant: TenantId, act: Act
) -> None:
    key = ApiKeySecret.parse(await create_key(database, tenant, "Admin", act))
    async with database.plain() as conn:
        row = await find_caller(conn, key.prefix)
    now = clock.now()
    assert row is not None
    caller = replace(row, last_used_at=now, expires_at=now + timedelta(seconds=30))
    memory = CallerMemory(most=2)

    memory.remember(key, caller, now)

    assert memory.find(key, now + timedelta(seconds=29)) is caller
    assert memory.find(key, now + timedelta(seconds=30)) is None
    memory.remember(key, replace(row, last_used_at=now), now)
    assert memory.find(key, now + timedelta(seconds=61)) is None
    for _ in range(3):
        memory.remember(ApiKeySecret.generate(clock.random_bytes(ENTROPY_BYTES)), caller, now)
    assert len(memory) == 2
