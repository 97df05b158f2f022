"""What tests of the API share: the application in this process, two tenants, and a key for every role in each."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI

from bpc import fresh
from bpc.api.app import create_app
from bpc.api.serve import serving
from bpc.api.service import Service
from bpc.core.access import ROLES
from bpc.core.events import Act
from bpc.core.ids import TenantId
from bpc.core.peppers import Peppers
from bpc.core.signing import Signer, public_key_of, seed_of
from bpc.db import actors, apikeys, signing_keys
from bpc.db.database import Database
from bpc.settings import Settings
from tests.conftest import TestServer
from tests.jobs.working import working

if TYPE_CHECKING:
    from tests.api.stage import Theatre

PEPPER = b"a pepper of tests, 32 bytes long"
PEPPERS = Peppers(in_use=PEPPER)
SEED = seed_of(bytes(range(32)))
KEY_ID = "test-key-1"


class Api:
    """A client with a key: every write gets an Idempotency-Key of its own unless it is given one."""

    def __init__(self, http: httpx2.AsyncClient, key: str | None) -> None:
        self.http = http
        self.key = key

    async def get(self, path: str, **how: Any) -> httpx2.Response:
        return await self.send("GET", path, **how)

    async def post(self, path: str, body: Any = None, **how: Any) -> httpx2.Response:
        return await self.send("POST", path, body, **how)

    async def delete(self, path: str, **how: Any) -> httpx2.Response:
        return await self.send("DELETE", path, **how)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        idempotency_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        **how: Any,
    ) -> httpx2.Response:
        sent = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        if method != "GET":
            sent["Idempotency-Key"] = idempotency_key or str(fresh.new_id())
        if body is not None:
            how["json"] = body
        return await self.http.request(method, path, headers={**sent, **(headers or {})}, **how)

    async def made(self, path: str, body: Any = None, *, status: int = 201) -> Any:
        """The answer to a POST that must succeed."""
        answer = await self.post(path, body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def got(self, path: str, **how: Any) -> Any:
        """The answer to a GET that must succeed."""
        answer = await self.get(path, **how)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(env="test", data_dir=tmp_path, signing_key_id=KEY_ID, compiler_build_id="bpc-test")


@pytest.fixture
async def service(settings: Settings, database: Database, act: Act) -> AsyncIterator[Service]:
    await signing_keys.register(database, KEY_ID, public_key_of(SEED), act=act)
    signer = Signer(SEED)
    async with serving(
        settings, database, peppers=PEPPERS, signer=lambda key_id: signer if key_id == KEY_ID else None
    ) as ready:
        yield ready


@pytest.fixture
def app(service: Service) -> FastAPI:
    return create_app(service)


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://bpc.test") as client:
        yield client


async def key_for(database: Database, tenant: TenantId, role: str, act: Act) -> str:
    """A new key of a new actor with this role."""
    async with database.tenant(tenant) as conn:
        actor = await actors.create(conn, tenant, kind="API_CLIENT", display_name=role, roles=[role], act=act)
        issued = await apikeys.create(conn, tenant, actor, pepper=PEPPER, act=act)
    return issued.api_key.text


@pytest.fixture
async def everybody(http: httpx2.AsyncClient, database: Database, tenant: TenantId, act: Act) -> dict[str, Api]:
    """A client for each role of the tenant."""
    return {role: Api(http, await key_for(database, tenant, role, act)) for role in ROLES}


@pytest.fixture
def admin(everybody: dict[str, Api]) -> Api:
    return everybody["Admin"]


@pytest.fixture
def officer(everybody: dict[str, Api]) -> Api:
    return everybody["ComplianceOfficer"]


@pytest.fixture
def auditor(everybody: dict[str, Api]) -> Api:
    return everybody["Auditor"]


@pytest.fixture
async def rival(http: httpx2.AsyncClient, database: Database, other_tenant: TenantId, act: Act) -> Api:
    """An administrator of another tenant."""
    return Api(http, await key_for(database, other_tenant, "Admin", act))


@pytest.fixture
def nobody(http: httpx2.AsyncClient) -> Api:
    return Api(http, None)


@pytest.fixture
async def worker(service: Service) -> AsyncIterator[None]:
    """A worker that runs what the API submits."""
    async with working(service.jobs):
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theatre(
    server: TestServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator["Theatre"]:
    """Two tenants with something of every kind, for all tests of a module."""
    from tests.api.stage import staged  # which needs what is above

    async with staged(server, template, tmp_path_factory.mktemp("stage")) as ready:
        yield ready
