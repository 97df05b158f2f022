"""Public pages over HTTP: anybody reads them without a key, in every state of a passport, and nothing is written."""

import json
import re
from html import unescape
from typing import Any

import httpx2
import pytest

from bpc.api.http.request_context import Service
from bpc.core.audit.events import Act
from bpc.core.audit.signing import Signer, derive_public_key
from bpc.core.formats.ids import TenantId
from bpc.core.verify.bundle import verify_view
from bpc.core.verify.status_step import StatusQuestion
from bpc.printing.web_page import CONTENT_SECURITY_POLICY, PAGE_LANGUAGES, load_assets
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyRing
from bpc.storage.database import Database
from bpc.tasks.status_lists import StatusPublisher, make_signer_source
from tests.api.conftest import KEY_ID, SEED, Api
from tests.api.passport_fixtures import PassportInputs, create_passport_inputs, issue_version

EVIDENCE = re.compile(r'<script type="application/json" id="evidence"[^>]*>(.*?)</script>', re.DOTALL)


@pytest.fixture
async def inputs(admin: Api, database: Database, tenant: TenantId, act: Act) -> PassportInputs:
    return await create_passport_inputs(admin, database, tenant, act)


@pytest.fixture
def visitor(admin: Api) -> httpx2.AsyncClient:
    """Somebody with a phone and without a key."""
    return admin.http


async def activate(admin: Api, service: Service, inputs: PassportInputs) -> str:
    version = await issue_version(admin, service, inputs)
    await admin.post_json(f"/v1/passport-versions/{version}/activate", {}, status=200)
    return version


async def count_events(database: Database, tenant: TenantId) -> int:
    async with database.tenant(tenant) as conn:
        return int(await conn.fetchval("SELECT count(*) FROM events"))


def read_evidence(html: str) -> Any:
    block = EVIDENCE.search(html)
    assert block is not None
    return json.loads(block[1])


async def test_a_passport_is_public_from_its_activation_on_and_its_address_outlives_its_versions(
    admin: Api, service: Service, inputs: PassportInputs, visitor: httpx2.AsyncClient
) -> None:
    address = f"/p/{inputs.passport}"
    assert (await visitor.get(address)).status_code == 404
    first = await issue_version(admin, service, inputs)
    assert (await visitor.get(address)).status_code == 404
    assert (await visitor.get(f"/p/{clock.new_id()}")).status_code == 404

    await admin.post_json(f"/v1/passport-versions/{first}/activate", {}, status=200)
    page = await visitor.get(address, headers={"Accept": "text/html"})
    assert page.status_code == 200, page.text
    assert read_evidence(page.text)["state"] == "in_force"

    second = await activate(admin, service, inputs)
    assert f"{address}/v/{second}/view.json" in (await visitor.get(address)).text
    older = (await visitor.get(f"{address}/v/{first}")).text
    assert read_evidence(older)["state"] == "superseded"
    assert "Superseded: a newer version of this passport is in force." in older
    assert re.search(rf'class="button" href="[^"]*{address}"', older)

    await admin.post_json(f"/v1/passport-versions/{second}/revoke", {"reason": "wrong"}, status=200)
    revoked = (await visitor.get(address)).text
    assert read_evidence(revoked)["state"] == "revoked"
    assert "Revoked: the issuer has withdrawn this passport." in revoked
    assert "wrong" not in revoked


async def test_a_page_carries_what_the_issuer_signed_about_its_status(
    admin: Api, service: Service, inputs: PassportInputs, visitor: httpx2.AsyncClient, database: Database
) -> None:
    publisher = StatusPublisher(
        database=database,
        open_signer=make_signer_source(service.settings, KeyRing({KEY_ID: Signer(SEED)}, service.settings)),
        base_url="https://passports.example",
    )
    version = await activate(admin, service, inputs)
    address = f"/p/{inputs.passport}"
    assert read_evidence((await visitor.get(address)).text)["status"] == {"list": None, "statements": []}

    await publisher.publish_due()
    before = read_evidence((await visitor.get(address)).text)["status"]
    first_list = await visitor.get(before["list"])
    await admin.post_json(f"/v1/passport-versions/{version}/revoke", {"reason": "wrong cell"}, status=200)
    await publisher.publish_due()
    after = read_evidence((await visitor.get(address)).text)["status"]

    view = (await visitor.get(f"{address}/v/{version}/view.json")).content
    second_list = await visitor.get(after["list"])
    for status, status_list, name in ((before, first_list, "in_force"), (after, second_list, "revoked")):
        assert status_list.headers["access-control-allow-origin"] == "*"
        documents = (*(text.encode() for text in status["statements"]), status_list.content)
        question = StatusQuestion(documents=documents, now=clock.now())
        assert verify_view(view, pins=[derive_public_key(SEED)], question=question).status.name == name
    assert [len(status["statements"]) for status in (before, after)] == [1, 2]


async def test_every_form_of_a_passport_is_negotiated_cached_and_open_to_other_pages(
    admin: Api, service: Service, inputs: PassportInputs, visitor: httpx2.AsyncClient
) -> None:
    version = await activate(admin, service, inputs)
    address = f"/p/{inputs.passport}"
    types = {
        "text/html": "text/html; charset=utf-8",
        "*/*": "text/html; charset=utf-8",
        "application/json": "application/json",
        "application/json;q=0.5, application/ld+json": "application/ld+json",
        "application/linkset+json": "application/linkset+json",
        "text/html;q=0, application/*": "application/json",
        "image/png": "text/html; charset=utf-8",
    }
    for accept, media_type in types.items():
        answer = await visitor.get(address, headers={"Accept": accept})

        assert (answer.status_code, answer.headers["content-type"]) == (200, media_type), accept
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["cache-control"] == "public, max-age=10"
        assert 'rel="linkset"' in answer.headers["link"]
        assert "Accept" in answer.headers["vary"]
        assert "set-cookie" not in answer.headers
        again = await visitor.get(address, headers={"Accept": accept, "If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    view = (await visitor.get(address, headers={"Accept": "application/json"})).content
    assert verify_view(view, pins=[derive_public_key(SEED)]).ok
    stored = await visitor.get(f"{address}/v/{version}/view.json")
    assert stored.content == view
    assert stored.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (await visitor.get(f"{address}/v/{version}/passport.tlog-proof")).status_code == 404
    assert (await visitor.get(f"{address}/v/{clock.new_id()}/view.json")).status_code == 404
    head = await visitor.head(address)
    assert (head.status_code, head.content) == (200, b"")
    options = await visitor.options(address)
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert "GET" in options.headers["access-control-allow-methods"]


async def test_links_are_those_of_a_gs1_resolver(
    admin: Api, service: Service, inputs: PassportInputs, visitor: httpx2.AsyncClient
) -> None:
    await activate(admin, service, inputs)
    address = f"/p/{inputs.passport}"

    description = (await visitor.get("/.well-known/gs1resolver")).json()
    [links] = (await visitor.get(address, params={"linkType": "all"})).json()["linkset"]

    assert description["resolverRoot"].startswith("http")
    assert links["anchor"] == f"{description['resolverRoot']}{address}"
    default = links["https://ref.gs1.org/voc/defaultLink"]
    assert [link["href"] for link in default] == [links["anchor"]]
    assert {link["type"] for link in links["alternate"]} == {"application/json", "application/ld+json"}
    for name, kind in (("gs1:pip", "text/html"), ("https://ref.gs1.org/voc/masterData", "application/ld+json")):
        answer = await visitor.get(address, params={"linkType": name})
        assert answer.headers["content-type"].startswith(kind)
    for wrong in ("gs1:recipeInfo", "nonsense"):
        assert (await visitor.get(address, params={"linkType": wrong})).status_code == 404
    assert (await visitor.get("/p/not-an-id")).status_code in {400, 404, 422}
    assert (await visitor.post(address)).status_code == 405


async def test_a_page_names_every_public_field_and_no_other_and_loads_nothing_from_elsewhere(
    admin: Api,
    service: Service,
    inputs: PassportInputs,
    visitor: httpx2.AsyncClient,
    database: Database,
    tenant: TenantId,
) -> None:
    await activate(admin, service, inputs)
    view = (await visitor.get(f"/p/{inputs.passport}", headers={"Accept": "application/json"})).json()
    before = await count_events(database, tenant)

    for language in PAGE_LANGUAGES:
        answer = await visitor.get(f"/p/{inputs.passport}", params={"lang": language})

        assert answer.headers["content-language"] == language
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        html = answer.text
        public_paths = {field["data"]["path"] for field in view["fields"]}
        shown = dict(re.findall(r'data-path="([^"]*)" data-signed="([^"]*)"', html))
        assert shown.keys() <= public_paths
        assert shown
        values = {field["data"]["path"]: field["data"]["value"] for field in view["fields"]}
        assert {path: json.loads(unescape(text)) for path, text in shown.items()} == {
            path: values[path] for path in shown
        }
        loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="([^"]*)"', html)
        assert [url for url in loaded if not url.startswith(("/", "http://bpc.test/"))] == []
        assert " style=" not in html
        assert " onclick" not in html
        for asset in re.findall(r'(?:src|href)="(/page-assets/[^"]*)"', html):
            assert (await visitor.get(asset)).status_code == 200
    german = await visitor.get(f"/p/{inputs.passport}", headers={"Accept-Language": "ga, de-AT;q=0.8, en;q=0.5"})
    assert german.headers["content-language"] == "de"

    assert await count_events(database, tenant) == before
    assert (await visitor.get("/page-assets/page.js")).status_code == 404


async def test_the_page_that_checks_files_offers_this_installations_keys(visitor: httpx2.AsyncClient) -> None:
    page = await visitor.get("/verify", params={"lang": "fr"})

    assert page.status_code == 200
    assert "Vérifier un passeport" in page.text
    assert json.loads(unescape(page.text.split("<textarea")[1].split(">", 1)[1].split("</textarea>")[0]))["keys"]
    assert all(asset.name in page.text for asset in load_assets().values())
