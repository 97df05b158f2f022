"""Battery products over HTTP: a SKU names one product, and only administrators add some."""

import pytest

from bpc.runtime import clock
from tests.api.conftest import Api


async def test_a_product_is_created_listed_and_found(admin: Api, auditor: Api) -> None:
    product = (await admin.post_json("/v1/battery-products", {"sku": "SKU-1", "name": "Cell"}))["battery_product_id"]

    listed = await auditor.get_json("/v1/battery-products")

    assert [item["battery_product_id"] for item in listed["items"]] == [product]
    answer = await auditor.get_json(f"/v1/battery-products/{product}")
    assert (answer["sku"], answer["name"], answer["is_active"]) == ("SKU-1", "Cell", True)


async def test_a_sku_that_is_taken_is_a_conflict_that_names_its_product(admin: Api, other_admin: Api) -> None:
    product = (await admin.post_json("/v1/battery-products", {"sku": "SKU-1", "name": "Cell"}))["battery_product_id"]

    again = await admin.post("/v1/battery-products", {"sku": "SKU-1", "name": "Another"})

    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert again.json()["error"]["details"] == {"battery_product_id": product}
    await other_admin.post_json("/v1/battery-products", {"sku": "SKU-1", "name": "Theirs"})


@pytest.mark.parametrize(
    "body",
    [
        {"sku": "", "name": "Cell"},
        {"sku": "S" * 201, "name": "Cell"},
        {"sku": "S", "name": "a\0b"},
        {"sku": "S"},
        {"sku": "S", "name": "Cell", "colour": "red"},
    ],
)
async def test_what_is_no_product_is_refused(admin: Api, body: dict[str, str]) -> None:
    refused = await admin.post("/v1/battery-products", body)

    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_only_administrators_add_products(officer: Api, auditor: Api) -> None:
    for api in (officer, auditor):
        refused = await api.post("/v1/battery-products", {"sku": "SKU-1", "name": "Cell"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")


async def test_pages_of_products_follow_each_other_without_gap_or_repeat(admin: Api) -> None:
    product_ids = [
        (await admin.post_json("/v1/battery-products", {"sku": f"SKU-{n}", "name": "Cell"}))["battery_product_id"]
        for n in range(5)
    ]

    seen, cursor = list[str](), ""
    while True:
        page = await admin.get_json(f"/v1/battery-products?limit=2{cursor}")
        seen += [item["battery_product_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"

    assert seen == product_ids[::-1]


async def test_a_product_of_another_tenant_is_like_one_that_does_not_exist(admin: Api, other_admin: Api) -> None:
    product = (await admin.post_json("/v1/battery-products", {"sku": "SKU-1", "name": "Cell"}))["battery_product_id"]

    foreign = await other_admin.get(f"/v1/battery-products/{product}")
    unknown = await other_admin.get(f"/v1/battery-products/{clock.new_id()}")

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json()["error"]["message"] == (
        f"there is no battery product `{product}`; list them with GET /v1/battery-products"
    )
    assert (await other_admin.get_json("/v1/battery-products"))["items"] == []
