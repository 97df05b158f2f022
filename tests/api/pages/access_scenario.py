"""Passports that access is asked for, who has a code, and what is checked of grants."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from bpc.core.audit.signing import derive_public_key
from bpc.core.formats.ids import TenantId
from bpc.core.items.view import merge_view
from bpc.storage.audit.verification import verify_audit
from bpc.storage.database import Database
from tests.api.conftest import SEED, Api

PINS = [derive_public_key(SEED)]
ASKED = {
    "audience": "interest",
    "name": "Example Recycling",
    "contact": "ask@recycling.example",
    "purpose": "dismantling <b>safely</b>",
    "evidence": "licence R-17",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedPassports:
    """A model with two batteries that have passports, and another model. The ids are those on labels."""

    model: str
    battery: str
    neighbour: str
    other_model: str

    def list_addresses(self) -> Mapping[str, str]:
        names = ("model", "battery", "neighbour", "other_model")
        return {name: getattr(self, name) for name in names}


class Holder:
    """Whoever has a code."""

    def __init__(self, http: httpx2.AsyncClient, code: str) -> None:
        self.http = http
        self.headers = {"Authorization": f"Bearer {code}"}

    async def get(self, path: str) -> httpx2.Response:
        return await self.http.get(path, headers=self.headers)

    async def post(self, path: str, body: Any = None) -> httpx2.Response:
        return await self.http.post(path, json=body, headers=self.headers)

    async def view(self, address: str) -> httpx2.Response:
        return await self.get(f"/v1/granted/passports/{address}/view")


async def grant(admin: Api, **members: Any) -> Any:
    body = {"grantee": "Example Recycling", "audience": "interest", "scope": "ALL"} | members
    return await admin.post_json("/v1/view-grants", body)


async def open_grant(admin: Api, **members: Any) -> tuple[str, Holder]:
    """The id of a grant whose terms are accepted, and who has its code."""
    answer = await grant(admin, **members)
    holder = Holder(admin.http, answer["code"])
    assert (await holder.post("/v1/granted:accept-terms")).status_code == 200
    return answer["view_grant_id"], holder


def list_paths(view: bytes) -> set[str]:
    document = json.loads(view)
    if document["view_version"] == "BPC-VIEW-1":
        return {field["data"]["path"] for field in document["fields"]}
    return set(merge_view(view).fields)


async def find_faults(database: Database, tenant: TenantId) -> list[Any]:
    """What `bpc audit verify` finds in grants, requests and chains. Fixtures insert other rows without events."""
    async with database.system(tenant) as conn:
        verification = await verify_audit(conn, tenant)
    assert verification.state is not None
    state_faults = [fault for fault in verification.state.faults if fault.table.startswith("view_")]
    return [*verification.chains.faults, *state_faults]


async def read_reads(admin: Api, grant_id: str) -> list[Any]:
    return list((await admin.get_json(f"/v1/view-grants/{grant_id}/reads"))["items"])
