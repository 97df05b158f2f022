"""Access for those with a right: asked for on a page, granted by the tenant, used with a code, on record, no wider."""

import asyncio
import json
import re
from datetime import timedelta

import httpx2
import pytest

from bpc.api.access.admission import ASKER_BURST
from bpc.api.access.grantees import READ_BURST
from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import TenantId
from bpc.core.formats.timestamps import format_time, parse_time
from bpc.core.verify.bundle import verify_view
from bpc.core.verify.item_view import verify_item_view
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.pages.access_scenario import (
    ASKED,
    PINS,
    Holder,
    IssuedPassports,
    find_faults,
    grant,
    list_paths,
    open_grant,
    read_reads,
)
from tests.api.pages.test_routes import read_evidence
from tests.api.passport_fixtures import create_passport_inputs, issue_version
from tests.api.route_inventory import ROUTES


@pytest.fixture
def visitor(admin: Api) -> httpx2.AsyncClient:
    """Somebody with a phone and without a key."""
    return admin.http


async def test_a_person_asks_on_the_page_and_reads_with_the_link_that_the_tenant_sends(
    admin: Api, issued: IssuedPassports, visitor: httpx2.AsyncClient, database: Database, tenant: TenantId
) -> None:
    page = (await visitor.get(f"/p/{issued.battery}", headers={"Accept": "text/html"})).text
    address = re.search(rf'href="[^"]*(/p/{issued.battery}/access)[?]', page)
    assert address is not None
    form = await visitor.get(address[1])
    assert (form.status_code, form.headers["cache-control"]) == (200, "private, no-store")
    assert "form-action 'self'" in form.headers["content-security-policy"]

    sent = await visitor.post(f"{address[1]}/requests", data=ASKED)
    [request] = (await admin.get_json("/v1/view-requests", params={"status": "PENDING"}))["items"]
    approved = await admin.post_json(f"/v1/view-requests/{request['view_request_id']}:approve", {})
    link, code = approved["link"].split("#")

    assert (sent.status_code, "Your request was sent." in sent.text) == (200, True)
    assert {name: request[name] for name in ASKED} == ASKED
    assert (request["passport_id"], request["battery_id"]) == (issued.model, issued.battery)
    assert (approved["scope"], approved["battery_id"], approved["grantee"]) == ("ITEM", issued.battery, ASKED["name"])
    assert link.endswith(f"/p/{issued.battery}/access")
    assert approved["code"] == code

    first = await visitor.post(address[1], data={"code": code})
    assert (first.status_code, first.headers["cache-control"]) == (403, "private, no-store")
    assert "I accept these terms" in first.text
    assert await read_reads(admin, approved["view_grant_id"]) == []

    granted = await visitor.post(address[1], data={"code": code, "accept_terms": "yes"})
    assert granted.status_code == 200, granted.text
    assert granted.headers["cache-control"] == "private, no-store"
    evidence = read_evidence(granted.text)
    view = evidence["view"].encode()
    assert verify_item_view(view, pins=PINS).ok
    shown = dict(re.findall(r'data-path="([^"]+)" data-signed="([^"]*)"', granted.text))
    assert set(shown) <= list_paths(view), "what has no value is no row"
    assert "model.rated_ah" in shown
    assert "item.health_pct" not in shown
    [read] = await read_reads(admin, approved["view_grant_id"])
    assert (read["view_sha256"], read["form"]) == (to_hex(sha256(view)), "page")
    assert (read["battery_id"], read["audience"]) == (issued.battery, "interest")

    rejected = await admin.post(f"/v1/view-requests/{request['view_request_id']}:reject", {"reason": "late"})
    assert rejected.status_code == 409
    removed = await admin.post_json(f"/v1/view-requests/{request['view_request_id']}:remove-words", status=200)
    assert {removed[name] for name in ("name", "contact", "purpose", "evidence")} == {None}
    assert await find_faults(database, tenant) == []


async def test_a_grant_reads_the_view_of_its_audience_in_its_scope_and_never_anything_else(
    admin: Api,
    other_admin: Api,
    issued: IssuedPassports,
    service: Service,
    database: Database,
    act: Act,
    other_tenant: TenantId,
) -> None:
    strange = await create_passport_inputs(other_admin, database, other_tenant, act)
    version = await issue_version(other_admin, service, strange)
    await other_admin.post_json(f"/v1/passport-versions/{version}/activate", {}, status=200)
    addresses = {**issued.list_addresses(), "strange": strange.passport}
    own = {"model", "battery", "neighbour", "other_model"}
    scopes: dict[str, tuple[dict[str, str], set[str]]] = {
        "ITEM": ({"scope": "ITEM", "battery_id": issued.battery}, {"battery"}),
        "MODEL": ({"scope": "MODEL", "passport_id": issued.model}, {"model", "battery", "neighbour"}),
        "OTHER": ({"scope": "MODEL", "passport_id": issued.other_model}, {"other_model"}),
        "ALL": ({"scope": "ALL"}, own),
    }
    secret = {"interest": {"model.rated_ah", "item.readings"}, "authority": {"item.health_pct", "pcf.per_kwh"}}
    for audience, other in (("interest", "authority"), ("authority", "interest")):
        for name, (scope, readable) in scopes.items():
            grant_id, holder = await open_grant(admin, audience=audience, **scope)
            for label, address in addresses.items():
                view = await holder.view(address)
                page = await holder.get(f"/p/{address}/access/page")
                case = (audience, name, label)
                if label not in readable:
                    assert (view.status_code, page.status_code) == (403, 403), case
                    assert view.json()["error"]["details"] == {"reason": "elsewhere"}, case
                    continue
                assert (view.status_code, page.status_code) == (200, 200), (case, view.text, page.text)
                assert view.headers["cache-control"] == page.headers["cache-control"] == "private, no-store"
                is_model = json.loads(view.content)["view_version"] == "BPC-VIEW-1"
                check = verify_view if is_model else verify_item_view
                assert check(view.content, pins=PINS).ok, case
                assert is_model == (label in {"model", "other_model"}), case
                assert read_evidence(page.text)["view"].encode() == view.content, case
                paths = list_paths(view.content)
                assert paths & secret[audience] or (audience, label) == ("interest", "other_model"), case
                assert not paths & secret[other], case
                shown = set(re.findall(r'data-path="([^"]+)"', page.text))
                assert shown <= paths, case
            assert len(await read_reads(admin, grant_id)) == 2 * len(readable), (
                "each read is on record, a refused one is none"
            )


async def test_a_code_opens_no_route_of_the_api_and_a_key_none_of_those_for_codes(
    admin: Api, plain: IssuedPassports
) -> None:
    _, holder = await open_grant(admin)

    for route in ROUTES:
        if route.is_public or route.method == "OPTIONS":
            continue
        path = re.sub(r"\{[^}]+\}", str(clock.new_id()), route.path)
        if route.kind == "granted":
            answer = await admin.send(route.method, path)
        else:
            answer = await holder.http.request(route.method, path, headers=holder.headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED"), route.name
    unknown = Holder(holder.http, holder.headers["Authorization"].removeprefix("Bearer ").replace("bpg_", "bpc_"))
    for path in ("/v1/granted", f"/p/{plain.model}/access/page"):
        assert (await unknown.get(path)).status_code == 401


async def test_a_revocation_counts_at_once_and_ends_what_was_delegated(
    admin: Api, plain: IssuedPassports, database: Database, tenant: TenantId
) -> None:
    end = clock.now() + timedelta(days=10)
    parent_id, parent = await open_grant(
        admin, scope="MODEL", passport_id=plain.model, may_delegate=True, expires_at=format_time(end)
    )
    wishes = {
        "everything": {"scope": "ALL", "expires_at": format_time(end)},
        "another model": {"scope": "MODEL", "passport_id": plain.other_model, "expires_at": format_time(end)},
        "a later end": {
            "scope": "MODEL",
            "passport_id": plain.model,
            "expires_at": format_time(end + timedelta(seconds=1)),
        },
    }
    refused = {
        name: (await parent.post("/v1/granted:delegate", {"grantee": "Hall 2", **wish})).status_code
        for name, wish in wishes.items()
    }
    delegation = await parent.post(
        "/v1/granted:delegate",
        {"grantee": "Hall 2", "scope": "ITEM", "battery_id": plain.battery, "expires_at": format_time(end)},
    )
    delegate = Holder(admin.http, delegation.json()["code"])
    unread = await delegate.view(plain.battery)
    await delegate.post("/v1/granted:accept-terms")
    further = await delegate.post(
        "/v1/granted:delegate",
        {"grantee": "Hall 3", "scope": "ITEM", "battery_id": plain.battery, "expires_at": format_time(end)},
    )
    before = {
        name: [(await holder.view(getattr(plain, name))).status_code for holder in (parent, delegate)]
        for name in ("battery", "neighbour")
    }
    revoked = await admin.post_json(f"/v1/view-grants/{parent_id}:revoke", {"reason": "misuse"}, status=200)
    after = [await holder.view(plain.battery) for holder in (parent, delegate)]

    assert refused == dict.fromkeys(wishes, 403)
    assert (delegation.status_code, delegation.headers["cache-control"]) == (201, "private, no-store")
    assert (unread.status_code, unread.json()["error"]["details"]["reason"]) == (403, "terms")
    assert further.status_code == 403
    assert before == {"battery": [200, 200], "neighbour": [200, 403]}
    assert revoked["state"] == "REVOKED"
    assert [answer.status_code for answer in after] == [401, 401]
    assert {answer.json()["error"]["details"]["reason"] for answer in after} == {"ended"}
    states = {each["grantee"]: each["state"] for each in (await admin.get_json("/v1/view-grants"))["items"]}
    assert states == {"Example Recycling": "REVOKED", "Hall 2": "REVOKED"}
    assert await find_faults(database, tenant) == []


async def test_a_grant_ends_by_itself_and_with_its_tenant(
    admin: Api, plain: IssuedPassports, database: Database, tenant: TenantId
) -> None:
    _, holder = await open_grant(admin)
    too_long = await admin.post(
        "/v1/view-grants",
        {
            "grantee": "A",
            "audience": "interest",
            "scope": "ALL",
            "expires_at": format_time(clock.now() + timedelta(days=5000)),
        },
    )
    mixed = await admin.post(
        "/v1/view-grants",
        {"grantee": "A", "audience": "interest", "scope": "ALL", "passport_id": plain.model},
    )
    short = await grant(admin, expires_at=format_time(clock.now() + timedelta(seconds=1)))
    while clock.now() <= parse_time(short["expires_at"]):
        await asyncio.sleep(0.05)
    expired = await Holder(admin.http, short["code"]).get("/v1/granted")
    async with database.system() as conn:
        row = next(each for each in await tenants_and_actors.list_tenants(conn) if each.tenant_id == tenant)
    await tenants_and_actors.set_tenant_active(database, row, active=False, act=Act(None, clock.now()))
    orphaned = await holder.view(plain.model)

    assert (too_long.status_code, mixed.status_code) == (422, 422)
    assert [(each.status_code, each.json()["error"]["details"]["reason"]) for each in (expired, orphaned)] == [
        (401, "ended"),
        (401, "ended"),
    ]


async def test_reading_and_asking_are_limited_and_what_is_sent_is_checked(
    admin: Api, plain: IssuedPassports, visitor: httpx2.AsyncClient
) -> None:
    address = f"/p/{plain.model}/access"
    wrong_forms = [
        ASKED | {"name": " "},
        ASKED | {"audience": "tenant"},
        ASKED | {"purpose": "x" * 4097},
        ASKED | {"evidence": "\0"},
    ]
    wrong = [await visitor.post(f"{address}/requests", data=form) for form in wrong_forms]
    large = await visitor.post(f"{address}/requests", content=b"x" * 40_000)
    asked = [(await visitor.post(f"{address}/requests", data=ASKED)).status_code for _ in range(ASKER_BURST + 1)]
    _, holder = await open_grant(admin)
    reads = [(await holder.get("/v1/granted")).status_code for _ in range(READ_BURST + 5)]
    codes = [(await visitor.post(address, data={"code": code})).status_code for code in ("", "bpg_x", "<b>")]

    assert [answer.status_code for answer in wrong] == [422] * 4
    assert "Something is missing" in wrong[0].text
    assert "dismantling &lt;b&gt;safely&lt;/b&gt;" in wrong[0].text, "what was written is still there, as text"
    assert large.status_code == 413
    assert (asked[:-1], asked[-1]) == ([200] * ASKER_BURST, 429)
    assert reads[:10] == [200] * 10
    assert 429 in reads
    assert codes == [401, 401, 401]
