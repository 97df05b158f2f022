"""What tests of the console share: a browser without scripts, signed in as each role."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from bpc.api.console.page_routes import KEY_FIELD, TOKEN_FIELD
from bpc.core.audit.events import Act
from bpc.core.console_access import LINK_ENTROPY_BYTES, SignInLink
from bpc.core.formats.ids import ActorId, TenantId
from bpc.core.policies import ROLES
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.database import Database
from tests.api.conftest import PEPPER

ADDRESS = "http://127.0.0.1:8080"
HIDDEN = re.compile(r'name="([a-z_]+)" value="([^"]*)"')


class Browser:
    """A browser that follows no link by itself. It sends forms as browsers do: with `Origin` and all fields."""

    def __init__(self, app: FastAPI) -> None:
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        self.http = httpx2.AsyncClient(transport=transport, base_url=ADDRESS)
        self.token = ""

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        answer = await self.http.get(path, **options)
        fields = dict(HIDDEN.findall(answer.text))
        self.token = fields.get(TOKEN_FIELD, self.token)
        return answer

    async def show(self, path: str, **options: Any) -> str:
        """The text of a page that must be there."""
        answer = await self.get(path, **options)
        assert answer.status_code == 200, answer.text
        return answer.text

    async def send(self, path: str, fields: Mapping[str, str] | None = None, **options: Any) -> httpx2.Response:
        """Send a form with its hidden fields; `headers` and fields that are named replace its own."""
        hidden = {TOKEN_FIELD: self.token, KEY_FIELD: str(clock.new_id())}
        headers = {"Origin": ADDRESS, **options.pop("headers", {})}
        return await self.http.post(path, data={**hidden, **(fields or {})}, headers=headers, **options)

    async def sign_in(self, link: str) -> httpx2.Response:
        answer = await self.send("/console/sign-in", {"link": link})
        await self.get("/console")
        return answer

    @property
    def cookie(self) -> str:
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.http.cookies.jar)


def write_link(tenant: TenantId, actor: ActorId, *, age: timedelta = timedelta(0)) -> str:
    number = clock.random_bytes(LINK_ENTROPY_BYTES)
    expires_at = clock.now() + timedelta(minutes=10) - age
    return SignInLink(tenant_id=tenant, actor_id=actor, expires_at=expires_at, number=number).write(PEPPER)


async def create_person(database: Database, tenant: TenantId, role: str, act: Act) -> ActorId:
    async with database.tenant(tenant) as conn:
        return await tenants_and_actors.create_actor(
            conn, tenant, kind="USER", display_name=f"{role} <i>", roles=[role], act=act
        )


@pytest.fixture
async def browsers(app: FastAPI, database: Database, tenant: TenantId, act: Act) -> dict[str, Browser]:
    """A browser for each role of the tenant, signed in."""
    signed_in = {}
    for role in ROLES:
        signed_in[role] = Browser(app)
        await signed_in[role].sign_in(write_link(tenant, await create_person(database, tenant, role, act)))
    return signed_in


@pytest.fixture
def admin_browser(browsers: dict[str, Browser]) -> Browser:
    return browsers["Admin"]
