"""What tests of the API share: the application in this process, two tenants, and a key for every role in each."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI
from tests.jobs.support.run_workers import run_worker

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.http.server import open_service
from bpc.core.api_keys import Peppers
from bpc.core.audit.events import Act
from bpc.core.audit.signing import Signer, derive_public_key, parse_seed
from bpc.core.formats.ids import TenantId
from bpc.core.policies import ROLES
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.runtime.settings import Settings
from bpc.storage.access import api_keys, tenants_and_actors
from bpc.storage.audit import signing_keys
from bpc.storage.database import Database
from tests.fixtures import TestServer

if TYPE_CHECKING:
    from tests.api.filled_tenants import TwoTenantApp

PEPPER = b"a pepper of tests, 32 bytes long"
PEPPERS = Peppers(in_use=PEPPER)
SEED = parse_seed(bytes(range(32)))
KEY_ID = "test-key-1"


class Api:
    """A client with a key: every write gets an Idempotency-Key of its own unless it is given one."""

    def __init__(self, http: httpx2.AsyncClient, key: str | None) -> None:
        self.http = http
        self.key = key

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        return await self.send("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        return await self.send("POST", path, body, **options)

    async def delete(self, path: str, **options: Any) -> httpx2.Response:
        return await self.send("DELETE", path, **options)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> httpx2.Response:
        auth_headers = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        if method != "GET":
            auth_headers["Idempotency-Key"] = idempotency_key or str(clock.new_id())
        if body is not None:
            options["json"] = body
        return await self.http.request(method, path, headers={**auth_headers, **(headers or {})}, **options)

    async def post_json(self, path: str, body: Any = None, *, status: int = 201) -> Any:
        """The answer to a POST that must succeed."""
        answer = await self.post(path, body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def get_json(self, path: str, **options: Any) -> Any:
        """The answer to a GET that must succeed."""
        answer = await self.get(path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(env="test", data_dir=tmp_path, signing_key_id=KEY_ID, compiler_build_id="bpc-test")


@pytest.fixture
async def service(settings: Settings, database: Database, act: Act) -> AsyncIterator[Service]:
    await signing_keys.register_key(database, KEY_ID, derive_public_key(SEED), act=act)
    key_ring = KeyRing({KEY_ID: Signer(SEED)}, settings)
    async with open_service(settings, database, peppers=PEPPERS, key_ring=key_ring) as opened:
        yield opened


@pytest.fixture
def app(service: Service) -> FastAPI:
    return create_app(service)


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    client = httpx2.AsyncClient(transport=transport, base_url="http://bpc.test")
    async with app.router.lifespan_context(app), client:
        yield client


async def create_key(database: Database, tenant: TenantId, role: str, act: Act) -> str:
    """A new key of a new actor with this role."""
    async with database.tenant(tenant) as conn:
        actor = await tenants_and_actors.create_actor(
            conn, tenant, kind="API_CLIENT", display_name=role, roles=[role], act=act
        )
        issued = await api_keys.create_key(conn, tenant, actor, pepper=PEPPER, act=act)
    return issued.api_key.text


@pytest.fixture
async def clients_by_role(http: httpx2.AsyncClient, database: Database, tenant: TenantId, act: Act) -> dict[str, Api]:
    """A client for each role of the tenant."""
    return {role: Api(http, await create_key(database, tenant, role, act)) for role in ROLES}


@pytest.fixture
def admin(clients_by_role: dict[str, Api]) -> Api:
    return clients_by_role["Admin"]


@pytest.fixture
def officer(clients_by_role: dict[str, Api]) -> Api:
    return clients_by_role["ComplianceOfficer"]


@pytest.fixture
def auditor(clients_by_role: dict[str, Api]) -> Api:
    return clients_by_role["Auditor"]


@pytest.fixture
async def other_admin(http: httpx2.AsyncClient, database: Database, other_tenant: TenantId, act: Act) -> Api:
    """An administrator of another tenant."""
    return Api(http, await create_key(database, other_tenant, "Admin", act))


@pytest.fixture
def anonymous(http: httpx2.AsyncClient) -> Api:
    return Api(http, None)


@pytest.fixture
async def worker(service: Service) -> AsyncIterator[None]:
    """A worker that runs what the API submits."""
    async with run_worker(service.jobs):
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two_tenants(
    server: TestServer, template_name: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator["TwoTenantApp"]:
    """Two tenants with something of every kind, for all tests of a module."""
    from tests.api.filled_tenants import open_two_tenants  # which needs what is above

    async with open_two_tenants(server, template_name, tmp_path_factory.mktemp("stage")) as opened:
        yield opened
