"""Stored bytes beside the framework: the same answers as the routes give, in one statement, and no more for anybody."""

from typing import Any, Final

import asyncpg
import httpx2
import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.passport_fixtures import create_passport_inputs, issue_version

READS: Final = ("payload", "receipt", "view?audience=public", "view?audience=interest", "view?audience=authority")


@pytest.fixture
async def version(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> str:
    inputs = await create_passport_inputs(admin, database, tenant, act)
    return f"/v1/passport-versions/{await issue_version(admin, service, inputs)}"


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to the database from now on."""
    queries: list[str] = []
    for name in ("execute", "fetchrow", "fetch", "fetchval"):
        monkeypatch.setattr(asyncpg.Connection, name, _note(getattr(asyncpg.Connection, name), queries))
    return queries


def _note(method: Any, queries: list[str]) -> Any:
    async def noted(conn: Any, query: str, *arguments: Any, **options: Any) -> Any:
        queries.append(" ".join(query.split()))
        return await method(conn, query, *arguments, **options)

    return noted


def _describe(answer: httpx2.Response) -> tuple[int, bytes, dict[str, str]]:
    headers = {name: value for name, value in answer.headers.items() if name != "x-correlation-id"}
    return answer.status_code, answer.content, headers


async def test_answers_are_those_of_the_routes_in_one_statement(
    admin: Api, service: Service, version: str, statements: list[str]
) -> None:
    for read in READS:
        path = f"{version}/{read}"
        service.callers.clear()  # nobody is known, so the route answers
        by_route = await admin.get(path)
        etag = {"If-None-Match": by_route.headers["etag"]}
        service.callers.clear()
        unchanged_by_route = await admin.get(path, headers=etag)
        statements.clear()

        direct = await admin.get(path)

        assert by_route.status_code == 200
        assert [text[:6] for text in statements] == ["SELECT"]
        assert "read_version_at_once" in statements[0]
        assert _describe(direct) == _describe(by_route)
        assert _describe(await admin.get(path, headers=etag)) == _describe(unchanged_by_route)
        assert unchanged_by_route.status_code == 304


async def test_what_a_direct_read_cannot_answer_is_answered_by_the_route(
    admin: Api, other_admin: Api, version: str
) -> None:
    for api in (admin, other_admin):
        await api.get("/v1/documents")  # both are known
    unknown = f"/v1/passport-versions/{'0' * 8}-0000-4000-8000-{'0' * 12}"

    assert (await admin.get(f"{version}/payload")).status_code == 200
    assert (await other_admin.get(f"{version}/payload")).status_code == 404
    assert (await admin.get(f"{unknown}/payload")).status_code == 404
    assert (await admin.get(f"{version.upper()}/payload")).status_code in {404, 422}
    assert (await admin.get(f"{version}/payload?a=b")).status_code == 422
    assert (await admin.get(f"{version}/view")).status_code == 422
    assert (await admin.get(f"{version}/view?audience=nobody")).status_code == 422
    assert (await admin.post(f"{version}/payload", {})).status_code == 405


@pytest.mark.parametrize("read", READS[:3])
async def test_a_denial_holds_at_the_next_read_and_is_recorded(
    admin: Api, version: str, superuser: Any, read: str
) -> None:
    for _ in range(2):
        assert (await admin.get(f"{version}/{read}")).status_code == 200
    resource = {"type": "PassportVersion", "ids": [version.rpartition("/")[2]]}
    policy = {"name": "hidden", "effect": "DENY", "target": "passport:read", "policy_json": {"resource": resource}}
    await admin.post_json("/v1/policies", policy)

    for _ in range(2):
        assert (await admin.get(f"{version}/{read}")).status_code == 403

    assert await superuser.fetchval("SELECT count(*) FROM events WHERE event_type = 'ACCESS_DENIED'") == 2


@pytest.mark.parametrize(
    "change",
    ["UPDATE api_keys SET revoked_at = now()", "UPDATE tenants SET is_active = false", "DELETE FROM actor_roles"],
)
async def test_what_is_taken_away_is_gone_at_the_next_read(
    admin: Api, version: str, superuser: Any, change: str
) -> None:
    for _ in range(2):
        assert (await admin.get(f"{version}/payload")).status_code == 200

    await superuser.execute(change)

    assert (await admin.get(f"{version}/payload")).status_code in {401, 403}
