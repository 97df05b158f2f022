"""Who may do what, for every route there is: the matrix decides, and nothing is open by accident.

The routes are the application's own, so one that is added later is held to the same. What is declared is written down
here once more, as tables, and compared with what the code says.
"""

import asyncio
from collections.abc import AsyncIterator
from fnmatch import fnmatchcase

import httpx2
import pytest
import pytest_asyncio

from bpc.core.audit.events import Act
from bpc.core.policies import PERMISSIONS, RESOURCE_TYPES, ROLES
from bpc.runtime import clock
from bpc.storage.access import api_keys
from tests.api.access.permission_tables import DECLARED, FAMILIES, LATER, MATRIX
from tests.api.conftest import Api, create_key
from tests.api.filled_tenants import TwoTenantApp, open_two_tenants
from tests.api.route_inventory import PUBLIC, ROUTES, Route, prepare_request
from tests.api.tenant_data import FilledTenant
from tests.fixtures import TestServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.every_case]

DENIED = (401, 403)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two_tenants(
    server: TestServer, template_name: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TwoTenantApp]:
    async with open_two_tenants(server, template_name, tmp_path_factory.mktemp("stage")) as opened:
        yield opened


def _split_lines(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().split("\n")]


def _list_declared() -> list[tuple[str, str, str]]:
    return [(method, path, permission.strip("-")) for method, path, permission in _split_lines(DECLARED)]


def _find_permission(route: Route) -> str | None:
    """The permission that is declared for a route; None where nobody has said anything."""
    for method, path, permission in _list_declared():
        if (method, path) == (route.method, route.path):
            return permission
    for method, pattern, permission in _split_lines(FAMILIES):
        if method in {"*", route.method} and fnmatchcase(route.path, pattern):
            return permission.strip("-")
    return None


async def test_the_roles_are_those_of_the_matrix() -> None:
    columns = {"Admin": 1, "ComplianceOfficer": 2, "Auditor": 3}
    matrix = {
        role: {line[0] for line in _split_lines(MATRIX) if line[column] == "yes"} for role, column in columns.items()
    }

    assert {role: set(permissions) for role, permissions in ROLES.items()} == matrix
    assert {line[0] for line in _split_lines(MATRIX)} == set(PERMISSIONS)


async def test_every_route_has_the_permission_that_was_declared() -> None:
    for route in ROUTES:
        expected = _find_permission(route)

        assert expected is not None, f"no permission is declared for {route.name}: add it to DECLARED"
        assert route.permission == expected, route.name
        assert (route.kind == "open") == route.is_public, f"{route.name} is open: name it in PUBLIC, with a reason"
        assert (route.permission in PERMISSIONS) == route.takes_key, route.name
        assert route.takes_key or not route.permission, route.name
        assert route.resource is None or route.resource in RESOURCE_TYPES, route.name


async def test_every_route_that_is_declared_is_there_or_still_to_come() -> None:
    route_names = {route.name for route in ROUTES}
    declared = {f"{method} {path}" for method, path, _ in _list_declared()}

    assert declared - route_names == LATER
    assert {f"{method} {path}" for method, path in PUBLIC} <= route_names


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_a_route_is_open_to_those_whose_role_has_its_permission_and_to_nobody_else(
    two_tenants: TwoTenantApp, route: Route
) -> None:
    for role, caller in two_tenants.own.clients.items():
        answer = await _call_route(caller, route, two_tenants.own)

        assert answer.status_code < 500, answer.text
        if route.kind == "granted":  # no key opens it
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED"), answer.text
        elif route.is_public or route.permission in ROLES[role]:
            assert answer.status_code not in DENIED, (role, answer.text)
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), (role, answer.text)
            assert answer.json()["error"]["details"]["permission"] == route.permission


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_without_a_key_nothing_is_open_but_what_is_public(two_tenants: TwoTenantApp, route: Route) -> None:
    answer = await _call_route(two_tenants.anonymous, route, two_tenants.own)

    if route.is_public:
        assert answer.status_code == (204 if route.method == "OPTIONS" else 200), answer.text
        return
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    # Nor is anything said about a request that is wrong in other ways as well.
    sent = prepare_request(route, two_tenants.own.ids)
    headers = {"Idempotency-Key": "", "Content-Type": "text/plain"}
    wrong = await two_tenants.http.request(sent.method, sent.path, content=b"{", headers=headers)
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "UNAUTHORIZED"), wrong.text


async def test_a_denied_access_is_on_record_and_an_allowed_one_is_not(two_tenants: TwoTenantApp) -> None:
    act = Act(None, clock.now())
    caller = Api(two_tenants.http, await create_key(two_tenants.database, two_tenants.own.tenant, "Auditor", act))
    before = await _read_denials(two_tenants)

    allowed = await caller.get("/v1/passports")
    denied = await caller.get("/v1/documents")
    denied_write = await caller.post("/v1/documents", {"kind": "BOM"})

    assert allowed.status_code == 200
    assert (denied.status_code, denied_write.status_code) == (403, 403)
    events = (await _read_denials(two_tenants))[len(before) :]
    assert [(event["method"], event["route"], event["permission"]) for event in events] == [
        ("GET", "/v1/documents", "docs:read"),
        ("POST", "/v1/documents", "docs:upload"),
    ]


async def test_a_revoked_key_is_told_so_and_that_is_on_record(two_tenants: TwoTenantApp) -> None:
    act = Act(None, clock.now())
    key = await create_key(two_tenants.database, two_tenants.own.tenant, "Admin", act)
    async with two_tenants.database.tenant(two_tenants.own.tenant) as conn:
        await api_keys.revoke_key_by_prefix(conn, two_tenants.own.tenant, key.split("_")[1], act=act)
    before = await _read_denials(two_tenants)

    answer = await Api(two_tenants.http, key).get("/v1/documents")

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "API_KEY_REVOKED")
    assert [event["reason"] for event in (await _read_denials(two_tenants))[len(before) :]] == ["API_KEY_REVOKED"]


async def test_a_foreign_id_is_no_denial(two_tenants: TwoTenantApp) -> None:
    before = await _read_denials(two_tenants)

    answer = await two_tenants.own.clients["Admin"].get(f"/v1/documents/{two_tenants.foreign.ids['document_id']}")

    assert answer.status_code == 404
    assert await _read_denials(two_tenants) == before


@pytest.mark.parametrize("kind", ["without the permission", "with a revoked key"])
async def test_as_many_denials_at_once_as_there_are_connections_do_not_wait_for_each_other(
    two_tenants: TwoTenantApp, kind: str
) -> None:
    act = Act(None, clock.now())
    size = two_tenants.database.pool.get_max_size()
    key = await create_key(two_tenants.database, two_tenants.own.tenant, "Auditor", act)
    if kind == "with a revoked key":
        async with two_tenants.database.tenant(two_tenants.own.tenant) as conn:
            await api_keys.revoke_key_by_prefix(conn, two_tenants.own.tenant, key.split("_")[1], act=act)
    caller = Api(two_tenants.http, key)

    async with asyncio.timeout(10):
        answers = await asyncio.gather(*(caller.get("/v1/documents") for _ in range(2 * size)))

    assert {answer.status_code for answer in answers} <= set(DENIED)


async def test_every_route_can_be_called_as_the_inventory_says(
    server: TestServer, template_name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refused = {}
    async with open_two_tenants(server, template_name, tmp_path_factory.mktemp("stage")) as untouched:
        callable_routes = [
            route for route in ROUTES if route.kind != "granted"
        ]  # they take codes, and are tried with them
        for route in sorted(callable_routes, key=lambda route: (route.kind == "write", route.name)):
            answer = await _call_route(untouched.own.clients["Admin"], route, untouched.own)
            if answer.status_code >= 300:
                refused[route.name] = f"{answer.status_code} {answer.text[:300]}"

    assert refused == {}


async def _call_route(caller: Api, route: Route, tenant_data: FilledTenant) -> httpx2.Response:
    sent = prepare_request(route, tenant_data.ids)
    return await caller.send(sent.method, sent.path, sent.body, **sent.options)


async def _read_denials(two_tenants: TwoTenantApp) -> list[dict[str, str]]:
    """What is on record of denied access in our tenant, oldest first."""
    rows = await two_tenants.superuser.fetch(
        "SELECT payload->>'method' AS method, payload->>'route' AS route, payload->>'permission' AS permission,"
        " payload->>'reason' AS reason FROM events WHERE tenant_id = $1 AND event_type = 'ACCESS_DENIED'"
        " ORDER BY occurred_at, aggregate_id, aggregate_version",
        two_tenants.own.tenant,
    )
    return [dict(row) for row in rows]
