"""Who may make a grant, and what becomes of its code when the pepper is replaced."""

from typing import Any

import httpx2
import pytest

from bpc.api.http.app import create_app
from bpc.api.http.request_context import Service
from bpc.api.http.server import open_service
from bpc.core.api_keys import Peppers, compute_pepper_id
from bpc.core.formats.ids import TenantId
from bpc.runtime.settings import Settings
from bpc.storage.database import Database
from tests.api.conftest import PEPPER, Api
from tests.api.pages.access_scenario import (
    Holder,
    IssuedPassports,
    find_faults,
    open_grant,
)


async def test_nobody_grants_a_view_that_they_may_not_see_and_four_eyes_ask_for_two(
    admin: Api, officer: Api, plain: IssuedPassports, database: Database, tenant: TenantId
) -> None:
    role = {"name": "Door", "permissions": ["access:admin", "tenant:admin", "view:interest"]}
    await admin.post_json("/v1/roles", role)
    actor = await admin.post_json("/v1/actors", {"type": "USER", "display_name": "Door", "roles": ["Door"]})
    key = await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"]})
    keeper = Api(admin.http, key["api_key"])
    body = {"grantee": "A", "scope": "MODEL", "passport_id": plain.model}

    forbidden = await keeper.post("/v1/view-grants", body | {"audience": "authority"})
    officers = await officer.post("/v1/view-grants", body | {"audience": "interest"})
    switched = await admin.send("PUT", "/v1/tenant/four-eyes", {"actions": ["role_grants"]})
    assert switched.status_code == 200, switched.text
    waiting = await keeper.post("/v1/view-grants", body | {"audience": "interest"})
    none_yet = (await admin.get_json("/v1/view-grants"))["items"]
    done = await admin.post_json(f"/v1/approvals/{waiting.json()['approval_id']}:approve", {}, status=200)

    assert (forbidden.status_code, forbidden.json()["error"]["details"]["permission"]) == (403, "view:authority")
    assert officers.status_code == 403
    assert (waiting.status_code, none_yet) == (202, [])
    assert done["answer"]["code"].startswith("bpg_")
    assert done["answer"]["link"].endswith(f"/p/{plain.model}/access#{done['answer']['code']}")


async def test_a_code_is_hashed_again_when_it_is_used_after_the_pepper_was_replaced(
    settings: Settings, service: Service, admin: Api, plain: IssuedPassports, database: Database, tenant: TenantId
) -> None:
    _, holder = await open_grant(admin)
    peppers = Peppers(in_use=b"another pepper of tests, 32 bytes", previous=PEPPER)
    async with open_service(settings, database, peppers=peppers, key_ring=service.key_ring) as later:
        transport = httpx2.ASGITransport(create_app(later))
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            answer = await Holder(http, holder.headers["Authorization"].removeprefix("Bearer ")).get("/v1/granted")
    async with database.tenant(tenant) as conn:
        pepper_id = await conn.fetchval("SELECT pepper_id FROM view_grants")

    assert answer.status_code == 200
    assert pepper_id == compute_pepper_id(peppers.in_use)
    assert (await holder.get("/v1/granted")).status_code == 401, "the old pepper alone no longer does"
    assert await find_faults(database, tenant) == []


@pytest.mark.parametrize("permission", ["view:interest", "passport:read"])
async def test_what_a_policy_denies_the_granter_is_not_granted_to_somebody_else(
    admin: Api, plain: IssuedPassports, permission: str
) -> None:
    """Otherwise whoever may not read a passport would read it with the code of a grant."""
    role = {"name": "Door", "permissions": ["access:admin", "view:interest", "passport:read"]}
    await admin.post_json("/v1/roles", role)
    actor = await admin.post_json("/v1/actors", {"type": "USER", "display_name": "Door", "roles": ["Door"]})
    key = await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"]})
    keeper = Api(admin.http, key["api_key"])
    grants: dict[str, dict[str, Any]] = {
        "Passport": {"scope": "MODEL", "passport_id": plain.model},
        "Battery": {"scope": "ITEM", "battery_id": plain.battery},
        "ALL": {"scope": "ALL"},
    }
    common = {"grantee": "A", "audience": "interest"}
    for type_, denied_id in (("Passport", plain.model), ("Battery", plain.battery)):
        condition = {"actor_ids": [actor["actor_id"]], "resource": {"type": type_, "ids": [denied_id]}}
        denial = {"name": f"not {type_}", "effect": "DENY", "target": permission, "policy_json": condition}
        created = await admin.post_json("/v1/policies", denial)
        answers = {name: (await keeper.post("/v1/view-grants", common | grants[name])).status_code for name in grants}
        await admin.post_json(f"/v1/policies/{created['policy_id']}:deactivate", {}, status=200)

        # A battery is of its passport, and everything has both in it.
        assert answers == {"Passport": 403 if type_ == "Passport" else 201, "Battery": 403, "ALL": 403}, type_
    assert (await keeper.post("/v1/view-grants", common | grants["ALL"])).status_code == 201
