"""Who may have a bundle, a proof or a view: said by permissions of their own, and whole or not at all."""

from typing import Any

import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.core.policies import ADDED_PERMISSIONS, MATRIX_ROLES, PERMISSIONS, ROLES
from bpc.runtime import clock
from bpc.storage.access.added_permissions import add_permissions_to_older_tenants
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, issue_version


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


@pytest.fixture
async def version(admin: Api, service: Service, inputs: PassportInputs) -> str:
    return f"/v1/passport-versions/{await issue_version(admin, service, inputs)}"


async def _create_caller(admin: Api, *permissions: str) -> Api:
    role = await admin.post_json("/v1/roles", {"name": str(clock.new_id()), "permissions": list(permissions)})
    actor = await admin.post_json(
        "/v1/actors", {"type": "API_CLIENT", "display_name": "Gateway", "roles": [role["name"]]}
    )
    return Api(admin.http, (await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"]}))["api_key"])


async def _deny(admin: Api, target: str, **conditions: Any) -> None:
    body = {"name": str(clock.new_id()), "effect": "DENY", "target": target, "policy_json": conditions}
    await admin.post_json("/v1/policies", body)


def test_the_additions_stand_in_one_table_and_leave_the_matrix_as_it_is() -> None:
    assert set(PERMISSIONS) == set(MATRIX_ROLES["Admin"]) | set(ADDED_PERMISSIONS)
    assert not set(MATRIX_ROLES["Admin"]) & set(ADDED_PERMISSIONS)
    for role, permissions in ROLES.items():
        assert set(permissions) - set(ADDED_PERMISSIONS) == set(MATRIX_ROLES[role])


async def test_a_bundle_needs_a_permission_of_its_own_also_as_an_export(
    admin: Api, service: Service, version: str
) -> None:
    reader = await _create_caller(admin, "passport:read")
    export = await admin.post_json(f"{version}/exports", {"format": "BUNDLE"}, status=202)

    answers = [
        await reader.get(f"{version}/bundle"),
        await reader.post(f"{version}/exports", {"format": "BUNDLE"}),
        await reader.get(f"/v1/exports/{export['export_id']}/content"),
    ]

    for answer in answers:
        details = answer.json()["error"]["details"]
        assert (answer.status_code, details["permission"]) == (403, "passport:bundle"), answer.text
    holder = await _create_caller(admin, "passport:bundle")
    assert (await holder.get(f"{version}/bundle")).status_code == 200


@pytest.mark.parametrize(
    ("target", "kind", "source"),
    [
        ("docs:read", None, None),
        ("rules:*", None, None),
        ("docs:read", "Fact", None),
        ("docs:read", "Fact", "SELECT min(fact_id::text) FROM facts WHERE fact_type = 'Battery'"),
        ("docs:read", "Document", "SELECT min(document_id::text) FROM documents"),
        ("rules:read", "RulePackageVersion", "SELECT min(rule_package_version_id::text) FROM rule_package_versions"),
    ],
)
async def test_who_is_denied_a_part_gets_neither_bundle_nor_proof(
    admin: Api, auditor: Api, version: str, superuser: Any, target: str, kind: str | None, source: str | None
) -> None:
    conditions: dict[str, Any] = {"roles": ["Auditor"]}
    if kind is not None:
        ids = {} if source is None else {"ids": [await superuser.fetchval(source)]}
        conditions["resource"] = {"type": kind, **ids}
    query = {"query": f'{{ passportVersion(id: "{version[-36:]}") {{ proofNode(id: 0) {{ hash }} }} }}'}
    assert (await auditor.get(f"{version}/bundle")).status_code == 200

    await _deny(admin, target, **conditions)

    for what in ("bundle", "proof"):
        answer = await auditor.get(f"{version}/{what}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), answer.text
    graphql = (await auditor.http.post("/v1/graphql", json=query, headers=_authorise(auditor))).json()
    assert graphql["data"]["passportVersion"]["proofNode"] is None
    assert "FORBIDDEN" in str(graphql["errors"])
    assert (await auditor.get(f"{version}/payload")).status_code == 200


async def test_a_denial_of_something_else_leaves_the_bundle_as_it_is(admin: Api, auditor: Api, version: str) -> None:
    await _deny(admin, "docs:read", roles=["Auditor"], resource={"type": "Fact", "ids": [str(clock.new_id())]})

    assert (await auditor.get(f"{version}/bundle")).status_code == 200


@pytest.mark.parametrize(
    ("permission", "open_to"),
    [
        ("passport:read", {"public", "interest", "authority"}),
        ("view:interest", {"public", "interest"}),
        ("view:authority", {"public", "authority"}),
        ("docs:read", set()),
    ],
)
async def test_a_view_is_open_to_its_audience(admin: Api, version: str, permission: str, open_to: set[str]) -> None:
    caller = await _create_caller(admin, permission)

    for audience in ("public", "interest", "authority"):
        answer = await caller.get(f"{version}/view", params={"audience": audience})
        assert answer.status_code == (200 if audience in open_to else 403), (audience, answer.text)
    if permission.startswith("view:"):
        assert (await caller.get(f"{version}/payload")).status_code == 403
        await _deny(admin, "passport:read")
        assert (await caller.get(f"{version}/view", params={"audience": "public"})).status_code == 403


async def test_an_older_tenant_gets_the_additions_once_and_on_record(
    admin: Api, tenant: TenantId, superuser: Any
) -> None:
    await superuser.execute(
        "DELETE FROM role_permissions WHERE permission = ANY($1)",
        ["passport:bundle", "view:interest", "passport:waive"],
    )
    await superuser.execute("UPDATE tenants SET created_at = created_at - interval '1 year'")

    await add_permissions_to_older_tenants(superuser)

    roles = {role["name"]: set(role["permissions"]) for role in (await admin.get_json("/v1/roles"))["items"]}
    assert roles == {name: set(permissions) for name, permissions in ROLES.items()}
    auditor = next(role for role in (await admin.get_json("/v1/roles"))["items"] if role["name"] == "Auditor")
    await admin.send("PUT", f"/v1/roles/{auditor['role_id']}/permissions", {"permissions": ["audit:read"]})
    await add_permissions_to_older_tenants(superuser)
    assert (await admin.get_json(f"/v1/roles/{auditor['role_id']}"))["permissions"] == ["audit:read"]
    types = await superuser.fetch(
        "SELECT event_type FROM events WHERE tenant_id = $1 AND event_type IN ('ROLE_CHANGED', 'PERMISSIONS_ADDED')",
        tenant,
    )
    assert sorted(row["event_type"] for row in types) == ["PERMISSIONS_ADDED", *["ROLE_CHANGED"] * 4]


def _authorise(api: Api) -> dict[str, str]:
    return {"Authorization": f"Bearer {api.key}"}
