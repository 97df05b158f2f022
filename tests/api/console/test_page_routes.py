"""Pages: for whoever is signed in, as the API answers to their actor, with forms that only their pages can send."""

import pytest
from fastapi import FastAPI

from bpc.api.console.page_routes import TOKEN_FIELD
from bpc.runtime import clock
from tests.api.conftest import Api
from tests.api.console.conftest import Browser


async def test_a_page_shows_what_the_api_answers(admin_browser: Browser) -> None:
    created = await admin_browser.send("/console/products", {"sku": "SKU-1", "name": "Traction <b>battery"})
    product = await admin_browser.show(created.headers["location"])
    products = await admin_browser.show("/console/products")

    assert "Traction &lt;b&gt;battery" in product
    assert "SKU-1" in products
    assert "GET /v1/battery-products" in products
    assert "bpc products list" in products


async def test_whoever_is_not_signed_in_signs_in_first_and_goes_on_there(app: FastAPI) -> None:
    browser = Browser(app)

    page = await browser.get("/console/products?q=75+kWh")
    part = await browser.get("/console/products", headers={"HX-Request": "true"})

    assert page.headers["location"] == "/console/sign-in?next=/console/products%3Fq%3D75%2BkWh"
    assert (part.status_code, part.headers["hx-redirect"]) == (401, "/console/sign-in")


async def test_the_api_does_not_know_the_cookie(admin_browser: Browser) -> None:
    answer = await admin_browser.http.get("/v1/battery-products")

    assert answer.status_code == 401


async def test_a_refusal_is_a_page_and_a_refused_part_is_a_notice(browsers: dict[str, Browser]) -> None:
    auditor = browsers["Auditor"]

    page = await auditor.send("/console/products", {"sku": "SKU-2", "name": "x"})
    part = await auditor.send("/console/products", {"sku": "SKU-2", "name": "x"}, headers={"HX-Request": "true"})
    unknown = await auditor.get("/console/nothing/here")

    assert (page.status_code, "tenant:admin" in page.text, "<nav" in page.text) == (403, True, True)
    assert part.text.startswith('<div class="notice notice-bad"')
    assert unknown.status_code == 404


async def test_a_form_sent_twice_has_one_effect(admin_browser: Browser, admin: Api) -> None:
    form = {"sku": "SKU-TWICE", "name": "x", "idempotency_key": str(clock.new_id())}

    answers = [await admin_browser.send("/console/products", form) for _ in range(2)]

    assert answers[0].headers["location"] == answers[1].headers["location"]
    assert len((await admin.get_json("/v1/battery-products?sku=SKU-TWICE"))["items"]) == 1


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({TOKEN_FIELD: ""}, {}),
        ({TOKEN_FIELD: "of another session"}, {}),
        ({}, {"Origin": "https://evil.example"}),
        ({}, {"Origin": "http://127.0.0.1:9999"}),
        ({}, {"Origin": "null"}),
        ({}, {"Origin": ""}),
    ],
)
async def test_a_form_from_elsewhere_does_nothing(
    browsers: dict[str, Browser], admin: Api, fields: dict[str, str], headers: dict[str, str]
) -> None:
    if fields.get(TOKEN_FIELD) == "of another session":
        fields = {TOKEN_FIELD: browsers["Auditor"].token}

    answer = await browsers["Admin"].send("/console/products", {"sku": "SKU-3", "name": "x", **fields}, headers=headers)

    assert answer.status_code == 403
    assert (await admin.get_json("/v1/battery-products"))["items"] == []


async def test_pages_speak_german(admin_browser: Browser) -> None:
    by_browser = await admin_browser.show("/console/products", headers={"Accept-Language": "de-AT,en;q=0.5"})
    await admin_browser.show("/console/products?lang=de")
    by_choice = await admin_browser.show("/console/products")

    assert "Noch keine Produkte" in by_browser
    assert "Noch keine Produkte" in by_choice
