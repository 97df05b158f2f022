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
from tests.api.conftest import Api, create_key
from tests.api.filled_tenants import TwoTenantApp, open_two_tenants
from tests.api.route_inventory import PUBLIC, ROUTES, Route, prepare_request
from tests.api.tenant_data import FilledTenant
from tests.fixtures import TestServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Permission, Admin, ComplianceOfficer, Auditor.
MATRIX = """
    passport:read     yes yes yes
    passport:compile  yes yes no
    passport:sign     yes no  no
    passport:replay   yes yes no
    passport:revoke   yes no  no
    passport:waive    yes no  no
    rules:read        yes yes yes
    rules:write       yes no  no
    rules:publish     yes no  no
    rules:test        yes no  no
    docs:upload       yes no  no
    docs:read         yes yes no
    snapshot:build    yes yes no
    snapshot:seal     yes yes no
    audit:read        yes no  yes
    access:admin      yes no  no
    tenant:admin      yes no  no
    jobs:read         yes yes no
    jobs:admin        yes no  no
    passport:bundle   yes yes yes
    approval:decide   yes yes yes
    view:interest     yes no  no
    view:authority    yes no  no
"""
# Method, path, permission: each is a route.
DECLARED = """
    GET    /v1/health/live                                                  -
    GET    /v1/health/ready                                                 -
    GET    /v1/health/reads                                                 -
    GET    /v1/metrics                                                      -
    GET    /v1/openapi.json                                                 -
    POST   /v1/documents                                                    docs:upload
    GET    /v1/documents                                                    docs:read
    GET    /v1/documents/{document_id}                                      docs:read
    PATCH  /v1/documents/{document_id}                                      docs:upload
    PUT    /v1/documents/by-ref/{external_ref:path}                         docs:upload
    POST   /v1/documents:propose-mapping                                    docs:upload
    POST   /v1/suppliers                                                    docs:upload
    GET    /v1/suppliers                                                    docs:read
    GET    /v1/suppliers/{supplier_id}                                      docs:read
    PATCH  /v1/suppliers/{supplier_id}                                      docs:upload
    POST   /v1/suppliers/{supplier_id}:rank                                 snapshot:build
    POST   /v1/suppliers/{supplier_id}/column-mappings                      docs:upload
    GET    /v1/suppliers/{supplier_id}/column-mappings                      docs:read
    POST   /v1/documents/{document_id}/versions                             docs:upload
    POST   /v1/documents/{document_id}/ingest                               docs:upload
    POST   /v1/documents/{document_id}:withdraw                             docs:upload
    POST   /v1/documents/{document_id}:deactivate                           docs:upload
    POST   /v1/documents/{document_id}:reactivate                           docs:upload
    POST   /v1/attachments                                                  docs:upload
    GET    /v1/attachments                                                  docs:read
    GET    /v1/attachments/{attachment_id}                                  docs:read
    POST   /v1/attachments/{attachment_id}:withdraw                         docs:upload
    GET    /v1/passport-versions/{passport_version_id}/attachments/{sha256} passport:read
    GET    /v1/conflicts                                                    docs:read
    POST   /v1/conflicts:resolve                                            snapshot:build
    GET    /v1/document-versions/{document_version_id}                      docs:read
    GET    /v1/document-versions/{document_version_id}/content              docs:read
    GET    /v1/document-versions/{document_version_id}/text                 docs:read
    GET    /v1/facts                                                        docs:read
    POST   /v1/snapshots                                                    snapshot:build
    GET    /v1/snapshots                                                    snapshot:build
    GET    /v1/snapshots/{snapshot_id}                                      snapshot:build
    POST   /v1/snapshots/{snapshot_id}/items                                snapshot:build
    DELETE /v1/snapshots/{snapshot_id}/items/{fact_id}                      snapshot:build
    POST   /v1/snapshots/{snapshot_id}/seal                                 snapshot:seal
    POST   /v1/rule-packages                                                rules:write
    GET    /v1/rule-packages                                                rules:read
    GET    /v1/rule-packages/{rule_package_id}                              rules:read
    PATCH  /v1/rule-packages/{rule_package_id}                              rules:write
    POST   /v1/rule-packages/{rule_package_id}:deactivate                   rules:publish
    POST   /v1/rule-packages/{rule_package_id}:reactivate                   rules:publish
    PUT    /v1/rule-packages/{rule_package_id}/catalogues/{language}        rules:write
    GET    /v1/rule-packages/{rule_package_id}/catalogues                   rules:read
    GET    /v1/rule-packages/{rule_package_id}/catalogues/{language}        rules:read
    POST   /v1/rule-packages/{rule_package_id}/versions                     rules:write
    GET    /v1/rule-package-versions/{rule_package_version_id}              rules:read
    DELETE /v1/rule-package-versions/{rule_package_version_id}              rules:publish
    POST   /v1/rule-package-versions/{rule_package_version_id}/tests:run    rules:test
    POST   /v1/rule-package-versions/{rule_package_version_id}:publish      rules:publish
    POST   /v1/rule-package-versions/{rule_package_version_id}:deprecate    rules:publish
    POST   /v1/rules:check                                                  rules:read
    POST   /v1/battery-products                                             tenant:admin
    GET    /v1/battery-products                                             passport:read
    GET    /v1/battery-products/{battery_product_id}                        passport:read
    PATCH  /v1/battery-products/{battery_product_id}                        tenant:admin
    POST   /v1/battery-products/{battery_product_id}:deactivate             tenant:admin
    POST   /v1/battery-products/{battery_product_id}:reactivate             tenant:admin
    POST   /v1/passports                                                    passport:compile
    GET    /v1/passports                                                    passport:read
    GET    /v1/passports/{passport_id}                                      passport:read
    GET    /v1/passports/{passport_id}/versions                             passport:read
    POST   /v1/passports/{passport_id}/compile                              passport:compile
    POST   /v1/passports:bulk-compile                                       passport:compile
    POST   /v1/passports:check                                              passport:compile
    POST   /v1/passports:what-if                                            passport:compile
    GET    /v1/passport-versions                                            passport:read
    GET    /v1/passport-versions/{passport_version_id}                      passport:read
    GET    /v1/passport-versions/{passport_version_id}/payload              passport:read
    GET    /v1/passport-versions/{passport_version_id}/proof                passport:read
    GET    /v1/passport-versions/{passport_version_id}/receipt              passport:read
    GET    /v1/passport-versions/{passport_version_id}/qr.png               passport:read
    GET    /v1/passport-versions/{passport_version_id}/bundle               passport:bundle
    GET    /v1/passport-versions/{passport_version_id}/view                 passport:read
    GET    /v1/passport-versions/{passport_version_id}/diff/{other_version_id} passport:read
    POST   /v1/passport-versions/{passport_version_id}/activate             passport:compile
    POST   /v1/passport-versions/{passport_version_id}/revoke               passport:revoke
    POST   /v1/passport-versions/{passport_version_id}:waive                passport:waive
    POST   /v1/passport-versions/{passport_version_id}:sign                 passport:sign
    POST   /v1/passport-versions/{passport_version_id}:abandon              passport:compile
    GET    /v1/passport-versions/{passport_version_id}/waivers              passport:read
    GET    /v1/passport-versions/{passport_version_id}/compliance           passport:read
    GET    /v1/tenant/settings                                              passport:read
    PUT    /v1/tenant/settings                                              tenant:admin
    GET    /v1/tenant/four-eyes                                             approval:decide
    PUT    /v1/tenant/four-eyes                                             tenant:admin
    GET    /v1/approvals                                                    approval:decide
    GET    /v1/approvals/{approval_id}                                      approval:decide
    POST   /v1/approvals/{approval_id}:approve                              approval:decide
    POST   /v1/approvals/{approval_id}:reject                               approval:decide
    POST   /v1/passport-versions/{passport_version_id}/replay               passport:replay
    POST   /v1/passport-versions/{passport_version_id}/exports              passport:read
    GET    /v1/passport-versions/{passport_version_id}/exports              passport:read
    GET    /v1/exports/{export_id}                                          passport:read
    GET    /v1/exports/{export_id}/content                                  passport:read
    GET    /v1/contexts/passport.jsonld                                     -
    GET    /v1/schemas/passport.xsd                                         -
    GET    /v1/jobs                                                         jobs:read
    GET    /v1/jobs/{job_id}                                                jobs:read
    GET    /v1/jobs/{job_id}/result                                         jobs:read
    POST   /v1/jobs/{job_id}:cancel                                         jobs:admin
    POST   /v1/jobs/{job_id}:retry                                          jobs:admin
    GET    /v1/job-types                                                    jobs:read
    POST   /v1/schedules                                                    jobs:admin
    GET    /v1/schedules                                                    jobs:read
    GET    /v1/schedules/{schedule_id}                                      jobs:read
    PUT    /v1/schedules/{schedule_id}                                      jobs:admin
    DELETE /v1/schedules/{schedule_id}                                      jobs:admin
    POST   /v1/schedules/{schedule_id}:pause                                jobs:admin
    POST   /v1/schedules/{schedule_id}:resume                               jobs:admin
    GET    /v1/audit/events                                                 audit:read
    GET    /v1/audit/verify                                                 audit:read
    POST   /v1/graphql                                                      passport:read
    POST   /v1/webhook-endpoints                                            tenant:admin
    GET    /v1/webhook-endpoints                                            tenant:admin
    DELETE /v1/webhook-endpoints/{webhook_endpoint_id}                      tenant:admin
    POST   /v1/webhook-endpoints/{webhook_endpoint_id}:rotate               tenant:admin
    POST   /v1/webhook-endpoints/{webhook_endpoint_id}:test                 tenant:admin
    POST   /v1/webhook-subscriptions                                        tenant:admin
    GET    /v1/webhook-subscriptions                                        tenant:admin
    DELETE /v1/webhook-subscriptions/{webhook_subscription_id}              tenant:admin
    POST   /v1/webhook-deliveries/{webhook_delivery_id}:redeliver           tenant:admin
    GET    /v1/webhook-events                                               audit:read
    GET    /v1/actors                                                       access:admin
    GET    /v1/roles                                                        access:admin
    GET    /v1/api-keys                                                     access:admin
    POST   /v1/api-keys                                                     access:admin
    POST   /v1/api-keys/{api_key_id}:revoke                                 access:admin
    POST   /v1/api-keys/{api_key_id}:rotate                                 access:admin
    GET    /v1/policies                                                     access:admin
    POST   /v1/policies                                                     access:admin
    POST   /v1/policies/{policy_id}/versions                                access:admin
    POST   /v1/policies:dry-run                                             access:admin
    GET    /v1/signing-keys                                                 passport:sign
"""
# What DECLARED names and comes with the work behind it; a route that has come must leave this list.
LATER: set[str] = set()
# Whole families; the first line that fits a route decides, after DECLARED.
FAMILIES = """
    *      /v1/actors*              access:admin
    *      /v1/roles*               access:admin
    *      /v1/api-keys*            access:admin
    *      /v1/policies*            access:admin
    GET    /v1/permissions          access:admin
    *      /v1/webhook-*            tenant:admin
    *      /v1/signing-keys*        passport:sign
    GET    /v1/documents*           docs:read
    GET    /v1/document-versions*   docs:read
    GET    /v1/facts*               docs:read
    *      /v1/snapshots*           snapshot:build
    GET    /v1/rule-package*        rules:read
    GET    /v1/battery-products*    passport:read
    GET    /v1/passport*            passport:read
    GET    /v1/compile-runs*        passport:read
    POST   /v1/compile-runs*        passport:compile
    GET    /v1/jobs*                jobs:read
    GET    /v1/audit/*              audit:read
    GET    /.well-known/*           -
    GET    /log/*                   -
    GET    /v1/openapi*             -
    GET    /v1/docs*                -
    GET    /v1/schemas/*            -
    GET    /v1/templates/*          -
"""
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
        assert (route.permission == "") == route.is_public, f"{route.name} is open: name it in PUBLIC, with a reason"
        assert (route.kind == "open") == route.is_public, route.name
        assert route.is_public or route.permission in PERMISSIONS, route.name
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
        if route.is_public or route.permission in ROLES[role]:
            assert answer.status_code not in DENIED, (role, answer.text)
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), (role, answer.text)
            assert answer.json()["error"]["details"]["permission"] == route.permission


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_without_a_key_nothing_is_open_but_what_is_public(two_tenants: TwoTenantApp, route: Route) -> None:
    answer = await _call_route(two_tenants.anonymous, route, two_tenants.own)

    if route.is_public:
        assert answer.status_code == 200
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
        for route in sorted(ROUTES, key=lambda route: (route.kind == "write", route.name)):
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
