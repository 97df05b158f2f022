"""The resolver of GS1 Digital Links: one test for each criterion that GS1 publishes for a conformant resolver."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest

from bpc.api.http.request_context import Service
from bpc.api.pages.negotiation import VOCABULARY
from bpc.core.audit.events import Act
from bpc.core.formats.ids import TenantId
from bpc.storage.database import Database
from tests.api.conftest import Api
from tests.api.passport_fixtures import create_passport_inputs, issue_version

GTIN = "09521234000013"
MODEL = f"/01/{GTIN}"
BATCH = f"{MODEL}/10/B1"
ITEM = f"{MODEL}/21/A1"
LINKSET = "application/linkset+json"
LINKSET_SCHEMA = Path(__file__).parent / "linkset.schema.json"
STEP = {"effective_on": "2025-09-01", "performed_by": "GLN:9521234000006", "reason": "worn"}


@dataclass(frozen=True)
class Resolver:
    """Somebody who scans, and what there is to scan: a model, a batch and two batteries, one with a slash."""

    http: httpx2.AsyncClient
    passport: str
    product: str
    root: str = "http://bpc.test"

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.http.get(path, headers={name.replace("_", "-"): text for name, text in headers.items()})

    async def get_links(self, path: str) -> list[dict[str, Any]]:
        contexts: list[dict[str, Any]] = (await self.get(path, accept=LINKSET)).json()["linkset"]
        return contexts


@pytest.fixture
async def resolver(admin: Api, service: Service, database: Database, tenant: TenantId, act: Act) -> Resolver:
    inputs = await create_passport_inputs(admin, database, tenant, act)
    version = await issue_version(admin, service, inputs)
    await admin.post_json(f"/v1/passport-versions/{version}/activate", {}, status=200)
    passport = await admin.get_json(f"/v1/passports/{inputs.passport}")
    product = passport["battery_product_id"]
    identification = {"scheme": "GS1", "gtin": GTIN}
    await admin.send("PUT", f"/v1/battery-products/{product}/identification", identification)
    sku = (await admin.get_json(f"/v1/battery-products/{product}"))["sku"]
    for serial in ("A1", "A/2"):
        await admin.post_json("/v1/batteries", {"sku": sku, "serial_number": serial, "batch_number": "B1"})
    return Resolver(admin.http, inputs.passport, product)


async def test_a_get_of_a_model_redirects_to_its_page(resolver: Resolver) -> None:
    answer = await resolver.get(MODEL)

    assert (answer.status_code, answer.headers["location"]) == (307, f"{resolver.root}/p/{resolver.passport}")
    assert (await resolver.get(answer.headers["location"])).status_code == 200


async def test_a_head_says_what_a_get_says_without_a_body(resolver: Resolver) -> None:
    head, get = await resolver.http.head(MODEL), await resolver.get(MODEL)

    assert (head.status_code, head.headers["location"], head.content) == (307, get.headers["location"], b"")


async def test_options_names_the_methods(resolver: Resolver) -> None:
    answer = await resolver.http.options(ITEM)

    assert (answer.status_code, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
    assert "HEAD" in answer.headers["access-control-allow-methods"]


async def test_no_other_method_is_taken(resolver: Resolver) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert (await resolver.http.request(method, MODEL)).status_code == 405


async def test_any_page_may_read_any_answer_also_an_error(resolver: Resolver) -> None:
    for path in [MODEL, ITEM, f"{MODEL}/21/none", "/01/1", "/.well-known/gs1resolver"]:
        answer = await resolver.get(path, origin="https://shop.example")

        assert answer.headers["access-control-allow-origin"] == "*"
        assert "Link" in answer.headers["access-control-expose-headers"]


async def test_a_link_that_is_not_written_as_gs1_prescribes_is_400(resolver: Resolver) -> None:
    for path in [
        "/01/09521234000014",  # the check digit
        "/01/0952123400001",  # as 13 digits it has another check digit
        "/01/952123400001X",
        "/01/abc",
        "/01/",
        f"{MODEL}/foo",
        f"{MODEL}/21",
        f"{MODEL}/21/{'A' * 21}",
        f"{MODEL}/21/A%20B",
        f"{MODEL}/21/%C3%A9",
        f"{MODEL}/21/A1/10/B1",  # in another order
        f"{MODEL}/10/B1/10/B1",
        f"{MODEL}/8011/5",
        f"/01/x/01/{GTIN}",
    ]:
        answer = await resolver.get(path)

        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "VALIDATION_ERROR")
        assert "Digital Link" in answer.json()["error"]["message"]


async def test_a_link_that_names_nothing_is_404(resolver: Resolver) -> None:
    for path in ["/01/09521234000020", "/01/09521234000020/21/A1", f"{MODEL}/21/A9", f"{MODEL}/10/B9"]:
        assert (await resolver.get(path)).status_code == 404
        assert (await resolver.get(path, accept=LINKSET)).status_code == 404


async def test_an_error_is_never_200_in_any_form(resolver: Resolver) -> None:
    for path in ("/01/1", f"{MODEL}/21/A9", f"{MODEL}?linkType=gs1:recipeInfo"):
        for accept in ("text/html", "application/json", "application/ld+json", LINKSET, "*/*"):
            assert (await resolver.get(path, accept=accept)).status_code in {400, 404}


async def test_a_gtin_is_read_with_13_and_with_14_digits(resolver: Resolver) -> None:
    for gtin in ["9521234000013", "09521234000013"]:
        [context] = await resolver.get_links(f"/01/{gtin}")

        assert context["anchor"] == f"{resolver.root}{MODEL}"


async def test_a_slash_at_the_end_is_overlooked(resolver: Resolver) -> None:
    assert (await resolver.get(f"{MODEL}/")).headers["location"] == (await resolver.get(MODEL)).headers["location"]


async def test_a_serial_number_may_have_a_slash(resolver: Resolver, admin: Api) -> None:
    [battery] = (await admin.get_json("/v1/batteries:lookup?serial_number=A%2F2"))["items"]

    answer = await resolver.get(f"{MODEL}/21/A%2F2")

    assert answer.headers["location"] == f"{resolver.root}/p/{battery['battery_id']}"
    assert (await resolver.get("/p/a%2Fb")).status_code == 404


async def test_a_battery_leads_to_its_own_page_with_the_passport_of_its_model(resolver: Resolver, admin: Api) -> None:
    [battery] = (await admin.get_json("/v1/batteries:lookup?serial_number=A1"))["items"]

    answer = await resolver.get(ITEM)
    page = await resolver.get(answer.headers["location"], accept="text/html")

    assert answer.headers["location"] == f"{resolver.root}/p/{battery['battery_id']}"
    assert (page.status_code, "Serial number A1" in page.text) == (200, True)
    assert "This is the passport of its model." in page.text


async def test_a_batch_and_a_variant_walk_up_to_their_model(resolver: Resolver) -> None:
    for path in [BATCH, f"{MODEL}/22/2A", f"{MODEL}/22/2A/10/B1"]:
        answer = await resolver.get(path)

        assert answer.headers["location"] == f"{resolver.root}/p/{resolver.passport}"


async def test_a_battery_is_found_with_its_batch_and_not_with_another(resolver: Resolver) -> None:
    assert (await resolver.get(f"{BATCH}/21/A1")).status_code == 307
    assert (await resolver.get(f"{MODEL}/10/B2/21/A1")).status_code == 404


async def test_a_serial_number_that_nobody_registered_has_the_page_of_its_model_only_if_models_have_passports(
    resolver: Resolver, admin: Api, database: Database, tenant: TenantId
) -> None:
    assert (await resolver.get(f"{MODEL}/21/A9")).status_code == 404
    async with database.tenant(tenant) as conn:
        await conn.execute("UPDATE battery_identifications SET granularity = 'MODEL'")

    answer = await resolver.get(f"{MODEL}/21/A9")

    assert answer.headers["location"] == f"{resolver.root}/p/{resolver.passport}"


async def test_a_linkset_is_answered_to_its_link_type(resolver: Resolver) -> None:
    for query in ["linkType=linkset", "linkType=all"]:
        answer = await resolver.get(f"{MODEL}?{query}")

        assert (answer.status_code, answer.headers["content-type"]) == (200, LINKSET)
        assert list(answer.json()) == ["linkset"]


async def test_a_linkset_is_answered_to_its_media_type(resolver: Resolver) -> None:
    answer = await resolver.get(MODEL, accept=f"{LINKSET}, text/html;q=0.5")

    assert (answer.status_code, answer.headers["content-type"]) == (200, LINKSET)


async def test_a_linkset_is_one_of_rfc_9264(resolver: Resolver) -> None:
    schema = json.loads(LINKSET_SCHEMA.read_bytes())
    for path in (MODEL, f"{BATCH}/21/A1", f"/p/{resolver.passport}"):
        jsonschema.validate((await resolver.get(path, accept=LINKSET)).json(), schema, jsonschema.Draft202012Validator)
    for wrong in ({"href": "x"}, {"href": "https://a.example", "type": "html", "title": "A"}, {"title": "A"}):
        document = {"linkset": [{"anchor": "https://a.example", "itemDescription": "A", "alternate": [wrong]}]}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema, jsonschema.Draft202012Validator)


async def test_links_of_every_level_up_to_the_gtin_are_in_the_linkset(resolver: Resolver) -> None:
    anchors = [context["anchor"] for context in await resolver.get_links(ITEM)]

    assert anchors == [f"{resolver.root}{path}" for path in (ITEM, BATCH, MODEL)]


async def test_there_is_one_default_link_and_it_is_where_a_get_redirects_to(resolver: Resolver) -> None:
    for path in (MODEL, BATCH, ITEM):
        first = (await resolver.get_links(path))[0]
        [default] = first[f"{VOCABULARY}defaultLink"]

        assert default["href"] == (await resolver.get(path)).headers["location"]


async def test_every_linked_target_answers(resolver: Resolver) -> None:
    for context in await resolver.get_links(ITEM):
        lists = [links for name, links in context.items() if name not in {"anchor", "itemDescription"}]
        targets = [target for links in lists for target in links]
        for target in targets:
            answer = await resolver.get(target["href"], accept=target["type"])
            assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, target["type"])


async def test_a_type_of_link_redirects_to_that_link(resolver: Resolver) -> None:
    for name in ("gs1:masterData", f"{VOCABULARY}masterData", "https://gs1.org/voc/masterData"):
        answer = await resolver.http.get(MODEL, params={"linkType": name})

        assert answer.status_code == 307
        assert answer.headers["location"].endswith("/passport.jsonld")
    page = await resolver.http.get(MODEL, params={"linkType": "gs1:sustainabilityInfo"})
    assert page.headers["location"] == f"{resolver.root}/p/{resolver.passport}"


async def test_a_type_of_link_that_there_is_not_is_404(resolver: Resolver) -> None:
    for name in ["gs1:recipeInfo", "nonsense", "https://example.com/pip", ""]:
        assert (await resolver.http.get(MODEL, params={"linkType": name})).status_code == 404


async def test_the_query_is_passed_on_without_the_link_type(resolver: Resolver) -> None:
    answer = await resolver.get(f"{MODEL}?utm_source=a%26b&lang=de&linkType=gs1:pip&11=270218&11=270219")

    address, _, query = answer.headers["location"].partition("?")
    assert query == "utm_source=a%26b&lang=de&11=270218&11=270219"
    page = await resolver.get(answer.headers["location"])
    assert (page.status_code, page.headers["content-language"]) == (200, "de")
    assert address == f"{resolver.root}/p/{resolver.passport}"


async def test_every_answer_about_a_thing_says_where_its_linkset_is(resolver: Resolver) -> None:
    for path in (MODEL, ITEM, f"{MODEL}?linkType=linkset", f"/p/{resolver.passport}"):
        link = (await resolver.get(path)).headers["link"]

        assert 'rel="linkset"' in link
        assert 'rel="http://www.w3.org/ns/json-ld#context"' in link
        address = link.partition("<")[2].partition(">")[0]
        assert (await resolver.get(address)).headers["content-type"] == LINKSET


async def test_the_form_is_negotiated_where_a_link_leads_to(resolver: Resolver) -> None:
    for accept, media_type in [
        ("text/html", "text/html"),
        ("application/json", "application/json"),
        ("application/ld+json", "application/ld+json"),
    ]:
        for path in (MODEL, ITEM):
            address = (await resolver.get(path, accept=accept)).headers["location"]
            answer = await resolver.get(address, accept=accept)

            assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, media_type)
            assert "Accept" in answer.headers["vary"]


async def test_a_redirect_is_kept_for_seconds_and_a_linkset_has_a_tag(resolver: Resolver) -> None:
    redirect, links = await resolver.get(MODEL), await resolver.get(MODEL, accept=LINKSET)

    assert redirect.headers["cache-control"] == links.headers["cache-control"] == "public, max-age=10"
    again = await resolver.get(MODEL, accept=LINKSET, if_none_match=links.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


async def test_the_description_names_the_root_the_keys_and_the_types_of_links(resolver: Resolver) -> None:
    answer = await resolver.get("/.well-known/gs1resolver")

    assert answer.headers["content-type"] == "application/json"
    description = answer.json()
    assert description["resolverRoot"] == resolver.root
    assert description["supportedPrimaryKeys"] == ["01"]
    assert description["supportedLinkType"] == [{"namespace": VOCABULARY, "prefix": "gs1:"}]


async def test_a_battery_that_ended_says_so_for_ever_and_shows_the_way_on(resolver: Resolver, admin: Api) -> None:
    [battery] = (await admin.get_json("/v1/batteries:lookup?serial_number=A1"))["items"]
    path = f"/v1/batteries/{battery['battery_id']}"
    for step, body in (
        ("place-on-market", {"placed_on": "2025-01-01"}),
        ("declare-waste", STEP),
        ("recycle", {"effective_on": "2025-09-02", "performed_by": "GLN:9521234000006", "report": "R-1"}),
    ):
        await admin.post_json(f"{path}:{step}", body, status=200)

    address = (await resolver.get(ITEM)).headers["location"]
    page = await resolver.get(address, accept="text/html", accept_language="de")

    assert (page.status_code, "Diese Batterie wurde recycelt" in page.text) == (200, True)
    assert f'href="{resolver.root}/p/{resolver.passport}"' in page.text
    assert (await resolver.get(address, accept="application/json")).json()["ceased"] is True
    assert (await resolver.get_links(ITEM))[0]["anchor"] == f"{resolver.root}{ITEM}"


async def test_reading_writes_nothing_and_needs_no_key(
    resolver: Resolver, database: Database, tenant: TenantId
) -> None:
    count = "SELECT (SELECT count(*) FROM events), (SELECT string_agg(xmin::text, ' ') FROM batteries)"
    async with database.tenant(tenant) as conn:
        before = tuple(await conn.fetchrow(count) or ())
    for path in (MODEL, BATCH, ITEM, f"{MODEL}?linkType=all", "/01/1", f"/p/{resolver.passport}"):
        answer = await resolver.get(path)
        assert "set-cookie" not in answer.headers
    async with database.tenant(tenant) as conn:
        after = tuple(await conn.fetchrow(count) or ())

    assert before == after


async def test_what_is_not_public_yet_is_not_found_and_a_battery_says_that_it_is_registered(
    admin: Api, resolver: Resolver
) -> None:
    product = (await admin.post_json("/v1/battery-products", {"sku": "Q", "name": "Pack"}))["battery_product_id"]
    body = {"scheme": "GS1", "gtin": "09521234000020"}
    await admin.send("PUT", f"/v1/battery-products/{product}/identification", body)
    await admin.post_json("/v1/batteries", {"sku": "Q", "serial_number": "1"})

    assert (await resolver.get("/01/09521234000020")).status_code == 404
    address = (await resolver.get("/01/09521234000020/21/1")).headers["location"]
    page = await resolver.get(address, accept="text/html")
    assert (page.status_code, "Its passport is not public yet." in page.text) == (404, True)
    assert (await resolver.get(address, accept="application/json")).json()["ceased"] is False
